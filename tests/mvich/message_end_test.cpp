// SPDX-License-Identifier: BSD-3-Clause
// Ends that close or flood: what was accepted arrives, and nobody waits for ever.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "mvich/place.hpp"
#include "vipl/harness.hpp"

namespace via::mvich {
namespace {

using test::PeerProcess;

constexpr std::size_t flood_bytes = 4000;

/// Sends without asking whether anybody listens, and goes.
PEER(sends_and_goes) {
    const auto count = link.get<std::uint32_t>();
    auto here = std::make_unique<Place>();
    ASSERT_NE(here->endpoint, nullptr);
    link.put(here->endpoint->name());
    const Peer peer = here->book->insert(link.get<HostPort>());
    for (std::uint32_t i = 0; i < count; ++i) {
        const auto sent = pattern(i % 4000, i);
        ASSERT_TRUE(here->until([&] {
            return here->send(peer, sent.data(), sent.size(), i, order_inject) == Posted::Done;
        }));
    }
    here.reset();
}

class MessageEnd : public testing::TestWithParam<PeerProcess::Environment> {};

TEST_P(MessageEnd, WhatWasAcceptedArrivesThoughTheSenderIsGone) {
    PeerProcess::Environment environment = GetParam();
    PeerProcess receiver("receives_late", environment);
    const auto name = receiver.link.get<HostPort>();
    // As many as a window holds, and more; a sender goes when all is on its way.
    constexpr std::uint32_t count = 200;
    PeerProcess sender("sends_and_goes", environment);
    sender.link.put(count);
    receiver.link.put(sender.link.get<HostPort>());
    receiver.link.put(count);
    sender.link.put(name);
    EXPECT_EQ(sender.wait(), 0);
    receiver.link.put<std::uint8_t>(1);
    EXPECT_EQ(receiver.wait(), 0);
}

/// Asks for nothing until the sender has gone; it has the service thread for that long.
PEER(receives_late) {
    Place here;
    ASSERT_NE(here.endpoint, nullptr);
    link.put(here.endpoint->name());
    const Peer peer = here.book->insert(link.get<HostPort>());
    const auto count = link.get<std::uint32_t>();
    static_cast<void>(link.get<std::uint8_t>());
    for (std::uint32_t i = 0; i < count; ++i) {
        SCOPED_TRACE(i);
        std::vector<std::byte> received(i % 4000);
        ASSERT_EQ(here.receive(peer, received.data(), received.size(), i), Posted::UnderWay);
        ASSERT_EQ(here.wait_for(Happened::Received).status, Status::Ok);
        ASSERT_EQ(received, pattern(i % 4000, i));
    }
}

INSTANTIATE_TEST_SUITE_P(
    Devices, MessageEnd,
    testing::Values(PeerProcess::Environment{{"VIA_MPI_DEVICE", "shm0"}},
                    PeerProcess::Environment{{"VIA_MPI_DEVICE", "shm0"},
                                             {"VIA_MPI_VBUF_REGIONS", "4"},
                                             {"VIA_MPI_VBUFS_PER_REGION", "64"}},
                    PeerProcess::Environment{{"VIA_MPI_DEVICE", "net0"},
                                             {"VIA_MPI_CREDITS", "256"}}),
    [](const auto& each) { return "environment_" + std::to_string(each.index); });

[[maybe_unused]] std::size_t resident_bytes() {
    std::ifstream status("/proc/self/statm");
    std::size_t whole = 0;
    std::size_t resident = 0;
    status >> whole >> resident;
    return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// Both flood each other, and only then look what came.
PEER(floods) {
    constexpr std::size_t count = 5000;
    Place here;
    ASSERT_NE(here.endpoint, nullptr);
    link.put(here.endpoint->name());
    const Peer peer = here.book->insert(link.get<HostPort>());
    link.meet();
    [[maybe_unused]] const std::size_t before = resident_bytes();
    const auto sent = pattern(flood_bytes, 3);
    int under_way = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const Posted posted = here.send(peer, sent.data(), sent.size(), 9);
        ASSERT_TRUE(posted == Posted::Done || posted == Posted::UnderWay);
        under_way += posted == Posted::UnderWay ? 1 : 0;
        if (i % 16 == 0) here.device->progress();
    }
    for (int i = 0; i < 2000; ++i)
        here.device->progress();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    // Messages that nobody asked for stay with their sender: they would be 20 MB here.
    EXPECT_LT(resident_bytes(), before + 12'000'000);
#endif
    std::vector<std::byte> received(flood_bytes * count);
    for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(here.receive(peer, received.data() + i * flood_bytes, flood_bytes, 9),
                  Posted::UnderWay);
    for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(here.wait_for(Happened::Received).status, Status::Ok);
    for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(std::memcmp(received.data() + i * flood_bytes, sent.data(), flood_bytes), 0);
    for (; under_way != 0; --under_way)
        ASSERT_EQ(here.wait_for(Happened::Sent).status, Status::Ok);
    link.meet();
}

void run_both(const char* role, const PeerProcess::Environment& environment) {
    PeerProcess one(role, environment);
    PeerProcess two(role, environment);
    const auto name_of_one = one.link.get<HostPort>();
    two.link.put(name_of_one);
    one.link.put(two.link.get<HostPort>());
    for (int meetings = 0; meetings < 2; ++meetings) {
        for (PeerProcess* each : {&one, &two})
            static_cast<void>(each->link.get<std::uint8_t>());
        for (PeerProcess* each : {&one, &two})
            each->link.put<std::uint8_t>(1);
    }
    EXPECT_EQ(one.wait(), 0);
    EXPECT_EQ(two.wait(), 0);
}

TEST(MessageFlood, BothWaysWithoutReceiving) {
    run_both("floods", {{"VIA_MPI_VBUF_REGIONS", "8"}});
}

TEST(MessageFlood, BothWaysBetweenHosts) {
    run_both("floods", {{"VIA_MPI_VBUF_REGIONS", "8"}, {"VIA_MPI_DEVICE", "net0"}});
}

/// A program that forks, and whose child goes.
PEER(forks) {
    Place here;
    ASSERT_NE(here.endpoint, nullptr);
    link.put(here.endpoint->name());
    const Peer peer = here.book->insert(link.get<HostPort>());
    link.meet();
    for (std::uint64_t i = 0; i < 40; ++i) {
        std::uint64_t received = 0;
        ASSERT_EQ(here.receive(peer, &received, sizeof received, i), Posted::UnderWay);
        ASSERT_NE(here.send(peer, &i, sizeof i, i, order_inject), Posted::Invalid);
        if (i % 10 == 5) {
            const pid_t child = fork();
            ASSERT_GE(child, 0);
            if (child == 0) _exit(0);
            int status = 0;
            ASSERT_EQ(waitpid(child, &status, 0), child);
            ASSERT_EQ(status, 0);
        }
        ASSERT_EQ(here.wait_for(Happened::Received).status, Status::Ok);
        ASSERT_EQ(received, i);
    }
    link.meet();
}

TEST(MessageFork, TheParentGoesOn) {
    run_both("forks", {});
}

}  // namespace
}  // namespace via::mvich
