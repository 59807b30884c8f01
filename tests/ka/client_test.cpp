// SPDX-License-Identifier: BSD-3-Clause
// AgentClient against a real viad: memory, kmem, VIs, connections, status.
#include "ka/client.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "ka/harness.hpp"
#include "ka/host_address.hpp"
#include "ka/limits.hpp"

namespace via::ka::test {
namespace {

using base::Code;
using base::Deadline;

class ClientTest : public AgentTest {};

TEST_F(ClientTest, AttachStartsAnAgentAndRegistersMemory) {
    TestProcess process;
    ASSERT_TRUE(process.valid());
    EXPECT_EQ(process->rmmt_epoch(), 1U);
    std::array<char, 1000> buffer{};
    auto handle = process->register_memory(buffer.data(), buffer.size(), 7, right_rdma_write);
    ASSERT_TRUE(handle.ok()) << handle.error().sentence;
    EXPECT_NE(handle.value(), 0U);
    EXPECT_NE(handle.value(), 0xFFFFFFFFU);
    Region region{};
    ASSERT_TRUE(process->rmmt().find(handle.value(), region));
    EXPECT_EQ(region.address, reinterpret_cast<std::uintptr_t>(buffer.data()));
    EXPECT_EQ(region.length, buffer.size());
    EXPECT_EQ(region.tag, 7U);
    EXPECT_EQ(region.rights, right_rdma_write);
    EXPECT_EQ(region.arena, no_arena);

    ASSERT_TRUE(process->change_memory(handle.value(), 8, right_rdma_read).ok());
    ASSERT_TRUE(process->rmmt().find(handle.value(), region));
    EXPECT_EQ(region.tag, 8U);
    EXPECT_EQ(region.rights, right_rdma_read);

    ASSERT_TRUE(process->deregister_memory(handle.value()).ok());
    EXPECT_FALSE(process->rmmt().find(handle.value(), region));
    EXPECT_EQ(process->deregister_memory(handle.value()).error().code, Code::InvalidArgument);
    EXPECT_EQ(process->change_memory(handle.value(), 1, 0).error().code, Code::InvalidArgument);
}

TEST_F(ClientTest, BadRegionsAreRefused) {
    TestProcess process;
    char byte = 0;
    EXPECT_EQ(process->register_memory(&byte, 0, 1, 0).error().code, Code::InvalidArgument);
    EXPECT_EQ(process->register_memory(&byte, ~std::uint64_t{0}, 1, 0).error().code,
              Code::InvalidArgument);
    EXPECT_EQ(process->register_memory(&byte, 1, 1, 4).error().code, Code::InvalidArgument);
    EXPECT_TRUE(process->register_memory(&byte, 1, 1, 0).ok());
}

TEST_F(ClientTest, TheTableCanNotBeWrittenByItsProcess) {
    TestProcess one;
    TestProcess other;
    auto vi_one = one->create_vi();
    auto vi_other = other->create_vi();
    std::thread server([&] {
        auto incoming = other->connect_wait(address("host-a", "server"), soon());
        ASSERT_TRUE(incoming.ok()) << incoming.error().sentence;
        auto accepted = other->connect_accept(incoming.value().request,
                                              offer(vi_other.value(), "server", "client"), soon());
        EXPECT_TRUE(accepted.ok());
    });
    base::Result<Established> established(Code::NoMatch, "");
    const Deadline deadline = soon();
    while (!established && established.error().code == Code::NoMatch && !deadline.expired())
        established = one->connect_request(offer(vi_one.value(), "client", "server"), soon());
    server.join();
    ASSERT_TRUE(established.ok()) << established.error().sentence;
    const int table = established.value().peer.rmmt.get();
    EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, table, 0), MAP_FAILED);
    const char garbage = 1;
    EXPECT_LT(pwrite(table, &garbage, 1, 0), 0);
    EXPECT_NE(ftruncate(table, 0), 0);
    void* mapped = mmap(nullptr, rmmt_bytes, PROT_READ, MAP_SHARED, table, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    EXPECT_NE(mprotect(mapped, 4096, PROT_READ | PROT_WRITE), 0);
    // The same table that the peer itself sees.
    int value = 0;
    auto handle = other->register_memory(&value, sizeof value, 1, 0);
    Region region{};
    EXPECT_TRUE(RmmtView(static_cast<RmmtEntry*>(mapped)).find(handle.value(), region));
    EXPECT_EQ(region.length, sizeof value);
    munmap(mapped, rmmt_bytes);
    // The process's own mapping is read-only too.
    const auto view = one->rmmt();
    Region own{};
    EXPECT_FALSE(view.find(handle.value(), own));
}

TEST_F(ClientTest, KmemIsMappedOnceAndGivenBack) {
    TestProcess process;
    auto small = process->allocate_kmem(100, 1);
    ASSERT_TRUE(small.ok()) << small.error().sentence;
    EXPECT_EQ(small.value().bytes, 4096U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.value().address) % 4096, 0U);
    std::memset(small.value().address, 1, 4096);
    auto second = process->allocate_kmem(5000, 1);
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(second.value().arena, small.value().arena);
    EXPECT_EQ(second.value().bytes, 8192U);
    EXPECT_EQ(
        second.value().address - small.value().address,
        static_cast<std::ptrdiff_t>(second.value().arena_offset - small.value().arena_offset));
    auto other_tag = process->allocate_kmem(5000, 2);
    ASSERT_TRUE(other_tag.ok());
    EXPECT_NE(other_tag.value().arena, small.value().arena);

