// SPDX-License-Identifier: BSD-3-Clause
// A host vanishes with all that was on it: cut off and dead, frozen, or without its interfaces.
// Who was connected to it is told within the time set, whatever its program does.
#include <signal.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "base/clock.hpp"
#include "system/lab_hosts.hpp"
#include "system/survivor.hpp"

namespace via::test {
namespace {

constexpr base::Nanoseconds one_millisecond = 1'000'000;
/// What a busy machine may add to the time set.
constexpr base::Nanoseconds slack = 1'000 * one_millisecond;

enum class End : std::uint8_t {
    CutOff,   ///< nothing passes any more, nobody is told, and all its processes are dead
    Frozen,   ///< its processes stand still, its kernel does not
    NoCable,  ///< its interfaces are switched off
};

struct Vanishing {
    End end;
    unsigned lost_ms;  ///< 0: not set
};

std::string name_of(const testing::TestParamInfo<Vanishing>& each) {
    static constexpr const char* ends[] = {"CutOff", "Frozen", "NoCable"};
    return std::string(ends[static_cast<int>(each.param.end)]) +
           (each.param.lost_ms == 0 ? "ByDefault" : "After" + std::to_string(each.param.lost_ms));
}

class NetVanish : public LabHosts, public testing::WithParamInterface<Vanishing> {
  protected:
    void vanish() {
        switch (GetParam().end) {
            case End::CutOff:
                // All links at once: nothing comes in, so that nobody answers for the dead.
                b->filter_input("drop");
                b->signal_all(SIGKILL);
                break;
            case End::Frozen:
                b->signal_all(SIGSTOP);
                break;
            case End::NoCable:
                for (unsigned number = 0; number < 2; ++number)
                    EXPECT_DONE(link(number).down("b"));
        }
    }
};

TEST_P(NetVanish, WhoeverWasConnectedIsTold) {
    make();
    const unsigned lost_ms = GetParam().lost_ms;
    PeerProcess::Environment environment;
    if (lost_ms != 0) environment["VIA_NET_LOST_MS"] = std::to_string(lost_ms);
    const base::Nanoseconds set = (lost_ms == 0 ? 2000 : lost_ms) * one_millisecond;
    struct Connection {
        std::unique_ptr<PeerProcess> survivor;
        std::unique_ptr<PeerProcess> other;
    };
    // Not so many under a sanitizer that the peers would fall silent by themselves.
    std::vector<Connection> connections(std::max(3U, rounds(6)));
    for (std::size_t i = 0; i < connections.size(); ++i) {
        Survival round;
        round.plan.seed = 50 + i;
        round.plan.level = i < 3 ? reliable_delivery : i == 3 ? unreliable : reliable_reception;
        round.plan.most_bytes[0] = round.plan.most_bytes[1] = i % 2 == 0 ? 100'000 : 1000;
        round.plan.queues = i >= 3;
        round.plan.other_may_lose = true;
        round.pastime = static_cast<Pastime>(i % 3);
        round.completions = 50;
        connections[i].survivor = a->start("survive", environment);
        connections[i].other = b->start("bear_load", environment);
        connections[i].survivor->link.put(round);
        connections[i].other->link.put(round.plan);
        introduce(*connections[i].survivor, *connections[i].other);
    }
    for (const Connection& one : connections)
        static_cast<void>(one.survivor->link.get<std::uint8_t>());
    const base::Nanoseconds begun = base::monotonic_now();
    vanish();
    const base::Nanoseconds gone = base::monotonic_now();
    base::Nanoseconds slowest = 0;
    for (std::size_t i = 0; i < connections.size(); ++i) {
        const auto loss = connections[i].survivor->link.get<Loss>();
        const char* pastime = via::test::name_of(static_cast<Pastime>(i % 3));
        EXPECT_GE(loss.moment, begun) << pastime;
        EXPECT_LE(loss.moment - gone, set + slack) << pastime;
        slowest = std::max(slowest, loss.moment - gone);
        Survival end;
        end.end = true;
        connections[i].survivor->link.put(end);
        EXPECT_EQ(connections[i].survivor->wait(), 0) << pastime;
    }
    std::cout << "CONN_LOST at most " << slowest / one_millisecond
              << " ms after the host had gone\n";
    EXPECT_TRUE(eventually([&] { return a->agent().processes.empty(); }));
    b->signal_all(SIGCONT);
}

INSTANTIATE_TEST_SUITE_P(Hosts, NetVanish,
                         testing::Values(Vanishing{End::CutOff, 0}, Vanishing{End::CutOff, 800},
                                         Vanishing{End::Frozen, 1000},
                                         Vanishing{End::NoCable, 900}),
                         name_of);

}  // namespace
}  // namespace via::test
