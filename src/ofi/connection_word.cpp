// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/connection_word.hpp"

#include <cstring>

namespace via::ofi {

std::vector<std::byte> ConnectionWord::encode() const {
    std::vector<std::byte> bytes(head_bytes + data.size());
    bytes[0] = static_cast<std::byte>(kind);
    std::memcpy(bytes.data() + 1, &token, sizeof token);
    if (!data.empty()) std::memcpy(bytes.data() + head_bytes, data.data(), data.size());
    return bytes;
}

std::optional<ConnectionWord> ConnectionWord::decode(std::span<const std::byte> bytes) noexcept {
    if (bytes.size() < head_bytes || bytes.size() > head_bytes + max_connection_data)
        return std::nullopt;
    ConnectionWord word;
    word.kind = static_cast<Kind>(bytes[0]);
    if (word.kind < Kind::Request || word.kind > Kind::Shutdown) return std::nullopt;
    std::memcpy(&word.token, bytes.data() + 1, sizeof word.token);
    word.data = bytes.subspan(head_bytes);
    return word;
}

}  // namespace via::ofi
