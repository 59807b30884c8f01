// SPDX-License-Identifier: BSD-3-Clause
#include "scenes.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

namespace via::bench {

namespace {

using nlohmann::json;

constexpr std::uint64_t scene_milliseconds = 120'000;

json problem_json(std::string why) {
    return {{"problem", std::move(why)}};
}

/// What was not finished, or is no JSON, is a problem.
json object_or_problem(json value, const std::string& whose) {
    if (value.is_object()) return value;
    return problem_json(whose + " did not say it in JSON");
}

}  // namespace

Scene links_over_time(const ViaTool& via, const std::string& missing, bool quick, json& record) {
    // Long enough to see each state; the tool's own defaults otherwise.
    const Command command = quick ? via.command({"lab", "demo", "--json", "--seconds", "4", "--cut",
                                                 "1", "--back", "2.5"})
                                  : via.command({"lab", "demo", "--json"});
    const std::string why = missing.empty() ? via.missing() : missing;
    return {"links over time", why.empty() ? (quick ? 5.0 : 9.0) : 0.0, [command, why, &record] {
                if (!why.empty()) {
                    record = problem_json(why);
                    return;
                }
                auto output = run(command, base::Deadline::after_milliseconds(scene_milliseconds));
                record = output ? object_or_problem(json::parse(output.value(), nullptr, false),
                                                    to_text(command))
                                : problem_json(output.error().sentence);
            }};
}

Scene papers_beside_simulator(const ViaTool& via, const std::string& folder, json& record) {
    const Command command = via.command({"sim", "reproduce", "--json", "--results", folder});
    return {"the papers' figures beside the simulator's", 8.0,
            [command, folder, why = via.missing(), &record] {
                if (!why.empty()) {
                    record = problem_json(why);
                    return;
                }
                auto output = run(command, base::Deadline::after_milliseconds(scene_milliseconds));
                if (!output) {
                    record = problem_json(output.error().sentence);
                    return;
                }
                const std::string path = folder + "/reproduction.json";
                std::ifstream file(path);
                record = object_or_problem(json::parse(file, nullptr, false), path);
                record.erase("results");  // a path of this machine
            }};
}

}  // namespace via::bench
