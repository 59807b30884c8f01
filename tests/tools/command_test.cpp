// SPDX-License-Identifier: BSD-3-Clause
// The program as people and scripts call it, with an agent of its own.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "program.hpp"

namespace via::tool::test {
namespace {

base::Deadline soon() {
    return base::Deadline::after_milliseconds(60'000);
}

void nap() {
    const timespec span{0, 5'000'000};
    nanosleep(&span, nullptr);
}

/// An agent that nobody else uses, stopped at the end.
class Commands : public ::testing::Test {
  protected:
    static void SetUpTestSuite() {
        const std::string socket = "@viaduct/test/tools/" + std::to_string(getpid());
        setenv("VIA_AGENT_SOCKET", socket.c_str(), 1);
    }
    static void TearDownTestSuite() { (void)run({"agent", "stop"}); }

    static nlohmann::json measured(std::vector<std::string> arguments) {
        arguments.push_back("--json");
        const Outcome outcome = run(arguments);
        EXPECT_EQ(outcome.status, 0) << outcome.errors;
        EXPECT_TRUE(outcome.json().is_object()) << outcome.output;
        return outcome.json();
    }
};

void expect_pingpong(const nlohmann::json& result, std::uint64_t bytes) {
    ASSERT_TRUE(result.is_object());
    EXPECT_EQ(result["program"], "pingpong");
    EXPECT_EQ(result["bytes"], bytes);
    ASSERT_TRUE(result["one_way_us"].is_number());
    EXPECT_GT(result["one_way_us"].get<double>(), 0);
    const nlohmann::json& percentiles = result["percentiles"];
    double last = result["min_us"].get<double>();
    for (const char* name : {"p50", "p90", "p99", "p99.9"}) {
        ASSERT_TRUE(percentiles[name].is_number()) << name;
        EXPECT_GE(percentiles[name].get<double>(), last) << name;
        last = percentiles[name].get<double>();
    }
    EXPECT_GE(result["max_us"].get<double>(), last);
    EXPECT_EQ(percentiles["p50"], result["one_way_us"]);
}

void expect_window(const nlohmann::json& result, std::uint64_t bytes) {
    ASSERT_TRUE(result.is_object());
    EXPECT_EQ(result["program"], "window");
    EXPECT_EQ(result["bytes"], bytes);
    ASSERT_TRUE(result["mb_per_s"].is_number());
    ASSERT_TRUE(result["messages_per_s"].is_number());
    const double messages = result["messages_per_s"].get<double>();
    EXPECT_GT(messages, 0);
    EXPECT_NEAR(result["mb_per_s"].get<double>(), messages * static_cast<double>(bytes) / 1e6,
                messages * static_cast<double>(bytes) / 1e6 * 1e-6);
    EXPECT_GE(result["buffers"].get<std::uint64_t>(), 1u);
    EXPECT_GT(result["client_cpu_s"].get<double>(), 0);
    EXPECT_GT(result["server_cpu_s"].get<double>(), 0);
    EXPECT_GT(result["cpu_s_per_gb"].get<double>(), 0);
}

// The forms that scripts outside use. They are given as they are; only time is saved.
const std::vector<std::string> brief{"--seconds", "0.02", "--repetitions", "2"};

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& further) {
    arguments.insert(arguments.end(), further.begin(), further.end());
    return arguments;
}

TEST_F(Commands, PingpongExactForm) {
    const nlohmann::json result =
        measured(with({"pingpong", "--device", "shm0", "--bytes", "8"}, brief));
    expect_pingpong(result, 8);
    EXPECT_EQ(result["device"], "shm0");
    EXPECT_EQ(result["memory"], "kmem");
    EXPECT_EQ(result["wait"], "poll");
}

TEST_F(Commands, WindowExactForm) {
    expect_window(measured(with({"window", "--device", "shm0", "--bytes", "4096"}, brief)), 4096);
}

TEST_F(Commands, BothMemories) {
    for (const char* memory : {"heap", "kmem"}) {
        for (const char* bytes : {"8", "1048576"}) {
            const auto number = std::stoull(bytes);
            expect_pingpong(measured({"pingpong", "--device", "shm0", "--bytes", bytes, "--memory",
                                      memory, "--iterations", "20", "--repetitions", "2"}),
                            number);
            expect_window(measured({"window", "--device", "shm0", "--bytes", bytes, "--memory",
                                    memory, "--iterations", "40", "--repetitions", "2"}),
                          number);
        }
    }
}

TEST_F(Commands, IdleVisOnTheSameCompletionQueue) {
    const nlohmann::json result =
        measured(with({"pingpong", "--device", "shm0", "--bytes", "8", "--idle-vis", "4"}, brief));
    expect_pingpong(result, 8);
    EXPECT_EQ(result["idle_vis"], 4);
    EXPECT_EQ(result["completion_queue"], true);
    expect_window(
        measured(with({"window", "--device", "shm0", "--bytes", "64", "--idle-vis", "4"}, brief)),
        64);
}

TEST_F(Commands, BlockingWaits) {
    for (const char* bytes : {"8", "65536"}) {
        const auto number = std::stoull(bytes);
        expect_pingpong(measured({"pingpong", "--device", "shm0", "--bytes", bytes, "--wait",
                                  "block", "--iterations", "100", "--repetitions", "2"}),
                        number);
        expect_pingpong(measured({"pingpong", "--device", "shm0", "--bytes", bytes, "--wait",
                                  "block", "--cq", "--iterations", "100", "--repetitions", "2"}),
                        number);
        expect_window(measured({"window", "--device", "shm0", "--bytes", bytes, "--wait", "block",
                                "--iterations", "500", "--repetitions", "2"}),
                      number);
    }
}

TEST_F(Commands, EveryOperationAtEveryReliabilityArrivesIntact) {
    for (const std::string operation : {"send", "rdma-write", "rdma-read"}) {
        for (const std::string reliability : {"unreliable", "delivery", "reception"}) {
            if (operation == "rdma-read" && reliability == "unreliable") continue;
            for (const std::string memory : {"heap", "kmem"}) {
                const std::vector<std::string> common{
                    "--device",      "shm0",      "--operation", operation,
                    "--reliability", reliability, "--memory",    memory,
                    "--iterations",  "50",        "--warmup",    "5",
                    "--repetitions", "1",         "--bytes",     "1,8,100,4096,20000,300000",
                    "--check"};
                SCOPED_TRACE(operation + " " + reliability + " " + memory);
                for (const std::string program : {"pingpong", "window"}) {
                    const nlohmann::json results = measured(with({program}, common));
                    ASSERT_TRUE(results["results"].is_array());
                    EXPECT_EQ(results["results"].size(), 6u);
                    for (const nlohmann::json& result : results["results"])
                        EXPECT_EQ(result["checked"], true);
                }
            }
        }
    }
}

TEST_F(Commands, RdmaInEveryWayOfWaiting) {
    for (const std::string operation : {"rdma-write", "rdma-read"})
        for (const std::vector<std::string>& waiting : std::vector<std::vector<std::string>>{
                 {"--cq"}, {"--wait", "block"}, {"--wait", "block", "--cq"}, {"--idle-vis", "2"}})
            for (const std::string program : {"pingpong", "window"})
                (void)measured(
                    with(with({program, "--operation", operation, "--bytes", "8,70000",
                               "--iterations", "50", "--warmup", "5", "--repetitions", "1"},
                              waiting),
                         {"--check"}));
}

TEST_F(Commands, SmallWindowsAndEmptyMessages) {
    for (const char* window : {"1", "2", "3", "500"})
        expect_window(measured({"window", "--bytes", "16", "--window", window, "--iterations",
                                "1001", "--repetitions", "1", "--check"}),
                      16);
    (void)measured({"pingpong", "--bytes", "0", "--iterations", "100"});
    (void)measured({"window", "--bytes", "0", "--iterations", "100"});
}

TEST_F(Commands, BothSidesOnOneCore) {
    expect_pingpong(measured({"pingpong", "--bytes", "8", "--cpus", "0", "--iterations", "200",
                              "--repetitions", "1"}),
                    8);
    (void)measured({"pingpong", "--bytes", "8", "--cpus", "0", "--operation", "rdma-write",
                    "--iterations", "200", "--repetitions", "1"});
    expect_window(measured({"window", "--bytes", "8", "--cpus", "0", "--iterations", "2000",
                            "--repetitions", "1"}),
                  8);
}

TEST_F(Commands, SeparateSidesMeet) {
    const std::string place = "meet-" + std::to_string(getpid());
    Program server({"pingpong", "--server", place});
    // The name service knows this host by some name; localhost always is one.
    const Outcome client = run({"pingpong", "--connect", "localhost:" + place, "--bytes", "8,4k",
                                "--iterations", "100", "--json"});
    EXPECT_EQ(client.status, 0) << client.errors;
    EXPECT_EQ(client.json()["results"].size(), 2u) << client.output;
    const Outcome served = server.wait(soon());
    EXPECT_EQ(served.status, 0) << served.errors;
}

TEST_F(Commands, TextForPeople) {
    const Outcome pingpong = run({"pingpong", "--bytes", "8,4k", "--iterations", "200",
                                  "--repetitions", "2", "--histogram"});
    EXPECT_EQ(pingpong.status, 0) << pingpong.errors;
    EXPECT_NE(pingpong.output.find("one-way µs"), std::string::npos) << pingpong.output;
    EXPECT_NE(pingpong.output.find("4096 bytes:"), std::string::npos) << pingpong.output;
    const Outcome window = run({"window", "--bytes", "4k", "--iterations", "200"});
    EXPECT_EQ(window.status, 0) << window.errors;
    EXPECT_NE(window.output.find("MB/s"), std::string::npos) << window.output;
}

TEST_F(Commands, BadArgumentsAreRefusedWithASentence) {
    const std::vector<std::vector<std::string>> misuses{
        {},
        {"nonsense"},
        {"pingpong", "--memory", "paper"},
        {"pingpong", "--wait", "later"},
        {"pingpong", "--iterations", "0"},
        {"pingpong", "--repetitions", "-1"},
        {"pingpong", "--server", "a", "--connect", "b"},
        {"window", "--window", "0"},
        {"window", "--histogram"},
        {"pingpong", "--idle-vis", "many"},
        {"agent"},
        {"stat", "--interval", "0"}};
    for (const auto& arguments : misuses) {
        const Outcome outcome = run(arguments);
        EXPECT_EQ(outcome.status, 2) << (arguments.empty() ? "" : arguments.back());
        EXPECT_FALSE(outcome.errors.empty());
        EXPECT_TRUE(outcome.output.empty()) << outcome.output;
    }
    const std::vector<std::vector<std::string>> failures{
        {"pingpong", "--bytes", "8x"},
        {"pingpong", "--bytes", ""},
        {"pingpong", "--bytes", "8g"},
        {"pingpong", "--cpus", "0,99999"},
        {"pingpong", "--device", "nosuch0"},
        {"window", "--window", "60000", "--iterations", "1"},
        {"pingpong", "--operation", "rdma-read", "--reliability", "unreliable"},
        {"pingpong", "--connect", ":x"}};
    for (const auto& arguments : failures) {
        const Outcome outcome = run(arguments);
        EXPECT_EQ(outcome.status, 1) << arguments.back();
        EXPECT_TRUE(outcome.errors.starts_with("via: ")) << outcome.errors;
    }
}

TEST_F(Commands, AClientWithoutServerGivesUp) {
    const Outcome outcome =
        run({"pingpong", "--connect", "localhost:nobody-here", "--timeout", "0.5"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.errors.find("connecting"), std::string::npos) << outcome.errors;
}

TEST_F(Commands, AServerWithoutClientGivesUp) {
    const Outcome outcome = run({"window", "--server", "nobody-comes", "--timeout", "0.5"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.errors.find("waiting for the other side"), std::string::npos)
        << outcome.errors;
}

std::vector<pid_t> children_of(pid_t parent) {
    std::vector<pid_t> children;
    std::ifstream file("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) +
                       "/children");
    for (pid_t pid; file >> pid;)
        children.push_back(pid);
    return children;
}

/// Until both sides of the measurement run.
std::vector<pid_t> wait_for_sides(const Program& program) {
    const base::Deadline deadline = soon();
    for (;;) {
        const std::vector<pid_t> children = children_of(program.pid());
        if (children.size() == 2 || deadline.expired()) return children;
        nap();
    }
}

bool gone(pid_t pid) {
    const base::Deadline deadline = soon();
    while (kill(pid, 0) == 0) {
        if (deadline.expired()) return false;
        nap();
    }
    return true;
}

TEST_F(Commands, AKilledSideIsAnErrorAndNothingIsLeft) {
    for (const std::size_t victim : {std::size_t{0}, std::size_t{1}}) {
        Program program({"pingpong", "--bytes", "8", "--seconds", "60"});
        const std::vector<pid_t> sides = wait_for_sides(program);
        ASSERT_EQ(sides.size(), 2u);
        kill(sides[victim], SIGKILL);
        const Outcome outcome = program.wait(soon());
        EXPECT_EQ(outcome.status, 1) << outcome.output;
        EXPECT_NE(outcome.errors.find("signal 9"), std::string::npos) << outcome.errors;
        for (const pid_t side : sides)
            EXPECT_TRUE(gone(side));
    }
}

TEST_F(Commands, AKilledProgramTakesItsSidesWithIt) {
    std::vector<pid_t> sides;
    {
        Program program({"window", "--bytes", "8", "--seconds", "60"});
        sides = wait_for_sides(program);
        ASSERT_EQ(sides.size(), 2u);
    }  // killed here
    for (const pid_t side : sides)
        EXPECT_TRUE(gone(side));
}

TEST_F(Commands, StatShowsARunningProcess) {
    Program program({"pingpong", "--bytes", "8", "--seconds", "60"});
    const std::vector<pid_t> sides = wait_for_sides(program);
    ASSERT_EQ(sides.size(), 2u);
    nlohmann::json found;
    const base::Deadline deadline = soon();
    const auto busy = [&] {
        const Outcome outcome = run({"stat", std::to_string(sides[0]), "--once", "--json"});
        const nlohmann::json answer = outcome.json();
        if (!answer.is_object() || answer["processes"].size() != 1) return false;
        found = answer["processes"][0];
        return found.contains("totals") && found["totals"]["sent_messages"] > 1000;
    };
    while (!busy() && !deadline.expired())
        nap();
    ASSERT_TRUE(found.is_object());
    EXPECT_EQ(found["pid"], sides[0]);
    EXPECT_GT(found["totals"]["sent_by_path"]["inline"], 1000) << found.dump();
    EXPECT_EQ(found["program"], "via");
    const auto connected = [&](const nlohmann::json& vi) {
        return vi["state"] == "connected" && vi["peer_pid"] == sides[1] && vi["device"] == "shm0";
    };
    EXPECT_TRUE(std::any_of(found["vis"].begin(), found["vis"].end(), connected)) << found.dump();

    const Outcome rates = run({"stat", "via", "--once", "--interval", "0.1", "--json"});
    const nlohmann::json both = rates.json();
    ASSERT_EQ(both["processes"].size(), 2u) << rates.output;
    EXPECT_GT(both["processes"][0]["rates"]["sent_messages_per_s"], 0);
    const Outcome text = run({"stat", std::to_string(sides[1]), "--once"});
    EXPECT_EQ(text.status, 0) << text.errors;
    EXPECT_NE(text.output.find("connected"), std::string::npos) << text.output;
}

TEST_F(Commands, StatOfNobodyFails) {
    (void)run({"agent", "start"});
    EXPECT_EQ(run({"stat", "no-such-program", "--once"}).status, 1);
    EXPECT_EQ(run({"stat", "--once"}).status, 0);
    (void)run({"agent", "stop"});
    EXPECT_EQ(run({"stat", "--once", "--json"}).json()["agent_running"], false);
    EXPECT_EQ(run({"stat", "1", "--once"}).status, 1);
}

TEST_F(Commands, AgentStartsShowsItselfAndStops) {
    EXPECT_EQ(run({"agent", "stop"}).status, 0);
    EXPECT_EQ(run({"agent", "status", "--json"}).json()["running"], false);
    const Outcome started = run({"agent", "start"});
    EXPECT_EQ(started.status, 0) << started.errors;
    const nlohmann::json status = run({"agent", "status", "--json"}).json();
    EXPECT_EQ(status["running"], true);
    const pid_t pid = status["pid"];
    EXPECT_EQ(kill(pid, 0), 0);
    EXPECT_NE(run({"agent", "status"}).output.find(std::to_string(pid)), std::string::npos);
    const Outcome stopped = run({"agent", "stop", "--json"});
    EXPECT_EQ(stopped.status, 0) << stopped.errors;
    EXPECT_EQ(stopped.json()["stopped_pid"], pid);
    EXPECT_TRUE(gone(pid));
}

TEST_F(Commands, InfoNamesTheDeviceAndWhatWorks) {
    const Outcome outcome = run({"info", "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    const nlohmann::json info = outcome.json();
    ASSERT_FALSE(info["devices"].empty()) << outcome.output;
    EXPECT_EQ(info["devices"][0]["Name"], "shm0");
    EXPECT_GE(info["devices"][0]["MaxTransferSize"].get<std::uint64_t>(), 65536u);
    EXPECT_EQ(info["devices"][0]["NicAddressLen"], 6);
    EXPECT_FALSE(info["aliases"].empty());
    EXPECT_EQ(info["copy_paths"].size(), 4u);
    for (const nlohmann::json& path : info["copy_paths"]) {
        EXPECT_TRUE(path["works"].is_boolean());
        EXPECT_FALSE(path["detail"].get<std::string>().empty());
    }
    const Outcome text = run({"info"});
    EXPECT_EQ(text.status, 0);
    EXPECT_NE(text.output.find("MaxTransferSize"), std::string::npos);
    EXPECT_EQ(run({"info", "--brief"}).status, 0);
}

TEST_F(Commands, ConfigShowsValuesOriginsAndWarnings) {
    const Outcome outcome = run(
        {"config", "--json"}, {"VIA_SPIN_US=77", "VIA_SHM_PATHS=ring", "VIA_PD_SMALL_RING=zebra"});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    const nlohmann::json config = outcome.json();
    const auto setting = [&](const char* name) -> nlohmann::json {
        for (const nlohmann::json& one : config["settings"])
            if (one["name"] == name) return one;
        return {};
    };
    EXPECT_EQ(setting("VIA_SPIN_US")["value"], "77");
    EXPECT_EQ(setting("VIA_SPIN_US")["origin"], "environment");
    EXPECT_EQ(setting("VIA_LOG")["origin"], "default");
    EXPECT_FALSE(setting("VIA_PD_SMALL_RING")["problem"].get<std::string>().empty());
    bool nearest = false;
    for (const std::string warning : config["warnings"])
        nearest = nearest || (warning.find("VIA_SHM_PATHS") != std::string::npos &&
                              warning.find("VIA_SHM_PATH") != std::string::npos);
    EXPECT_TRUE(nearest) << config["warnings"].dump();
    const Outcome text = run({"config", "--changed"}, {"VIA_SPIN_US=77"});
    EXPECT_NE(text.output.find("VIA_SPIN_US"), std::string::npos);
    EXPECT_EQ(text.output.find("VIA_SHM_INLINE"), std::string::npos) << text.output;
}

TEST_F(Commands, VersionInBothForms) {
    EXPECT_EQ(run({"version"}).output, run({"--version"}).output);
    EXPECT_TRUE(run({"version", "--json"}).json()["version"].is_string());
    EXPECT_EQ(run({"--help"}).status, 0);
    EXPECT_EQ(run({"pingpong", "--help"}).status, 0);
}

TEST_F(Commands, DemoEndsWithTablePlotsAndFiles) {
    char folder[] = "/tmp/via-demo-command-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    const Outcome outcome =
        run({"demo", "--sizes", "8,4k,1m", "--seconds", "0.01", "--results", folder});
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_NE(outcome.output.find("µs heap"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("stream, MB/s"), std::string::npos) << outcome.output;
    std::ifstream file(std::string(folder) + "/demo.json");
    const auto json = nlohmann::json::parse(file, nullptr, false);
    ASSERT_TRUE(json.is_object());
    ASSERT_EQ(json["sizes"].size(), 3u);
    for (const nlohmann::json& row : json["sizes"])
        for (const auto& [name, value] : row.items())
            EXPECT_GT(value, 0) << name;
    std::filesystem::remove_all(folder);
}

TEST_F(Commands, TheAgentKeepsNoOutputOpen) {
    // A script that reads the output to its end must not wait for the agent to go.
    (void)run({"agent", "stop"});
    const Outcome outcome = run({"pingpong", "--bytes", "8", "--iterations", "100", "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_EQ(run({"agent", "status", "--json"}).json()["running"], true);
}

}  // namespace
}  // namespace via::tool::test
