// SPDX-License-Identifier: BSD-3-Clause
// FI_DELIVERY_COMPLETE: a completion says that the peer has it.
#include "ofi/harness.hpp"

using namespace ofi_test;

TEST(Delivery, ACompletionComesOnlyAfterThePeerHasWorked) {
    Wish wish;
    wish.transmit_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
    Pair pair(wish);
    // The connection stands, so what follows does not wait for that.
    char byte = 1;
    char got = 0;
    check(fi_recv(pair.b.ep.get(), &got, 1, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    until_taken(
        pair.a, &pair.b, [&] { return fi_send(pair.a.ep.get(), &byte, 1, nullptr, 0, nullptr); },
        "fi_send");
    (void)pair.b.next_good(&pair.a);
    (void)pair.a.next_good(&pair.b);

    for (const std::size_t bytes :
         {std::size_t{10}, std::size_t{100'000}, std::size_t{1'000'000}}) {
        const std::vector<char> text = pattern(bytes);
        std::vector<char> into(bytes);
        check(fi_recv(pair.b.ep.get(), into.data(), bytes, nullptr, FI_ADDR_UNSPEC, nullptr),
              "fi_recv");
        until_taken(
            pair.a, &pair.b,
            [&] { return fi_send(pair.a.ep.get(), text.data(), bytes, nullptr, 0, &into); },
            "fi_send");
        EXPECT_EQ(pair.a.next_good(&pair.b).op_context, &into);
        EXPECT_EQ(into, text) << "told before it was there";
        (void)pair.b.next_good(&pair.a);
    }
}

TEST(Delivery, AMessageThatNobodyAskedForIsDeliveredWhenItWaitsThere) {
    Wish wish;
    wish.transmit_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
    Pair pair(wish);
    char text[64] = "early";
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_tsend(pair.a.ep.get(), text, sizeof text, nullptr, 0, 1, nullptr); },
        "fi_tsend");
    (void)pair.a.next_good(&pair.b);
}

TEST(Delivery, AFenceComesAfterAll) {
    Pair pair;
    std::vector<char> memory(200'000, 0);
    const auto region = pair.b.expose(memory.data(), memory.size(), 11);
    const std::vector<char> text = pattern(200'000);
    until_taken(
        pair.a, &pair.b,
        [&] {
            return fi_write(pair.a.ep.get(), text.data(), text.size(), nullptr, 0, 0, 11, nullptr);
        },
        "fi_write");
    char last = 'L';
    iovec piece{&last, 1};
    fi_msg message{};
    message.msg_iov = &piece;
    message.iov_count = 1;
    char got = 0;
    check(fi_recv(pair.b.ep.get(), &got, 1, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_sendmsg(pair.a.ep.get(), &message, FI_FENCE | FI_COMPLETION); },
        "fi_sendmsg");
    EXPECT_TRUE(pair.b.next_good(&pair.a).flags & FI_RECV);
    EXPECT_EQ(memory, text) << "the fenced message came before the write";
}
