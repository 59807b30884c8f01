// SPDX-License-Identifier: BSD-3-Clause
// Windows: the programs write, read, do atomics, ask too much, and know what a window holds.
#include "simulated_traffic.hpp"

#include <algorithm>

#include "mvich/atomic_operation.hpp"

namespace via::mvich::test {

void Traffic::order_remote(std::size_t end) {
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

bool Traffic::place(std::size_t end, Order& order, RemoteOrder& ordered) {
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

std::vector<RemotePiece> Traffic::remote_pieces(std::size_t at, std::size_t bytes,
                                                std::uint64_t key) {
    const std::size_t first = one_in(3) ? below(random(), bytes + 1) : bytes;
    std::vector<RemotePiece> pieces{{at, first, key}};
    if (first != bytes) pieces.push_back({at + first, bytes - first, key});
    return pieces;
}

void Traffic::touch_cell(std::size_t end) {
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

void Traffic::touch_area(std::size_t end) {
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

void Traffic::ask_too_much(std::size_t end) {
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
            remote = remote_pieces(all - order.bytes.size() + 1, order.bytes.size(), window_key);
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

void Traffic::order_atomic(std::size_t end) {
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
    ordered.operation =
        static_cast<std::uint8_t>(kind == 2 ? AtomicOperation::SwapIfEqual : AtomicOperation::Sum);
    if (!place(end, order, ordered)) return;
    const std::uint64_t after = kind != 2 ? now + operand : compare == now ? operand : now;
    std::memcpy(model.data() + at, &after, sizeof after);
}

void Traffic::check_windows(std::size_t end) {
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

}  // namespace via::mvich::test
