// SPDX-License-Identifier: BSD-3-Clause
// Messages without tags, in all the ways they can be sent and received.
#include <array>
#include <cstring>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

int context_of_send;
int context_of_receive;

class MessageOf : public testing::TestWithParam<std::size_t> {};

}  // namespace

TEST_P(MessageOf, AnySizeArrives) {
    Pair pair;
    const std::vector<char> text = pattern(GetParam());
    std::vector<char> got(GetParam(), 0);
    until_taken(
        pair.b, &pair.a,
        [&] {
            return fi_recv(pair.b.ep.get(), got.data(), got.size(), nullptr, FI_ADDR_UNSPEC,
                           &context_of_receive);
        },
        "fi_recv");
    until_taken(
        pair.a, &pair.b,
        [&] {
            return fi_send(pair.a.ep.get(), text.data(), text.size(), nullptr, 0, &context_of_send);
        },
        "fi_send");
    const Event received = pair.b.next(&pair.a);
    ASSERT_FALSE(received.is_error);
    EXPECT_EQ(received.entry.op_context, &context_of_receive);
    EXPECT_EQ(received.entry.flags & (FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA), FI_RECV | FI_MSG);
    EXPECT_EQ(received.entry.len, GetParam());
    EXPECT_EQ(received.source, 0U);
    EXPECT_EQ(got, text);
    const fi_cq_tagged_entry sent = pair.a.next_good(&pair.b);
    EXPECT_EQ(sent.op_context, &context_of_send);
    EXPECT_EQ(sent.flags & (FI_SEND | FI_MSG), FI_SEND | FI_MSG);
}

TEST_P(MessageOf, AnySizeWaitsForItsReceive) {
    Pair pair;
    const std::vector<char> text = pattern(GetParam(), 3);
    std::vector<char> got(GetParam(), 0);
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_send(pair.a.ep.get(), text.data(), text.size(), nullptr, 0, nullptr); },
        "fi_send");
    for (int i = 0; i < 2000; ++i) {
        pair.a.progress();
        pair.b.progress();
    }
    check(fi_recv(pair.b.ep.get(), got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, nullptr),
          "fi_recv");
    EXPECT_EQ(pair.b.next_good(&pair.a).len, GetParam());
    EXPECT_EQ(got, text);
    (void)pair.a.next_good(&pair.b);
}

INSTANTIATE_TEST_SUITE_P(Sizes, MessageOf,
                         testing::Values(0, 1, 8, 64, 1000, 4096, 5000, 70'000, 300'000,
                                         3'000'000));

