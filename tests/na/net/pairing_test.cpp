// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/pairing.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "na/seeded.hpp"

using namespace via;
using namespace via::na::net;

namespace {

/// "10.0.0.1/24" or "fd00::1/64" of interface `number`.
OfferedInterface entry(std::uint8_t number, const std::string& text, bool with_mac = true) {
    static unsigned entries = 0;
    OfferedInterface entry;
    entry.interface = number;
    entry.port = static_cast<std::uint16_t>(1024 + entries++ % 60000);
    entry.mtu = 1500;
    const std::size_t slash = text.find('/');
    const std::string address = text.substr(0, slash);
    entry.prefix = static_cast<std::uint8_t>(std::stoi(text.substr(slash + 1)));
    entry.family = address.find(':') == std::string::npos ? Family::Ipv4 : Family::Ipv6;
    EXPECT_EQ(inet_pton(entry.family == Family::Ipv4 ? AF_INET : AF_INET6, address.c_str(),
                        entry.address.data()),
              1)
        << text;
    entry.loopback = address.starts_with("127.") || address == "::1";
    if (with_mac && !entry.loopback) entry.mac = {2, 0, 0, 0, 0, number};
    return entry;
}

InterfaceOffer offer(std::uint64_t host, const std::vector<std::string>& texts) {
    InterfaceOffer result{host, {}};
    for (std::size_t i = 0; i < texts.size(); ++i)
        result.entries.push_back(entry(static_cast<std::uint8_t>(i), texts[i]));
    return result;
}

std::vector<LinkPair> swapped(std::vector<LinkPair> links) {
    for (LinkPair& link : links)
        std::swap(link.a, link.b);
    return links;
}

std::vector<LinkPair> pairs(const InterfaceOffer& a, const InterfaceOffer& b,
                            PairingRules rules = {}) {
    const auto links = pair_interfaces(a, b, rules);
    EXPECT_EQ(swapped(pair_interfaces(b, a, rules)), links);
    return links;
}

using Links = std::vector<LinkPair>;

TEST(Pairing, SubnetsFirstThenWhatMayBeRouted) {
    EXPECT_EQ(
        pairs(offer(1, {"10.0.0.1/24", "10.0.1.1/24"}), offer(2, {"10.0.1.2/24", "10.0.0.2/24"})),
        (Links{{0, 1, false}, {1, 0, false}}));
    EXPECT_EQ(
        pairs(offer(1, {"10.0.9.1/24", "10.0.0.1/24"}), offer(2, {"10.0.0.2/24", "10.0.8.2/24"})),
        (Links{{1, 0, false}, {0, 1, true}}));
    EXPECT_EQ(pairs(offer(1, {"10.0.0.1/24"}), offer(2, {"fd00::1/64"})), Links{});
    EXPECT_EQ(pairs(offer(1, {"10.0.0.1/24"}), offer(2, {})), Links{});
}

TEST(Pairing, SeveralInterfacesInOneSubnetGoInTheirOrder) {
    EXPECT_EQ(pairs(offer(1, {"10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"}),
                    offer(2, {"10.0.0.11/24", "10.0.0.12/24"})),
              (Links{{0, 0, false}, {1, 1, false}}));
}

TEST(Pairing, ThePrefixesOfBothCount) {
    EXPECT_TRUE(pairs(offer(1, {"10.0.0.1/8"}), offer(2, {"10.0.1.1/24"}))[0].routed);
    EXPECT_FALSE(pairs(offer(1, {"10.0.1.2/8"}), offer(2, {"10.0.1.1/24"}))[0].routed);
    EXPECT_FALSE(pairs(offer(1, {"10.0.0.6/30"}), offer(2, {"10.0.0.5/30"}))[0].routed);
    EXPECT_TRUE(pairs(offer(1, {"10.0.0.6/30"}), offer(2, {"10.0.0.8/30"}))[0].routed);
    EXPECT_TRUE(pairs(offer(1, {"10.0.0.6/32"}), offer(2, {"10.0.0.7/32"}))[0].routed);
}

TEST(Pairing, Ipv6WhereOnlyItMatches) {
    InterfaceOffer a{1, {entry(0, "10.0.0.1/24"), entry(0, "fd00:1::1/64")}};
    InterfaceOffer b{2, {entry(0, "10.0.0.2/24"), entry(0, "fd00:1::2/64")}};
    EXPECT_EQ(pairs(a, b), (Links{{0, 0, false}}));
    b.entries[0] = entry(0, "10.5.0.2/24");
    EXPECT_EQ(pairs(a, b), (Links{{1, 1, false}}));
    b.entries[1] = entry(0, "fd00:2::2/64");
    EXPECT_EQ(pairs(a, b), (Links{{0, 0, true}}));
}

TEST(Pairing, LoopbackOnlyInsideOneHostAndThenAlone) {
    const auto a = offer(1, {"127.0.0.1/8", "10.0.0.1/24"});
    EXPECT_EQ(pairs(a, offer(2, {"127.0.0.1/8", "10.0.0.2/24"})), (Links{{1, 1, false}}));
    const auto same = offer(1, {"127.0.0.1/8", "10.0.0.1/24"});
    EXPECT_EQ(pairs(a, same), (Links{{0, 0, false}}));
    EXPECT_EQ(pairs(a, same, {.loopback_alone = false}), (Links{{0, 0, false}, {1, 1, false}}));
    EXPECT_EQ(pairs(a, offer(1, {"10.0.0.1/24"})), (Links{{1, 0, false}}));
}

TEST(Pairing, AnAddressThatBothHostsHaveIsNoWay) {
    EXPECT_EQ(pairs(offer(1, {"172.17.0.1/16", "10.0.0.1/24"}),
                    offer(2, {"172.17.0.1/16", "10.0.0.2/24"})),
              (Links{{1, 1, false}}));
    EXPECT_EQ(pairs(offer(1, {"172.17.0.1/16"}), offer(2, {"172.17.0.2/16", "172.17.0.1/16"})),
              Links{});
}

TEST(Pairing, LinkLocalIsNeverRouted) {
    EXPECT_EQ(pairs(offer(1, {"fe80::1/64"}), offer(2, {"fe80::2/64"})), (Links{{0, 0, false}}));
    EXPECT_EQ(pairs(offer(1, {"fe80::1/64"}), offer(2, {"fd00::2/64"})), Links{});
    EXPECT_EQ(pairs(offer(1, {"169.254.1.1/16"}), offer(2, {"10.0.0.2/24"})), Links{});
    EXPECT_EQ(pairs(offer(1, {"169.254.1.1/16"}), offer(2, {"169.254.9.1/16"})),
              (Links{{0, 0, false}}));
}

/// Some interfaces in few subnets, so that much coincides.
InterfaceOffer random_offer(test::Random& random, std::uint64_t host) {
    InterfaceOffer result{host, {}};
    const std::uint32_t interfaces = random.below(7);
    for (std::uint32_t i = 0; i < interfaces; ++i) {
        const std::uint32_t addresses = random.between(1, 3);
        for (std::uint32_t k = 0; k < addresses && result.entries.size() < most_offered; ++k) {
            const auto subnet = std::to_string(random.below(3));
            const auto number = std::to_string(random.between(1, 9));
            std::string text =
                "10.0." + subnet + "." + number + "/" + (random.one_in(3) ? "16" : "24");
            if (random.one_in(3)) text = "fd00:" + subnet + "::" + number + "/64";
            if (random.one_in(6)) text = "fe80::" + number + "/64";
            if (random.one_in(8)) text = "127.0.0.1/8";
            result.entries.push_back(entry(static_cast<std::uint8_t>(i), text));
        }
    }
    if (random.one_in(2))
        for (std::size_t i = result.entries.size(); i > 1; --i)
            std::swap(result.entries[i - 1],
                      result.entries[random.below(static_cast<std::uint32_t>(i))]);
    return result;
}

TEST(PairingProperties, BothSidesAgreeAndNoInterfaceIsInTwoLinksOrLeftOverForNothing) {
    for (std::uint64_t seed = 1; seed <= test::repeated(20000); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        test::Random random(seed);
        const auto a = random_offer(random, 1);
        auto b = random_offer(random, random.one_in(4) ? 1 : 2);
        if (random.one_in(10)) b = a;
        const PairingRules rules{.loopback_alone = random.one_in(2)};
        const auto links = pair_interfaces(a, b, rules);
        ASSERT_EQ(swapped(pair_interfaces(b, a, rules)), links);
        std::set<std::uint8_t> used_a;
        std::set<std::uint8_t> used_b;
        bool loopback = false;
        bool routed_before = false;
        for (const LinkPair& link : links) {
            const auto& x = a.entries.at(link.a);
            const auto& y = b.entries.at(link.b);
            ASSERT_TRUE(used_a.insert(x.interface).second);
            ASSERT_TRUE(used_b.insert(y.interface).second);
            ASSERT_EQ(x.family, y.family);
            ASSERT_EQ(x.loopback, y.loopback);
            ASSERT_TRUE(!x.loopback || a.host == b.host);
            ASSERT_TRUE(!routed_before || link.routed) << "one in a subnet after a routed one";
            routed_before = link.routed;
            loopback = loopback || x.loopback;
        }
        if (loopback && rules.loopback_alone) {
            ASSERT_EQ(links.size(), 1U);
            continue;
        }
        // Whatever is left could not have been paired: alone it gives no link either.
        InterfaceOffer rest_a{a.host, {}};
        InterfaceOffer rest_b{b.host, {}};
        for (const auto& one : a.entries)
            if (!used_a.contains(one.interface)) rest_a.entries.push_back(one);
        for (const auto& one : b.entries)
            if (!used_b.contains(one.interface)) rest_b.entries.push_back(one);
        for (const LinkPair& link : pair_interfaces(rest_a, rest_b, rules)) {
            // Only because the address is known from what was taken out of the lists.
            const auto& x = rest_a.entries.at(link.a);
            const auto& y = rest_b.entries.at(link.b);
            const auto holds = [](const InterfaceOffer& list, const OfferedInterface& one) {
                return std::any_of(list.entries.begin(), list.entries.end(), [&](const auto& e) {
                    return e.family == one.family && e.address == one.address;
                });
            };
            ASSERT_TRUE(holds(a, y) || holds(b, x));
        }
    }
}

TEST(OfferCode, WhatIsWrittenIsRead) {
    for (std::uint64_t seed = 1; seed <= test::repeated(5000); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        test::Random random(seed);
        InterfaceOffer written = random_offer(random, random.next());
        std::array<std::byte, most_offer_bytes> bytes;
        const std::size_t length = encode(written, bytes);
        const auto read = decode_offer(std::span(bytes).first(length));
        if (!read.ok()) {
            FAIL() << read.error().sentence;
        }
        // The first MAC of an interface is that of all its entries.
        ASSERT_EQ(read.value().entries.size(), written.entries.size());
        InterfaceOffer again = read.value();
        std::array<std::byte, most_offer_bytes> second{};
        ASSERT_EQ(encode(again, second), length);
        ASSERT_TRUE(
            std::equal(bytes.begin(), bytes.begin() + static_cast<long>(length), second.begin()));
    }
}

TEST(OfferCode, SixteenFitAndWhatDoesNotIsTakenOut) {
    std::array<std::byte, most_offer_bytes> bytes;
    InterfaceOffer both{1, {}};
    for (std::uint8_t i = 0; i < 8; ++i) {
        both.entries.push_back(entry(i, "10.0.0." + std::to_string(i + 1) + "/24"));
        both.entries.push_back(entry(i, "fd00::" + std::to_string(i + 1) + "/64"));
    }
    EXPECT_LE(encode(both, bytes), bytes.size());
    EXPECT_EQ(both.entries.size(), 16U);
    InterfaceOffer many{1, {}};
    for (std::uint8_t i = 0; i < 20; ++i)
        many.entries.push_back(entry(i & 15, "10.0.0." + std::to_string(i + 1) + "/24"));
    EXPECT_LE(encode(many, bytes), bytes.size());
    EXPECT_EQ(many.entries.size(), 16U);
    InterfaceOffer wide{1, {}};
    for (std::uint8_t i = 0; i < 16; ++i)
        wide.entries.push_back(entry(i, "fd00::" + std::to_string(i + 1) + "/64"));
    const std::size_t length = encode(wide, bytes);
    EXPECT_EQ(wide.entries.size(), 15U);
    const auto read = decode_offer(std::span(bytes).first(length));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read.value(), wide);
}

