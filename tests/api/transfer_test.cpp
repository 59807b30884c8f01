// SPDX-License-Identifier: BSD-3-Clause
// Messages, RDMA and completion queues in the C++ API.
#include <cstring>
#include <map>
#include <numeric>
#include <vector>

#include "api/connected_pair.hpp"

namespace via_api_test {
namespace {

using namespace std::chrono_literals;

via::Buffer text(via::BufferPool& pool, std::string_view words) {
    via::Buffer buffer = pool.take();
    buffer.assign(words);
    return buffer;
}

TEST(ApiTransfer, AMessageArrives) {
    ConnectedPair pair;
    need(pair.server_vi.post_receive(pair.server.pool.take()));
    need(pair.client_vi.send(text(pair.client.pool, "good morning")));
    const via::Completion sent = need_ok(pair.client_vi.wait_send(patience));
    EXPECT_EQ(sent.operation, via::Operation::Send);
    EXPECT_FALSE(sent.receive);
    EXPECT_EQ(sent.vi, pair.client_vi.handle());
    const via::Completion received = need_ok(pair.server_vi.wait_receive(patience));
    EXPECT_EQ(received.operation, via::Operation::Receive);
    EXPECT_TRUE(received.receive);
    EXPECT_EQ(received.length, 12u);
    EXPECT_EQ(received.buffer.text(), "good morning");
    EXPECT_FALSE(received.immediate);
}

TEST(ApiTransfer, MessagesKeepTheirOrder) {
    ConnectedPair pair;
    for (int i = 0; i < 10; ++i)
        need(pair.server_vi.post_receive(pair.server.pool.take()));
    for (int i = 0; i < 10; ++i) {
        need(pair.client_vi.send(text(pair.client.pool, std::string(1, char('a' + i)))));
    }
    for (int i = 0; i < 10; ++i) {
        const via::Completion received = need_ok(pair.server_vi.wait_receive(patience));
        EXPECT_EQ(received.buffer.text(), std::string(1, char('a' + i)));
    }
    for (int i = 0; i < 10; ++i)
        need_ok(pair.client_vi.wait_send(patience));
    EXPECT_EQ(pair.client.pool.available(), pair.client.pool.size());
    EXPECT_EQ(pair.server.pool.available(), pair.server.pool.size());
}

TEST(ApiTransfer, ImmediateDataTravelsWithAndWithoutBytes) {
    ConnectedPair pair;
    for (int i = 0; i < 3; ++i)
        need(pair.server_vi.post_receive(pair.server.pool.take()));
    need(pair.client_vi.send(text(pair.client.pool, "x"), {.immediate = 0xDEADBEEF}));
    need(pair.client_vi.send(pair.client.pool.take(), {.immediate = 0}));
    need(pair.client_vi.send(pair.client.pool.take()));
    const via::Completion with = need_ok(pair.server_vi.wait_receive(patience));
    EXPECT_EQ(with.immediate, 0xDEADBEEF);
    EXPECT_EQ(with.buffer.text(), "x");
    const via::Completion only = need_ok(pair.server_vi.wait_receive(patience));
    EXPECT_EQ(only.immediate, 0u);
    EXPECT_EQ(only.length, 0u);
    const via::Completion empty = need_ok(pair.server_vi.wait_receive(patience));
    EXPECT_FALSE(empty.immediate);
    EXPECT_EQ(empty.buffer.size(), 0u);
}

TEST(ApiTransfer, GathersAndScatters) {
    ConnectedPair pair;
    const via::Memory source = need(pair.client.nic.allocate(4096));
    const via::Memory target = need(pair.server.nic.allocate(4096));
    std::memcpy(source.data(), "one--two--three--four--five---six", 33);
    need(pair.server_vi.post_receive(
        pair.server.pool.take(),
        {target.segment(0, 4), target.segment(100, 4), target.segment(200, 100)}));
    need(
        pair.client_vi.send(pair.client.pool.take(),
                            {source.segment(0, 3), source.segment(5, 3), source.segment(10, 5),
                             source.segment(17, 4), source.segment(23, 4), source.segment(30, 3)}));
    need_ok(pair.client_vi.wait_send(patience));
    const via::Completion received = need_ok(pair.server_vi.wait_receive(patience));
    EXPECT_EQ(received.length, 22u);
    const auto at = [&](std::size_t offset, std::size_t length) {
        return std::string(reinterpret_cast<const char*>(target.data()) + offset, length);
    };
    EXPECT_EQ(at(0, 4), "onet");
    EXPECT_EQ(at(100, 4), "woth");
    EXPECT_EQ(at(200, 14), "reefourfivesix");
}

TEST(ApiTransfer, RefusesMoreSegmentsThanABufferHas) {
    ConnectedPair pair;
    const via::Memory memory = need(pair.client.nic.allocate(4096));
    const std::vector<via::Segment> many(via::Buffer::max_segments + 1, memory.segment(0, 1));
    const auto posted =
        pair.client_vi.send(pair.client.pool.take(), std::span<const via::Segment>(many));
    ASSERT_FALSE(posted);
    EXPECT_EQ(posted.error().code, VIP_INVALID_PARAMETER);
    EXPECT_EQ(pair.client.pool.available(), pair.client.pool.size());
}

TEST(ApiTransfer, RefusesAnEmptyBuffer) {
    ConnectedPair pair;
    EXPECT_EQ(pair.client_vi.send(via::Buffer()).error().code, VIP_INVALID_PARAMETER);
    EXPECT_EQ(pair.client_vi.post_receive(via::Buffer()).error().code, VIP_INVALID_PARAMETER);
    via::Buffer buffer = pair.client.pool.take();
    need(pair.client_vi.post_receive(std::move(buffer)));
    EXPECT_FALSE(buffer);  // NOLINT(bugprone-use-after-move): posting empties it
    EXPECT_EQ(pair.client_vi.post_receive(std::move(buffer)).error().code, VIP_INVALID_PARAMETER);
}

TEST(ApiTransfer, PollsAndWaitsComeBackEmptyHanded) {
    ConnectedPair pair;
    EXPECT_FALSE(pair.client_vi.poll_send());
    EXPECT_FALSE(pair.client_vi.poll_receive());
    EXPECT_EQ(pair.client_vi.wait_receive(10ms).error().code, VIP_DESCRIPTOR_ERROR);
    EXPECT_EQ(pair.client_vi.wait_send(10ms).error().code, VIP_DESCRIPTOR_ERROR);
    need(pair.client_vi.post_receive(pair.client.pool.take()));
    EXPECT_FALSE(pair.client_vi.poll_receive());
    EXPECT_EQ(pair.client_vi.wait_receive(10ms).error().code, VIP_TIMEOUT);
}

TEST(ApiTransfer, AMessageTooLongForTheBufferIsAnError) {
    ConnectedPair pair;
    via::BufferPool small = need(pair.server.nic.create_pool(1, 4));
    need(pair.server_vi.post_receive(small.take()));
    need(pair.client_vi.send(text(pair.client.pool, "far too long")));
    const via::Completion received = need(pair.server_vi.wait_receive(patience));
    EXPECT_FALSE(received.ok());
    EXPECT_NE(received.status & VIP_STATUS_LENGTH_ERROR, 0u) << received.error_text();
}

TEST(ApiTransfer, MemoryOfAnotherTagIsProtected) {
    ConnectedPair pair;
    const via::ProtectionTag tag = need(pair.client.nic.create_tag());
    const via::Memory foreign = need(pair.client.nic.allocate(4096, {}, &tag));
    need(pair.server_vi.post_receive(pair.server.pool.take()));
    need(pair.client_vi.send(pair.client.pool.take(), foreign.segment(0, 8)));
    const via::Completion sent = need(pair.client_vi.wait_send(patience));
    EXPECT_FALSE(sent.ok());
    EXPECT_NE(sent.status & VIP_STATUS_PROTECTION_ERROR, 0u) << sent.error_text();
}

class ApiRdma : public testing::Test {
  protected:
    static constexpr via::Rights all{.rdma_write = true, .rdma_read = true};

