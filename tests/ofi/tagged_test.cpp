// SPDX-License-Identifier: BSD-3-Clause
// Messages with tags: matching, looking before receiving, cancelling, buffers that are too short.
#include <cstring>
#include <deque>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

void send(Node& from, Node& to, std::uint64_t tag, const std::vector<char>& given,
          fi_addr_t peer = 0) {
    // What is under way needs its memory, also when the test has gone on.
    static std::deque<std::vector<char>> kept;
    const std::vector<char>& text = kept.emplace_back(given);
    until_taken(
        from, &to,
        [&] {
            return fi_tsend(from.ep.get(), text.data(), text.size(), nullptr, peer, tag, nullptr);
        },
        "fi_tsend");
}

void receive(Node& node, std::uint64_t tag, std::uint64_t ignore, std::vector<char>& into,
             void* context = nullptr, fi_addr_t from = FI_ADDR_UNSPEC) {
    check(fi_trecv(node.ep.get(), into.data(), into.size(), nullptr, from, tag, ignore, context),
          "fi_trecv");
}

/// FI_PEEK and its kin.
ssize_t look(Node& node, std::uint64_t tag, std::uint64_t flags, void* context,
             std::vector<char>* into = nullptr) {
    iovec piece{};
    fi_msg_tagged message{};
    if (into != nullptr) {
        piece = {into->data(), into->size()};
        message.msg_iov = &piece;
        message.iov_count = 1;
    }
    message.addr = FI_ADDR_UNSPEC;
    message.tag = tag;
    message.context = context;
    return fi_trecvmsg(node.ep.get(), &message, flags | FI_COMPLETION);
}

/// Peeks until the message is there.
Event peek(Node& node, Node& other, std::uint64_t tag, std::uint64_t flags, void* context) {
    const auto deadline = via::base::Deadline::after_milliseconds(20'000);
    for (;;) {
        check(look(node, tag, flags | FI_PEEK, context), "peek");
        const Event event = node.next(&other);
        if (!event.is_error) return event;
        EXPECT_EQ(event.error.err, FI_ENOMSG);
        EXPECT_EQ(event.error.op_context, context);
        if (deadline.expired()) throw std::runtime_error("the message does not come");
    }
}

}  // namespace

TEST(Tagged, AReceiveTakesItsTagAndNoOther) {
    Pair pair;
    std::vector<char> first(16);
    std::vector<char> second(16);
    receive(pair.b, 1, 0, first, &first);
    receive(pair.b, 2, 0, second, &second);
    send(pair.a, pair.b, 2, pattern(16, 2));
    fi_cq_tagged_entry entry = pair.b.next_good(&pair.a);
    EXPECT_EQ(entry.op_context, &second);
    EXPECT_EQ(entry.tag, 2U);
    EXPECT_TRUE(entry.flags & FI_TAGGED);
    EXPECT_EQ(second, pattern(16, 2));
    send(pair.a, pair.b, 1, pattern(16, 1));
    entry = pair.b.next_good(&pair.a);
    EXPECT_EQ(entry.op_context, &first);
    EXPECT_EQ(first, pattern(16, 1));
}

TEST(Tagged, IgnoredBitsDoNotCountAndTheTagIsTold) {
    Pair pair;
    std::vector<char> got(16);
    receive(pair.b, 0xAB00, 0xFF, got);
    send(pair.a, pair.b, 0xAC17, pattern(16));
    send(pair.a, pair.b, 0xAB17, pattern(16, 5));
    EXPECT_EQ(pair.b.next_good(&pair.a).tag, 0xAB17U);
    EXPECT_EQ(got, pattern(16, 5));
    receive(pair.b, 0, ~0ULL, got);
    EXPECT_EQ(pair.b.next_good(&pair.a).tag, 0xAC17U);
}

TEST(Tagged, AllSixtyFourBitsCount) {
    Pair pair;
    std::vector<char> got(4);
    receive(pair.b, 1ULL << 63, 0, got, &got);
    send(pair.a, pair.b, 1ULL << 62, pattern(4));
    send(pair.a, pair.b, 1ULL << 63, pattern(4, 2));
    EXPECT_EQ(pair.b.next_good(&pair.a).tag, 1ULL << 63);
    pair.b.expect_quiet(&pair.a);
}

TEST(Tagged, ASourceThatWasInsertedTwiceHasTwoNumbers) {
    Pair pair;
    const fi_addr_t second = pair.b.insert(pair.a);
    ASSERT_EQ(second, 2U);
    std::vector<char> got(16);
    receive(pair.b, 7, 0, got, nullptr, second);
    send(pair.a, pair.b, 7, pattern(16, 3));
    EXPECT_EQ(pair.b.next_good(&pair.a).tag, 7U);
    EXPECT_EQ(got, pattern(16, 3));
    receive(pair.a, 8, 0, got, &got, 0);
    send(pair.b, pair.a, 8, pattern(16, 4), second);
    fi_cq_tagged_entry entry = pair.a.next_good(&pair.b);  // that of the send above, perhaps
    if (entry.op_context != &got) entry = pair.a.next_good(&pair.b);
    EXPECT_EQ(entry.op_context, &got);
    EXPECT_EQ(got, pattern(16, 4));
}

