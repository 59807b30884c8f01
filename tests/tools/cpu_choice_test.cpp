// SPDX-License-Identifier: BSD-3-Clause
#include "cpu_choice.hpp"

#include <gtest/gtest.h>
#include <sched.h>

namespace via::tool {
namespace {

using Processors = std::vector<Processor>;

std::pair<int, int> chosen(const Processors& processors) {
    const CpuPair pair = choose_cpus(processors);
    return {pair.first.value_or(-1), pair.second.value_or(-1)};
}

TEST(ChooseCpus, PrefersTwoCoresOfOnePackage) {
    // 0 and 1 are threads of one core, 2 is another core of that package.
    EXPECT_EQ(chosen({{0, 0, 0}, {1, 0, 0}, {2, 1, 0}}), (std::pair{0, 2}));
    // 0 alone on its package.
    EXPECT_EQ(chosen({{0, 0, 0}, {4, 0, 1}, {5, 1, 1}}), (std::pair{4, 5}));
}

TEST(ChooseCpus, TakesWhatThereIs) {
    EXPECT_EQ(chosen({{0, 0, 0}, {8, 0, 1}}), (std::pair{0, 8}));  // cores on two packages
    EXPECT_EQ(chosen({{2, 3, 0}, {3, 3, 0}}), (std::pair{2, 3}));  // two threads of one core
    EXPECT_EQ(chosen({{5, 0, 0}}), (std::pair{5, 5}));
    EXPECT_EQ(chosen({}), (std::pair{-1, -1}));
}

TEST(ParseCpus, ReadsPairsSinglesAndNone) {
    const Processors processors{{0, 0, 0}, {1, 1, 0}};
    EXPECT_EQ(parse_cpus("0,1", processors).value().second, 1);
    EXPECT_EQ(parse_cpus("1", processors).value().first, 1);
    EXPECT_EQ(parse_cpus("1", processors).value().second, 1);
    EXPECT_FALSE(parse_cpus("none", processors).value().first);
}

TEST(ParseCpus, RefusesProcessorsThatAreNotThere) {
    const Processors processors{{0, 0, 0}, {1, 1, 0}};
    for (const char* text : {"", "2", "0,2", "0,", ",1", "0,1,0", "a,b", "-1,0", "0 1"})
        EXPECT_FALSE(parse_cpus(text, processors)) << text;
    const auto refused = parse_cpus("7,0", processors);
    EXPECT_NE(refused.error().sentence.find(" 0 1"), std::string::npos) << refused.error().sentence;
}

TEST(UsableProcessors, AreThoseOfThisProcess) {
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    const Processors processors = usable_processors();
    EXPECT_EQ(static_cast<int>(processors.size()), CPU_COUNT(&set));
    for (const Processor& one : processors)
        EXPECT_TRUE(CPU_ISSET(one.number, &set));
}

TEST(PinTo, HoldsTheThreadThere) {
    cpu_set_t before;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    const int last = usable_processors().back().number;
    ASSERT_TRUE(pin_to(last));
    EXPECT_EQ(sched_getcpu(), last);
    EXPECT_TRUE(pin_to(std::nullopt));
    ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
    EXPECT_FALSE(pin_to(100000));
}

TEST(Describe, SaysWhere) {
    EXPECT_EQ(describe({0, 1}), "cores 0 and 1");
    EXPECT_EQ(describe({1, 1}), "core 1 for both sides");
    EXPECT_EQ(describe({}), "cores of the system's choice");
}

}  // namespace
}  // namespace via::tool
