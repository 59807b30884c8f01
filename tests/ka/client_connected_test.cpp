// SPDX-License-Identifier: BSD-3-Clause
// AgentClient against a real viad: what a connection entitles its ends to, and how they hear of its
// end.
#include "ka/client.hpp"

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory_file.hpp"
#include "ka/client_parts.hpp"

namespace via::ka::test {
namespace {

using base::Code;
using base::Deadline;

TEST_F(ClientTest, ArenasGoToPeersOfTheirTagOnly) {
    Pair pair(3, 4);
    ASSERT_TRUE(pair.connected());
    auto granted = pair.server->allocate_kmem(4096, 4);
    auto withheld = pair.server->allocate_kmem(4096, 5);
    granted.value().address[0] = std::byte{77};
    const std::uint64_t connection = pair.at_client.value().connection;
    auto arena = pair.client->peer_arena(connection, granted.value().arena);
    ASSERT_TRUE(arena.ok()) << arena.error().sentence;
    auto mapped =
        base::Mapping::map(arena.value().file, arena.value().bytes, base::Access::ReadWrite);
    ASSERT_TRUE(mapped.ok());
    EXPECT_EQ(mapped.value().data()[granted.value().arena_offset], std::byte{77});
    EXPECT_EQ(pair.client->peer_arena(connection, withheld.value().arena).error().code,
              Code::PermissionDenied);
    EXPECT_EQ(pair.client->peer_arena(connection, 999).error().code, Code::PermissionDenied);
    EXPECT_EQ(pair.client->peer_arena(connection + 1, granted.value().arena).error().code,
              Code::InvalidArgument);
    auto table = pair.client->peer_rmmt(connection);
    ASSERT_TRUE(table.ok());
    EXPECT_EQ(table.value().epoch, 1U);
    // With the connection the right ends.
    pair.server->disconnected(pair.at_server.value().connection);
    const Deadline deadline = soon();
    while (pair.client->peer_rmmt(connection).ok() && !deadline.expired()) {
    }
    EXPECT_EQ(pair.client->peer_rmmt(connection).error().code, Code::InvalidState);
    EXPECT_EQ(pair.client->peer_arena(connection, granted.value().arena).error().code,
              Code::InvalidState);
}

TEST_F(ClientTest, AnEndpointOfAnyTagOpensAllArenas) {
    Pair pair(3, null_tag, endpoint_any_tag);
    ASSERT_TRUE(pair.connected());
    auto block = pair.server->allocate_kmem(4096, 5);
    EXPECT_TRUE(
        pair.client->peer_arena(pair.at_client.value().connection, block.value().arena).ok());
    // But not those of the other side, whose VI has a tag.
    auto other = pair.client->allocate_kmem(4096, 5);
    EXPECT_EQ(pair.server->peer_arena(pair.at_server.value().connection, other.value().arena)
                  .error()
                  .code,
              Code::PermissionDenied);
}

TEST_F(ClientTest, TheOtherEndHearsThatAConnectionIsGone) {
    Pair pair;
    ASSERT_TRUE(pair.connected());
    EXPECT_TRUE(pair.client->lost_connections().empty());
    pair.server->disconnected(pair.at_server.value().connection);
    pollfd watched{pair.client->socket(), POLLIN, 0};
    ASSERT_EQ(poll(&watched, 1, 30000), 1);
    EXPECT_TRUE(pair.client->attached());
    EXPECT_EQ(pair.client->lost_connections(),
              std::vector<std::uint64_t>{pair.at_client.value().connection});
    EXPECT_TRUE(pair.client->lost_connections().empty());
    // It is quiet again.
    EXPECT_EQ(poll(&watched, 1, 0), 0);
}

TEST_F(ClientTest, WhatAnotherThreadHasReadStillWakesTheServiceThread) {
    Pair pair;
    ASSERT_TRUE(pair.connected());
    const std::uint64_t connection = pair.at_client.value().connection;
    EXPECT_FALSE(pair.client->is_lost(connection));
    pair.server->disconnected(pair.at_server.value().connection);
    pollfd watched{pair.client->socket(), POLLIN, 0};
    ASSERT_EQ(poll(&watched, 1, 30000), 1);
    // Any call that waits for an answer reads the notice, too.
    ASSERT_TRUE(pair.client->create_vi().ok());
    EXPECT_TRUE(pair.client->is_lost(connection));
    EXPECT_EQ(poll(&watched, 1, 0), 1);
    EXPECT_EQ(pair.client->lost_connections(), std::vector<std::uint64_t>{connection});
    EXPECT_EQ(poll(&watched, 1, 0), 0);
    // Who ends a connection first need not be told.
    Pair other;
    ASSERT_TRUE(other.connected());
    other.server->disconnected(other.at_server.value().connection);
    pollfd others{other.client->socket(), POLLIN, 0};
    ASSERT_EQ(poll(&others, 1, 30000), 1);
    ASSERT_TRUE(other.client->create_vi().ok());
    other.client->disconnected(other.at_client.value().connection);
    EXPECT_TRUE(other.client->lost_connections().empty());
    EXPECT_EQ(poll(&others, 1, 0), 0);
}

TEST_F(ClientTest, DestroyingAViEndsItsConnection) {
    Pair pair;
    ASSERT_TRUE(pair.connected());
    pair.server->destroy_vi(pair.server_vi);
    pollfd watched{pair.client->socket(), POLLIN, 0};
    ASSERT_EQ(poll(&watched, 1, 30000), 1);
    EXPECT_EQ(pair.client->lost_connections().size(), 1U);
}

}  // namespace
}  // namespace via::ka::test
