// SPDX-License-Identifier: BSD-3-Clause
// How much memory a connected VI costs: two processes connect N VIs, then as many again; what both
// of them and the kernel agent use more is divided by N. So a connection's whole memory, both ends
// of it, is charged to one VI. Over each VI a message has gone each way.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "memory_use.hpp"
#include "two_processes.hpp"
#include "vi_side.hpp"

namespace {

using namespace via;
using namespace via::bench;
using base::Deadline;
using base::Result;

struct Options {
    std::string device = "shm0";
    std::size_t vis = 256;
    bool json = false;
};

constexpr std::uint64_t deadline_milliseconds = 30'000;

struct Measured {
    MemoryUse first;   ///< with N VIs
    MemoryUse second;  ///< with 2 N
};

Result<void> connect_many(ViSide& side, std::size_t count, Deadline deadline) {
    for (std::size_t vi = 0; vi < count; ++vi) {
        if (auto connected = side.connect_one(deadline); !connected) return connected;
        if (auto greeted = side.greet(deadline); !greeted) return greeted;
    }
    return {};
}

/// Both processes run this; at each meeting point the parent looks at the memory.
Result<void> run_part(const Options& options, Part part, const std::string& meeting_point,
                      Companion& companion, Measured* measured) {
    const Deadline deadline = Deadline::after_milliseconds(deadline_milliseconds);
    auto side = ViSide::open(options.device, part, meeting_point, 2 * options.vis, false);
    if (!side) return std::move(side).error();
    for (MemoryUse* use : {measured != nullptr ? &measured->first : nullptr,
                           measured != nullptr ? &measured->second : nullptr}) {
        if (auto connected = connect_many(side.value(), options.vis, deadline); !connected) {
            return connected;
        }
        if (auto met = companion.meet(deadline); !met) return met;
        if (use != nullptr) {
            auto agent = agent_pid();
            if (!agent) return std::move(agent).error();
            auto memory = memory_of({::getpid(), companion.pid(), agent.value()});
            if (!memory) return std::move(memory).error();
            *use = memory.value();
        }
        if (auto met = companion.meet(deadline); !met) return met;
    }
    return {};
}

Result<Measured> measure(const Options& options) {
    const std::string meeting_point = fmt::format("vi-memory-{}", ::getpid());
    auto companion = Companion::start([&](Companion& parent) {
        return run_part(options, Part::Server, meeting_point, parent, nullptr);
    });
    if (!companion) return std::move(companion).error();
    Measured measured;
    if (auto done = run_part(options, Part::Client, meeting_point, companion.value(), &measured);
        !done) {
        return std::move(done).error();
    }
    if (auto joined = companion.value().join(Deadline::after_milliseconds(deadline_milliseconds));
        !joined) {
        return std::move(joined).error();
    }
    return measured;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Memory per connected VI, both processes and the kernel agent.", "vi_memory");
    app.add_option("--device", options.device, "the NIC")->capture_default_str();
    app.add_option("--vis", options.vis, "measured with so many VIs and with twice as many")
        ->capture_default_str()
        ->check(CLI::Range(1, 8192));
    app.add_flag("--json", options.json, "print JSON");
    CLI11_PARSE(app, argc, argv);

    auto measured = measure(options);
    if (!measured) {
        fmt::print(stderr, "vi_memory: {}\n", measured.error().sentence);
        return 1;
    }
    const auto each = [&](std::uint64_t before, std::uint64_t after) {
        return (static_cast<double>(after) - static_cast<double>(before)) / 1024 /
               static_cast<double>(options.vis);
    };
    const auto& [first, second] = measured.value();
    const double own = each(first.private_bytes, second.private_bytes);
    const double shared = each(first.shared_bytes, second.shared_bytes);
    const double touched = each(first.proportional_bytes, second.proportional_bytes);
    if (options.json) {
        fmt::print("{}\n", nlohmann::json{{"vis", options.vis},
                                          {"kib_per_vi", touched},
                                          {"private_kib_per_vi", own},
                                          {"shared_limit_kib_per_vi", shared}}
                               .dump());
    } else {
        fmt::print(
            "{:.1f} KiB a connected VI, both ends, after a message each way: {:.1f} private; "
            "shared memory may grow to {:.1f} with traffic\n",
            touched, own, shared);
    }
    return 0;
}
