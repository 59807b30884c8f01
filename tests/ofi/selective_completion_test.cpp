// SPDX-License-Identifier: BSD-3-Clause
// Who binds a queue with FI_SELECTIVE_COMPLETION hears only of what it asks to hear of.
#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

Wish selective(std::uint64_t defaults) {
    Wish wish;
    wish.queue_flags |= FI_SELECTIVE_COMPLETION;
    wish.transmit_flags = defaults;
    wish.receive_flags = defaults;
    return wish;
}

void send_message(Pair& pair, const char* text, std::size_t bytes, std::uint64_t flags) {
    iovec piece{const_cast<char*>(text), bytes};
    fi_msg message{};
    message.msg_iov = &piece;
    message.iov_count = 1;
    message.addr = 0;
    until_taken(
        pair.a, &pair.b, [&] { return fi_sendmsg(pair.a.ep.get(), &message, flags); },
        "fi_sendmsg");
}

}  // namespace

TEST(SelectiveCompletion, WithoutTheFlagThereIsNoEntry) {
    char text[16] = "quiet";
    char got[16] = "";
    Pair pair(selective(0));
    check(fi_recv(pair.b.ep.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_send(pair.a.ep.get(), text, sizeof text, nullptr, 0, nullptr); },
        "fi_send");
    const auto deadline = via::base::Deadline::after_milliseconds(20'000);
    while (std::string_view(got) != "quiet" && !deadline.expired())
        pair.b.expect_quiet(&pair.a);
    EXPECT_STREQ(got, "quiet");
    pair.a.expect_quiet(&pair.b);
}

TEST(SelectiveCompletion, WithTheFlagInTheCallThereIsOne) {
    char got[16];  // the message may come while the pair is closed
    Pair pair(selective(0));
    check(fi_recv(pair.b.ep.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    send_message(pair, "loud", 5, FI_COMPLETION);
    EXPECT_TRUE(pair.a.next_good(&pair.b).flags & FI_SEND);
}

TEST(SelectiveCompletion, TheFlagCanBeTheDefaultAndLeftOutInACall) {
    char text[16] = "text";
    char got[16];
    Pair pair(selective(FI_COMPLETION));
    check(fi_recv(pair.b.ep.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_send(pair.a.ep.get(), text, sizeof text, nullptr, 0, nullptr); },
        "fi_send");
    (void)pair.a.next_good(&pair.b);
    (void)pair.b.next_good(&pair.a);
    check(fi_recv(pair.b.ep.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    send_message(pair, "quiet", 6, 0);
    (void)pair.b.next_good(&pair.a);
    pair.a.expect_quiet(&pair.b);
}

TEST(SelectiveCompletion, ErrorsAreAlwaysTold) {
    Pair pair(selective(0));
    char got[4];
    check(fi_recv(pair.b.ep.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, got), "fi_recv");
    send_message(pair, "longer than four", 16, 0);
    const Event event = pair.b.next(&pair.a);
    ASSERT_TRUE(event.is_error);
    EXPECT_EQ(event.error.err, FI_ETRUNC);
}
