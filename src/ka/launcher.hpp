// SPDX-License-Identifier: BSD-3-Clause
// Finding the kernel agent, and starting one where there is none.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"

namespace via::ka {

struct AgentConnection {
    base::UniqueFd socket;
    std::string address;
};

/// Connects to the agent that this process should use and checks whose it is. NotFound: none runs.
[[nodiscard]] base::Result<AgentConnection> find_agent();
/// The same, starting one if none runs and VIA_AGENT_START allows it.
[[nodiscard]] base::Result<AgentConnection> find_or_start_agent(base::Deadline deadline);

/// The program viad that this process would start: VIA_AGENT_PROGRAM, or beside the running program
/// or this library, or the installed one, or the first in PATH.
[[nodiscard]] base::Result<std::string> agent_program();

}  // namespace via::ka
