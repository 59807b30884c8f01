// SPDX-License-Identifier: BSD-3-Clause
// Endpoints with several transmit and receive contexts.
#include <arpa/inet.h>

#include <array>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

constexpr int contexts = 3;
constexpr int context_bits = 2;

/// A scalable endpoint with a queue for each context.
class Scalable {
  public:
    Scalable() {
        const Info hints = hints_for({});
        hints->caps |= FI_NAMED_RX_CTX;
        fi_info* found = nullptr;
        check(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", nullptr, FI_SOURCE, hints.get(), &found),
              "fi_getinfo");
        info.reset(found);
        info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = contexts;
        fid_fabric* opened_fabric = nullptr;
        check(fi_fabric(info->fabric_attr, &opened_fabric, nullptr), "fi_fabric");
        fabric.reset(opened_fabric);
        fid_domain* opened_domain = nullptr;
        check(fi_domain(fabric.get(), info.get(), &opened_domain, nullptr), "fi_domain");
        domain.reset(opened_domain);
        fi_av_attr vector{};
        vector.type = FI_AV_TABLE;
        vector.rx_ctx_bits = context_bits;
        fid_av* opened_vector = nullptr;
        check(fi_av_open(domain.get(), &vector, &opened_vector, nullptr), "fi_av_open");
        av.reset(opened_vector);
        fid_ep* opened = nullptr;
        check(fi_scalable_ep(domain.get(), info.get(), &opened, nullptr), "fi_scalable_ep");
        endpoint.reset(opened);
        for (std::size_t i = 0; i < contexts; ++i) {
            transmit_queues[i] = queue();
            receive_queues[i] = queue();
        }
    }
    ~Scalable() {
        for (std::size_t i = 0; i < contexts; ++i) {
            transmits[i].reset();
            receives[i].reset();
        }
    }
    Scalable(const Scalable&) = delete;
    Scalable& operator=(const Scalable&) = delete;

    void open_contexts() {
        for (int i = 0; i < contexts; ++i) {
            const auto at = static_cast<std::size_t>(i);
            fid_ep* made = nullptr;
            check(fi_tx_context(endpoint.get(), i, nullptr, &made, nullptr), "fi_tx_context");
            transmits[at].reset(made);
            check(fi_rx_context(endpoint.get(), i, nullptr, &made, nullptr), "fi_rx_context");
            receives[at].reset(made);
        }
    }
    void enable() {
        check(fi_scalable_ep_bind(endpoint.get(), &av->fid, 0), "bind the vector");
        for (std::size_t i = 0; i < contexts; ++i) {
            check(fi_ep_bind(transmits[i].get(), &transmit_queues[i]->fid, FI_TRANSMIT), "bind");
            check(fi_enable(transmits[i].get()), "fi_enable");
        }
        for (std::size_t i = 0; i < contexts; ++i) {
            check(fi_ep_bind(receives[i].get(), &receive_queues[i]->fid, FI_RECV), "bind");
            check(fi_enable(receives[i].get()), "fi_enable");
        }
        check(fi_enable(endpoint.get()), "fi_enable");
    }
    [[nodiscard]] Open<fid_cq> queue() {
        fi_cq_attr attributes{};
        attributes.format = FI_CQ_FORMAT_TAGGED;
        fid_cq* opened = nullptr;
        check(fi_cq_open(domain.get(), &attributes, &opened, nullptr), "fi_cq_open");
        return Open<fid_cq>(opened);
    }
    [[nodiscard]] sockaddr_in name() const {
        sockaddr_in address{};
        std::size_t bytes = sizeof address;
        check(fi_getname(&endpoint->fid, &address, &bytes), "fi_getname");
        return address;
    }
    fi_addr_t insert(const sockaddr_in& address) {
        fi_addr_t number = FI_ADDR_NOTAVAIL;
        if (fi_av_insert(av.get(), &address, 1, &number, 0, nullptr) != 1)
            throw std::runtime_error("fi_av_insert");
        return number;
    }
    void progress() { fi_cq_read(receive_queues[0].get(), nullptr, 0); }

    Info info;
    Open<fid_fabric> fabric;
    Open<fid_domain> domain;
    std::array<Open<fid_cq>, contexts> transmit_queues;
    std::array<Open<fid_cq>, contexts> receive_queues;
    Open<fid_av> av;
    Open<fid_ep> endpoint;
    std::array<Open<fid_ep>, contexts> transmits;
    std::array<Open<fid_ep>, contexts> receives;
};

