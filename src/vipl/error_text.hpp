// SPDX-License-Identifier: BSD-3-Clause
// The sentence behind a failing call, kept per thread for VipxErrorText.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "vipl.h"

namespace via::vipl {

void set_error_text(std::string_view function, std::string_view sentence) noexcept;
[[nodiscard]] const char* error_text() noexcept;
[[nodiscard]] VIP_RETURN to_return(base::Code code) noexcept;
[[nodiscard]] const char* return_name(VIP_RETURN code) noexcept;

/// Records the sentence and translates the code.
VIP_RETURN failed(std::string_view function, const base::Error& error) noexcept;
VIP_RETURN failed(std::string_view function, VIP_RETURN code, std::string_view sentence) noexcept;

}  // namespace via::vipl
