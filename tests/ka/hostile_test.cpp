// SPDX-License-Identifier: BSD-3-Clause
// Bad neighbours: garbage, lies, floods, strangers, other users, sudden death. The agent and the
// other processes go on.
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <csignal>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "ka/client.hpp"
#include "ka/conversation.hpp"
#include "ka/harness.hpp"
#include "ka/limits.hpp"
#include "ka/protocol.hpp"

namespace via::ka::test {
namespace {

using base::Code;
using base::Deadline;
using base::UniqueFd;

class HostileTest : public AgentTest {
  protected:
    /// Somebody who behaves, and must notice nothing.
    TestProcess good_;

    void SetUp() override { ASSERT_TRUE(good_.valid()); }

    void expect_good_service() {
        int value = 0;
        auto handle = good_->register_memory(&value, sizeof value, 1, 0);
        ASSERT_TRUE(handle.ok()) << handle.error().sentence;
        Region region{};
        ASSERT_TRUE(good_->rmmt().find(handle.value(), region));
        ASSERT_TRUE(good_->deregister_memory(handle.value()).ok());
        ASSERT_EQ(good_->rmmt_epoch(), 1U) << "the agent has ended in between";
    }
};

/// A socket to the agent without a library that behaves.
class RawClient {
  public:
    RawClient() {
        // Under a flood of newcomers the queue is full at times.
        auto connected = base::connect_message_socket(socket_name());
        const Deadline deadline = soon();
        while (!connected && connected.error().code == Code::Timeout && !deadline.expired())
            connected = base::connect_message_socket(socket_name());
        EXPECT_TRUE(connected.ok());
        if (connected) socket_ = std::move(connected).value();
    }
    [[nodiscard]] bool send_bytes(std::span<const std::byte> message,
                                  std::span<const int> fds = {}) {
        return base::send_message(socket_, message, fds, soon()).ok();
    }
    template <class Body>
    [[nodiscard]] bool send(const Body& body, std::span<const int> fds = {}) {
        return send_bytes(encode(++id_, body), fds);
    }
    /// The next message; an error is the end of the socket.
    [[nodiscard]] base::Result<AgentMessage> read() {
        const Deadline deadline = soon();
        for (;;) {
            auto message = read_agent_message(socket_);
            if (message || message.error().code != Code::Timeout || deadline.expired())
                return message;
            pollfd watched{socket_.get(), POLLIN, 0};
            poll(&watched, 1, deadline.poll_milliseconds());
        }
    }
    /// What the agent answers: the code of an error, or nothing for any other answer.
    template <class Body>
    [[nodiscard]] std::optional<Code> ask(const Body& body, std::span<const int> fds = {}) {
        if (!send(body, fds)) return Code::ConnectionLost;
        auto message = read();
        if (!message) return message.error().code;
        if (const auto* failure = std::get_if<FailedReply>(&message.value().reply.body))
            return error_of(*failure).code;
        return {};
    }
    [[nodiscard]] bool attach(bool restoring = false) {
        auto memory = base::create_memory_file("doorbell", 4096, base::Backing::Sparse);
        AttachRequest request;
        request.descriptors = attach_doorbell_memory;
        request.restoring = restoring ? 1 : 0;
        request.instance = 4711;
        const std::array fds{memory.value().get()};
        return !ask(request, fds).has_value();
    }
    [[nodiscard]] bool closed() {
        for (;;) {
            auto message = read();
            if (!message) return message.error().code == Code::ConnectionLost;
        }
    }
    [[nodiscard]] const UniqueFd& socket() const { return socket_; }

