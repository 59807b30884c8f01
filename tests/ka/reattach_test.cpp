// SPDX-License-Identifier: BSD-3-Clause
// The agent is killed; processes go on and the next agent knows all that the last one knew.
#include <poll.h>

#include <array>
#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "ka/client.hpp"
#include "ka/harness.hpp"

namespace via::ka::test {
namespace {

using base::Code;
using base::Deadline;

class ReattachTest : public AgentTest {};

TEST_F(ReattachTest, RegionsComeBackAtTheSameHandles) {
    TestProcess process;
    std::array<char, 64> memory{};
    std::vector<MemoryHandle> handles;
    for (std::uint64_t i = 0; i < 300; ++i) {
        auto handle = process->register_memory(memory.data(), 1 + i % 64, 5, right_rdma_write);
        ASSERT_TRUE(handle.ok());
        handles.push_back(handle.value());
    }
    for (int i = 0; i < 100; i += 2)
        ASSERT_TRUE(process->deregister_memory(handles[static_cast<std::size_t>(i)]).ok());
    ASSERT_TRUE(process->change_memory(handles[101], 6, right_rdma_read).ok());
    const RmmtView view = process->rmmt();
    kill_agent();
    // The table is still there while nobody serves it.
    Region region{};
    EXPECT_TRUE(view.find(handles[101], region));

    auto fresh = process->register_memory(memory.data(), 3, 5, 0);
    ASSERT_TRUE(fresh.ok()) << fresh.error().sentence;
    EXPECT_EQ(process->rmmt_epoch(), 2U);
    for (std::size_t i = 0; i < handles.size(); ++i) {
        const bool there = i >= 100 || i % 2 == 1;
        ASSERT_EQ(view.find(handles[i], region), there) << i;
        if (there) {
            ASSERT_EQ(region.length, 1 + i % 64);
        }
    }
    ASSERT_TRUE(view.find(handles[101], region));
    EXPECT_EQ(region.tag, 6U);
    EXPECT_EQ(region.rights, right_rdma_read);
    ASSERT_TRUE(view.find(fresh.value(), region));
    EXPECT_EQ(region.length, 3U);
    auto status = process->status();
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status.value().processes.at(0).regions, 251U);
    EXPECT_TRUE(process->deregister_memory(handles[1]).ok());
}

TEST_F(ReattachTest, KmemKeepsItsContentsAndItsBooks) {
    TestProcess process;
    std::vector<KmemBlock> blocks;
    for (std::uint64_t i = 0; i < 200; ++i) {
        auto block = process->allocate_kmem(std::uint64_t{4096} << (i % 3),
                                            static_cast<ProtectionTag>(1 + i % 2));
        ASSERT_TRUE(block.ok()) << block.error().sentence;
        std::memset(block.value().address, static_cast<int>(i), block.value().bytes);
        blocks.push_back(block.value());
    }
    auto large = process->allocate_kmem(70 << 20, 1);
    ASSERT_TRUE(large.ok());
    large.value().address[12345] = std::byte{17};
    auto handle = process->register_memory(blocks[0].address, blocks[0].bytes, 1, 0);
    ASSERT_TRUE(process->free_kmem(blocks[10].address).ok());
    kill_agent();

    std::vector<KmemBlock> later;
    for (int i = 0; i < 50; ++i) {
        auto block = process->allocate_kmem(4096, 1);
        ASSERT_TRUE(block.ok()) << block.error().sentence;
        std::memset(block.value().address, 0xFF, block.value().bytes);
        later.push_back(block.value());
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        if (i == 10) continue;
        for (std::uint64_t at = 0; at < blocks[i].bytes; at += 4095)
            ASSERT_EQ(blocks[i].address[at], static_cast<std::byte>(i)) << i;
    }
    EXPECT_EQ(large.value().address[12345], std::byte{17});
    Region region{};
    ASSERT_TRUE(process->rmmt().find(handle.value(), region));
    EXPECT_EQ(region.arena, blocks[0].arena);
    EXPECT_EQ(process->free_kmem(blocks[0].address).error().code, Code::InvalidState);
    ASSERT_TRUE(process->deregister_memory(handle.value()).ok());
    for (std::size_t i = 0; i < blocks.size(); ++i)
        if (i != 10) {
            ASSERT_TRUE(process->free_kmem(blocks[i].address).ok()) << i;
        }
    for (const KmemBlock& block : later)
        ASSERT_TRUE(process->free_kmem(block.address).ok());
    ASSERT_TRUE(process->free_kmem(large.value().address).ok());
    auto status = process->status();
    EXPECT_EQ(status.value().processes.at(0).kmem_bytes, 0U);
    // Numbers of arenas are not used again, whoever the agent is.
    EXPECT_GT(process->allocate_kmem(4096, 1).value().arena, large.value().arena);
}

struct Connected {
    base::Result<Established> client{Code::NoMatch, ""};
    base::Result<Established> server{Code::NoMatch, ""};
};

void connect(TestProcess& client, std::uint32_t client_vi, TestProcess& server,
             std::uint32_t server_vi, Connected& result) {
    std::thread serving([&] {
        auto incoming = server->connect_wait(address("host-a", "s"), soon());
        if (incoming)
            result.server = server->connect_accept(incoming.value().request,
                                                   offer(server_vi, "s", "c"), soon());
    });
    const Deadline deadline = soon();
    while (!result.client && result.client.error().code == Code::NoMatch && !deadline.expired())
        result.client = client->connect_request(offer(client_vi, "c", "s"), soon());
    serving.join();
    ASSERT_TRUE(result.client.ok()) << result.client.error().sentence;
    ASSERT_TRUE(result.server.ok()) << result.server.error().sentence;
}

TEST_F(ReattachTest, ConnectionsCountAgainWhenBothEndsAreBack) {
    TestProcess client;
    TestProcess server;
    const std::uint32_t client_vi = client->create_vi().value();
    const std::uint32_t server_vi = server->create_vi().value();
    Connected pair;
    connect(client, client_vi, server, server_vi, pair);
    auto block = server->allocate_kmem(4096, 1);
    block.value().address[7] = std::byte{7};
    const std::uint64_t connection = pair.client.value().connection;
    ASSERT_TRUE(client->peer_arena(connection, block.value().arena).ok());
    kill_agent();

    // The client is back first; the server is not there yet.
    EXPECT_EQ(client->peer_rmmt(connection).error().code, Code::InvalidState);
    EXPECT_EQ(client->peer_arena(connection, block.value().arena).error().code, Code::InvalidState);
    ASSERT_TRUE(server->reattach_if_running());
    EXPECT_TRUE(server->attached());
    auto table = client->peer_rmmt(connection);
    ASSERT_TRUE(table.ok()) << table.error().sentence;
    EXPECT_EQ(table.value().epoch, 2U);
    auto arena = client->peer_arena(connection, block.value().arena);
    ASSERT_TRUE(arena.ok());
    auto mapped =
        base::Mapping::map(arena.value().file, arena.value().bytes, base::Access::ReadWrite);
    EXPECT_EQ(mapped.value().data()[block.value().arena_offset + 7], std::byte{7});
    EXPECT_TRUE(client->lost_connections().empty());
    EXPECT_TRUE(server->lost_connections().empty());
    // The VI is in use there as well.
    EXPECT_EQ(client->connect_request(offer(client_vi, "c", "s"), soon()).error().code,
              Code::InvalidState);
    // And its end is told there.
    server->disconnected(pair.server.value().connection);
    pollfd watched{client->socket(), POLLIN, 0};
    ASSERT_EQ(poll(&watched, 1, 30000), 1);
    EXPECT_EQ(client->lost_connections(), std::vector<std::uint64_t>{connection});
}

TEST_F(ReattachTest, AConnectionThatEndedMeanwhileIsReportedGone) {
    TestProcess client;
    TestProcess server;
    const std::uint32_t client_vi = client->create_vi().value();
    const std::uint32_t server_vi = server->create_vi().value();
    Connected pair;
    connect(client, client_vi, server, server_vi, pair);
    kill_agent();
    server->disconnected(pair.server.value().connection);  // there is no agent to tell
    ASSERT_TRUE(client->create_vi().ok());
    EXPECT_TRUE(client->lost_connections().empty());
    ASSERT_TRUE(server->create_vi().ok());
    pollfd watched{client->socket(), POLLIN, 0};
    ASSERT_EQ(poll(&watched, 1, 30000), 1);
    EXPECT_EQ(client->lost_connections(),
              std::vector<std::uint64_t>{pair.client.value().connection});
}

TEST_F(ReattachTest, TheWatchedDescriptorTellsOfTheEnd) {
    TestProcess process;
    const int watch = process->socket();
    pollfd watched{watch, POLLIN, 0};
    EXPECT_EQ(poll(&watched, 1, 0), 0);
    EXPECT_TRUE(process->attached());
    kill_agent();
    EXPECT_EQ(poll(&watched, 1, 30000), 1);
    EXPECT_FALSE(process->attached());
    EXPECT_FALSE(process->reattach_if_running());
    TestProcess other;  // starts an agent
    EXPECT_TRUE(process->reattach_if_running());
    EXPECT_TRUE(process->attached());
    EXPECT_EQ(process->socket(), watch);
    EXPECT_EQ(poll(&watched, 1, 0), 0);
}

TEST_F(ReattachTest, AWaitGoesOnAtTheNextAgent) {
    TestProcess client;
    TestProcess server;
    const std::uint32_t client_vi = client->create_vi().value();
    const std::uint32_t server_vi = server->create_vi().value();
    base::Result<Established> accepted(Code::NoMatch, "");
    std::thread serving([&] {
        auto incoming = server->connect_wait(address("host-a", "s"), soon());
        ASSERT_TRUE(incoming.ok()) << incoming.error().sentence;
        accepted =
            server->connect_accept(incoming.value().request, offer(server_vi, "s", "c"), soon());
    });
    // Until it waits.
    const Deadline deadline = soon();
    const auto waiting = [&] {
        auto status = client->status();
        std::uint32_t sum = 0;
        if (status)
            for (const ProcessStatus& one : status.value().processes)
                sum += one.waiting;
        return sum;
    };
    while (waiting() == 0 && !deadline.expired()) {
    }
    kill_agent();
    base::Result<Established> established(Code::NoMatch, "");
    while (!established && established.error().code == Code::NoMatch && !deadline.expired())
        established = client->connect_request(offer(client_vi, "c", "s"), soon());
    serving.join();
    EXPECT_TRUE(established.ok()) << established.error().sentence;
    EXPECT_TRUE(accepted.ok()) << accepted.error().sentence;
}

TEST_F(ReattachTest, ARequestUnderWayIsAskedAgain) {
    TestProcess client;
    TestProcess server;
    const std::uint32_t client_vi = client->create_vi().value();
    const std::uint32_t server_vi = server->create_vi().value();
    std::atomic<bool> told{false};
    base::Result<Established> accepted(Code::NoMatch, "");
    std::thread serving([&] {
        auto first = server->connect_wait(address("host-a", "s"), soon());
        ASSERT_TRUE(first.ok()) << first.error().sentence;
        told.store(true);
        // It thinks until the agent is gone …
        pollfd watched{server->socket(), POLLIN, 0};
        ASSERT_EQ(poll(&watched, 1, 30000), 1);
        EXPECT_EQ(server->connect_accept(first.value().request, offer(server_vi, "s", "c"), soon())
                      .error()
                      .code,
                  Code::Timeout);
        // … and gets the same request again.
        auto second = server->connect_wait(address("host-a", "s"), soon());
        ASSERT_TRUE(second.ok()) << second.error().sentence;
        EXPECT_EQ(second.value().remote, address("host-a", "c"));
        accepted =
            server->connect_accept(second.value().request, offer(server_vi, "s", "c"), soon());
    });
    std::thread killing([&] {
        while (!told.load())
            std::this_thread::yield();
        kill_agent();
    });
    base::Result<Established> established(Code::NoMatch, "");
    const Deadline deadline = soon();
    while (!established && established.error().code == Code::NoMatch && !deadline.expired())
        established = client->connect_request(offer(client_vi, "c", "s"), soon());
    serving.join();
    killing.join();
    EXPECT_TRUE(established.ok()) << established.error().sentence;
    EXPECT_TRUE(accepted.ok()) << accepted.error().sentence;
}

TEST_F(ReattachTest, PeerRequestsAreAskedAgain) {
    TestProcess one;
    TestProcess other;
    auto first = one->peer_request(offer(one->create_vi().value(), "a", "b"), soon());
    auto second = one->peer_request(offer(one->create_vi().value(), "c", "d"), soon());
    kill_agent();
    auto third = other->peer_request(offer(other->create_vi().value(), "d", "c"), soon());
    auto fourth = other->peer_request(offer(other->create_vi().value(), "b", "a"), soon());
    ASSERT_TRUE(fourth.ok());
    // Waiting for one brings all of them back.
    auto met = one->peer_wait(second.value());
    ASSERT_TRUE(met.ok()) << met.error().sentence;
    EXPECT_TRUE(other->peer_wait(fourth.value()).ok());
    EXPECT_TRUE(other->peer_wait(third.value()).ok());
    EXPECT_TRUE(one->peer_wait(first.value()).ok());
}

TEST_F(ReattachTest, AnOldRequestNumberMeansNothingToTheNextAgent) {
    TestProcess client;
    TestProcess server;
    const std::uint32_t client_vi = client->create_vi().value();
    const std::uint32_t server_vi = server->create_vi().value();
    base::Result<IncomingRequest> incoming(Code::NoMatch, "");
    std::thread asking([&] {
        const Deadline deadline = soon();
        base::Result<Established> result(Code::NoMatch, "");
        while (!result && result.error().code == Code::NoMatch && !deadline.expired())
            result = client->connect_request(offer(client_vi, "c", "s"),
                                             Deadline::after_milliseconds(1500));
        EXPECT_FALSE(result.ok());
    });
    incoming = server->connect_wait(address("host-a", "s"), soon());
    ASSERT_TRUE(incoming.ok());
    kill_agent();
    ASSERT_TRUE(server->create_vi().ok());  // attached again
    EXPECT_EQ(server->connect_accept(incoming.value().request, offer(server_vi, "s", "c"), soon())
                  .error()
                  .code,
              Code::Timeout);
    // The requester asks again, is told that nobody waits, and gives up when somebody takes it.
    auto again = server->connect_wait(address("host-a", "s"), soon());
    EXPECT_TRUE(again.ok());
    asking.join();
}

TEST_F(ReattachTest, WithoutAProgramToStartTheErrorSaysSo) {
    TestProcess process;
    kill_agent();
    // Whoever must not start an agent waits for somebody else to do it.
    EXPECT_FALSE(process->reattach_if_running());
    auto watcher = AgentClient::attach_if_running({}, soon());
    ASSERT_FALSE(watcher.ok());
    EXPECT_EQ(watcher.error().code, Code::NotFound);
    EXPECT_TRUE(process->create_vi().ok());
}

/// The agent is killed again and again while several threads use it; no call fails, nothing is
/// lost, and readers of the table never fault or see a wrong region.
TEST_F(ReattachTest, CallsGoOnWhileAgentsAreKilled) {
    TestProcess process;
    constexpr int threads = 4;
    constexpr int kills = 12;
    std::atomic<bool> done{false};
    std::array<char, 4096> memory{};
    auto fixed = process->register_memory(memory.data(), 123, 1, 0);
    ASSERT_TRUE(fixed.ok());
    std::vector<std::thread> workers;
    std::array<std::vector<MemoryHandle>, threads> left;
    std::array<std::map<const std::byte*, std::byte>, threads> blocks;
    for (int t = 0; t < threads; ++t)
        workers.emplace_back([&, t] {
            std::mt19937 random(static_cast<std::uint32_t>(t));
            auto& own = left[static_cast<std::size_t>(t)];
            auto& kmem = blocks[static_cast<std::size_t>(t)];
            while (!done.load()) {
                const auto what = random() % 4;
                if (what == 0 || own.empty()) {
                    auto handle = process->register_memory(memory.data(),
                                                           1 + static_cast<std::uint64_t>(t), 1, 0);
                    ASSERT_TRUE(handle.ok()) << handle.error().sentence;
                    own.push_back(handle.value());
                } else if (what == 1) {
                    auto gone = process->deregister_memory(own.back());
                    ASSERT_TRUE(gone.ok()) << gone.error().sentence;
                    own.pop_back();
                } else if (what == 2 && kmem.size() < 50) {
                    auto block = process->allocate_kmem(4096, 1);
                    ASSERT_TRUE(block.ok()) << block.error().sentence;
                    const auto mark = static_cast<std::byte>(random());
                    *block.value().address = mark;
                    ASSERT_TRUE(kmem.emplace(block.value().address, mark).second);
                } else if (!kmem.empty()) {
                    ASSERT_EQ(*kmem.begin()->first, kmem.begin()->second);
                    auto freed = process->free_kmem(kmem.begin()->first);
                    ASSERT_TRUE(freed.ok()) << freed.error().sentence;
                    kmem.erase(kmem.begin());
                }
            }
        });
    workers.emplace_back([&] {
        Region region{};
        while (!done.load()) {
            ASSERT_TRUE(process->rmmt().find(fixed.value(), region));
            ASSERT_EQ(region.length, 123U);
        }
    });
    for (int i = 0; i < kills; ++i) {
        // Let them work with each agent for a few requests.
        const std::uint32_t epoch = process->rmmt_epoch();
        kill_agent();
        const Deadline deadline = soon();
        while (process->rmmt_epoch() == epoch && !deadline.expired())
            std::this_thread::yield();
        ASSERT_NE(process->rmmt_epoch(), epoch);
    }
    done.store(true);
    for (std::thread& worker : workers)
        worker.join();
    std::size_t regions = 1;
    std::uint64_t bytes = 0;
    Region region{};
    for (std::size_t t = 0; t < threads; ++t) {
        regions += left[t].size();
        for (const MemoryHandle handle : left[t]) {
            ASSERT_TRUE(process->rmmt().find(handle, region));
            ASSERT_EQ(region.length, 1 + t);
        }
        for (const auto& [address, mark] : blocks[t]) {
            ASSERT_EQ(*address, mark);
            bytes += 4096;
        }
    }
    auto status = process->status();
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status.value().processes.at(0).regions, regions);
    EXPECT_EQ(status.value().processes.at(0).kmem_bytes, bytes);
}

