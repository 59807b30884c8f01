// SPDX-License-Identifier: BSD-3-Clause
// PD: the 16-byte physical descriptor of MyVIA. The user agent translates a VI descriptor into a
// chain of PDs: a head, for RDMA the remote address, then one PD per local data segment. A chain
// is one operation of the NIC agent.
#pragma once

#include <cstdint>

#include "ka/rmmt.hpp"

namespace via::na {

enum class Operation : std::uint8_t { Send = 0, RdmaWrite = 1, RdmaRead = 2, Receive = 3 };

inline constexpr std::uint8_t pd_immediate = 1;  ///< head: immediate data is valid
inline constexpr std::uint8_t pd_fence = 2;      ///< head: wait for all earlier RDMA reads

struct PhysicalDescriptor {
    std::uint64_t address;
    std::uint32_t length;
    std::uint32_t handle;
};
static_assert(sizeof(PhysicalDescriptor) == 16);

/// The head of a chain, decoded.
struct ChainHead {
    Operation operation;
    std::uint8_t flags;
    std::uint16_t segments;  ///< data PDs in the chain, without head and remote address
    std::uint32_t length;    ///< bytes of all data PDs
    std::uint32_t immediate;

    [[nodiscard]] bool has_address() const noexcept {
        return operation == Operation::RdmaWrite || operation == Operation::RdmaRead;
    }
    /// PDs of the whole chain.
    [[nodiscard]] std::uint32_t chain_pds() const noexcept {
        return 1U + (has_address() ? 1U : 0U) + segments;
    }
};

[[nodiscard]] inline PhysicalDescriptor encode_head(const ChainHead& head) noexcept {
    const auto word = static_cast<std::uint64_t>(head.operation) |
                      static_cast<std::uint64_t>(head.flags) << 8 |
                      static_cast<std::uint64_t>(head.segments) << 16;
    return {word, head.length, head.immediate};
}

[[nodiscard]] inline ChainHead decode_head(const PhysicalDescriptor& pd) noexcept {
    return {static_cast<Operation>(pd.address & 0xFF), static_cast<std::uint8_t>(pd.address >> 8),
            static_cast<std::uint16_t>(pd.address >> 16), pd.length, pd.handle};
}

}  // namespace via::na
