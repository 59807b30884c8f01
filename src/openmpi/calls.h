/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls by which Open MPI uses us, as its PML framework names them. Its tables of them are C
 * (component.c), the calls themselves C++. */
#ifndef VIA_OPENMPI_CALLS_H
#define VIA_OPENMPI_CALLS_H

#include <stdbool.h>
#include <stddef.h>

#include <mpi.h>
/* mpi.h before these, which need its types. */
#include <ompi/mca/pml/pml_constants.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ompi_communicator_t;
struct ompi_datatype_t;
struct ompi_message_t;
struct ompi_proc_t;
struct ompi_request_t;
struct ompi_status_public_t;

/* False: it can not work here, and has said why. */
bool via_pml_start(void);
int via_pml_end(void);

int via_pml_add_procs(struct ompi_proc_t** procs, size_t count);
int via_pml_del_procs(struct ompi_proc_t** procs, size_t count);
int via_pml_enable(bool enable);
int via_pml_progress(void);
int via_pml_add_comm(struct ompi_communicator_t* comm);
int via_pml_del_comm(struct ompi_communicator_t* comm);

int via_pml_send(const void* buffer, size_t count, struct ompi_datatype_t* datatype, int to,
                 int tag, mca_pml_base_send_mode_t mode, struct ompi_communicator_t* comm);
int via_pml_isend(const void* buffer, size_t count, struct ompi_datatype_t* datatype, int to,
                  int tag, mca_pml_base_send_mode_t mode, struct ompi_communicator_t* comm,
                  struct ompi_request_t** request);
int via_pml_isend_init(const void* buffer, size_t count, struct ompi_datatype_t* datatype, int to,
                       int tag, mca_pml_base_send_mode_t mode, struct ompi_communicator_t* comm,
                       struct ompi_request_t** request);

int via_pml_recv(void* buffer, size_t count, struct ompi_datatype_t* datatype, int from, int tag,
                 struct ompi_communicator_t* comm, struct ompi_status_public_t* status);
int via_pml_irecv(void* buffer, size_t count, struct ompi_datatype_t* datatype, int from, int tag,
                  struct ompi_communicator_t* comm, struct ompi_request_t** request);
int via_pml_irecv_init(void* buffer, size_t count, struct ompi_datatype_t* datatype, int from,
                       int tag, struct ompi_communicator_t* comm, struct ompi_request_t** request);
int via_pml_start_requests(size_t count, struct ompi_request_t** requests);

int via_pml_iprobe(int from, int tag, struct ompi_communicator_t* comm, int* matched,
                   struct ompi_status_public_t* status);
int via_pml_probe(int from, int tag, struct ompi_communicator_t* comm,
                  struct ompi_status_public_t* status);
int via_pml_improbe(int from, int tag, struct ompi_communicator_t* comm, int* matched,
                    struct ompi_message_t** message, struct ompi_status_public_t* status);
int via_pml_mprobe(int from, int tag, struct ompi_communicator_t* comm,
                   struct ompi_message_t** message, struct ompi_status_public_t* status);
int via_pml_imrecv(void* buffer, size_t count, struct ompi_datatype_t* datatype,
                   struct ompi_message_t** message, struct ompi_request_t** request);
int via_pml_mrecv(void* buffer, size_t count, struct ompi_datatype_t* datatype,
                  struct ompi_message_t** message, struct ompi_status_public_t* status);

int via_pml_dump(struct ompi_communicator_t* comm, int verbose);

#ifdef __cplusplus
}
#endif
#endif
