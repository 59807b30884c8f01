// SPDX-License-Identifier: BSD-3-Clause
// What became of a posted buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "via/buffer.hpp"

namespace via {

struct Completion {
    Buffer buffer;
    Operation operation = Operation::Send;
    bool receive = false;        // from the receive queue
    std::uint32_t status = 0;    // VIP_STATUS_...
    std::size_t length = 0;      // bytes moved
    std::uintptr_t cookie = 0;   // of the VI
    VIP_VI_HANDLE vi = nullptr;  // compare with Vi::handle()
    std::optional<std::uint32_t> immediate{};

    bool ok() const noexcept { return (status & VIP_STATUS_ERROR_MASK) == 0; }
    std::string error_text() const { return describe_status(status); }
};

namespace detail {

// The descriptor must come out of a work queue into which this API posted it.
inline Completion complete(VIP_VI_HANDLE vi, bool receive, VIP_DESCRIPTOR* descriptor) {
    auto* slot = reinterpret_cast<Slot*>(descriptor);
    const VIP_CONTROL_SEGMENT& control = descriptor->CS;
    Completion completion;
    completion.operation = static_cast<Operation>(control.Status & VIP_STATUS_OP_MASK);
    completion.receive = receive;
    completion.status = control.Status;
    completion.length = control.Length;
    completion.cookie = slot->cookie;
    completion.vi = vi;
    if ((control.Status & VIP_STATUS_IMMEDIATE) != 0) completion.immediate = control.ImmediateData;
    completion.buffer = Buffer::adopt(slot);
    // An RDMA write leaves the payload of the receive it consumes alone.
    if (receive) {
        completion.buffer.resize(completion.operation == Operation::Receive ? control.Length : 0);
    }
    return completion;
}

}  // namespace detail
}  // namespace via
