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

int error_of(mvich::Status status) noexcept {
    switch (status) {
        case mvich::Status::Ok:
        case mvich::Status::Cancelled:
            return MPI_SUCCESS;
        case mvich::Status::Truncated:
            return MPI_ERR_TRUNCATE;
        default:
            return MPI_ERR_OTHER;
    }
}

void fill(ompi_status_public_t& status, const mvich::Completion& completion) noexcept {
    status.MPI_SOURCE = static_cast<int>(completion.data);
    status.MPI_TAG = tag_of(completion.tag);
    status._ucount = completion.length;
    status._cancelled = completion.status == mvich::Status::Cancelled;
}

RequestPool::RequestPool() {
    OBJ_CONSTRUCT(&list_, opal_free_list_t);
    opal_free_list_init(&list_, sizeof(Request), opal_cache_line_size, OBJ_CLASS(Request), 0,
                        opal_cache_line_size, 0, -1, 64, nullptr, 0, nullptr, nullptr, nullptr);
}

RequestPool::~RequestPool() {
    OBJ_DESTRUCT(&list_);
}

Request* RequestPool::take(Request::Kind kind, ompi_communicator_t& comm, bool persistent) {
    auto* const request = reinterpret_cast<Request*>(opal_free_list_get(&list_));
    if (request == nullptr) return nullptr;
    OMPI_REQUEST_INIT(&request->super, persistent);
    if (!persistent) request->super.req_state = OMPI_REQUEST_ACTIVE;
    request->super.req_status.MPI_ERROR = MPI_SUCCESS;
    request->super.req_status._cancelled = 0;
    request->super.req_mpi_object.comm = &comm;
    OBJ_RETAIN(&comm);
    request->kind = kind;
    request->state = persistent ? 0 : request_posted;
    return request;
}

void RequestPool::give_back(Request& request) noexcept {
    OMPI_REQUEST_FINI(&request.super);
    OBJ_RELEASE(request.super.req_mpi_object.comm);
    if (request.holds_datatype) [[unlikely]] {
        OBJ_RELEASE(request.layout.datatype);
        request.holds_datatype = false;
    }
    opal_free_list_return(&list_, &request.super.super);
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

void settle(Request& request, const mvich::Completion& completion) noexcept {
    ompi_status_public_t& status = request.super.req_status;
    status.MPI_ERROR = error_of(completion.status);
    if (request.kind == Request::Kind::Receive) {
        fill(status, completion);
    } else {
        // MPI leaves it open what a send's status says, but Open MPI's windows look at it.
        status.MPI_SOURCE = request.super.req_mpi_object.comm->c_my_rank;
        status.MPI_TAG = tag_of(request.word);
        status._ucount = request.layout.bytes();
        status._cancelled = completion.status == mvich::Status::Cancelled;
    }
    if (request.packed == nullptr) [[likely]]
        return;
    if (request.kind == Request::Kind::Receive)
        request.layout.unpack(request.packed, completion.length);
    if (request.packed_is_users)
        mca_pml_base_bsend_request_free(request.packed);
    else
        std::free(request.packed);
    request.packed = nullptr;
}

void finish(RequestPool& pool, Request& request) noexcept {
    bool completes = true;
    if (const auto callback = request.super.req_complete_cb; callback != nullptr) [[unlikely]] {
        request.super.req_complete_cb = nullptr;  // it may set another, and may free the request
        completes = callback(&request.super) == OMPI_SUCCESS;
    }
    const std::int32_t before = OPAL_THREAD_FETCH_AND32(&request.state, ~request_posted);
    if ((before & request_freed) != 0) [[unlikely]]
        pool.give_back(request);
    else if (completes)
        ompi_request_complete(&request.super, true);  // from here on it may be anybody's
}

}  // namespace via::openmpi
