// SPDX-License-Identifier: BSD-3-Clause
// The commands below `via sim` that have a file of their own.
#pragma once

namespace CLI {
class App;
}

namespace via::tool {

void add_sim_reproduce_command(CLI::App& sim, int& status);
void add_sim_trace_command(CLI::App& sim, int& status);
void add_sim_ablate_command(CLI::App& sim, int& status);
void add_sim_ring_command(CLI::App& sim, int& status);

}  // namespace via::tool
