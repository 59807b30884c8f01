// SPDX-License-Identifier: BSD-3-Clause
// VipNSInit, VipNSGetHostByName, VipNSGetHostByAddr, VipNSShutdown and
// VipQuerySystemManagementInfo.
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "vipl/harness.hpp"

namespace via::test {
namespace {

std::string own_name() {
    char name[256] = {};
    gethostname(name, sizeof name - 1);
    return name;
}

VIP_RETURN by_name(VIP_NIC_HANDLE nic, std::string name, Address& address, VIP_ULONG index = 0) {
    return VipNSGetHostByName(nic, name.data(), address.get(), index);
}

TEST(NameService, InitAndShutdown) {
    const Nic nic;
    EXPECT_VIP(VIP_SUCCESS, VipNSInit(nic, nullptr));
    EXPECT_VIP(VIP_SUCCESS, VipNSShutdown(nic));
    EXPECT_VIP(VIP_SUCCESS, VipNSInit(nic, nullptr));
    EXPECT_VIP(VIP_SUCCESS, VipNSShutdown(nic));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipNSInit(nullptr, nullptr));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipNSShutdown(nullptr));
}

TEST(NameService, TheOwnNamesLeadToTheOwnAddress) {
    const Nic nic;
    ASSERT_VIP(VIP_SUCCESS, VipNSInit(nic, nullptr));
    const std::string name = own_name();
    for (const std::string& each : {name, name.substr(0, name.find('.')), std::string("localhost"),
                                    std::string("127.0.0.1")}) {
        SCOPED_TRACE(each);
        Address address;
        EXPECT_VIP(VIP_SUCCESS, by_name(nic, each, address));
        EXPECT_EQ(address.host(), host_of(nic));
    }
    EXPECT_VIP(VIP_SUCCESS, VipNSShutdown(nic));
}

TEST(NameService, WhatIsInTheAddressBeforeDoesNotMatter) {
    const Nic nic;
    ASSERT_VIP(VIP_SUCCESS, VipNSInit(nic, nullptr));
    Address address;
    std::memset(address.get(), 0xFF, 64);
    EXPECT_VIP(VIP_SUCCESS, by_name(nic, "localhost", address));
    EXPECT_EQ(address.get()->HostAddressLen, nic.attributes().NicAddressLen);
    EXPECT_EQ(address.host(), host_of(nic));
    Address zeroed;
    EXPECT_VIP(VIP_SUCCESS, by_name(nic, "localhost", zeroed));
    EXPECT_EQ(zeroed.host(), host_of(nic));
}

TEST(NameService, AnUnknownNameIsANameServiceError) {
    const Nic nic;
    ASSERT_VIP(VIP_SUCCESS, VipNSInit(nic, nullptr));
    Address address;
    EXPECT_VIP(VIP_ERROR_NAMESERVICE, by_name(nic, "no-such-host.invalid", address));
    EXPECT_VIP(VIP_ERROR_NAMESERVICE, by_name(nic, "", address));
    EXPECT_VIP(VIP_ERROR_NAMESERVICE, by_name(nic, std::string(5000, 'x'), address));
}

TEST(NameService, AnIndexBeyondTheLastAddressIsANameServiceError) {
    const Nic nic;
    Address address;
    EXPECT_VIP(VIP_SUCCESS, by_name(nic, "localhost", address, 0));
    EXPECT_VIP(VIP_ERROR_NAMESERVICE, by_name(nic, "localhost", address, 1));
    EXPECT_VIP(VIP_ERROR_NAMESERVICE, by_name(nic, "localhost", address, ~0UL));
}

TEST(NameService, TheOwnAddressHasTheOwnName) {
    const Nic nic;
    Address address(nic, "ignored");
    char name[256] = {};
    VIP_ULONG bytes = sizeof name;
    ASSERT_VIP(VIP_SUCCESS, VipNSGetHostByAddr(nic, address.get(), name, &bytes));
    EXPECT_EQ(bytes, std::strlen(name));
    EXPECT_GT(bytes, 0U);
    Address back;
    EXPECT_VIP(VIP_SUCCESS, by_name(nic, name, back));
    EXPECT_EQ(back.host(), host_of(nic));
}

