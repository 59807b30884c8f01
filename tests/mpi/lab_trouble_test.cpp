// SPDX-License-Identifier: BSD-3-Clause
// MPI between hosts whose links lose packets, are cut and come back: slower, never wrong, never
// stuck.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "child_program.hpp"
#include "lab/lab.hpp"

namespace via::tool {
namespace {

using base::Deadline;
namespace files = std::filesystem;

#define EXPECT_DONE(call)                                             \
    if (const auto done_here = (call); !done_here) {                  \
        ADD_FAILURE() << #call << ": " << done_here.error().sentence; \
    }                                                                 \
    static_assert(true)

void pause_for(unsigned milliseconds) {
    const timespec time{milliseconds / 1000, static_cast<long>(milliseconds % 1000) * 1'000'000};
    nanosleep(&time, nullptr);
}

class LabTrouble : public ::testing::Test {
  protected:
    void SetUp() override {
        if (const auto possible = lab::Lab::possible(); !possible)
            GTEST_SKIP() << possible.error().sentence;
        char name[] = "/tmp/via-lab-trouble-XXXXXX";
        ASSERT_NE(::mkdtemp(name), nullptr);
        folder_ = name;
    }
    void TearDown() override {
        std::error_code error;
        if (!folder_.empty()) files::remove_all(folder_, error);
    }

    void make(unsigned links) {
        auto made = lab::Lab::up({.name = {}, .links = links});
        ASSERT_TRUE(made.ok()) << made.error().sentence;
        lab_.emplace(std::move(made).value());
        // Chance meets every packet, not every train of them.
        for (unsigned number = 0; number < links; ++number)
            EXPECT_DONE(link(number).offload(false));
    }
    [[nodiscard]] lab::LabLink link(unsigned number) const { return lab_->link(number); }

    [[nodiscard]] child::Command job(unsigned ranks, std::vector<std::string> program,
                                     std::vector<std::string> environment) const {
        child::Command command;
        command.arguments = {VIA_TOOL_PATH,
                             "run",
                             "-q",
                             "-n",
                             std::to_string(ranks),
                             "--lab=" + lab_->options().name,
                             "--links",
                             std::to_string(lab_->options().links)};
        command.arguments.insert(command.arguments.end(), program.begin(), program.end());
        command.environment = std::move(environment);
        return command;
    }