  private:
    UniqueFd socket_;
    std::uint64_t id_ = 0;
};

TEST_F(HostileTest, GarbageEndsTheAttachment) {
    std::mt19937_64 random(3);
    for (int i = 0; i < 200; ++i) {
        RawClient raw;
        std::vector<std::byte> garbage(1 + random() % 5000);
        for (std::byte& byte : garbage)
            byte = static_cast<std::byte>(random());
        if (i % 2 == 0 && garbage.size() >= sizeof(MessageHeader)) {
            const MessageHeader header{protocol_magic, protocol_version,
                                       static_cast<std::uint16_t>(random() % 40), 1};
            std::memcpy(garbage.data(), &header, sizeof header);
        }
        ASSERT_TRUE(raw.send_bytes(garbage));
        ASSERT_TRUE(raw.closed()) << i;
    }
    expect_good_service();
}

TEST_F(HostileTest, LiesAfterAttachingEndTheAttachment) {
    std::mt19937_64 random(4);
    for (int i = 0; i < 300; ++i) {
        RawClient raw;
        ASSERT_TRUE(raw.attach());
        // A right header, then anything.
        std::vector<std::byte> message(sizeof(MessageHeader) + random() % 400);
        for (std::byte& byte : message)
            byte = static_cast<std::byte>(random());
        const MessageHeader header{protocol_magic, protocol_version,
                                   static_cast<std::uint16_t>(1 + random() % 26), 9};
        std::memcpy(message.data(), &header, sizeof header);
        ASSERT_TRUE(raw.send_bytes(message));
        // It may be right by chance (messages of 8 bytes); then it is answered or ignored.
        if (i % 10 == 0) expect_good_service();
    }
    expect_good_service();
}

TEST_F(HostileTest, MessagesOfWrongLengthEndTheAttachment) {
    for (const std::size_t length : {1UL, 15UL, 17UL, 4096UL, 4097UL, 100'000UL}) {
        RawClient raw;
        ASSERT_TRUE(raw.send_bytes(std::vector<std::byte>(length)));
        EXPECT_TRUE(raw.closed()) << length;
    }
    expect_good_service();
}

TEST_F(HostileTest, ARequestBeforeAttachingEndsTheConnection) {
    RawClient raw;
    ASSERT_TRUE(raw.send(StopRequest{}));
    EXPECT_TRUE(raw.closed());
    RawClient twice;
    ASSERT_TRUE(twice.attach());
    EXPECT_FALSE(twice.attach());
    expect_good_service();
}

TEST_F(HostileTest, AnotherVersionLearnsWhy) {
    RawClient raw;
    auto message = encode(5, AttachRequest{});
    MessageHeader header;
    std::memcpy(&header, message.data(), sizeof header);
    header.version = 99;
    std::memcpy(message.data(), &header, sizeof header);
    ASSERT_TRUE(raw.send_bytes(message));
    auto answer = raw.read();
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer.value().reply.id, 5U);
    EXPECT_EQ(error_of(std::get<FailedReply>(answer.value().reply.body)).code, Code::NotSupported);
    EXPECT_TRUE(raw.closed());
}

TEST_F(HostileTest, DescriptorsWhereNoneBelongEndTheAttachment) {
    const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    const std::array fds{null.get(), null.get(), null.get()};
    for (int i = 0; i < 50; ++i) {
        RawClient raw;
        ASSERT_TRUE(raw.attach());
        ASSERT_TRUE(raw.send(CreateViRequest{}, fds));
        EXPECT_TRUE(raw.closed());
    }
    RawClient eight;
    const std::array<int, 8> many{null.get(), null.get(), null.get(), null.get(),
                                  null.get(), null.get(), null.get(), null.get()};
    AttachRequest request;
    request.descriptors = attach_doorbell_memory;
    ASSERT_TRUE(eight.send(request, many));
    EXPECT_TRUE(eight.closed());
    RawClient none;
    ASSERT_TRUE(none.send(request));
    EXPECT_TRUE(none.closed());
    expect_good_service();
}

TEST_F(HostileTest, ASocketThatLingersAtItsEndDoesNotHoldTheAgent) {
    // Closing a TCP socket with unsent data and SO_LINGER blocks whoever closes it last.
    const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&where), sizeof where), 0);
    ASSERT_EQ(listen(listener.get(), 1), 0);
    socklen_t length = sizeof where;
    getsockname(listener.get(), reinterpret_cast<sockaddr*>(&where), &length);
    UniqueFd lingering(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(lingering.get(), reinterpret_cast<sockaddr*>(&where), sizeof where), 0);
    const UniqueFd other_end(accept(listener.get(), nullptr, nullptr));
    const linger long_time{1, 3600};
    ASSERT_EQ(setsockopt(lingering.get(), SOL_SOCKET, SO_LINGER, &long_time, sizeof long_time), 0);
    std::vector<char> data(1 << 20);
    while (::send(lingering.get(), data.data(), data.size(), MSG_DONTWAIT) > 0) {
    }
    {
        RawClient raw;
        ASSERT_TRUE(raw.attach());
        const std::array fds{lingering.get()};
        // Stopped, so that it can not be done before us: the last to close is who waits.
        const pid_t agent = agent_pid();
        ASSERT_EQ(kill(agent, SIGSTOP), 0);
        const bool sent = raw.send(CreateViRequest{}, fds);
        lingering.reset();  // the agent has the last one now
        ASSERT_EQ(kill(agent, SIGCONT), 0);
        ASSERT_TRUE(sent);
        EXPECT_TRUE(raw.closed());
    }
    expect_good_service();
}

