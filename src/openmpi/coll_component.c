/* SPDX-License-Identifier: BSD-3-Clause */
/* What Open MPI finds when it loads mca_coll_via.so: the component that is asked at each new
 * communicator whether it has something for it. */
#include <ompi_config.h>

#include <ompi/mca/coll/coll.h>

#include "openmpi/asked_for.h"
#include "openmpi/collectives.h"

static int initialize(bool progress_threads, bool mpi_threads) {
    (void)progress_threads;
    (void)mpi_threads; /* any number: nothing is common to two communicators */
    return via_asked_for() && via_coll_can_work() ? OMPI_SUCCESS : OMPI_ERR_NOT_AVAILABLE;
}

mca_coll_base_component_2_0_0_t mca_coll_via_component = {
    .collm_version =
        {
            MCA_COLL_BASE_VERSION_2_0_0,
            .mca_component_name = "via",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                                  OMPI_RELEASE_VERSION),
        },
    .collm_data = {.param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .collm_init_query = initialize,
    .collm_comm_query = via_coll_query,
};
