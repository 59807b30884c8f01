// SPDX-License-Identifier: BSD-3-Clause
// `via sim` as scripts outside call it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "program.hpp"

namespace via::tool::test {
namespace {

nlohmann::json simulated(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "sim");
    arguments.push_back("--json");
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_TRUE(outcome.json().is_object()) << outcome.output;
    return outcome.json();
}

TEST(SimCommand, SendExactForms) {
    for (const char* type :
         {"cpu", "User", "User:ST", "User:ST,DT", "Syscall", "Syscall:ST", "Syscall:ST,DT"}) {
        const auto result = simulated(
            {"send", "--machine", "p2-300", "--nic", "lanai4", "--type", type, "--bytes", "4096"});
        const double total = result["total_us"].get<double>();
        EXPECT_NEAR(result["mb_per_s"].get<double>(), 4096 / total, 1e-6) << type;
        const auto& host = result["host"];
        double sum = 0;
        for (const char* part : {"copy_structure_us", "copy_data_us", "start_us", "wait_us"})
            sum += host[part].get<double>();
        EXPECT_NEAR(sum, total, 1e-6) << type;
    }
}

TEST(SimCommand, RhinetExactForms) {
    const std::vector<std::string> rhinet{"send",    "--machine", "p2-300", "--nic",
                                          "rhinet1", "--bytes",   "4096",   "--clock"};
    const auto with = [&](std::vector<std::string> further) {
        std::vector<std::string> all = rhinet;
        all.insert(all.end(), further.begin(), further.end());
        return simulated(all);
    };
    EXPECT_NEAR(with({"16"})["total_us"].get<double>(), 102.056, 0.5);
    const double planned = with({"33"})["total_us"].get<double>();
    EXPECT_EQ(with({"33", "--burst", "long"})["total_us"].get<double>(), planned);
    EXPECT_GT(with({"33", "--burst", "16"})["total_us"].get<double>(), planned);
    EXPECT_FALSE(with({"16"})["stages"].empty());
}

TEST(SimCommand, TwoHosts) {
    const auto window = simulated({"window", "--machine", "athlon-1400", "--nic", "lanai9",
                                   "--firmware", "myvia", "--bytes", "4096"});
    EXPECT_GE(window["mb_per_s"].get<double>(), 240);
    const auto pingpong = simulated({"pingpong", "--machine", "athlon-1400", "--nic", "lanai9",
                                     "--firmware", "myvia", "--bytes", "4"});
    EXPECT_NEAR(pingpong["one_way_us"].get<double>(), 8.46, 8.46 * 0.02);
}

TEST(SimCommand, SeveralLinks) {
    const std::vector<std::string> mnc{"window", "--machine",  "xeon-700", "--nic",
                                       "lanai9", "--firmware", "mnc",      "--bytes",
                                       "65536",  "--links",    "2",        "--policy"};
    const auto rate = [&](const char* policy) {
        std::vector<std::string> all = mnc;
        all.emplace_back(policy);
        return simulated(all)["mb_per_s"].get<double>();
    };
    EXPECT_GT(rate("dynamic"), 1.4 * rate("static"));
    EXPECT_EQ(rate("oneway"), rate("static"));
}

TEST(SimCommand, FlowsExactForm) {
    for (const char* flows : {"same", "opposite"}) {
        const auto result = simulated({"flows", "--machine", "xeon-700", "--nic", "lanai9",
                                       "--firmware", "gm", "--flows", flows, "--bytes", "16384"});
        ASSERT_EQ(result["mb_per_s"].size(), 2U);
        EXPECT_NEAR(result["share"][0].get<double>(),
                    result["mb_per_s"][0].get<double>() / result["single_mb_per_s"].get<double>(),
                    1e-9);
    }
}

TEST(SimCommand, NonsenseIsNamed) {
    const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
        {{"send", "--machine", "p9-9000"}, "p2-300"},
        {{"send", "--nic", "lanai7"}, "lanai4"},
        {{"send", "--bytes", "0"}, "--bytes is 0"},
        {{"send", "--type", "Kernel"}, "User:ST"},
        {{"send", "--nic", "rhinet1", "--clock", "-3"}, "-3 MHz"},
        {{"send", "--nic", "rhinet1", "--burst", "17"}, "16 or long"},
        {{"window", "--firmware", "gmvia"}, "gmvia"},
        {{"window", "--clock", "0"}, "0 MHz"},
        {{"flows", "--flows", "around"}, "same or opposite"},
        {{"window", "--firmware", "mnc", "--policy", "random"}, "static, oneway or dynamic"},
        {{"window", "--firmware", "mnc", "--links", "0"}, "from 1 to 8"},
        {{"window", "--firmware", "myvia", "--links", "2"}, "mnc"},
        {{"send", "--nic", "rhinet1", "--type", "User"}, "--type is for lanai4"},
        {{"ring", "--small", "12"}, "power of two"},
        {{"ring", "--small", "8", "--low-water", "8"}, "below the ring's size"},
        {{"ring", "--messages", "0"}, "--messages is 0"},
        {{"window", "--locality", "some"}, "good or poor"},
        {{"pingpong", "--bytes", "0"}, "--bytes is 0"},
    };
    for (const auto& [arguments, word] : cases) {
        std::vector<std::string> all = arguments;
        all.insert(all.begin(), "sim");
        const Outcome outcome = run(all);
        EXPECT_EQ(outcome.status, 1) << word;
        EXPECT_NE(outcome.errors.find(word), std::string::npos) << outcome.errors;
    }
}

