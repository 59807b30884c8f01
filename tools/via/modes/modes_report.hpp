// SPDX-License-Identifier: BSD-3-Clause
// What `via modes` measured, beside the simulated Pentium II: as tables, sentences, JSON and a
// picture.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "modes/measure_ways.hpp"

namespace via::tool {

/// The study's own machine (p2-300, lanai4) in the simulator.
struct SimulatedSend {
    std::string_view type;
    std::uint64_t bytes = 0;
    double complete_us = 0;
};
[[nodiscard]] base::Result<std::vector<SimulatedSend>> simulate_ways(
    const std::vector<std::uint64_t>& sizes);

struct ModesReport {
    std::vector<std::uint64_t> sizes;  ///< ascending
    ModesResult measured;
    std::vector<SimulatedSend> simulated;
};

/// One-way time and bandwidth, sizes by ways, for each kind of memory; the best of a row is marked.
[[nodiscard]] std::string draw_tables(const ModesReport& report);
/// From which size on what is better.
[[nodiscard]] std::vector<std::string> crossover_sentences(const ModesReport& report);
[[nodiscard]] nlohmann::json to_json(const ModesReport& report);

/// Writes modes.json, modes.dat and modes.gnuplot to the folder and lets gnuplot draw modes.svg and
/// modes.png. NotFound: gnuplot is not installed; the other files are there.
[[nodiscard]] base::Result<void> write_files(const ModesReport& report,
                                             const nlohmann::json& machine,
                                             const std::string& folder);

}  // namespace via::tool
