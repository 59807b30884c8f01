// SPDX-License-Identifier: BSD-3-Clause
// The quick run: its rows exist, there is one of each kind, and it is over in time.
#include "quick_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "mpi_plan.hpp"
#include "net/net_plan.hpp"
#include "scenes.hpp"
#include "shm_plan.hpp"
#include "sim_plan.hpp"

namespace via::bench {
namespace {

/// Everything that viabench plans, with contestants that are not asked.
class QuickPlan : public testing::Test {
  protected:
    QuickPlan() {
        PlanBuilder builder;
        add_shm_rows(builder, contestants_);
        add_net_rows(builder, hosts_);
        add_mpi_rows(builder, mpis_);
        add_sim_rows(builder, "/nowhere");
        whole_ = builder.take();
        quick_ = only_quick(whole_);
        add_shm_curves(quick_, contestants_, true);
        add_net_curves(quick_, hosts_, true);
        add_mpi_curves(quick_, mpis_, true);
        quick_.scenes.push_back(links_over_time(contestants_.via, "", true, links_));
        // What is not there takes no time, and this one is not.
        quick_.scenes.back().seconds = 5;
        quick_.scenes.push_back(papers_beside_simulator(contestants_.via, "/nowhere", figures_));
    }

    const bare::CorePair cores_{0, 1};
    Contestants contestants_{
        ViaTool("/nowhere/via", "/nowhere", cores_, "@nobody"),
        Ucx(cores_),
        {Mpi(MpiKind::OpenMpi, "/nowhere", cores_), Mpi(MpiKind::Mpich, "/nowhere", cores_)},
        cores_};
    NetContestants hosts_{contestants_.via, contestants_.mpis[0], cores_, nullptr, "no labs"};
    MpiContestants mpis_{contestants_.mpis[0],
                         contestants_.mpis[1],
                         "/nowhere/via",
                         "/nowhere",
                         "/nowhere",
                         "/nowhere",
                         "@nobody",
                         cores_,
                         "",
                         "",
                         nullptr,
                         "no labs"};
    nlohmann::json links_;
    nlohmann::json figures_;
    Plan whole_;
    Plan quick_;
};

TEST_F(QuickPlan, AllItsRowsExist) {
    std::set<std::string_view> names;
    for (const QuickRow& row : quick_rows()) {
        EXPECT_TRUE(names.insert(row.name).second) << row.name << " twice";
        EXPECT_GT(row.seconds, 0) << row.name;
        EXPECT_TRUE(std::any_of(whole_.rows.begin(), whole_.rows.end(), [&](const Row& each) {
            return each.name == row.name;
        })) << row.name;
    }
    EXPECT_EQ(quick_.rows.size(), quick_rows().size());
    EXPECT_LT(quick_.pairs.size(), whole_.pairs.size());
}

TEST_F(QuickPlan, HasEveryGroupAndQuantity) {
    const auto kinds = [](const Plan& plan) {
        std::set<std::pair<Group, Quantity>> all;
        for (const Row& row : plan.rows)
            if (row.must) all.emplace(row.group, plan.pairs[row.pairs.front()].ours.quantity);
        return all;
    };
    EXPECT_EQ(kinds(quick_), kinds(whole_));
}

TEST_F(QuickPlan, EndsInLessThanFiveMinutes) {
    const double seconds = quick_seconds(quick_);
    EXPECT_GT(seconds, 60) << "it counts something";
    EXPECT_LT(seconds, quick_limit_seconds);
    // Whatever the machine is like: nothing is begun later, and setting up and ending need a
    // little.
    EXPECT_LT(quick_repetitions.seconds, quick_repetitions.last_seconds);
    EXPECT_LE(quick_repetitions.last_seconds, quick_limit_seconds - 40);
}

TEST(QuickRun, TakesNothingASecondTimeWhenTheTimeIsOver) {
    PlanBuilder builder;
    int taken = 0;
    Probe probe{"slow", Quantity::Milliseconds, "", [&]() -> base::Result<double> {
                    ++taken;
                    return 1.0;
                }};
    builder.pair("one", "", probe, probe);
    builder.pair("two", "", probe, std::nullopt);
    Plan plan = builder.take();
    int scenes = 0;
    plan.scenes.push_back({"scene", 1, [&] { ++scenes; }});
    Curve curve = curve_of("curve", {8}, [&](std::size_t) { return probe; });
    plan.curves.push_back(curve);
    // The time is over before the first take has ended; still everything is taken once.
    const auto curves = run_plan(plan, {.pairs = 5, .curves = 5, .seconds = 1e-9});
    EXPECT_EQ(taken, 4);
    EXPECT_EQ(scenes, 1);
    EXPECT_EQ(plan.pairs[0].our_values.size(), 1U);
    EXPECT_EQ(plan.pairs[0].peer_values.size(), 1U);
    EXPECT_EQ(curves.at(0).points.at(0).values.size(), 1U);
    // Without a limit as often as asked; the scene once.
    (void)run_plan(plan, {.pairs = 5, .curves = 5, .seconds = 0});
    EXPECT_EQ(taken, 4 + 5 * 4);
    EXPECT_EQ(scenes, 2);
}

TEST(QuickRun, TakesNothingAtAllWhenTheLastTimeIsOver) {
    PlanBuilder builder;
    int taken = 0;
    const Probe probe{"slow", Quantity::Milliseconds, "", [&]() -> base::Result<double> {
                          ++taken;
                          return 1.0;
                      }};
    Row row;
    row.pairs = {builder.pair("one", "", probe, std::nullopt)};
    builder.row(row);
    Plan plan = builder.take();
    plan.curves.push_back(curve_of("curve", {8}, [&](std::size_t) { return probe; }));
    const auto curves =
        run_plan(plan, {.pairs = 2, .curves = 1, .seconds = 1e-9, .last_seconds = 1e-9});
    EXPECT_EQ(taken, 0);
    const Judgement judgement = judge(plan.rows[0], plan.pairs);
    EXPECT_EQ(judgement.verdict, Verdict::NotMeasured);
    EXPECT_NE(judgement.why.find("time of the run was over"), std::string::npos) << judgement.why;
    EXPECT_NE(curves.at(0).problem.find("time of the run was over"), std::string::npos);
}

}  // namespace
}  // namespace via::bench
