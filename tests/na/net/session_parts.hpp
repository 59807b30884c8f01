// SPDX-License-Identifier: BSD-3-Clause
// What tests of a session over a simulated network have in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "na/net/simulated_network.hpp"

namespace via::test {

inline NetworkOptions options_of(std::uint32_t links,
                                 std::uint32_t reliability = na::reliable_delivery) {
    NetworkOptions options;
    options.links = links;
    options.reliability = reliability;
    return options;
}

/// Registered memory.
struct Memory {
    explicit Memory(std::size_t bytes, std::uint32_t rights = 0, std::uint32_t tag = 1)
        : data(bytes),
          handle(SimulatedNetwork::register_memory(data.data(), data.size(), rights, tag)) {}
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { SimulatedNetwork::deregister_memory(handle); }
    [[nodiscard]] std::span<std::byte> part(std::size_t at, std::size_t bytes) {
        return std::span(data).subspan(at, bytes);
    }
    [[nodiscard]] bool untouched() const {
        return std::all_of(data.begin(), data.end(), [](std::byte b) { return b == std::byte{0}; });
    }
    std::vector<std::byte> data;
    std::uint32_t handle;
};

inline std::uint32_t error_of(const std::optional<na::WorkEntry>& entry) {
    return entry ? entry->status & na::status_error_mask : ~0U;
}

}  // namespace via::test
