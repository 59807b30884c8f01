// SPDX-License-Identifier: BSD-3-Clause
// The message layer of a process as `via stat` shows it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "counters_snapshot.hpp"

namespace via::tool {

/// Several lines, indented; nothing if the process has no message layer.
[[nodiscard]] std::string describe_messages(const MessageSnapshot& messages,
                                            const std::optional<MessageRates>& rates);
/// Null if the process has no message layer.
[[nodiscard]] nlohmann::json messages_json(const MessageSnapshot& messages,
                                           const std::optional<MessageRates>& rates);

}  // namespace via::tool
