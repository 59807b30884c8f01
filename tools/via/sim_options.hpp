// SPDX-License-Identifier: BSD-3-Clause
// What the commands of `via sim` with two hosts are told, and the system that it means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "sim/experiment/mnc_experiment.hpp"
#include "sim/experiment/via_experiment.hpp"

namespace CLI {
class App;
}

namespace via::tool {

struct StreamOptions {
    std::string machine = "athlon-1400";
    std::string nic = "lanai9";
    std::string firmware = "myvia";
    std::uint64_t bytes = 4096;
    std::optional<double> clock;
    std::optional<std::uint32_t> links;
    std::string policy;
    std::string locality = "good";
    bool json = false;
};

/// All but --links and --policy, which are not for every command.
void add_stream_options(CLI::App& command, StreamOptions& options);

/// What is wrong with --bytes, if anything is.
[[nodiscard]] base::Result<void> check_bytes(std::uint64_t bytes, std::uint64_t most);

/// Does MNC choose among links? It runs on GM's firmware.
[[nodiscard]] bool uses_mnc(const StreamOptions& options);
[[nodiscard]] base::Result<sim::ViaSystem> load_system(const StreamOptions& options);
[[nodiscard]] base::Result<sim::MncSystem> load_mnc(const StreamOptions& options);

}  // namespace via::tool