TEST_F(HostileTest, WhoDoesNotReadHoldsNobodyUp) {
    RawClient raw;
    ASSERT_TRUE(raw.attach());
    // Until the agent reads no more, because it owes too much: it has served others many times
    // since it last took something.
    std::size_t accepted = 0;
    const auto message = encode(1, CreateViRequest{});
    for (int refused = 0; refused < 20;) {
        if (base::send_message(raw.socket(), message, {}, Deadline::at(0)).ok()) {
            refused = 0;
            ASSERT_LT(++accepted, 1'000'000U);
        } else {
            ++refused;
            expect_good_service();
        }
    }
    EXPECT_GT(accepted, 20U);
    // What it is owed is still there when it reads, and what waited to be served is served.
    for (std::size_t answers = 0; answers < accepted; ++answers)
        ASSERT_TRUE(raw.read().ok()) << answers << " of " << accepted;
    expect_good_service();
}

std::uint64_t resident_kilobytes(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
    std::uint64_t size = 0;
    std::uint64_t resident = 0;
    file >> size >> resident;
    return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) / 1024;
}

/// Kilobytes. AddressSanitizer keeps up to 256 MB that were freed.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t most_growth = 512 * 1024;
#else
constexpr std::uint64_t most_growth = 64 * 1024;
#endif

TEST_F(HostileTest, AFloodHoldsNobodyUpAndTheAgentDoesNotGrow) {
    const pid_t agent = agent_pid();
    const std::uint64_t before = resident_kilobytes(agent);
    std::vector<Child> flooders;
    for (int i = 0; i < 3; ++i)
        flooders.emplace_back([i] {
            // One floods with requests, one with waits, one with new sockets.
            std::vector<UniqueFd> sockets;
            for (std::uint64_t id = 1;; ++id) {
                if (i == 2) {
                    auto connected = base::connect_message_socket(socket_name());
                    if (connected) sockets.push_back(std::move(connected).value());
                    if (sockets.size() > 2000) sockets.clear();
                    continue;
                }
                RawClient raw;
                if (!raw.attach()) continue;
                ConnectWaitRequest wait;
                wait.timeout_ns = timeout_never;
                for (;; ++id) {
                    const auto message = i == 0 ? encode(id, StatusRequest{}) : encode(id, wait);
                    if (!base::send_message(raw.socket(), message, {}, Deadline::at(0)).ok()) break;
                }
            }
            return 0;
        });
    // Each call of the good one has the usual time for an answer, whatever the others do.
    for (int served = 0; served < 200; ++served) {
        expect_good_service();
        if (HasFatalFailure()) return;
    }
    EXPECT_LT(resident_kilobytes(agent), before + most_growth);
    for (Child& flooder : flooders)
        flooder.kill(SIGKILL);
    flooders.clear();
    expect_good_service();
}

TEST_F(HostileTest, StrangersAreLimitedPerUser) {
    std::vector<UniqueFd> strangers;
    bool turned_away = false;
    for (std::size_t i = 0; i < max_strangers_per_user + 20; ++i) {
        auto connected = base::connect_message_socket(socket_name());
        const Deadline deadline = soon();
        while (!connected && connected.error().code == Code::Timeout && !deadline.expired())
            connected = base::connect_message_socket(socket_name());
        ASSERT_TRUE(connected.ok()) << connected.error().sentence;
        strangers.push_back(std::move(connected).value());
    }
    pollfd watched{strangers.back().get(), POLLIN, 0};
    ASSERT_EQ(poll(&watched, 1, 30000), 1);
    auto answer = read_agent_message(strangers.back());
    ASSERT_TRUE(answer.ok());
    const base::Error error = error_of(std::get<FailedReply>(answer.value().reply.body));
    EXPECT_EQ(error.code, Code::OutOfResources);
    turned_away = error.sentence.find(std::to_string(max_strangers_per_user)) != std::string::npos;
    EXPECT_TRUE(turned_away) << error.sentence;
    expect_good_service();
    // Another user is not affected.
    if (geteuid() == 0) {
        Child child([] {
            if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) return 9;
            TestProcess process;
            return process.valid() && process->create_vi().ok() ? 0 : 1;
        });
        EXPECT_EQ(child.wait(), 0);
    }
    strangers.clear();
    TestProcess again;
    EXPECT_TRUE(again.valid());
}

