// SPDX-License-Identifier: BSD-3-Clause
// Lines for people on standard error. VIA_LOG chooses the level. Never called on the hot path.
#pragma once

#include <string_view>

namespace via::base {

enum class LogLevel { Silent, Error, Warning, Info, Debug };

void set_log_level(LogLevel level) noexcept;
[[nodiscard]] LogLevel log_level() noexcept;
void log(LogLevel level, std::string_view sentence) noexcept;

}  // namespace via::base