    EXPECT_EQ(process->free_kmem(small.value().address + 1).error().code, Code::InvalidArgument);
    EXPECT_EQ(process->free_kmem(&process).error().code, Code::InvalidArgument);
    EXPECT_TRUE(process->free_kmem(small.value().address).ok());
    EXPECT_EQ(process->free_kmem(small.value().address).error().code, Code::InvalidArgument);
    // The page was given back: it reads as zero when it is given out again.
    auto again = process->allocate_kmem(4096, 1);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again.value().address, small.value().address);
    EXPECT_EQ(again.value().address[0], std::byte{0});
    EXPECT_TRUE(process->free_kmem(again.value().address).ok());
    EXPECT_TRUE(process->free_kmem(second.value().address).ok());
    EXPECT_TRUE(process->free_kmem(other_tag.value().address).ok());
    auto status = process->status();
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status.value().processes.at(0).kmem_bytes, 0U);
}

TEST_F(ClientTest, ALargeRequestGetsAnArenaOfItsSize) {
    TestProcess process;
    const std::uint64_t bytes = (std::uint64_t{65} << 20) + 5;
    auto large = process->allocate_kmem(bytes, 1);
    ASSERT_TRUE(large.ok()) << large.error().sentence;
    EXPECT_EQ(large.value().bytes, (std::uint64_t{65} << 20) + 4096);
    large.value().address[bytes - 1] = std::byte{1};
    EXPECT_TRUE(process->free_kmem(large.value().address).ok());
}

TEST_F(ClientTest, ImpossibleKmemIsAnError) {
    TestProcess process;
    EXPECT_EQ(process->allocate_kmem(0, 1).error().code, Code::InvalidArgument);
    auto huge = process->allocate_kmem(std::uint64_t{1} << 62, 1);
    ASSERT_FALSE(huge.ok());
    EXPECT_EQ(huge.error().code, Code::OutOfResources);
    EXPECT_TRUE(process->allocate_kmem(4096, 1).ok());
}

TEST_F(ClientTest, RegionsInKmemNameTheArenaWhenTheTagIsTheSame) {
    TestProcess process;
    auto block = process->allocate_kmem(8192, 5);
    ASSERT_TRUE(block.ok());
    auto inside = process->register_memory(block.value().address + 100, 1000, 5, 0);
    auto foreign_tag = process->register_memory(block.value().address, 8192, 6, 0);
    auto beyond = process->register_memory(block.value().address + 4096, 8192, 5, 0);
    Region region{};
    ASSERT_TRUE(process->rmmt().find(inside.value(), region));
    EXPECT_EQ(region.arena, block.value().arena);
    EXPECT_EQ(region.arena_offset, block.value().arena_offset + 100);
    ASSERT_TRUE(process->rmmt().find(foreign_tag.value(), region));
    EXPECT_EQ(region.arena, no_arena);
    ASSERT_TRUE(process->rmmt().find(beyond.value(), region));
    EXPECT_EQ(region.arena, no_arena);
    // The tag decides, also when it changes.
    ASSERT_TRUE(process->change_memory(foreign_tag.value(), 5, 0).ok());
    ASSERT_TRUE(process->rmmt().find(foreign_tag.value(), region));
    EXPECT_EQ(region.arena, block.value().arena);
    // A block with regions in it is not given back.
    EXPECT_EQ(process->free_kmem(block.value().address).error().code, Code::InvalidState);
    EXPECT_TRUE(process->deregister_memory(inside.value()).ok());
    EXPECT_TRUE(process->deregister_memory(foreign_tag.value()).ok());
    EXPECT_TRUE(process->free_kmem(block.value().address).ok());
}

/// Two clients of one process, connected.
struct Pair {
    TestProcess client;
    TestProcess server;
    std::uint32_t client_vi = client->create_vi().value();
    std::uint32_t server_vi = server->create_vi().value();
    base::Result<Established> at_client{Code::NoMatch, ""};
    base::Result<Established> at_server{Code::NoMatch, ""};

