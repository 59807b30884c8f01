/* SPDX-License-Identifier: BSD-3-Clause */
/* What Open MPI finds when it loads mca_pml_via.so: the component, and the module that it gives to
 * whoever asked for it by `--mca pml via`. */
#include <limits.h>

#include <ompi_config.h>

#include <ompi/mca/pml/base/base.h>
#include <ompi/mca/pml/pml.h>

#include "openmpi/asked_for.h"
#include "openmpi/calls.h"

static int ft_event(int state) {
    (void)state;
    return OMPI_SUCCESS;
}

static mca_pml_base_module_t module = {
    .pml_add_procs = via_pml_add_procs,
    .pml_del_procs = via_pml_del_procs,
    .pml_enable = via_pml_enable,
    .pml_progress = NULL, /* registered by itself */
    .pml_add_comm = via_pml_add_comm,
    .pml_del_comm = via_pml_del_comm,
    .pml_irecv_init = via_pml_irecv_init,
    .pml_irecv = via_pml_irecv,
    .pml_recv = via_pml_recv,
    .pml_isend_init = via_pml_isend_init,
    .pml_isend = via_pml_isend,
    .pml_send = via_pml_send,
    .pml_iprobe = via_pml_iprobe,
    .pml_probe = via_pml_probe,
    .pml_start = via_pml_start_requests,
    .pml_improbe = via_pml_improbe,
    .pml_mprobe = via_pml_mprobe,
    .pml_imrecv = via_pml_imrecv,
    .pml_mrecv = via_pml_mrecv,
    .pml_dump = via_pml_dump,
    .pml_ft_event = ft_event,
    .pml_max_contextid = UINT32_MAX,
    .pml_max_tag = INT_MAX,
    .pml_flags = 0,
};

static mca_pml_base_module_t* initialize(int* priority, bool progress_threads, bool mpi_threads) {
    (void)progress_threads;
    (void)mpi_threads; /* any number: the device has a lock */
    if (!via_asked_for() || !via_pml_start()) return NULL;
    *priority = 100;
    return &module;
}

mca_pml_base_component_2_0_0_t mca_pml_via_component = {
    .pmlm_version =
        {
            MCA_PML_BASE_VERSION_2_0_0,
            .mca_component_name = "via",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                                  OMPI_RELEASE_VERSION),
        },
    .pmlm_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
    .pmlm_init = initialize,
    .pmlm_finalize = via_pml_end,
};
