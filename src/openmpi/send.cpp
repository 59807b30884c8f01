// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <utility>

#include "openmpi/calls.h"
#include "openmpi/receive.hpp"

namespace via::openmpi {
namespace {

using mvich::Posted;

constexpr std::uint32_t with_rank = mvich::order_has_data;

/// A short message in one piece, left behind in the call.
[[gnu::always_inline]] inline bool send_at_once(Module& module, const Layout& layout,
                                                mvich::Peer to, int tag,
                                                const ompi_communicator_t& comm) {
    const iovec piece{layout.begin(), layout.bytes()};
    return module.endpoint().send({.to = to,
                                   .flags = with_rank | mvich::order_inject,
                                   .tag = word_of(comm, tag),
                                   .data = static_cast<std::uint64_t>(comm.c_my_rank),
                                   .pieces = {&piece, 1},
                                   .cookie = {}}) == Posted::Done;
}

[[nodiscard]] bool may_be_left_behind(const Module& module, const Layout& layout,
                                      mca_pml_base_send_mode_t mode) noexcept {
    return mode != MCA_PML_BASE_SEND_SYNCHRONOUS && mode != MCA_PML_BASE_SEND_BUFFERED &&
           layout.bytes() <= module.inject_bytes() && layout.is_one_piece();
}

/// Posts what the request says. If it fails nothing is under way, and the request is as before.
int post(Module& module, Request& request) {
    const ompi_communicator_t& comm = *request.super.req_mpi_object.comm;
    iovec piece{nullptr, request.layout.bytes()};
    if (request.packed == nullptr && !request.layout.is_one_piece()) {
        request.packed = std::malloc(std::max<std::size_t>(piece.iov_len, 1));
        if (request.packed == nullptr) return OMPI_ERR_OUT_OF_RESOURCE;
        request.packed_is_users = false;
        request.layout.pack(request.packed);
    }
    // MPI leaves it open what a send's status says, but Open MPI's windows look at it.
    request.super.req_status.MPI_SOURCE = comm.c_my_rank;
    request.super.req_status.MPI_TAG = tag_of(request.word);
    request.super.req_status._ucount = piece.iov_len;
    piece.iov_base = request.packed != nullptr ? request.packed : request.layout.begin();
    const bool synchronous = request.mode == MCA_PML_BASE_SEND_SYNCHRONOUS;
    for (;;) {
        const Posted posted = module.endpoint().send(
            {.to = request.peer,
             .flags = with_rank | (synchronous ? mvich::order_matched : 0),
             .tag = request.word,
             .data = static_cast<std::uint64_t>(comm.c_my_rank),
             .pieces = {&piece, 1},
             .cookie = {&request, static_cast<std::uint64_t>(Context::Request)}});
        switch (posted) {
            case Posted::UnderWay:
                return OMPI_SUCCESS;
            case Posted::Done:
                settle(request, {});
                finish(module.requests(), request);
                return OMPI_SUCCESS;
            case Posted::Again:
                opal_progress();
                break;
            default:
                if (!request.packed_is_users) std::free(std::exchange(request.packed, nullptr));
                return OMPI_ERR_UNREACH;
        }
    }
}

Request* make(Module& module, const Layout& layout, mvich::Peer to, int tag,
              mca_pml_base_send_mode_t mode, ompi_communicator_t& comm, bool persistent) {
    Request* const request = module.requests().take(Request::Kind::Send, comm, persistent);
    if (request == nullptr) return nullptr;
    request->mode = mode;
    request->layout = layout;
    request->peer = to;
    request->word = word_of(comm, tag);
    return request;
}

/// Its bytes go into the buffer that the user attached, and the program goes on.
int send_buffered(Module& module, const Layout& layout, mvich::Peer to, int tag,
                  ompi_communicator_t& comm) {
    void* const packed = mca_pml_base_bsend_request_alloc_buf(layout.bytes());
    if (packed == nullptr) return MPI_ERR_BUFFER;
    Request* const request = make(module, layout, to, tag, MCA_PML_BASE_SEND_STANDARD, comm, false);
    if (request == nullptr) {
        mca_pml_base_bsend_request_free(packed);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    layout.pack(packed);
    request->packed = packed;
    request->packed_is_users = true;
    request->state = request_posted | request_freed;  // nobody will ask for it
    const int outcome = post(module, *request);
    if (outcome != OMPI_SUCCESS) {
        request->packed = nullptr;
        mca_pml_base_bsend_request_free(packed);
        module.requests().give_back(*request);
    }
    return outcome;
}

[[gnu::noinline]] int isend_otherwise(Module& module, const Layout& layout, mvich::Peer to, int tag,
                                      mca_pml_base_send_mode_t mode, ompi_communicator_t& comm,
                                      ompi_request_t** handle) {
    if (to == mvich::unknown_peer) return OMPI_ERR_UNREACH;
    if (mode == MCA_PML_BASE_SEND_BUFFERED) {
        *handle = &ompi_request_empty;
        return send_buffered(module, layout, to, tag, comm);
    }
    Request* const request = make(module, layout, to, tag, mode, comm, false);
    if (request == nullptr) return OMPI_ERR_OUT_OF_RESOURCE;
    *handle = &request->super;
    const int outcome = post(module, *request);
    if (outcome != OMPI_SUCCESS) {
        module.requests().give_back(*request);
        *handle = MPI_REQUEST_NULL;
    }
    return outcome;
}

[[gnu::noinline]] int send_otherwise(Module& module, const Layout& layout, mvich::Peer to, int tag,
                                     mca_pml_base_send_mode_t mode, ompi_communicator_t& comm) {
    ompi_request_t* handle = nullptr;
    const int posted = isend_otherwise(module, layout, to, tag, mode, comm, &handle);
    if (posted != OMPI_SUCCESS || handle == &ompi_request_empty) return posted;
    module.wait_for(*reinterpret_cast<Request*>(handle));
    const int outcome = handle->req_status.MPI_ERROR;
    ompi_request_free(&handle);
    return outcome;
}

}  // namespace

int start_send(Module& module, Request& request) {
    if (request.mode != MCA_PML_BASE_SEND_BUFFERED) return post(module, request);
    const int outcome = send_buffered(module, request.layout, request.peer, tag_of(request.word),
                                      *request.super.req_mpi_object.comm);
    if (outcome != OMPI_SUCCESS) return outcome;
    settle(request, {});
    finish(module.requests(), request);
    return OMPI_SUCCESS;
}

}  // namespace via::openmpi

using namespace via::openmpi;
using via::mvich::Peer;

int via_pml_send(const void* buffer, size_t count, ompi_datatype_t* datatype, int to, int tag,
                 mca_pml_base_send_mode_t mode, ompi_communicator_t* comm) {
    Module& module = Module::get();
    const Layout layout{const_cast<void*>(buffer), count, datatype};
    const Peer peer = module.peers().find(*comm, to);
    if (may_be_left_behind(module, layout, mode) && send_at_once(module, layout, peer, tag, *comm))
        [[likely]]
        return OMPI_SUCCESS;
    return send_otherwise(module, layout, peer, tag, mode, *comm);
}

int via_pml_isend(const void* buffer, size_t count, ompi_datatype_t* datatype, int to, int tag,
                  mca_pml_base_send_mode_t mode, ompi_communicator_t* comm,
                  ompi_request_t** request) {
    Module& module = Module::get();
    const Layout layout{const_cast<void*>(buffer), count, datatype};
    const Peer peer = module.peers().find(*comm, to);
    if (may_be_left_behind(module, layout, mode) && send_at_once(module, layout, peer, tag, *comm))
        [[likely]] {
        *request = &ompi_request_empty;
        return OMPI_SUCCESS;
    }
    return isend_otherwise(module, layout, peer, tag, mode, *comm, request);
}

int via_pml_isend_init(const void* buffer, size_t count, ompi_datatype_t* datatype, int to, int tag,
                       mca_pml_base_send_mode_t mode, ompi_communicator_t* comm,
                       ompi_request_t** handle) {
    Module& module = Module::get();
    const Peer peer = module.peers().find(*comm, to);
    if (peer == via::mvich::unknown_peer) return OMPI_ERR_UNREACH;
    Request* const request =
        make(module, {const_cast<void*>(buffer), count, datatype}, peer, tag, mode, *comm, true);
    if (request == nullptr) return OMPI_ERR_OUT_OF_RESOURCE;
    hold_datatype(*request);
    *handle = &request->super;
    return OMPI_SUCCESS;
}
