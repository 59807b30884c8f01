// SPDX-License-Identifier: BSD-3-Clause
// A peer is killed, whatever was under way: every order ends, nothing stays behind, and whoever
// takes the dead one's place is reached. That a connection could not be made in time is never the
// reason: there is more time than the test has patience.
#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "mvich/place.hpp"
#include "mvich/process_state.hpp"
#include "na/seeded.hpp"
#include "vipl/harness.hpp"

namespace via::mvich {
namespace {

using test::Link;
using test::PeerProcess;

constexpr std::size_t large = 20'000'000;

std::size_t open_files() {
    std::size_t count = 0;
    DIR* folder = opendir("/proc/self/fd");
    while (readdir(folder) != nullptr)
        ++count;
    closedir(folder);
    return count;
}

/// What the victim does before it stops for good.
enum class Phase : std::uint8_t {
    Connecting,  ///< it has an endpoint, and answers nobody
    Flooded,     ///< it is connected and takes nothing
    Receiving,   ///< it has asked for a large message
    Sending,     ///< it has announced a large message
    Idle,        ///< it has exchanged one message
};

PEER(victim) {
    const auto phase = link.get<Phase>();
    const auto wanted = link.get<HostPort>();
    auto here = std::make_unique<Place>(wanted);
    ASSERT_NE(here->endpoint, nullptr);
    link.put(here->endpoint->name());
    const Peer peer = here->book->insert(link.get<HostPort>());
    std::vector<std::byte> memory(large);
    std::uint64_t word = 0;
    if (phase != Phase::Connecting) {
        // One message each way: the connection stands.
        ASSERT_EQ(here->receive(peer, &word, sizeof word, 1), Posted::UnderWay);
        ASSERT_EQ(here->wait_for(Happened::Received).status, Status::Ok) << account();
        if (here->send(peer, &word, sizeof word, 2) == Posted::UnderWay) {
            ASSERT_EQ(here->wait_for(Happened::Sent).status, Status::Ok) << account();
        }
    }
    if (phase == Phase::Receiving) {
        ASSERT_EQ(here->receive(peer, memory.data(), memory.size(), 3), Posted::UnderWay);
        static_cast<void>(link.get<std::uint8_t>());  // it is sent
        for (int i = 0; i < 20; ++i)
            here->device->progress();
    }
    if (phase == Phase::Sending) {
        ASSERT_EQ(here->send(peer, memory.data(), memory.size(), 3), Posted::UnderWay);
        for (int i = 0; i < 20; ++i)
            here->device->progress();
    }
    raise(SIGSTOP);
    // In a test whose victim is not killed it goes on to here.
    static_cast<void>(link.get<std::uint8_t>());
}

PEER(echo) {
    Place here(link.get<HostPort>());
    ASSERT_NE(here.endpoint, nullptr);
    link.put(here.endpoint->name());
    const Peer peer = here.book->insert(link.get<HostPort>());
    std::uint64_t word = 0;
    ASSERT_EQ(here.receive(peer, &word, sizeof word, 1), Posted::UnderWay);
    ASSERT_EQ(here.wait_for(Happened::Received).status, Status::Ok);
    const Posted posted = here.send(peer, &word, sizeof word, 2, order_delivered);
    ASSERT_EQ(posted, Posted::UnderWay);
    ASSERT_EQ(here.wait_for(Happened::Sent).status, Status::Ok);
}

/// One victim after the other; what happens to them is told by the test.
PEER(survivor) {
    const auto rounds = link.get<std::uint32_t>();
    Place here;
    ASSERT_NE(here.endpoint, nullptr);
    link.put(here.endpoint->name());
    std::vector<std::byte> memory(large);
    std::size_t files = 0;
    for (std::uint32_t round = 0; round < rounds; ++round) {
        SCOPED_TRACE("round " + std::to_string(round));
        const auto phase = link.get<Phase>();
        const Peer peer = here.book->insert(link.get<HostPort>());
        std::uint64_t word = 42;
        std::uint64_t answer = 0;
        int sends = 0;
        int receives = 0;
        if (phase != Phase::Connecting) {
            ASSERT_EQ(here.receive(peer, &answer, sizeof answer, 2), Posted::UnderWay);
            const Posted posted = here.send(peer, &word, sizeof word, 1);
            ASSERT_EQ(here.wait_for(Happened::Received).status, Status::Ok);
            if (posted == Posted::UnderWay) {
                ASSERT_EQ(here.wait_for(Happened::Sent).status, Status::Ok);
            }
        }
        switch (phase) {
            case Phase::Connecting:
                static_cast<void>(link.get<std::uint8_t>());  // it is stopped
                ASSERT_EQ(here.send(peer, memory.data(), 100, 3), Posted::UnderWay);
                ASSERT_EQ(here.send(peer, memory.data(), large, 3), Posted::UnderWay);
                sends = 2;
                for (int i = 0; i < 100; ++i)
                    here.device->progress();
                break;
            case Phase::Flooded:
                for (int i = 0; i < 5000; ++i) {
                    const Posted posted = here.send(peer, memory.data(), 2000, 3);
                    ASSERT_TRUE(posted == Posted::Done || posted == Posted::UnderWay);
                    sends += posted == Posted::UnderWay ? 1 : 0;
                }
                break;
            case Phase::Receiving:
                ASSERT_EQ(here.send(peer, memory.data(), large, 3), Posted::UnderWay);
                sends = 1;
                for (int i = 0; i < 20; ++i)
                    here.device->progress();
                break;
            case Phase::Sending:
                static_cast<void>(link.get<std::uint8_t>());  // it has sent, and is stopped
                ASSERT_EQ(here.receive(peer, memory.data(), large, 3), Posted::UnderWay);
                receives = 1;
                for (int i = 0; i < 20; ++i)
                    here.device->progress();
                break;
            case Phase::Idle:
                break;
        }
        // Whatever the phase: a receive that waits for nobody else.
        ASSERT_EQ(here.receive(peer, &answer, sizeof answer, 77), Posted::UnderWay);
        ++receives;
        link.meet();  // now it dies
        for (; receives != 0; --receives) {
            const Completion completion = here.wait_for(Happened::Received);
            // RGET reads at once what a stopped one has announced.
            ASSERT_TRUE(completion.status == Status::PeerLost ||
                        (completion.status == Status::Ok && phase == Phase::Sending));
        }
        for (; sends != 0; --sends) {
            const Completion completion = here.wait_for(Happened::Sent);
            // What went before it died is done.
            ASSERT_TRUE(completion.status == Status::PeerLost || phase == Phase::Flooded ||
                        phase == Phase::Receiving);
        }
        // It is not there any more, and that is told without waiting for it.
        const Posted posted = here.send(peer, &word, sizeof word, 1);
        ASSERT_EQ(posted, Posted::UnderWay);
        ASSERT_EQ(here.wait_for(Happened::Sent).status, Status::PeerLost);
        link.put<std::uint8_t>(1);
        // One in its place.
        ASSERT_EQ(link.get<std::uint8_t>(), 1);
        ASSERT_EQ(here.receive(peer, &answer, sizeof answer, 2), Posted::UnderWay);
        const Posted to_next = here.send(peer, &word, sizeof word, 1);
        ASSERT_EQ(here.wait_for(Happened::Received).status, Status::Ok);
        ASSERT_EQ(answer, word);
        if (to_next == Posted::UnderWay) {
            ASSERT_EQ(here.wait_for(Happened::Sent).status, Status::Ok);
        }
        ASSERT_EQ(here.endpoint->orders_under_way(), 0U);
        link.meet();
        // What is over gives back all that it had, soon.
        if (round == 1) files = open_files();
        if (round > 1) {
            EXPECT_TRUE(here.until([&] { return open_files() <= files; }, patience / 3))
                << open_files() << " open files, " << files << " before";
        }
    }
}

struct Case {
    const char* name;
    Phase phase;
    PeerProcess::Environment environment;
};

class MessageKill : public testing::TestWithParam<Case> {};

TEST_P(MessageKill, EveryOrderEndsAndTheNextOneIsReached) {
    auto environment = GetParam().environment;
    environment["VIA_MPI_CONNECT_MS"] = "600000";
    environment.try_emplace("VIA_MPI_VBUF_REGIONS", "8");
    constexpr std::uint32_t rounds = test::sanitized ? 2 : 4;
    const Phase phase = GetParam().phase;
    PeerProcess survivor("survivor", environment);
    survivor.link.put(rounds);
    const auto survivor_name = survivor.link.get<HostPort>();
    std::set<HostPort> names;
    for (std::uint32_t round = 0; round < rounds; ++round) {
        std::unique_ptr<PeerProcess> victim;
        HostPort name;
        // Each has a name of its own: what is sent to one that has just ended may be lost.
        do {
            victim = std::make_unique<PeerProcess>("victim", environment);
            victim->link.put(phase);
            victim->link.put(Place::loopback());
            name = victim->link.get<HostPort>();
        } while (!names.insert(name).second);
        victim->link.put(survivor_name);
        survivor.link.put(phase);
        survivor.link.put(name);
        const auto await_stop = [&] {
            ASSERT_TRUE(test::eventually([&] { return is_stopped(victim->pid()); }));
        };
        if (phase == Phase::Receiving) victim->link.put<std::uint8_t>(1);
        if (phase == Phase::Connecting || phase == Phase::Sending) {
            await_stop();
            survivor.link.put<std::uint8_t>(1);
        }
        static_cast<void>(survivor.link.get<std::uint8_t>());
        await_stop();
        victim->kill();
        victim.reset();
        survivor.link.put<std::uint8_t>(1);
        static_cast<void>(survivor.link.get<std::uint8_t>());
        PeerProcess next("echo", environment);
        next.link.put(name);
        ASSERT_EQ(next.link.get<HostPort>(), name);
        next.link.put(survivor_name);
        survivor.link.put<std::uint8_t>(1);
        EXPECT_EQ(next.wait(), 0);
        survivor.link.meet();
    }
    EXPECT_EQ(survivor.wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Phases, MessageKill,
    testing::Values(Case{"connecting", Phase::Connecting, {}}, Case{"flooded", Phase::Flooded, {}},
                    Case{"r3_receiving", Phase::Receiving, {{"VIA_MPI_PROTOCOL", "r3"}}},
                    Case{"r3_sending", Phase::Sending, {{"VIA_MPI_PROTOCOL", "r3"}}},
                    Case{"rget_receiving", Phase::Receiving, {{"VIA_MPI_PROTOCOL", "rget"}}},
                    Case{"rget_sending", Phase::Sending, {{"VIA_MPI_PROTOCOL", "rget"}}},
                    Case{"rput_receiving", Phase::Receiving, {{"VIA_MPI_PROTOCOL", "rput"}}},
                    Case{"rput_sending", Phase::Sending, {{"VIA_MPI_PROTOCOL", "rput"}}},
                    Case{"ring_rget_sending",
                         Phase::Sending,
                         {{"VIA_MPI_PROTOCOL", "rget"}, {"VIA_SHM_PATH", "ring"}}},
                    Case{"ring_rput_receiving",
                         Phase::Receiving,
                         {{"VIA_MPI_PROTOCOL", "rput"}, {"VIA_SHM_PATH", "ring"}}},
                    Case{"idle", Phase::Idle, {}}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace via::mvich