TEST(Tagged, AReceiveFromOneSourceTakesNoOther) {
    Pair pair;
    Node third;
    third.insert(pair.b);
    pair.b.insert(third);  // number 2
    std::vector<char> got(16);
    receive(pair.b, 7, 0, got, nullptr, 2);
    send(pair.a, pair.b, 7, pattern(16, 1));
    for (int i = 0; i < 2000; ++i) {
        pair.a.progress();
        pair.b.progress();
    }
    send(third, pair.b, 7, pattern(16, 3));
    const Event event = pair.b.next(&third);
    ASSERT_FALSE(event.is_error);
    EXPECT_EQ(event.source, 2U);
    EXPECT_EQ(got, pattern(16, 3));
}

TEST(Tagged, ReceivesWithoutTheCapabilityHeedNoSource) {
    Wish wish;
    wish.caps = FI_TAGGED;
    Pair pair(wish);
    std::vector<char> got(4);
    receive(pair.b, 1, 0, got, nullptr, 1);
    send(pair.a, pair.b, 1, pattern(4));
    (void)pair.b.next_good(&pair.a);
}

TEST(Tagged, APeekInVainIsAnErrorOfTheQueue) {
    Pair pair;
    int context = 0;
    ASSERT_EQ(look(pair.b, 3, FI_PEEK, &context), 0);
    const Event event = pair.b.next();
    ASSERT_TRUE(event.is_error);
    EXPECT_EQ(event.error.err, FI_ENOMSG);
    EXPECT_EQ(event.error.op_context, &context);
    EXPECT_NE(fi_cq_strerror(pair.b.cq.get(), event.error.prov_errno, nullptr, nullptr, 0),
              nullptr);
}

class Look : public testing::TestWithParam<std::size_t> {};

TEST_P(Look, APeekShowsTheMessageAndLeavesIt) {
    Pair pair;
    const std::vector<char> text = pattern(GetParam());
    send(pair.a, pair.b, 3, text);
    int context = 0;
    const Event seen = peek(pair.b, pair.a, 3, 0, &context);
    EXPECT_EQ(seen.entry.len, GetParam());
    EXPECT_EQ(seen.entry.tag, 3U);
    EXPECT_EQ(seen.source, 0U);
    std::vector<char> got(GetParam());
    receive(pair.b, 3, 0, got);
    EXPECT_EQ(pair.b.next_good(&pair.a).len, GetParam());
    EXPECT_EQ(got, text);
}

TEST_P(Look, AClaimedMessageIsForItsClaimer) {
    Pair pair;
    const std::vector<char> text = pattern(GetParam(), 1);
    send(pair.a, pair.b, 3, text);
    int context = 0;
    (void)peek(pair.b, pair.a, 3, FI_CLAIM, &context);
    // Another receive with the same tag takes the next one.
    const std::vector<char> second = pattern(GetParam(), 2);
    std::vector<char> other(GetParam());
    receive(pair.b, 3, 0, other, &other);
    send(pair.a, pair.b, 3, second);
    EXPECT_EQ(pair.b.next_good(&pair.a).op_context, &other);
    EXPECT_EQ(other, second);
    std::vector<char> got(GetParam());
    ASSERT_EQ(look(pair.b, 3, FI_CLAIM, &context, &got), 0);
    const fi_cq_tagged_entry entry = pair.b.next_good(&pair.a);
    EXPECT_EQ(entry.op_context, &context);
    EXPECT_EQ(entry.len, GetParam());
    EXPECT_EQ(got, text);
}

TEST_P(Look, ADiscardedMessageIsGone) {
    Pair pair;
    send(pair.a, pair.b, 3, pattern(GetParam()));
    int context = 0;
    (void)peek(pair.b, pair.a, 3, FI_DISCARD, &context);
    send(pair.a, pair.b, 3, pattern(8, 5));
    std::vector<char> got(8);
    receive(pair.b, 3, 0, got);
    EXPECT_EQ(pair.b.next_good(&pair.a).len, 8U);
    EXPECT_EQ(got, pattern(8, 5));
    (void)pair.a.next_good(&pair.b);
    (void)pair.a.next_good(&pair.b);
}

TEST_P(Look, AClaimedMessageCanBeDiscarded) {
    Pair pair;
    send(pair.a, pair.b, 3, pattern(GetParam()));
    int context = 0;
    (void)peek(pair.b, pair.a, 3, FI_CLAIM, &context);
    ASSERT_EQ(look(pair.b, 3, FI_CLAIM | FI_DISCARD, &context), 0);
    EXPECT_EQ(pair.b.next_good(&pair.a).op_context, &context);
    (void)pair.a.next_good(&pair.b);
    ASSERT_LT(look(pair.b, 3, FI_CLAIM, &context), 0) << "it is not there twice";
}

