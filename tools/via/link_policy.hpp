// SPDX-License-Identifier: BSD-3-Clause
// `via links policy`: how the connections of running processes choose among their links.
#pragma once

#include <CLI/CLI.hpp>

namespace via::tool {

CLI::App* add_link_policy_command(CLI::App& links, int& status);

}  // namespace via::tool
