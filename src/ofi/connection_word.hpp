// SPDX-License-Identifier: BSD-3-Clause
// What connection managers of two ends say to each other, as bytes. Every word bears the token that
// the asking end has chosen, so that an answer of an earlier attempt is not mistaken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mvich/device.hpp"
#include "ofi/info.hpp"

namespace via::ofi {

struct ConnectionWord {
    enum class Kind : std::uint8_t { Request = 1, Accept, Reject, Shutdown };
    Kind kind = Kind::Request;
    std::uint64_t token = 0;
    std::span<const std::byte> data;  ///< of the program

    [[nodiscard]] std::vector<std::byte> encode() const;
    /// Nothing: no end of this version says such a thing. The data lie in `bytes`.
    [[nodiscard]] static std::optional<ConnectionWord> decode(
        std::span<const std::byte> bytes) noexcept;

    static constexpr std::size_t head_bytes = 9;
};
static_assert(ConnectionWord::head_bytes + max_connection_data <= mvich::Endpoint::max_word_bytes);

}  // namespace via::ofi
