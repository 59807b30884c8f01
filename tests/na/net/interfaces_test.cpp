// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/interfaces.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>

#include "na/net/test_network.hpp"

using namespace via;
using namespace via::na::net;
using test::TestNetwork;

namespace {

InterfaceAddress ipv4(std::uint8_t last, std::uint8_t prefix = 24) {
    InterfaceAddress address;
    address.address = {10, 1, 1, last};
    address.prefix = prefix;
    return address;
}

Interface working(const std::string& name, std::uint32_t index) {
    Interface interface;
    interface.name = name;
    interface.index = index;
    interface.mtu = 1500;
    interface.ethernet = interface.up = interface.running = true;
    interface.addresses = {ipv4(static_cast<std::uint8_t>(index))};
    return interface;
}

std::string reason_for(const Interface& interface, const std::string& patterns = "",
                       const std::vector<Interface>& others = {}) {
    std::vector<Interface> all = others;
    all.push_back(interface);
    const InterfaceRow row = choose_interfaces(all, patterns).rows.back();
    return row.used ? "" : row.reason;
}

std::vector<std::string> used_names(const std::string& patterns) {
    Interface loopback = working("lo", 1);
    loopback.loopback = true;
    loopback.ethernet = false;
    std::vector<std::string> names;
    for (const auto& row :
         choose_interfaces({loopback, working("eth0", 2), working("eth1", 3), working("ib0", 4)},
                           patterns)
             .rows)
        if (row.used) names.push_back(row.interface.name);
    return names;
}

TEST(Interfaces, EachReasonIsSaid) {
    EXPECT_EQ(reason_for(working("eth0", 2)), "");
    Interface bad = working("eth0", 2);
    bad.up = bad.running = false;
    EXPECT_EQ(reason_for(bad), "down");
    bad.up = true;
    EXPECT_EQ(reason_for(bad), "no carrier");
    bad = working("eth0", 2);
    bad.addresses.clear();
    EXPECT_EQ(reason_for(bad), "no address");
    bad.master = 7;
    EXPECT_EQ(reason_for(bad, "", {working("bond0", 7)}),
              "no address of its own: it is a port of bond0");
    bad = working("eth0", 2);
    bad.mtu = 576;
    EXPECT_EQ(reason_for(bad), "its MTU of 576 bytes is below 1280");
    bad = working("ppp0", 2);
    bad.point_to_point = true;
    bad.addresses = {ipv4(1, 32)};
    bad.addresses[0].peerless = true;
    EXPECT_EQ(reason_for(bad), "point-to-point to nobody");
    bad.addresses[0].peerless = false;
    EXPECT_EQ(reason_for(bad), "");
}

TEST(Interfaces, BridgesOfContainerEnginesAreLeftOutUnlessAnotherHostIsBehindThem) {
    Interface bridge = working("docker0", 9);
    bridge.kind = "bridge";
    Interface port = working("veth1234", 10);
    port.kind = "veth";
    port.master = 9;
    EXPECT_NE(reason_for(bridge, "", {port}), "");
    EXPECT_EQ(reason_for(bridge, "docker0", {port}), "");
    port.kind = "";  // hardware
    EXPECT_EQ(reason_for(bridge, "", {port}), "");
    bridge.name = "br0";
    port.kind = "veth";
    EXPECT_EQ(reason_for(bridge, "", {port}), "");
    bridge.name = "br-0123456789ab";
    EXPECT_NE(reason_for(bridge, "", {port}), "");
}

TEST(Interfaces, ThePatternsChoose) {
    using Names = std::vector<std::string>;
    EXPECT_EQ(used_names(""), (Names{"lo", "eth0", "eth1", "ib0"}));
    EXPECT_EQ(used_names("eth*"), (Names{"lo", "eth0", "eth1"}));
    EXPECT_EQ(used_names(" eth1 , ib? "), (Names{"lo", "eth1", "ib0"}));
    EXPECT_EQ(used_names("!eth1"), (Names{"lo", "eth0", "ib0"}));
    EXPECT_EQ(used_names("eth*,!eth1"), (Names{"lo", "eth0"}));
    EXPECT_EQ(used_names("!lo,! ib0"), (Names{"eth0", "eth1"}));
    EXPECT_EQ(used_names(",,"), (Names{"lo", "eth0", "eth1", "ib0"}));
    EXPECT_EQ(reason_for(working("eth1", 3), "!eth*"), "left out by !eth* in VIA_NET_INTERFACES");
    EXPECT_EQ(reason_for(working("eth1", 3), "ib0"), "not named in VIA_NET_INTERFACES");
    const auto choice = choose_interfaces({working("eth0", 2)}, "eth*,eht1,!ib0");
    ASSERT_EQ(choice.warnings.size(), 2U);
    EXPECT_NE(choice.warnings[0].find("eht1"), std::string::npos);
    EXPECT_NE(choice.warnings[1].find("ib0"), std::string::npos);
}

TEST(Interfaces, ThisHostHasALoopbackOrSaysWhyNot) {
    const auto interfaces = read_interfaces();
    ASSERT_TRUE(interfaces.ok()) << interfaces.error().sentence;
    EXPECT_TRUE(std::any_of(interfaces.value().begin(), interfaces.value().end(),
                            [](const auto& one) { return one.loopback; }));
    for (const auto& row : choose_interfaces(interfaces.value(), "").rows) {
        EXPECT_FALSE(row.reason.empty()) << row.interface.name;
        EXPECT_TRUE(!row.used || !row.interface.addresses.empty()) << row.interface.name;
    }
}

class InterfacesInNamespace : public testing::Test {
  protected:
    void SetUp() override {
        std::string reason;
        network_ = test::try_network(reason, 2, 9000);
        if (network_ == nullptr) GTEST_SKIP() << reason;
    }
    InterfaceChoice choice(const std::string& patterns = "") {
        return network_->in(TestNetwork::A, [&] {
            auto interfaces = read_interfaces();
            EXPECT_TRUE(interfaces.ok());
            return choose_interfaces(
                interfaces.ok() ? interfaces.value() : std::vector<Interface>{}, patterns);
        });
    }
    InterfaceRow row(const std::string& name) {
        for (auto& row : choice().rows)
            if (row.interface.name == name) return row;
        ADD_FAILURE() << "no " << name;
        return {};
    }
    std::unique_ptr<TestNetwork> network_;
};

TEST_F(InterfacesInNamespace, ReadsWhatTheKernelHas) {
    const InterfaceRow cable = row("v1");
    EXPECT_TRUE(cable.used) << cable.reason;
    EXPECT_EQ(cable.interface.mtu, 9000U);
    EXPECT_EQ(cable.interface.kind, "veth");
    EXPECT_TRUE(cable.interface.ethernet);
    EXPECT_NE(cable.interface.mac, MacBytes{});
    ASSERT_EQ(cable.interface.addresses.size(), 2U);  // the link-local one is not among them
    EXPECT_EQ(to_text(Family::Ipv4, cable.interface.addresses[0].address), "10.77.1.1");
    EXPECT_EQ(cable.interface.addresses[0].prefix, 24);
    EXPECT_EQ(cable.interface.addresses[1].family, Family::Ipv6);
    EXPECT_EQ(to_text(Family::Ipv6, cable.interface.addresses[1].address), "fd77:1::1");
    EXPECT_EQ(cable.interface.addresses[1].prefix, 64);
    const InterfaceRow loopback = row("lo");
    EXPECT_TRUE(loopback.used);
    EXPECT_TRUE(loopback.interface.loopback);
    EXPECT_EQ(loopback.interface.mtu, 65536U);
}

TEST_F(InterfacesInNamespace, FollowsWhatChanges) {
    network_->run(TestNetwork::B, "ip link set v0 down");
    EXPECT_EQ(row("v0").reason, "no carrier");
    network_->run(TestNetwork::A, "ip link set v0 down");
    EXPECT_EQ(row("v0").reason, "down");
    network_->run(TestNetwork::A, "ip address flush dev v1 scope global");
    network_->run(TestNetwork::A, "ip address add fe80::77/64 dev v1 nodad");
    const InterfaceRow link_local = row("v1");
    EXPECT_TRUE(link_local.used) << link_local.reason;
    EXPECT_TRUE(link_local.interface.addresses.at(0).link_local);
    network_->run(TestNetwork::A, "ip address flush dev v1");
    EXPECT_EQ(row("v1").reason, "no address");
}

TEST_F(InterfacesInNamespace, TheWatchIsReadableAfterAChangeAndOnlyThen) {
    auto opened = network_->in(TestNetwork::A, [] { return InterfaceWatch::open(); });
    ASSERT_TRUE(opened.ok()) << opened.error().sentence;
    InterfaceWatch watch = std::move(opened).value();
    const auto readable = [&](int milliseconds) {
        pollfd entry{watch.descriptor(), POLLIN, 0};
        return ::poll(&entry, 1, milliseconds) == 1;
    };
    for (const char* change : {"ip link set v0 down", "ip address add 10.9.9.9/24 dev v1",
                               "ip address add fd99::9/64 dev v1 nodad", "ip link del v0"}) {
        network_->run(TestNetwork::A, change);
        EXPECT_TRUE(readable(5000)) << change;
        EXPECT_TRUE(watch.changed()) << change;
    }
    EXPECT_FALSE(watch.changed());
}

TEST_F(InterfacesInNamespace, AHostIsNotAnother) {
    const auto a = network_->in(TestNetwork::A, [] { return host_identity(); });
    const auto b = network_->in(TestNetwork::B, [] { return host_identity(); });
    EXPECT_NE(a, b);
    EXPECT_NE(a, host_identity());
    EXPECT_EQ(a, network_->in(TestNetwork::A, [] { return host_identity(); }));
}

}  // namespace
