// SPDX-License-Identifier: BSD-3-Clause
// A registrar that remembers what is registered, and refuses when told to.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "mvich/vbuf.hpp"

namespace via::test {

class FakeRegistrar final : public mvich::Registrar {
  public:
    struct Range {
        const std::byte* address = nullptr;
        std::size_t bytes = 0;
    };

    base::Result<std::uint32_t> register_memory(void* address, std::size_t bytes) override {
        if (refuse) return {base::Code::OutOfResources, "refused, as the test wants"};
        registered.emplace(++last_, Range{static_cast<const std::byte*>(address), bytes});
        return last_;
    }
    void deregister(void* address, std::uint32_t handle) noexcept override {
        const auto found = registered.find(handle);
        EXPECT_NE(found, registered.end());
        if (found == registered.end()) return;
        EXPECT_EQ(found->second.address, address);
        registered.erase(found);
    }
    void favour(void* address, std::size_t bytes) noexcept override {
        favoured.push_back({static_cast<const std::byte*>(address), bytes});
    }
    /// Whether this handle is for memory that has all of these bytes.
    [[nodiscard]] bool covers(std::uint32_t handle, const void* address, std::size_t bytes) const {
        const auto found = registered.find(handle);
        if (found == registered.end()) return false;
        const auto* first = static_cast<const std::byte*>(address);
        return first >= found->second.address &&
               first + bytes <= found->second.address + found->second.bytes;
    }
    [[nodiscard]] std::size_t bytes() const {
        std::size_t sum = 0;
        for (const auto& [handle, range] : registered)
            sum += range.bytes;
        return sum;
    }

    bool refuse = false;
    std::map<std::uint32_t, Range> registered;
    std::vector<Range> favoured;

  private:
    std::uint32_t last_ = 0;
};

}  // namespace via::test