TEST_P(Look, ABufferThatIsTooShortIsFilledAndSaidSo) {
    if (GetParam() < 2) GTEST_SKIP() << "nothing is shorter than nothing";
    Pair pair;
    const std::vector<char> text = pattern(GetParam());
    std::vector<char> got(GetParam() / 2);
    int context = 0;
    receive(pair.b, 3, 0, got, &context);
    send(pair.a, pair.b, 3, text);
    const Event event = pair.b.next(&pair.a);
    ASSERT_TRUE(event.is_error);
    EXPECT_EQ(event.error.err, FI_ETRUNC);
    EXPECT_EQ(event.error.op_context, &context);
    EXPECT_EQ(event.error.tag, 3U);
    EXPECT_EQ(event.error.len, got.size());
    EXPECT_EQ(event.error.olen, GetParam() - got.size());
    EXPECT_EQ(std::memcmp(got.data(), text.data(), got.size()), 0);
    // And all goes on.
    (void)pair.a.next_good(&pair.b);
    std::vector<char> next(8);
    receive(pair.b, 4, 0, next);
    send(pair.a, pair.b, 4, pattern(8, 6));
    EXPECT_EQ(pair.b.next_good(&pair.a).len, 8U);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Look, testing::Values(0, 16, 3000, 20'000, 1'000'000));

TEST(Tagged, ACancelledReceiveTakesNothing) {
    Pair pair;
    std::vector<char> cancelled(8);
    std::vector<char> got(8);
    int context = 0;
    receive(pair.b, 1, 0, cancelled, &context);
    ASSERT_EQ(fi_cancel(&pair.b.ep->fid, &context), 0);
    const Event event = pair.b.next();
    ASSERT_TRUE(event.is_error);
    EXPECT_EQ(event.error.err, FI_ECANCELED);
    EXPECT_EQ(event.error.op_context, &context);
    receive(pair.b, 1, 0, got, &got);
    send(pair.a, pair.b, 1, pattern(8));
    EXPECT_EQ(pair.b.next_good(&pair.a).op_context, &got);
    EXPECT_EQ(fi_cancel(&pair.b.ep->fid, &context), -FI_ENOENT);
}

TEST(Tagged, InjectWithDataAndWithout) {
    Pair pair;
    std::vector<char> text = pattern(100);
    std::vector<char> got(100);
    receive(pair.b, 5, 0, got);
    until_taken(
        pair.a, &pair.b, [&] { return fi_tinject(pair.a.ep.get(), text.data(), 100, 0, 5); },
        "fi_tinject");
    EXPECT_FALSE(pair.b.next_good(&pair.a).flags & FI_REMOTE_CQ_DATA);
    receive(pair.b, 6, 0, got);
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_tinjectdata(pair.a.ep.get(), text.data(), 100, 42, 0, 6); },
        "fi_tinjectdata");
    const fi_cq_tagged_entry entry = pair.b.next_good(&pair.a);
    EXPECT_TRUE(entry.flags & FI_REMOTE_CQ_DATA);
    EXPECT_EQ(entry.data, 42U);
    EXPECT_EQ(got, text);
    pair.a.expect_quiet(&pair.b);
}

TEST(Tagged, TagsAndPlainMessagesDoNotMix) {
    Pair pair;
    std::vector<char> tagged(4);
    std::vector<char> plain(4);
    receive(pair.b, 0, ~0ULL, tagged, &tagged);
    check(fi_recv(pair.b.ep.get(), plain.data(), 4, nullptr, FI_ADDR_UNSPEC, &plain), "fi_recv");
    const std::vector<char> text = pattern(4, 4);
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_send(pair.a.ep.get(), text.data(), 4, nullptr, 0, nullptr); }, "fi_send");
    EXPECT_EQ(pair.b.next_good(&pair.a).op_context, &plain);
    pair.b.expect_quiet(&pair.a);
}

TEST(Tagged, ManyUnexpectedMessagesOfManySizes) {
    Pair pair;
    constexpr unsigned messages = 500;
    const auto size_of = [](unsigned i) { return (i * 977) % 40'000; };
    std::vector<std::vector<char>> texts;
    for (unsigned i = 0; i < messages; ++i) {
        texts.push_back(pattern(size_of(i), i));
        send(pair.a, pair.b, i, texts.back());
    }
    // The last first: nothing that waits is in the way of another.
    for (unsigned i = messages; i-- > 0;) {
        std::vector<char> got(size_of(i));
        receive(pair.b, i, 0, got);
        ASSERT_EQ(pair.b.next_good(&pair.a).len, size_of(i));
        ASSERT_EQ(got, texts[i]) << "message " << i;
    }
}
