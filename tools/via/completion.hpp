// SPDX-License-Identifier: BSD-3-Clause
// Scripts that complete a program's command line in a shell, written from the program's own
// options, so that they never know more or less than it does.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace via::tool {

[[nodiscard]] std::string bash_completion(const CLI::App& app);
[[nodiscard]] std::string zsh_completion(const CLI::App& app);

}  // namespace via::tool
