// SPDX-License-Identifier: BSD-3-Clause
#include "net/net_plan.hpp"

#include <gtest/gtest.h>

#include <set>

#include "runner.hpp"

namespace via::bench {
namespace {

TEST(NetPlan, WithoutLabsEveryRowSaysWhy) {
    const bare::CorePair cores{0, 1};
    PlanBuilder builder;
    add_net_rows(builder, {ViaTool("/nowhere/via", "/nowhere", cores, "@nobody"),
                           Mpi(MpiKind::OpenMpi, "/nowhere", cores), cores, nullptr, "no rights"});
    Plan plan = builder.take();
    std::set<std::string> names;
    (void)run_plan(plan, {.pairs = 1, .curves = 0});
    for (const Row& row : plan.rows) {
        EXPECT_TRUE(row.name.starts_with(net_prefix)) << row.name;
        EXPECT_TRUE(names.insert(row.name).second) << row.name;
        EXPECT_EQ(row.group, Group::BetweenHosts);
        const Judgement judgement = judge(row, plan.pairs);
        EXPECT_EQ(judgement.verdict, Verdict::NotMeasured);
        EXPECT_EQ(judgement.why, "no rights");
    }
    EXPECT_FALSE(names.empty());
}

}  // namespace
}  // namespace via::bench
