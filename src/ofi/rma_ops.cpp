// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/rma_ops.hpp"

#include <array>

#include "ofi/endpoint.hpp"
#include "ofi/info.hpp"

namespace via::ofi {
namespace {

using mvich::Cookie;
using mvich::Remote;
using mvich::RemoteOrder;
using mvich::RemotePiece;

constexpr std::uint64_t wrote = FI_RMA | FI_WRITE;
constexpr std::uint64_t was_read = FI_RMA | FI_READ;

std::uint64_t bytes_of(std::span<const iovec> pieces) noexcept {
    std::uint64_t bytes = 0;
    for (const iovec& piece : pieces)
        bytes += piece.iov_len;
    return bytes;
}

/// All of the memory lies in one piece at the target.
ssize_t transfer(EndpointHandle& handle, Remote what, std::span<const iovec> pieces, fi_addr_t to,
                 std::uint64_t address, std::uint64_t key, std::uint32_t flags, std::uint64_t data,
                 Cookie cookie) noexcept {
    const RemotePiece remote{address, bytes_of(pieces), key};
    return handle.remote(RemoteOrder{.to = handle.peer(to),
                                     .what = what,
                                     .flags = flags,
                                     .data = data,
                                     .pieces = pieces,
                                     .results = {},
                                     .compares = {},
                                     .remote = {&remote, 1},
                                     .cookie = cookie});
}

ssize_t transfer_message(EndpointHandle& handle, Remote what, const fi_msg_rma& message,
                         std::uint64_t flags, const Trigger* trigger = nullptr) noexcept {
    if (flags & ~(transmit_flags | FI_TRIGGER)) return -FI_EBADFLAGS;
    if (message.rma_iov_count > mvich::max_remote_pieces) return -FI_EINVAL;
    std::array<RemotePiece, mvich::max_remote_pieces> remote;
    for (std::size_t at = 0; at < message.rma_iov_count; ++at)
        remote[at] = {message.rma_iov[at].addr, message.rma_iov[at].len, message.rma_iov[at].key};
    const RemoteOrder order{.to = handle.peer(message.addr),
                            .what = what,
                            .flags = order_flags(flags),
                            .data = message.data,
                            .pieces = {message.msg_iov, message.iov_count},
                            .results = {},
                            .compares = {},
                            .remote = {remote.data(), message.rma_iov_count},
                            .cookie = {message.context, (what == Remote::Read ? was_read : wrote) |
                                                            handle.transmit_completion(flags)}};
    if (trigger != nullptr) return handle.defer(order, *trigger);
    return flags & FI_TRIGGER ? handle.defer(order) : handle.remote(order);
}

iovec piece_of(const void* buffer, std::size_t bytes) noexcept {
    return {const_cast<void*>(buffer), bytes};
}

ssize_t read(fid_ep* endpoint, void* buffer, std::size_t bytes, void*, fi_addr_t from,
             std::uint64_t address, std::uint64_t key, void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    const iovec piece = piece_of(buffer, bytes);
    return transfer(handle, Remote::Read, {&piece, 1}, from, address, key,
                    handle.send_order & ~mvich::order_inject, 0,
                    {context, was_read | handle.send_completion});
}

ssize_t read_vector(fid_ep* endpoint, const iovec* pieces, void**, std::size_t count,
                    fi_addr_t from, std::uint64_t address, std::uint64_t key, void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    return transfer(handle, Remote::Read, {pieces, count}, from, address, key,
                    handle.send_order & ~mvich::order_inject, 0,
                    {context, was_read | handle.send_completion});
}

ssize_t read_message(fid_ep* endpoint, const fi_msg_rma* message, std::uint64_t flags) {
    return transfer_message(handle_of(endpoint), Remote::Read, *message, flags & ~FI_INJECT);
}

ssize_t write(fid_ep* endpoint, const void* buffer, std::size_t bytes, void*, fi_addr_t to,
              std::uint64_t address, std::uint64_t key, void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    const iovec piece = piece_of(buffer, bytes);
    return transfer(handle, Remote::Write, {&piece, 1}, to, address, key, handle.send_order, 0,
                    {context, wrote | handle.send_completion});
}

ssize_t write_vector(fid_ep* endpoint, const iovec* pieces, void**, std::size_t count, fi_addr_t to,
                     std::uint64_t address, std::uint64_t key, void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    return transfer(handle, Remote::Write, {pieces, count}, to, address, key, handle.send_order, 0,
                    {context, wrote | handle.send_completion});
}

ssize_t write_message(fid_ep* endpoint, const fi_msg_rma* message, std::uint64_t flags) {
    return transfer_message(handle_of(endpoint), Remote::Write, *message, flags);
}

ssize_t inject_write(fid_ep* endpoint, const void* buffer, std::size_t bytes, fi_addr_t to,
                     std::uint64_t address, std::uint64_t key) {
    EndpointHandle& handle = handle_of(endpoint);
    const iovec piece = piece_of(buffer, bytes);
    return transfer(handle, Remote::Write, {&piece, 1}, to, address, key,
                    handle.remote_inject_order, 0, {nullptr, wrote});
}

ssize_t write_with_data(fid_ep* endpoint, const void* buffer, std::size_t bytes, void*,
                        std::uint64_t data, fi_addr_t to, std::uint64_t address, std::uint64_t key,
                        void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    const iovec piece = piece_of(buffer, bytes);
    return transfer(handle, Remote::Write, {&piece, 1}, to, address, key,
                    handle.send_order | mvich::order_has_data, data,
                    {context, wrote | handle.send_completion});
}

ssize_t inject_write_with_data(fid_ep* endpoint, const void* buffer, std::size_t bytes,
                               std::uint64_t data, fi_addr_t to, std::uint64_t address,
                               std::uint64_t key) {
    EndpointHandle& handle = handle_of(endpoint);
    const iovec piece = piece_of(buffer, bytes);
    return transfer(handle, Remote::Write, {&piece, 1}, to, address, key,
                    handle.remote_inject_order | mvich::order_has_data, data, {nullptr, wrote});
}

}  // namespace

ssize_t defer_transfer(EndpointHandle& handle, mvich::Remote what, const fi_msg_rma& message,
                       std::uint64_t flags, const Trigger& trigger) {
    if (what == Remote::Read) flags &= ~FI_INJECT;
    return flags & FI_TRIGGER ? -FI_EBADFLAGS
                              : transfer_message(handle, what, message, flags, &trigger);
}

fi_ops_rma rma_operations = {
    .size = sizeof(fi_ops_rma),
    .read = read,
    .readv = read_vector,
    .readmsg = read_message,
    .write = write,
    .writev = write_vector,
    .writemsg = write_message,
    .inject = inject_write,
    .writedata = write_with_data,
    .injectdata = inject_write_with_data,
};

}  // namespace via::ofi
