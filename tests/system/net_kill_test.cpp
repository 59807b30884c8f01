// SPDX-License-Identifier: BSD-3-Clause
// Processes on two hosts: one of them is killed under load, again and again, or comes back at once
// at the same address. The other learns of it in time and is not confused, and nothing remains.
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <stdexcept>

#include "base/clock.hpp"
#include "base/cpu.hpp"
#include "system/lab_hosts.hpp"
#include "system/loss_watcher.hpp"
#include "system/observe.hpp"
#include "system/survivor.hpp"

namespace via::test {
namespace {

/// VIA_NET_LOST_MS unless it is set, and what a busy machine may add.
constexpr base::Nanoseconds bound = 3'000'000'000;

Survival plan_round(std::uint64_t seed) {
    static constexpr std::uint32_t sizes[] = {0, 56, 4096, 100'000, 1U << 20};
    static constexpr VIP_RELIABILITY_LEVEL levels[] = {unreliable, reliable_delivery,
                                                       reliable_reception};
    Random random(seed);
    Survival round;
    round.plan.seed = seed;
    round.plan.level = levels[random.below(3)];
    for (std::uint32_t& bytes : round.plan.most_bytes)
        bytes = sizes[random.below(5)];
    round.plan.queues = random.below(3) == 0;
    round.pastime = static_cast<Pastime>(random.below(3));
    round.completions = random.below(8) == 0 ? 0 : random.below(1ULL << (1 + random.below(8)));
    return round;
}

/// NET_KILL_SEED and NET_KILL_COUNT try other rounds, or one again.
std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* given = std::getenv(name);
    return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

class NetKill : public LabHosts {};

TEST_F(NetKill, TheSurvivorLearnsItAndNothingRemains) {
    make();
    // Else only the first few kills would be noticed at once and not by their silence, as hosts
    // that vanish are (see NetVanish).
    b->answer_every_refusal();
    const std::unique_ptr<PeerProcess> survivor = a->start("survive");
    base::Nanoseconds slowest = 0;
    std::uint64_t completions = 0;
    const auto run = [&](std::uint64_t seed) {
        const Survival round = plan_round(seed);
        SCOPED_TRACE(describe(round));
        const std::unique_ptr<PeerProcess> other = b->start("bear_load");
        survivor->link.put(round);
        other->link.put(round.plan);
        introduce(*survivor, *other);
        static_cast<void>(survivor->link.get<std::uint8_t>());
        Random random(seed + 1);
        for (std::uint64_t spins = random.below(1ULL << (1 + random.below(18))); spins > 0; --spins)
            base::cpu_relax();
        const base::Nanoseconds killed = base::monotonic_now();
        other->kill();
        EXPECT_EQ(other->wait(), -SIGKILL);
        const auto loss = survivor->link.get<Loss>();
        EXPECT_GE(loss.moment, killed);
        EXPECT_LE(loss.moment - killed, bound);
        slowest = std::max(slowest, loss.moment - killed);
        completions += loss.completions;
    };
    // What a process keeps once it has used the library is there after the first round.
    run(1);
    const auto settled = [&] {
        return a->agent_holds_nothing() && b->agent_holds_nothing() && b->agent().processes.empty();
    };
    ASSERT_TRUE(eventually(settled));
    const pid_t agents[] = {a->agent().pid, b->agent().pid};
    const auto descriptors = [&] {
        return std::vector<std::size_t>{open_descriptors(survivor->pid()),
                                        open_descriptors(agents[0]), open_descriptors(agents[1])};
    };
    // Connections say goodbye for a while.
    std::vector<std::size_t> before = descriptors();
    static_cast<void>(eventually([&] {
        before = descriptors();
        return before[0] < 24;
    }));
    const std::uint64_t first = from_environment("NET_KILL_SEED", 1000);
    const std::uint64_t kills = from_environment("NET_KILL_COUNT", rounds(24));
    for (std::uint64_t i = 0; i < kills && !HasFailure(); ++i)
        run(first + i);
    std::cout << kills << " kills amid " << completions << " completions; CONN_LOST at most "
              << slowest / 1'000'000 << " ms after the kill\n";
    EXPECT_TRUE(eventually(settled)) << "an agent still holds something";
    EXPECT_EQ(a->agent().pid, agents[0]) << "the agent has changed";
    EXPECT_EQ(b->agent().pid, agents[1]) << "the agent has changed";
    EXPECT_TRUE(eventually([&] {
        const std::vector<std::size_t> now = descriptors();
        return now[0] <= before[0] && now[1] <= before[1] && now[2] <= before[2];
    })) << "descriptors: "
        << testing::PrintToString(descriptors()) << ", before " << testing::PrintToString(before);
    Survival end;
    end.end = true;
    survivor->link.put(end);
    EXPECT_EQ(survivor->wait(), 0);
    EXPECT_TRUE(eventually([&] { return a->agent().processes.empty(); }));
}

const std::string server_discriminator = "always here";

/// The end that is killed and comes back: it waits at the same address each time.
PEER(serve_load) {
    const auto plan = link.get<Plan>();
    LoadedSide side(plan, 1);
    side.post_receives();
    connect_as_server(link, side, server_discriminator);
    const auto deadline = Clock::now() + 3 * patience;
    while (!(plan.messages != 0 && side.finished())) {
        side.step();
        if (Clock::now() > deadline) throw std::runtime_error("nobody has killed this process");
    }
    side.expect_end();
    link.meet();
    side.take_down();
}

/// Stays connected to the one that was killed, under load, while it works with the one that came.
PEER(see_a_restart) {
    const auto plan = link.get<Plan>();
    LoadedSide old(plan, 0);
    LossWatcher watcher;
    EXPECT_VIP(VIP_SUCCESS, VipErrorCallback(old.nic(), &watcher, &LossWatcher::handle));
    old.post_receives();
    connect_as_client(link, old, "survivor");
    const VIP_VI_HANDLE old_vi = old.vi();
    EXPECT_TRUE(eventually([&] {
        old.step();
        return old.completed() >= 200;
    }));
    old.expect_end();
    Plan next = plan;
    next.seed += 1;
    next.messages = 100;
    link.put<std::uint8_t>(1);  // the kill comes now
    std::thread stubborn([&] {
        const auto deadline = Clock::now() + patience;
        while (!old.broken() && !watcher.lost() && Clock::now() < deadline)
            old.step();
    });
    {
        LoadedSide side(next, 0);
        LossWatcher own;
        EXPECT_VIP(VIP_SUCCESS, VipErrorCallback(side.nic(), &own, &LossWatcher::handle));
        side.post_receives();
        connect_as_client(link, side, "survivor");
        EXPECT_TRUE(eventually([&] {
            side.step();
            return side.finished() || side.broken();
        }));
        EXPECT_TRUE(side.finished());
        EXPECT_FALSE(own.lost()) << "the loss of the old connection was told to the new one";
        side.expect_end();
        own.retire();
        link.meet();
        side.take_down();
    }
    stubborn.join();
    EXPECT_TRUE(watcher.await());
    EXPECT_EQ(watcher.vi(), old_vi);
    old.collect_all();
    old.take_down();
}

/// A process, and in half of the rounds its agent too, comes back with the same addresses and
/// ports while packets for the old one are still under way.
TEST_F(NetKill, WhoComesBackAtOnceIsNotTakenForTheOldOne) {
    make();
    const PeerProcess::Environment few_ports{{"VIA_NET_PORTS", "25000-25003"}};
    b->answer_every_refusal();
    for (std::uint64_t i = 0; i < 6 && !HasFailure(); ++i) {
        SCOPED_TRACE("round " + std::to_string(i));
        Plan plan;
        plan.seed = 100 + 10 * i;
        plan.level = i % 3 == 0 ? reliable_reception : reliable_delivery;
        plan.most_bytes[0] = plan.most_bytes[1] = i % 2 == 0 ? 200'000 : 500;
        const std::unique_ptr<PeerProcess> survivor = a->start("see_a_restart");
        std::unique_ptr<PeerProcess> server = b->start("serve_load", few_ports);
        survivor->link.put(plan);
        server->link.put(plan);
        introduce(*server, *survivor);
        static_cast<void>(survivor->link.get<std::uint8_t>());
        if (i >= 3) {
            b->signal_all(SIGKILL);
        } else {
            server->kill();
        }
        EXPECT_EQ(server->wait(), -SIGKILL);
        server = b->start("serve_load", few_ports);
        Plan next = plan;
        next.seed += 1;
        next.messages = 100;
        server->link.put(next);
        introduce(*server, *survivor);
        pass<std::uint8_t>(*server, *survivor);
        pass<std::uint8_t>(*survivor, *server);
        EXPECT_EQ(server->wait(), 0);
        EXPECT_EQ(survivor->wait(), 0);
    }
    EXPECT_TRUE(
        eventually([&] { return a->agent().processes.empty() && b->agent().processes.empty(); }));
}

}  // namespace
}  // namespace via::test
