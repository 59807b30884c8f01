// SPDX-License-Identifier: BSD-3-Clause
// What an operation is made of: pieces of local memory, a place in the peer's, options.
#pragma once

#include <vipl.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

namespace via {

// A piece of this process's registered memory.
struct Segment {
    void* address = nullptr;
    std::uint32_t length = 0;
    VIP_MEM_HANDLE handle = 0;
};

// A place in the peer's memory. Plain bytes: the owner sends it to whoever may use it.
struct RemoteSegment {
    std::uint64_t address = 0;
    VIP_MEM_HANDLE handle = 0;
    std::uint32_t length = 0;

    // The part that begins `bytes` further on.
    RemoteSegment after(std::uint32_t bytes) const noexcept {
        return {address + bytes, handle, bytes < length ? length - bytes : 0};
    }
};

// One piece or several; only a view, so meant for arguments.
class Segments {
  public:
    Segments(const Segment& one) noexcept : view_(&one, 1) {}
    Segments(std::initializer_list<Segment> some) noexcept : view_(some.begin(), some.size()) {}
    Segments(std::span<const Segment> some) noexcept : view_(some) {}

    std::size_t size() const noexcept { return view_.size(); }
    auto begin() const noexcept { return view_.begin(); }
    auto end() const noexcept { return view_.end(); }

  private:
    std::span<const Segment> view_;
};

struct SendOptions {
    // 32 bits beside the data; with an RDMA write they also consume a receive at the peer.
    std::optional<std::uint32_t> immediate{};
    // Start only after all earlier RDMA reads of the VI.
    bool fence = false;
};

enum class Operation : std::uint32_t {
    Send = VIP_STATUS_OP_SEND,
    Receive = VIP_STATUS_OP_RECEIVE,
    RdmaWrite = VIP_STATUS_OP_RDMA_WRITE,
    RemoteRdmaWrite = VIP_STATUS_OP_REMOTE_RDMA_WRITE,  // a receive, used by the peer's write
    RdmaRead = VIP_STATUS_OP_RDMA_READ,
};

// The error bits of a descriptor's status in words; empty when there are none.
inline std::string describe_status(std::uint32_t status) {
    struct Bit {
        std::uint32_t mask;
        const char* words;
    };
    constexpr Bit bits[] = {
        {VIP_STATUS_FORMAT_ERROR, "the descriptor is malformed"},
        {VIP_STATUS_PROTECTION_ERROR, "a local segment is not registered for this VI"},
        {VIP_STATUS_LENGTH_ERROR, "the lengths do not fit"},
        {VIP_STATUS_PARTIAL_ERROR, "only a part was moved"},
        {VIP_STATUS_DESC_FLUSHED_ERROR, "flushed because the VI is not connected"},
        {VIP_STATUS_TRANSPORT_ERROR, "the transport failed"},
        {VIP_STATUS_RDMA_PROT_ERROR, "the peer's memory does not allow it"},
        {VIP_STATUS_REMOTE_DESC_ERROR, "the peer's receive was missing or unfit"},
    };
    std::string text;
    for (const Bit& bit : bits) {
        if ((status & bit.mask) == 0) continue;
        if (!text.empty()) text += "; ";
        text += bit.words;
    }
    return text;
}

}  // namespace via