TEST(Message, ToOneself) {
    Pair pair;
    for (const std::size_t bytes : {std::size_t{5}, std::size_t{9000}, std::size_t{600'000}}) {
        const std::vector<char> text = pattern(bytes, 9);
        std::vector<char> got(bytes, 0);
        check(fi_recv(pair.a.ep.get(), got.data(), bytes, nullptr, FI_ADDR_UNSPEC,
                      &context_of_receive),
              "fi_recv");
        until_taken(
            pair.a, nullptr,
            [&] {
                return fi_send(pair.a.ep.get(), text.data(), bytes, nullptr, 1, &context_of_send);
            },
            "fi_send");
        bool sent = false;
        bool received = false;
        while (!sent || !received) {
            const fi_cq_tagged_entry entry = pair.a.next_good();
            sent = sent || entry.op_context == &context_of_send;
            received = received || entry.op_context == &context_of_receive;
        }
        EXPECT_EQ(got, text);
    }
}

TEST(Message, InjectLeavesTheBufferFreeAndSaysNothing) {
    Pair pair;
    const std::size_t limit = pair.a.info->tx_attr->inject_size;
    std::vector<char> text = pattern(limit);
    const std::vector<char> sent = text;
    until_taken(
        pair.a, &pair.b, [&] { return fi_inject(pair.a.ep.get(), text.data(), limit, 0); },
        "fi_inject");
    std::fill(text.begin(), text.end(), 'x');
    std::vector<char> got(limit, 0);
    check(fi_recv(pair.b.ep.get(), got.data(), limit, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    (void)pair.b.next_good(&pair.a);
    EXPECT_EQ(got, sent);
    pair.a.expect_quiet(&pair.b);
    std::vector<char> longer(limit + 1);
    EXPECT_LT(fi_inject(pair.a.ep.get(), longer.data(), longer.size(), 0), 0);
}

TEST(Message, DataTravelWithIt) {
    Pair pair;
    char text[] = "with data";
    char got[32];
    constexpr std::uint64_t data = 0x0123456789ABCDEF;
    for (const bool inject : {false, true}) {
        check(fi_recv(pair.b.ep.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, nullptr),
              "fi_recv");
        until_taken(
            pair.a, &pair.b,
            [&] {
                return inject ? fi_injectdata(pair.a.ep.get(), text, sizeof text, data, 0)
                              : fi_senddata(pair.a.ep.get(), text, sizeof text, nullptr, data, 0,
                                            nullptr);
            },
            "send with data");
        const fi_cq_tagged_entry entry = pair.b.next_good(&pair.a);
        EXPECT_TRUE(entry.flags & FI_REMOTE_CQ_DATA);
        EXPECT_EQ(entry.data, data);
        EXPECT_EQ(entry.len, sizeof text);
    }
}

TEST(Message, OfPiecesIntoPieces) {
    Pair pair;
    std::vector<char> text = pattern(30'000);
    std::vector<char> got(30'000, 0);
    std::array<iovec, 3> from{
        {{text.data(), 10}, {text.data() + 10, 19'990}, {text.data() + 20'000, 10'000}}};
    std::array<iovec, 2> to{{{got.data(), 12'345}, {got.data() + 12'345, 17'655}}};
    check(fi_recvv(pair.b.ep.get(), to.data(), nullptr, to.size(), FI_ADDR_UNSPEC, nullptr),
          "fi_recvv");
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_sendv(pair.a.ep.get(), from.data(), nullptr, from.size(), 0, nullptr); },
        "fi_sendv");
    (void)pair.b.next_good(&pair.a);
    EXPECT_EQ(got, text);
    (void)pair.a.next_good(&pair.b);
}

TEST(Message, TheyComeInOrder) {
    Pair pair;
    constexpr int messages = 300;
    const auto size_of = [](int i) {
        return static_cast<std::size_t>(i % 7 == 0 ? 50'000 : i % 3 == 0 ? 5000 : 16);
    };
    std::vector<std::vector<char>> texts;
    for (int i = 0; i < messages; ++i) {
        texts.push_back(pattern(size_of(i), static_cast<unsigned>(i)));
        until_taken(
            pair.a, &pair.b,
            [&] {
                return fi_send(pair.a.ep.get(), texts.back().data(), texts.back().size(), nullptr,
                               0, nullptr);
            },
            "fi_send");
    }
    std::vector<char> got(50'000);
    for (int i = 0; i < messages; ++i) {
        check(fi_recv(pair.b.ep.get(), got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, nullptr),
              "fi_recv");
        const fi_cq_tagged_entry entry = pair.b.next_good(&pair.a);
        ASSERT_EQ(entry.len, size_of(i)) << "message " << i;
        ASSERT_EQ(std::memcmp(got.data(), texts[static_cast<std::size_t>(i)].data(), entry.len), 0);
    }
}

TEST(Message, AnEndpointThatIsNotEnabledSaysSo) {
    Wish wish;
    Node node(wish, Node::NoEndpoint{});
    node.open_endpoint();
    char byte = 0;
    EXPECT_EQ(fi_send(node.ep.get(), &byte, 1, nullptr, 0, nullptr), -FI_EOPBADSTATE);
    EXPECT_EQ(fi_enable(node.ep.get()), -FI_ENOAV);
    check(fi_ep_bind(node.ep.get(), &node.av->fid, 0), "bind");
    EXPECT_EQ(fi_enable(node.ep.get()), -FI_ENOCQ);
}

TEST(Message, ToAPeerThatIsNotInTheVector) {
    Pair pair;
    char byte = 0;
    EXPECT_EQ(fi_send(pair.a.ep.get(), &byte, 1, nullptr, 77, nullptr), -FI_EHOSTUNREACH);
}

TEST(Message, AnAliasHasFlagsOfItsOwn) {
    Wish wish;
    wish.queue_flags |= FI_SELECTIVE_COMPLETION;
    Pair pair(wish);
    fid_ep* quiet = nullptr;
    check(fi_ep_alias(pair.a.ep.get(), &quiet, FI_TRANSMIT), "fi_ep_alias");
    char text[8] = "alias";
    char got[8];
    check(fi_recv(pair.b.ep.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    until_taken(
        pair.a, &pair.b, [&] { return fi_send(quiet, text, sizeof text, nullptr, 0, nullptr); },
        "fi_send");
    (void)pair.b.next_good(&pair.a);
    pair.a.expect_quiet(&pair.b);
    EXPECT_EQ(fi_close(&pair.a.ep->fid), -FI_EBUSY);
    EXPECT_EQ(fi_close(&quiet->fid), 0);
}

/// As many pieces as there may be, some of them empty, out of all sizes and into all sizes.
TEST(Message, PiecesOfAnyNumber) {
    Pair pair;
    const std::size_t most = pair.a.info->tx_attr->iov_limit;
    const auto cut = [](std::vector<char>& buffer, std::size_t count) {
        std::vector<iovec> pieces;
        const std::size_t each = buffer.size() / count;
        for (std::size_t i = 0; i < count; ++i)
            pieces.push_back(
                {buffer.data() + i * each, i + 1 < count ? each : buffer.size() - i * each});
        return pieces;
    };
    for (const std::size_t bytes :
         {std::size_t{1}, std::size_t{7}, std::size_t{64}, std::size_t{1000}, std::size_t{5000},
          std::size_t{100'000}, std::size_t{1'000'000}})
        for (std::size_t from = 1; from <= most; ++from)
            for (const std::size_t into : {std::size_t{1}, std::size_t{2}, std::size_t{3}, most}) {
                std::vector<char> text = pattern(bytes, static_cast<unsigned>(from));
                std::vector<char> got(bytes, 0);
                const std::vector<iovec> sent = cut(text, from);
                const std::vector<iovec> received = cut(got, into);
                const bool early = (from + into) % 2 == 0;
                const auto receive = [&] {
                    check(fi_recvv(pair.b.ep.get(), received.data(), nullptr, received.size(),
                                   FI_ADDR_UNSPEC, nullptr),
                          "fi_recvv");
                };
                if (early) receive();
                until_taken(
                    pair.a, &pair.b,
                    [&] {
                        return fi_sendv(pair.a.ep.get(), sent.data(), nullptr, sent.size(), 0,
                                        nullptr);
                    },
                    "fi_sendv");
                if (!early) receive();
                EXPECT_EQ(pair.b.next_good(&pair.a).len, bytes);
                (void)pair.a.next_good(&pair.b);
                ASSERT_EQ(got, text) << bytes << " bytes, " << from << " into " << into;
            }
}