    explicit Pair(ProtectionTag client_tag = 1, ProtectionTag server_tag = 1,
                  std::uint32_t server_flags = 0) {
        std::thread serving([&] {
            auto incoming = server->connect_wait(address("host-a", "s"), soon());
            if (!incoming) return;
            ConnectOffer answer = offer(server_vi, "s", "c", server_tag);
            answer.attributes.flags = server_flags;
            at_server = server->connect_accept(incoming.value().request, answer, soon());
        });
        const Deadline deadline = soon();
        while (!at_client && at_client.error().code == Code::NoMatch && !deadline.expired())
            at_client = client->connect_request(offer(client_vi, "c", "s", client_tag), soon());
        serving.join();
    }
    [[nodiscard]] bool connected() const { return at_client.ok() && at_server.ok(); }
};

TEST_F(ClientTest, ClientAndServerConnect) {
    Pair pair;
    ASSERT_TRUE(pair.connected()) << pair.at_client.error().sentence;
    const Established& one = pair.at_client.value();
    const Established& other = pair.at_server.value();
    EXPECT_TRUE(one.requester);
    EXPECT_FALSE(other.requester);
    EXPECT_EQ(one.secret, other.secret);
    EXPECT_EQ(one.channel_bytes, 64U * 1024);
    EXPECT_EQ(other.channel_bytes, 64U * 1024);
    EXPECT_EQ(one.remote_address, address("host-a", "s"));
    EXPECT_EQ(other.remote_address, address("host-a", "c"));
    EXPECT_EQ(one.remote_parameters[0], 42);
    EXPECT_EQ(one.peer.pid, getpid());
    EXPECT_EQ(one.peer.uid, geteuid());
    EXPECT_EQ(one.peer.rmmt_epoch, 1U);
    EXPECT_NE(one.peer.process, other.peer.process);
    EXPECT_EQ(one.peer.agent_epoch, other.peer.agent_epoch);
    // The channel is one and the same memory, and zero.
    auto here = base::Mapping::map(one.channel, 64 * 1024, base::Access::ReadWrite);
    auto there = base::Mapping::map(other.channel, 64 * 1024, base::Access::ReadWrite);
    ASSERT_TRUE(here.ok() && there.ok());
    EXPECT_EQ(here.value().data()[65535], std::byte{0});
    here.value().data()[65535] = std::byte{9};
    EXPECT_EQ(there.value().data()[65535], std::byte{9});
    // And the doorbells are the peer's.
    struct stat given {};
    struct stat own {};
    ASSERT_EQ(fstat(one.peer.doorbell_memory.get(), &given), 0);
    ASSERT_EQ(fstat(pair.server.doorbell_memory(), &own), 0);
    EXPECT_EQ(given.st_ino, own.st_ino);
    EXPECT_TRUE(one.peer.doorbell_event.valid());
    pollfd alive{one.peer.pidfd.get(), POLLIN, 0};
    EXPECT_EQ(poll(&alive, 1, 0), 0);

    auto status = pair.client->status();
    ASSERT_TRUE(status.ok());
    ASSERT_EQ(status.value().processes.size(), 2U);
    EXPECT_EQ(status.value().processes[0].connections, 1U);
    EXPECT_EQ(status.value().processes[1].connections, 1U);
}

/// An offer between two processes of this host over the net fabric, by Internet addresses.
ConnectOffer net_offer(const TestProcess& process, std::uint32_t vi, std::string_view local,
                       std::string_view remote) {
    ConnectOffer result = offer(vi, local, remote);
    AgentAddress here;
    here.family = 4;
    here.port = process->net_port();
    here.ip = {127, 0, 0, 1};
    set_host(result.local, here);
    here.ip = {127, 0, 0, 2};  // another name of the same host
    set_host(result.remote, here);
    result.fabric = fabric_net;
    result.channel_bytes = 0;
    return result;
}

TEST_F(ClientTest, AConnectionOfTheNetFabricHasAKeyAndNoChannel) {
    TestProcess client;
    TestProcess server;
    EXPECT_NE(client->net_port(), 0);
    const std::uint32_t client_vi = client->create_vi().value();
    const std::uint32_t server_vi = server->create_vi().value();
    const ConnectOffer asked = net_offer(client, client_vi, "c", "s");
    const ConnectOffer answer = net_offer(server, server_vi, "s", "c");
    base::Result<Established> at_server{Code::NoMatch, ""};
    std::uint32_t fabric = 0;
    std::thread serving([&] {
        // Under the name that every process of the host knows, for both fabrics.
        NetAddress place = answer.local;
        set_host(place, host_address());
        auto incoming = server->connect_wait(place, soon(), nullptr, all_fabrics);
        if (!incoming) return;
        fabric = incoming.value().fabric;
        EXPECT_EQ(incoming.value().remote, asked.local);
        at_server = server->connect_accept(incoming.value().request, answer, soon());
    });
    base::Result<Established> at_client{Code::NoMatch, ""};
    const Deadline deadline = soon();
    while (!at_client && at_client.error().code == Code::NoMatch && !deadline.expired())
        at_client = client->connect_request(asked, soon());
    serving.join();
    ASSERT_TRUE(at_client.ok()) << at_client.error().sentence;
    ASSERT_TRUE(at_server.ok()) << at_server.error().sentence;
    EXPECT_EQ(fabric, fabric_net);
    EXPECT_FALSE(at_client.value().channel.valid());
    EXPECT_EQ(at_client.value().channel_bytes, 0U);
    EXPECT_EQ(at_client.value().session_key, at_server.value().session_key);
    EXPECT_NE(at_client.value().session_key, SessionKey{});
    EXPECT_TRUE(at_client.value().peer.pidfd.valid());
    EXPECT_EQ(at_client.value().remote_address, answer.local);
    // Such a connection is no less one: its VI is taken, and its end is told.
    EXPECT_EQ(client->connect_request(asked, soon()).error().code, Code::InvalidState);
    client->disconnected(at_client.value().connection);
    std::vector<std::uint64_t> lost;
    while (lost.empty() && !deadline.expired())
        lost = server->lost_connections();
    EXPECT_EQ(lost, std::vector{at_server.value().connection});
}

