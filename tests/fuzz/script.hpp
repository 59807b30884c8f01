// SPDX-License-Identifier: BSD-3-Clause
// What fuzzers of whole connections share: the input read as a script, a check that ends the run,
// and memory that a hostile peer may reach beside memory that it may not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "na/seeded.hpp"
#include "na/shm/guarded_memory.hpp"

namespace via::test {

inline void require(bool condition) {
    if (!condition) std::abort();
}

/// Takes values off the front of the input; zeros when it is used up.
class Script {
  public:
    Script(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
    [[nodiscard]] bool more() const noexcept { return size_ != 0; }
    template <class T>
    T take() noexcept {
        T value{};
        const std::size_t bytes = std::min(size_, sizeof value);
        std::memcpy(&value, data_, bytes);
        data_ += bytes;
        size_ -= bytes;
        return value;
    }
    std::span<const std::byte> bytes(std::size_t most) noexcept {
        const std::size_t count = std::min(size_, most);
        const std::span taken(reinterpret_cast<const std::byte*>(data_), count);
        data_ += count;
        size_ -= count;
        return taken;
    }

  private:
    const std::uint8_t* data_;
    std::size_t size_;
};

/// The open half may become anything; nothing may touch what lies around the two.
struct ExposedMemory {
    GuardedMemory open{4096};
    GuardedMemory secret{4096};

    ExposedMemory() { fill_pattern(secret.span(), secret_stream); }
    /// Ends the run if anybody has written where nobody may.
    void require_untouched() const {
        require(matching_bytes(secret.span(), secret_stream) == secret.size());
        ;
    }

  private:
    static constexpr std::uint64_t secret_stream = 1;
};

}  // namespace via::test
