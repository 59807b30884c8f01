// SPDX-License-Identifier: BSD-3-Clause
#include "system/survivor.hpp"

#include "system/loss_watcher.hpp"

namespace via::test {

const char* name_of(Pastime pastime) {
    static constexpr const char* names[] = {"busy", "waiting", "silent"};
    return names[static_cast<int>(pastime)];
}

std::string describe(const Survival& round) {
    const Plan& plan = round.plan;
    std::string text = "seed " + std::to_string(plan.seed) + ", " + level_name(plan.level) +
                       ", survivor " + name_of(round.pastime);
    if (plan.queues) text += " with a completion queue";
    for (int side = 0; side < 2; ++side)
        text += std::string(side == 0 ? "; survivor's " : ", other's ") + "messages to " +
                std::to_string(plan.most_bytes[side]) + " bytes";
    return text + "; the end comes after " + std::to_string(round.completions) + " completions";
}

namespace {

Loss survive_once(Link& link, const Survival& round) {
    LoadedSide side(round.plan, 0);
    LossWatcher watcher;
    EXPECT_VIP(VIP_SUCCESS, VipErrorCallback(side.nic(), &watcher, &LossWatcher::handle));
    side.post_receives();
    connect_as_server(link, side);
    const VIP_VI_HANDLE vi = side.vi();
    const auto deadline = Clock::now() + patience;
    const auto late = [&] { return Clock::now() > deadline; };
    while (side.completed() < round.completions && !side.broken() && !late())
        side.step();
    EXPECT_FALSE(late()) << "only " << side.completed() << " completions: " << describe(round);
    EXPECT_FALSE(side.broken()) << describe(round);
    side.expect_end();
    link.put<std::uint8_t>(1);
    if (round.pastime == Pastime::Busy) {
        while (!side.broken() && !watcher.lost() && !late())
            side.step();
    } else if (round.pastime == Pastime::Waits) {
        while (!side.broken() && !late())
            side.wait_once();
    }
    EXPECT_TRUE(watcher.await()) << "VIP_ERROR_CONN_LOST has not come: " << describe(round);
    EXPECT_EQ(side.vi().state(), VIP_STATE_ERROR);
    side.collect_all();
    side.take_down();
    EXPECT_EQ(watcher.vi(), vi);
    EXPECT_EQ(watcher.state(), VIP_STATE_ERROR);
    EXPECT_EQ(watcher.codes().size(), 1U) << describe(round);
    return {watcher.moment(), side.completed()};
}

}  // namespace

PEER(survive) {
    for (;;) {
        const auto round = link.get<Survival>();
        if (round.end) return;
        const Loss loss = survive_once(link, round);
        link.put(loss);
        if (testing::Test::HasFailure()) return;
    }
}

}  // namespace via::test
