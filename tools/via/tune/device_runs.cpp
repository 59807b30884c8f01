// SPDX-License-Identifier: BSD-3-Clause
#include "tune/device_runs.hpp"

#include <stdlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "measurement.hpp"
#include "supervisor.hpp"

namespace via::tool {
namespace {

using base::Result;

/// As many messages as stay in a second-level cache together: each has a buffer of its own.
std::uint32_t stream_window(std::uint64_t bytes) {
    constexpr std::uint64_t fill = std::uint64_t{256} << 10;
    return static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(fill / std::max<std::uint64_t>(bytes, 1), 4, 128));
}

Result<SessionPlan> plan_of(const DeviceSetting& setting, const DeviceRunPlan& plan) {
    MeasurementOptions options;
    options.device = plan.device;
    options.fresh = plan.fresh;
    auto session = make_plan(options, Program::Pingpong);
    if (!session) return session;
    session.value().tests.clear();
    for (const DevicePoint& point : setting.points) {
        for (const Program program : {Program::Pingpong, Program::Window}) {
            TestPlan test;
            test.terms.program = program;
            test.terms.memory = point.memory;
            test.terms.bytes = point.bytes;
            if (program == Program::Window)
                test.terms.window = test.terms.buffers = stream_window(point.bytes);
            // Several short ones: whoever else wants the processor takes it for milliseconds.
            test.repetitions = 5;
            test.seconds = plan.seconds;
            session.value().tests.push_back(test);
        }
    }
    return session;
}

/// Both sides once through all points of a setting.
Result<void> run_once(const DeviceSetting& setting, const DeviceRunPlan& plan,
                      std::vector<PointCosts>& costs) {
    if (setting.points.empty()) return {};
    auto session = plan_of(setting, plan);
    if (!session) return std::move(session).error();
    std::size_t results = 0;
    SupervisorOptions options;
    options.show_progress = false;
    options.on_report = [&](const nlohmann::json& report) {
        if (!report.contains("result") || results / 2 >= costs.size()) return;
        const nlohmann::json& result = report["result"];
        PointCosts& point = costs[results++ / 2];
        if (result.contains("one_way_us"))
            point.one_way_us.push_back(result["one_way_us"].get<double>());
        else
            point.stream_us.push_back(1e6 / result["messages_per_s"].get<double>());
    };
    // Before the library looks at its settings, which a process does once.
    const auto with_settings = [&](auto run) {
        return [&setting, &session, run](SideReporter& reporter) {
            setenv("VIA_LOG", "error", 1);  // warnings about settings came once already
            for (const auto& [name, value] : setting.environment)
                setenv(name.c_str(), value.c_str(), 1);
            return run(session.value(), reporter);
        };
    };
    auto outcome = run_sides({{"server", plan.cpus.second, with_settings(run_server)},
                              {"client", plan.cpus.first, with_settings(run_client)}},
                             options);
    if (outcome && results != 2 * setting.points.size())
        return {base::Code::System, "the device's sides ended without all results"};
    return outcome;
}

}  // namespace

Result<std::vector<std::vector<PointCosts>>> measure_in_turn(
    const std::vector<DeviceSetting>& settings, const DeviceRunPlan& plan) {
    std::vector<std::vector<PointCosts>> costs;
    for (const DeviceSetting& setting : settings)
        costs.emplace_back(setting.points.size());
    for (std::uint32_t round = 0; round < plan.rounds; ++round) {
        for (std::size_t turn = 0; turn < settings.size(); ++turn) {
            const std::size_t index = (turn + round) % settings.size();
            if (auto done = run_once(settings[index], plan, costs[index]); !done)
                return std::move(done).error();
            plan.on_step();
        }
    }
    return costs;
}

}  // namespace via::tool
