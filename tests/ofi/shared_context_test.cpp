// SPDX-License-Identifier: BSD-3-Clause
// One context for several endpoints.
#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

class SharedReceives : public testing::Test {
  protected:
    SharedReceives() : node(Wish{}, Node::NoEndpoint{}) {
        fid_ep* opened = nullptr;
        check(fi_srx_context(node.domain.get(), node.info->rx_attr, &opened, nullptr),
              "fi_srx_context");
        receives.reset(opened);
        node.info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
        for (Open<fid_ep>& endpoint : endpoints) {
            fid_ep* made = nullptr;
            check(fi_endpoint(node.domain.get(), node.info.get(), &made, nullptr), "fi_endpoint");
            endpoint.reset(made);
            check(fi_ep_bind(made, &receives->fid, 0), "bind the shared context");
            check(fi_ep_bind(made, &node.cq->fid, FI_TRANSMIT | FI_RECV), "bind");
            check(fi_ep_bind(made, &node.av->fid, 0), "bind");
            check(fi_enable(made), "fi_enable");
            sockaddr_in name{};
            std::size_t bytes = sizeof name;
            check(fi_getname(&made->fid, &name, &bytes), "fi_getname");
            sender.insert(name);
        }
    }
    ~SharedReceives() override {
        for (Open<fid_ep>& endpoint : endpoints)
            endpoint.reset();
    }

    Node sender;
    Node node;
    Open<fid_ep> receives;
    Open<fid_ep> endpoints[3];
};

}  // namespace

TEST_F(SharedReceives, AMessageToAnyEndpointTakesTheNextReceive) {
    std::vector<std::vector<char>> got(3, std::vector<char>(100'000));
    for (auto& buffer : got)
        check(
            fi_recv(receives.get(), buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, &buffer),
            "fi_recv");
    for (fi_addr_t to = 0; to < 3; ++to) {
        const std::vector<char> text = pattern(to == 1 ? 100'000 : 50, static_cast<unsigned>(to));
        until_taken(
            sender, &node,
            [&] {
                return fi_send(sender.ep.get(), text.data(), text.size(), nullptr, to, nullptr);
            },
            "fi_send");
        const fi_cq_tagged_entry entry = node.next_good(&sender);
        EXPECT_EQ(entry.op_context, &got[to]);
        EXPECT_EQ(entry.len, text.size());
        EXPECT_TRUE(std::equal(text.begin(), text.end(), got[to].begin()));
        (void)sender.next_good(&node);
    }
    EXPECT_EQ(fi_close(&receives->fid), -FI_EBUSY);
}

TEST_F(SharedReceives, TagsAndCancel) {
    std::vector<char> first(8);
    std::vector<char> second(8);
    check(fi_trecv(receives.get(), first.data(), 8, nullptr, FI_ADDR_UNSPEC, 1, 0, &first),
          "fi_trecv");
    check(fi_trecv(receives.get(), second.data(), 8, nullptr, FI_ADDR_UNSPEC, 2, 0, &second),
          "fi_trecv");
    check(fi_cancel(&receives->fid, &first), "fi_cancel");
    const Event cancelled = node.next();
    ASSERT_TRUE(cancelled.is_error);
    EXPECT_EQ(cancelled.error.op_context, &first);
    until_taken(
        sender, &node, [&] { return fi_tinject(sender.ep.get(), "tagged", 7, 2, 2); },
        "fi_tinject");
    EXPECT_EQ(node.next_good(&sender).op_context, &second);
}

TEST_F(SharedReceives, MessagesAreLookedAtClaimedAndThrownAway) {
    fi_msg_tagged looked_for{};
    looked_for.addr = FI_ADDR_UNSPEC;
    looked_for.tag = 3;
    int context = 0;
    looked_for.context = &context;
    const auto look = [&](std::uint64_t flags) {
        check(fi_trecvmsg(receives.get(), &looked_for, flags), "fi_trecvmsg");
        return node.next(&sender);
    };
    Event event = look(FI_PEEK);
    ASSERT_TRUE(event.is_error);
    EXPECT_EQ(event.error.err, FI_ENOMSG);
    EXPECT_EQ(event.error.op_context, &context);
    for (fi_addr_t to = 0; to < 3; ++to)
        until_taken(
            sender, &node,
            [&] { return fi_tinjectdata(sender.ep.get(), "message", 8 - to, to + 40, to, 3); },
            "fi_tinjectdata");
    const auto deadline = via::base::Deadline::after_milliseconds(20'000);
    do {
        event = look(FI_PEEK);
    } while (event.is_error && !deadline.expired());
    ASSERT_FALSE(event.is_error);
    EXPECT_EQ(event.entry.op_context, &context);
    EXPECT_EQ(event.entry.tag, 3U);
    // Which of three connections came first is not said, but the same message is meant each time.
    const std::uint64_t first = event.entry.data;
    EXPECT_EQ(event.entry.len, 8 - (first - 40));
    event = look(FI_PEEK | FI_CLAIM);
    ASSERT_FALSE(event.is_error);
    EXPECT_EQ(event.entry.data, first);
    // What is claimed nobody else gets.
    char got[8] = {};
    check(fi_trecv(receives.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, 3, 0, got),
          "fi_trecv");
    event = node.next(&sender);
    ASSERT_FALSE(event.is_error);
    EXPECT_NE(event.entry.data, first);
    const iovec into{got, sizeof got};
    looked_for.msg_iov = &into;
    looked_for.iov_count = 1;
    event = look(FI_CLAIM);
    ASSERT_FALSE(event.is_error);
    EXPECT_EQ(event.entry.data, first);
    EXPECT_EQ(fi_trecvmsg(receives.get(), &looked_for, FI_CLAIM), -FI_EINVAL)
        << "it was taken already";
    do {
        event = look(FI_PEEK | FI_DISCARD);
    } while (event.is_error && !deadline.expired());
    ASSERT_FALSE(event.is_error);
    EXPECT_NE(event.entry.data, first);
    event = look(FI_PEEK);
    ASSERT_TRUE(event.is_error);
    EXPECT_EQ(event.error.err, FI_ENOMSG);
}

TEST(SharedTransmits, AreBoundAndSend) {
    Pair pair;
    fid_stx* opened = nullptr;
    check(fi_stx_context(pair.a.domain.get(), pair.a.info->tx_attr, &opened, nullptr),
          "fi_stx_context");
    const Open<fid_stx> transmits(opened);
    fid_ep* made = nullptr;
    pair.a.info->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
    check(fi_endpoint(pair.a.domain.get(), pair.a.info.get(), &made, nullptr), "fi_endpoint");
    Open<fid_ep> endpoint(made);
    check(fi_ep_bind(made, &transmits->fid, 0), "bind the shared context");
    check(fi_ep_bind(made, &pair.a.cq->fid, FI_TRANSMIT | FI_RECV), "bind");
    check(fi_ep_bind(made, &pair.a.av->fid, 0), "bind");
    check(fi_enable(made), "fi_enable");
    char got[8];
    check(fi_recv(pair.b.ep.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    until_taken(
        pair.a, &pair.b, [&] { return fi_inject(made, "shared", 7, 0); }, "fi_inject");
    (void)pair.b.next_good(&pair.a);
    EXPECT_STREQ(got, "shared");
    EXPECT_EQ(fi_close(&transmits->fid), -FI_EBUSY);
    endpoint.reset();
}
