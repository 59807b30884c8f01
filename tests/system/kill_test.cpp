// SPDX-License-Identifier: BSD-3-Clause
// A process under load is killed at a random moment, again and again. Its partner learns of it in
// time, gets every descriptor back once, and nothing of the dead one remains.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/cpu.hpp"
#include "system/loaded_side.hpp"
#include "system/loss_watcher.hpp"
#include "system/observe.hpp"
#include "system/survivor.hpp"
#include "vipl/harness.hpp"

namespace via::test {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr base::Nanoseconds bound = 1'000'000'000;
#else
constexpr base::Nanoseconds bound = 100'000'000;
#endif

struct Round {
    Plan plan;
    Pastime pastime = Pastime::Busy;
    std::uint64_t completions = 0;  ///< so many before the kill
    std::uint64_t spins = 0;        ///< and so long after them
    PeerProcess::Environment environment;
};

Round plan_round(std::uint64_t seed) {
    static constexpr std::uint32_t sizes[] = {0, 56, 4096, 100'000, 1U << 20};
    static constexpr VIP_RELIABILITY_LEVEL levels[] = {unreliable, reliable_delivery,
                                                       reliable_reception};
    static constexpr const char* paths[] = {"auto", "auto", "cma", "ring"};
    Random random(seed);
    Round round;
    round.plan.seed = seed;
    round.plan.level = levels[random.below(3)];
    for (unsigned side = 0; side < 2; ++side) {
        round.plan.most_bytes[side] = sizes[random.below(5)];
        round.plan.kmem[side] = random.below(2) == 0;
    }
    round.plan.queues = random.below(3) == 0;
    round.pastime = static_cast<Pastime>(random.below(3));
    // From "at once" to "in the middle of it", mostly early.
    round.completions = random.below(8) == 0 ? 0 : random.below(1ULL << (1 + random.below(8)));
    round.spins = random.below(3) == 0 ? 0 : random.below(1ULL << (1 + random.below(15)));
    round.environment["VIA_SHM_PATH"] = paths[random.below(4)];
    return round;
}

/// KILL_TEST_SEED and KILL_TEST_COUNT try other rounds, or one again.
std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* given = std::getenv(name);
    return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

std::string describe(const Round& round) {
    const Plan& plan = round.plan;
    std::string text = "seed " + std::to_string(plan.seed) + ", " + level_name(plan.level) +
                       ", survivor " + name_of(round.pastime);
    if (plan.queues) text += " with a completion queue";
    for (int side = 0; side < 2; ++side)
        text += std::string(side == 0 ? "; survivor's " : ", other's ") + "messages to " +
                std::to_string(plan.most_bytes[side]) + " bytes in " +
                (plan.kmem[side] ? "kmem" : "heap");
    return text + "; VIA_SHM_PATH=" + round.environment.at("VIA_SHM_PATH") +
           " there; killed after " + std::to_string(round.completions) + " completions and " +
           std::to_string(round.spins) + " spins";
}

/// How long after the death CONN_LOST came; `own` is less the time for which this process had no
/// processor.
struct Latency {
    base::Nanoseconds seen = 0;
    base::Nanoseconds own = 0;
    std::uint64_t completions = 0;  ///< of the round, before and after
};

class Kill : public testing::Test {
  protected:
    Latency run(const Round& round);
    void run_whole(std::uint64_t seed);
};

Latency Kill::run(const Round& round) {
    const Plan& plan = round.plan;
    SCOPED_TRACE(describe(round));
    PeerProcess child("bear_load", round.environment);
    child.link.put(plan);
    LoadedSide side(plan, 0);
    LossWatcher watcher;
    EXPECT_VIP(VIP_SUCCESS, VipErrorCallback(side.nic(), &watcher, &LossWatcher::handle));
    side.post_receives();
    connect_as_server(child.link, side);
    const VIP_VI_HANDLE vi = side.vi();

    const pid_t threads[] = {gettid(), service_thread()};
    const auto waited = [&] {
        return waited_for_processor_ns(threads[0]) + waited_for_processor_ns(threads[1]);
    };
    base::Nanoseconds killed = 0;
    base::Nanoseconds dead = 0;
    std::uint64_t waited_before = 0;
    std::thread killer([&] {
        EXPECT_TRUE(eventually([&] { return side.completed() >= round.completions; }))
            << "only " << side.completed() << " completions, seed " << plan.seed;
        for (std::uint64_t i = 0; i < round.spins; ++i)
            base::cpu_relax();
        side.expect_end();
        waited_before = waited();
        killed = base::monotonic_now();
        child.kill();
        EXPECT_EQ(child.wait(), -SIGKILL);
        dead = base::monotonic_now();
    });

    const auto deadline = Clock::now() + patience;
    const auto late = [&] { return Clock::now() > deadline; };
    try {
        while (side.completed() < round.completions && !side.broken() && !late())
            side.step();
        if (round.pastime == Pastime::Busy) {
            while (!side.broken() && !watcher.lost() && !late())
                side.step();
        } else if (round.pastime == Pastime::Waits) {
            while (!side.broken() && !late())
                side.wait_once();
        }
    } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
    }
    killer.join();
    EXPECT_TRUE(watcher.await()) << "VIP_ERROR_CONN_LOST has not come";
    const std::uint64_t waited_after = waited();
    EXPECT_EQ(side.vi().state(), VIP_STATE_ERROR);
    side.collect_all();
    side.take_down();

    EXPECT_EQ(watcher.vi(), vi);
    EXPECT_EQ(watcher.state(), VIP_STATE_ERROR);
    EXPECT_EQ(watcher.codes().size(), 1U);
    EXPECT_GE(watcher.moment(), killed);
    Latency latency;
    latency.completions = side.completed();
    latency.seen = std::max<base::Nanoseconds>(0, watcher.moment() - dead);
    latency.own = std::max<base::Nanoseconds>(
        0, latency.seen - static_cast<base::Nanoseconds>(waited_after - waited_before));
    EXPECT_LE(latency.own, bound) << "CONN_LOST came " << latency.seen / 1000
                                  << " us after the death";
    return latency;
}

/// A round to its proper end.
void Kill::run_whole(std::uint64_t seed) {
    Round round = plan_round(seed);
    round.plan.messages = 50;
    PeerProcess child("bear_load", round.environment);
    child.link.put(round.plan);
    LoadedSide side(round.plan, 0);
    side.post_receives();
    connect_as_server(child.link, side);
    EXPECT_TRUE(eventually([&] {
        side.step();
        return side.finished() || side.broken();
    }));
    side.expect_end();
    child.link.meet();
    side.take_down();
    EXPECT_EQ(child.wait(), 0);
}

TEST_F(Kill, TheSurvivorLearnsItAndNothingRemains) {
    const auto shared_memory = shared_memory_names();
    const OwnTemporaryFolder folder;
    // What a process keeps once it has used the library is there after the first round.
    run_whole(1);
    const pid_t agent = agent_status().pid;
    const auto settled = [&] { return agent_holds_nothing(); };
    ASSERT_TRUE(eventually(settled));
    const std::size_t own_descriptors = open_descriptors(getpid());
    const std::size_t agent_descriptors = open_descriptors(agent);

    const std::uint64_t first = from_environment("KILL_TEST_SEED", 1000);
    const std::uint64_t kills = from_environment("KILL_TEST_COUNT", rounds(200));
    Latency worst;
    for (std::uint64_t i = 0; i < kills && !HasFailure(); ++i) {
        const Latency latency = run(plan_round(first + i));
        worst.seen = std::max(worst.seen, latency.seen);
        worst.own = std::max(worst.own, latency.own);
        worst.completions += latency.completions;
        // The next one connects at once; what is left over after many would show below.
        if (i % 20 == 19) run_whole(5000 + i);
    }
    std::cout << kills << " kills amid " << worst.completions << " completions; CONN_LOST at most "
              << worst.seen / 1000 << " us after the death, of which " << worst.own / 1000
              << " us with a processor to run on\n";

    EXPECT_TRUE(eventually(settled)) << "the agent still holds something";
    EXPECT_EQ(agent_status().pid, agent) << "the agent has changed";
    EXPECT_EQ(open_descriptors(getpid()), own_descriptors);
    EXPECT_TRUE(eventually([&] { return open_descriptors(agent) <= agent_descriptors; }))
        << open_descriptors(agent) << " descriptors at the agent, " << agent_descriptors
        << " before";
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG | __WALL), -1);
    EXPECT_EQ(errno, ECHILD);
    EXPECT_EQ(processes_of_this_test(), std::vector<pid_t>{agent});
    EXPECT_EQ(shared_memory_names(), shared_memory);
    EXPECT_TRUE(names_in(folder.path()).empty());
    run_whole(2);
}