TEST_F(ClientTest, PeersMeetOnTheNetFabric) {
    TestProcess one;
    TestProcess other;
    const ConnectOffer first = net_offer(one, one->create_vi().value(), "a", "b");
    ConnectOffer second = net_offer(other, other->create_vi().value(), "b", "a");
    const auto asked = one->peer_request(first, soon());
    const auto answered = other->peer_request(second, soon());
    ASSERT_TRUE(asked.ok() && answered.ok());
    auto at_one = one->peer_wait(asked.value());
    auto at_other = other->peer_wait(answered.value());
    ASSERT_TRUE(at_one.ok() && at_other.ok());
    EXPECT_NE(at_one.value().requester, at_other.value().requester);
    EXPECT_EQ(at_one.value().session_key, at_other.value().session_key);
    EXPECT_FALSE(at_one.value().channel.valid());
    EXPECT_TRUE(at_one.value().peer.rmmt.valid());
    // Channels are the shm fabric's.
    second.channel_bytes = 4096;
    second.vi = other->create_vi().value();
    EXPECT_EQ(other->connect_request(second, soon()).error().code, Code::InvalidArgument);
}

TEST_F(ClientTest, NobodyWaitsIsNoMatchAndAnotherHostIsNotReachable) {
    TestProcess process;
    const std::uint32_t vi = process->create_vi().value();
    EXPECT_EQ(process->connect_request(offer(vi, "c", "nobody"), soon()).error().code,
              Code::NoMatch);
    ConnectOffer far = offer(vi, "c", "nobody");
    far.remote = address("host-b", "nobody");
    EXPECT_EQ(process->connect_request(far, soon()).error().code, Code::NotReachable);
    // The VI is as free as before.
    EXPECT_EQ(process->connect_request(offer(vi, "c", "nobody"), soon()).error().code,
              Code::NoMatch);
}

TEST_F(ClientTest, WaitsTimeOut) {
    TestProcess process;
    EXPECT_EQ(process->connect_wait(address("host-a", "s"), Deadline::after_milliseconds(20))
                  .error()
                  .code,
              Code::Timeout);
    EXPECT_EQ(
        process->connect_wait(address("host-a", "s"), Deadline::after_milliseconds(0)).error().code,
        Code::Timeout);
}

TEST_F(ClientTest, AWaitCanBeCancelledByItsOwner) {
    TestProcess process;
    int owner = 0;
    int other = 0;
    std::atomic<int> ended{0};
    const auto wait_as = [&](const void* who, Code expected) {
        return std::thread([&, who, expected] {
            auto incoming = process->connect_wait(address("host-a", "s"), soon(), who);
            EXPECT_EQ(incoming.error().code, expected);
            ended.fetch_add(1);
        });
    };
    std::thread first = wait_as(&owner, Code::InvalidArgument);
    std::thread second = wait_as(&owner, Code::InvalidArgument);
    std::thread third = wait_as(&other, Code::InvalidArgument);
    const auto waiting = [&](std::uint32_t count) {
        const Deadline deadline = soon();
        auto status = process->status();
        while (status && status.value().processes.at(0).waiting != count && !deadline.expired())
            status = process->status();
        return status && status.value().processes.at(0).waiting == count;
    };
    EXPECT_TRUE(waiting(3));
    process->cancel_waits(nullptr);  // nobody's
    process->cancel_waits(&owner);
    first.join();
    second.join();
    EXPECT_EQ(ended.load(), 2);
    // The agent has forgotten them too.
    EXPECT_TRUE(waiting(1));
    process->cancel_waits(&other);
    third.join();
    EXPECT_TRUE(waiting(0));
}

