// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/message_ops.hpp"

#include "ofi/endpoint.hpp"
#include "ofi/info.hpp"

namespace via::ofi {
namespace {

using mvich::Cookie;
using mvich::ReceiveOrder;
using mvich::SendOrder;
using mvich::Space;

constexpr std::uint64_t sent = FI_SEND | FI_MSG;
constexpr std::uint64_t received = FI_RECV | FI_MSG;

ssize_t send_pieces(EndpointHandle& handle, std::span<const iovec> pieces, fi_addr_t to,
                    std::uint32_t flags, std::uint64_t data, Cookie cookie) noexcept {
    return handle.send(SendOrder{.to = handle.peer(to),
                                 .space = Space::Message,
                                 .flags = flags,
                                 .data = data,
                                 .pieces = pieces,
                                 .cookie = cookie});
}

ssize_t receive_pieces(EndpointHandle& handle, std::span<const iovec> pieces, fi_addr_t from,
                       std::uint32_t flags, Cookie cookie) noexcept {
    return handle.receive(ReceiveOrder{.from = handle.source(from),
                                       .space = Space::Message,
                                       .flags = flags,
                                       .pieces = pieces,
                                       .least_free = handle.endpoint->least_free(),
                                       .cookie = cookie});
}

iovec piece_of(const void* buffer, std::size_t bytes) noexcept {
    return {const_cast<void*>(buffer), bytes};
}

ssize_t receive(fid_ep* endpoint, void* buffer, std::size_t bytes, void*, fi_addr_t from,
                void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    const iovec piece = piece_of(buffer, bytes);
    return receive_pieces(handle, {&piece, 1}, from, handle.receive_order,
                          {context, received | handle.default_receive_completion});
}

ssize_t receive_vector(fid_ep* endpoint, const iovec* pieces, void**, std::size_t count,
                       fi_addr_t from, void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    return receive_pieces(handle, {pieces, count}, from, handle.receive_order,
                          {context, received | handle.default_receive_completion});
}

ReceiveOrder receive_order(const EndpointHandle& handle, const fi_msg& message,
                           std::uint64_t flags) noexcept {
    return {.from = handle.source(message.addr),
            .space = Space::Message,
            .flags = order_flags(flags),
            .pieces = {message.msg_iov, message.iov_count},
            .least_free = handle.endpoint->least_free(),
            .cookie = {message.context, received | handle.receive_completion(flags)}};
}

ssize_t receive_message(fid_ep* endpoint, const fi_msg* message, std::uint64_t flags) {
    EndpointHandle& handle = handle_of(endpoint);
    if (flags & ~(receive_flags | FI_TRIGGER)) return -FI_EBADFLAGS;
    const ReceiveOrder order = receive_order(handle, *message, flags);
    return flags & FI_TRIGGER ? handle.defer(order) : handle.receive(order);
}

ssize_t send(fid_ep* endpoint, const void* buffer, std::size_t bytes, void*, fi_addr_t to,
             void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    const iovec piece = piece_of(buffer, bytes);
    return send_pieces(handle, {&piece, 1}, to, handle.send_order, 0,
                       {context, sent | handle.send_completion});
}

ssize_t send_vector(fid_ep* endpoint, const iovec* pieces, void**, std::size_t count, fi_addr_t to,
                    void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    return send_pieces(handle, {pieces, count}, to, handle.send_order, 0,
                       {context, sent | handle.send_completion});
}

SendOrder send_order(const EndpointHandle& handle, const fi_msg& message,
                     std::uint64_t flags) noexcept {
    return {.to = handle.peer(message.addr),
            .space = Space::Message,
            .flags = order_flags(flags),
            .data = message.data,
            .pieces = {message.msg_iov, message.iov_count},
            .cookie = {message.context, sent | handle.transmit_completion(flags)}};
}

ssize_t send_message(fid_ep* endpoint, const fi_msg* message, std::uint64_t flags) {
    EndpointHandle& handle = handle_of(endpoint);
    if (flags & ~(transmit_flags | FI_TRIGGER)) return -FI_EBADFLAGS;
    const SendOrder order = send_order(handle, *message, flags);
    return flags & FI_TRIGGER ? handle.defer(order) : handle.send(order);
}

ssize_t inject(fid_ep* endpoint, const void* buffer, std::size_t bytes, fi_addr_t to) {
    EndpointHandle& handle = handle_of(endpoint);
    const iovec piece = piece_of(buffer, bytes);
    return send_pieces(handle, {&piece, 1}, to, handle.inject_order, 0, {nullptr, sent});
}

ssize_t send_with_data(fid_ep* endpoint, const void* buffer, std::size_t bytes, void*,
                       std::uint64_t data, fi_addr_t to, void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    const iovec piece = piece_of(buffer, bytes);
    return send_pieces(handle, {&piece, 1}, to, handle.send_order | mvich::order_has_data, data,
                       {context, sent | handle.send_completion});
}

ssize_t inject_with_data(fid_ep* endpoint, const void* buffer, std::size_t bytes,
                         std::uint64_t data, fi_addr_t to) {
    EndpointHandle& handle = handle_of(endpoint);
    const iovec piece = piece_of(buffer, bytes);
    return send_pieces(handle, {&piece, 1}, to, handle.inject_order | mvich::order_has_data, data,
                       {nullptr, sent});
}

}  // namespace

ssize_t defer_send(EndpointHandle& handle, const fi_msg& message, std::uint64_t flags,
                   const Trigger& trigger) {
    if (flags & ~transmit_flags) return -FI_EBADFLAGS;
    return handle.defer(send_order(handle, message, flags), trigger);
}

ssize_t defer_receive(EndpointHandle& handle, const fi_msg& message, std::uint64_t flags,
                      const Trigger& trigger) {
    if (flags & ~(receive_flags & ~FI_MULTI_RECV)) return -FI_EBADFLAGS;
    return handle.defer(receive_order(handle, message, flags), trigger);
}

fi_ops_msg message_operations = {
    .size = sizeof(fi_ops_msg),
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
