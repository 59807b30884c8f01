// SPDX-License-Identifier: BSD-3-Clause
// What only UDP ports do; what every port does is in port_test.cpp.
#include "na/net/udp_port.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "base/aligned_bytes.hpp"
#include "base/kernel_version.hpp"
#include "na/net/port_pair.hpp"

using namespace via;
using namespace via::na::net;
using namespace via::test;

namespace {

TEST(PortRangeText, IsReadOrRefused) {
    EXPECT_EQ(parse_port_range("").value().low, 0);
    EXPECT_EQ(parse_port_range("40000-40999").value().low, 40000);
    EXPECT_EQ(parse_port_range("40000-40999").value().high, 40999);
    EXPECT_EQ(parse_port_range("40000").value().high, 40000);
    for (const char* text : {"x", "0", "40000-", "40000-39999", "1-65536", "-5", "1-2-3", "1 -2"})
        EXPECT_FALSE(parse_port_range(text).ok()) << text;
}

LocalInterface loopback(Family family = Family::Ipv4) {
    LocalInterface local;
    local.name = "lo";
    local.index = 1;
    local.entry.family = family;
    local.entry.loopback = true;
    local.entry.mtu = 65535;
    if (family == Family::Ipv4)
        local.entry.address = {127, 0, 0, 1};
    else
        local.entry.address[15] = 1;
    local.entry.prefix = family == Family::Ipv4 ? 8 : 128;
    return local;
}

std::unique_ptr<UdpPort> open_on_loopback(PortRange range = {}, Family family = Family::Ipv4) {
    auto opened = UdpPort::open(loopback(family), range);
    EXPECT_TRUE(opened.ok()) << opened.error().sentence;
    return opened.ok() ? std::move(opened).value() : nullptr;
}

OfferedInterface offer_of(const UdpPort& port, OfferedInterface entry) {
    entry.port = port.port();
    return entry;
}

void connect(UdpPort& port, const UdpPort& to) {
    const auto done = port.connect(offer_of(to, loopback().entry), true);
    ASSERT_TRUE(done.ok()) << done.error().sentence;
}

TEST(UdpPort, TakesAPortOfTheRangeAndSaysWhenNoneIsFree) {
    // A range that is free now: around a port that the kernel has just given.
    PortRange range;
    {
        const auto any = open_on_loopback();
        range.low = static_cast<std::uint16_t>(std::min<int>(any->port(), 65533));
        range.high = static_cast<std::uint16_t>(range.low + 2);
    }
    std::vector<std::unique_ptr<UdpPort>> ports;
    for (;;) {
        auto opened = UdpPort::open(loopback(), range);
        if (!opened.ok()) {
            EXPECT_EQ(opened.error().code, base::Code::OutOfResources);
            EXPECT_NE(opened.error().sentence.find("VIA_NET_PORTS"), std::string::npos);
            break;
        }
        ports.push_back(std::move(opened).value());
        EXPECT_GE(ports.back()->port(), range.low);
        EXPECT_LE(ports.back()->port(), range.high);
        ASSERT_LE(ports.size(), 3U);
    }
    EXPECT_FALSE(ports.empty());
}

TEST(UdpPort, KeepsWhatThePeerSentBeforeItWasConnectedAndNothingElse) {
    const auto receiver = open_on_loopback();
    const auto peer = open_on_loopback();
    const auto stranger = open_on_loopback();
    connect(*peer, *receiver);
    connect(*stranger, *receiver);
    // Some singly, one as a train of seven.
    std::vector<Packet> expected;
    for (std::uint64_t i = 0; i < 4; ++i) {
        ASSERT_EQ(send_now(*stranger, packet_of(100 + i, 50)), SendOutcome::Sent);
        expected.push_back(packet_of(i, 10 + i));
        ASSERT_EQ(send_now(*peer, expected.back()), SendOutcome::Sent);
    }
    Packet train = packet_of(9, 7 * 30 - 5);
    const iovec part{train.data(), train.size()};
    ASSERT_EQ(peer->send({&part, 1}, 30), SendOutcome::Sent);
    for (std::size_t i = 0; i < 7; ++i)
        expected.emplace_back(
            train.begin() + static_cast<long>(i * 30),
            train.begin() + static_cast<long>(std::min(train.size(), i * 30 + 30)));
    connect(*receiver, *peer);
    ASSERT_EQ(send_now(*stranger, packet_of(200, 50)), SendOutcome::Sent);
    expected.push_back(packet_of(5, 77));
    ASSERT_EQ(send_now(*peer, expected.back()), SendOutcome::Sent);
    Collector collector;
    receive_until(*receiver, collector, expected.size());
    receive_rest(*receiver, collector);
    EXPECT_EQ(collector.packets, expected);
}

TEST(UdpPort, SaysThatNobodyListensAndGoesOnWhenSomebodyDoes) {
    const auto sender = open_on_loopback();
    auto receiver = open_on_loopback();
    connect(*sender, *receiver);
    const std::uint16_t number = receiver->port();
    receiver.reset();
    // The answer of the host comes at once on loopback, and is told by the next call.
    bool refused = false;
    for (int i = 0; i < 100 && !refused; ++i)
        refused = send_now(*sender, packet_of(1, 10)) == SendOutcome::Refused;
    EXPECT_TRUE(refused);
    // Told to a receive, it is the next send that says it.
    Collector collector;
    for (int i = 0; i < 10; ++i) {
        (void)send_now(*sender, packet_of(1, 10));
        EXPECT_FALSE(sender->receive(collector));
        EXPECT_EQ(send_now(*sender, packet_of(1, 10)), SendOutcome::Refused) << i;
        (void)sender->receive(collector);
    }
    receiver = open_on_loopback({number, number});
    ASSERT_NE(receiver, nullptr);
    connect(*receiver, *sender);
    for (int i = 0; i < 5; ++i)
        (void)send_now(*sender, packet_of(2, 20));
    receive_until(*receiver, collector, 3);
    EXPECT_GE(collector.packets.size(), 3U);
}

TEST(UdpPort, ThousandsOfErrorsDoNotTakeTheRoomOfPackets) {
    const auto sender = open_on_loopback();
    auto receiver = open_on_loopback();
    connect(*sender, *receiver);
    const std::uint16_t number = receiver->port();
    receiver.reset();
    for (int i = 0; i < 20000; ++i)
        (void)send_now(*sender, packet_of(1, 1000));
    receiver = open_on_loopback({number, number});
    ASSERT_NE(receiver, nullptr);
    connect(*receiver, *sender);
    Collector collector;
    (void)sender->receive(collector);
    (void)send_now(*sender, packet_of(1, 10));
    for (int i = 0; i < 100; ++i)
        ASSERT_EQ(send_now(*receiver, packet_of(3, 1000)), SendOutcome::Sent) << i;
    receive_until(*sender, collector, 100);
    EXPECT_EQ(collector.packets.size(), 100U);
}

TEST(UdpPort, OrderAndLengthsHoldWhileJoiningGoesOnAndOff) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const auto a = open_on_loopback();
        const auto b = open_on_loopback();
        connect(*a, *b);
        connect(*b, *a);
        Collector collector;
        std::size_t sent = 0;
        std::vector<std::size_t> lengths;
        for (std::uint32_t round = 0; round < repeated(6000); ++round) {
            // Long stretches of single packets, then of trains.
            const bool alone = (round / 300) % 2 == 0 && !random.one_in(200);
            const std::uint32_t sends = alone ? 1 : random.between(1, 6);
            for (std::uint32_t i = 0; i < sends; ++i) {
                const std::uint32_t bytes = random.between(1, 90);
                const std::uint32_t count = alone ? 1 : random.between(1, 20);
                Packet train;
                for (std::uint32_t k = 0; k < count; ++k) {
                    const std::size_t length = k + 1 < count ? bytes : random.between(1, bytes);
                    const Packet packet = packet_of(sent++, length);
                    lengths.push_back(length);
                    train.insert(train.end(), packet.begin(), packet.end());
                }
                const std::size_t cut = random.below(static_cast<std::uint32_t>(train.size()) + 1);
                const std::array<iovec, 2> parts = {iovec{train.data(), cut},
                                                    iovec{train.data() + cut, train.size() - cut}};
                ASSERT_EQ(a->send(parts, bytes), SendOutcome::Sent);
            }
            while (b->receive(collector)) {
            }
        }
        receive_until(*b, collector, sent);
        ASSERT_EQ(collector.packets.size(), sent);
        for (std::size_t i = 0; i < sent; ++i)
            ASSERT_EQ(collector.packets[i], packet_of(i, lengths[i])) << i;
    }
}

