// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/atomic_ops.hpp"

#include <array>

#include "ofi/endpoint.hpp"
#include "ofi/info.hpp"

namespace via::ofi {
namespace {

using mvich::AtomicUse;
using mvich::Cookie;
using mvich::Remote;
using mvich::RemoteOrder;
using mvich::RemotePiece;

static_assert(static_cast<int>(mvich::AtomicOperation::SwapBits) == FI_MSWAP);
static_assert(static_cast<int>(mvich::AtomicType::Uint128) == FI_UINT128);

/// Pieces are few: an atomic is short, and there is a limit to iovecs.
constexpr std::size_t max_pieces = 32;
using Pieces = std::array<iovec, max_pieces>;

struct Operands {
    std::span<const fi_ioc> operands;
    std::span<const fi_ioc> compares;
    std::span<const fi_ioc> results;
};

/// At once, or when a counter has reached a value: the trigger's or that of the context.
struct When {
    const Trigger* trigger = nullptr;
    bool triggered = false;
};

bool convert(std::span<const fi_ioc> from, std::size_t element_bytes, Pieces& to) noexcept {
    if (from.size() > max_pieces) return false;
    for (std::size_t at = 0; at < from.size(); ++at)
        to[at] = {from[at].addr, from[at].count * element_bytes};
    return true;
}

constexpr AtomicUse use_of(Remote what) noexcept {
    switch (what) {
        case Remote::FetchAtomic:
            return AtomicUse::Fetch;
        case Remote::CompareAtomic:
            return AtomicUse::Compare;
        default:
            return AtomicUse::Plain;
    }
}

ssize_t order(EndpointHandle& handle, Remote what, const Operands& operands, fi_addr_t to,
              std::span<const fi_rma_ioc> targets, fi_datatype datatype, fi_op operation,
              std::uint32_t flags, std::uint64_t data, Cookie cookie,
              const When& when = {}) noexcept {
    const AtomicSupport support = atomic_support(use_of(what), datatype, operation);
    if (support.count == 0) return -FI_EOPNOTSUPP;
    Pieces pieces;
    Pieces compares;
    Pieces results;
    std::array<RemotePiece, mvich::max_remote_pieces> remote;
    if (targets.size() > remote.size() ||
        !convert(operands.operands, support.element_bytes, pieces) ||
        !convert(operands.compares, support.element_bytes, compares) ||
        !convert(operands.results, support.element_bytes, results))
        return -FI_EINVAL;
    std::size_t elements = 0;
    for (std::size_t at = 0; at < targets.size(); ++at) {
        elements += targets[at].count;
        remote[at] = {targets[at].addr, targets[at].count * support.element_bytes, targets[at].key};
    }
    if (elements == 0 || elements > support.count) return -FI_EINVAL;
    // A read of memory has no operands, whatever the program passes.
    const std::size_t operand_pieces = operation == FI_ATOMIC_READ ? 0 : operands.operands.size();
    cookie.flags |= FI_ATOMIC | (what == Remote::Atomic ? FI_WRITE : FI_READ);
    const RemoteOrder order{.to = handle.peer(to),
                            .what = what,
                            .flags = flags,
                            .data = data,
                            .pieces = {pieces.data(), operand_pieces},
                            .results = {results.data(), operands.results.size()},
                            .compares = {compares.data(), operands.compares.size()},
                            .remote = {remote.data(), targets.size()},
                            .operation = static_cast<std::uint8_t>(operation),
                            .datatype = static_cast<std::uint8_t>(datatype),
                            .cookie = cookie};
    if (when.trigger != nullptr) return handle.defer(order, *when.trigger);
    return when.triggered ? handle.defer(order) : handle.remote(order);
}

/// All three calls with flags.
ssize_t order_message(EndpointHandle& handle, Remote what, const fi_msg_atomic& message,
                      std::span<const fi_ioc> compares, std::span<const fi_ioc> results,
                      std::uint64_t flags, const Trigger* trigger = nullptr) noexcept {
    if (flags & ~(transmit_flags | FI_TRIGGER)) return -FI_EBADFLAGS;
    if (what != Remote::Atomic) flags &= ~FI_INJECT;
    return order(handle, what, {{message.msg_iov, message.iov_count}, compares, results},
                 message.addr, {message.rma_iov, message.rma_iov_count}, message.datatype,
                 message.op, order_flags(flags), message.data,
                 {message.context, handle.transmit_completion(flags)},
                 {trigger, (flags & FI_TRIGGER) != 0});
}

fi_ioc piece_of(const void* buffer, std::size_t count) noexcept {
    return {const_cast<void*>(buffer), count};
}

std::size_t elements_of(const fi_ioc* pieces, std::size_t pieces_count) noexcept {
    std::size_t count = 0;
    for (std::size_t at = 0; at < pieces_count; ++at)
        count += pieces[at].count;
    return count;
}

/// Fetched values need not wait for anything but themselves.
std::uint32_t fetch_order(const EndpointHandle& handle) noexcept {
    return handle.send_order & ~mvich::order_inject;
}

ssize_t write(fid_ep* endpoint, const void* buffer, std::size_t count, void*, fi_addr_t to,
              std::uint64_t address, std::uint64_t key, fi_datatype datatype, fi_op operation,
              void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    const fi_ioc piece = piece_of(buffer, count);
    const fi_rma_ioc target{address, count, key};
    return order(handle, Remote::Atomic, {{&piece, 1}, {}, {}}, to, {&target, 1}, datatype,
                 operation, handle.send_order, 0, {context, handle.send_completion});
}

ssize_t write_vector(fid_ep* endpoint, const fi_ioc* pieces, void**, std::size_t count,
                     fi_addr_t to, std::uint64_t address, std::uint64_t key, fi_datatype datatype,
                     fi_op operation, void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    const fi_rma_ioc target{address, elements_of(pieces, count), key};
    return order(handle, Remote::Atomic, {{pieces, count}, {}, {}}, to, {&target, 1}, datatype,
                 operation, handle.send_order, 0, {context, handle.send_completion});
}

ssize_t write_message(fid_ep* endpoint, const fi_msg_atomic* message, std::uint64_t flags) {
    return order_message(handle_of(endpoint), Remote::Atomic, *message, {}, {}, flags);
}

ssize_t inject(fid_ep* endpoint, const void* buffer, std::size_t count, fi_addr_t to,
               std::uint64_t address, std::uint64_t key, fi_datatype datatype, fi_op operation) {
    EndpointHandle& handle = handle_of(endpoint);
    const fi_ioc piece = piece_of(buffer, count);
    const fi_rma_ioc target{address, count, key};
    return order(handle, Remote::Atomic, {{&piece, 1}, {}, {}}, to, {&target, 1}, datatype,
                 operation, handle.remote_inject_order, 0, {nullptr, 0});
}

ssize_t fetch(fid_ep* endpoint, const void* buffer, std::size_t count, void*, void* result, void*,
              fi_addr_t to, std::uint64_t address, std::uint64_t key, fi_datatype datatype,
              fi_op operation, void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    const fi_ioc piece = piece_of(buffer, count);
    const fi_ioc results = piece_of(result, count);
    const fi_rma_ioc target{address, count, key};
    return order(handle, Remote::FetchAtomic, {{&piece, 1}, {}, {&results, 1}}, to, {&target, 1},
                 datatype, operation, fetch_order(handle), 0, {context, handle.send_completion});
}

ssize_t fetch_vector(fid_ep* endpoint, const fi_ioc* pieces, void**, std::size_t count,
                     fi_ioc* results, void**, std::size_t result_count, fi_addr_t to,
                     std::uint64_t address, std::uint64_t key, fi_datatype datatype,
                     fi_op operation, void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    const fi_rma_ioc target{address, elements_of(results, result_count), key};
    return order(handle, Remote::FetchAtomic, {{pieces, count}, {}, {results, result_count}}, to,
                 {&target, 1}, datatype, operation, fetch_order(handle), 0,
                 {context, handle.send_completion});
}

ssize_t fetch_message(fid_ep* endpoint, const fi_msg_atomic* message, fi_ioc* results, void**,
                      std::size_t result_count, std::uint64_t flags) {
    return order_message(handle_of(endpoint), Remote::FetchAtomic, *message, {},
                         {results, result_count}, flags);
}

ssize_t compare(fid_ep* endpoint, const void* buffer, std::size_t count, void*,
                const void* comparand, void*, void* result, void*, fi_addr_t to,
                std::uint64_t address, std::uint64_t key, fi_datatype datatype, fi_op operation,
                void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    const fi_ioc piece = piece_of(buffer, count);
    const fi_ioc compares = piece_of(comparand, count);
    const fi_ioc results = piece_of(result, count);
    const fi_rma_ioc target{address, count, key};
    return order(handle, Remote::CompareAtomic, {{&piece, 1}, {&compares, 1}, {&results, 1}}, to,
                 {&target, 1}, datatype, operation, fetch_order(handle), 0,
                 {context, handle.send_completion});
}

ssize_t compare_vector(fid_ep* endpoint, const fi_ioc* pieces, void**, std::size_t count,
                       const fi_ioc* compares, void**, std::size_t compare_count, fi_ioc* results,
                       void**, std::size_t result_count, fi_addr_t to, std::uint64_t address,
                       std::uint64_t key, fi_datatype datatype, fi_op operation, void* context) {
    EndpointHandle& handle = handle_of(endpoint);
    const fi_rma_ioc target{address, elements_of(pieces, count), key};
    return order(handle, Remote::CompareAtomic,
                 {{pieces, count}, {compares, compare_count}, {results, result_count}}, to,
                 {&target, 1}, datatype, operation, fetch_order(handle), 0,
                 {context, handle.send_completion});
}

ssize_t compare_message(fid_ep* endpoint, const fi_msg_atomic* message, const fi_ioc* compares,
                        void**, std::size_t compare_count, fi_ioc* results, void**,
                        std::size_t result_count, std::uint64_t flags) {
    return order_message(handle_of(endpoint), Remote::CompareAtomic, *message,
                         {compares, compare_count}, {results, result_count}, flags);
}

}  // namespace

ssize_t defer_atomic(EndpointHandle& handle, mvich::Remote what, const fi_msg_atomic& message,
                     std::span<const fi_ioc> compares, std::span<const fi_ioc> results,
                     std::uint64_t flags, const Trigger& trigger) {
    return flags & FI_TRIGGER
               ? -FI_EBADFLAGS
               : order_message(handle, what, message, compares, results, flags, &trigger);
}

AtomicSupport atomic_support(AtomicUse use, fi_datatype datatype, fi_op operation) noexcept {
    if (static_cast<unsigned>(datatype) >= mvich::atomic_types ||
        static_cast<unsigned>(operation) >= mvich::atomic_operations)
        return {};
    const auto type = static_cast<mvich::AtomicType>(datatype);
    if (!mvich::supports(use, static_cast<mvich::AtomicOperation>(operation), type)) return {};
    const std::size_t bytes = mvich::size_of(type);
    return {mvich::Device::limits().atomic_bytes / bytes, bytes};
}

fi_ops_atomic atomic_operations = {
    .size = sizeof(fi_ops_atomic),
    .write = write,
    .writev = write_vector,
    .writemsg = write_message,
    .inject = inject,
    .readwrite = fetch,
    .readwritev = fetch_vector,
    .readwritemsg = fetch_message,
    .compwrite = compare,
    .compwritev = compare_vector,
    .compwritemsg = compare_message,
    .writevalid = is_valid_atomic<AtomicUse::Plain>,
    .readwritevalid = is_valid_atomic<AtomicUse::Fetch>,
    .compwritevalid = is_valid_atomic<AtomicUse::Compare>,
};

}  // namespace via::ofi
