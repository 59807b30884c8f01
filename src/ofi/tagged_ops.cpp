// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/tagged_ops.hpp"

#include "ofi/domain.hpp"
#include "ofi/endpoint.hpp"
#include "ofi/info.hpp"
#include "ofi/look.hpp"

namespace via::ofi {
namespace {

using mvich::Cookie;
using mvich::ReceiveOrder;
using mvich::SendOrder;
using mvich::Space;

constexpr std::uint64_t sent = FI_SEND | FI_TAGGED;
constexpr std::uint64_t received = FI_RECV | FI_TAGGED;

ssize_t send_pieces(EndpointHandle& handle, std::span<const iovec> pieces, fi_addr_t to,
                    std::uint64_t tag, std::uint32_t flags, std::uint64_t data,
                    Cookie cookie) noexcept {
    return handle.send(SendOrder{.to = handle.peer(to),
                                 .space = Space::Tagged,
                                 .flags = flags,
                                 .tag = tag,
                                 .data = data,
                                 .pieces = pieces,
                                 .cookie = cookie});
}

ssize_t receive_pieces(EndpointHandle& handle, std::span<const iovec> pieces, fi_addr_t from,
                       std::uint64_t tag, std::uint64_t ignore, Cookie cookie) noexcept {
    return handle.receive(ReceiveOrder{.from = handle.source(from),
                                       .space = Space::Tagged,
                                       .tag = tag,
                                       .ignore = ignore,
                                       .pieces = pieces,
                                       .cookie = cookie});
}

iovec piece_of(const void* buffer, std::size_t bytes) noexcept {
    return {const_cast<void*>(buffer), bytes};
}

ssize_t receive(fid_ep* endpoint, void* buffer, std::size_t bytes, void*, fi_addr_t from,
                std::uint64_t tag, std::uint64_t ignore, void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    const iovec piece = piece_of(buffer, bytes);
    return receive_pieces(handle, {&piece, 1}, from, tag, ignore,
                          {context, received | handle.default_receive_completion});
}

ssize_t receive_vector(fid_ep* endpoint, const iovec* pieces, void**, std::size_t count,
                       fi_addr_t from, std::uint64_t tag, std::uint64_t ignore, void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    return receive_pieces(handle, {pieces, count}, from, tag, ignore,
                          {context, received | handle.default_receive_completion});
}

ReceiveOrder receive_order(const EndpointHandle& handle, const fi_msg_tagged& message,
                           std::uint64_t flags) noexcept {
    return {.from = handle.source(message.addr),
            .space = Space::Tagged,
            .tag = message.tag,
            .ignore = message.ignore,
            .pieces = {message.msg_iov, message.iov_count},
            .cookie = {message.context, received | handle.receive_completion(flags)}};
}

ssize_t receive_message(fid_ep* endpoint, const fi_msg_tagged* message, std::uint64_t flags) {
    EndpointHandle& handle = handle_of(endpoint);
    if (flags & ~((receive_flags & ~FI_MULTI_RECV) | look_flags | FI_TRIGGER)) return -FI_EBADFLAGS;
    const ReceiveOrder order = receive_order(handle, *message, flags);
    if ((flags & (look_flags | FI_TRIGGER)) == 0) return handle.receive(order);
    if (flags & FI_TRIGGER) return flags & look_flags ? -FI_EBADFLAGS : handle.defer(order);
    Endpoint& self = *handle.endpoint;
    if (self.wire() == nullptr) return -FI_EOPBADSTATE;
    return look(self.domain(), *self.wire(), order, flags,
                [&](const mvich::Completion& completion) { self.peeked(completion); });
}

ssize_t send(fid_ep* endpoint, const void* buffer, std::size_t bytes, void*, fi_addr_t to,
             std::uint64_t tag, void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    const iovec piece = piece_of(buffer, bytes);
    return send_pieces(handle, {&piece, 1}, to, tag, handle.send_order, 0,
                       {context, sent | handle.send_completion});
}

ssize_t send_vector(fid_ep* endpoint, const iovec* pieces, void**, std::size_t count, fi_addr_t to,
                    std::uint64_t tag, void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    return send_pieces(handle, {pieces, count}, to, tag, handle.send_order, 0,
                       {context, sent | handle.send_completion});
}

SendOrder send_order(const EndpointHandle& handle, const fi_msg_tagged& message,
                     std::uint64_t flags) noexcept {
    return {.to = handle.peer(message.addr),
            .space = Space::Tagged,
            .flags = order_flags(flags),
            .tag = message.tag,
            .data = message.data,
            .pieces = {message.msg_iov, message.iov_count},
            .cookie = {message.context, sent | handle.transmit_completion(flags)}};
}

ssize_t send_message(fid_ep* endpoint, const fi_msg_tagged* message, std::uint64_t flags) {
    EndpointHandle& handle = handle_of(endpoint);
    if (flags & ~(transmit_flags | FI_TRIGGER)) return -FI_EBADFLAGS;
    const SendOrder order = send_order(handle, *message, flags);
    return flags & FI_TRIGGER ? handle.defer(order) : handle.send(order);
}

ssize_t inject(fid_ep* endpoint, const void* buffer, std::size_t bytes, fi_addr_t to,
               std::uint64_t tag) {
    EndpointHandle& handle = handle_of(endpoint);
    const iovec piece = piece_of(buffer, bytes);
    return send_pieces(handle, {&piece, 1}, to, tag, handle.inject_order, 0, {nullptr, sent});
}

ssize_t send_with_data(fid_ep* endpoint, const void* buffer, std::size_t bytes, void*,
                       std::uint64_t data, fi_addr_t to, std::uint64_t tag, void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    const iovec piece = piece_of(buffer, bytes);
    return send_pieces(handle, {&piece, 1}, to, tag, handle.send_order | mvich::order_has_data,
                       data, {context, sent | handle.send_completion});
}

ssize_t inject_with_data(fid_ep* endpoint, const void* buffer, std::size_t bytes,
                         std::uint64_t data, fi_addr_t to, std::uint64_t tag) {
    EndpointHandle& handle = handle_of(endpoint);
    const iovec piece = piece_of(buffer, bytes);
    return send_pieces(handle, {&piece, 1}, to, tag, handle.inject_order | mvich::order_has_data,
                       data, {nullptr, sent});
}

}  // namespace

ssize_t defer_send(EndpointHandle& handle, const fi_msg_tagged& message, std::uint64_t flags,
                   const Trigger& trigger) {
    if (flags & ~transmit_flags) return -FI_EBADFLAGS;
    return handle.defer(send_order(handle, message, flags), trigger);
}

ssize_t defer_receive(EndpointHandle& handle, const fi_msg_tagged& message, std::uint64_t flags,
                      const Trigger& trigger) {
    if (flags & ~(receive_flags & ~FI_MULTI_RECV)) return -FI_EBADFLAGS;
    return handle.defer(receive_order(handle, message, flags), trigger);
}

fi_ops_tagged tagged_operations = {
    .size = sizeof(fi_ops_tagged),
    .recv = receive,
    .recvv = receive_vector,
    .recvmsg = receive_message,
    .send = send,
    .sendv = send_vector,
    .sendmsg = send_message,
    .inject = inject,
    .senddata = send_with_data,
    .injectdata = inject_with_data,
};

}  // namespace via::ofi
