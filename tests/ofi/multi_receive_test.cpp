// SPDX-License-Identifier: BSD-3-Clause
// One buffer for many messages.
#include <cstring>
#include <deque>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

void post(Node& node, std::vector<char>& buffer, void* context) {
    iovec piece{buffer.data(), buffer.size()};
    fi_msg message{};
    message.msg_iov = &piece;
    message.iov_count = 1;
    message.addr = FI_ADDR_UNSPEC;
    message.context = context;
    check(fi_recvmsg(node.ep.get(), &message, FI_MULTI_RECV | FI_COMPLETION), "fi_recvmsg");
}

void send(Pair& pair, const std::vector<char>& given) {
    // What is under way needs its memory, also when the test has gone on.
    static std::deque<std::vector<char>> kept;
    const std::vector<char>& text = kept.emplace_back(given);
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_send(pair.a.ep.get(), text.data(), text.size(), nullptr, 0, nullptr); },
        "fi_send");
}

void set_least(Node& node, std::size_t bytes) {
    check(fi_setopt(&node.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &bytes, sizeof bytes),
          "FI_OPT_MIN_MULTI_RECV");
    std::size_t told = 0;
    std::size_t length = sizeof told;
    check(fi_getopt(&node.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &told, &length),
          "fi_getopt");
    EXPECT_EQ(told, bytes);
}

}  // namespace

TEST(MultiReceive, MessagesLieOneBehindTheOtherUntilItIsSpent) {
    Pair pair;
    set_least(pair.b, 1000);
    std::vector<char> buffer(4096, 0);
    post(pair.b, buffer, &buffer);
    std::size_t used = 0;
    bool spent = false;
    for (unsigned i = 0; !spent; ++i) {
        ASSERT_LT(i, 10U);
        const std::vector<char> text = pattern(700, i);
        send(pair, text);
        const fi_cq_tagged_entry entry = pair.b.next_good(&pair.a);
        ASSERT_EQ(entry.op_context, &buffer);
        ASSERT_TRUE(entry.flags & FI_RECV);
        ASSERT_EQ(entry.len, 700U);
        const auto* at = static_cast<const char*>(entry.buf);
        ASSERT_GE(at, buffer.data() + used) << "messages do not overlap";
        ASSERT_LE(at + 700, buffer.data() + buffer.size());
        EXPECT_EQ(std::memcmp(at, text.data(), 700), 0);
        used = static_cast<std::size_t>(at - buffer.data()) + 700;
        spent = (entry.flags & FI_MULTI_RECV) != 0;
        if (!spent && used + 1000 > buffer.size()) {
            // Or it is told on its own.
            const fi_cq_tagged_entry last = pair.b.next_good(&pair.a);
            spent = (last.flags & FI_MULTI_RECV) != 0;
            ASSERT_TRUE(spent);
        }
        ASSERT_EQ(spent, used + 1000 > buffer.size());
    }
}

TEST(MultiReceive, WhatWaitsGoesIntoItToo) {
    Pair pair;
    set_least(pair.b, 64);
    for (unsigned i = 0; i < 5; ++i)
        send(pair, pattern(100, i));
    for (int i = 0; i < 2000; ++i) {
        pair.a.progress();
        pair.b.progress();
    }
    std::vector<char> buffer(4096, 0);
    post(pair.b, buffer, &buffer);
    for (unsigned i = 0; i < 5; ++i) {
        const fi_cq_tagged_entry entry = pair.b.next_good(&pair.a);
        ASSERT_EQ(entry.len, 100U);
        const std::vector<char> text = pattern(100, i);
        EXPECT_EQ(std::memcmp(entry.buf, text.data(), 100), 0) << "message " << i;
    }
}

TEST(MultiReceive, OneBufferAfterTheOther) {
    Pair pair;
    set_least(pair.b, 512);
    std::vector<char> first(2048, 0);
    std::vector<char> second(2048, 0);
    post(pair.b, first, &first);
    post(pair.b, second, &second);
    unsigned in_second = 0;
    for (unsigned i = 0; i < 6; ++i) {
        send(pair, pattern(600, i));
        fi_cq_tagged_entry entry = pair.b.next_good(&pair.a);
        if (!(entry.flags & FI_RECV)) entry = pair.b.next_good(&pair.a);
        const std::vector<char> text = pattern(600, i);
        EXPECT_EQ(std::memcmp(entry.buf, text.data(), 600), 0);
        if (entry.op_context == &second) ++in_second;
    }
    EXPECT_GE(in_second, 2U);
}

TEST(MultiReceive, CancelGivesTheBufferBack) {
    Pair pair;
    std::vector<char> buffer(2048, 0);
    post(pair.b, buffer, &buffer);
    ASSERT_EQ(fi_cancel(&pair.b.ep->fid, &buffer), 0);
    const Event event = pair.b.next();
    ASSERT_TRUE(event.is_error);
    EXPECT_EQ(event.error.err, FI_ECANCELED);
    EXPECT_EQ(event.error.op_context, &buffer);
}
