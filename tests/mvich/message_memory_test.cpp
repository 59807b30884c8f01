// SPDX-License-Identifier: BSD-3-Clause
// What a process needs for its peers: 64 of them are connected, and what the process has in memory
// more than before it opened a device is bounded.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/counters.hpp"
#include "mvich/packet.hpp"
#include "mvich/place.hpp"
#include "vipl/harness.hpp"

namespace via::mvich {
namespace {

using test::PeerProcess;

constexpr std::uint32_t peer_count = 64;
constexpr std::uint32_t peers_in_a_process = 16;
constexpr std::uint64_t most_kibibytes = 16 * 1024;

/// What is sent and answered once by each peer, before the memory is looked at.
struct Talk {
    std::uint32_t messages = 1;
    std::uint64_t bytes = 8;
};

/// Pages of this process; those that it shares with others by its part.
std::uint64_t kibibytes_in_memory() {
    std::ifstream file("/proc/self/smaps_rollup");
    std::string word;
    while (file >> word)
        if (word == "Pss:") {
            std::uint64_t kibibytes = 0;
            file >> kibibytes;
            return kibibytes;
        }
    ADD_FAILURE() << "the kernel does not tell what is in memory";
    return 0;
}

void say(Place& here, Peer to, const std::vector<std::byte>& data) {
    if (here.send(to, data.data(), data.size(), 1) != Posted::UnderWay) return;
    ASSERT_EQ(here.wait_for(Happened::Sent).status, Status::Ok);
}

void hear(Place& here, Peer from, std::vector<std::byte>& data, unsigned seed) {
    ASSERT_EQ(here.receive(from, data.data(), data.size(), 1), Posted::UnderWay);
    ASSERT_EQ(here.wait_for(Happened::Received).status, Status::Ok);
    ASSERT_EQ(data, pattern(data.size(), seed));
}

PEER(rank_with_peers) {
    const auto talk = link.get<Talk>();
    std::vector<std::byte> in(talk.bytes);
    std::vector<std::byte> out = pattern(talk.bytes, 1);
    const std::uint64_t before = kibibytes_in_memory();
    Place here;
    ASSERT_NE(here.endpoint, nullptr);
    link.put(here.endpoint->name());
    for (std::uint32_t number = 0; number < peer_count; ++number) {
        const Peer peer = here.book->insert(link.get<HostPort>());
        for (std::uint32_t i = 0; i < talk.messages; ++i) {
            hear(here, peer, in, 2);
            say(here, peer, out);
        }
    }
    link.put(kibibytes_in_memory() - before);
    link.meet();
}

PEER(some_peers) {
    const auto talk = link.get<Talk>();
    const auto rank = link.get<HostPort>();
    std::vector<std::byte> in(talk.bytes);
    std::vector<std::byte> out = pattern(talk.bytes, 2);
    std::vector<std::unique_ptr<Place>> places;
    for (std::uint32_t number = 0; number < peers_in_a_process; ++number) {
        places.push_back(std::make_unique<Place>());
        Place& here = *places.back();
        ASSERT_NE(here.endpoint, nullptr);
        link.put(here.endpoint->name());
        const Peer peer = here.book->insert(rank);
        for (std::uint32_t i = 0; i < talk.messages; ++i) {
            say(here, peer, out);
            hear(here, peer, in, 1);
        }
    }
    link.meet();
}

struct MemoryCase {
    const char* name;
    Talk talk;
    PeerProcess::Environment environment;
};

class MessageMemory : public testing::TestWithParam<MemoryCase> {};

TEST_P(MessageMemory, Of64Peers) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer needs memory of its own";
#endif
    const MemoryCase& each = GetParam();
    // Time is no matter here.
    PeerProcess::Environment environment = each.environment;
    environment["VIA_MPI_CONNECT_MS"] = "60000";
    PeerProcess rank("rank_with_peers", environment);
    rank.link.put(each.talk);
    const auto name = rank.link.get<HostPort>();
    std::vector<std::unique_ptr<PeerProcess>> others;
    for (std::uint32_t i = 0; i < peer_count / peers_in_a_process; ++i) {
        others.push_back(std::make_unique<PeerProcess>("some_peers", environment));
        others.back()->link.put(each.talk);
        others.back()->link.put(name);
        for (std::uint32_t number = 0; number < peers_in_a_process; ++number)
            rank.link.put(others.back()->link.get<HostPort>());
    }
    const auto kibibytes = rank.link.get<std::uint64_t>();
    EXPECT_LE(kibibytes, most_kibibytes);
    RecordProperty("kibibytes", std::to_string(kibibytes));
    std::cout << each.name << ": " << kibibytes << " KiB\n";
    for (auto& other : others)
        other->link.meet();
    rank.link.meet();
    for (auto& other : others)
        EXPECT_EQ(other->wait(), 0);
    EXPECT_EQ(rank.wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Talks, MessageMemory,
    testing::Values(MemoryCase{"here_once", {}, {}}, MemoryCase{"here_eager", {300, 4000}, {}},
                    MemoryCase{"here_r3", {20, 100'000}, {}},
                    MemoryCase{"here_rdma", {4, 1'000'000}, {}},
                    MemoryCase{"net_once", {}, {{"VIA_MPI_DEVICE", "net0"}}},
                    MemoryCase{"net_eager", {300, 4000}, {{"VIA_MPI_DEVICE", "net0"}}},
                    MemoryCase{"net_r3", {20, 100'000}, {{"VIA_MPI_DEVICE", "net0"}}},
                    MemoryCase{"net_rdma", {4, 1'000'000}, {{"VIA_MPI_DEVICE", "net0"}}}),
    [](const auto& each) { return std::string(each.param.name); });

/// Messages that nobody asks for, until the peer's vbufs are full of them.
PEER(runs_ahead) {
    Place one;
    Place two;
    const Peer to_two = one.book->insert(two.endpoint->name());
    const base::MessageCounters& page = base::Counters::get().page().messages;
    const std::uint64_t word = 7;
    for (int i = 0; i < 200; ++i)
        ASSERT_NE(one.send(to_two, &word, sizeof word, 1), Posted::Again);
    const base::Deadline deadline = base::Deadline::after(patience);
    while (page.starvations.get() == 0 && !deadline.expired()) {
        one.device->progress();
        two.device->progress();
    }
    // However often it is said while it lasts, it is one time.
    for (int i = 0; i < 20'000; ++i) {
        one.device->progress();
        two.device->progress();
    }
    ASSERT_EQ(page.starvations.get(), 1U);
    // From then on messages are announced, and no more are sent at once.
    std::uint64_t at_once = 0;
    for (const base::Counter& counter : page.sent[static_cast<std::size_t>(Protocol::Eager)])
        at_once += counter.get();
    link.put(at_once);
    link.meet();
}

std::uint64_t messages_ahead(PeerProcess::Environment environment) {
    environment["VIA_MPI_DEVICE"] = "net0";
    PeerProcess process("runs_ahead", environment);
    const auto messages = process.link.get<std::uint64_t>();
    process.link.meet();
    EXPECT_EQ(process.wait(), 0);
    return messages;
}

TEST(MessageCredits, BetweenHostsAreFewUntilMoreAreNeeded) {
    EXPECT_EQ(messages_ahead({}), 32U);
    EXPECT_EQ(messages_ahead({{"VIA_MPI_CREDITS", "6"}}), 6U);
    EXPECT_EQ(messages_ahead({{"VIA_MPI_CREDITS", "40"}}), 40U);
}

}  // namespace
}  // namespace via::mvich
