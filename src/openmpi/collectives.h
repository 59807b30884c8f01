/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls by which Open MPI uses our collectives, as its COLL framework names them. Its tables of
 * them are C (coll_component.c), the calls themselves C++. */
#ifndef VIA_OPENMPI_COLLECTIVES_H
#define VIA_OPENMPI_COLLECTIVES_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mca_coll_base_module_2_3_0_t;
struct ompi_communicator_t;
struct ompi_datatype_t;
struct ompi_op_t;

bool via_coll_can_work(void);
/* Null: they are not for this communicator. */
struct mca_coll_base_module_2_3_0_t* via_coll_query(struct ompi_communicator_t* comm,
                                                    int* priority);
int via_coll_enable(struct mca_coll_base_module_2_3_0_t* module, struct ompi_communicator_t* comm);
int via_coll_allreduce(const void* from, void* to, int count, struct ompi_datatype_t* datatype,
                       struct ompi_op_t* operation, struct ompi_communicator_t* comm,
                       struct mca_coll_base_module_2_3_0_t* module);
int via_coll_barrier(struct ompi_communicator_t* comm, struct mca_coll_base_module_2_3_0_t* module);

#ifdef __cplusplus
}
#endif

#endif
