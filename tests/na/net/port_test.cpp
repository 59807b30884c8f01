// SPDX-License-Identifier: BSD-3-Clause
// What every kind of port promises, over a virtual cable between two hosts.
#include "na/net/port.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "na/net/port_pair.hpp"
#include "na/net/raw/raw_port.hpp"
#include "na/net/udp_port.hpp"

using namespace via;
using namespace via::na::net;
using namespace via::test;

namespace {

enum class Kind { Udp, Udp6, UdpSeparately, Ring, Xdp, RingToXdp };

struct Ends {
    std::unique_ptr<Port> a;
    std::unique_ptr<Port> b;
};

class EveryPort : public testing::TestWithParam<Kind> {
  protected:
    void SetUp() override {
        std::string reason;
        network_ = try_network(reason);
        if (network_ == nullptr) GTEST_SKIP() << reason;
        ends_ = connect();
        if (ends_.a == nullptr) GTEST_SKIP() << refusal_;
        for (const auto& [from, to] :
             {std::pair{ends_.a.get(), ends_.b.get()}, std::pair{ends_.b.get(), ends_.a.get()}})
            ASSERT_NO_FATAL_FAILURE(open_the_way(*from, *to));
    }
    /// Until an interface is really up and both know the other's MAC the kernel may drop packets.
    static void open_the_way(Port& from, Port& to) {
        Collector collector;
        std::uint64_t sent = 0;
        const auto deadline = base::Deadline::after_milliseconds(20'000);
        while (collector.packets.empty() && !deadline.expired()) {
            ASSERT_EQ(send_patiently(from, packet_of(sent++, 10)), SendOutcome::Sent);
            receive_rest(to, collector);
        }
        // Behind the last one there is nothing.
        ASSERT_EQ(send_patiently(from, packet_of(sent, 10)), SendOutcome::Sent);
        while (!collector.packets.empty() && collector.packets.back() != packet_of(sent, 10) &&
               !deadline.expired())
            receive_until(to, collector, collector.packets.size() + 1);
        ASSERT_FALSE(collector.packets.empty()) << "nothing comes through";
        ASSERT_EQ(collector.packets.back(), packet_of(sent, 10));
    }
    void TearDown() override { ends_ = {}; }

    static bool is_raw() { return GetParam() >= Kind::Ring; }
    /// Does what it sends pass the queue of the interface? AF_XDP goes around it.
    static bool is_queued() { return GetParam() != Kind::Xdp; }

    Ends connect(const std::string& name = "v0") {
        return is_raw() ? connect_raw(name) : connect_udp(name);
    }

    Ends connect_udp(const std::string& name) {
        const Family family = GetParam() == Kind::Udp6 ? Family::Ipv6 : Family::Ipv4;
        LocalInterface here[2];
        std::unique_ptr<UdpPort> ports[2];
        for (const TestNetwork::Host host : {TestNetwork::A, TestNetwork::B}) {
            here[host] = local_interface(*network_, host, name, family);
            auto opened = network_->in(host, [&] { return UdpPort::open(here[host]); });
            if (!opened.ok()) {
                ADD_FAILURE() << opened.error().sentence;
                return {};
            }
            ports[host] = std::move(opened).value();
            here[host].entry.port = ports[host]->port();
            if (GetParam() == Kind::UdpSeparately) ports[host]->set_offload(false);
        }
        for (const int host : {0, 1}) {
            const auto done = ports[host]->connect(here[1 - host].entry);
            EXPECT_TRUE(done.ok()) << done.error().sentence;
        }
        return {std::move(ports[0]), std::move(ports[1])};
    }

    Ends connect_raw(const std::string& name) {
        const RawKind kinds[2] = {GetParam() == Kind::Xdp ? RawKind::Xdp : RawKind::Ring,
                                  GetParam() == Kind::Ring ? RawKind::Ring : RawKind::Xdp};
        std::unique_ptr<Port> ports[2];
        const std::uint32_t ids[2] = {next_id_, next_id_ + 1};
        next_id_ += 2;
        for (const TestNetwork::Host host : {TestNetwork::A, TestNetwork::B}) {
            const auto here = local_interface(*network_, host, name);
            const auto other = local_interface(
                *network_, host == TestNetwork::A ? TestNetwork::B : TestNetwork::A, name);
            auto opened = network_->in(host, [&] {
                return make_raw_port(kinds[host], here, ids[host],
                                     RawAddress{other.entry.mac, ids[1 - host]});
            });
            if (!opened.ok()) {
                refusal_ = opened.error().sentence;
                // Only these are no fault of ours.
                EXPECT_TRUE(opened.error().code == base::Code::NotSupported ||
                            opened.error().code == base::Code::PermissionDenied)
                    << refusal_;
                return {};
            }
            ports[host] = std::move(opened).value();
        }
        return {std::move(ports[0]), std::move(ports[1])};
    }

    std::uint32_t most() const {
        return std::min(ends_.a->max_packet_bytes(), ends_.b->max_packet_bytes());
    }
    bool eventually(const std::function<bool()>& happens) {
        const auto deadline = base::Deadline::after_milliseconds(5000);
        while (!deadline.expired()) {
            if (happens()) return true;
            ::poll(nullptr, 0, 1);
        }
        return false;
    }

    std::unique_ptr<TestNetwork> network_;
    Ends ends_;
    std::string refusal_;
    std::uint32_t next_id_ = 0xA1B2C3D0;
};

TEST_P(EveryPort, EveryLengthArrivesInBothDirections) {
    std::vector<std::size_t> lengths;
    for (std::size_t length = 1; length <= most(); length += length < 200 ? 1 : 61)
        lengths.push_back(length);
    lengths.push_back(most());
    for (const auto& [from, to] :
         {std::pair{ends_.a.get(), ends_.b.get()}, std::pair{ends_.b.get(), ends_.a.get()}}) {
        Collector collector;
        for (std::size_t i = 0; i < lengths.size(); ++i) {
            ASSERT_EQ(send_patiently(*from, packet_of(i, lengths[i])), SendOutcome::Sent);
            receive_until(*to, collector, i + 1);
            ASSERT_EQ(collector.packets.size(), i + 1) << "length " << lengths[i];
            ASSERT_EQ(collector.packets.back(), packet_of(i, lengths[i]));
        }
    }
}

TEST_P(EveryPort, ManyAtOnceComeInOrder) {
    Random random(7);
    Collector collector;
    std::size_t sent = 0;
    std::vector<std::size_t> lengths;
    for (int round = 0; round < 60; ++round) {
        // As many as the smallest ring holds.
        const std::uint32_t count = random.between(1, 30);
        for (std::uint32_t i = 0; i < count; ++i) {
            lengths.push_back(random.between(1, most()));
            ASSERT_EQ(send_patiently(*ends_.a, packet_of(sent, lengths.back())), SendOutcome::Sent);
            ++sent;
        }
        receive_until(*ends_.b, collector, sent);
        ASSERT_EQ(collector.packets.size(), sent);
    }
    for (std::size_t i = 0; i < sent; ++i)
        ASSERT_EQ(collector.packets[i], packet_of(i, lengths[i])) << i;
}

TEST_P(EveryPort, ATrainIsCutIntoItsPackets) {
    Random random(11);
    for (int round = 0; round < 40; ++round) {
        const std::uint32_t bytes = random.between(1, most());
        const std::uint32_t room = ends_.a->max_train_bytes();
        const std::uint32_t count =
            room == ends_.a->max_packet_bytes()
                ? 1
                : random.between(1, std::min(room / bytes, round % 2 == 0 ? 128U : 16U));
        Packet train = packet_of(static_cast<std::uint64_t>(round),
                                 std::size_t{bytes} * count - random.below(bytes));
        // In some parts, cut anywhere.
        std::vector<iovec> parts;
        for (std::size_t at = 0; at < train.size();) {
            const std::size_t length = std::min<std::size_t>(
                train.size() - at, random.between(1, static_cast<std::uint32_t>(train.size())));
            parts.push_back({train.data() + at, length});
            at += length;
        }
        auto outcome = ends_.a->send(parts, bytes);
        ASSERT_EQ(outcome, SendOutcome::Sent);
        Collector collector;
        receive_until(*ends_.b, collector, count);
        ASSERT_EQ(collector.packets.size(), count) << bytes << " bytes each";
        std::size_t at = 0;
        for (const Packet& packet : collector.packets) {
            ASSERT_LE(at + packet.size(), train.size());
            ASSERT_TRUE(
                std::equal(packet.begin(), packet.end(), train.begin() + static_cast<long>(at)));
            at += packet.size();
        }
        ASSERT_EQ(at, train.size());
    }
}

TEST_P(EveryPort, TooLongIsSaidAndTheMtuIsFollowed) {
    EXPECT_EQ(send_now(*ends_.a, packet_of(1, ends_.a->max_packet_bytes() + 1)),
              SendOutcome::TooLong);
    const std::uint32_t before = ends_.a->max_packet_bytes();
    network_->run(TestNetwork::A, "ip link set v0 mtu 1300");
    // The kernel does not check what AF_XDP sends: the port itself asks now and then.
    Collector collector;
    int longer = 0;
    while (longer < 1000 && send_now(*ends_.a, packet_of(1, before)) != SendOutcome::TooLong) {
        ++longer;
        (void)ends_.b->receive(collector);
    }
    EXPECT_LT(longer, GetParam() == Kind::Xdp ? 1000 : 1);
    EXPECT_EQ(ends_.a->max_packet_bytes(), before - 200);
    receive_rest(*ends_.b, collector);
    collector.packets.clear();
    EXPECT_EQ(send_patiently(*ends_.a, packet_of(2, before - 200)), SendOutcome::Sent);
    receive_until(*ends_.b, collector, 1);
    ASSERT_EQ(collector.packets.size(), 1U);
    EXPECT_EQ(collector.packets[0], packet_of(2, before - 200));
    // A train too.
    if (ends_.a->max_train_bytes() > ends_.a->max_packet_bytes()) {
        Packet train = packet_of(3, 3 * before);
        const iovec part{train.data(), train.size()};
        EXPECT_EQ(ends_.a->send({&part, 1}, before), SendOutcome::TooLong);
    }
}

TEST_P(EveryPort, AFullQueueMeansLaterAndNothingIsDropped) {
    if (!is_queued()) GTEST_SKIP() << "AF_XDP passes no queue that could be full";
    network_->run(TestNetwork::A, "tc qdisc add dev v0 root tbf rate 4mbit burst 16kb latency 5s");
    std::size_t sent = 0;
    SendOutcome outcome = SendOutcome::Sent;
    while (sent < 5000 &&
           (outcome = send_now(*ends_.a, packet_of(sent, 1000))) == SendOutcome::Sent)
        ++sent;
    EXPECT_EQ(outcome, SendOutcome::Later);
    EXPECT_LT(sent, 5000U);
    // There is room again after some time, and what was taken is not lost here.
    Collector collector;
    const auto deadline = base::Deadline::after_milliseconds(10000);
    while (send_now(*ends_.a, packet_of(sent, 1000)) == SendOutcome::Later && !deadline.expired())
        if (!ends_.b->receive(collector)) ::poll(nullptr, 0, 1);
    ++sent;
    const Packet last = packet_of(sent - 1, 1000);
    while (!deadline.expired() && (collector.packets.empty() || collector.packets.back() != last))
        if (!ends_.b->receive(collector)) ::poll(nullptr, 0, 1);
    // A receiver that is not scheduled in time may lose what does not fit into a ring of 64.
    EXPECT_TRUE(is_raw() || collector.packets.size() == sent) << collector.packets.size();
    std::size_t next = 0;
    for (const Packet& packet : collector.packets) {
        while (next < sent && packet != packet_of(next, 1000))
            ++next;
        ASSERT_LT(next++, sent) << "out of order, or never sent";
    }
    EXPECT_EQ(next, sent);
}

TEST_P(EveryPort, AReceiverThatSleepsLosesTheRestAndGoesOn) {
    // More than any ring or buffer holds.
    constexpr std::size_t many = 6000;
    std::size_t sent = 0;
    for (; sent < many; ++sent)
        ASSERT_EQ(send_patiently(*ends_.a, packet_of(sent, 1000)), SendOutcome::Sent);
    Collector collector;
    receive_rest(*ends_.b, collector);
    EXPECT_GT(collector.packets.size(), 0U);
    EXPECT_LT(collector.packets.size(), many);
    for (std::size_t i = 0; i < collector.packets.size(); ++i)
        ASSERT_EQ(collector.packets[i], packet_of(i, 1000)) << i;
    collector.packets.clear();
    for (std::size_t i = 0; i < 40; ++i) {
        ASSERT_EQ(send_patiently(*ends_.a, packet_of(i, 900)), SendOutcome::Sent);
        receive_until(*ends_.b, collector, i + 1);
        ASSERT_EQ(collector.packets.size(), i + 1);
        ASSERT_EQ(collector.packets.back(), packet_of(i, 900));
    }
}

TEST_P(EveryPort, ALinkThatIsDownIsSaidAndIsUpAgainAfterwards) {
    network_->run(TestNetwork::A, "ip link set v0 down");
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(send_now(*ends_.a, packet_of(1, 10)), SendOutcome::LinkDown) << i;
    Collector collector;
    EXPECT_FALSE(ends_.a->receive(collector));
    network_->run(TestNetwork::A, "ip link set v0 up");
    // UDP has to ask for the peer's MAC anew, and IPv6 has lost its address with the link.
    if (GetParam() == Kind::Udp6)
        network_->run(TestNetwork::A, "ip address add fd77:0::1/64 dev v0 nodad");
    collector.packets.clear();
    EXPECT_TRUE(eventually([&] {
        (void)send_now(*ends_.a, packet_of(2, 20));
        (void)ends_.b->receive(collector);
        return !collector.packets.empty();
    }));
    // Nothing from before.
    for (const Packet& packet : collector.packets)
        EXPECT_EQ(packet, packet_of(2, 20));
    collector.packets.clear();
    EXPECT_TRUE(eventually([&] {
        (void)send_now(*ends_.b, packet_of(3, 30));
        (void)ends_.a->receive(collector);
        return !collector.packets.empty();
    }));
}

TEST_P(EveryPort, TwoOnOneInterfaceDoNotSeeEachOthersPackets) {
    Ends others = connect();
    ASSERT_NE(others.a, nullptr) << refusal_;
    Collector first;
    Collector second;
    for (std::uint64_t i = 0; i < 50; ++i) {
        ASSERT_EQ(send_patiently(*ends_.a, packet_of(i, 100)), SendOutcome::Sent);
        ASSERT_EQ(send_patiently(*others.a, packet_of(1000 + i, 120)), SendOutcome::Sent);
        receive_until(*ends_.b, first, i + 1);
        receive_until(*others.b, second, i + 1);
    }
    receive_rest(*ends_.b, first);
    receive_rest(*others.b, second);
    ASSERT_EQ(first.packets.size(), 50U);
    ASSERT_EQ(second.packets.size(), 50U);
    for (std::uint64_t i = 0; i < 50; ++i) {
        ASSERT_EQ(first.packets[i], packet_of(i, 100));
        ASSERT_EQ(second.packets[i], packet_of(1000 + i, 120));
    }
    // One goes, the other stays.
    others = {};
    first.packets.clear();
    ASSERT_EQ(send_patiently(*ends_.a, packet_of(5, 50)), SendOutcome::Sent);
    receive_until(*ends_.b, first, 1);
    EXPECT_EQ(first.packets.size(), 1U);
    // And another may come.
    others = connect();
    ASSERT_NE(others.a, nullptr) << refusal_;
    second.packets.clear();
    ASSERT_EQ(send_patiently(*others.a, packet_of(6, 60)), SendOutcome::Sent);
    receive_until(*others.b, second, 1);
    EXPECT_EQ(second.packets.size(), 1U);
}

TEST_P(EveryPort, OthersTrafficPassesUntouched) {
    int sockets[2] = {-1, -1};
    for (const TestNetwork::Host host : {TestNetwork::A, TestNetwork::B})
        sockets[host] =
            network_->in(host, [] { return ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); });
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(7000);
    ASSERT_EQ(::bind(sockets[1], reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const timeval patience{5, 0};
    ::setsockopt(sockets[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    inet_pton(AF_INET, "10.77.0.2", &address.sin_addr);
    Collector collector;
    for (std::uint64_t i = 0; i < 50; ++i) {
        ASSERT_EQ(send_patiently(*ends_.a, packet_of(i, 200)), SendOutcome::Sent);
        const Packet foreign = packet_of(500 + i, 300);
        ASSERT_EQ(::sendto(sockets[0], foreign.data(), foreign.size(), 0,
                           reinterpret_cast<sockaddr*>(&address), sizeof address),
                  300);
        Packet got(1000);
        ASSERT_EQ(::recv(sockets[1], got.data(), got.size(), 0), 300);
        got.resize(300);
        ASSERT_EQ(got, foreign);
    }
    receive_until(*ends_.b, collector, 50);
    receive_rest(*ends_.b, collector);
    EXPECT_EQ(collector.packets.size(), 50U);
    for (const int socket : sockets)
        ::close(socket);
}

TEST_P(EveryPort, TheDescriptorTellsOfPackets) {
    pollfd entry{ends_.b->descriptor(), POLLIN, 0};
    Collector collector;
    while (ends_.b->receive(collector)) {
    }
    EXPECT_EQ(::poll(&entry, 1, 0), 0);
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(send_patiently(*ends_.a, packet_of(1, 8)), SendOutcome::Sent);
        EXPECT_EQ(::poll(&entry, 1, 5000), 1);
        receive_rest(*ends_.b, collector);
        EXPECT_EQ(::poll(&entry, 1, 0), 0);
    }
    EXPECT_EQ(collector.packets.size(), 3U);
}

std::string name_of(const testing::TestParamInfo<Kind>& kind) {
    constexpr const char* names[] = {"udp", "udp6", "udp_separately", "ring", "xdp", "ring_to_xdp"};
    return names[static_cast<int>(kind.param)];
}

INSTANTIATE_TEST_SUITE_P(, EveryPort,
                         testing::Values(Kind::Udp, Kind::Udp6, Kind::UdpSeparately, Kind::Ring,
                                         Kind::Xdp, Kind::RingToXdp),
                         name_of);

TEST(RawPort, IsRefusedWithTheReason) {
    LocalInterface loopback;
    loopback.name = "lo";
    loopback.index = 1;
    loopback.entry.mtu = 65535;
    for (const RawKind kind : {RawKind::Auto, RawKind::Ring, RawKind::Xdp}) {
        const auto refused = make_raw_port(kind, loopback, 1, RawAddress{{2, 0, 0, 0, 0, 1}, 2});
        ASSERT_FALSE(refused.ok());
        EXPECT_NE(refused.error().sentence.find("lo: it carries no Ethernet frames"),
                  std::string::npos)
            << refused.error().sentence;
    }
    LocalInterface missing = loopback;
    missing.name = "nothing9";
    missing.index = 99999;
    missing.entry.mac = {2, 0, 0, 0, 0, 2};
    for (const RawKind kind : {RawKind::Auto, RawKind::Ring, RawKind::Xdp}) {
        const auto refused = make_raw_port(kind, missing, 1, RawAddress{{2, 0, 0, 0, 0, 1}, 2});
        ASSERT_FALSE(refused.ok());
        EXPECT_NE(refused.error().sentence.find("nothing9"), std::string::npos)
            << refused.error().sentence;
    }
}

TEST(RawPort, WithoutTheRightItSaysWhichOne) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give its rights away";
    LocalInterface any;
    any.name = "eth9";
    any.index = 1;
    any.entry.mtu = 1500;
    any.entry.mac = {2, 0, 0, 0, 0, 2};
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        if (::setuid(65534) != 0) ::_exit(2);
        const auto ring = make_raw_port(RawKind::Ring, any, 1, {{2, 0, 0, 0, 0, 1}, 2});
        const auto both = make_raw_port(RawKind::Auto, any, 1, {{2, 0, 0, 0, 0, 1}, 2});
        const bool said = !ring.ok() && ring.error().code == base::Code::PermissionDenied &&
                          ring.error().sentence.find("CAP_NET_RAW") != std::string::npos &&
                          !both.ok() && both.error().sentence.find("AF_XDP") != std::string::npos;
        ::_exit(said ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(RawPort, TwoProcessesDoNotShareAnInterfaceByXdpAndTheSecondIsTold) {
    std::string reason;
    const auto network = try_network(reason);
    if (network == nullptr) GTEST_SKIP() << reason;
    const auto here = local_interface(*network, TestNetwork::A, "v0");
    const RawAddress peer{{2, 0, 0, 0, 0, 1}, 2};
    const auto open = [&] {
        return network->in(TestNetwork::A,
                           [&] { return make_raw_port(RawKind::Xdp, here, 1, peer); });
    };
    auto first = open();
    if (!first.ok()) GTEST_SKIP() << first.error().sentence;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        // A program of its own, so that it does not inherit what this one has.
        network->in(TestNetwork::A, [&] {
            ::execl("/proc/self/exe", "child", "--xdp-in-this-namespace", here.name.c_str(),
                    std::to_string(here.index).c_str(), nullptr);
        });
        ::_exit(9);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    // When the first has gone the next may.
    first.value().reset();
    const auto next = open();
    EXPECT_TRUE(next.ok()) << next.error().sentence;
}

}  // namespace

/// The other process of a test, or the tests.
int main(int count, char** arguments) {
    if (count == 4 && std::string(arguments[1]) == "--xdp-in-this-namespace") {
        LocalInterface where;
        where.name = arguments[2];
        where.index = static_cast<std::uint32_t>(std::stoul(arguments[3]));
        where.entry.mtu = 1500;
        where.entry.mac = {2, 0, 0, 0, 0, 2};
        const auto refused = make_raw_port(RawKind::Xdp, where, 3, {{2, 0, 0, 0, 0, 1}, 2});
        if (refused.ok()) return 1;
        const bool said = refused.error().sentence.find("another program") != std::string::npos;
        if (!said) std::fprintf(stderr, "%s\n", refused.error().sentence.c_str());
        return said ? 0 : 2;
    }
    testing::InitGoogleTest(&count, arguments);
    return RUN_ALL_TESTS();
}
