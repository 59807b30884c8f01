// SPDX-License-Identifier: BSD-3-Clause
// Operations that wait for a counter, and deferred work.
#include <poll.h>
#include <rdma/fi_trigger.h>

#include <array>
#include <cstring>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

constexpr std::uint64_t key = 77;

Wish triggering() {
    Wish wish;
    wish.caps |= FI_TRIGGER;
    return wish;
}

Open<fid_cntr> make_counter(Node& node) {
    fi_cntr_attr attributes{};
    attributes.events = FI_CNTR_EVENTS_COMP;
    fid_cntr* opened = nullptr;
    check(fi_cntr_open(node.domain.get(), &attributes, &opened, nullptr), "fi_cntr_open");
    return Open<fid_cntr>(opened);
}

fi_triggered_context at(const Open<fid_cntr>& counter, std::size_t threshold) {
    fi_triggered_context context{};
    context.event_type = FI_TRIGGER_THRESHOLD;
    context.trigger.threshold.cntr = counter.get();
    context.trigger.threshold.threshold = threshold;
    return context;
}

class Triggers : public testing::Test {
  protected:
    Triggers() : pair(triggering()), gate(make_counter(pair.a)) {}
    ~Triggers() override {
        // They may hold counters.
        pair.a.ep.reset();
        pair.b.ep.reset();
    }

    [[nodiscard]] fi_msg message_to_peer(const iovec& piece, void* context) const {
        fi_msg message{};
        message.msg_iov = &piece;
        message.iov_count = 1;
        message.context = context;
        return message;
    }
    void expect_value(fid_cntr* counter, std::uint64_t value) {
        const auto deadline = via::base::Deadline::after_milliseconds(20'000);
        while (fi_cntr_read(counter) < value && !deadline.expired())
            pair.b.progress();
        EXPECT_EQ(fi_cntr_read(counter), value);
    }

    Pair pair;
    Open<fid_cntr> gate;
};

}  // namespace

TEST_F(Triggers, ASendWaitsForItsCounter) {
    char text[] = "late";
    fi_triggered_context context = at(gate, 2);
    {
        // What describes it need not stay.
        iovec piece{text, sizeof text};
        const fi_msg message = message_to_peer(piece, &context);
        check(fi_sendmsg(pair.a.ep.get(), &message, FI_TRIGGER | FI_COMPLETION), "fi_sendmsg");
        piece = {nullptr, 1 << 30};
    }
    char got[16] = {};
    check(fi_recv(pair.b.ep.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, got), "fi_recv");
    check(fi_cntr_add(gate.get(), 1), "fi_cntr_add");
    pair.b.expect_quiet(&pair.a);
    check(fi_cntr_add(gate.get(), 1), "fi_cntr_add");
    const fi_cq_tagged_entry entry = pair.b.next_good(&pair.a);
    EXPECT_EQ(entry.op_context, got);
    EXPECT_STREQ(got, "late");
    EXPECT_EQ(pair.a.next_good(&pair.b).op_context, &context);
    pair.a.expect_quiet(&pair.b);
}

TEST_F(Triggers, AThresholdThatIsReachedAlreadyHoldsNothingBack) {
    check(fi_cntr_set(gate.get(), 5), "fi_cntr_set");
    char got[8] = {};
    fi_triggered_context receive = at(gate, 3);
    const iovec into{got, sizeof got};
    const fi_msg expected = message_to_peer(into, &receive);
    check(fi_recvmsg(pair.a.ep.get(), &expected, FI_TRIGGER | FI_COMPLETION), "fi_recvmsg");
    until_taken(
        pair.b, &pair.a, [&] { return fi_inject(pair.b.ep.get(), "now", 4, 0); }, "fi_inject");
    EXPECT_EQ(pair.a.next_good(&pair.b).op_context, &receive);
    EXPECT_STREQ(got, "now");
}

