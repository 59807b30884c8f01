// SPDX-License-Identifier: BSD-3-Clause
#include "sim_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "sim/parameters/catalogue.hpp"

namespace via::tool {

using base::Code;
using base::Result;

Result<void> check_bytes(std::uint64_t bytes, std::uint64_t most) {
    if (bytes == 0)
        return Result<void>(Code::InvalidArgument, "--bytes is 0; there must be one to send");
    if (bytes > most)
        return Result<void>(Code::InvalidArgument,
                            fmt::format("--bytes is {}; at most {} are simulated", bytes, most));
    return {};
}

bool uses_mnc(const StreamOptions& options) {
    // GM with several links, or a policy for them, is MNC.
    return options.firmware == "mnc" ||
           (options.firmware == "gm" &&
            (options.links.value_or(1) != 1 || !options.policy.empty()));
}

Result<sim::ViaSystem> load_system(const StreamOptions& options) {
    using Loaded = Result<sim::ViaSystem>;
    if (const auto sound = check_bytes(options.bytes, 16U << 20); !sound) return sound.error();
    if (options.locality != "good" && options.locality != "poor")
        return Loaded(Code::InvalidArgument,
                      "--locality is '" + options.locality + "'; it must be good or poor");
    sim::SystemFiles files;
    files.machine = options.machine;
    files.nic = options.nic;
    files.firmware = uses_mnc(options) ? "gm" : options.firmware;
    files.clock = options.clock;
    files.locality = options.locality == "poor" ? sim::Locality::Poor : sim::Locality::Good;
    return sim::load_system(files);
}

Result<sim::MncSystem> load_mnc(const StreamOptions& options) {
    using Loaded = Result<sim::MncSystem>;
    auto gm = load_system(options);
    if (!gm) return std::move(gm).error();
    sim::MncSystem system{gm.value(), options.links.value_or(2), sim::LinkPolicy::Dynamic};
    if (system.links < 1 || system.links > 8)
        return Loaded(Code::InvalidArgument,
                      fmt::format("--links is {}; it must be from 1 to 8", system.links));
    if (!options.policy.empty()) {
        const auto policy = sim::link_policy(options.policy);
        if (!policy)
            return Loaded(Code::InvalidArgument, "--policy is '" + options.policy +
                                                     "'; it must be static, oneway or dynamic");
        system.policy = *policy;
    }
    return system;
}

void add_stream_options(CLI::App& command, StreamOptions& options) {
    command.add_option("--machine", options.machine, "The hosts: a name, or a file's path")
        ->capture_default_str();
    command.add_option("--nic", options.nic, "lanai4 or lanai9")->capture_default_str();
    command.add_option("--firmware", options.firmware, "myvia, bvia, gm or mnc, or a file's path")
        ->capture_default_str();
    command.add_option("--bytes", options.bytes, "A message's length")->capture_default_str();
    command.add_option("--clock", options.clock, "The NIC's clock in MHz");
    command
        .add_option("--locality", options.locality,
                    "good or poor: does a NIC that translates find addresses in its cache?")
        ->capture_default_str();
    command.add_flag("--json", options.json, "As JSON");
}

}  // namespace via::tool