TEST_F(HostileTest, ForeignThingsCanNotBeTouched) {
    int value = 0;
    auto handle = good_->register_memory(&value, 4, 1, 0);
    auto block = good_->allocate_kmem(4096, 1);
    const std::uint32_t vi = good_->create_vi().value();
    auto peer = good_->peer_request(offer(vi, "a", "b"), soon());
    RawClient raw;
    ASSERT_TRUE(raw.attach());
    EXPECT_EQ(raw.ask(DeregisterRequest{handle.value(), 0}), Code::InvalidArgument);
    EXPECT_EQ(raw.ask(ChangeMemoryRequest{handle.value(), 9, 3, 0}), Code::InvalidArgument);
    EXPECT_EQ(raw.ask(TranslateRequest{handle.value(), 0}), Code::InvalidArgument);
    EXPECT_EQ(raw.ask(FreeKmemRequest{block.value().arena_offset, block.value().arena, 0}),
              Code::InvalidArgument);
    EXPECT_EQ(raw.ask(PeerArenaRequest{1, block.value().arena, 0}), Code::InvalidArgument);
    EXPECT_EQ(raw.ask(PeerRmmtRequest{1}), Code::InvalidArgument);
    EXPECT_EQ(raw.ask(ConnectRejectRequest{1}), Code::InvalidArgument);
    ConnectAcceptRequest accept;
    accept.offer = offer(vi, "b", "a");
    EXPECT_EQ(raw.ask(accept), Code::InvalidArgument);  // it has no such VI
    ConnectRequestRequest request;
    request.timeout_ns = timeout_never;
    request.offer = offer(vi, "b", "a");
    EXPECT_EQ(raw.ask(request), Code::InvalidArgument);
    // Memory that it does not have is registered as what it is: plain addresses of its own.
    RegisterRequest region;
    region.address = 4096;
    region.bytes = 4096;
    region.arena = block.value().arena;
    region.tag = 1;
    ASSERT_TRUE(raw.send(region));
    auto answer = raw.read();
    ASSERT_TRUE(answer.ok());
    EXPECT_TRUE(std::holds_alternative<RegisteredReply>(answer.value().reply.body));
    // Cancelling and destroying only reach one's own.
    ASSERT_TRUE(raw.send(CancelNotice{peer.value()}));
    ASSERT_TRUE(raw.send(DestroyViNotice{vi, 0}));
    ASSERT_TRUE(raw.send(DisconnectedNotice{1}));
    EXPECT_EQ(raw.ask(DeregisterRequest{handle.value(), 0}), Code::InvalidArgument);
    Region found{};
    EXPECT_TRUE(good_->rmmt().find(handle.value(), found));
    auto status = good_->status();
    EXPECT_EQ(status.value().processes.at(0).waiting, 1U);
    EXPECT_EQ(status.value().processes.at(0).vis, 1U);
    EXPECT_FALSE(good_->peer_poll(peer.value()).has_value());
}

TEST_F(HostileTest, ChannelsHaveALimit) {
    const std::uint32_t vi = good_->create_vi().value();
    for (const std::uint64_t bytes :
         {std::uint64_t{0}, Limits{}.channel_bytes + 1, ~std::uint64_t{0}}) {
        ConnectOffer large = offer(vi, "c", "s");
        large.channel_bytes = bytes;
        EXPECT_EQ(good_->connect_request(large, soon()).error().code, Code::InvalidArgument);
        EXPECT_EQ(good_->peer_wait(good_->peer_request(large, soon()).value()).error().code,
                  Code::InvalidArgument);
    }
}

