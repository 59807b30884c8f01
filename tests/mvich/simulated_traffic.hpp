// SPDX-License-Identifier: BSD-3-Clause
// Two programs that order everything a conversation can do, by seed, and look at everything they
// hear: every order ends exactly once, every message arrives once, whole and in order, windows hold
// what was written into them, and nothing is held when all is over.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "mvich/atomic_operation.hpp"
#include "simulated_pair.hpp"

namespace via::mvich::test {

/// What a seed decides about the programs.
struct TrafficOptions {
    std::size_t messages = 30;  ///< of each end
    std::size_t remote = 20;    ///< orders on windows, of each end
    /// At the end one message after the other is asked for by its own tag, in no order at all: a
    /// program may do that, so flow control must not depend on what it asks for first.
    bool picky = false;
    bool lose_peer = false;
    bool small_order = true;  ///< small writes and reads are done in their order
};

class Traffic {
  public:
    Traffic(std::uint64_t seed, const PairOptions& options, const TrafficOptions& traffic)
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

    void run() {
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

  private:
    static constexpr std::uint64_t window_key = 77;
    static constexpr std::uint64_t read_only_key = 78;
    static constexpr std::size_t cells = 4;
    static constexpr std::size_t cell_bytes = 192;
    static constexpr std::size_t atomic_cell = cells - 1;
    static constexpr std::size_t areas = 6;
    static constexpr std::size_t first_written_area = 2;
    static constexpr std::size_t area_bytes = 70'000;
    static constexpr std::uint64_t class_mask = 3;

    enum class Kind : std::uint8_t { Send, Receive, MultiReceive, Write, Read, Atomic };
    struct Order {
        Kind kind = Kind::Send;
        std::size_t number = 0;  ///< in the order of posting
        bool injected = false;
        bool silent = false;  ///< nothing is heard of it
        bool fenced = false;
        bool delivered = false;
        bool claimed = false;  ///< for claimed_receive(): not posted yet
        int ended = 0;
        Status status = Status::Ok;
        std::vector<std::byte> bytes;
        std::vector<iovec> pieces;
        // Sends.
        Space space = Space::Tagged;
        std::uint64_t tag = 0;
        std::size_t message = 0;  ///< number of it
        // Receives.
        std::uint64_t ignore = 0;
        std::optional<std::size_t> got;
        std::size_t multi_got = 0;
        bool last_heard = false;
        // Windows.
        std::vector<std::byte> expected;  ///< of reads and fetches
        std::vector<std::byte> results;   ///< of fetches
        bool refused = false;
        std::optional<std::size_t> area;  ///< written by it alone
    };
    struct Placed {
        std::size_t buffer;  ///< number of its order
        std::size_t offset;
    };
    struct Words final : ControlListener {
        void word(const HostPort&, std::span<const std::byte> bytes) override {
            std::size_t number = 0;
            ASSERT_EQ(bytes.size(), sizeof number);
            std::memcpy(&number, bytes.data(), sizeof number);
            ASSERT_EQ(number, heard++) << "words overtake each other";
        }
        void lost(const HostPort&, Status) override {}
        std::size_t heard = 0;
    };
    struct Program {
        std::deque<Order> orders;
        std::vector<Order*> messages;  ///< sent from here, by number; null: cancelled
        std::size_t remote_orders = 0;
        std::set<std::size_t> consumed;        ///< messages of the other end
        std::map<std::size_t, Placed> placed;  ///< untagged ones
        std::vector<std::byte> window;
        std::array<std::vector<std::byte>, cells> model;  ///< of the other end's cells
        std::size_t next_area = first_written_area;
        std::size_t writes_told = 0;
        std::size_t reads_told = 0;
        std::size_t words_said = 0;
        bool lost = false;
        std::size_t orders_before_loss = 0;
        Words words;
    };

    [[nodiscard]] Random& random() { return pair_.random; }
    [[nodiscard]] static bool good() { return !testing::Test::HasFailure(); }
    [[nodiscard]] bool one_in(std::uint64_t n) { return below(random(), n) == 0; }

    [[nodiscard]] static std::byte content(std::size_t end, std::uint64_t message, std::size_t at) {
        return static_cast<std::byte>(end * 59 + message * 131 + at * 7 + (at >> 8));
    }
    [[nodiscard]] static std::byte window_content(std::size_t at) {
        return static_cast<std::byte>(at * 11 + (at >> 9));
    }

    /// Sizes around the limits of packets and RDMA, and everything between.
    [[nodiscard]] std::size_t random_size() {
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

    void wander(std::uint64_t most) {
        for (std::uint64_t i = below(random(), most); i != 0; --i)
            pair_.step();
    }

    void act(std::size_t end) {
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

    Order& make(std::size_t end, Kind kind) {
        Program& own = programs_[end];
        Order& order = own.orders.emplace_back();
        order.kind = kind;
        order.number = own.orders.size() - 1;
        return order;
    }
    [[nodiscard]] static Cookie cookie_of(Order& order) { return {&order, order.number + 1}; }

    /// What is behind a fence comes only when all before it was asked for.
    [[nodiscard]] bool may_fence() const { return !traffic_.picky; }

    /// In one to three pieces.
    void cut(Order& order) {
        std::size_t at = 0;
        for (std::uint64_t i = one_in(3) ? below(random(), 3) : 0; i != 0; --i) {
            const std::size_t piece = below(random(), order.bytes.size() - at + 1);
            order.pieces.push_back({order.bytes.data() + at, piece});
            at += piece;
        }
        order.pieces.push_back({order.bytes.data() + at, order.bytes.size() - at});
    }

    void note(Order& order, Posted posted) {
        ASSERT_TRUE(posted == Posted::Done || posted == Posted::UnderWay);
        if (posted == Posted::Done && !order.silent) order.ended = 1;
    }

    void send(std::size_t end) {
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

    [[nodiscard]] static ReceiveOrder order_of(Order& order) {
        ReceiveOrder ordered;
        ordered.space = order.space;
        ordered.tag = order.tag;
        ordered.ignore = order.ignore;
        ordered.pieces = order.pieces;
        ordered.cookie = cookie_of(order);
        return ordered;
    }

    /// Of a class of tags, or any; sometimes too short for some messages.
    Order& make_receive(std::size_t end) {
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

    void receive(std::size_t end) {
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

    void multi_receive(std::size_t end) {
        Order& order = make(end, Kind::MultiReceive);
        order.space = Space::Message;
        order.bytes.assign(20'000 + below(random(), 100'000), std::byte{0x11});
        order.pieces.push_back({order.bytes.data(), order.bytes.size()});
        ReceiveOrder ordered = order_of(order);
        ordered.flags = order_multi_receive;
        ordered.least_free = below(random(), 10'000);
        pair_.ends[end].receive(ordered);
    }

    /// Peeks; and takes aside or throws away what it sees.
    void look(std::size_t end) {
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

    void check_envelope(std::size_t end, const UnexpectedMessage& message) {
        const Order* sent = programs_[1 - end].messages[message.data];
        ASSERT_NE(sent, nullptr) << "a cancelled message came";
        ASSERT_EQ(message.tag, sent->tag);
        ASSERT_EQ(message.total, sent->bytes.size());
        ASSERT_TRUE(message.has_data);
    }

    void take_claimed(std::size_t end) {
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

    void cancel(std::size_t end) {
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

    void say(std::size_t end) {
        Program& own = programs_[end];
        if (own.lost) return;
        const std::size_t number = own.words_said;
        std::array<std::byte, sizeof number> bytes;
        std::memcpy(bytes.data(), &number, sizeof number);
        if (pair_.ends[end].conversation->say(bytes)) ++own.words_said;
    }

    void order_remote(std::size_t end) {
        Program& own = programs_[end];
        if (own.remote_orders == traffic_.remote || own.lost) return;
        switch (below(random(), 5)) {
            case 0:
            case 1:
                if (traffic_.small_order)
                    touch_cell(end);
                else
                    order_atomic(end);
                break;
            case 2:
                touch_area(end);
                break;
            case 3:
                ask_too_much(end);
                break;
            default:
                order_atomic(end);
                break;
        }
    }

    /// Places an order on the window; false: not now, and it is as if it had not been.
    bool place(std::size_t end, Order& order, RemoteOrder& ordered) {
        Program& own = programs_[end];
        order.fenced = may_fence() && one_in(10);
        if (order.fenced) ordered.flags |= order_fence;
        order.delivered = one_in(4);
        if (order.delivered) ordered.flags |= order_delivered;
        if (order.injected) ordered.flags |= order_inject;
        order.silent = order.injected && !order.delivered;
        ordered.to = 0;
        ordered.cookie = cookie_of(order);
        const Posted posted = pair_.ends[end].conversation->remote(ordered);
        if (posted == Posted::Again) {
            own.orders.pop_back();
            return false;
        }
        note(order, posted);
        ++own.remote_orders;
        if (order.injected) std::ranges::fill(order.bytes, std::byte{0xEE});
        if (one_in(2)) pair_.ends[end].conversation->flush();
        return true;
    }

    /// [at, at + bytes) of a window, named in one piece or two.
    [[nodiscard]] std::vector<RemotePiece> remote_pieces(std::size_t at, std::size_t bytes,
                                                         std::uint64_t key) {
        const std::size_t first = one_in(3) ? below(random(), bytes + 1) : bytes;
        std::vector<RemotePiece> pieces{{at, first, key}};
        if (first != bytes) pieces.push_back({at + first, bytes - first, key});
        return pieces;
    }

    /// Small writes and reads at the same few places: done as if one after the other.
    void touch_cell(std::size_t end) {
        Program& own = programs_[end];
        const std::size_t cell = below(random(), atomic_cell);
        const std::size_t at = below(random(), cell_bytes);
        const std::size_t bytes = 1 + below(random(), cell_bytes - at);
        const bool write = one_in(2);
        Order& order = make(end, write ? Kind::Write : Kind::Read);
        order.bytes.resize(bytes);
        cut(order);
        auto& model = own.model[cell];
        const auto remote = remote_pieces(cell * cell_bytes + at, bytes, window_key);
        RemoteOrder ordered;
        ordered.what = write ? Remote::Write : Remote::Read;
        ordered.pieces = order.pieces;
        ordered.remote = remote;
        std::vector<std::byte> written(bytes);
        if (write) {
            for (std::byte& byte : written)
                byte = static_cast<std::byte>(random()());
            order.bytes.assign(written.begin(), written.end());
            order.injected = one_in(4);
        } else {
            order.expected.assign(model.begin() + static_cast<std::ptrdiff_t>(at),
                                  model.begin() + static_cast<std::ptrdiff_t>(at + bytes));
        }
        if (place(end, order, ordered) && write)
            std::ranges::copy(written, model.begin() + static_cast<std::ptrdiff_t>(at));
    }

    /// Any size, in memory that nobody else touches meanwhile.
    void touch_area(std::size_t end) {
        Program& own = programs_[end];
        const bool write = own.next_area < areas && one_in(2);
        const std::size_t area = write ? own.next_area : below(random(), first_written_area);
        const std::size_t begin = cells * cell_bytes + area * area_bytes;
        Order& order = make(end, write ? Kind::Write : Kind::Read);
        order.bytes.resize(random_size());
        cut(order);
        const auto remote = remote_pieces(begin, order.bytes.size(), window_key);
        RemoteOrder ordered;
        ordered.what = write ? Remote::Write : Remote::Read;
        ordered.pieces = order.pieces;
        ordered.remote = remote;
        if (one_in(2)) {
            ordered.flags |= order_has_data;
            ordered.data = order.number;
        }
        for (std::size_t i = 0; i < order.bytes.size(); ++i)
            (write ? order.bytes[i] : order.expected.emplace_back()) =
                write ? content(end, order.number, i) : window_content(begin + i);
        if (place(end, order, ordered) && write) {
            order.area = begin;
            ++own.next_area;
        }
    }

    /// A wrong key, range or right: refused, and nothing is touched.
    void ask_too_much(std::size_t end) {
        const bool write = one_in(2);
        Order& order = make(end, write ? Kind::Write : Kind::Read);
        order.bytes.assign(1 + random_size(), std::byte{0x55});
        cut(order);
        order.refused = true;
        order.expected = order.bytes;
        std::vector<RemotePiece> remote;
        const std::size_t all = cells * cell_bytes + areas * area_bytes;
        switch (below(random(), write ? 3 : 2)) {
            case 0:
                remote = remote_pieces(0, order.bytes.size(), 4711);
                break;
            case 1:
                remote =
                    remote_pieces(all - order.bytes.size() + 1, order.bytes.size(), window_key);
                break;
            default:
                remote = remote_pieces(0, order.bytes.size(), read_only_key);
                break;
        }
        RemoteOrder ordered;
        ordered.what = write ? Remote::Write : Remote::Read;
        ordered.pieces = order.pieces;
        ordered.remote = remote;
        (void)place(end, order, ordered);
    }

    void order_atomic(std::size_t end) {
        Program& own = programs_[end];
        Order& order = make(end, Kind::Atomic);
        auto& model = own.model[atomic_cell];
        const auto word = [&](std::size_t at) {
            std::uint64_t value;
            std::memcpy(&value, model.data() + at, sizeof value);
            return value;
        };
        const auto set = [&](std::vector<std::byte>& to, std::uint64_t value) {
            to.resize(sizeof value);
            std::memcpy(to.data(), &value, sizeof value);
        };
        const auto kind = below(random(), 3);
        const std::size_t at = kind == 2 ? 8 : 0;
        const std::uint64_t now = word(at);
        const std::uint64_t operand = 1 + below(random(), 3);
        const std::uint64_t compare = one_in(3) ? now + 1 : now;
        std::vector<std::byte> comparand;
        set(order.bytes, operand);
        set(comparand, compare);
        if (kind != 0) {
            order.results.assign(sizeof now, std::byte{0});
            set(order.expected, now);
        } else {
            order.injected = one_in(3);
        }
        const iovec piece{order.bytes.data(), order.bytes.size()};
        const iovec result{order.results.data(), order.results.size()};
        const iovec compared{comparand.data(), comparand.size()};
        const RemotePiece there{atomic_cell * cell_bytes + at, sizeof now, window_key};
        RemoteOrder ordered;
        ordered.what = kind == 0   ? Remote::Atomic
                       : kind == 1 ? Remote::FetchAtomic
                                   : Remote::CompareAtomic;
        ordered.pieces = {&piece, 1};
        if (kind != 0) ordered.results = {&result, 1};
        if (kind == 2) ordered.compares = {&compared, 1};
        ordered.remote = {&there, 1};
        ordered.datatype = static_cast<std::uint8_t>(AtomicType::Uint64);
        ordered.operation = static_cast<std::uint8_t>(kind == 2 ? AtomicOperation::SwapIfEqual
                                                                : AtomicOperation::Sum);
        if (!place(end, order, ordered)) return;
        const std::uint64_t after = kind != 2 ? now + operand : compare == now ? operand : now;
        std::memcpy(model.data() + at, &after, sizeof after);
    }

    // What is heard.

    void end_once(Order& order, Status status) {
        ASSERT_EQ(order.ended, 0) << "an order ends twice";
        order.ended = 1;
        order.status = status;
    }

    void heard(std::size_t end, const Completion& completion) {
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
    }

    [[nodiscard]] bool is_there(std::size_t end, std::size_t message) {
        bool waits = programs_[end].consumed.contains(message);
        pair_.ends[end].receives.visit_unexpected_of(
            *pair_.ends[end].conversation,
            [&](UnexpectedMessage& each) { waits = waits || each.data == message; });
        return waits;
    }

    void heard_of_receive(std::size_t end, Order& order, const Completion& completion) {
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

    // The end.

    [[nodiscard]] bool all_ordered() const {
        return std::ranges::all_of(programs_, [&](const Program& program) {
            return program.messages.size() == traffic_.messages &&
                   program.remote_orders == traffic_.remote;
        });
    }
    [[nodiscard]] bool has_claims(std::size_t end) const {
        return std::ranges::any_of(programs_[end].orders,
                                   [](const Order& order) { return order.claimed; });
    }
    /// Messages of the other end that did not arrive yet, in no order.
    [[nodiscard]] std::vector<std::size_t> missing(std::size_t end) {
        std::vector<std::size_t> numbers;
        const auto& messages = programs_[1 - end].messages;
        for (std::size_t i = 0; i < messages.size(); ++i)
            if (messages[i] != nullptr && !programs_[end].consumed.contains(i))
                numbers.push_back(i);
        std::ranges::shuffle(numbers, random());
        return numbers;
    }
    [[nodiscard]] bool all_ended() const {
        for (const Program& program : programs_)
            for (const Order& order : program.orders)
                if (order.ended == 0 && !order.silent && order.kind != Kind::Receive &&
                    order.kind != Kind::MultiReceive)
                    return false;
        return true;
    }

    void drain() {
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

    [[nodiscard]] std::string state() {
        std::string text;
        for (std::size_t end = 0; end < 2; ++end) {
            const SimulatedEnd& place = pair_.ends[end];
            text += "end " + std::to_string(end) + " misses " +
                    std::to_string(missing(end).size()) + ", has credits " +
                    std::to_string(place.conversation->credits().remote()) + ", owes " +
                    std::to_string(place.conversation->credits().owed()) + ", holds " +
                    std::to_string(place.conversation->credits().in_use()) + " of " +
                    std::to_string(place.conversation->credits().window()) + ", orders " +
                    std::to_string(place.conversation->under_way()) + ", unexpected " +
                    std::to_string(place.receives.unexpected_count()) + "; ";
        }
        return text;
    }

    /// The connection breaks; one end notices before the other.
    void lose() {
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
            for (std::size_t i = 0; pair_.ends[end].receives.unexpected_count() != 0 && good();
                 ++i) {
                ASSERT_LT(i, std::size_t{10'000});
                receive(end);
            }
        }
    }

    void cancel_receives() {
        for (std::size_t end = 0; end < 2; ++end)
            for (Order& order : programs_[end].orders)
                if ((order.kind == Kind::Receive || order.kind == Kind::MultiReceive) &&
                    order.ended == 0) {
                    ASSERT_TRUE(pair_.ends[end].cancel_receive(&order)) << "a receive is nowhere";
                    order.ended = 1;
                }
    }

    void check() {
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

    [[nodiscard]] std::size_t cache_entries() const {
        return pair_.options().settings.cache_entries;
    }

    /// Nobody overtakes: a receive has an older message than a later receive, if it could have had
    /// that one, too.
    void check_order(std::size_t end) {
        const Program& own = programs_[end];
        for (const Order& early : own.orders) {
            if (early.kind != Kind::Receive || !early.got || early.space != Space::Tagged) continue;
            for (std::size_t i = early.number + 1; i < own.orders.size(); ++i) {
                const Order& late = own.orders[i];
                if (late.kind != Kind::Receive || !late.got || late.space != Space::Tagged)
                    continue;
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

    void check_windows(std::size_t end) {
        const Program& own = programs_[end];
        const Program& other = programs_[1 - end];
        for (std::size_t cell = 0; cell < cells; ++cell)
            ASSERT_TRUE(
                std::equal(own.model[cell].begin(), own.model[cell].end(),
                           other.window.begin() + static_cast<std::ptrdiff_t>(cell * cell_bytes)))
                << "cell " << cell;
        std::size_t writes = 0;
        std::size_t reads = 0;
        for (const Order& order : own.orders) {
            if (order.refused) continue;
            writes += order.kind == Kind::Write || order.kind == Kind::Atomic;
            reads += order.kind == Kind::Read;
            if (!order.area) continue;
            for (std::size_t i = 0; i < order.bytes.size(); ++i)
                ASSERT_EQ(other.window[*order.area + i], content(end, order.number, i));
        }
        // What no order has written is as it was.
        const std::size_t untouched = cells * cell_bytes + own.next_area * area_bytes;
        for (std::size_t i = untouched; i < other.window.size(); i += 97)
            ASSERT_EQ(other.window[i], window_content(i));
        EXPECT_EQ(other.writes_told, writes);
        EXPECT_EQ(other.reads_told, reads);
    }

    std::array<Program, 2> programs_;  // before the ends: they are told until they are gone
    SimulatedPair pair_;
    const TrafficOptions traffic_;
    std::size_t idle_ = 0;
};

}  // namespace via::mvich::test