/// Takes each receive for one packet, until it no longer does.
struct OneEach final : PacketTaker {
    bool take(std::span<const std::byte> packets, std::size_t packet_bytes) override {
        bytes += packets.size();
        last_length = packet_bytes;
        return content;
    }
    bool take_unmeasured(std::span<const std::byte> packets) override {
        bytes += packets.size();
        ++unmeasured;
        return content;
    }
    bool content = true;
    std::size_t bytes = 0;
    std::size_t last_length = 0;
    std::size_t unmeasured = 0;
};

TEST(UdpPort, AsksForLengthsAgainAsSoonAsTheyAreNeeded) {
    LocalInterface where = loopback();
    where.entry.mtu = 1500;
    auto opened = UdpPort::open(where, {});
    ASSERT_TRUE(opened.ok()) << opened.error().sentence;
    UdpPort& b = *opened.value();
    const auto a = open_on_loopback();
    connect(*a, b);
    connect(b, *a);
    OneEach taker;
    Packet train = packet_of(1, 4'000);
    const auto comes_whole = [&] {
        const iovec part{train.data(), train.size()};
        ASSERT_EQ(a->send({&part, 1}, 1'400), SendOutcome::Sent);
        const std::size_t wanted = taker.bytes + train.size();
        const auto deadline = base::Deadline::after_milliseconds(5'000);
        while (taker.bytes < wanted && !deadline.expired())
            (void)b.receive(taker);
        ASSERT_EQ(taker.bytes, wanted);
    };
    for (int i = 0; i < 40; ++i)
        ASSERT_NO_FATAL_FAILURE(comes_whole());
    EXPECT_GT(taker.unmeasured, 0U) << "it has asked though nobody needed it";
    taker.content = false;
    ASSERT_NO_FATAL_FAILURE(comes_whole());
    const std::size_t unmeasured = taker.unmeasured;
    for (int i = 0; i < 100; ++i)
        ASSERT_NO_FATAL_FAILURE(comes_whole());
    EXPECT_EQ(taker.unmeasured, unmeasured);
    EXPECT_EQ(taker.last_length, 1'400U);
    // Once bitten, twice shy.
    taker.content = true;
    for (int i = 0; i < 60; ++i)
        ASSERT_NO_FATAL_FAILURE(comes_whole());
    EXPECT_EQ(taker.unmeasured, unmeasured);
    for (int i = 0; i < 10; ++i)
        ASSERT_NO_FATAL_FAILURE(comes_whole());
    EXPECT_GT(taker.unmeasured, unmeasured);
}

TEST(UdpPort, WorksOnIpv6LoopbackToo) {
    std::ifstream exists("/proc/net/if_inet6");
    if (!exists) GTEST_SKIP() << "this kernel has no IPv6";
    auto first = UdpPort::open(loopback(Family::Ipv6));
    if (!first.ok()) GTEST_SKIP() << first.error().sentence;
    const auto a = std::move(first).value();
    const auto b = open_on_loopback({}, Family::Ipv6);
    ASSERT_TRUE(a->connect(offer_of(*b, loopback(Family::Ipv6).entry), true).ok());
    ASSERT_TRUE(b->connect(offer_of(*a, loopback(Family::Ipv6).entry), true).ok());
    EXPECT_EQ(a->max_packet_bytes(), 65487U);
    Packet train = packet_of(1, a->max_train_bytes());
    const iovec part{train.data(), train.size()};
    ASSERT_EQ(a->send({&part, 1}, 1000), SendOutcome::Sent);
    ASSERT_EQ(send_now(*a, packet_of(2, a->max_packet_bytes())), SendOutcome::Sent);
    Collector collector;
    receive_until(*b, collector, 67);
    ASSERT_EQ(collector.packets.size(), 67U);
    EXPECT_EQ(collector.packets[65].size(), 487U);
    EXPECT_EQ(collector.packets[66], packet_of(2, 65487));
}

/// New enough, and no filter of system calls forbids it.
bool kernel_lends() {
    std::array<int, 2> ends{};
    if (!base::kernel_is_at_least(6, 5) || ::pipe(ends.data()) != 0) return false;
    const base::UniqueFd out(ends[0]);
    const base::UniqueFd in(ends[1]);
    const iovec part{ends.data(), 1};
    return ::vmsplice(in.get(), &part, 1, SPLICE_F_NONBLOCK) == 1;
}

/// A header that the port copies, and pages that it may lend: a page more than one send can.
class LendingPort : public testing::TestWithParam<Family> {
  protected:
    static constexpr std::uint32_t datagram = 1'400;
    static constexpr std::size_t page = 4096;

    void SetUp() override {
        auto opened = UdpPort::open(loopback(GetParam()));
        if (GetParam() == Family::Ipv6 && !opened.ok()) GTEST_SKIP() << opened.error().sentence;
        ASSERT_TRUE(opened.ok()) << opened.error().sentence;
        a = std::move(opened).value();
        b = open_on_loopback({}, GetParam());
        ASSERT_TRUE(a->connect(offer_of(*b, loopback(GetParam()).entry), true).ok());
        ASSERT_TRUE(b->connect(offer_of(*a, loopback(GetParam()).entry), true).ok());
        fill_pattern({memory.get(), 18 * page}, 3);
        fill_pattern(header, 4);
    }
    [[nodiscard]] SendOutcome lend(std::size_t from, std::size_t bytes) {
        const std::array<iovec, 2> parts = {iovec{header.data(), header.size()},
                                            iovec{memory.get() + from, bytes}};
        return a->lend(parts, 1, datagram);
    }
    /// What the peer should get, as long as the memory is as it is now.
    [[nodiscard]] Packet whole(std::size_t from, std::size_t bytes) const {
        Packet train = header;
        train.insert(train.end(), memory.get() + from, memory.get() + from + bytes);
        return train;
    }
    [[nodiscard]] Packet received(std::size_t bytes) {
        Collector collector;
        receive_until(*b, collector, (bytes + datagram - 1) / datagram);
        receive_rest(*b, collector);
        Packet all;
        for (const Packet& packet : collector.packets)
            all.insert(all.end(), packet.begin(), packet.end());
        return all;
    }
    void arrives(std::size_t from, std::size_t bytes) {
        SCOPED_TRACE(std::to_string(from) + ", " + std::to_string(bytes));
        ASSERT_EQ(lend(from, bytes), SendOutcome::Sent);
        const Packet expected = whole(from, bytes);
        EXPECT_TRUE(received(expected.size()) == expected);
    }

    std::unique_ptr<UdpPort> a;
    std::unique_ptr<UdpPort> b;
    Packet header = Packet(60);
    base::AlignedBytes memory = base::aligned_bytes(18 * page);
};

INSTANTIATE_TEST_SUITE_P(Families, LendingPort, testing::Values(Family::Ipv4, Family::Ipv6),
                         [](const auto& family) {
                             return family.param == Family::Ipv4 ? "Ipv4" : "Ipv6";
                         });

TEST_P(LendingPort, WhatIsLentArrivesWhereverItLies) {
    for (const std::size_t from : {std::size_t{0}, std::size_t{1}, std::size_t{2048}, page - 1})
        for (const std::size_t bytes : {15 * page, 15 * page - from, 8 * page, 9 * page + 17})
            ASSERT_NO_FATAL_FAILURE(arrives(from, bytes));
    EXPECT_EQ(a->lender().works(), kernel_lends());
}

TEST_P(LendingPort, SeveralPiecesFromDifferentPlaces) {
    std::vector<iovec> parts = {{header.data(), header.size()}};
    Packet expected = header;
    for (const auto& [from, bytes] : {std::pair{3 * page, page}, std::pair{page + 9, page},
                                      std::pair{8 * page + 100, 6 * page}}) {
        parts.push_back({memory.get() + from, bytes});
        expected.insert(expected.end(), memory.get() + from, memory.get() + from + bytes);
    }
    ASSERT_EQ(a->lend(parts, 1, datagram), SendOutcome::Sent);
    EXPECT_TRUE(received(expected.size()) == expected);
    // As many as there may be, and one more.
    for (const std::size_t count : {PageLender::most_pages, PageLender::most_pages + 1}) {
        parts.resize(1);
        expected = header;
        for (std::size_t i = 0; i < count; ++i) {
            parts.push_back({memory.get() + i * page + 1, 2'500});
            expected.insert(expected.end(), memory.get() + i * page + 1,
                            memory.get() + i * page + 2'501);
        }
        ASSERT_EQ(a->lend(parts, 1, datagram), SendOutcome::Sent);
        EXPECT_TRUE(received(expected.size()) == expected) << count;
    }
    EXPECT_EQ(a->lender().works(), kernel_lends());
}

TEST_P(LendingPort, NothingIsCopied) {
    if (!kernel_lends()) GTEST_SKIP() << "this kernel can not do it";
    ASSERT_EQ(lend(0, 15 * page), SendOutcome::Sent);
    memory.get()[14 * page] ^= std::byte{255};
    const Packet now = whole(0, 15 * page);
    EXPECT_TRUE(received(now.size()) == now);
}

TEST_P(LendingPort, WhereItCanNotBeDoneItIsCopied) {
    a->lender().forbid();
    ASSERT_EQ(lend(0, 15 * page), SendOutcome::Sent);
    const Packet expected = whole(0, 15 * page);
    memory.get()[14 * page] ^= std::byte{255};
    EXPECT_TRUE(received(expected.size()) == expected);
}

TEST_P(LendingPort, MorePagesThanTheKernelTakesAreCopied) {
    ASSERT_NO_FATAL_FAILURE(arrives(page - 10, 15 * page + 20));  // in 17
}

/// A process that may open nothing more has no pipe.
TEST_P(LendingPort, WhatFailsIsCopiedAndNotTriedForEver) {
    if (!kernel_lends()) GTEST_SKIP() << "this kernel can not do it";
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit none = before;
    none.rlim_cur = 0;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int i = 0; i < 100 && a->lender().works(); ++i)
        EXPECT_NO_FATAL_FAILURE(arrives(0, 15 * page));
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_FALSE(a->lender().works());
    ASSERT_NO_FATAL_FAILURE(arrives(0, 15 * page));
}

TEST_P(LendingPort, MemoryThatIsNotThereLeavesThePortAsItWas) {
    const std::array<iovec, 2> parts = {
        iovec{header.data(), header.size()},
        iovec{reinterpret_cast<void*>(std::uintptr_t{1} << 46U), 15 * page}};
    EXPECT_NE(a->lend(parts, 1, datagram), SendOutcome::Sent);
    EXPECT_LE(received(0).size(), header.size());
    ASSERT_NO_FATAL_FAILURE(arrives(0, 15 * page));
    ASSERT_EQ(send_now(*a, packet_of(1, 100)), SendOutcome::Sent);
    EXPECT_TRUE(received(100) == packet_of(1, 100));
}

class UdpPortInNamespace : public testing::Test {
  protected:
    void make(int cables) {
        std::string reason;
        network_ = try_network(reason, cables);
        if (network_ == nullptr) GTEST_SKIP() << reason;
    }
    std::unique_ptr<UdpPort> open(TestNetwork::Host host, const LocalInterface& where) {
        auto opened = network_->in(host, [&] { return UdpPort::open(where); });
        EXPECT_TRUE(opened.ok()) << opened.error().sentence;
        return opened.ok() ? std::move(opened).value() : nullptr;
    }
    std::unique_ptr<TestNetwork> network_;
};

TEST_F(UdpPortInNamespace, EachCableCarriesItsOwnTrafficThoughAllAreInOneSubnet) {
    make(2);
    if (network_ == nullptr) return;
    for (const TestNetwork::Host host : {TestNetwork::A, TestNetwork::B})
        network_->run(host,
                      "ip address flush dev v0 scope global && ip address flush dev v1 scope "
                      "global && ip address add 10.5.0." +
                          std::string(host == TestNetwork::A ? "1" : "2") +
                          "/24 dev v0 && ip address add 10.5.0." +
                          (host == TestNetwork::A ? "3" : "4") + "/24 dev v1");
    const auto packets_out = [&](const std::string& name) {
        return network_->in(TestNetwork::A, [&] {
            // Of this thread's namespace; sysfs would show that of the mount.
            std::ifstream file("/proc/thread-self/net/dev");
            std::string line;
            while (std::getline(file, line))
                if (line.find(" " + name + ":") != std::string::npos ||
                    line.starts_with(name + ":")) {
                    std::istringstream fields(line.substr(line.find(':') + 1));
                    long value = 0;
                    for (int i = 0; i < 10; ++i)
                        fields >> value;
                    return value;
                }
            return -1L;
        });
    };
    for (const char* name : {"v0", "v1"}) {
        const auto here = local_interface(*network_, TestNetwork::A, name);
        const auto there = local_interface(*network_, TestNetwork::B, name);
        const auto a = open(TestNetwork::A, here);
        const auto b = open(TestNetwork::B, there);
        ASSERT_TRUE(a->connect(offer_of(*b, there.entry)).ok());
        ASSERT_TRUE(b->connect(offer_of(*a, here.entry)).ok());
        const long own = packets_out(name);
        const std::string other_name = name == std::string("v0") ? "v1" : "v0";
        const long other = packets_out(other_name);
        for (std::uint64_t i = 0; i < 100; ++i)
            ASSERT_EQ(send_now(*a, packet_of(i, 100)), SendOutcome::Sent);
        Collector collector;
        receive_until(*b, collector, 100);
        EXPECT_EQ(collector.packets.size(), 100U) << name;
        EXPECT_GE(packets_out(name) - own, 100) << name;
        EXPECT_LT(packets_out(other_name) - other, 50) << name;
    }
}

TEST_F(UdpPortInNamespace, OneHostReachesItselfByAnAddressOfItsInterface) {
    make(1);
    if (network_ == nullptr) return;
    const auto here = local_interface(*network_, TestNetwork::A, "v0");
    const auto a = open(TestNetwork::A, here);
    const auto b = open(TestNetwork::A, here);
    ASSERT_TRUE(a->connect(offer_of(*b, here.entry), true).ok());
    ASSERT_TRUE(b->connect(offer_of(*a, here.entry), true).ok());
    ASSERT_EQ(send_now(*a, packet_of(1, 100)), SendOutcome::Sent);
    Collector collector;
    receive_until(*b, collector, 1);
    EXPECT_EQ(collector.packets.size(), 1U);
}

TEST_F(UdpPortInNamespace, NoWayToThePeerIsAnErrorWithBothAddresses) {
    make(1);
    if (network_ == nullptr) return;
    const auto here = local_interface(*network_, TestNetwork::A, "v0");
    const auto a = open(TestNetwork::A, here);
    network_->run(TestNetwork::A, "ip link set v0 down");
    OfferedInterface nowhere = here.entry;
    nowhere.address = {10, 200, 1, 1};
    nowhere.port = 5;
    const auto done = a->connect(nowhere);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, base::Code::NotReachable);
    EXPECT_NE(done.error().sentence.find("10.77.0.1"), std::string::npos);
    EXPECT_NE(done.error().sentence.find("10.200.1.1:5"), std::string::npos);
}

}  // namespace