TEST_F(ClientTest, APeerRequestCanBeCancelledWhileItIsAwaited) {
    TestProcess process;
    auto request = process->peer_request(offer(process->create_vi().value(), "a", "b"), soon());
    std::thread waiting([&] {
        EXPECT_EQ(process->peer_wait(request.value()).error().code, Code::InvalidArgument);
    });
    auto status = process->status();
    const Deadline deadline = soon();
    while (status && status.value().processes.at(0).waiting == 0 && !deadline.expired())
        status = process->status();
    process->peer_cancel(request.value());
    waiting.join();
}

TEST_F(ClientTest, TheServerMayRejectOrBeTooLate) {
    TestProcess client;
    TestProcess server;
    const std::uint32_t client_vi = client->create_vi().value();
    const std::uint32_t server_vi = server->create_vi().value();
    std::atomic<int> stage{0};
    std::thread serving([&] {
        auto first = server->connect_wait(address("host-a", "s"), soon());
        ASSERT_TRUE(first.ok()) << first.error().sentence;
        EXPECT_EQ(first.value().remote, address("host-a", "c"));
        EXPECT_TRUE(server->connect_reject(first.value().request).ok());
        EXPECT_EQ(server->connect_reject(first.value().request).error().code,
                  Code::InvalidArgument);
        auto second = server->connect_wait(address("host-a", "s"), soon());
        ASSERT_TRUE(second.ok()) << second.error().sentence;
        // Until the requester has given up.
        while (stage.load() < 2)
            std::this_thread::yield();
        EXPECT_EQ(server->connect_accept(second.value().request, offer(server_vi, "s", "c"), soon())
                      .error()
                      .code,
                  Code::Timeout);
        EXPECT_EQ(server->connect_accept(second.value().request, offer(server_vi, "s", "c"), soon())
                      .error()
                      .code,
                  Code::InvalidArgument);
    });
    const auto request = [&](Deadline time) {
        base::Result<Established> result(Code::NoMatch, "");
        const Deadline deadline = soon();
        while (!result && result.error().code == Code::NoMatch && !deadline.expired())
            result = client->connect_request(offer(client_vi, "c", "s"), time);
        return result.ok() ? Code::System : result.error().code;
    };
    EXPECT_EQ(request(soon()), Code::Rejected);
    stage.store(1);
    base::Result<Established> late(Code::NoMatch, "");
    const Deadline deadline = soon();
    while (!late && late.error().code == Code::NoMatch && !deadline.expired())
        late =
            client->connect_request(offer(client_vi, "c", "s"), Deadline::after_milliseconds(50));
    EXPECT_EQ(late.error().code, Code::Timeout);
    stage.store(2);
    serving.join();
}

TEST_F(ClientTest, AttributesMustMatchAndTheAcceptorMayTryAgain) {
    TestProcess client;
    TestProcess server;
    const std::uint32_t client_vi = client->create_vi().value();
    const std::uint32_t server_vi = server->create_vi().value();
    std::thread serving([&] {
        auto incoming = server->connect_wait(address("host-a", "s"), soon());
        ASSERT_TRUE(incoming.ok());
        const std::uint64_t request = incoming.value().request;
        ConnectOffer answer = offer(server_vi, "s", "c");
        answer.attributes.reliability = 4;
        EXPECT_EQ(server->connect_accept(request, answer, soon()).error().code,
                  Code::ReliabilityMismatch);
        answer = offer(server_vi, "s", "c");
        answer.attributes.max_transfer_bytes += 1;
        EXPECT_EQ(server->connect_accept(request, answer, soon()).error().code,
                  Code::TransferSizeMismatch);
        answer = offer(server_vi, "s", "c");
        answer.attributes.quality_of_service += 1;
        EXPECT_EQ(server->connect_accept(request, answer, soon()).error().code, Code::QosMismatch);
        answer = offer(server_vi + 100, "s", "c");
        EXPECT_EQ(server->connect_accept(request, answer, soon()).error().code,
                  Code::InvalidArgument);
        EXPECT_TRUE(server->connect_accept(request, offer(server_vi, "s", "c"), soon()).ok());
    });
    base::Result<Established> result(Code::NoMatch, "");
    const Deadline deadline = soon();
    while (!result && result.error().code == Code::NoMatch && !deadline.expired())
        result = client->connect_request(offer(client_vi, "c", "s"), soon());
    EXPECT_TRUE(result.ok());
    serving.join();
    // A connected VI can not connect.
    EXPECT_EQ(client->connect_request(offer(client_vi, "c", "s"), soon()).error().code,
              Code::InvalidState);
    client->disconnected(result.value().connection);
    EXPECT_EQ(client->connect_request(offer(client_vi, "c", "s"), soon()).error().code,
              Code::NoMatch);
}

