// SPDX-License-Identifier: BSD-3-Clause
#include "ka/established.hpp"

#include <gtest/gtest.h>

namespace via::ka {
namespace {

Secret secret_of(std::uint8_t number) {
    Secret secret{};
    secret[3] = number;
    return secret;
}

ConnectionRecord record(std::uint64_t connection, std::uint8_t secret, std::uint64_t peer_instance,
                        std::uint32_t peer_uid = 7) {
    ConnectionRecord result;
    result.connection = connection;
    result.secret = secret_of(secret);
    result.vi = 1;
    result.tag = 5;
    result.peer_instance = peer_instance;
    result.peer_uid = peer_uid;
    return result;
}

TEST(EstablishedConnections, EachEndFindsTheOther) {
    EstablishedConnections connections;
    connections.add(secret_of(1), {10, 100, 1, 3, 0}, {20, 200, 2, 4, 1});
    ASSERT_NE(connections.find(10, 100), nullptr);
    EXPECT_EQ(connections.find(10, 200), nullptr);
    EXPECT_EQ(connections.find(20, 100), nullptr);
    EXPECT_EQ(connections.other(10, 100)->process, 20U);
    EXPECT_EQ(connections.other(10, 100)->tag, 4U);
    EXPECT_EQ(connections.other(20, 200)->process, 10U);
    EXPECT_EQ(connections.count(10), 1U);
    const auto left = connections.leave(10, 100);
    ASSERT_TRUE(left);
    EXPECT_EQ(left->process, 20U);
    EXPECT_EQ(left->connection, 200U);
    EXPECT_FALSE(connections.leave(10, 100));
    EXPECT_NE(connections.find(20, 200), nullptr);
    EXPECT_EQ(connections.other(20, 200), nullptr);
    EXPECT_FALSE(connections.leave(20, 200));
    EXPECT_EQ(connections.size(), 0U);
}

TEST(EstablishedConnections, BothEndsMayBeInOneProcess) {
    EstablishedConnections connections;
    connections.add(secret_of(1), {10, 100, 1, 3, 0}, {10, 200, 2, 4, 0});
    EXPECT_EQ(connections.other(10, 100)->connection, 200U);
    EXPECT_EQ(connections.other(10, 200)->connection, 100U);
    connections.process_gone(10, 7, 90);
    EXPECT_EQ(connections.size(), 0U);
}

TEST(EstablishedConnections, TheSecretJoinsRestoredEnds) {
    EstablishedConnections connections;
    ASSERT_TRUE(connections.restore(1, record(100, 1, 92)).ok());
    EXPECT_EQ(connections.other(1, 100), nullptr);
    EXPECT_TRUE(connections.restored(1, 7, 91).empty());
    ASSERT_TRUE(connections.restore(2, record(200, 1, 91)).ok());
    EXPECT_TRUE(connections.restored(2, 7, 92).empty());
    EXPECT_EQ(connections.other(1, 100)->process, 2U);
    EXPECT_EQ(connections.other(2, 200)->process, 1U);
    // A third one with the secret gets nothing.
    EXPECT_FALSE(connections.restore(3, record(300, 1, 91)).ok());
    EXPECT_FALSE(connections.restore(2, record(200, 9, 91)).ok());  // the number is taken
    // A wrong secret is another connection.
    ASSERT_TRUE(connections.restore(3, record(300, 2, 91)).ok());
    EXPECT_EQ(connections.other(3, 300), nullptr);
}

TEST(EstablishedConnections, WhoComesBackWithoutAConnectionHasLeftIt) {
    EstablishedConnections connections;
    ASSERT_TRUE(connections.restore(1, record(100, 1, 92)).ok());
    EXPECT_TRUE(connections.restored(1, 7, 91).empty());
    // Somebody else, or another user who claims to be it, says nothing about it.
    EXPECT_TRUE(connections.restored(2, 7, 93).empty());
    EXPECT_TRUE(connections.restored(3, 8, 92).empty());
    const auto gone = connections.restored(4, 7, 92);
    ASSERT_EQ(gone.size(), 1U);
    EXPECT_EQ(gone[0].process, 1U);
    EXPECT_EQ(gone[0].connection, 100U);
    // Told once.
    EXPECT_TRUE(connections.restored(5, 7, 92).empty());
}

TEST(EstablishedConnections, TheOtherOrderToo) {
    EstablishedConnections connections;
    EXPECT_TRUE(connections.restored(4, 7, 92).empty());
    ASSERT_TRUE(connections.restore(1, record(100, 1, 92)).ok());
    const auto gone = connections.restored(1, 7, 91);
    ASSERT_EQ(gone.size(), 1U);
    EXPECT_EQ(gone[0].connection, 100U);
}

TEST(EstablishedConnections, AProcessThatIsGoneAgainIsExpectedAgain) {
    EstablishedConnections connections;
    EXPECT_TRUE(connections.restored(4, 7, 92).empty());
    connections.process_gone(4, 7, 92);
    ASSERT_TRUE(connections.restore(1, record(100, 1, 92)).ok());
    EXPECT_TRUE(connections.restored(1, 7, 91).empty());
    ASSERT_TRUE(connections.restore(5, record(200, 1, 91)).ok());
    EXPECT_TRUE(connections.restored(5, 7, 92).empty());
    EXPECT_NE(connections.other(1, 100), nullptr);
}

TEST(EstablishedConnections, WhoIsCutOffMayComeBackWithHisConnections) {
    EstablishedConnections connections;
    connections.add(secret_of(1), {1, 100, 1, 3, 0}, {2, 200, 2, 4, 0});
    connections.add(secret_of(2), {1, 101, 1, 3, 0}, {2, 201, 2, 4, 0});
    connections.process_gone(2, 7, 92);
    EXPECT_EQ(connections.other(1, 100), nullptr);
    // With one of them: the other one it has never heard of.
    ASSERT_TRUE(connections.restore(3, record(200, 1, 91)).ok());
    const auto gone = connections.restored(3, 7, 92);
    ASSERT_EQ(gone.size(), 1U);
    EXPECT_EQ(gone[0].connection, 101U);
    EXPECT_EQ(connections.other(1, 100)->process, 3U);
}

TEST(EstablishedConnections, AConnectionWithOneselfNeedsBothEnds) {
    EstablishedConnections connections;
    ASSERT_TRUE(connections.restore(1, record(100, 1, 91)).ok());
    ASSERT_TRUE(connections.restore(1, record(101, 1, 91)).ok());
    ASSERT_TRUE(connections.restore(1, record(102, 2, 91)).ok());
    const auto gone = connections.restored(1, 7, 91);
    ASSERT_EQ(gone.size(), 1U);
    EXPECT_EQ(gone[0].connection, 102U);
    connections.process_gone(1, 7, 91);
    EXPECT_EQ(connections.size(), 0U);
}

TEST(EstablishedConnections, TheOtherHostsEndIsNeverExpectedHere) {
    EstablishedConnections connections;
    connections.add_remote(secret_of(1), {1, 100, 5, 3, 0});
    EXPECT_NE(connections.find(1, 100), nullptr);
    EXPECT_EQ(connections.other(1, 100), nullptr);
    EXPECT_EQ(connections.count(1), 1U);
    // Nobody can take the other end, not even who knows the secret.
    EXPECT_EQ(connections.restore(2, record(200, 1, 91)).error().code,
              base::Code::PermissionDenied);
    EXPECT_FALSE(connections.leave(1, 100));
    EXPECT_EQ(connections.size(), 0U);
    // As it comes back to the next agent, where nobody tells it that its peer were gone.
    ConnectionRecord shown = record(100, 1, 0);
    shown.flags = connection_remote | endpoint_any_tag;
    ASSERT_TRUE(connections.restore(1, shown).ok());
    EXPECT_EQ(connections.find(1, 100)->flags, endpoint_any_tag);
    EXPECT_TRUE(connections.restored(1, 7, 91).empty());
    EXPECT_TRUE(connections.restored(2, 7, 0).empty());
    EXPECT_EQ(connections.restore(2, shown).error().code, base::Code::PermissionDenied);
    connections.process_gone(1, 7, 91);
    EXPECT_EQ(connections.size(), 0U);
}

}  // namespace
}  // namespace via::ka