    /// How many packets the lab has taken away.
    [[nodiscard]] std::uint64_t packets_dropped() const {
        std::uint64_t all = 0;
        for (const char* host : {"a", "b"}) {
            const auto rules =
                lab_->run(host, {"nft", "list", "ruleset"}, Deadline::after_milliseconds(10'000));
            if (!rules) {
                ADD_FAILURE() << rules.error().sentence;
                continue;
            }
            const std::string& text = rules.value().output;
            const std::string word = "counter packets ";
            for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
                all += std::strtoull(text.c_str() + at + word.size(), nullptr, 10);
        }
        return all;
    }

    files::path folder_;
    std::optional<lab::Lab> lab_;
};

struct Loss {
    const char* name;
    std::vector<std::string> environment;
};

class Losing : public LabTrouble, public ::testing::WithParamInterface<Loss> {};

TEST_P(Losing, RandomTrafficOfFourRanks) {
    make(2);
    for (unsigned number = 0; number < 2; ++number)
        EXPECT_DONE(link(number).loss(10'000));
    auto process =
        child::Process::start(job(4, {VIA_RANDOM_TRAFFIC_PROGRAM, "2"}, GetParam().environment));
    ASSERT_TRUE(process.ok()) << process.error().sentence;
    const auto outcome = process.value().finish(Deadline::after_milliseconds(60'000));
    ASSERT_TRUE(outcome.ok()) << outcome.error().sentence;
    EXPECT_EQ(outcome.value().exit_code, 0) << outcome.value().output << outcome.value().errors;
    EXPECT_NE(outcome.value().output.find("random_traffic: good (4 ranks)"), std::string::npos)
        << outcome.value().output << outcome.value().errors;
    const std::uint64_t dropped = packets_dropped();
    EXPECT_GT(dropped, 0U);
    std::cout << outcome.value().output << dropped << " packets lost\n";
}

INSTANTIATE_TEST_SUITE_P(
    OnePercent, Losing,
    ::testing::Values(Loss{"eager", {"VIA_MPI_PROTOCOL=eager", "VIA_MPI_CREDITS=1"}},
                      Loss{"r3", {"VIA_MPI_PROTOCOL=r3", "VIA_MPI_CREDITS=2"}},
                      Loss{"rget", {"VIA_MPI_PROTOCOL=rget", "VIA_MPI_CREDITS=1"}},
                      Loss{"rput", {"VIA_MPI_PROTOCOL=rput", "VIA_MPI_CREDITS=2"}},
                      Loss{"auto", {}}),
    [](const auto& each) { return std::string(each.param.name); });

/// A stream of two ranks, as slow as the links, which are cut in the middle of a round.
class CutLink : public LabTrouble {
  protected:
    void begin(unsigned links, std::vector<std::string> environment) {
        make(links);
        // A round, 16 to 32 MB in both directions, takes far longer than to cut a link.
        for (unsigned number = 0; number < links; ++number)
            EXPECT_DONE(link(number).rate(800'000'000 / links));
        auto started = child::Process::start(
            job(2, {VIA_STEADY_STREAM_PROGRAM, folder_.string()}, std::move(environment)));
        ASSERT_TRUE(started.ok()) << started.error().sentence;
        process_.emplace(std::move(started).value());
        ASSERT_TRUE(await_rounds(1)) << "it did not begin";
    }
    void go() const { std::ofstream(folder_ / "go") << "\n"; }
    [[nodiscard]] std::uint64_t rounds() const {
        std::error_code error;
        const auto bytes = files::file_size(folder_ / "rounds", error);
        return error ? 0 : bytes;
    }
    /// Until that many rounds more have begun.
    [[nodiscard]] bool await_rounds(std::uint64_t more) {
        const std::uint64_t wanted = rounds() + more;
        const Deadline deadline = Deadline::after_milliseconds(20'000);
        while (rounds() < wanted) {
            if (deadline.expired()) {
                ADD_FAILURE() << "nothing goes on; its links:\n" << links_now();
                return false;
            }
            if (!process_->running()) {
                if (const auto outcome = process_->finish(deadline); outcome.ok())
                    ADD_FAILURE() << outcome.value().output << outcome.value().errors;
                return false;
            }
            pause_for(1);
        }
        return true;
    }
    /// For whoever has to find out why it stands still.
    [[nodiscard]] static std::string links_now() {
        child::Command command;
        command.arguments = {VIA_TOOL_PATH, "links"};
        const auto shown = child::run(command, Deadline::after_milliseconds(10'000));
        return shown.ok() ? shown.value() : shown.error().sentence;
    }
    void finish() {
        std::ofstream(folder_ / "stop") << "\n";
        const auto outcome = process_->finish(Deadline::after_milliseconds(30'000));
        ASSERT_TRUE(outcome.ok()) << outcome.error().sentence;
        EXPECT_EQ(outcome.value().exit_code, 0) << outcome.value().output << outcome.value().errors;
        EXPECT_NE(outcome.value().output.find("steady_stream: good"), std::string::npos)
            << outcome.value().output << outcome.value().errors;
        std::cout << outcome.value().output;
    }
    void TearDown() override {
        process_.reset();
        LabTrouble::TearDown();
    }

    std::optional<child::Process> process_;
};

TEST_F(CutLink, WhileTheConnectionIsMade) {
    begin(1, {"VIA_MPI_CONNECT_MS=60000"});
    EXPECT_DONE(link(0).down());
    go();
    pause_for(500);
    EXPECT_DONE(link(0).up("a"));
    pause_for(500);
    EXPECT_EQ(rounds(), 1U) << "nothing was cut";
    EXPECT_DONE(link(0).up());
    ASSERT_TRUE(await_rounds(1)) << "it is back";
    finish();
}

class Cut : public CutLink, public ::testing::WithParamInterface<const char*> {
  protected:
    [[nodiscard]] static std::string protocol() {
        return std::string("VIA_MPI_PROTOCOL=") + GetParam();
    }
};

TEST_P(Cut, OneOfTwoLinksAndTheStreamGoesOn) {
    begin(2, {protocol()});
    go();
    for (unsigned number = 0; number < 2; ++number) {
        ASSERT_TRUE(await_rounds(1)) << "before link " << number << " is cut";
        EXPECT_DONE(link(number).down());
        // The round that was under way, and a whole one without the link.
        ASSERT_TRUE(await_rounds(2)) << "without link " << number;
        EXPECT_DONE(link(number).up());
        ASSERT_TRUE(await_rounds(1)) << "link " << number << " is back";
        EXPECT_DONE(link(number).silent(true));
        ASSERT_TRUE(await_rounds(2)) << "link " << number << " is silent";
        EXPECT_DONE(link(number).silent(false));
        ASSERT_TRUE(await_rounds(1)) << "link " << number << " is heard again";
    }
    finish();
}

TEST_P(Cut, TheOnlyLinkAndTheStreamWaitsForIt) {
    begin(1, {protocol(), "VIA_NET_LOST_MS=20000"});
    go();
    for (const bool told : {true, false}) {
        ASSERT_TRUE(await_rounds(1)) << "before the cut";
        EXPECT_DONE(told ? link(0).down() : link(0).silent(true));
        const std::uint64_t begun = rounds();
        pause_for(1000);
        EXPECT_LE(rounds(), begun + 1) << "nothing was cut";
        EXPECT_DONE(told ? link(0).up() : link(0).silent(false));
        ASSERT_TRUE(await_rounds(2)) << "it is back";
    }
    finish();
}

INSTANTIATE_TEST_SUITE_P(InMidRendezvous, Cut, ::testing::Values("r3", "rget", "rput"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace via::tool
