// SPDX-License-Identifier: BSD-3-Clause
// What the programs do and when: at random at first, then until all has come or the peer is lost.
#include "simulated_traffic.hpp"

#include <algorithm>

namespace via::mvich::test {

Traffic::Traffic(std::uint64_t seed, const PairOptions& options, const TrafficOptions& traffic)
    : pair_(seed, options), traffic_(traffic) {
    for (std::size_t end = 0; end < 2; ++end) {
        Program& own = programs_[end];
        own.window.resize(cells * cell_bytes + areas * area_bytes);
        for (std::size_t i = 0; i < own.window.size(); ++i)
            own.window[i] = window_content(i);
        std::fill_n(own.window.begin(), cells * cell_bytes, std::byte{0});
        const iovec memory{own.window.data(), own.window.size()};
        EXPECT_TRUE(
            pair_.ends[end].windows.add(window_key, {{memory}, 0, window_read | window_write}));
        EXPECT_TRUE(pair_.ends[end].windows.add(read_only_key, {{memory}, 0, window_read}));
        pair_.ends[end].on_done = [this, end](const Completion& completion) {
            heard(end, completion);
        };
        for (auto& cell : own.model)
            cell.assign(cell_bytes, std::byte{0});
        pair_.ends[end].around.words = &own.words;
    }
}

void Traffic::run() {
    const std::size_t actions = 20 + below(random(), 10 * traffic_.messages);
    for (std::size_t i = 0; i < actions && good(); ++i) {
        act(below(random(), 2));
        wander(6);
    }
    if (traffic_.lose_peer) {
        lose();
    } else {
        while (good() && !all_ordered()) {
            for (std::size_t end = 0; end < 2; ++end) {
                send(end);
                order_remote(end);
            }
            wander(20);
            ASSERT_LT(++idle_, std::size_t{100'000}) << "orders are not taken";
        }
        drain();
    }
    if (!good()) return;
    pair_.settle();
    cancel_receives();
    check();
}

std::size_t Traffic::random_size() {
    switch (below(random(), 7)) {
        case 0:
            return 0;
        case 1:
            return below(random(), 64);
        case 2:
            return 4000 + below(random(), 200);
        case 3:
            return below(random(), 9000);
        case 4:
            return below(random(), area_bytes);
        case 5:
            return 8150 + below(random(), 60);
        default:
            return below(random(), 1000);
    }
}

void Traffic::wander(std::uint64_t most) {
    for (std::uint64_t i = below(random(), most); i != 0; --i)
        pair_.step();
}

void Traffic::act(std::size_t end) {
    switch (below(random(), 12)) {
        case 0:
        case 1:
        case 2:
            send(end);
            break;
        case 3:
        case 4:
            receive(end);
            break;
        case 5:
            multi_receive(end);
            break;
        case 6:
        case 7:
            order_remote(end);
            break;
        case 8:
            look(end);
            break;
        case 9:
            cancel(end);
            break;
        case 10:
            take_claimed(end);
            break;
        default:
            say(end);
            break;
    }
}

Traffic::Order& Traffic::make(std::size_t end, Kind kind) {
    Program& own = programs_[end];
    Order& order = own.orders.emplace_back();
    order.kind = kind;
    order.number = own.orders.size() - 1;
    return order;
}

void Traffic::cut(Order& order) {
    std::size_t at = 0;
    for (std::uint64_t i = one_in(3) ? below(random(), 3) : 0; i != 0; --i) {
        const std::size_t piece = below(random(), order.bytes.size() - at + 1);
        order.pieces.push_back({order.bytes.data() + at, piece});
        at += piece;
    }
    order.pieces.push_back({order.bytes.data() + at, order.bytes.size() - at});
}

void Traffic::note(Order& order, Posted posted) {
    ASSERT_TRUE(posted == Posted::Done || posted == Posted::UnderWay);
    if (posted == Posted::Done && !order.silent) order.ended = 1;
}

bool Traffic::all_ordered() const {
    return std::ranges::all_of(programs_, [&](const Program& program) {
        return program.messages.size() == traffic_.messages &&
               program.remote_orders == traffic_.remote;
    });
}

bool Traffic::has_claims(std::size_t end) const {
    return std::ranges::any_of(programs_[end].orders,
                               [](const Order& order) { return order.claimed; });
}

std::vector<std::size_t> Traffic::missing(std::size_t end) {
    std::vector<std::size_t> numbers;
    const auto& messages = programs_[1 - end].messages;
    for (std::size_t i = 0; i < messages.size(); ++i)
        if (messages[i] != nullptr && !programs_[end].consumed.contains(i)) numbers.push_back(i);
    std::ranges::shuffle(numbers, random());
    return numbers;
}

bool Traffic::all_ended() const {
    for (const Program& program : programs_)
        for (const Order& order : program.orders)
            if (order.ended == 0 && !order.silent && order.kind != Kind::Receive &&
                order.kind != Kind::MultiReceive)
                return false;
    return true;
}

void Traffic::drain() {
    std::array<std::optional<std::size_t>, 2> wanted;
    std::size_t steps = 0;
    for (;;) {
        bool over = all_ended();
        for (std::size_t end = 0; end < 2 && good(); ++end) {
            while (has_claims(end) && good())
                take_claimed(end);
            // One at a time, by its own tag; of those without the oldest comes first anyway.
            if (wanted[end] && !programs_[end].consumed.contains(*wanted[end]) &&
                programs_[1 - end].messages[*wanted[end]] != nullptr) {
                over = false;
                continue;
            }
            const auto left = missing(end);
            if (left.empty()) continue;
            over = false;
            if (!traffic_.picky && !one_in(4)) continue;
            const Order& message = *programs_[1 - end].messages[left[0]];
            // Without a tag another one may come: it is asked for until all have.
            if (traffic_.picky && message.space == Space::Tagged) wanted[end] = left[0];
            if (message.space == Space::Message && one_in(2)) {
                multi_receive(end);
                continue;
            }
            Order& order = make(end, Kind::Receive);
            order.space = message.space;
            order.tag = message.tag;
            order.ignore = 0;
            order.bytes.assign(area_bytes, std::byte{0x11});
            cut(order);
            pair_.ends[end].receive(order_of(order));
        }
        if (over || !good()) return;
        for (int i = 0; i < 20; ++i)
            pair_.step();
        ASSERT_LT(++steps, std::size_t{20'000}) << "stuck: " << state();
    }
}

std::string Traffic::state() {
    std::string text;
    for (std::size_t end = 0; end < 2; ++end) {
        const SimulatedEnd& place = pair_.ends[end];
        text += "end " + std::to_string(end) + " misses " + std::to_string(missing(end).size()) +
                ", has credits " + std::to_string(place.conversation->credits().remote()) +
                ", owes " + std::to_string(place.conversation->credits().owed()) + ", holds " +
                std::to_string(place.conversation->credits().in_use()) + " of " +
                std::to_string(place.conversation->credits().window()) + ", orders " +
                std::to_string(place.conversation->under_way()) + ", unexpected " +
                std::to_string(place.receives.unexpected_count()) + "; ";
    }
    return text;
}

void Traffic::lose() {
    pair_.cut();
    const std::size_t first = below(random(), 2);
    for (const std::size_t end : {first, 1 - first}) {
        for (std::uint64_t i = below(random(), 10); i != 0 && good(); --i) {
            act(below(random(), 2));
            wander(4);
        }
        programs_[end].lost = true;
        programs_[end].orders_before_loss = programs_[end].orders.size();
        pair_.ends[end].conversation->lost(Status::PeerLost);
        SendOrder late;
        late.to = 0;
        ASSERT_EQ(pair_.ends[end].conversation->send(late), Posted::Again);
    }
    // What was here before can still be had.
    for (std::size_t end = 0; end < 2; ++end) {
        while (has_claims(end) && good())
            take_claimed(end);
        for (std::size_t i = 0; pair_.ends[end].receives.unexpected_count() != 0 && good(); ++i) {
            ASSERT_LT(i, std::size_t{10'000});
            receive(end);
        }
    }
}

}  // namespace via::mvich::test
