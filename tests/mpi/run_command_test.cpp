// SPDX-License-Identifier: BSD-3-Clause
// `via run` as people call it: what it says, and how it refuses.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "lab/lab.hpp"
#include "tools/program.hpp"

namespace via::tool::test {
namespace {

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(RunCommand, ExplainPrintsTheCommandAndRunsNothing) {
    const Outcome run = test::run({"run", "-n", "64", "--over", "vader", "--explain", "--mca",
                                   "coll=^hcoll", VIA_MPI_PROGRAM, "-n", "two words"});
    ASSERT_EQ(run.status, 0) << run.errors;
    EXPECT_TRUE(has(run.output, "mpirun")) << run.output;
    EXPECT_TRUE(has(run.output, "-n 64 --oversubscribe")) << run.output;
    EXPECT_TRUE(has(run.output, "--mca btl self,vader")) << run.output;
    EXPECT_TRUE(has(run.output, "--mca coll ^hcoll")) << run.output;
    EXPECT_TRUE(has(run.output, std::string(VIA_MPI_PROGRAM) + " -n 'two words'")) << run.output;
    EXPECT_FALSE(has(run.output, "good"));
}

TEST(RunCommand, SettingsReachOtherHosts) {
    const Outcome run =
        test::run({"run", "-n", "2", "--hosts", "one,two", "--over", "tcp", "--explain", "program"},
                  {"VIA_MPI_CREDITS=7", "FI_LOG_LEVEL=warn"});
    ASSERT_EQ(run.status, 0) << run.errors;
    EXPECT_TRUE(has(run.output, "--host one,two")) << run.output;
    EXPECT_TRUE(has(run.output, "-x VIA_MPI_CREDITS")) << run.output;
    EXPECT_TRUE(has(run.output, "-x FI_LOG_LEVEL")) << run.output;
}

TEST(RunCommand, WhatIsMissingIsSaid) {
    const Outcome nothing = test::run({"run", "-n", "2"});
    EXPECT_NE(nothing.status, 0);
    EXPECT_TRUE(has(nothing.errors, "which program")) << nothing.errors;

    const Outcome program = test::run({"run", "--over", "vader", "no-such-program"});
    EXPECT_EQ(program.status, 1);
    EXPECT_TRUE(has(program.errors, "./no-such-program")) << program.errors;

    const Outcome open_mpi =
        test::run({"run", "--over", "vader", VIA_MPI_PROGRAM}, {"PATH=/nonexistent"});
    EXPECT_EQ(open_mpi.status, 1);
    EXPECT_TRUE(has(open_mpi.errors, "openmpi-bin")) << open_mpi.errors;

    const Outcome over = test::run({"run", "--over", "pigeon", VIA_MPI_PROGRAM});
    EXPECT_EQ(over.status, 1);
    EXPECT_TRUE(has(over.errors, "vader")) << over.errors;
}

TEST(RunCommand, TheStatusOfTheProgramIsItsOwn) {
    EXPECT_EQ(test::run({"run", "-q", "-n", "1", "--over", "vader", "/bin/true"}).status, 0);
    EXPECT_EQ(
        test::run({"run", "-q", "-n", "1", "--over", "vader", "/bin/sh", "-c", "exit 7"}).status,
        7);
}

TEST(RunCommand, RanksInHostsOfALab) {
    if (const auto possible = lab::Lab::possible(); !possible)
        GTEST_SKIP() << possible.error().sentence;
    // Each rank says the addresses of its host.
    const Outcome run = test::run({"run", "--lab", "--links", "2", "-n", "2", "--over", "tcp",
                                   "/bin/sh", "-c", "ip -br addr show dev link1"});
    ASSERT_EQ(run.status, 0) << run.errors;
    EXPECT_TRUE(has(run.output, "10.77.1.1/24")) << run.output;
    EXPECT_TRUE(has(run.output, "10.77.1.2/24")) << run.output;
    EXPECT_TRUE(has(run.errors, "over 2 links")) << run.errors;
}

}  // namespace
}  // namespace via::tool::test