/// Waits for connections and accepts them, until it is killed.
PEER(accept_always) {
    const auto plan = link.get<Plan>();
    Nic nic;
    Address local(nic, unique_discriminator());
    link.put(local);
    std::deque<std::unique_ptr<Vi>> accepted;  // the oldest go
    const auto deadline = Clock::now() + 3 * patience;
    while (Clock::now() < deadline) {
        accepted.push_back(std::make_unique<Vi>(nic, ViOptions{.level = plan.level}));
        if (accepted.size() > 16) accepted.pop_front();
        Address remote;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE connection = nullptr;
        const VIP_RETURN code =
            VipConnectWait(nic, local.get(), patience_ms, remote.get(), &attributes, &connection);
        if (code != VIP_SUCCESS) throw std::runtime_error(VipxErrorText());
        static_cast<void>(VipConnectAccept(connection, *accepted.back()));
    }
}

TEST_F(Kill, WhileConnectingLeavesNothingBehind) {
    run_whole(3);
    const std::size_t own_descriptors = open_descriptors(getpid());
    const unsigned kills = rounds(60);
    unsigned connected = 0;
    unsigned failed = 0;
    for (unsigned i = 0; i < kills && !HasFailure(); ++i) {
        SCOPED_TRACE("seed " + std::to_string(i));
        Random random(9000 + i);
        Plan plan;
        plan.level = random.below(2) == 0 ? unreliable : reliable_delivery;
        PeerProcess child("accept_always");
        child.link.put(plan);
        auto remote = child.link.get<Address>();
        Nic nic;
        LossWatcher watcher;
        ASSERT_VIP(VIP_SUCCESS, VipErrorCallback(nic, &watcher, &LossWatcher::handle));
        std::atomic<unsigned> made{0};
        std::atomic<bool> dead{false};
        std::thread killer([&] {
            const unsigned wanted = static_cast<unsigned>(random.below(6));
            EXPECT_TRUE(eventually([&] { return made.load() >= wanted; }));
            for (std::uint64_t spins = random.below(1ULL << (1 + random.below(18))); spins > 0;
                 --spins)
                base::cpu_relax();
            child.kill();
            EXPECT_EQ(child.wait(), -SIGKILL);
            dead.store(true);
        });
        // New VIs one after the other, so that the kill finds connections at every stage.
        while (!dead.load()) {
            const Vi vi(nic, {.level = plan.level});
            Address local(nic, unique_discriminator());
            VIP_VI_ATTRIBUTES attributes{};
            const VIP_RETURN code =
                VipConnectRequest(vi, local.get(), remote.get(), patience_ms, &attributes);
            if (code == VIP_SUCCESS) {
                ++connected;
                if (made.fetch_add(1) >= 6) {
                    // It dies with this one open.
                    EXPECT_TRUE(vi.becomes(VIP_STATE_ERROR));
                    EXPECT_TRUE(watcher.await());
                    EXPECT_EQ(watcher.vi(), static_cast<VIP_VI_HANDLE>(vi));
                }
                continue;
            }
            ++failed;
            EXPECT_TRUE(code == VIP_NO_MATCH || code == VIP_REJECT || code == VIP_TIMEOUT ||
                        code == VIP_ERROR_RESOURCE)
                << VipxReturnName(code) << ": " << VipxErrorText();
            EXPECT_EQ(vi.state(), VIP_STATE_IDLE);
        }
        killer.join();
    }
    std::cout << kills << " kills; " << connected << " connections, " << failed << " refused\n";
    EXPECT_GT(connected, 0U);
    EXPECT_TRUE(eventually([] { return agent_holds_nothing(); }));
    EXPECT_EQ(open_descriptors(getpid()), own_descriptors);
    run_whole(4);
}

}  // namespace
}  // namespace via::test
