// SPDX-License-Identifier: BSD-3-Clause
// AgentClient against a real viad: a request meets a wait, or does not.
#include "ka/client.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "base/memory_file.hpp"
#include "ka/client_parts.hpp"

namespace via::ka::test {
namespace {

using base::Code;
using base::Deadline;

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

}  // namespace
}  // namespace via::ka::test
