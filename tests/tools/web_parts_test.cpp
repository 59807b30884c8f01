// SPDX-License-Identifier: BSD-3-Clause
// The parts of `via web` that need no browser: who is let in, the numbers for Prometheus and for
// the page, and what the simulator answers to good and bad questions.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "agent_report.hpp"
#include "child_program.hpp"
#include "connection_links.hpp"
#include "sim/experiment/figures.hpp"
#include "web/access.hpp"
#include "web/live.hpp"
#include "web/metrics.hpp"
#include "web/simulation.hpp"

namespace via::tool::web {
namespace {

using nlohmann::json;

// ---- who is let in ------------------------------------------------------------------------------

constexpr const char* token = "0123456789abcdef0123456789abcdef";

Door inner_door() {
    return {token, "127.0.0.1", false, "pillar"};
}

TEST(WebAccess, TokensAreLongAndUnlike) {
    std::set<std::string> seen;
    for (int i = 0; i < 100; ++i) {
        const auto made = make_token();
        ASSERT_TRUE(made);
        EXPECT_EQ(made.value().size(), 32u);
        EXPECT_EQ(made.value().find_first_not_of("0123456789abcdef"), std::string::npos);
        EXPECT_TRUE(seen.insert(made.value()).second);
    }
}

TEST(WebAccess, SecretsAreComparedWhole) {
    EXPECT_TRUE(same_secret("abc", "abc"));
    EXPECT_FALSE(same_secret("abc", "abd"));
    EXPECT_FALSE(same_secret("abc", "Abc"));
    EXPECT_FALSE(same_secret("ab", "abc"));
    EXPECT_FALSE(same_secret("abcabc", "abc"));
    EXPECT_FALSE(same_secret("", "abc"));
    EXPECT_FALSE(same_secret("abc", ""));
    EXPECT_FALSE(same_secret("", "")) << "no secret lets nobody in";
}

TEST(WebAccess, LoopbackIsKnown) {
    for (const char* address : {"127.0.0.1", "127.3.2.1", "::1", "localhost", "LocalHost"})
        EXPECT_TRUE(is_loopback(address)) << address;
    for (const char* address :
         {"0.0.0.0", "10.0.0.1", "::", "fe80::1", "localhost.evil", "127.1", ""})
        EXPECT_FALSE(is_loopback(address)) << address;
}

TEST(WebAccess, ForeignHostsAreRefused) {
    const Door inner = inner_door();
    for (const char* host : {"127.0.0.1", "127.0.0.1:8080", "localhost:1", "[::1]:80", "LOCALHOST"})
        EXPECT_TRUE(host_allowed(host, inner)) << host;
    for (const char* host :
         {"", "evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example",
          "pillar", "10.0.0.1", "[::1", "[::2]:80", "127.0.0.1:80:80", "127.0.0.1:x", ":80", "[]"})
        EXPECT_FALSE(host_allowed(host, inner)) << host;
    Door outer = inner;
    outer.exposed = true;
    outer.listen = "0.0.0.0";
    for (const char* host : {"pillar", "Pillar:80", "10.0.0.1:9", "[fe80::1]:80", "localhost"})
        EXPECT_TRUE(host_allowed(host, outer)) << host;
    for (const char* host : {"evil.example", "pillar.evil.example", "", "10.0.0.1.evil.example"})
        EXPECT_FALSE(host_allowed(host, outer)) << host;
}

TEST(WebAccess, OnlyTheTokenOpens) {
    const Door door = inner_door();
    const std::string with = std::string("/") + token;
    const std::string bearer = std::string("Bearer ") + token;
    EXPECT_EQ(admit({"GET", with + "/api/live", "localhost", ""}, door).path, "api/live");
    EXPECT_EQ(admit({"HEAD", with + "/", "localhost", ""}, door).status, 200);
    EXPECT_EQ(admit({"GET", with + "/", "localhost", ""}, door).path, "");
    EXPECT_TRUE(admit({"GET", with, "localhost", ""}, door).folder);
    EXPECT_EQ(admit({"GET", "/metrics", "localhost", bearer}, door).path, "metrics");
    EXPECT_EQ(admit({"GET", "/metrics", "localhost", "bearer " + std::string(token)}, door).status,
              200);
    for (const std::string& path : {std::string("/"), std::string("/metrics"), with + "0/metrics",
                                    with.substr(0, 20) + "/metrics", std::string("//") + token})
        EXPECT_EQ(admit({"GET", path, "localhost", ""}, door).status, 401) << path;
    for (const char* wrong : {"Bearer ", "Bearer x", "Basic 0123", "Bearer"})
        EXPECT_EQ(admit({"GET", "/metrics", "localhost", wrong}, door).status, 401) << wrong;
    EXPECT_EQ(admit({"GET", with + "/", "evil.example", bearer}, door).status, 403);
    EXPECT_EQ(admit({"GET", with + "/", "", bearer}, door).status, 403);
    EXPECT_EQ(admit({"POST", with + "/", "localhost", bearer}, door).status, 405);
    EXPECT_EQ(admit({"OPTIONS", with + "/", "localhost", bearer}, door).status, 405);
    EXPECT_EQ(admit({"GET", "", "localhost", bearer}, door).status, 400);
    EXPECT_EQ(admit({"GET", "*", "localhost", bearer}, door).status, 400);
}

TEST(WebAccess, ATokenCanBeKept) {
    std::string folder = ::testing::TempDir() + "web-token-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    const std::string path = folder + "/token";
    const auto first = token_of_file(path);
    ASSERT_TRUE(first) << first.error().sentence;
    struct stat about {};
    ASSERT_EQ(stat(path.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777U, 0600U);
    const auto again = token_of_file(path);
    ASSERT_TRUE(again);
    EXPECT_EQ(first.value(), again.value());
    ASSERT_EQ(chmod(path.c_str(), 0644), 0);
    EXPECT_FALSE(token_of_file(path)) << "others can read it";
    ASSERT_EQ(chmod(path.c_str(), 0600), 0);
    for (const char* bad :
         {"", "short", "with/a/slash/in/it/0000000", "blank in the middle of it"}) {
        std::ofstream(path, std::ios::trunc) << bad << "\n";
        EXPECT_FALSE(token_of_file(path)) << bad;
    }
    EXPECT_FALSE(token_of_file(folder + "/none/token"));
    std::filesystem::remove_all(folder);
}

// ---- numbers ------------------------------------------------------------------------------------

/// Every field is set, so that a name that is forgotten or taken twice shows.
HostView made_up_host(const std::string& name) {
    HostView host;
    host.name = name;
    host.agent.emplace();
    host.agent->pid = 77;
    host.agent->version = "0.0";
    host.agent->uptime_seconds = 12;
    ReportedProcess process;
    process.agent.pid = 4711;
    process.agent.program = "odd \"name\" \\ \xC3\xA4";
    process.agent.vis = 2;
    process.agent.kmem_bytes = 99;
    CountersSnapshot& counters = process.counters;
    counters.pid = 4711;
    counters.taken_monotonic_ns = 2'000'000'000;
    for (std::size_t slot = 1; slot <= 2; ++slot) {
        ViSnapshot vi;
        vi.slot = slot;
        vi.device = slot == 1 ? "shm0" : "net0";
        vi.sent_messages = {10 * slot, 1, 0, 2, 0, 3};
        vi.sent_bytes = 1000 * slot;
        vi.received_bytes = 7;
        vi.send_stalls = 5;
        counters.vis.push_back(vi);
        counters.totals.add(vi);
    }
    counters.messages.devices = 1;
    counters.messages.sent[0][1] = 42;
    counters.messages.connections_in_host = 1;
    counters.messages.least_credits = 13;
    counters.errors.push_back({3, 1, 2, "something went wrong"});
    for (std::size_t slot = 0; slot < 2; ++slot) {
        LinkSnapshot link;
        link.slot = slot;
        link.vi_slot = 2;
        link.state = slot == 0 ? 1 : 3;
        link.text = "eth" + std::to_string(slot) + " 10.0.0.1 - 10.0.0.2";
        link.sent_bytes = 500 + slot;
        link.round_trip_ns = 1500;
        counters.links.push_back(link);
    }
    counters.link_changes.push_back({1, 1'700'000'000'123'000'000, 2, 1, 3, "eth1"});
    process.before = counters;
    process.before->taken_monotonic_ns = 1'000'000'000;
    host.processes.push_back(with_rates(std::move(static_cast<WatchedProcess&>(process))));
    ReportedProcess closed;
    closed.agent.pid = 5;
    closed.problem = "it keeps its counters for itself";
    host.processes.push_back(closed);
    return host;
}

/// What Prometheus' format asks for beyond what promtool looks at.
void check_exposition(const std::string& text) {
    std::set<std::string> families;
    std::set<std::string> samples;
    std::string family;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        ASSERT_FALSE(line.empty());
        if (line.starts_with("# HELP ")) {
            family = line.substr(7, line.find(' ', 7) - 7);
            EXPECT_TRUE(families.insert(family).second) << family << " comes twice";
            continue;
        }
        if (line.starts_with("# TYPE ")) {
            EXPECT_TRUE(line.starts_with("# TYPE " + family + " ")) << line;
            EXPECT_EQ(line.ends_with(" counter"), family.ends_with("_total")) << line;
            continue;
        }
        const std::size_t end = line.rfind(' ');
        ASSERT_NE(end, std::string::npos) << line;
        EXPECT_EQ(line.substr(0, line.find_first_of("{ ")), family) << line;
        EXPECT_TRUE(samples.insert(line.substr(0, end)).second) << line << " comes twice";
        char* rest = nullptr;
        EXPECT_TRUE(std::isfinite(strtod(line.c_str() + end + 1, &rest))) << line;
        EXPECT_EQ(*rest, '\0') << line;
    }
    EXPECT_GT(families.size(), 40u);
}

TEST(WebMetrics, AreThoseOfTheProcesses) {
    const std::vector<HostView> hosts{made_up_host(""), made_up_host("a")};
    const std::string text = metrics_text(hosts);
    check_exposition(text);
    const std::string who = "pid=\"4711\",program=\"odd \\\"name\\\" \\\\ \xC3\xA4\"";
    for (const std::string& line :
         {std::string("via_agent_up 1\n"), std::string("via_agent_up{host=\"a\"} 1\n"),
          "via_sent_messages_total{" + who + ",path=\"inline\"} 30\n",
          "via_sent_bytes_total{" + who + "} 3000\n",
          "via_sent_bytes_total{host=\"a\"," + who + "} 3000\n",
          "via_vi_sent_messages_total{" + who + ",vi=\"2\",device=\"net0\"} 26\n",
          "via_mpi_sent_messages_total{" + who + ",protocol=\"eager\",size=\"1-64\"} 42\n",
          "via_mpi_least_credits{" + who + "} 13\n", "via_errors_total{" + who + "} 3\n",
          "via_link_up{" + who + ",vi=\"2\",slot=\"0\",link=\"eth0 10.0.0.1 - 10.0.0.2\"} 1\n",
          "via_link_up{" + who + ",vi=\"2\",slot=\"1\",link=\"eth1 10.0.0.1 - 10.0.0.2\"} 0\n"})
        EXPECT_NE(text.find(line), std::string::npos) << line << "is missing in\n" << text;
}

TEST(WebMetrics, SayThatNobodyIsThere) {
    HostView nobody;
    const std::string text = metrics_text({nobody});
    EXPECT_NE(text.find("via_agent_up 0\n"), std::string::npos) << text;
    EXPECT_NE(text.find("via_processes 0\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("via_sent"), std::string::npos) << text;
}

TEST(WebMetrics, PromtoolFindsNothingWrong) {
    const std::string promtool = child::find_program("promtool");
    ASSERT_FALSE(promtool.empty()) << "there is no promtool (Debian: prometheus)";
    child::Command command;
    command.arguments = {promtool, "check", "metrics"};
    command.input = metrics_text({made_up_host(""), made_up_host("a")});
    auto process = child::Process::start(command);
    ASSERT_TRUE(process) << process.error().sentence;
    const auto outcome = process.value().finish(base::Deadline::after_milliseconds(30'000));
    ASSERT_TRUE(outcome) << outcome.error().sentence;
    EXPECT_EQ(outcome.value().exit_code, 0) << outcome.value().output << outcome.value().errors;
    EXPECT_EQ(outcome.value().output + outcome.value().errors, "");
}

TEST(WebLive, HasTheNamesOfTheOtherCommands) {
    const HostView host = made_up_host("a");
    const json live = live_json({host}, 1234);
    EXPECT_EQ(live["unix_ms"], 1234);
    ASSERT_EQ(live["hosts"].size(), 1u);
    const json& seen = live["hosts"][0];
    EXPECT_EQ(seen["name"], "a");
    EXPECT_EQ(seen["agent"], agent_json(*host.agent));
    ASSERT_EQ(seen["processes"].size(), 2u);
    const json& process = seen["processes"][0];
    // As `via stat --json` has it, and what comes on top.
    const json stat = process_json(host.processes[0]);
    for (const auto& [name, value] : stat.items())
        EXPECT_EQ(process[name], value) << name;
    EXPECT_EQ(process["totals"]["sent_bytes"], 3000);
    EXPECT_TRUE(process.contains("rates"));
    const json links = links_json(host.processes[0].counters, host.processes[0].before);
    EXPECT_EQ(process["connections"], links["connections"]);
    EXPECT_EQ(process["changes"], links["changes"]);
    EXPECT_EQ(process["connections"][0]["links"][1]["state"], "down");
    EXPECT_EQ(process["changes"][0]["to"], "down");
    EXPECT_EQ(process["devices"]["shm0"]["sent_messages"], 16);
    EXPECT_EQ(process["devices"]["net0"]["vis"], 1);
    EXPECT_EQ(seen["processes"][1]["problem"], "it keeps its counters for itself");
    const json nobody = live_json({HostView{}}, 1);
    EXPECT_EQ(nobody["hosts"][0]["agent"]["running"], false);
}

TEST(WebLive, ManyVisAreSummedUp) {
    HostView host = made_up_host("");
    std::vector<ViSnapshot>& vis = host.processes[0].counters.vis;
    for (std::size_t slot = 3; slot <= 1000; ++slot) {
        ViSnapshot vi;
        vi.slot = slot;
        vi.device = "shm0";
        vi.sent_bytes = 1;
        vis.push_back(vi);
    }
    const json process = live_json({host}, 1)["hosts"][0]["processes"][0];
    EXPECT_EQ(process["vis"].size(), most_vis_shown);
    EXPECT_EQ(process["vis_left_out"], 1000 - most_vis_shown);
    EXPECT_EQ(process["devices"]["shm0"]["vis"], 999);
    EXPECT_EQ(process["devices"]["shm0"]["sent_bytes"], 1998);
}

// ---- the simulator ------------------------------------------------------------------------------

Query query_of(const std::string& machine, const std::string& nic, const std::string& firmware) {
    return {{"machine", machine}, {"nic", nic}, {"firmware", firmware}};
}

TEST(WebSimulator, EveryChoiceDraws) {
    Simulator simulator;
    const json catalogue = simulator.catalogue();
    EXPECT_EQ(catalogue["machines"].size(), 5u);
    std::size_t choices = 0;
    for (const json& nic : catalogue["nics"])
        for (const json& firmware : nic["firmware"]) {
            ++choices;
            EXPECT_NE(firmware["meaning"], "");
            Query query = query_of(firmware["machine"], nic["name"], firmware["name"]);
            query.emplace("bytes", "1024");
            const auto run = simulator.run(query);
            ASSERT_TRUE(run) << firmware << run.error().sentence;
            const json& result = run.value();
            EXPECT_GT(result["mb_per_s"], 0.1) << firmware;
            EXPECT_GE(result["stages"].size(), 1u) << firmware;
            std::set<std::string> resources;
            for (const json& resource : result["resources"])
                resources.insert(resource["resource"]);
            double end = 0;
            for (const json& stage : result["stages"]) {
                EXPECT_TRUE(resources.contains(stage["resource"])) << stage;
                EXPECT_GE(stage["begin_us"], 0.0);
                end = std::max(end, stage["begin_us"].get<double>() + stage["us"].get<double>());
            }
            EXPECT_NEAR(end, result["total_us"].get<double>(), 1e-6);
        }
    EXPECT_EQ(choices, 15u);
}

TEST(WebSimulator, ThePapersPointsLieOnTheCurves) {
    Simulator simulator;
    std::set<std::string> seen;
    std::set<std::string> shaded;
    struct System {
        const char* machine;
        const char* nic;
        const char* firmware;
        const char* clock;
    };
    for (const System& system :
         {System{"p3-733", "lanai4", "myvia", ""}, System{"athlon-1400", "lanai9", "gm", ""},
          System{"xeon-700", "lanai9", "gm", ""}, System{"xeon-2000", "lanai9", "gm", "133"},
          System{"p2-300", "lanai4", "User", ""}, System{"p2-300", "rhinet1", "16MHz", ""}}) {
        Query query = query_of(system.machine, system.nic, system.firmware);
        if (*system.clock != '\0') query.emplace("clock", system.clock);
        const auto curves = simulator.curves(query);
        ASSERT_TRUE(curves) << curves.error().sentence;
        for (const json& chart : curves.value()["charts"]) {
            for (const json& band : chart["bands"])
                shaded.insert(band["figure"]);
            for (const json& point : chart["paper"]) {
                const std::string name = point["figure"];
                EXPECT_TRUE(seen.insert(name).second) << name;
                const sim::Figure* figure = nullptr;
                for (const sim::Figure& each : sim::paper_figures())
                    if (each.what == name) figure = &each;
                ASSERT_NE(figure, nullptr) << name;
                bool found = false;
                for (const json& curve : chart["curves"]) {
                    if (curve["firmware"] != point["firmware"]) continue;
                    for (const json& value : curve["points"]) {
                        if (value[0] != point["bytes"]) continue;
                        found = true;
                        EXPECT_TRUE(figure->is_met(value[1]))
                            << name << ": " << value[1] << " instead of " << point["text"];
                    }
                }
                EXPECT_TRUE(found) << name << " is beside its curve";
            }
        }
    }
    EXPECT_EQ(seen.size(), 23u);
    EXPECT_EQ(shaded.size(), 1u);
    // On a machine that no paper had there is nothing to compare with.
    const auto elsewhere = simulator.curves(query_of("xeon-2000", "rhinet1", "16MHz"));
    ASSERT_TRUE(elsewhere);
    for (const json& chart : elsewhere.value()["charts"])
        EXPECT_TRUE(chart["paper"].empty());
}

TEST(WebSimulator, BadQuestionsGetASentence) {
    Simulator simulator;
    const auto refused = [&](Query query, const char* part) {
        const auto run = simulator.run(query);
        ASSERT_FALSE(run) << part;
        EXPECT_EQ(run.error().code, base::Code::InvalidArgument);
        EXPECT_NE(run.error().sentence.find(part), std::string::npos) << run.error().sentence;
        EXPECT_LT(run.error().sentence.size(), 300u);
        EXPECT_EQ(run.error().sentence.back(), '.');
    };
    for (const char* bytes : {"0", "-1", "1048577", "99999999999999999999999", "4096x", " 4", "4.5",
                              "1e3", "0x10", "nan"})
        refused({{"bytes", bytes}}, "bytes is");
    for (const char* messages : {"0", "33", "-4", "4294967297", "x"})
        refused({{"messages", messages}}, "messages is");
    for (const char* clock : {"0", "1001", "-1", "nan", "inf", "133MHz", "1e999"})
        refused({{"clock", clock}}, "clock is");
    refused({{"clock", "10"}, {"nic", "rhinet1"}}, "streams only");
    // Files are named on the command line only.
    for (const char* name : {"/etc/passwd", "../p2-300", "./x.machine", "p2-300.machine", "P2-300"})
        refused({{"machine", name}}, "There is no machine");
    refused({{"nic", "/dev/zero"}}, "There is no NIC");
    refused({{"nic", "lanai4"}, {"firmware", "gm"}}, "has no firmware");
    refused({{"firmware", "/tmp/x"}}, "has no firmware");
    refused({{"firmware", std::string(5000, 'x')}}, "...'");
    refused({{"machine", "p2-300\x1b[2J\n"}}, "?");
    refused({{"bytes", "4"}, {"bytes", "8"}}, "twice");
    refused({{"colour", "red"}}, "nothing that can be chosen");
    // What is allowed at all may still draw more than can be seen.
    refused({{"nic", "lanai4"}, {"firmware", "bvia"}, {"bytes", "1048576"}, {"messages", "3"}},
            "bars");
    EXPECT_FALSE(simulator.curves({{"bytes", "4"}})) << "curves are over all sizes";
}

TEST(WebSimulator, AnyWordsAreAnswered) {
    Simulator simulator;
    const std::vector<std::string> names{"machine",  "nic",   "firmware", "bytes",
                                         "messages", "clock", "",         "x"};
    const std::vector<std::string> words{"p2-300", "lanai4", "lanai9",   "rhinet1", "myvia", "User",
                                         "16MHz",  "64",     "1",        "-1",      "",      "\0",
                                         "%00",    "/",      "\xFF\xFE", "1e300",   "133"};
    for (std::uint32_t seed = 0; seed < 400; ++seed) {
        std::mt19937 random(seed);
        Query query;
        for (std::size_t i = random() % 5; i > 0; --i)
            query.emplace(names[random() % names.size()], words[random() % words.size()]);
        const auto run = simulator.run(query);
        if (!run) {
            EXPECT_EQ(run.error().code, base::Code::InvalidArgument) << "seed " << seed;
            EXPECT_FALSE(run.error().sentence.empty()) << "seed " << seed;
        }
    }
}

}  // namespace
}  // namespace via::tool::web
