// SPDX-License-Identifier: BSD-3-Clause
#include "openmpi/request.hpp"

#include "base/cpu.hpp"
#include "openmpi/calls.h"
#include "openmpi/module.hpp"

namespace via::openmpi {
namespace {

int free_request(ompi_request_t** handle) {
    Request& request = *reinterpret_cast<Request*>(*handle);
    *handle = MPI_REQUEST_NULL;
    if ((OPAL_THREAD_FETCH_OR32(&request.state, request_freed) & request_posted) == 0) {
        // Another thread may be about to say that it is complete.
        while (!REQUEST_COMPLETE(&request.super))
            base::cpu_relax();
        Module::get().requests().give_back(request);
    }
    return OMPI_SUCCESS;
}

int cancel_request(ompi_request_t* handle, int) {
    Module& module = Module::get();
    module.endpoint().cancel(handle);
    module.run_deferred();
    return OMPI_SUCCESS;
}

void construct(Request* request) {
    request->super.req_type = OMPI_REQUEST_PML;
    request->super.req_start = via_pml_start_requests;
    request->super.req_free = free_request;
    request->super.req_cancel = cancel_request;
    request->packed = nullptr;
    request->holds_datatype = false;
}

}  // namespace

OBJ_CLASS_INSTANCE(Request, ompi_request_t, construct, nullptr);

void settle_packed(Request& request, std::size_t received) noexcept {
    if (request.kind == Request::Kind::Receive) request.layout.unpack(request.packed, received);
    if (request.packed_is_users)
        mca_pml_base_bsend_request_free(request.packed);
    else
        std::free(request.packed);
    request.packed = nullptr;
}

RequestPool::RequestPool() {
    OBJ_CONSTRUCT(&list_, opal_free_list_t);
    const auto line = static_cast<std::size_t>(opal_cache_line_size);
    opal_free_list_init(&list_, sizeof(Request), line, OBJ_CLASS(Request), 0, line, 0, -1, 64,
                        nullptr, 0, nullptr, nullptr, nullptr);
}

RequestPool::~RequestPool() {
    OBJ_DESTRUCT(&list_);
}

void hold_datatype(Request& request) noexcept {
    OBJ_RETAIN(request.layout.datatype);
    request.holds_datatype = true;
}

void reactivate(Request& request) noexcept {
    request.super.req_state = OMPI_REQUEST_ACTIVE;
    request.super.req_complete = REQUEST_PENDING;
    request.super.req_status.MPI_ERROR = MPI_SUCCESS;
    request.super.req_status._cancelled = 0;
    request.state = request_posted;
}

}  // namespace via::openmpi
