// SPDX-License-Identifier: BSD-3-Clause
// The programs of the system that the lab is made with.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace via::lab {

/// Fails with a sentence that says what is missing and how to get it: the rights, a program.
[[nodiscard]] base::Result<void> check_system();

struct Surroundings {
    std::string space;  ///< the namespace to run in; empty: this one
    std::string input;
};

/// Runs a program to its end and gives its output. What it says on failure is in the sentence.
[[nodiscard]] base::Result<std::string> run_program(std::vector<std::string> arguments,
                                                    const Surroundings& surroundings = {});

/// "ip -batch -" in a namespace: many commands, one process. The first that fails ends it.
[[nodiscard]] base::Result<void> run_ip(const std::string& space, const std::string& commands);
/// New rules for the packet filter in a namespace, all or none.
[[nodiscard]] base::Result<void> run_nft(const std::string& space, const std::string& script);

}  // namespace via::lab