TEST_F(HostileTest, LiesAboutWhatAnEarlierAgentKnew) {
    const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    const std::array wrong{null.get()};
    {
        RawClient raw;
        ASSERT_TRUE(raw.attach());  // not restoring
        EXPECT_EQ(raw.ask(RestoreVisRequest{}), Code::ConnectionLost);
    }
    {
        RawClient raw;
        ASSERT_TRUE(raw.attach(true));
        EXPECT_EQ(raw.ask(CreateViRequest{}), Code::ConnectionLost);  // before RestoreDone
    }
    RawClient raw;
    ASSERT_TRUE(raw.attach(true));
    RestoreArenaRequest arena;
    arena.bytes = 1 << 20;
    arena.arena = 1;
    EXPECT_EQ(raw.ask(arena, wrong), Code::ProtocolViolation);
    auto memory = base::create_memory_file("arena", 4096, base::Backing::Sparse);
    const std::array small{memory.value().get()};
    EXPECT_EQ(raw.ask(arena, small), Code::ProtocolViolation);  // shorter than it says
    RestoreBlocksRequest blocks;
    blocks.arena = 1;
    blocks.count = 1;
    blocks.blocks[0] = {0, 4096};
    EXPECT_EQ(raw.ask(blocks), Code::InvalidArgument);
    RestoreConnectionsRequest connections;
    connections.count = 1;
    connections.connections[0].connection = 5;
    connections.connections[0].vi = 3;
    EXPECT_EQ(raw.ask(connections), Code::InvalidArgument);  // it has no such VI
    RestoreVisRequest vis;
    vis.count = 2;
    vis.vis[0] = vis.vis[1] = 3;
    EXPECT_EQ(raw.ask(vis), Code::InvalidArgument);
    EXPECT_FALSE(raw.ask(connections).has_value());  // now it is there, but leads nowhere
    RestoreRegionsRequest regions;
    regions.count = 2;
    for (RegionRecord& record : std::span(regions.regions).first(2)) {
        record.handle = 7;
        record.region.address = 1;
        record.region.bytes = 1;
    }
    EXPECT_EQ(raw.ask(regions), Code::InvalidArgument);  // twice the same
    EXPECT_FALSE(raw.ask(RestoreDoneRequest{}).has_value());
    EXPECT_EQ(raw.ask(PeerRmmtRequest{5}), Code::InvalidState);
    EXPECT_EQ(raw.ask(PeerArenaRequest{5, 1, 0}), Code::InvalidState);
    expect_good_service();
}

TEST_F(HostileTest, AForgedSecretOpensNothing) {
    // A connection between two others.
    TestProcess other;
    const std::uint32_t vi_one = good_->create_vi().value();
    const std::uint32_t vi_other = other->create_vi().value();
    auto one = good_->peer_request(offer(vi_one, "a", "b"), soon());
    auto two = other->peer_request(offer(vi_other, "b", "a"), soon());
    auto established = good_->peer_wait(one.value());
    ASSERT_TRUE(established.ok());
    ASSERT_TRUE(other->peer_wait(two.value()).ok());
    for (const bool knows_secret : {false, true}) {
        RawClient raw;
        ASSERT_TRUE(raw.attach(true));
        RestoreVisRequest vis;
        vis.count = 1;
        vis.vis[0] = 1;
        ASSERT_FALSE(raw.ask(vis).has_value());
        RestoreConnectionsRequest connections;
        connections.count = 1;
        connections.connections[0].connection = established.value().connection;
        connections.connections[0].vi = 1;
        if (knows_secret) {
            connections.connections[0].secret = established.value().secret;
            // Even then: both ends are there.
            EXPECT_EQ(raw.ask(connections), Code::PermissionDenied);
        } else {
            EXPECT_FALSE(raw.ask(connections).has_value());
        }
        EXPECT_FALSE(raw.ask(RestoreDoneRequest{}).has_value());
        EXPECT_TRUE(raw.ask(PeerRmmtRequest{established.value().connection}).has_value());
    }
    EXPECT_TRUE(good_->peer_rmmt(established.value().connection).ok());
    EXPECT_TRUE(good_->lost_connections().empty());
}

