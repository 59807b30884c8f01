// SPDX-License-Identifier: BSD-3-Clause
// What the programs look at: everything they hear, and what is left when all is over.
#include "simulated_traffic.hpp"

#include <algorithm>

namespace via::mvich::test {

void Traffic::end_once(Order& order, Status status) {
    ASSERT_EQ(order.ended, 0) << "an order ends twice";
    order.ended = 1;
    order.status = status;
}

void Traffic::heard(std::size_t end, const Completion& completion) {
    Program& own = programs_[end];
    if (completion.what == Happened::RemoteWrite || completion.what == Happened::RemoteRead) {
        ASSERT_EQ(completion.cookie.context, nullptr);
        ++(completion.what == Happened::RemoteWrite ? own.writes_told : own.reads_told);
        return;
    }
    ASSERT_NE(completion.cookie.context, nullptr);
    Order& order = *static_cast<Order*>(completion.cookie.context);
    ASSERT_EQ(completion.cookie.flags, order.number + 1);
    if (completion.what == Happened::Received) {
        heard_of_receive(end, order, completion);
        return;
    }
    ASSERT_FALSE(order.silent) << "nobody wants to hear of it";
    end_once(order, completion.status);
    if (completion.status == Status::PeerLost) {
        ASSERT_TRUE(traffic_.lose_peer);
        return;
    }
    if (completion.status == Status::Cancelled) {
        ASSERT_EQ(order.kind, Kind::Send);
        return;
    }
    ASSERT_EQ(completion.status, order.refused ? Status::Refused : Status::Ok);
    const Happened expected = order.kind == Kind::Send    ? Happened::Sent
                              : order.kind == Kind::Write ? Happened::Wrote
                              : order.kind == Kind::Read  ? Happened::Read
                                                          : Happened::AtomicDone;
    ASSERT_EQ(completion.what, expected);
    if (order.kind == Kind::Read) {
        ASSERT_EQ(order.bytes, order.expected) << "a read got something else";
    }
    if (order.kind == Kind::Atomic) {
        ASSERT_EQ(order.results, order.expected);
    }
    if (order.fenced) {
        for (std::size_t i = 0; i < order.number; ++i)
            ASSERT_TRUE(own.orders[i].ended != 0 || own.orders[i].silent ||
                        own.orders[i].kind == Kind::Receive ||
                        own.orders[i].kind == Kind::MultiReceive)
                << "a fence was overtaken";
    }
    if (order.kind == Kind::Send && order.delivered) {
        ASSERT_TRUE(is_there(1 - end, order.message)) << "not delivered";
    }
    if (order.kind == Kind::Send && order.matched) {
        ASSERT_FALSE(waits_at(1 - end, order.message)) << "nobody has asked for it yet";
    }
}

bool Traffic::is_there(std::size_t end, std::size_t message) {
    return programs_[end].consumed.contains(message) || waits_at(end, message);
}

bool Traffic::waits_at(std::size_t end, std::size_t message) {
    bool waits = false;
    pair_.ends[end].receives.visit_unexpected_of(
        *pair_.ends[end].conversation,
        [&](UnexpectedMessage& each) { waits = waits || each.data == message; });
    return waits;
}

void Traffic::heard_of_receive(std::size_t end, Order& order, const Completion& completion) {
    Program& own = programs_[end];
    const bool multi = order.kind == Kind::MultiReceive;
    ASSERT_TRUE(multi || order.kind == Kind::Receive);
    ASSERT_EQ(order.ended, 0) << "a receive is done twice";
    ASSERT_TRUE(completion.has_data);
    const std::size_t number = completion.data;
    ASSERT_LT(number, programs_[1 - end].messages.size());
    const Order* sent = programs_[1 - end].messages[number];
    ASSERT_NE(sent, nullptr) << "a message came that was cancelled";
    ASSERT_TRUE(own.consumed.insert(number).second) << "a message came twice";
    ASSERT_EQ(completion.space, sent->space);
    ASSERT_EQ(completion.tag, sent->tag);
    ASSERT_EQ((completion.tag ^ order.tag) & ~order.ignore, 0U);
    std::size_t offset = 0;
    if (multi)
        offset = static_cast<std::size_t>(static_cast<std::byte*>(completion.buffer) -
                                          order.bytes.data());
    if (order.space == Space::Message) own.placed[number] = {order.number, offset};
    if (multi) {
        if (completion.last_of_buffer) end_once(order, Status::Ok);
    } else {
        order.got = number;
        end_once(order, completion.status);
    }
    if (completion.status == Status::PeerLost) {
        ASSERT_TRUE(traffic_.lose_peer);
        ASSERT_TRUE(!own.lost || order.number < own.orders_before_loss)
            << "a receive took a message that can not come any more";
        return;
    }
    ASSERT_LE(offset, order.bytes.size());
    const std::size_t fits = std::min(sent->bytes.size(), order.bytes.size() - offset);
    ASSERT_EQ(completion.length, fits);
    ASSERT_EQ(completion.overflow, sent->bytes.size() - fits);
    ASSERT_EQ(completion.status, completion.overflow != 0 ? Status::Truncated : Status::Ok);
    for (std::size_t i = 0; i < fits; ++i)
        ASSERT_EQ(order.bytes[offset + i], content(1 - end, number, i)) << "byte " << i;
}

void Traffic::cancel_receives() {
    for (std::size_t end = 0; end < 2; ++end)
        for (Order& order : programs_[end].orders)
            if ((order.kind == Kind::Receive || order.kind == Kind::MultiReceive) &&
                order.ended == 0) {
                ASSERT_TRUE(pair_.ends[end].cancel_receive(&order)) << "a receive is nowhere";
                order.ended = 1;
            }
}

void Traffic::check() {
    for (std::size_t end = 0; end < 2; ++end) {
        SimulatedEnd& place = pair_.ends[end];
        const Program& own = programs_[end];
        for (const Order& order : own.orders)
            ASSERT_TRUE(order.ended == 1 || (order.silent && order.ended == 0))
                << "an order has not ended";
        check_order(end);
        EXPECT_EQ(place.conversation->under_way(), 0U);
        EXPECT_EQ(place.vbufs->in_use(), 0U);
        EXPECT_EQ(place.receives.posted_count(), 0U);
        EXPECT_EQ(place.receives.unexpected_count(), 0U);
        EXPECT_LE(place.registrations->entries(), cache_entries());
        if (traffic_.lose_peer) continue;
        EXPECT_EQ(place.conversation->credits().in_use(), 0U);
        EXPECT_FALSE(place.conversation->has_unsent());
        EXPECT_EQ(programs_[1 - end].words.heard, own.words_said);
        check_windows(end);
    }
    if (traffic_.lose_peer) return;
    // Every credit is at one end or the other.
    for (std::size_t end = 0; end < 2; ++end) {
        const CreditAccount& own = pair_.ends[end].conversation->credits();
        const CreditAccount& other = pair_.ends[1 - end].conversation->credits();
        EXPECT_EQ(own.remote() + other.owed() + other.in_use(), other.window());
    }
}

void Traffic::check_order(std::size_t end) {
    const Program& own = programs_[end];
    for (const Order& early : own.orders) {
        if (early.kind != Kind::Receive || !early.got || early.space != Space::Tagged) continue;
        for (std::size_t i = early.number + 1; i < own.orders.size(); ++i) {
            const Order& late = own.orders[i];
            if (late.kind != Kind::Receive || !late.got || late.space != Space::Tagged) continue;
            const Order* message = programs_[1 - end].messages[*late.got];
            if (((message->tag ^ early.tag) & ~early.ignore) == 0) {
                ASSERT_LT(*early.got, *late.got) << "a message was overtaken";
            }
        }
    }
    const Placed* before = nullptr;
    for (const auto& [number, placed] : own.placed) {
        if (before != nullptr) {
            ASSERT_TRUE(before->buffer < placed.buffer ||
                        (before->buffer == placed.buffer && before->offset <= placed.offset))
                << "an untagged message was overtaken";
        }
        before = &placed;
    }
}

}  // namespace via::mvich::test