TEST(NameService, ANameThatDoesNotFitIsAResourceError) {
    const Nic nic;
    Address address(nic, "");
    char name[256];
    std::memset(name, 'z', sizeof name);
    VIP_ULONG bytes = sizeof name;
    ASSERT_VIP(VIP_SUCCESS, VipNSGetHostByAddr(nic, address.get(), name, &bytes));
    const VIP_ULONG length = bytes;
    // Room for the characters but not for the terminating zero.
    std::memset(name, 'z', sizeof name);
    bytes = length;
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipNSGetHostByAddr(nic, address.get(), name, &bytes));
    EXPECT_EQ(name[length], 'z') << "written beyond the given room";
    bytes = length + 1;
    EXPECT_VIP(VIP_SUCCESS, VipNSGetHostByAddr(nic, address.get(), name, &bytes));
    EXPECT_EQ(bytes, length);
}

TEST(NameService, AnUnknownAddressIsANameServiceError) {
    const Nic nic;
    Address unknown(std::string(nic.attributes().NicAddressLen, '\x5A'), "");
    char name[256] = {};
    VIP_ULONG bytes = sizeof name;
    EXPECT_VIP(VIP_ERROR_NAMESERVICE, VipNSGetHostByAddr(nic, unknown.get(), name, &bytes));
}

TEST(NameService, BadArgumentsAreRefused) {
    const Nic nic;
    Address address(nic, "");
    char name[256] = "localhost";
    VIP_ULONG bytes = sizeof name;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipNSGetHostByName(nullptr, name, address.get(), 0));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipNSGetHostByName(nic, nullptr, address.get(), 0));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipNSGetHostByName(nic, name, nullptr, 0));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nullptr, address.get(), name, &bytes));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nic, nullptr, name, &bytes));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nic, address.get(), nullptr, &bytes));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nic, address.get(), name, nullptr));
    bytes = 0;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nic, address.get(), name, &bytes));
    Address longer(std::string(200, 'h'), "");
    bytes = sizeof name;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nic, longer.get(), name, &bytes));
}

TEST(NameService, ARefusedLookupLeavesTheAddressAlone) {
    const Nic nic;
    Address address("abcdef", "12345678");
    const Address before = address;
    EXPECT_VIP(VIP_ERROR_NAMESERVICE, by_name(nic, "no-such-host.invalid", address));
    EXPECT_EQ(address, before);
}

TEST(NameService, AResolvedAddressConnects) {
    Pair pair({.connected = false});
    Address resolved;
    ASSERT_VIP(VIP_SUCCESS, by_name(pair.client.nic, own_name(), resolved));
    Address server_address(resolved.host(), unique_discriminator());
    Address client_address(resolved.host(), unique_discriminator());
    VIP_RETURN requested = VIP_NOT_DONE;
    std::thread requester(
        [&] { requested = request_until_matched(pair.client.vi, client_address, server_address); });
    Address remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    EXPECT_VIP(VIP_SUCCESS, VipConnectWait(pair.server.nic, server_address.get(), patience_ms,
                                           remote.get(), &attributes, &connection));
    EXPECT_VIP(VIP_SUCCESS, VipConnectAccept(connection, pair.server.vi));
    requester.join();
    EXPECT_VIP(VIP_SUCCESS, requested);
    expect_traffic(pair);
}

