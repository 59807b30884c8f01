// SPDX-License-Identifier: BSD-3-Clause
// Contents of messages. For --check every byte depends on its place and on the message's number,
// so that a lost, doubled, shifted or torn message shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace via::tool {

/// What a side does with the contents of its messages.
enum class Contents {
    Same,     ///< nothing: the same bytes lie there all the time, perhaps in the receiver's cache
    Fresh,    ///< written anew, so that their lines must come from the sender
    Checked,  ///< written as a pattern and compared
};

/// Every byte in the quickest manner there is.
void write_anew(std::byte* buffer, std::size_t bytes, std::uint64_t number);

void fill_pattern(std::byte* buffer, std::size_t bytes, std::uint64_t number);

/// The offset of the first byte that is not the pattern's.
[[nodiscard]] std::optional<std::size_t> find_wrong_byte(const std::byte* buffer, std::size_t bytes,
                                                         std::uint64_t number);

}  // namespace via::tool