TEST_F(Triggers, WhatIsInjectedMayBeForgottenAtOnce) {
    char text[] = "kept";
    fi_triggered_context context = at(gate, 1);
    const iovec piece{text, sizeof text};
    const fi_msg message = message_to_peer(piece, &context);
    check(fi_sendmsg(pair.a.ep.get(), &message, FI_TRIGGER | FI_INJECT), "fi_sendmsg");
    std::memset(text, 'x', sizeof text);
    char got[8] = {};
    check(fi_recv(pair.b.ep.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    check(fi_cntr_add(gate.get(), 1), "fi_cntr_add");
    (void)pair.b.next_good(&pair.a);
    EXPECT_STREQ(got, "kept");
}

TEST_F(Triggers, TaggedMessagesBothWays) {
    char text[] = "tagged";
    char got[8] = {};
    fi_triggered_context send = at(gate, 1);
    fi_triggered_context receive = at(gate, 2);
    const iovec from{text, sizeof text};
    const iovec into{got, sizeof got};
    fi_msg_tagged message{};
    message.iov_count = 1;
    message.addr = 1;  // to itself
    message.tag = 9;
    message.msg_iov = &into;
    message.context = &receive;
    check(fi_trecvmsg(pair.a.ep.get(), &message, FI_TRIGGER | FI_COMPLETION), "fi_trecvmsg");
    message.msg_iov = &from;
    message.context = &send;
    check(fi_tsendmsg(pair.a.ep.get(), &message, FI_TRIGGER | FI_COMPLETION), "fi_tsendmsg");
    check(fi_cntr_add(gate.get(), 1), "fi_cntr_add");
    EXPECT_EQ(pair.a.next_good().op_context, &send);
    pair.a.expect_quiet();
    EXPECT_STREQ(got, "");
    check(fi_cntr_add(gate.get(), 1), "fi_cntr_add");
    EXPECT_EQ(pair.a.next_good().op_context, &receive);
    EXPECT_STREQ(got, "tagged");
}

/// Each write is started by the end of the one before: no call of the program is between them.
TEST_F(Triggers, AChainRunsByItself) {
    constexpr std::size_t links = 1000;
    const auto writes = make_counter(pair.a);
    check(fi_ep_bind(pair.a.ep.get(), &writes->fid, FI_WRITE), "bind");
    std::vector<std::uint32_t> memory(links, 0);
    const auto region = pair.b.expose(memory.data(), memory.size() * sizeof memory[0], key);
    std::vector<std::uint32_t> values(links);
    std::vector<fi_triggered_context> contexts(links);
    for (std::size_t link = links; link-- != 0;) {
        values[link] = static_cast<std::uint32_t>(link + 1);
        contexts[link] = at(writes, link);
        const iovec piece{&values[link], sizeof values[link]};
        const fi_rma_iov target{link * sizeof values[link], sizeof values[link], key};
        fi_msg_rma message{};
        message.msg_iov = &piece;
        message.iov_count = 1;
        message.rma_iov = &target;
        message.rma_iov_count = 1;
        message.context = &contexts[link];
        check(fi_writemsg(pair.a.ep.get(), &message, FI_TRIGGER | FI_DELIVERY_COMPLETE),
              "fi_writemsg");
    }
    expect_value(writes.get(), links);
    EXPECT_EQ(memory, values);
    pair.a.ep.reset();
}

TEST_F(Triggers, ReadsAndAtomics) {
    std::array<std::uint64_t, 2> memory{40, 50};
    const auto region = pair.b.expose(memory.data(), sizeof memory, key);
    std::array<fi_triggered_context, 4> contexts{at(gate, 1), at(gate, 2), at(gate, 3),
                                                 at(gate, 4)};
    std::uint64_t two = 2;
    std::uint64_t forty_two = 42;
    std::uint64_t fetched = 0;
    std::uint64_t swapped = 0;
    std::uint64_t read = 0;
    fi_ioc operand{&two, 1};
    const fi_rma_ioc target{0, 1, key};
    fi_msg_atomic atomic{};
    atomic.msg_iov = &operand;
    atomic.iov_count = 1;
    atomic.rma_iov = &target;
    atomic.rma_iov_count = 1;
    atomic.datatype = FI_UINT64;
    atomic.op = FI_SUM;
    atomic.context = contexts.data();
    check(fi_atomicmsg(pair.a.ep.get(), &atomic, FI_TRIGGER | FI_COMPLETION), "fi_atomicmsg");
    atomic.context = &contexts[1];
    fi_ioc result{&fetched, 1};
    check(fi_fetch_atomicmsg(pair.a.ep.get(), &atomic, &result, nullptr, 1,
                             FI_TRIGGER | FI_COMPLETION),
          "fi_fetch_atomicmsg");
    atomic.context = &contexts[2];
    atomic.op = FI_CSWAP;
    fi_ioc compared{&forty_two, 1};
    fi_ioc swap_result{&swapped, 1};
    check(fi_compare_atomicmsg(pair.a.ep.get(), &atomic, &compared, nullptr, 1, &swap_result,
                               nullptr, 1, FI_TRIGGER | FI_COMPLETION),
          "fi_compare_atomicmsg");
    const iovec into{&read, sizeof read};
    const fi_rma_iov from{sizeof read, sizeof read, key};
    fi_msg_rma transfer{};
    transfer.msg_iov = &into;
    transfer.iov_count = 1;
    transfer.rma_iov = &from;
    transfer.rma_iov_count = 1;
    transfer.context = &contexts[3];
    check(fi_readmsg(pair.a.ep.get(), &transfer, FI_TRIGGER | FI_COMPLETION), "fi_readmsg");
    pair.a.expect_quiet(&pair.b);
    for (fi_triggered_context& context : contexts) {
        check(fi_cntr_add(gate.get(), 1), "fi_cntr_add");
        EXPECT_EQ(pair.a.next_good(&pair.b).op_context, &context);
    }
    EXPECT_EQ(fetched, 42U);
    EXPECT_EQ(swapped, 44U) << "which is not 42";
    EXPECT_EQ(memory[0], 44U);
    EXPECT_EQ(read, 50U);
}

/// As fi_rdm_rma_trigger: calls without flags on a handle whose operations all wait.
TEST_F(Triggers, AnAliasWhoseOperationsWait) {
    const auto writes = make_counter(pair.a);
    check(fi_ep_bind(pair.a.ep.get(), &writes->fid, FI_WRITE), "bind");
    std::array<char, 16> memory{};
    const auto region = pair.b.expose(memory.data(), memory.size(), key);
    fid_ep* alias = nullptr;
    check(fi_ep_alias(pair.a.ep.get(), &alias, FI_TRANSMIT | FI_TRIGGER), "fi_ep_alias");
    Open<fid_ep> deferring(alias);
    fi_triggered_context context = at(writes, 1);
    check(fi_write(alias, "second", 7, nullptr, 0, 0, key, &context), "fi_write");
    EXPECT_EQ(fi_inject_write(alias, "x", 1, 0, 0, key), -FI_EINVAL) << "it has no context";
    pair.a.expect_quiet(&pair.b);
    EXPECT_EQ(memory[0], 0);
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_write(pair.a.ep.get(), "first", 6, nullptr, 0, 8, key, nullptr); },
        "fi_write");
    expect_value(writes.get(), 2);
    const auto deadline = via::base::Deadline::after_milliseconds(20'000);
    while (memory[0] == 0 && !deadline.expired())
        pair.b.progress();
    EXPECT_STREQ(memory.data(), "second");
    EXPECT_STREQ(memory.data() + 8, "first");
    deferring.reset();
    pair.a.ep.reset();
}

/// The program sleeps on a descriptor: the counter is raised by the service thread.
TEST_F(Triggers, AreStartedWhileTheProgramSleeps) {
    const auto receives = make_counter(pair.b);
    check(fi_ep_bind(pair.b.ep.get(), &receives->fid, FI_RECV), "bind");
    char got[8] = {};
    check(fi_recv(pair.b.ep.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    char answer[] = "answer";
    fi_triggered_context context = at(receives, 1);
    const iovec piece{answer, sizeof answer};
    const fi_msg message = message_to_peer(piece, &context);
    check(fi_sendmsg(pair.b.ep.get(), &message, FI_TRIGGER), "fi_sendmsg");
    char heard[8] = {};
    check(fi_recv(pair.a.ep.get(), heard, sizeof heard, nullptr, FI_ADDR_UNSPEC, heard), "fi_recv");
    until_taken(
        pair.a, &pair.b, [&] { return fi_inject(pair.a.ep.get(), "ask", 4, 0); }, "fi_inject");
    // Nobody makes progress for b but its service thread.
    fi_cq_tagged_entry entry{};
    fid* waits = &pair.b.cq->fid;
    (void)fi_trywait(pair.b.fabric.get(), &waits, 1);
    ASSERT_EQ(fi_cq_sread(pair.a.cq.get(), &entry, 1, nullptr, 20'000), 1);
    EXPECT_EQ(entry.op_context, heard);
    EXPECT_STREQ(heard, "answer");
    pair.b.ep.reset();
}

TEST_F(Triggers, WhatWaitsIsCancelledOrClosed) {
    char text[] = "never";
    fi_triggered_context context = at(gate, 1);
    fi_triggered_context other = at(gate, 1);
    const iovec piece{text, sizeof text};
    fi_msg message = message_to_peer(piece, &context);
    check(fi_sendmsg(pair.a.ep.get(), &message, FI_TRIGGER), "fi_sendmsg");
    message.context = &other;
    check(fi_sendmsg(pair.a.ep.get(), &message, FI_TRIGGER), "fi_sendmsg");
    EXPECT_EQ(fi_close(&gate->fid), -FI_EBUSY);
    check(fi_cancel(&pair.a.ep->fid, &context), "fi_cancel");
    const Event event = pair.a.next();
    ASSERT_TRUE(event.is_error);
    EXPECT_EQ(event.error.err, FI_ECANCELED);
    EXPECT_EQ(event.error.op_context, &context);
    pair.a.ep.reset();
    check(fi_cntr_add(gate.get(), 1), "fi_cntr_add");
    pair.b.expect_quiet(&pair.a);
}

TEST_F(Triggers, WhatMakesNoSenseIsRefused) {
    char text[] = "x";
    const iovec piece{text, sizeof text};
    fi_msg message = message_to_peer(piece, nullptr);
    EXPECT_EQ(fi_sendmsg(pair.a.ep.get(), &message, FI_TRIGGER), -FI_EINVAL);
    fi_triggered_context context = at(gate, 1);
    context.event_type = FI_TRIGGER_XPU;
    message.context = &context;
    EXPECT_EQ(fi_sendmsg(pair.a.ep.get(), &message, FI_TRIGGER), -FI_ENOSYS);
    context = at(gate, 1);
    EXPECT_EQ(fi_sendmsg(pair.b.ep.get(), &message, FI_TRIGGER), -FI_EINVAL)
        << "a counter of another domain";
    fi_msg_tagged peek{};
    peek.context = &context;
    EXPECT_EQ(fi_trecvmsg(pair.a.ep.get(), &peek, FI_TRIGGER | FI_PEEK), -FI_EBADFLAGS);
    Node plain;
    EXPECT_EQ(fi_sendmsg(plain.ep.get(), &message, FI_TRIGGER), -FI_EBADFLAGS)
        << "FI_TRIGGER was not asked for";
}

TEST_F(Triggers, AnUnknownPeerIsToldWhenItIsStarted) {
    char text[] = "x";
    fi_triggered_context context = at(gate, 1);
    const iovec piece{text, sizeof text};
    fi_msg message = message_to_peer(piece, &context);
    message.addr = 12345;
    check(fi_sendmsg(pair.a.ep.get(), &message, FI_TRIGGER), "fi_sendmsg");
    check(fi_cntr_add(gate.get(), 1), "fi_cntr_add");
    const Event event = pair.a.next();
    ASSERT_TRUE(event.is_error);
    EXPECT_EQ(event.error.op_context, &context);
    EXPECT_EQ(event.error.err, FI_ECONNRESET);
}

namespace {

class DeferredWork : public Triggers {
  protected:
    DeferredWork() : completed(make_counter(pair.a)) {}
    [[nodiscard]] fi_deferred_work work_at(std::uint64_t threshold, fi_op_type type) const {
        fi_deferred_work work{};
        work.threshold = threshold;
        work.triggering_cntr = gate.get();
        work.completion_cntr = completed.get();
        work.op_type = type;
        return work;
    }
    [[nodiscard]] int queue(fi_deferred_work& work) {
        return fi_control(&pair.a.domain->fid, FI_QUEUE_WORK, &work);
    }
    Open<fid_cntr> completed;
};

}  // namespace

TEST_F(DeferredWork, CountersAreSetAndRaised) {
    const auto changed = make_counter(pair.a);
    fi_op_cntr change{changed.get(), 5};
    fi_deferred_work set = work_at(1, FI_OP_CNTR_SET);
    set.op.cntr = &change;
    EXPECT_EQ(queue(set), -FI_EINVAL) << "it has no completion";
    set.completion_cntr = nullptr;
    fi_deferred_work add = set;
    add.op_type = FI_OP_CNTR_ADD;
    check(fi_cntr_set(changed.get(), 100), "fi_cntr_set");
    check(queue(set), "queue");
    check(queue(add), "queue");
    EXPECT_EQ(fi_cntr_read(changed.get()), 100U);
    check(fi_cntr_adderr(gate.get(), 1), "errors count, too");
    expect_value(changed.get(), 10);
}

TEST_F(DeferredWork, ASendTellsItsOwnCounterAndNobodyElse) {
    const auto sends = make_counter(pair.a);
    check(fi_ep_bind(pair.a.ep.get(), &sends->fid, FI_SEND), "bind");
    char text[] = "work";
    char got[8] = {};
    const iovec piece{text, sizeof text};
    const iovec into{got, sizeof got};
    fi_deferred_work send = work_at(1, FI_OP_SEND);
    fi_op_msg sending{pair.a.ep.get(), message_to_peer(piece, &send.context), 0};
    sending.msg.addr = 1;
    send.op.msg = &sending;
    fi_deferred_work receive = work_at(1, FI_OP_RECV);
    fi_op_msg receiving{pair.a.ep.get(), message_to_peer(into, &receive.context), 0};
    receiving.msg.addr = FI_ADDR_UNSPEC;
    receive.op.msg = &receiving;
    check(queue(send), "queue");
    check(queue(receive), "queue");
    check(fi_cntr_add(gate.get(), 1), "fi_cntr_add");
    expect_value(completed.get(), 2);
    EXPECT_STREQ(got, "work");
    EXPECT_EQ(fi_cntr_read(sends.get()), 0U);
    pair.a.expect_quiet();
    EXPECT_EQ(fi_close(&completed->fid), 0) << "nothing holds it any more";
    (void)completed.release();
    pair.a.ep.reset();
}

TEST_F(DeferredWork, TellsTheEndpointIfItIsAsked) {
    char text[] = "both";
    const iovec piece{text, sizeof text};
    fi_deferred_work work = work_at(0, FI_OP_TSEND);
    fi_op_tagged tagged{};
    tagged.ep = pair.a.ep.get();
    tagged.msg.msg_iov = &piece;
    tagged.msg.iov_count = 1;
    tagged.msg.tag = 4;
    tagged.msg.context = &work.context;
    tagged.flags = FI_COMPLETION;
    work.op.tagged = &tagged;
    char got[8] = {};
    check(fi_trecv(pair.b.ep.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, 4, 0, nullptr),
          "fi_trecv");
    check(queue(work), "queue");
    EXPECT_EQ(pair.a.next_good(&pair.b).op_context, &work.context);
    (void)pair.b.next_good(&pair.a);
    EXPECT_STREQ(got, "both");
    expect_value(completed.get(), 1);
}

TEST_F(DeferredWork, OneSided) {
    std::array<std::uint64_t, 2> memory{1, 1};
    const auto region = pair.b.expose(memory.data(), sizeof memory, key);
    std::uint64_t value = 7;
    std::uint64_t got = 0;
    const iovec from{&value, sizeof value};
    const iovec into{&got, sizeof got};
    const fi_rma_iov place{0, sizeof value, key};
    fi_deferred_work write = work_at(1, FI_OP_WRITE);
    fi_op_rma writing{};
    writing.ep = pair.a.ep.get();
    writing.msg.msg_iov = &from;
    writing.msg.iov_count = 1;
    writing.msg.rma_iov = &place;
    writing.msg.rma_iov_count = 1;
    writing.msg.context = &write.context;
    writing.flags = FI_DELIVERY_COMPLETE;
    write.op.rma = &writing;
    check(queue(write), "queue");
    // Each is triggered by the end of the one before.
    fi_deferred_work add = work_at(1, FI_OP_FETCH_ATOMIC);
    add.triggering_cntr = completed.get();
    std::uint64_t fetched = 0;
    fi_ioc operand{&value, 1};
    fi_ioc result{&fetched, 1};
    const fi_rma_ioc target{0, 1, key};
    fi_op_fetch_atomic adding{};
    adding.ep = pair.a.ep.get();
    adding.msg.msg_iov = &operand;
    adding.msg.iov_count = 1;
    adding.msg.rma_iov = &target;
    adding.msg.rma_iov_count = 1;
    adding.msg.datatype = FI_UINT64;
    adding.msg.op = FI_SUM;
    adding.msg.context = &add.context;
    adding.fetch.msg_iov = &result;
    adding.fetch.iov_count = 1;
    add.op.fetch_atomic = &adding;
    check(queue(add), "queue");
    fi_deferred_work read = work_at(2, FI_OP_READ);
    read.triggering_cntr = completed.get();
    fi_op_rma reading = writing;
    reading.msg.msg_iov = &into;
    reading.flags = 0;
    read.op.rma = &reading;
    check(queue(read), "queue");
    pair.a.expect_quiet(&pair.b);
    check(fi_cntr_add(gate.get(), 1), "fi_cntr_add");
    expect_value(completed.get(), 3);
    EXPECT_EQ(fetched, 7U);
    EXPECT_EQ(got, 14U);
    EXPECT_EQ(memory[1], 1U);
    pair.a.expect_quiet(&pair.b);
}

TEST_F(DeferredWork, FailsIntoItsCounter) {
    std::uint64_t value = 7;
    const iovec from{&value, sizeof value};
    const fi_rma_iov place{0, sizeof value, 4711};
    fi_deferred_work write = work_at(0, FI_OP_WRITE);
    fi_op_rma writing{};
    writing.ep = pair.a.ep.get();
    writing.msg.msg_iov = &from;
    writing.msg.iov_count = 1;
    writing.msg.rma_iov = &place;
    writing.msg.rma_iov_count = 1;
    write.op.rma = &writing;
    check(queue(write), "queue");
    const auto deadline = via::base::Deadline::after_milliseconds(20'000);
    while (fi_cntr_readerr(completed.get()) == 0 && !deadline.expired())
        pair.b.progress();
    EXPECT_EQ(fi_cntr_readerr(completed.get()), 1U);
    EXPECT_EQ(fi_cntr_read(completed.get()), 0U);
}

TEST_F(DeferredWork, IsCancelledAndFlushed) {
    fi_op_cntr change{completed.get(), 1};
    fi_deferred_work one = work_at(1, FI_OP_CNTR_ADD);
    one.completion_cntr = nullptr;
    one.op.cntr = &change;
    fi_deferred_work two = one;
    check(queue(one), "queue");
    check(queue(two), "queue");
    check(fi_control(&pair.a.domain->fid, FI_CANCEL_WORK, &one), "cancel");
    EXPECT_EQ(fi_control(&pair.a.domain->fid, FI_CANCEL_WORK, &one), -FI_ENOENT);
    check(fi_control(&pair.a.domain->fid, FI_FLUSH_WORK, completed.get()), "flush another");
    check(fi_cntr_add(gate.get(), 1), "fi_cntr_add");
    expect_value(completed.get(), 1);
    check(fi_cntr_set(gate.get(), 0), "fi_cntr_set");
    check(queue(one), "queue");
    check(fi_control(&pair.a.domain->fid, FI_FLUSH_WORK, nullptr), "flush");
    check(fi_cntr_add(gate.get(), 1), "fi_cntr_add");
    pair.a.expect_quiet();
    EXPECT_EQ(fi_cntr_read(completed.get()), 1U);
}

/// A receive that was started and never gets a message: the endpoint's end frees its counter.
TEST_F(DeferredWork, EndsWithItsEndpoint) {
    char got[8];
    const iovec into{got, sizeof got};
    fi_deferred_work receive = work_at(0, FI_OP_RECV);
    fi_op_msg receiving{pair.a.ep.get(), message_to_peer(into, &receive.context), 0};
    receive.op.msg = &receiving;
    check(queue(receive), "queue");
    pair.a.expect_quiet();
    EXPECT_EQ(fi_close(&completed->fid), -FI_EBUSY);
    pair.a.ep.reset();
}