struct Found {
    fi_cq_tagged_entry entry{};
    fi_addr_t source = FI_ADDR_NOTAVAIL;
};

template <class Progress>
Found next(fid_cq* queue, Progress progress) {
    const auto deadline = via::base::Deadline::after_milliseconds(20'000);
    for (Found found;;) {
        const ssize_t read = fi_cq_readfrom(queue, &found.entry, 1, &found.source);
        if (read == 1) return found;
        if (read != -FI_EAGAIN) check(read, "fi_cq_readfrom");
        progress();
        if (deadline.expired()) throw std::runtime_error("no completion has come");
    }
}

template <class Order, class Progress>
void order(Order give, Progress progress) {
    const auto deadline = via::base::Deadline::after_milliseconds(20'000);
    for (ssize_t result; (result = give()) != 0; progress()) {
        if (result != -FI_EAGAIN) check(result, "an order");
        if (deadline.expired()) throw std::runtime_error("EAGAIN for ever");
    }
}

class TwoScalable : public testing::Test {
  protected:
    TwoScalable() {
        for (Scalable* end : {&a, &b}) {
            end->open_contexts();
            end->enable();
        }
        sockaddr_in somebody = b.name();
        somebody.sin_port = htons(1);
        a.insert(somebody);
        to_b = a.insert(b.name());
        b.insert(somebody);
        b.insert(somebody);
        to_a = b.insert(a.name());
    }
    auto both() {
        return [this] {
            a.progress();
            b.progress();
        };
    }
    Scalable a;
    Scalable b;
    fi_addr_t to_b = 0;
    fi_addr_t to_a = 0;
};

}  // namespace

TEST(ScalableInfo, IsOfferedToWhoAsks) {
    EXPECT_EQ(get_info({})->domain_attr->max_ep_tx_ctx, 1U);
    EXPECT_FALSE(get_info({})->caps & FI_NAMED_RX_CTX);
    Wish wish;
    wish.caps |= FI_NAMED_RX_CTX;
    const Info info = get_info(wish);
    EXPECT_TRUE(info->caps & FI_NAMED_RX_CTX);
    EXPECT_EQ(info->domain_attr->max_ep_tx_ctx, 16U);
    EXPECT_EQ(info->domain_attr->max_ep_rx_ctx, 16U);
    for (const std::size_t count : {std::size_t{16}, std::size_t{17}}) {
        const Info hints = hints_for({});
        hints->ep_attr->tx_ctx_cnt = count;
        fi_info* found = nullptr;
        const int result = fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found);
        EXPECT_EQ(result, count == 16 ? 0 : -FI_ENODATA);
        fi_freeinfo(found);
    }
    wish.type = FI_EP_MSG;
    EXPECT_THROW((void)get_info(wish), std::runtime_error);
}