TEST_F(HostileTest, TheDeathOfAProcessReleasesEverythingAtOnce) {
    Signal ready;
    Child child([&] {
        TestProcess process;
        int value = 0;
        if (!process->register_memory(&value, 4, 1, 0).ok()) return 1;
        if (!process->allocate_kmem(1 << 20, 1).ok()) return 2;
        const std::uint32_t vi = process->create_vi().value();
        if (!process->peer_request(offer(vi, "b", "a"), soon()).ok()) return 3;
        std::thread waiting([&] {
            (void)process->connect_wait(address("host-a", "s"), Deadline::never());
            pause();  // it never answers
        });
        auto status = process->status();
        while (status && status.value().processes.back().waiting < 2)
            status = process->status();
        ready.give();
        waiting.join();
        return 4;
    });
    ASSERT_TRUE(ready.take());
    auto before = good_->status();
    ASSERT_TRUE(before.ok());
    ASSERT_EQ(before.value().processes.size(), 2U);
    // A request that it has been told of fails when it dies without having answered.
    const std::uint32_t vi = good_->create_vi().value();
    base::Result<Established> asked(Code::System, "");
    std::thread asking(
        [&] { asked = good_->connect_request(offer(vi, "c", "s"), Deadline::never()); });
    auto status = good_->status();
    const Deadline deadline = soon();
    while (status && status.value().processes.back().waiting == 2 && !deadline.expired())
        status = good_->status();
    child.kill(SIGKILL);
    asking.join();
    EXPECT_EQ(asked.error().code, Code::NoMatch) << asked.error().sentence;
    EXPECT_EQ(child.wait(), -SIGKILL);
    auto after = good_->status();
    while (after && after.value().processes.size() > 1 && !deadline.expired())
        after = good_->status();
    EXPECT_EQ(after.value().processes.size(), 1U);
    // Nobody is left to be met.
    auto peer = good_->peer_request(offer(vi, "a", "b"), Deadline::after_milliseconds(20));
    EXPECT_EQ(good_->peer_wait(peer.value()).error().code, Code::Timeout);
}

TEST_F(HostileTest, ThePidfdOfAPeerTellsOfItsDeath) {
    Signal ready;
    Child child([&] {
        TestProcess process;
        auto peer = process->peer_request(offer(process->create_vi().value(), "b", "a"), soon());
        if (!process->peer_wait(peer.value()).ok()) return 1;
        ready.give();
        pause();
        return 2;
    });
    auto peer = good_->peer_request(offer(good_->create_vi().value(), "a", "b"), soon());
    auto established = good_->peer_wait(peer.value());
    ASSERT_TRUE(established.ok()) << established.error().sentence;
    EXPECT_EQ(established.value().peer.pid, child.pid());
    ASSERT_TRUE(ready.take());
    pollfd watched{established.value().peer.pidfd.get(), POLLIN, 0};
    EXPECT_EQ(poll(&watched, 1, 0), 0);
    child.kill(SIGKILL);
    EXPECT_EQ(poll(&watched, 1, 30000), 1);
}

TEST_F(HostileTest, AChildThatKeepsTheSocketDoesNotKeepTheProcessAlive) {
    // The descriptor survives in a grandchild; the process that attached is dead.
    Signal ready;
    Signal end;
    Child child([&] {
        TestProcess process;
        if (!process.valid()) return 1;
        if (fork() == 0) {
            alarm(60);
            ready.give();
            (void)end.take();
            _exit(0);
        }
        _exit(0);
    });
    ASSERT_TRUE(ready.take());
    EXPECT_EQ(child.wait(), 0);
    auto status = good_->status();
    const Deadline deadline = soon();
    while (status && status.value().processes.size() > 1 && !deadline.expired())
        status = good_->status();
    EXPECT_EQ(status.value().processes.size(), 1U);
    end.give();
}

TEST_F(HostileTest, OtherUsersSeeAndStopNothing) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to be two users";
    const pid_t own = getpid();
    Child child([&] {
        if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) return 9;
        TestProcess process;  // root's agent serves all
        if (!process.valid()) return 1;
        auto status = process->status();
        if (!status || status.value().processes.size() != 1) return 2;
        if (status.value().processes[0].pid != getpid()) return 3;
        if (process->counters_of(own).error().code != Code::NotFound) return 4;
        if (!process->counters_of(getpid()).ok()) return 5;
        if (process->stop_agent().error().code != Code::PermissionDenied) return 6;
        // It may connect: a connection is wanted by both sides.
        auto peer = process->peer_request(offer(process->create_vi().value(), "b", "a"), soon());
        auto established = process->peer_wait(peer.value());
        if (!established || established.value().peer.uid != 0) return 7;
        return 0;
    });
    auto peer = good_->peer_request(offer(good_->create_vi().value(), "a", "b"), soon());
    auto established = good_->peer_wait(peer.value());
    EXPECT_TRUE(established.ok());
    if (established) {
        EXPECT_EQ(established.value().peer.uid, 65534U);
    }
    EXPECT_EQ(child.wait(), 0);
    expect_good_service();
}

}  // namespace
}  // namespace via::ka::test
