// SPDX-License-Identifier: BSD-3-Clause
// The printed tables of the mechanisms study come out of the model.
#include "sim/firmware/send_study.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "sim/firmware/rhinet.hpp"
#include "sim/parameters/catalogue.hpp"

namespace via::sim {
namespace {

template <class T>
T must(base::Result<T> result) {
    if (!result) throw std::runtime_error(result.error().sentence);
    return std::move(result).value();
}

Machine machine() {
    return must(load_parameters("p2-300", "machine", machine_parameters()));
}

SendBreakdown send(const char* type, std::uint64_t bytes) {
    const Nic nic = must(load_parameters("lanai4", "nic", nic_parameters()));
    const StudyFirmware firmware =
        must(load_parameters("study", "firmware", study_firmware_parameters()));
    return must(simulate_send(machine(), nic, firmware, *send_type(type), bytes));
}

double rate(const char* type, std::uint64_t bytes) {
    return static_cast<double>(bytes) / in_microseconds(send(type, bytes).total());
}

testing::AssertionResult within(double percent, double paper, double model) {
    const double error = (model / paper - 1) * 100;
    if (std::abs(error) <= percent) return testing::AssertionSuccess();
    return testing::AssertionFailure() << model << " for " << paper << ": " << error << " %";
}

TEST(SendStudy, BreakdownAt4096Bytes) {
    const SendBreakdown user = send("User", 4096);
    EXPECT_EQ(user.copy_structure, 0);
    EXPECT_EQ(user.copy_data, 0);
    EXPECT_TRUE(within(2, 1.787, in_microseconds(user.start)));
    EXPECT_TRUE(within(3, 44.693, in_microseconds(user.wait)));
    const SendBreakdown structure = send("User:ST", 4096);
    EXPECT_TRUE(within(2, 1.693, in_microseconds(structure.copy_structure)));
    EXPECT_TRUE(within(2, 1.550, in_microseconds(structure.start)));
    EXPECT_TRUE(within(2, 42.587, in_microseconds(structure.wait)));
    const SendBreakdown data = send("User:ST,DT", 4096);
    EXPECT_TRUE(within(2, 1.697, in_microseconds(data.copy_structure)));
    EXPECT_TRUE(within(2, 108.437, in_microseconds(data.copy_data)));
    EXPECT_TRUE(within(2, 1.403, in_microseconds(data.start)));
    EXPECT_TRUE(within(2, 38.150, in_microseconds(data.wait)));
}

TEST(SendStudy, RatesOfTheWays) {
    const struct {
        std::uint64_t bytes;
        double cpu, user, copied;
    } rows[] = {{4, 0.414, 0.340, 0.355},
                {8, 0.762, 0.671, 0.711},
                {16, 1.324, 1.340, 1.419},
                {4096, 4.713, 89.661, 27.474}};
    for (const auto& row : rows) {
        EXPECT_TRUE(within(2, row.cpu, rate("cpu", row.bytes))) << row.bytes;
        EXPECT_TRUE(within(3, row.user, rate("User", row.bytes))) << row.bytes;
        EXPECT_TRUE(within(2, row.copied, rate("User:ST,DT", row.bytes))) << row.bytes;
    }
}

// What the study says in words; nothing was fitted on these.
TEST(SendStudy, CopyingWinsForShortMessagesOnly) {
    EXPECT_GE(rate("User:ST,DT", 32), rate("User", 32));
    EXPECT_TRUE(within(5, rate("User", 64), rate("User:ST,DT", 64)));
    EXPECT_LT(rate("User:ST,DT", 256), rate("User", 256));
    EXPECT_TRUE(within(10, 4, rate("User", 10240) / rate("User:ST,DT", 10240)));
}

TEST(SendStudy, LongMessagesMeetTheMemory) {
    EXPECT_GE(rate("User", 1 << 20), 125);
    EXPECT_LE(rate("User", 1 << 20), 133.4);
}

TEST(SendStudy, SystemCallsAreSlightlyBehind) {
    for (const std::uint64_t bytes : {64U, 1024U, 4096U, 65536U}) {
        for (const std::string way : {"", ":ST", ":ST,DT"}) {
            const double user = rate(("User" + way).c_str(), bytes);
            const double system_call = rate(("Syscall" + way).c_str(), bytes);
            EXPECT_GT(user, system_call) << way << " " << bytes;
            EXPECT_GT(system_call, 0.75 * user) << way << " " << bytes;
        }
    }
}

TEST(SendStudy, TheSameQuestionGivesTheSameBytes) {
    Trace first;
    Trace second;
    const Nic nic = must(load_parameters("lanai4", "nic", nic_parameters()));
    const StudyFirmware firmware =
        must(load_parameters("study", "firmware", study_firmware_parameters()));
    for (Trace* trace : {&first, &second})
        must(simulate_send(machine(), nic, firmware, *send_type("User"), 10000, trace));
    EXPECT_FALSE(first.spans().empty());
    EXPECT_EQ(first.spans(), second.spans());
}

// An ablation: if both DMA engines shared one access a clock, the long ones would be cut to half.
TEST(SendStudy, EnginesThatShareOneAccessCanNotBeRight) {
    Nic nic = must(load_parameters("lanai4", "nic", nic_parameters()));
    nic.memory_width /= 2;
    const StudyFirmware firmware =
        must(load_parameters("study", "firmware", study_firmware_parameters()));
    const SendBreakdown halved =
        must(simulate_send(machine(), nic, firmware, *send_type("User"), 4096));
    EXPECT_LT(4096 / in_microseconds(halved.total()), 60);
}

RhinetSend rhinet(double clock, Bursts bursts, std::uint64_t bytes) {
    Rhinet nic = must(load_parameters("rhinet1", "nic", rhinet_parameters()));
    nic.clock = clock;
    return must(simulate_rhinet_send(machine(), nic, bursts, bytes));
}

TEST(Rhinet, TheTableAt4096Bytes) {
    const RhinetSend sent = rhinet(16, Bursts::Short, 4096);
    EXPECT_TRUE(within(0.5, 102.056, in_microseconds(sent.total)));
    Time on_the_path = 0;
    for (const RhinetStage& stage : sent.stages)
        if (stage.on_the_path) on_the_path += stage.end - stage.begin;
    EXPECT_EQ(on_the_path, sent.total);
    constexpr std::uint64_t much = 1U << 20;
    EXPECT_TRUE(within(5, 44, much / in_microseconds(rhinet(16, Bursts::Short, much).total)));
}

TEST(Rhinet, FasterLogicAndLongBursts) {
    const Time slow = rhinet(16, Bursts::Short, 4096).total;
    const Time faster = rhinet(33, Bursts::Short, 4096).total;
    const Time planned = rhinet(33, Bursts::Unbroken, 4096).total;
    EXPECT_LT(faster, slow);
    EXPECT_LT(planned, faster);
    // Bus and memory stay what they are.
    EXPECT_GT(in_microseconds(planned), 4096 / 133.4 + 1.062 + 0.2 + 0.936);
}

TEST(Catalogue, NamesWhatThereIs) {
    const auto wrong = find_parameters("p5-1000", "machine");
    ASSERT_FALSE(wrong);
    EXPECT_NE(wrong.error().sentence.find("p2-300"), std::string::npos) << wrong.error().sentence;
    EXPECT_FALSE(find_parameters("./no-such-file", "machine"));
}

}  // namespace
}  // namespace via::sim