TEST(SimCommand, TheRingInterruptsAtItsMark) {
    const auto one = simulated({"ring", "--small", "16", "--low-water", "4", "--messages", "200"});
    EXPECT_GT(one["interrupts"].get<std::uint64_t>(), 0U);
    EXPECT_GT(one["spilled"].get<std::uint64_t>(), 100U);
    EXPECT_EQ(one["stalls"].get<std::uint64_t>(), 0U);
    const auto often =
        simulated({"ring", "--small", "16", "--low-water", "15", "--messages", "200"});
    EXPECT_GT(often["interrupts"].get<std::uint64_t>(), one["interrupts"].get<std::uint64_t>());
    EXPECT_GT(simulated({"ring", "--messages", "50"})["rings"].size(), 10U);
}

TEST(SimCommand, SeveralLinksAreMncs) {
    const std::vector<std::string> two{"window", "--machine", "xeon-700", "--nic",
                                       "lanai9", "--bytes",   "65536",    "--links",
                                       "2",      "--policy",  "dynamic",  "--firmware"};
    std::vector<std::string> as_gm = two;
    as_gm.emplace_back("gm");
    std::vector<std::string> as_mnc = two;
    as_mnc.emplace_back("mnc");
    EXPECT_EQ(simulated(as_gm)["mb_per_s"], simulated(as_mnc)["mb_per_s"]);
}

/// The same program source as on shm0, by the clock of the simulated host.
TEST(SimulatedDevice, PingpongAndWindowRunOnIt) {
    const Outcome pingpong = run({"pingpong", "--device", "lanai9", "--bytes", "4", "--json"});
    ASSERT_EQ(pingpong.status, 0) << pingpong.errors;
    EXPECT_NEAR(pingpong.json()["one_way_us"].get<double>(), 8.46, 8.46 * 0.02);
    EXPECT_EQ(pingpong.json()["simulated"]["firmware"], "myvia");
    const Outcome window =
        run({"window", "--device", "lanai4", "--firmware", "bvia", "--bytes", "4096", "--json"});
    ASSERT_EQ(window.status, 0) << window.errors;
    const auto model = simulated({"window", "--machine", "p3-733", "--nic", "lanai4", "--firmware",
                                  "bvia", "--bytes", "4096"});
    EXPECT_NEAR(window.json()["mb_per_s"].get<double>(), model["mb_per_s"].get<double>(),
                model["mb_per_s"].get<double>() * 0.03);
}

TEST(SimulatedDevice, EveryOperationAndEveryByte) {
    for (const char* operation : {"send", "rdma-write", "rdma-read"}) {
        const Outcome outcome =
            run({"pingpong", "--device", "lanai4", "--bytes", "1,3000", "--operation", operation,
                 "--check", "--iterations", "20", "--cq", "--json"});
        EXPECT_EQ(outcome.status, 0) << operation << ": " << outcome.errors;
    }
}

TEST(SimulatedDevice, NonsenseIsNamed) {
    const std::pair<std::vector<std::string>, const char*> cases[] = {
        {{"--device", "lanai9", "--firmware", "hvia"}, "hvia"},
        {{"--device", "lanai9", "--machine", "pdp-11"}, "pdp-11"},
        {{"--device", "lanai9", "--clock", "-3"}, "-3"},
        {{"--device", "lanai9", "--server"}, "one process"},
        {{"--firmware", "bvia"}, "simulated"},
    };
    for (const auto& [arguments, word] : cases) {
        std::vector<std::string> all = arguments;
        all.insert(all.begin(), "pingpong");
        const Outcome outcome = run(all);
        EXPECT_EQ(outcome.status, 1) << word;
        EXPECT_NE(outcome.errors.find(word), std::string::npos) << outcome.errors;
    }
}

TEST(SimCommand, AFileWithAWrongValueIsNamedWithItsLine) {
    const auto path = std::filesystem::temp_directory_path() /
                      ("viaduct-sim-" + std::to_string(getpid()) + ".machine");
    std::ofstream(path) << "# mine\npio_per_byte = -1 ns/byte guessed \"why not\"\n";
    const Outcome outcome = run({"sim", "send", "--machine", path.string()});
    std::filesystem::remove(path);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.errors.find(path.string() + ":2: pio_per_byte is -1 ns/byte"),
              std::string::npos)
        << outcome.errors;
}

}  // namespace
}  // namespace via::tool::test