TEST(OfferCode, RefusesWhatNoHostWouldOffer) {
    const auto refused = [](const OfferedInterface& bad) {
        InterfaceOffer wrong{1, {entry(0, "10.0.0.1/24"), bad}};
        std::array<std::byte, most_offer_bytes> bytes;
        const std::size_t length = encode(wrong, bytes);
        return !decode_offer(std::span(bytes).first(length)).ok();
    };
    EXPECT_FALSE(refused(entry(1, "10.0.0.2/24")));
    for (const char* text : {"127.0.0.1/8", "::1/128"}) {
        auto bad = entry(1, text);
        EXPECT_FALSE(refused(bad)) << text;
        bad.loopback = false;
        EXPECT_TRUE(refused(bad)) << text;
    }
    auto bad = entry(1, "10.0.0.2/24");
    bad.loopback = true;
    EXPECT_TRUE(refused(bad));
    for (const char* text :
         {"0.0.0.0/24", "224.0.0.1/24", "255.255.255.255/32", "::/64", "ff02::1/64",
          "::ffff:127.0.0.1/96", "::7f00:1/96", "10.0.0.2/0", "10.0.0.2/33", "fd00::1/129"})
        EXPECT_TRUE(refused(entry(1, text))) << text;
    bad = entry(1, "10.0.0.2/24");
    bad.port = 0;
    EXPECT_TRUE(refused(bad));
    bad = entry(1, "10.0.0.2/24");
    bad.mtu = 1279;
    EXPECT_TRUE(refused(bad));
    bad = entry(1, "10.0.0.2/24");
    bad.mac = {1, 0, 0x5E, 0, 0, 1};
    EXPECT_TRUE(refused(bad));
}