PEER(hosts_file) {
    const Nic nic;
    ASSERT_VIP(VIP_SUCCESS, VipNSInit(nic, nullptr));
    Address address;
    EXPECT_VIP(VIP_SUCCESS, by_name(nic, "node1", address, 0));
    EXPECT_EQ(address.host(), std::string("\x02\x00\x00\x00\x00\x01", 6));
    EXPECT_VIP(VIP_SUCCESS, by_name(nic, "node1", address, 1));
    EXPECT_EQ(address.host(), std::string("\x02\x00\x00\x00\x01\xFF", 6));
    EXPECT_VIP(VIP_ERROR_NAMESERVICE, by_name(nic, "node1", address, 2));
    EXPECT_VIP(VIP_SUCCESS, by_name(nic, "node2", address, 0));
    EXPECT_VIP(VIP_ERROR_NAMESERVICE, by_name(nic, "broken", address, 0));
    EXPECT_VIP(VIP_ERROR_NAMESERVICE, by_name(nic, "hidden", address, 0));
    Address second(std::string("\x02\x00\x00\x00\x01\xFF", 6), "");
    char name[64] = {};
    VIP_ULONG bytes = sizeof name;
    EXPECT_VIP(VIP_SUCCESS, VipNSGetHostByAddr(nic, second.get(), name, &bytes));
    EXPECT_STREQ(name, "node1");
    // The system is asked for what the file does not have.
    EXPECT_VIP(VIP_SUCCESS, by_name(nic, "localhost", address));
    EXPECT_EQ(address.host(), host_of(nic));
}

TEST(NameService, TheFileIsAskedFirst) {
    char path[] = "/tmp/vipl_hosts_XXXXXX";
    const int fd = mkstemp(path);
    ASSERT_GE(fd, 0);
    close(fd);
    std::ofstream(path) << "# hosts of a test\n"
                        << "node1 02:00:00:00:00:01\n"
                        << "node2\t02:00:00:00:00:02  # a comment\n"
                        << "broken 02:00\n"
                        << "# hidden 02:00:00:00:00:03\n"
                        << "node1 02:00:00:00:01:ff\n";
    PeerProcess peer("hosts_file", {{"VIA_HOSTS_FILE", path}, {"VIA_LOG", "silent"}});
    EXPECT_EQ(peer.wait(), 0);
    unlink(path);
}

// ---- Autodiscovery --------------------------------------------------------------------------

TEST(Autodiscovery, FindsAtLeastTheOwnAddress) {
    const Nic nic;
    Address room[8];
    VIP_NET_ADDRESS* pointers[8];
    for (std::size_t i = 0; i < 8; ++i)
        pointers[i] = room[i].get();
    VIP_AUTODISCOVERY_LIST list{};
    list.NumberOfHops = 1;
    list.ADAddrArray = pointers;
    list.NumAdAddrs = 8;
    ASSERT_VIP(VIP_SUCCESS, VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list));
    ASSERT_GE(list.NumAdAddrs, 1U);
    ASSERT_LE(list.NumAdAddrs, 8U);
    bool found = false;
    for (std::size_t i = 0; i < list.NumAdAddrs; ++i) {
        EXPECT_EQ(room[i].host().size(), nic.attributes().NicAddressLen);
        found = found || room[i].host() == host_of(nic);
    }
    EXPECT_TRUE(found);
}

TEST(Autodiscovery, WritesNoMoreThanThereIsRoomFor) {
    const Nic nic;
    VIP_AUTODISCOVERY_LIST list{};
    list.NumberOfHops = 1;
    EXPECT_VIP(VIP_SUCCESS, VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list));
    EXPECT_EQ(list.NumAdAddrs, 0U);
    Address room;
    VIP_NET_ADDRESS* pointers[] = {room.get(), nullptr};
    list.ADAddrArray = pointers;
    list.NumAdAddrs = 1;
    EXPECT_VIP(VIP_SUCCESS, VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list));
    EXPECT_EQ(list.NumAdAddrs, 1U);
}

TEST(Autodiscovery, AnythingElseIsNotSupported) {
    const Nic nic;
    VIP_AUTODISCOVERY_LIST list{};
    for (const VIP_ULONG type : {0UL, 2UL, 77UL, ~0UL}) {
        EXPECT_VIP(VIP_ERROR_NOT_SUPPORTED, VipQuerySystemManagementInfo(nic, type, &list));
    }
}

TEST(Autodiscovery, BadArgumentsAreRefused) {
    const Nic nic;
    VIP_AUTODISCOVERY_LIST list{};
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipQuerySystemManagementInfo(nullptr, VIP_SMI_AUTODISCOVERY, &list));
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, nullptr));
    list.NumAdAddrs = 1;
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list));
    VIP_NET_ADDRESS* pointers[] = {nullptr};
    list.ADAddrArray = pointers;
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list));
}

}  // namespace
}  // namespace via::test