    ConnectedPair pair{{.rights = all}};
    via::Memory target = need(pair.server.nic.allocate(65536, all));
    via::Memory source = need(pair.client.nic.allocate(65536));

    void SetUp() override {
        std::iota(source.as<std::uint32_t>().begin(), source.as<std::uint32_t>().end(), 1u);
        std::ranges::fill(target.bytes(), std::byte{0});
    }
};

TEST_F(ApiRdma, WritesIntoThePeersMemory) {
    need(pair.client_vi.rdma_write(pair.client.pool.take(), target.remote_segment(),
                                   source.segment()));
    const via::Completion done = need_ok(pair.client_vi.wait_send(patience));
    EXPECT_EQ(done.operation, via::Operation::RdmaWrite);
    // A message after the write tells that the data is there.
    need(pair.server_vi.post_receive(pair.server.pool.take()));
    need(pair.client_vi.send(pair.client.pool.take()));
    need_ok(pair.server_vi.wait_receive(patience));
    EXPECT_TRUE(std::ranges::equal(target.bytes(), source.bytes()));
}

TEST_F(ApiRdma, WritesABuffersBytesAtAnOffset) {
    need(pair.server_vi.post_receive(pair.server.pool.take()));
    need(pair.client_vi.rdma_write(text(pair.client.pool, "here"),
                                   target.remote_segment().after(1000), {.immediate = 7}));
    const via::Completion told = need_ok(pair.server_vi.wait_receive(patience));
    EXPECT_EQ(told.operation, via::Operation::RemoteRdmaWrite);
    EXPECT_EQ(told.immediate, 7u);
    EXPECT_EQ(told.buffer.size(), 0u);
    EXPECT_EQ(std::memcmp(target.data() + 1000, "here", 4), 0);
    EXPECT_EQ(target.bytes()[999], std::byte{0});
    EXPECT_EQ(target.bytes()[1004], std::byte{0});
}

TEST_F(ApiRdma, ReadsFromThePeersMemory) {
    if ((pair.client.nic.attributes().RDMAReadSupport & VIP_SERVICE_RELIABLE_DELIVERY) == 0) {
        GTEST_SKIP() << "this NIC has no RDMA read";
    }
    std::ranges::copy(source.bytes(), target.bytes().begin());
    std::ranges::fill(source.bytes(), std::byte{0});
    need(pair.client_vi.rdma_read(pair.client.pool.take(), target.remote_segment(),
                                  {source.segment(0, 1000), source.segment(1000)}));
    const via::Completion done = need_ok(pair.client_vi.wait_send(patience));
    EXPECT_EQ(done.operation, via::Operation::RdmaRead);
    EXPECT_TRUE(std::ranges::equal(target.bytes(), source.bytes()));

    via::Buffer buffer = pair.client.pool.take();
    buffer.resize(8);
    need(pair.client_vi.rdma_read(std::move(buffer), target.remote_segment(4)));
    const via::Completion small = need_ok(pair.client_vi.wait_send(patience));
    std::uint32_t words[2] = {};
    std::memcpy(words, small.buffer.bytes().data(), sizeof words);
    EXPECT_EQ(words[0], 2u);
    EXPECT_EQ(words[1], 3u);
}

TEST_F(ApiRdma, AFencedSendFollowsTheRead) {
    if ((pair.client.nic.attributes().RDMAReadSupport & VIP_SERVICE_RELIABLE_DELIVERY) == 0) {
        GTEST_SKIP() << "this NIC has no RDMA read";
    }
    need(pair.server_vi.post_receive(pair.server.pool.take()));
    std::ranges::fill(target.bytes(), std::byte{9});
    need(pair.client_vi.rdma_read(pair.client.pool.take(), target.remote_segment(0, 4),
                                  source.segment(0, 4)));
    need(pair.client_vi.send(pair.client.pool.take(), source.segment(0, 4), {.fence = true}));
    const via::Completion received = need_ok(pair.server_vi.wait_receive(patience));
    EXPECT_EQ(received.buffer.text(), std::string(4, 9));
    need_ok(pair.client_vi.wait_send(patience));
    need_ok(pair.client_vi.wait_send(patience));
}

TEST_F(ApiRdma, MemoryWithoutTheRightStaysAsItIs) {
    need(target.set_rights({.rdma_write = false, .rdma_read = true}));
    need(pair.server_vi.post_receive(pair.server.pool.take()));
    need(pair.client_vi.rdma_write(pair.client.pool.take(), target.remote_segment(),
                                   source.segment(), {.immediate = 1}));
    // With reliable delivery the connection breaks, so the posted receive ends either way.
    const via::Completion told = need(pair.server_vi.wait_receive(patience));
    EXPECT_FALSE(told.ok());
    EXPECT_TRUE(
        std::ranges::all_of(target.bytes(), [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST(ApiCompletionQueue, SaysWhoseCompletionItIs) {
    Side server, client;
    via::CompletionQueue queue = need(server.nic.create_completion_queue(16));
    std::vector<via::Vi> servers;
    std::vector<via::Vi> clients;
    for (std::uintptr_t i = 0; i < 3; ++i) {
        servers.push_back(need(server.nic.create_vi(
            {.send_queue = &queue, .receive_queue = &queue, .cookie = 100 + i})));
        clients.push_back(need(client.nic.create_vi()));
        need(servers[i].post_receive(server.pool.take()));
        connect(server.nic, servers[i], client.nic, clients[i]);
    }
    EXPECT_FALSE(queue.poll());
    EXPECT_EQ(queue.wait(10ms).error().code, VIP_TIMEOUT);

    for (std::size_t i = 0; i < 3; ++i) {
        need(clients[i].send(text(client.pool, "from " + std::to_string(i))));
        need_ok(clients[i].wait_send(patience));
    }
    std::map<std::uintptr_t, std::string> received;
    for (int i = 0; i < 3; ++i) {
        const via::Completion done = need_ok(queue.wait(patience));
        EXPECT_TRUE(done.receive);
        EXPECT_EQ(done.vi, servers[done.cookie - 100].handle());
        received[done.cookie] = done.buffer.text();
    }
    EXPECT_EQ(received[100], "from 0");
    EXPECT_EQ(received[101], "from 1");
    EXPECT_EQ(received[102], "from 2");

    need(clients[1].post_receive(client.pool.take()));
    need(servers[1].send(text(server.pool, "back")));
    const via::Completion sent = need_ok(queue.wait(patience));
    EXPECT_FALSE(sent.receive);
    EXPECT_EQ(sent.cookie, 101u);
    EXPECT_EQ(need_ok(clients[1].wait_receive(patience)).buffer.text(), "back");
    EXPECT_FALSE(queue.poll());
}

TEST(ApiCompletionQueue, ForgetsAViThatIsGone) {
    Side server, client;
    via::CompletionQueue queue = need(server.nic.create_completion_queue(16));
    {
        via::Vi vi = need(server.nic.create_vi({.receive_queue = &queue}));
        via::Vi other = need(client.nic.create_vi());
        for (int i = 0; i < 4; ++i)
            need(vi.post_receive(server.pool.take()));
        connect(server.nic, vi, client.nic, other);
        need(other.send(text(client.pool, "unread")));
        need_ok(other.wait_send(patience));
    }
    EXPECT_FALSE(queue.poll());
    EXPECT_EQ(server.pool.available(), server.pool.size());
}

TEST(ApiCompletionQueue, GrowsWithItsEntries) {
    Side server, client;
    via::CompletionQueue queue = need(server.nic.create_completion_queue(2));
    via::Vi vi = need(server.nic.create_vi({.receive_queue = &queue}));
    via::Vi other = need(client.nic.create_vi());
    for (int i = 0; i < 8; ++i)
        need(vi.post_receive(server.pool.take()));
    connect(server.nic, vi, client.nic, other);
    need(other.send(text(client.pool, "0")));
    need(other.send(text(client.pool, "1")));
    need(queue.resize(64));
    for (int i = 2; i < 8; ++i)
        need(other.send(text(client.pool, std::to_string(i))));
    for (int i = 0; i < 8; ++i) {
        EXPECT_EQ(need_ok(queue.wait(patience)).buffer.text(), std::to_string(i));
    }
}

}  // namespace
}  // namespace via_api_test
