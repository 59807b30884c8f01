// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/address_book.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "na/seeded.hpp"

using namespace via::mvich;
using via::test::Random;
using via::test::repeated;

namespace {

HostPort address(std::uint8_t host, std::uint16_t port) {
    HostPort result;
    result.host[0] = 10;
    result.host[3] = host;
    result.port = port;
    return result;
}

}  // namespace

TEST(AddressBook, NumbersAreGivenFromTheLowestOn) {
    AddressBook book;
    for (std::uint16_t i = 0; i < 5; ++i)
        EXPECT_EQ(book.insert(address(1, i)), i);
    EXPECT_TRUE(book.remove(3));
    EXPECT_TRUE(book.remove(1));
    EXPECT_FALSE(book.remove(1));
    EXPECT_FALSE(book.remove(5));
    EXPECT_FALSE(book.remove(any_peer));
    EXPECT_EQ(book.insert(address(2, 0)), 1U);
    EXPECT_EQ(book.insert(address(2, 1)), 3U);
    EXPECT_EQ(book.insert(address(2, 2)), 5U);
    EXPECT_EQ(book.find(Peer{1}), address(2, 0));
    EXPECT_EQ(book.find(Peer{6}), std::nullopt);
    EXPECT_EQ(book.find(unknown_peer), std::nullopt);
}

TEST(AddressBook, AnAddressMayStandInItTwice) {
    AddressBook book;
    EXPECT_EQ(book.insert(address(1, 1)), 0U);
    EXPECT_EQ(book.insert(address(1, 1)), 1U);
    EXPECT_EQ(book.find(address(1, 1)), Peer{0});
    EXPECT_EQ(book.entries().size(), 2U);
    EXPECT_TRUE(book.remove(0));
    ASSERT_EQ(book.entries().size(), 1U);
    EXPECT_EQ(book.entries()[0].peer, 1U);
    EXPECT_EQ(book.entries()[0].address, address(1, 1));
    EXPECT_EQ(book.find(address(1, 1)), Peer{1});
    EXPECT_TRUE(book.remove(1));
    EXPECT_EQ(book.find(address(1, 1)), std::nullopt);
}

TEST(AddressBook, ContextsFollowTheirPeersPort) {
    AddressBook book(2);
    EXPECT_EQ(book.insert(address(1, 100)), 0U);
    EXPECT_EQ(book.insert(address(1, 102)), 4U);
    EXPECT_EQ(book.insert(address(1, 1)), 8U);
    EXPECT_EQ(book.find(Peer{3}), address(1, 103));
    EXPECT_EQ(book.find(Peer{4}), address(1, 102));
    EXPECT_EQ(book.find(Peer{12}), std::nullopt);
    EXPECT_EQ(book.find(address(1, 101)), Peer{0});
    EXPECT_EQ(book.find(address(1, 103)), Peer{4}) << "the nearest";
    EXPECT_EQ(book.find(address(1, 105)), Peer{4});
    EXPECT_EQ(book.find(address(1, 106)), std::nullopt);
    EXPECT_EQ(book.find(address(1, 0)), std::nullopt);
    EXPECT_EQ(book.find(address(2, 101)), std::nullopt);
    EXPECT_TRUE(book.remove(5)) << "by any of its contexts";
    EXPECT_EQ(book.find(address(1, 103)), Peer{0});
    EXPECT_EQ(book.insert(address(3, 1)), 4U);
}

TEST(AddressBook, ACopyPutsAddressesWhereTheyAre) {
    AddressBook book;
    const std::uint64_t before = book.version();
    book.put(3, address(1, 30));
    EXPECT_NE(book.version(), before);
    book.put(1, address(1, 10));
    EXPECT_EQ(book.find(Peer{3}), address(1, 30));
    EXPECT_EQ(book.find(Peer{2}), std::nullopt);
    EXPECT_EQ(book.find(address(1, 10)), Peer{1});
    book.put(3, address(2, 31));
    EXPECT_EQ(book.find(address(1, 30)), std::nullopt);
    EXPECT_EQ(book.find(address(2, 31)), Peer{3});
    book.put(3, address(2, 31));
    EXPECT_EQ(book.find(address(2, 31)), Peer{3});
    EXPECT_TRUE(book.remove(3));
    EXPECT_EQ(book.find(Peer{3}), std::nullopt);
}

TEST(AddressBook, AddressesOfDifferentLengthDiffer) {
    AddressBook book;
    HostPort four = address(1, 1);
    HostPort sixteen = four;
    sixteen.host_bytes = 16;
    EXPECT_EQ(book.insert(four), 0U);
    EXPECT_EQ(book.find(sixteen), std::nullopt);
}

TEST(AddressBook, ItsVersionTellsOfChangesOnly) {
    AddressBook book;
    const std::uint64_t first = book.version();
    (void)book.insert(address(1, 1));
    const std::uint64_t second = book.version();
    EXPECT_NE(first, second);
    (void)book.find(Peer{0});
    EXPECT_FALSE(book.remove(7));
    EXPECT_EQ(book.version(), second);
    EXPECT_TRUE(book.remove(0));
    EXPECT_NE(book.version(), second);
}

TEST(AddressBook, DoesAsAModelDoes) {
    for (std::uint64_t seed = 1; seed <= repeated(100); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        AddressBook book;
        std::vector<std::optional<HostPort>> model;
        for (int step = 0; step < 200; ++step) {
            const HostPort some = address(static_cast<std::uint8_t>(random.below(3)),
                                          static_cast<std::uint16_t>(random.below(3)));
            if (random.one_in(2)) {
                std::size_t expected = 0;
                while (expected < model.size() && model[expected])
                    ++expected;
                if (expected == model.size()) model.emplace_back();
                model[expected] = some;
                ASSERT_EQ(book.insert(some), expected);
            } else {
                const Peer victim = random.below(20);
                const bool there = victim < model.size() && model[victim];
                ASSERT_EQ(book.remove(victim), there);
                if (there) model[victim].reset();
            }
            std::optional<Peer> lowest;
            for (Peer i = 0; i < model.size(); ++i) {
                ASSERT_EQ(book.find(i), model[i]);
                if (!lowest && model[i] == some) lowest = i;
            }
            ASSERT_EQ(book.find(some), lowest);
        }
    }
}

TEST(AddressBook, ThreadsMayShareIt) {
    AddressBook book;
    std::vector<std::thread> threads;
    for (std::uint8_t host = 0; host < 4; ++host)
        threads.emplace_back([&book, host] {
            for (std::uint16_t i = 0; i < repeated(2'000); ++i) {
                const Peer peer = book.insert(address(host, i));
                EXPECT_EQ(book.find(peer), address(host, i));
                EXPECT_EQ(book.find(address(host, i)), peer);
                EXPECT_TRUE(i % 3 != 0 || book.remove(peer));
            }
        });
    for (std::thread& each : threads)
        each.join();
}