TEST_F(ClientTest, PeersMeetInAnyOrder) {
    TestProcess one;
    TestProcess other;
    const std::uint32_t one_vi = one->create_vi().value();
    const std::uint32_t other_vi = other->create_vi().value();
    auto first = one->peer_request(offer(one_vi, "a", "b"), soon());
    ASSERT_TRUE(first.ok());
    EXPECT_FALSE(one->peer_poll(first.value()).has_value());
    auto second = other->peer_request(offer(other_vi, "b", "a"), soon());
    ASSERT_TRUE(second.ok());
    auto at_other = other->peer_wait(second.value());
    ASSERT_TRUE(at_other.ok()) << at_other.error().sentence;
    std::optional<base::Result<Established>> at_one;
    const Deadline deadline = soon();
    while (!(at_one = one->peer_poll(first.value())) && !deadline.expired()) {
    }
    ASSERT_TRUE(at_one.has_value());
    ASSERT_TRUE(at_one->ok());
    EXPECT_EQ(at_one->value().secret, at_other.value().secret);
    // Peer requests go without an answer, so either may have come first; one plays the requester.
    EXPECT_NE(at_one->value().requester, at_other.value().requester);
    // The outcome is told once.
    EXPECT_EQ(one->peer_wait(first.value()).error().code, Code::InvalidArgument);
}

TEST_F(ClientTest, PeerRequestsTimeOutAndCanBeCancelled) {
    TestProcess one;
    TestProcess other;
    const std::uint32_t vi = one->create_vi().value();
    auto lonely = one->peer_request(offer(vi, "a", "b"), Deadline::after_milliseconds(20));
    EXPECT_EQ(one->peer_wait(lonely.value()).error().code, Code::Timeout);
    auto cancelled = one->peer_request(offer(vi, "a", "b"), soon());
    one->peer_cancel(cancelled.value());
    EXPECT_EQ(one->peer_poll(cancelled.value())->error().code, Code::InvalidArgument);
    // Nobody is there any more to be met.
    const std::uint32_t other_vi = other->create_vi().value();
    auto alone = other->peer_request(offer(other_vi, "b", "a"), Deadline::after_milliseconds(20));
    EXPECT_EQ(other->peer_wait(alone.value()).error().code, Code::Timeout);
}

std::size_t open_descriptors() {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
        ++count;
    return count;
}

TEST_F(ClientTest, AThousandPeersAskedFirstAndAwaitedLater) {
    constexpr std::uint32_t count = 1000;
    TestProcess one;
    TestProcess other;
    std::vector<std::uint64_t> first;
    std::vector<std::uint64_t> second;
    for (std::uint32_t i = 0; i < count; ++i) {
        auto asked = one->peer_request(
            offer(one->create_vi().value(), "a" + std::to_string(i), "b" + std::to_string(i)),
            soon());
        ASSERT_TRUE(asked.ok()) << asked.error().sentence;
        first.push_back(asked.value());
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        auto asked = other->peer_request(
            offer(other->create_vi().value(), "b" + std::to_string(i), "a" + std::to_string(i)),
            soon());
        ASSERT_TRUE(asked.ok()) << asked.error().sentence;
        second.push_back(asked.value());
    }
    // Outcomes that nobody has claimed cost a descriptor for the channel, not five each.
    const Deadline deadline = soon();
    while (open_descriptors() < 2 * count && !deadline.expired()) {
        (void)one->attached();
        (void)other->attached();
    }
    EXPECT_LT(open_descriptors(), 2 * count + 100);
    for (std::uint32_t i = 0; i < count; ++i) {
        auto at_one = one->peer_wait(first[i]);
        ASSERT_TRUE(at_one.ok()) << at_one.error().sentence;
        auto at_other = other->peer_wait(second[i]);
        ASSERT_TRUE(at_other.ok()) << at_other.error().sentence;
        ASSERT_EQ(at_one.value().secret, at_other.value().secret);
    }
}

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

