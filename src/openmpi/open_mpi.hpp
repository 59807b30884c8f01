// SPDX-License-Identifier: BSD-3-Clause
// What we use of Open MPI's own headers (4.1, Debian's libopenmpi-dev has them). They are C, and
// their warnings are not ours.
#pragma once
#pragma GCC system_header

#include <ompi_config.h>

#include <opal/threads/thread_usage.h>
// In C a void* becomes any pointer by itself; the headers rely on it in this one place.
#undef OPAL_THREAD_COMPARE_EXCHANGE_STRONG_PTR
#define OPAL_THREAD_COMPARE_EXCHANGE_STRONG_PTR(word, expected, wanted)                     \
    opal_thread_compare_exchange_strong_ptr((volatile intptr_t*)(word), (void**)(expected), \
                                            (void*)(wanted))

#include <ompi/communicator/communicator.h>
#include <ompi/datatype/ompi_datatype.h>
#include <ompi/mca/coll/coll.h>
#include <ompi/mca/pml/base/base.h>
#include <ompi/mca/pml/base/pml_base_bsend.h>
#include <ompi/mca/pml/pml.h>
#include <ompi/message/message.h>
#include <ompi/proc/proc.h>
#include <ompi/request/request.h>
#include <opal/datatype/opal_convertor.h>
#include <opal/mca/pmix/pmix.h>
#include <opal/runtime/opal_progress.h>
