// SPDX-License-Identifier: BSD-3-Clause
// Messages: the programs send, receive, look at what waits, cancel, and say words.
#include "simulated_traffic.hpp"

#include <algorithm>

namespace via::mvich::test {

void Traffic::send(std::size_t end) {
    Program& own = programs_[end];
    if (own.messages.size() == traffic_.messages || own.lost) return;
    Order& order = make(end, Kind::Send);
    order.message = own.messages.size();
    order.space = one_in(4) ? Space::Message : Space::Tagged;
    order.tag = order.space == Space::Tagged ? order.message << 2 | below(random(), 3) : 0;
    order.bytes.resize(random_size());
    for (std::size_t i = 0; i < order.bytes.size(); ++i)
        order.bytes[i] = content(end, order.message, i);
    cut(order);
    SendOrder ordered;
    ordered.to = 0;
    ordered.space = order.space;
    ordered.tag = order.tag;
    ordered.data = order.message;
    ordered.flags = order_has_data;
    ordered.pieces = order.pieces;
    ordered.cookie = cookie_of(order);
    order.injected = order.bytes.size() <= 4096 && one_in(4);
    order.delivered = one_in(5);
    order.silent = order.injected && !order.delivered;
    order.fenced = may_fence() && one_in(12);
    order.matched = !order.injected && one_in(6);
    if (order.matched) ordered.flags |= order_matched;
    if (order.injected) ordered.flags |= order_inject;
    if (order.delivered) ordered.flags |= order_delivered;
    if (order.fenced) ordered.flags |= order_fence;
    const Posted posted = pair_.ends[end].conversation->send(ordered);
    if (posted == Posted::Again) {
        own.orders.pop_back();
        return;
    }
    note(order, posted);
    own.messages.push_back(&order);
    if (order.injected) std::ranges::fill(order.bytes, std::byte{0xEE});
    if (one_in(2)) pair_.ends[end].conversation->flush();
}

ReceiveOrder Traffic::order_of(Order& order) {
    ReceiveOrder ordered;
    ordered.space = order.space;
    ordered.tag = order.tag;
    ordered.ignore = order.ignore;
    ordered.pieces = order.pieces;
    ordered.cookie = cookie_of(order);
    return ordered;
}

Traffic::Order& Traffic::make_receive(std::size_t end) {
    Order& order = make(end, Kind::Receive);
    order.tag = below(random(), 3);
    order.ignore = one_in(2) ? ~class_mask : ~std::uint64_t{0};
    if (one_in(6)) {
        order.space = Space::Message;
        order.tag = order.ignore = 0;
    }
    order.bytes.assign(one_in(4) ? random_size() : area_bytes, std::byte{0x11});
    cut(order);
    return order;
}

void Traffic::receive(std::size_t end) {
    Order& order = make_receive(end);
    // Sometimes exactly as long as a message that waits or will come.
    const Program& other = programs_[1 - end];
    if (order.space == Space::Tagged && !other.messages.empty() && one_in(3)) {
        const Order* message = other.messages[below(random(), other.messages.size())];
        if (message != nullptr && message->space == Space::Tagged) {
            order.tag = message->tag;
            order.ignore = 0;
            order.bytes.assign(message->bytes.size(), std::byte{0x11});
            order.pieces.clear();
            cut(order);
        }
    }
    pair_.ends[end].receive(order_of(order));
}

void Traffic::multi_receive(std::size_t end) {
    Order& order = make(end, Kind::MultiReceive);
    order.space = Space::Message;
    order.bytes.assign(20'000 + below(random(), 100'000), std::byte{0x11});
    order.pieces.push_back({order.bytes.data(), order.bytes.size()});
    ReceiveOrder ordered = order_of(order);
    ordered.flags = order_multi_receive;
    ordered.least_free = below(random(), 10'000);
    pair_.ends[end].receive(ordered);
}

void Traffic::look(std::size_t end) {
    SimulatedEnd& place = pair_.ends[end];
    Order& order = make_receive(end);
    UnexpectedMessage* message = place.receives.find(order_of(order));
    const auto how = below(random(), 3);
    if (message == nullptr || how == 0) {
        if (message != nullptr) {
            check_envelope(end, *message);
        }
        programs_[end].orders.pop_back();
        return;
    }
    check_envelope(end, *message);
    order.got = message->data;
    programs_[end].consumed.insert(message->data);
    if (how == 1) {
        order.claimed = true;
        message->claimed_by = &order;
        return;
    }
    order.ended = 1;  // thrown away: as if received
    order.silent = true;
    if (order.space == Space::Message) programs_[end].placed[*order.got] = {order.number, 0};
    place.discard(*message);
}

void Traffic::check_envelope(std::size_t end, const UnexpectedMessage& message) {
    const Order* sent = programs_[1 - end].messages[message.data];
    ASSERT_NE(sent, nullptr) << "a cancelled message came";
    ASSERT_EQ(message.tag, sent->tag);
    ASSERT_EQ(message.total, sent->bytes.size());
    ASSERT_TRUE(message.has_data);
}

void Traffic::take_claimed(std::size_t end) {
    SimulatedEnd& place = pair_.ends[end];
    for (Order& order : programs_[end].orders) {
        if (!order.claimed) continue;
        UnexpectedMessage* message = place.receives.find_claimed(&order);
        if (message == nullptr) {
            ASSERT_TRUE(programs_[end].lost) << "a claimed message is gone";
            order.ended = 1;
            order.silent = true;
            order.claimed = false;
            return;
        }
        order.claimed = false;
        programs_[end].consumed.erase(*order.got);
        if (one_in(3)) {
            programs_[end].consumed.insert(*order.got);
            order.ended = 1;
            order.silent = true;
            if (order.space == Space::Message)
                programs_[end].placed[*order.got] = {order.number, 0};
            place.discard(*message);
            return;
        }
        order.got.reset();
        place.give(*message, *place.receives.make(order_of(order)));
        return;
    }
}

void Traffic::cancel(std::size_t end) {
    Program& own = programs_[end];
    if (own.orders.empty()) return;
    Order& order = own.orders[below(random(), own.orders.size())];
    if (order.silent || order.claimed) return;
    if (order.kind == Kind::Receive || order.kind == Kind::MultiReceive) {
        if (!pair_.ends[end].cancel_receive(&order)) return;
        ASSERT_EQ(order.ended, 0) << "what has ended was cancelled";
        end_once(order, Status::Cancelled);
        return;
    }
    if (order.kind != Kind::Send) return;  // what comes after it may count on it
    const int before = order.ended;
    if (!pair_.ends[end].conversation->cancel_send(&order)) return;
    ASSERT_EQ(before, 0);
    ASSERT_EQ(order.ended, 1);
    ASSERT_EQ(order.status, Status::Cancelled);
    own.messages[order.message] = nullptr;
}

void Traffic::say(std::size_t end) {
    Program& own = programs_[end];
    if (own.lost) return;
    const std::size_t number = own.words_said;
    std::array<std::byte, sizeof number> bytes;
    std::memcpy(bytes.data(), &number, sizeof number);
    if (pair_.ends[end].conversation->say(bytes)) ++own.words_said;
}

}  // namespace via::mvich::test
