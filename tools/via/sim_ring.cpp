// SPDX-License-Identifier: BSD-3-Clause
// `via sim ring`: interrupts and stalls of MyVIA's descriptor cache, by ring size and low-water
// mark.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command.hpp"
#include "na/sim/ring_experiment.hpp"
#include "sim_commands.hpp"
#include "sim_options.hpp"
#include "size_list.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

using base::Result;
namespace ring = via::na::sim;

struct RingOptions : StreamOptions {
    std::string small = "8,16,32,64,128";
    std::string low_water;  ///< empty: several for each ring
    std::uint64_t messages = 2000;
    std::uint64_t outstanding = 0;
};

/// The marks to try in a ring of that size.
Result<std::vector<std::uint32_t>> marks_of(const RingOptions& options, std::uint32_t small) {
    using Marks = Result<std::vector<std::uint32_t>>;
    std::vector<std::uint32_t> marks;
    if (options.low_water.empty()) {
        for (const std::uint32_t part : {0U, 1U, 2U, 3U})
            marks.push_back(small * part / 4);
        marks.push_back(small - 1);
        return marks;
    }
    auto given = parse_size_list(options.low_water);
    if (!given) return std::move(given).error();
    for (const std::uint64_t mark : given.value()) {
        if (mark > 65535)
            return Marks(base::Code::InvalidArgument,
                         fmt::format("--low-water is {}; it must be below the ring's size", mark));
        marks.push_back(static_cast<std::uint32_t>(mark));
    }
    return marks;
}

Result<nlohmann::json> one_ring(const RingOptions& options, const sim::ViaSystem& system,
                                std::uint32_t small, std::uint32_t low_water) {
    ring::RingPlan plan;
    plan.small_entries = small;
    plan.low_water = low_water;
    plan.bytes = options.bytes;
    plan.messages = options.messages;
    plan.outstanding = options.outstanding;
    auto result = ring::simulate_ring(system, plan);
    if (!result) return std::move(result).error();
    const ring::RingStatistics& statistics = result.value().ring;
    return nlohmann::json{{"small", small},
                          {"low_water", low_water},
                          {"mb_per_s", result.value().mb_per_s},
                          {"interrupts", statistics.interrupts},
                          {"spilled", statistics.spilled},
                          {"stalls", statistics.stalls},
                          {"stalled_us", sim::in_microseconds(statistics.stalled)}};
}

Result<nlohmann::json> all_rings(const RingOptions& options) {
    using Answer = Result<nlohmann::json>;
    if (options.messages == 0 || options.messages > 1'000'000)
        return Answer(
            base::Code::InvalidArgument,
            fmt::format("--messages is {}; it must be from 1 to 1000000", options.messages));
    const auto system = load_system(options);
    if (!system) return system.error();
    const auto sizes = parse_size_list(options.small);
    if (!sizes) return sizes.error();
    auto rings = nlohmann::json::array();
    for (const std::uint64_t size : sizes.value()) {
        const auto small = static_cast<std::uint32_t>(std::min<std::uint64_t>(size, 1U << 30));
        const auto marks = marks_of(options, small);
        if (!marks) return marks.error();
        for (const std::uint32_t mark : marks.value()) {
            auto one = one_ring(options, system.value(), small, mark);
            if (!one) return one;
            rings.push_back(std::move(one).value());
        }
    }
    // A single question gets a single answer.
    nlohmann::json result =
        rings.size() == 1 ? rings.front() : nlohmann::json{{"rings", std::move(rings)}};
    result["machine"] = options.machine;
    result["nic"] = options.nic;
    result["firmware"] = options.firmware;
    result["bytes"] = options.bytes;
    result["messages"] = options.messages;
    result["outstanding"] = options.outstanding;
    return result;
}

void print_for_people(const RingOptions& options, const nlohmann::json& result) {
    fmt::print("{} on {} in {}: {} messages of {} bytes, one descriptor each, {}\n\n",
               options.firmware, options.nic, options.machine, options.messages, options.bytes,
               options.outstanding == 0
                   ? "posted as fast as the host can"
                   : fmt::format("at most {} of them not sent", options.outstanding));
    TextTable table;
    for (const char* title : {"small ring", "low water", "MB/s", "interrupts", "through big ring",
                              "ran dry", "for µs in all"})
        table.add_column(title);
    const nlohmann::json single = nlohmann::json::array({result});
    for (const nlohmann::json& one : result.contains("rings") ? result["rings"] : single)
        table.add_row({fmt::format("{}", one["small"].get<std::uint64_t>()),
                       fmt::format("{}", one["low_water"].get<std::uint64_t>()),
                       fmt::format("{:.2f}", one["mb_per_s"].get<double>()),
                       fmt::format("{}", one["interrupts"].get<std::uint64_t>()),
                       fmt::format("{}", one["spilled"].get<std::uint64_t>()),
                       fmt::format("{}", one["stalls"].get<std::uint64_t>()),
                       fmt::format("{:.1f}", one["stalled_us"].get<double>())});
    fmt::print(
        "{}\nThe NIC runs dry when it takes the last descriptor that it has while others wait in "
        "host memory;\nwhat that costs depends on what it still has under way.\n",
        table.draw());
}

int run_ring(const RingOptions& options) {
    const auto result = all_rings(options);
    if (!result) return report_failure(result.error());
    if (options.json)
        print_json(result.value());
    else
        print_for_people(options, result.value());
    return status_good;
}

}  // namespace

void add_sim_ring_command(CLI::App& sim, int& status) {
    auto options = std::make_shared<RingOptions>();
    options->machine = "p3-733";
    options->nic = "lanai4";
    options->bytes = 64;
    CLI::App* command = sim.add_subcommand(
        "ring", "Interrupts and stalls of the descriptor cache in NIC memory, by size and mark");
    add_stream_options(*command, *options);
    command->add_option("--small", options->small, "Descriptors in the small ring: one or a list")
        ->capture_default_str();
    command->add_option("--low-water", options->low_water,
                        "At how many the NIC interrupts its host: one or a list (default: none, "
                        "quarters of the ring, all but one)");
    command->add_option("--messages", options->messages, "How many are posted")
        ->capture_default_str();
    command
        ->add_option("--outstanding", options->outstanding,
                     "The host waits while so many are not sent; 0: it never waits")
        ->capture_default_str();
    command->callback([options, &status] { status = run_ring(*options); });
}

}  // namespace via::tool
