// SPDX-License-Identifier: BSD-3-Clause
// For what a kernel does not tell by an error: it takes the call, and does something else.
#pragma once

namespace via::base {

[[nodiscard]] bool kernel_is_at_least(unsigned major, unsigned minor) noexcept;

}  // namespace via::base
