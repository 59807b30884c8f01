// SPDX-License-Identifier: BSD-3-Clause
#include "report.hpp"

#include <gtest/gtest.h>

namespace via::bench {
namespace {

TEST(Report, HasATableForEveryGroupOfRows) {
    Plan plan;
    Pair pair;
    pair.name = "pair";
    pair.ours = {"ours", Quantity::OneWayMicroseconds, "", {}};
    pair.peer = Probe{"peer", Quantity::OneWayMicroseconds, "", {}};
    pair.our_values = {1};
    pair.peer_values = {2};
    plan.pairs.push_back(pair);
    for (const Group group : {Group::InHost, Group::BetweenHosts, Group::Mpi}) {
        Row row{"row", "a row of " + std::string(group_name(group)), Relation::AtMost, 0.6, 0.5, "",
                {0}};
        row.group = group;
        plan.rows.push_back(row);
    }
    const std::string text = table_text(plan, {});
    std::size_t from = 0;
    for (const char* expected : {"two processes on two cores", "a row of shm", "two hosts of a lab",
                                 "a row of net", "MPI programs", "a row of mpi"}) {
        from = text.find(expected, from);
        ASSERT_NE(from, std::string::npos) << expected << " in\n" << text;
    }
}

}  // namespace
}  // namespace via::bench