TEST_F(ClientTest, TheAgentTranslatesWhatTheTableSays) {
    TestProcess process;
    ASSERT_TRUE(process.valid());
    std::array<int, 4> memory{};
    auto handle = process->register_memory(memory.data(), sizeof memory, 7, right_rdma_read);
    ASSERT_TRUE(handle.ok());
    Region read{};
    ASSERT_TRUE(process->rmmt().find(handle.value(), read));
    const auto told = process->translate(handle.value());
    ASSERT_TRUE(told.ok()) << told.error().sentence;
    EXPECT_EQ(told.value().address, read.address);
    EXPECT_EQ(told.value().length, read.length);
    EXPECT_EQ(told.value().tag, 7U);
    EXPECT_EQ(told.value().rights, right_rdma_read);
    EXPECT_EQ(told.value().arena, no_arena);
    ASSERT_TRUE(process->deregister_memory(handle.value()).ok());
    EXPECT_EQ(process->translate(handle.value()).error().code, Code::InvalidArgument);
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

TEST_F(ClientTest, AProcessHearsWhatItsUserWants) {
    TestProcess process;
    auto observer = AgentClient::attach({}, Deadline::after_milliseconds(30000));
    ASSERT_TRUE(observer.ok()) << observer.error().sentence;
    EXPECT_TRUE(process->link_policy_wishes().empty());
    ASSERT_TRUE(observer.value()->wish_link_policy(getpid(), {"dynamic", 0}).ok());
    pollfd watched{process->socket(), POLLIN, 0};
    ASSERT_EQ(poll(&watched, 1, 30000), 1);
    // Any call that waits for an answer reads it, too; the service thread is woken all the same.
    ASSERT_TRUE(process->create_vi().ok());
    ASSERT_TRUE(observer.value()->wish_link_policy(getpid(), {"static", 7}).ok());
    ASSERT_TRUE(process->create_vi().ok());
    EXPECT_EQ(poll(&watched, 1, 0), 1);
    const auto wishes = process->link_policy_wishes();
    ASSERT_EQ(wishes.size(), 2U);
    EXPECT_EQ(wishes[0].policy, "dynamic");
    EXPECT_EQ(wishes[0].vi_slot, 0U);
    EXPECT_EQ(wishes[1].policy, "static");
    EXPECT_EQ(wishes[1].vi_slot, 7U);
    EXPECT_TRUE(process->link_policy_wishes().empty());
    EXPECT_EQ(poll(&watched, 1, 0), 0);
    // A process that is not attached, and one that takes none of them: the last ones are kept.
    EXPECT_EQ(observer.value()->wish_link_policy(1, {"static", 0}).error().code, Code::NotFound);
    for (std::uint32_t i = 1; i <= 200; ++i) {
        ASSERT_TRUE(observer.value()->wish_link_policy(getpid(), {"static", i}).ok());
        ASSERT_TRUE(process->create_vi().ok());
    }
    const auto last = process->link_policy_wishes();
    ASSERT_FALSE(last.empty());
    EXPECT_LT(last.size(), 200U);
    EXPECT_EQ(last.back().vi_slot, 200U);
}

TEST_F(ClientTest, DestroyingAViEndsItsConnection) {
    Pair pair;
    ASSERT_TRUE(pair.connected());
    pair.server->destroy_vi(pair.server_vi);
    pollfd watched{pair.client->socket(), POLLIN, 0};
    ASSERT_EQ(poll(&watched, 1, 30000), 1);
    EXPECT_EQ(pair.client->lost_connections().size(), 1U);
}

TEST_F(ClientTest, ManyThreadsShareOneAttachment) {
    TestProcess process;
    constexpr int threads = 16;
    constexpr int rounds = 60;
    std::array<std::atomic<int>, threads> memory{};
    std::atomic<bool> done{false};
    // One sits in a wait that nobody meets, so the others need it to read for them.
    std::thread waiting([&] {
        while (!done.load())
            (void)process->connect_wait(address("host-a", "x"), Deadline::after_milliseconds(50));
    });
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t)
        workers.emplace_back([&, t] {
            for (int i = 0; i < rounds; ++i) {
                auto handle =
                    process->register_memory(&memory[static_cast<std::size_t>(t)], 4, 1, 0);
                ASSERT_TRUE(handle.ok()) << handle.error().sentence;
                Region region{};
                ASSERT_TRUE(process->rmmt().find(handle.value(), region));
                ASSERT_EQ(region.address,
                          reinterpret_cast<std::uintptr_t>(&memory[static_cast<std::size_t>(t)]));
                auto block = process->allocate_kmem(4096, 1);
                ASSERT_TRUE(block.ok()) << block.error().sentence;
                block.value().address[0] = std::byte{1};
                auto vi = process->create_vi();
                ASSERT_TRUE(vi.ok());
                process->destroy_vi(vi.value());
                ASSERT_TRUE(process->free_kmem(block.value().address).ok());
                ASSERT_TRUE(process->deregister_memory(handle.value()).ok());
            }
        });
    for (std::thread& worker : workers)
        worker.join();
    done.store(true);
    waiting.join();
    auto status = process->status();
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status.value().processes.at(0).regions, 0U);
    EXPECT_EQ(status.value().processes.at(0).vis, 0U);
    EXPECT_EQ(status.value().processes.at(0).kmem_bytes, 0U);
}

