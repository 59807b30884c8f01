// SPDX-License-Identifier: BSD-3-Clause
// Processes that all speak to all at once: every two of them ask each other for a connection, in
// whatever order, and end with one that loses nothing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/counters.hpp"
#include "mvich/place.hpp"
#include "vipl/harness.hpp"

namespace via::mvich {
namespace {

using test::PeerProcess;

constexpr std::size_t message_sizes[] = {8, 3000, 300'000};

/// Sends to everybody, in an order of its own, and hears from everybody.
PEER(one_of_a_crowd) {
    const auto own = link.get<std::uint32_t>();
    const auto count = link.get<std::uint32_t>();
    const auto seed = link.get<std::uint64_t>();
    Place here;
    ASSERT_NE(here.endpoint, nullptr);
    link.put(here.endpoint->name());
    std::vector<Peer> others;
    for (std::uint32_t i = 0; i < count; ++i)
        others.push_back(here.book->insert(link.get<HostPort>()));
    std::vector<std::vector<std::byte>> sent;
    for (const std::size_t bytes : message_sizes)
        sent.push_back(pattern(bytes, own));
    std::vector<std::uint32_t> order(count);
    for (std::uint32_t i = 0; i < count; ++i)
        order[i] = i;
    std::mt19937_64 random(seed + own);
    std::shuffle(order.begin(), order.end(), random);
    link.meet();  // everybody at once
    int under_way = 0;
    for (const std::uint32_t to : order) {
        for (std::size_t i = 0; i < std::size(message_sizes); ++i) {
            const Posted posted =
                here.send(others[to], sent[i].data(), sent[i].size(), own * 16 + i);
            ASSERT_TRUE(posted == Posted::Done || posted == Posted::UnderWay);
            under_way += posted == Posted::UnderWay ? 1 : 0;
        }
        if (random() % 2 == 0) here.device->progress();
    }
    for (std::uint32_t from = 0; from < count; ++from)
        for (std::size_t i = 0; i < std::size(message_sizes); ++i) {
            SCOPED_TRACE("from " + std::to_string(from) + ", message " + std::to_string(i));
            std::vector<std::byte> received(message_sizes[i]);
            ASSERT_EQ(here.receive(others[from], received.data(), received.size(), from * 16 + i),
                      Posted::UnderWay);
            ASSERT_EQ(here.wait_for(Happened::Received).status, Status::Ok);
            ASSERT_EQ(received, pattern(message_sizes[i], from));
        }
    for (; under_way != 0; --under_way)
        ASSERT_EQ(here.wait_for(Happened::Sent).status, Status::Ok);
    // Nobody took the slow way because a listener was busy for a moment.
    if (std::getenv("VIA_MPI_DEVICE") == nullptr) {
        EXPECT_EQ(base::Counters::get().page().messages.connections_between_hosts.get(), 0U);
    }
    link.meet();
}

void run_crowd(std::uint32_t count, std::uint64_t seed,
               const PeerProcess::Environment& environment) {
    std::vector<std::unique_ptr<PeerProcess>> crowd;
    std::vector<HostPort> names;
    for (std::uint32_t i = 0; i < count; ++i) {
        crowd.push_back(std::make_unique<PeerProcess>("one_of_a_crowd", environment));
        crowd.back()->link.put(i);
        crowd.back()->link.put(count);
        crowd.back()->link.put(seed);
    }
    for (auto& each : crowd)
        names.push_back(each->link.get<HostPort>());
    for (auto& each : crowd)
        for (const HostPort& name : names)
            each->link.put(name);
    for (auto& each : crowd)
        static_cast<void>(each->link.get<std::uint8_t>());
    for (auto& each : crowd)
        each->link.put<std::uint8_t>(1);
    for (auto& each : crowd)
        static_cast<void>(each->link.get<std::uint8_t>());
    for (auto& each : crowd)
        each->link.put<std::uint8_t>(1);
    for (auto& each : crowd)
        EXPECT_EQ(each->wait(), 0);
}

TEST(MessageCrowd, EightSpeakToEightAtOnce) {
    run_crowd(8, 1, {});
    run_crowd(8, 2, {});
}

TEST(MessageCrowd, TwoAskEachOtherManyTimes) {
    for (std::uint64_t seed = 1; seed <= 12 && !testing::Test::HasFailure(); ++seed)
        run_crowd(2, seed, {});
}

TEST(MessageCrowd, FourSpeakToFourOverTheNetworkDevice) {
    run_crowd(4, 3, {{"VIA_MPI_DEVICE", "net0"}});
}

}  // namespace
}  // namespace via::mvich
