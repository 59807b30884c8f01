// SPDX-License-Identifier: BSD-3-Clause
// Address vectors of both kinds.
#include <arpa/inet.h>

#include <array>
#include <cstring>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

sockaddr_in address(std::uint16_t port) {
    sockaddr_in made{};
    made.sin_family = AF_INET;
    made.sin_port = htons(port);
    made.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return made;
}

Open<fid_av> open_vector(Node& node, fi_av_attr attributes) {
    fid_av* opened = nullptr;
    check(fi_av_open(node.domain.get(), &attributes, &opened, nullptr), "fi_av_open");
    return Open<fid_av>(opened);
}

class Vector : public testing::TestWithParam<fi_av_type> {
  protected:
    Vector() : node(Wish{}, Node::NoEndpoint{}) {
        fi_av_attr attributes{};
        attributes.type = GetParam();
        av = open_vector(node, attributes);
    }
    Node node;
    Open<fid_av> av;
};

}  // namespace

TEST_P(Vector, CountsFromZeroAndFindsAgain) {
    const std::array<sockaddr_in, 3> three{address(1000), address(1001), address(1002)};
    std::array<fi_addr_t, 3> numbers{};
    ASSERT_EQ(fi_av_insert(av.get(), three.data(), 3, numbers.data(), 0, nullptr), 3);
    for (fi_addr_t i = 0; i < 3; ++i) {
        EXPECT_EQ(numbers[i], i);
        sockaddr_in found{};
        std::size_t bytes = sizeof found;
        ASSERT_EQ(fi_av_lookup(av.get(), i, &found, &bytes), 0);
        EXPECT_EQ(bytes, sizeof found);
        EXPECT_EQ(found.sin_port, three[i].sin_port);
    }
    EXPECT_EQ(fi_av_insert(av.get(), three.data(), 1, nullptr, 0, nullptr), 1)
        << "a program that counts by itself";
}

TEST_P(Vector, WhatIsRemovedIsGone) {
    const sockaddr_in one = address(1000);
    fi_addr_t number = 99;
    ASSERT_EQ(fi_av_insert(av.get(), &one, 1, &number, 0, nullptr), 1);
    ASSERT_EQ(fi_av_remove(av.get(), &number, 1, 0), 0);
    sockaddr_in found{};
    std::size_t bytes = sizeof found;
    EXPECT_LT(fi_av_lookup(av.get(), number, &found, &bytes), 0);
}

TEST_P(Vector, AnAddressOfAnotherFamilyIsNotTaken) {
    std::array<sockaddr_in, 2> two{address(1000), address(1001)};
    two[1].sin_family = AF_UNIX;
    std::array<fi_addr_t, 2> numbers{};
    std::array<int, 2> errors{-1, -1};
    EXPECT_EQ(fi_av_insert(av.get(), two.data(), 2, numbers.data(), FI_SYNC_ERR, errors.data()), 1);
    EXPECT_EQ(numbers[1], FI_ADDR_NOTAVAIL);
    EXPECT_EQ(errors[0], 0);
    EXPECT_EQ(errors[1], FI_EINVAL);
}

TEST_P(Vector, NamesAndServices) {
    fi_addr_t number = 99;
    ASSERT_EQ(fi_av_insertsvc(av.get(), "127.0.0.1", "4000", &number, 0, nullptr), 1);
    EXPECT_EQ(number, 0U);
    std::array<fi_addr_t, 6> numbers{};
    ASSERT_EQ(fi_av_insertsym(av.get(), "127.0.0.8", 3, "4009", 2, numbers.data(), 0, nullptr), 6);
    sockaddr_in found{};
    std::size_t bytes = sizeof found;
    ASSERT_EQ(fi_av_lookup(av.get(), numbers[5], &found, &bytes), 0);
    EXPECT_EQ(found.sin_port, htons(4010));
    EXPECT_EQ(found.sin_addr.s_addr, htonl(0x7F00000A)) << "127.0.0.10";
    EXPECT_EQ(fi_av_insertsvc(av.get(), "g00n13s", "4000", &number, 0, nullptr), 0);
}

TEST_P(Vector, AddressesAsText) {
    const sockaddr_in one = address(1234);
    char text[64];
    std::size_t bytes = sizeof text;
    ASSERT_NE(fi_av_straddr(av.get(), &one, text, &bytes), nullptr);
    EXPECT_STREQ(text, "fi_sockaddr_in://127.0.0.1:1234");
    EXPECT_EQ(bytes, std::strlen(text) + 1);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Vector, testing::Values(FI_AV_MAP, FI_AV_TABLE));

TEST(AddressVector, InsertionsInTheBackgroundAreTold) {
    Node node(Wish{}, Node::NoEndpoint{});
    fi_eq_attr events{};
    events.wait_obj = FI_WAIT_UNSPEC;
    fid_eq* opened = nullptr;
    check(fi_eq_open(node.fabric.get(), &events, &opened, nullptr), "fi_eq_open");
    const Open<fid_eq> eq(opened);
    fi_av_attr attributes{};
    attributes.type = FI_AV_TABLE;
    attributes.flags = FI_EVENT;
    Open<fid_av> av = open_vector(node, attributes);
    check(fi_av_bind(av.get(), &eq->fid, 0), "fi_av_bind");
    std::array<sockaddr_in, 2> two{address(1), address(2)};
    two[0].sin_family = AF_UNIX;
    std::array<fi_addr_t, 2> numbers{};
    int context = 0;
    ASSERT_EQ(fi_av_insert(av.get(), two.data(), 2, numbers.data(), 0, &context), 0);
    std::uint32_t event = 0;
    fi_eq_entry entry{};
    ASSERT_EQ(fi_eq_sread(eq.get(), &event, &entry, sizeof entry, 20'000, 0), -FI_EAVAIL);
    fi_eq_err_entry error{};
    ASSERT_EQ(fi_eq_readerr(eq.get(), &error, 0), static_cast<ssize_t>(sizeof error));
    EXPECT_EQ(error.data, 0U) << "which of them";
    EXPECT_EQ(error.context, &context);
    ASSERT_EQ(fi_eq_sread(eq.get(), &event, &entry, sizeof entry, 20'000, 0),
              static_cast<ssize_t>(sizeof entry));
    EXPECT_EQ(event, static_cast<std::uint32_t>(FI_AV_COMPLETE));
    EXPECT_EQ(entry.data, 1U) << "how many went well";
    EXPECT_EQ(entry.fid, &av->fid);
    EXPECT_EQ(fi_close(&eq->fid), -FI_EBUSY);
    av.reset();
}

TEST(AddressVector, HasSoManyBitsForContexts) {
    Node node(Wish{}, Node::NoEndpoint{});
    for (const int bits : {-1, 0, 8, 9}) {
        fi_av_attr attributes{};
        attributes.rx_ctx_bits = bits;
        fid_av* opened = nullptr;
        const int result = fi_av_open(node.domain.get(), &attributes, &opened, nullptr);
        EXPECT_EQ(result, bits < 0 || bits > 8 ? -FI_EINVAL : 0) << bits;
        if (result == 0) {
            EXPECT_EQ(fi_close(&opened->fid), 0);
        }
    }
}

TEST(AddressVector, CanBeClosedBeforeTheEndpoint) {
    Pair pair;
    char byte = 1;
    char got = 0;
    check(fi_recv(pair.b.ep.get(), &got, 1, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    pair.a.av.reset();
    until_taken(
        pair.a, &pair.b, [&] { return fi_inject(pair.a.ep.get(), &byte, 1, 0); }, "fi_inject");
    (void)pair.b.next_good(&pair.a);
}