TEST_F(ClientTest, StatusTellsWhatAProcessHas) {
    TestProcess process;
    int value = 0;
    ASSERT_TRUE(process->register_memory(&value, 4, 1, 0).ok());
    ASSERT_TRUE(process->allocate_kmem(4096, 1).ok());
    ASSERT_TRUE(process->create_vi().ok());
    auto peer = process->peer_request(offer(1, "a", "b"), soon());
    auto watcher = observer();
    ASSERT_NE(watcher, nullptr);
    // The peer request goes without an answer, so it may arrive later.
    base::Result<AgentStatus> status = watcher->status();
    const Deadline deadline = soon();
    while (status && status.value().processes.at(0).waiting == 0 && !deadline.expired())
        status = watcher->status();
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status.value().socket, socket_name());
    EXPECT_TRUE(status.value().on_demand);
    EXPECT_EQ(status.value().idle_seconds_limit, 1U);
    EXPECT_EQ(status.value().uid, geteuid());
    ASSERT_EQ(status.value().processes.size(), 1U);
    const ProcessStatus& record = status.value().processes[0];
    EXPECT_EQ(record.pid, getpid());
    EXPECT_EQ(record.uid, geteuid());
    EXPECT_EQ(record.program, program_invocation_short_name);
    EXPECT_EQ(record.vis, 1U);
    EXPECT_EQ(record.regions, 1U);
    EXPECT_EQ(record.registered_bytes, 4U);
    EXPECT_EQ(record.kmem_bytes, 4096U);
    EXPECT_EQ(record.waiting, 1U);
}

TEST_F(ClientTest, StatusOfManyProcessesComesInPages) {
    std::vector<std::unique_ptr<TestProcess>> processes;
    for (int i = 0; i < 60; ++i)
        processes.push_back(std::make_unique<TestProcess>());
    auto status = (*processes.front())->status();
    ASSERT_TRUE(status.ok()) << status.error().sentence;
    EXPECT_EQ(status.value().processes.size(), 60U);
}

TEST_F(ClientTest, ObserversSeeAndTouchNothingElse) {
    TestProcess process;
    auto watcher = observer();
    ASSERT_NE(watcher, nullptr);
    EXPECT_FALSE(watcher->rmmt().valid());
    int value = 0;
    EXPECT_EQ(watcher->register_memory(&value, 4, 1, 0).error().code, Code::InvalidState);
    EXPECT_EQ(watcher->create_vi().error().code, Code::InvalidState);
    auto counters = watcher->counters_of(getpid());
    ASSERT_TRUE(counters.ok()) << counters.error().sentence;
    struct stat given {};
    struct stat own {};
    ASSERT_EQ(fstat(counters.value().get(), &given), 0);
    ASSERT_EQ(fstat(process.counters(), &own), 0);
    EXPECT_EQ(given.st_ino, own.st_ino);
    EXPECT_EQ(watcher->counters_of(1).error().code, Code::NotFound);
}

TEST_F(ClientTest, NoAgentIsNotFoundForThoseWhoMustNotStartOne) {
    auto attached = AgentClient::attach_if_running({}, soon());
    ASSERT_FALSE(attached.ok());
    EXPECT_EQ(attached.error().code, Code::NotFound);
}

TEST_F(ClientTest, WhatIsNoDoorbellIsRefused) {
    TestProcess process;  // so that an agent runs
    const base::UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    auto bad_memory = AgentClient::attach({null.get(), -1, -1}, soon());
    ASSERT_FALSE(bad_memory.ok());
    EXPECT_EQ(bad_memory.error().code, Code::InvalidArgument);
    auto bad_event = AgentClient::attach({-1, null.get(), -1}, soon());
    ASSERT_FALSE(bad_event.ok());
    EXPECT_EQ(bad_event.error().code, Code::InvalidArgument);
    // Not sealed: it could be cut short under the peers' mappings.
    const base::UniqueFd soft(memfd_create("soft", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(soft.get(), 4096), 0);
    auto unsealed = AgentClient::attach({soft.get(), -1, -1}, soon());
    ASSERT_FALSE(unsealed.ok());
    EXPECT_EQ(unsealed.error().code, Code::InvalidArgument);
    EXPECT_TRUE(process->create_vi().ok());
}

TEST_F(ClientTest, AChildOfForkCanNotUseTheParentsAttachment) {
    TestProcess process;
    int value = 0;
    auto handle = process->register_memory(&value, 4, 1, 0);
    Child child([&] {
        if (process->attached()) return 1;
        if (process->register_memory(&value, 4, 1, 0).error().code != Code::InvalidState) return 2;
        if (process->create_vi().error().code != Code::InvalidState) return 3;
        if (process->connect_wait(address("h", "d"), soon()).error().code != Code::InvalidState)
            return 4;
        process->destroy_vi(1);
        process.detach();
        return 0;
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(process->attached());
    EXPECT_TRUE(process->deregister_memory(handle.value()).ok());
}

TEST_F(ClientTest, LimitsAreNamed) {
    TestProcess process;
    const Limits limits;
    for (std::size_t i = 0; i < limits.vis; ++i)
        ASSERT_TRUE(process->create_vi().ok());
    auto over = process->create_vi();
    ASSERT_FALSE(over.ok());
    EXPECT_EQ(over.error().code, Code::OutOfResources);
    EXPECT_NE(over.error().sentence.find(std::to_string(limits.vis)), std::string::npos);
    process->destroy_vi(1);
    EXPECT_TRUE(process->create_vi().ok());
}

}  // namespace
}  // namespace via::ka::test
