// SPDX-License-Identifier: BSD-3-Clause
// Datagram endpoints: plain messages up to a length, and nothing else.
#include <array>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

Wish datagrams() {
    Wish wish;
    wish.type = FI_EP_DGRAM;
    wish.caps = FI_MSG;
    return wish;
}

void expect_arrival(Pair& pair, std::size_t bytes, std::uint64_t data) {
    const std::vector<char> text = pattern(bytes, 3);
    std::vector<char> got(bytes + 1, 'u');
    check(fi_recv(pair.b.ep.get(), got.data(), bytes, nullptr, FI_ADDR_UNSPEC, &got), "fi_recv");
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_senddata(pair.a.ep.get(), text.data(), bytes, nullptr, data, 0, nullptr); },
        "fi_senddata");
    const fi_cq_tagged_entry entry = pair.b.next_good(&pair.a);
    EXPECT_EQ(entry.op_context, &got);
    EXPECT_EQ(entry.len, bytes);
    EXPECT_EQ(entry.data, data);
    EXPECT_TRUE(entry.flags & FI_REMOTE_CQ_DATA);
    EXPECT_TRUE(std::equal(text.begin(), text.end(), got.begin()));
    EXPECT_EQ(got[bytes], 'u');
    (void)pair.a.next_good(&pair.b);
}

}  // namespace

TEST(Datagram, WhatIsOffered) {
    const Info info = get_info(datagrams());
    EXPECT_EQ(info->ep_attr->type, FI_EP_DGRAM);
    EXPECT_EQ(info->next, nullptr);
    EXPECT_EQ(info->ep_attr->max_msg_size, 65536U);
    EXPECT_LE(info->tx_attr->inject_size, info->ep_attr->max_msg_size);
    EXPECT_EQ(info->caps & (FI_TAGGED | FI_RMA | FI_ATOMIC | FI_READ | FI_REMOTE_WRITE), 0U);
    const std::uint64_t needed = FI_MSG | FI_SEND | FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM;
    EXPECT_EQ(info->caps & needed, needed);
    for (const std::uint64_t caps : {FI_TAGGED, FI_RMA, FI_ATOMIC}) {
        const Info hints = hints_for(datagrams());
        hints->caps = caps;
        fi_info* found = nullptr;
        EXPECT_EQ(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found),
                  -FI_ENODATA);
    }
    const Info hints = hints_for(datagrams());
    hints->ep_attr->max_msg_size = 65537;
    fi_info* found = nullptr;
    EXPECT_EQ(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found), -FI_ENODATA);
}

TEST(Datagram, ArriveWholeUpToTheLongest) {
    Pair pair(datagrams());
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{1000},
                                    std::size_t{20'000}, std::size_t{65536}})
        expect_arrival(pair, bytes, bytes + 7);
}

TEST(Datagram, LongerOnesAreRefused) {
    Pair pair(datagrams());
    std::vector<char> text(65537);
    std::array<iovec, 2> pieces{{{text.data(), 65536}, {text.data(), 1}}};
    fi_msg message{};
    message.msg_iov = pieces.data();
    message.iov_count = pieces.size();
    fid_ep* const ep = pair.a.ep.get();
    EXPECT_EQ(fi_send(ep, text.data(), text.size(), nullptr, 0, nullptr), -FI_EMSGSIZE);
    EXPECT_EQ(fi_sendv(ep, pieces.data(), nullptr, pieces.size(), 0, nullptr), -FI_EMSGSIZE);
    EXPECT_EQ(fi_sendmsg(ep, &message, FI_COMPLETION), -FI_EMSGSIZE);
    EXPECT_EQ(fi_senddata(ep, text.data(), text.size(), nullptr, 1, 0, nullptr), -FI_EMSGSIZE);
    EXPECT_EQ(fi_inject(ep, text.data(), text.size(), 0), -FI_EMSGSIZE);
    pair.b.expect_quiet(&pair.a);
    // A length that makes the sum wrap around is no short message.
    pieces[1].iov_len = SIZE_MAX;
    EXPECT_EQ(fi_sendv(ep, pieces.data(), nullptr, pieces.size(), 0, nullptr), -FI_EMSGSIZE);
    expect_arrival(pair, 100, 1);
}

TEST(Datagram, HaveNothingButPlainMessages) {
    Pair pair(datagrams());
    fid_ep* const ep = pair.a.ep.get();
    char byte = 0;
    EXPECT_EQ(fi_tsend(ep, &byte, 1, nullptr, 0, 1, nullptr), -FI_ENOSYS);
    EXPECT_EQ(fi_trecv(ep, &byte, 1, nullptr, 0, 1, 0, nullptr), -FI_ENOSYS);
    EXPECT_EQ(fi_write(ep, &byte, 1, nullptr, 0, 0, 1, nullptr), -FI_ENOSYS);
    EXPECT_EQ(fi_read(ep, &byte, 1, nullptr, 0, 0, 1, nullptr), -FI_ENOSYS);
    EXPECT_EQ(fi_atomic(ep, &byte, 1, nullptr, 0, 0, 1, FI_UINT8, FI_SUM, nullptr), -FI_ENOSYS);
}

TEST(Datagram, TheSourceIsTold) {
    const Info hints = hints_for(datagrams());
    hints->caps |= FI_SOURCE | FI_DIRECTED_RECV;
    fi_info* found = nullptr;
    check(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found), "fi_getinfo");
    EXPECT_TRUE(Info(found)->caps & FI_SOURCE);
    Pair pair(datagrams());
    for (Node* from : {&pair.a, &pair.b}) {
        char got[8] = {};
        check(fi_recv(pair.a.ep.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, nullptr),
              "fi_recv");
        const fi_addr_t to = from == &pair.a ? 1 : 0;
        until_taken(
            *from, &pair.a, [&] { return fi_inject(from->ep.get(), "who", 4, to); }, "fi_inject");
        const Event event = pair.a.next(&pair.b);
        EXPECT_FALSE(event.is_error);
        EXPECT_EQ(event.source, from == &pair.a ? 1U : 0U);
        EXPECT_STREQ(got, "who");
    }
}

TEST(Datagram, AReceiveThatWaitsIsCancelled) {
    Node node(datagrams());
    char got[8];
    check(fi_recv(node.ep.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, got), "fi_recv");
    check(fi_cancel(&node.ep->fid, got), "fi_cancel");
    const Event event = node.next();
    ASSERT_TRUE(event.is_error);
    EXPECT_EQ(event.error.err, FI_ECANCELED);
}

TEST(Datagram, NothingIsOrderedBeforeTheEndpointIsEnabled) {
    Node node(datagrams(), Node::NoEndpoint{});
    node.open_endpoint();
    char byte = 0;
    EXPECT_EQ(fi_send(node.ep.get(), &byte, 1, nullptr, 0, nullptr), -FI_EOPBADSTATE);
    EXPECT_EQ(fi_recv(node.ep.get(), &byte, 1, nullptr, 0, nullptr), -FI_EOPBADSTATE);
    EXPECT_EQ(fi_enable(node.ep.get()), -FI_ENOAV);
}