/// Processes that connect all the time while agents are killed: in the end they can still connect.
TEST_F(ReattachTest, ConnectingGoesOnWhileAgentsAreKilled) {
    TestProcess client;
    TestProcess server;
    const std::uint32_t client_vi = client->create_vi().value();
    std::atomic<bool> done{false};
    std::atomic<int> connected{0};
    std::thread serving([&] {
        const std::uint32_t vi = server->create_vi().value();
        while (!done.load()) {
            auto incoming =
                server->connect_wait(address("host-a", "s"), Deadline::after_milliseconds(100));
            if (!incoming) {
                ASSERT_EQ(incoming.error().code, Code::Timeout) << incoming.error().sentence;
                continue;
            }
            auto accepted =
                server->connect_accept(incoming.value().request, offer(vi, "s", "c"), soon());
            if (accepted)
                server->disconnected(accepted.value().connection);
            else
                ASSERT_TRUE(accepted.error().code == Code::Timeout ||
                            accepted.error().code == Code::ConnectionLost)
                    << accepted.error().sentence;
        }
    });
    std::thread killing([&] {
        for (int i = 0; i < 10; ++i) {
            const int before = connected.load();
            const Deadline deadline = soon();
            while (connected.load() < before + 3 && !deadline.expired())
                std::this_thread::yield();
            ASSERT_FALSE(deadline.expired());
            kill_agent();
        }
        done.store(true);
    });
    while (!done.load()) {
        auto established =
            client->connect_request(offer(client_vi, "c", "s"), Deadline::after_milliseconds(2000));
        if (established) {
            connected.fetch_add(1);
            client->disconnected(established.value().connection);
        } else {
            ASSERT_TRUE(established.error().code == Code::NoMatch ||
                        established.error().code == Code::Timeout ||
                        established.error().code == Code::ConnectionLost)
                << established.error().sentence;
        }
    }
    killing.join();
    serving.join();
}

}  // namespace
}  // namespace via::ka::test