TEST_F(TwoScalable, EveryContextIsReachedFromEveryContext) {
    for (int to = 0; to < contexts; ++to)
        for (std::size_t from = 0; from < contexts; ++from) {
            const auto at = static_cast<std::size_t>(to);
            const std::vector<char> text =
                pattern(from == 1 ? 100'000 : 30, static_cast<unsigned>(to));
            std::vector<char> got(text.size());
            check(fi_recv(b.receives[at].get(), got.data(), got.size(), nullptr, FI_ADDR_UNSPEC,
                          &got),
                  "fi_recv");
            order(
                [&] {
                    return fi_send(a.transmits[from].get(), text.data(), text.size(), nullptr,
                                   fi_rx_addr(to_b, to, context_bits), nullptr);
                },
                both());
            const Found found = next(b.receive_queues[at].get(), both());
            EXPECT_EQ(found.entry.op_context, &got);
            EXPECT_EQ(found.source, to_a) << "whichever context has sent it";
            EXPECT_EQ(got, text);
            (void)next(a.transmit_queues[from].get(), both());
        }
}

TEST_F(TwoScalable, AReceiveFromAnEndpointIsFromAnyOfItsContexts) {
    const fi_addr_t itself = fi_rx_addr(b.insert(b.name()), 1, context_bits);
    for (std::size_t from = 0; from < contexts; ++from) {
        char got[8] = {};
        check(fi_trecv(b.receives[1].get(), got, sizeof got, nullptr, to_a, 7, 0, got), "fi_trecv");
        // One of another source is not taken.
        order([&] { return fi_tinject(b.transmits[1].get(), "wrong", 6, itself, 7); }, both());
        order(
            [&] {
                return fi_tinject(a.transmits[from].get(), "right", 6,
                                  fi_rx_addr(to_b, 1, context_bits), 7);
            },
            both());
        EXPECT_EQ(next(b.receive_queues[1].get(), both()).entry.op_context, got);
        EXPECT_STREQ(got, "right");
    }
}

TEST_F(TwoScalable, OneSidedFromAnyContext) {
    std::array<std::uint64_t, contexts> memory{};
    fid_mr* opened = nullptr;
    check(fi_mr_reg(b.domain.get(), memory.data(), sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE,
                    0, 5, 0, &opened, nullptr),
          "fi_mr_reg");
    const Open<fid_mr> region(opened);
    for (int i = 0; i < contexts; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const std::uint64_t add = at + 10;
        std::uint64_t old = 1;
        const std::uint64_t place = at * sizeof add;
        const fi_addr_t to = fi_rx_addr(to_b, i, context_bits);
        order(
            [&] {
                return fi_fetch_atomic(a.transmits[at].get(), &add, 1, nullptr, &old, nullptr, to,
                                       place, 5, FI_UINT64, FI_SUM, nullptr);
            },
            both());
        (void)next(a.transmit_queues[at].get(), both());
        EXPECT_EQ(old, 0U);
        std::uint64_t read = 0;
        const iovec into{&read, sizeof read};
        const fi_rma_iov from{place, sizeof read, 5};
        fi_msg_rma message{};
        message.msg_iov = &into;
        message.iov_count = 1;
        message.addr = to;
        message.rma_iov = &from;
        message.rma_iov_count = 1;
        order([&] { return fi_readmsg(a.transmits[at].get(), &message, FI_COMPLETION); }, both());
        (void)next(a.transmit_queues[at].get(), both());
        EXPECT_EQ(read, add);
    }
}

TEST_F(TwoScalable, TheVectorKnowsWhereContextsAre) {
    const std::uint16_t first = ntohs(b.name().sin_port);
    for (int i = 0; i < contexts; ++i) {
        sockaddr_in address{};
        std::size_t bytes = sizeof address;
        check(fi_av_lookup(a.av.get(), fi_rx_addr(to_b, i, context_bits), &address, &bytes),
              "fi_av_lookup");
        EXPECT_EQ(ntohs(address.sin_port), first + i);
    }
    fi_addr_t gone = to_b;
    check(fi_av_remove(a.av.get(), &gone, 1, 0), "fi_av_remove");
    EXPECT_EQ(fi_inject(a.transmits[0].get(), "x", 1, fi_rx_addr(to_b, 1, context_bits)),
              -FI_EHOSTUNREACH);
}

/// An endpoint with one context sends to those of others, and is answered.
TEST_F(TwoScalable, AndAPlainEndpoint) {
    Node plain(Wish{}, Node::NoEndpoint{});
    fi_av_attr vector{};
    vector.rx_ctx_bits = context_bits;
    fid_av* opened = nullptr;
    check(fi_av_open(plain.domain.get(), &vector, &opened, nullptr), "fi_av_open");
    plain.av.reset(opened);
    plain.open_endpoint();
    check(fi_ep_bind(plain.ep.get(), &plain.cq->fid, FI_TRANSMIT | FI_RECV), "bind");
    check(fi_ep_bind(plain.ep.get(), &plain.av->fid, 0), "bind");
    check(fi_enable(plain.ep.get()), "fi_enable");
    plain.insert(plain);
    const fi_addr_t to = plain.insert(b.name());
    const fi_addr_t back = b.insert(plain.name());
    const auto progress = [&] {
        plain.progress();
        b.progress();
    };
    char asked[8] = {};
    char answered[8] = {};
    check(fi_recv(b.receives[2].get(), asked, sizeof asked, nullptr, back, nullptr), "fi_recv");
    check(fi_recv(plain.ep.get(), answered, sizeof answered, nullptr, to, answered), "fi_recv");
    order([&] { return fi_inject(plain.ep.get(), "ask", 4, fi_rx_addr(to, 2, context_bits)); },
          progress);
    EXPECT_EQ(next(b.receive_queues[2].get(), progress).source, back);
    order([&] { return fi_inject(b.transmits[1].get(), "answer", 7, back); }, progress);
    const Found found = next(plain.cq.get(), progress);
    EXPECT_EQ(found.entry.op_context, answered);
    EXPECT_EQ(found.source, to);
    EXPECT_STREQ(asked, "ask");
    EXPECT_STREQ(answered, "answer");
    plain.ep.reset();
}

TEST(Scalable, ItsNameIsKnownBeforeItHasContexts) {
    Scalable end;
    check(fi_scalable_ep_bind(end.endpoint.get(), &end.av->fid, 0), "bind the vector");
    check(fi_enable(end.endpoint.get()), "fi_enable");
    const sockaddr_in name = end.name();
    EXPECT_NE(name.sin_port, 0);
    const fi_addr_t self = end.insert(name);
    end.open_contexts();
    check(fi_ep_bind(end.transmits[2].get(), &end.transmit_queues[2]->fid, FI_TRANSMIT), "bind");
    check(fi_ep_bind(end.receives[2].get(), &end.receive_queues[2]->fid, FI_RECV), "bind");
    check(fi_enable(end.transmits[2].get()), "fi_enable");
    check(fi_enable(end.receives[2].get()), "fi_enable");
    char got[8] = {};
    check(fi_recv(end.receives[2].get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, nullptr),
          "fi_recv");
    order(
        [&] {
            return fi_inject(end.transmits[2].get(), "self", 5, fi_rx_addr(self, 2, context_bits));
        },
        [&] { end.progress(); });
    EXPECT_EQ(next(end.receive_queues[2].get(), [&] { end.progress(); }).source, self);
    EXPECT_STREQ(got, "self");
}

TEST(Scalable, WhatIsMissingIsSaid) {
    Scalable end;
    fid_ep* made = nullptr;
    EXPECT_EQ(fi_tx_context(end.endpoint.get(), contexts, nullptr, &made, nullptr), -FI_EINVAL);
    EXPECT_EQ(fi_rx_context(end.endpoint.get(), -1, nullptr, &made, nullptr), -FI_EINVAL);
    EXPECT_EQ(fi_enable(end.endpoint.get()), -FI_ENOAV);
    EXPECT_EQ(fi_send(end.endpoint.get(), "x", 1, nullptr, 0, nullptr), -FI_ENOSYS);
    end.open_contexts();
    EXPECT_EQ(fi_enable(end.transmits[0].get()), -FI_ENOCQ);
    EXPECT_EQ(fi_ep_bind(end.transmits[0].get(), &end.transmit_queues[0]->fid, FI_RECV),
              -FI_EBADFLAGS);
    EXPECT_EQ(fi_close(&end.endpoint->fid), -FI_EBUSY);
    check(fi_ep_bind(end.transmits[0].get(), &end.transmit_queues[0]->fid, FI_TRANSMIT), "bind");
    EXPECT_EQ(fi_enable(end.transmits[0].get()), -FI_ENOAV);
    EXPECT_EQ(fi_send(end.transmits[0].get(), "x", 1, nullptr, 0, nullptr), -FI_EOPBADSTATE);
}

/// A queue is free when the context is closed, though the endpoint goes on.
TEST_F(TwoScalable, AContextThatIsClosedLetsGo) {
    EXPECT_EQ(fi_close(&b.receive_queues[1]->fid), -FI_EBUSY);
    b.receives[1].reset();
    b.receive_queues[1].reset();
    char got[8] = {};
    check(fi_recv(b.receives[2].get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, nullptr),
          "fi_recv");
    order(
        [&] { return fi_inject(a.transmits[0].get(), "on", 3, fi_rx_addr(to_b, 2, context_bits)); },
        both());
    (void)next(b.receive_queues[2].get(), both());
    EXPECT_STREQ(got, "on");
}

TEST(Scalable, APortThatIsTakenIsToldOrAvoided) {
    Scalable first;
    first.open_contexts();
    first.enable();
    // The second of its ports would be the first of the other's.
    Scalable second;
    sockaddr_in wanted = first.name();
    wanted.sin_port = htons(static_cast<std::uint16_t>(ntohs(wanted.sin_port) - 1));
    check(fi_setname(&second.endpoint->fid, &wanted, sizeof wanted), "fi_setname");
    check(fi_scalable_ep_bind(second.endpoint.get(), &second.av->fid, 0), "bind the vector");
    EXPECT_EQ(fi_enable(second.endpoint.get()), -FI_EADDRINUSE);
    wanted.sin_port = 0;
    check(fi_setname(&second.endpoint->fid, &wanted, sizeof wanted), "fi_setname");
    check(fi_enable(second.endpoint.get()), "fi_enable");
    EXPECT_NE(second.name().sin_port, first.name().sin_port);
}
