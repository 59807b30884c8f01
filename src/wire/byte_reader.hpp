// SPDX-License-Identifier: BSD-3-Clause
// Numbers and bytes as they lie on the wire, high byte first. The reader trusts nothing: once it
// has run out of bytes, everything it gives is zero and ok() says so.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace via::wire {

using Bytes = std::vector<std::uint8_t>;
using ByteView = std::span<const std::uint8_t>;

class ByteReader {
  public:
    explicit ByteReader(ByteView bytes) noexcept : rest_(bytes) {}

    [[nodiscard]] bool ok() const noexcept { return ok_; }
    /// Everything was there, and nothing is left.
    [[nodiscard]] bool finished() const noexcept { return ok_ && rest_.empty(); }
    [[nodiscard]] ByteView rest() const noexcept { return rest_; }

    [[nodiscard]] ByteView take(std::size_t count) noexcept {
        if (!ok_ || count > rest_.size()) {
            ok_ = false;
            rest_ = {};
            return {};
        }
        const ByteView taken = rest_.first(count);
        rest_ = rest_.subspan(count);
        return taken;
    }
    template <std::unsigned_integral T>
    [[nodiscard]] T number() noexcept {
        std::uint64_t value = 0;
        for (const std::uint8_t byte : take(sizeof(T)))
            value = value << 8 | byte;
        return static_cast<T>(value);
    }
    template <std::size_t n>
    [[nodiscard]] std::array<std::uint8_t, n> array() noexcept {
        std::array<std::uint8_t, n> result{};
        std::ranges::copy(take(n), result.begin());
        return result;
    }
    /// False: one of them is not zero, or not there.
    [[nodiscard]] bool zeros(std::size_t count) noexcept {
        const ByteView taken = take(count);
        return ok_ && std::ranges::all_of(taken, [](std::uint8_t byte) { return byte == 0; });
    }

  private:
    ByteView rest_;
    bool ok_ = true;
};

class ByteWriter {
  public:
    template <std::unsigned_integral T>
    void number(T value) {
        for (std::size_t i = sizeof(T); i-- > 0;)
            bytes_.push_back(static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> 8 * i));
    }
    void bytes(ByteView bytes) {
        // One by one: g++ 12 sees overflows in a vector that grows by a block.
        for (const std::uint8_t byte : bytes)
            bytes_.push_back(byte);
    }
    void zeros(std::size_t count) { bytes_.resize(bytes_.size() + count); }
    [[nodiscard]] const Bytes& written() const& noexcept { return bytes_; }
    [[nodiscard]] Bytes&& written() && noexcept { return std::move(bytes_); }

  private:
    Bytes bytes_;
};

}  // namespace via::wire