TEST(OfferCode, AnyBytesAreReadOrRefused) {
    std::size_t accepted = 0;
    for (std::uint64_t seed = 1; seed <= test::repeated(50000); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        test::Random random(seed);
        std::array<std::byte, most_offer_bytes> bytes{};
        InterfaceOffer start = random_offer(random, 3);
        std::size_t length = encode(start, bytes);
        for (std::uint32_t i = random.below(4); i > 0; --i)
            bytes[random.below(static_cast<std::uint32_t>(length))] =
                static_cast<std::byte>(random.next());
        if (random.one_in(3)) length = random.below(static_cast<std::uint32_t>(length) + 1);
        // Exactly as long as it is, so that the sanitizer sees a step beyond.
        const std::vector<std::byte> exact(bytes.begin(),
                                           bytes.begin() + static_cast<long>(length));
        const auto read = decode_offer(exact);
        if (!read.ok()) continue;
        ++accepted;
        InterfaceOffer again = read.value();
        std::array<std::byte, most_offer_bytes> second{};
        ASSERT_EQ(encode(again, second), length);
        ASSERT_EQ(again, read.value());
    }
    EXPECT_GT(accepted, 0U);
}

TEST(InterfacesToOffer, OneOfEachFamilyAndTheNecessaryFirst) {
    InterfaceChoice choice;
    for (std::uint32_t i = 0; i < 12; ++i) {
        InterfaceRow row;
        row.used = i != 3;
        row.interface.name = "eth" + std::to_string(i);
        row.interface.index = i + 1;
        row.interface.mtu = i == 0 ? 65536 : 1500;
        row.interface.ethernet = true;
        row.interface.mac = {2, 0, 0, 0, 0, static_cast<std::uint8_t>(i)};
        for (const char* last : {"1", "2"})
            for (const char* text : {"10.0.0.", "fd00::"}) {
                const bool four = text[0] == '1';
                const auto from = entry(0, std::string(text) + last + (four ? "/24" : "/64"));
                InterfaceAddress address;
                address.family = from.family;
                address.address = from.address;
                address.prefix = from.prefix;
                row.interface.addresses.push_back(address);
            }
        choice.rows.push_back(row);
    }
    const auto offered = interfaces_to_offer(choice);
    ASSERT_EQ(offered.size(), most_offered);
    for (std::size_t i = 0; i < offered.size(); ++i) {
        EXPECT_EQ(offered[i].entry.family, i < 11 ? Family::Ipv4 : Family::Ipv6) << i;
        EXPECT_NE(offered[i].name, "eth3");
        EXPECT_EQ(offered[i].entry.address[i < 11 ? 3 : 15], 1) << i;
    }
    EXPECT_EQ(offered[0].entry.mtu, 65535);
    EXPECT_EQ(offered[11].entry.interface, offered[0].entry.interface);
    EXPECT_EQ(offered[0].name, offered[11].name);
}

}  // namespace
