// SPDX-License-Identifier: BSD-3-Clause
#include "openmpi/receive.hpp"

#include <algorithm>
#include <utility>

#include "openmpi/calls.h"

namespace via::openmpi {
namespace {

using mvich::Posted;

Request* make(Module& module, const Layout& layout, const Pattern& pattern,
              ompi_communicator_t& comm, bool persistent) {
    Request* const request = module.requests().take(Request::Kind::Receive, comm, persistent);
    if (request == nullptr) return nullptr;
    request->layout = layout;
    request->peer = pattern.from;
    request->word = pattern.word;
    request->ignore = pattern.ignore;
    return request;
}

/// A receive into one piece.
[[gnu::always_inline]] inline bool post_piece(Module& module, const Layout& layout,
                                              const Pattern& pattern, void* context, Context kind) {
    const iovec piece{layout.begin(), layout.bytes()};
    return module.endpoint().receive({.from = pattern.from,
                                      .tag = pattern.word,
                                      .ignore = pattern.ignore,
                                      .pieces = {&piece, 1},
                                      .cookie = {context, static_cast<std::uint64_t>(kind)}}) ==
           Posted::UnderWay;
}

}  // namespace

int post_receive(Module& module, Request& request, bool claimed) {
    iovec piece{nullptr, request.layout.bytes()};
    if (request.layout.is_one_piece()) [[likely]] {
        piece.iov_base = request.layout.begin();
    } else {
        request.packed = std::malloc(std::max<std::size_t>(piece.iov_len, 1));
        if (request.packed == nullptr) return OMPI_ERR_OUT_OF_RESOURCE;
        request.packed_is_users = false;
        if (!request.holds_datatype) hold_datatype(request);
        piece.iov_base = request.packed;
    }
    const mvich::ReceiveOrder order{
        .from = request.peer,
        .tag = request.word,
        .ignore = request.ignore,
        .pieces = {&piece, 1},
        .cookie = {&request, static_cast<std::uint64_t>(Context::Request)}};
    const Posted posted =
        claimed ? module.endpoint().claimed_receive(order) : module.endpoint().receive(order);
    if (posted == Posted::UnderWay) [[likely]]
        return OMPI_SUCCESS;
    std::free(std::exchange(request.packed, nullptr));
    return OMPI_ERROR;
}

[[gnu::noinline]] int receive_by_request(Module& module, const Layout& layout,
                                         const Pattern& pattern, ompi_communicator_t& comm,
                                         ompi_status_public_t* status) {
    Request* const request = make(module, layout, pattern, comm, false);
    if (request == nullptr) return OMPI_ERR_OUT_OF_RESOURCE;
    if (const int posted = post_receive(module, *request, false); posted != OMPI_SUCCESS) {
        module.requests().give_back(*request);
        return posted;
    }
    return wait_and_free(module, *request, status);
}

int wait_and_free(Module& module, Request& request, ompi_status_public_t* status) {
    module.wait_for(request);
    const ompi_status_public_t& found = request.super.req_status;
    const int outcome = found.MPI_ERROR;
    if (status != MPI_STATUS_IGNORE) OMPI_COPY_STATUS(status, found, false);
    ompi_request_t* handle = &request.super;
    ompi_request_free(&handle);
    return outcome;
}

}  // namespace via::openmpi

using namespace via::openmpi;
using via::mvich::Peer;

int via_pml_recv(void* buffer, size_t count, ompi_datatype_t* datatype, int from, int tag,
                 ompi_communicator_t* comm, ompi_status_public_t* status) {
    Module& module = Module::get();
    const Layout layout{buffer, count, datatype};
    const Peer peer = module.peers().find_source(*comm, from);
    if (peer == via::mvich::unknown_peer) [[unlikely]]
        return OMPI_ERR_UNREACH;
    const Pattern pattern(peer, *comm, tag);
    if (opal_using_threads() || !layout.is_one_piece()) [[unlikely]]
        return receive_by_request(module, layout, pattern, *comm, status);
    Awaited awaited;
    if (!post_piece(module, layout, pattern, &awaited, Context::Awaited)) [[unlikely]]
        return OMPI_ERROR;
    module.wait_until([&] { return awaited.is_done.load(std::memory_order_acquire); });
    if (status != MPI_STATUS_IGNORE) fill(*status, awaited.completion);
    return error_of(awaited.completion.status);
}

int via_pml_irecv(void* buffer, size_t count, ompi_datatype_t* datatype, int from, int tag,
                  ompi_communicator_t* comm, ompi_request_t** handle) {
    Module& module = Module::get();
    const Layout layout{buffer, count, datatype};
    const Peer peer = module.peers().find_source(*comm, from);
    if (peer == via::mvich::unknown_peer) [[unlikely]]
        return OMPI_ERR_UNREACH;
    const Pattern pattern(peer, *comm, tag);
    int posted;
    Request* request;
    if (layout.is_one_piece()) [[likely]] {
        // Nothing of it is needed again.
        request = module.requests().take(Request::Kind::Receive, *comm, false);
        if (request == nullptr) [[unlikely]]
            return OMPI_ERR_OUT_OF_RESOURCE;
        posted = post_piece(module, layout, pattern, request, Context::Request) ? OMPI_SUCCESS
                                                                                : OMPI_ERROR;
    } else {
        request = make(module, layout, pattern, *comm, false);
        if (request == nullptr) return OMPI_ERR_OUT_OF_RESOURCE;
        posted = post_receive(module, *request, false);
    }
    *handle = &request->super;
    if (posted != OMPI_SUCCESS) [[unlikely]] {
        module.requests().give_back(*request);
        *handle = MPI_REQUEST_NULL;
    }
    return posted;
}

int via_pml_irecv_init(void* buffer, size_t count, ompi_datatype_t* datatype, int from, int tag,
                       ompi_communicator_t* comm, ompi_request_t** handle) {
    Module& module = Module::get();
    const Peer peer = module.peers().find_source(*comm, from);
    if (peer == via::mvich::unknown_peer) [[unlikely]]
        return OMPI_ERR_UNREACH;
    Request* const request =
        make(module, {buffer, count, datatype}, Pattern(peer, *comm, tag), *comm, true);
    if (request == nullptr) return OMPI_ERR_OUT_OF_RESOURCE;
    hold_datatype(*request);
    *handle = &request->super;
    return OMPI_SUCCESS;
}

int via_pml_start_requests(size_t count, ompi_request_t** handles) {
    Module& module = Module::get();
    for (size_t i = 0; i < count; ++i) {
        if (handles[i] == nullptr || handles[i]->req_type != OMPI_REQUEST_PML) continue;
        Request& request = *reinterpret_cast<Request*>(handles[i]);
        reactivate(request);
        const int outcome = request.kind == Request::Kind::Send
                                ? start_send(module, request)
                                : post_receive(module, request, false);
        if (outcome == OMPI_SUCCESS) continue;
        request.super.req_status.MPI_ERROR = outcome;
        finish(module.requests(), request);
        return outcome;
    }
    return OMPI_SUCCESS;
}
