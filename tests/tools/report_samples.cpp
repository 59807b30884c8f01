// SPDX-License-Identifier: BSD-3-Clause
#include "report_samples.hpp"

#include <initializer_list>

namespace via::tool::test {

using nlohmann::json;

json spread_json(double minimum, double median, double maximum, std::size_t count) {
    return {{"count", count},
            {"minimum", minimum},
            {"lower_quartile", (minimum + median) / 2},
            {"median", median},
            {"upper_quartile", (median + maximum) / 2},
            {"maximum", maximum}};
}

json ratio_row(const std::string& name, const json& ratio, const std::string& verdict) {
    const bool demanded = verdict != "information";
    const bool measured = verdict != "not measured";
    json row{{"name", name},
             {"group", "shm"},
             {"title", "title of " + name},
             {"relation", "at most"},
             {"better", "less"},
             {"must", demanded ? json(0.65) : json()},
             {"must_text", demanded ? "≤ 0.65" : ""},
             {"aim", demanded ? json(0.5) : json()},
             {"aim_text", demanded ? "≤ 0.5" : ""},
             {"deciding", 0},
             {"verdict", verdict},
             {"value", measured ? ratio : json()}};
    if (!measured) row["why"] = "install <it> & try";
    row["pairs"].push_back({{"name", name},
                            {"title", "pair of " + name},
                            {"ours",
                             {{"label", "via"},
                              {"unit", "us"},
                              {"values", {0.1, nullptr, 0.3}},
                              {"spread", measured ? spread_json(0.1, 0.2, 0.3, 2) : json()}}},
                            {"peer",
                             {{"label", "UCX <tag>"},
                              {"unit", "us"},
                              {"values", {0.2, 0.2, 0.4}},
                              {"spread", measured ? spread_json(0.2, 0.2, 0.4, 3) : json()}}},
                            {"ratio", measured ? ratio : json()},
                            {"failures", {"one take \"failed\""}}});
    return row;
}

json sample_report() {
    json report{{"schema", 2},
                {"quick", true},
                {"time", "2026-11-16T12:00:00Z"},
                {"seconds", 200.5},
                {"machine",
                 {{"processor", "Made-up <CPU> & co"},
                  {"processors", 2},
                  {"kernel", "Linux 6"},
                  {"load_at_start", 0.1}}},
                {"cores", {0, 1}},
                {"repetitions", 3},
                {"settings", {"VIA_LOG=silent"}},
                {"versions", {{"via", "via 1"}, {"UCX", "1.13"}, {"MPICH", ""}}},
                {"rows", json::array()},
                {"curves", json::array()}};
    report["rows"].push_back(ratio_row("good", spread_json(0.4, 0.45, 0.5), "pass, aim"));
    report["rows"].push_back(ratio_row("fair", spread_json(0.55, 0.6, 0.62), "pass"));
    report["rows"].push_back(ratio_row("bad", spread_json(0.7, 0.8, 0.9), "MISS"));
    report["rows"].push_back(ratio_row("absent", nullptr, "not measured"));
    report["rows"].push_back(ratio_row("known", spread_json(1, 1.1, 1.2), "information"));
    json alone = ratio_row("alone", spread_json(20, 26, 30), "pass");
    alone["group"] = "net";
    alone["must_text"] = "≤ 96 KiB";
    alone["pairs"][0].erase("peer");
    alone["pairs"][0].erase("ratio");
    alone["pairs"][0]["ours"]["unit"] = "KiB";
    report["rows"].push_back(alone);
    for (const char* group : {"shm", "mpi"}) {
        for (const char* unit : {"us", "bytes/s"}) {
            json curve{{"label", "via, memory"},
                       {"group", group},
                       {"unit", unit},
                       {"points", json::array()}};
            for (const int bytes : {8, 512, 65536})
                curve["points"].push_back({{"bytes", bytes}, {"median", bytes * 0.5}});
            report["curves"].push_back(curve);
            curve["label"] = "UCX";
            report["curves"].push_back(curve);
        }
    }
    report["curves"].push_back({{"label", "Open MPI"},
                                {"group", "shm"},
                                {"unit", "us"},
                                {"problem", "install <openmpi>"},
                                {"points", json::array()}});
    report["links"] = {
        {"seconds", 0.5},
        {"interval_s", 0.1},
        {"mb_per_s", {200, 210, 100, 100, 200}},
        {"links", {{100, 105, 100, 100, 100}, {100, 105, 0, 0, 100}}},
        {"events", {{{"at_s", 0.2}, {"name", "cut"}}, {{"at_s", 0.4}, {"name", "back"}}}},
        {"longest_stall", {{"at_s", 0.2}, {"ms", 7.5}}}};
    const auto figure = [](const char* what, const char* kind, const json& met) {
        json one{{"paper", "A"}, {"figure", what},   {"unit", "MB/s"},
                 {"kind", kind}, {"role", "fitted"}, {"model", 77.5}};
        if (met.is_null()) return one;
        one["low"] = 76.2;
        one["high"] = 76.2;
        one["tolerance_percent"] = 2;
        one["error_percent"] = 1.7;
        one["met"] = met;
        return one;
    };
    report["simulator"] = {
        {"figures",
         {figure("a rate", "printed", true), figure("another", "about", false),
          figure("a third", "unprinted", nullptr)}},
        {"missed", 1},
        {"charts",
         {{"lanai4",
           {{"title", "LANai 4"}, {"unit", "MB/s"}, {"curves", {{"MyVIA", {{4, 1.5}, {8, 2.5}}}}}}},
          {"bars", {{"title", "bars"}, {"unit", "µs"}, {"bars", {"x"}}}}}}};
    return report;
}

}  // namespace via::tool::test
