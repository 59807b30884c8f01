// SPDX-License-Identifier: BSD-3-Clause
#include "ka/host_address.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "ka/local_host.hpp"

namespace via::ka {
namespace {

AgentAddress ip4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d,
                 std::uint16_t port) {
    AgentAddress address;
    address.family = 4;
    address.port = port;
    address.ip = {a, b, c, d};
    return address;
}

TEST(HostAddress, IsTheSameForAllProcessesOfTheHost) {
    EXPECT_EQ(host_address(), host_address());
    EXPECT_EQ(host_address()[0] & 3, 2);
}

TEST(HostAddress, DiffersBetweenNetworkNamespaces) {
    const HostAddress here = host_address();
    const pid_t child = fork();
    if (child == 0) _exit(unshare(CLONE_NEWNET) != 0 ? 2 : host_address() == here ? 1 : 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "no right to make a network namespace";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(HostAddress, AnAddressOfOneLinkKeepsItsInterface) {
    AgentAddress six;
    six.family = 6;
    six.port = 7471;
    six.ip = {0xFE, 0x80};
    six.ip[15] = 2;
    EXPECT_TRUE(six.needs_scope());
    six.scope = 1;  // loopback, which is everywhere
    NetAddress address;
    set_host(address, six);
    EXPECT_EQ(address.host_bytes, ip6_host_bytes);
    EXPECT_EQ(agent_address(address), six);
    EXPECT_EQ(readable(six), "[fe80::2%lo]:7471");
    AgentAddress other = six;
    other.scope = 2;
    EXPECT_NE(other, six);
    EXPECT_TRUE(other < six || six < other);
    EXPECT_TRUE(other.same_host(six)) << "one host has it on one link";
    // What another host says is seen from here.
    set_scope(address, 0xABCDEF01);
    EXPECT_EQ(agent_address(address)->scope, 0xABCDEF01U);
    set_scope(address, 0);
    EXPECT_EQ(agent_address(address)->scope, 0U);
    EXPECT_EQ(readable(*agent_address(address)), "[fe80::2]:7471");
    // Others have none.
    const AgentAddress four = ip4(169, 254, 0, 1, 7471);
    EXPECT_TRUE(four.is_link_local());
    EXPECT_FALSE(four.needs_scope());
    set_host(address, four);
    set_scope(address, 7);
    EXPECT_EQ(agent_address(address), four);
    AgentAddress wide = six;
    wide.ip[0] = 0xFD;
    wide.ip[4] = 9;
    wide.scope = 0;
    set_host(address, wide);
    set_scope(address, 7);
    EXPECT_EQ(agent_address(address), wide);
}

TEST(HostAddress, TheNetFormIsReadAndWritten) {
    NetAddress address;
    set_host(address, ip4(10, 0, 0, 2, 7471));
    EXPECT_EQ(address.host_bytes, 7);
    EXPECT_EQ(address.host[0], 4);
    EXPECT_EQ(address.host[1], 0x1D);
    EXPECT_EQ(address.host[2], 0x2F);
    EXPECT_EQ(address.host[6], 2);
    EXPECT_EQ(agent_address(address), ip4(10, 0, 0, 2, 7471));
    EXPECT_EQ(readable(*agent_address(address)), "10.0.0.2:7471");

    AgentAddress six;
    six.family = 6;
    six.port = 1;
    six.ip = {0xFD};
    six.ip[15] = 9;
    set_host(address, six);
    EXPECT_EQ(address.host_bytes, 19);
    EXPECT_EQ(agent_address(address), six);
    EXPECT_EQ(readable(six), "[fd00::9]:1");

    // Other lengths and families are names of another kind.
    address.host_bytes = 18;
    EXPECT_FALSE(agent_address(address));
    set_host(address, ip4(1, 2, 3, 4, 5));
    address.host[0] = 6;
    EXPECT_FALSE(agent_address(address));
    set_host(address, host_address());
    EXPECT_FALSE(agent_address(address));
    EXPECT_FALSE(agent_address(NetAddress{}));
}

TEST(HostAddress, AMappedAddressIsTheOneItMeans) {
    AgentAddress mapped;
    mapped.family = 6;
    mapped.port = 7;
    mapped.ip[10] = mapped.ip[11] = 0xFF;
    mapped.ip[12] = 10;
    mapped.ip[15] = 3;
    EXPECT_EQ(undressed(mapped), ip4(10, 0, 0, 3, 7));
    NetAddress address;
    set_host(address, mapped);
    EXPECT_EQ(agent_address(address), ip4(10, 0, 0, 3, 7));
}

TEST(HostAddress, EachUserHasAUsualPort) {
    EXPECT_EQ(usual_net_port(0), 7471);
    EXPECT_EQ(usual_net_port(1000), 7472);
    EXPECT_EQ(usual_net_port(1001), 7473);
    EXPECT_EQ(usual_net_port(999), 8471);
}

TEST(LocalHost, ItsOwnAddressesMeanItself) {
    LocalHost host(7471);
    const base::Nanoseconds now = base::monotonic_now();
    EXPECT_TRUE(host.is_here(ip4(127, 0, 0, 1, 7471), now));
    EXPECT_TRUE(host.is_here(ip4(127, 8, 7, 6, 0), now));
    EXPECT_FALSE(host.is_here(ip4(127, 0, 0, 1, 7472), now));  // somebody else's agent
    EXPECT_FALSE(host.is_here(ip4(192, 0, 2, 77, 7471), now));
    AgentAddress six;
    six.family = 6;
    six.ip[15] = 1;
    EXPECT_TRUE(host.is_here(six, now));
    for (const AgentAddress& own : host.addresses(now)) {
        EXPECT_TRUE(host.is_here(own, now));
        EXPECT_FALSE(own.is_loopback());
        EXPECT_EQ(own.port, 7471);
    }
}

TEST(LocalHost, AddressesAreMadeOne) {
    LocalHost host(7471);
    const base::Nanoseconds now = base::monotonic_now();
    NetAddress address;
    address.discriminator_bytes = 1;
    address.discriminator[0] = 5;
    set_host(address, ip4(127, 0, 0, 1, 0));
    NetAddress expected = address;
    set_host(expected, host_address());
    EXPECT_EQ(host.canonical(address, now), expected);
    EXPECT_EQ(host.canonical(expected, now), expected);
    EXPECT_FALSE(host.elsewhere(address, now));
    EXPECT_FALSE(host.elsewhere(expected, now));
    set_host(address, ip4(192, 0, 2, 77, 0));
    EXPECT_EQ(host.canonical(address, now), address);
    // Without a port it is the one that this host uses.
    EXPECT_EQ(host.elsewhere(address, now), ip4(192, 0, 2, 77, 7471));
}

}  // namespace
}  // namespace via::ka
