// SPDX-License-Identifier: BSD-3-Clause
// What happens next, and the simulated clock that it moves.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/core/fifo.hpp"
#include "sim/core/time.hpp"
#include "sim/core/wide.hpp"

namespace via::sim {

struct Action {
    void (*function)(void* context) = nullptr;
    void* context = nullptr;
};

/// Events come out by time and, at the same time, in the order in which they went in.
class EventQueue {
  public:
    using Ticket = std::uint64_t;

    [[nodiscard]] Time now() const noexcept { return now_; }
    [[nodiscard]] bool empty() const noexcept { return ready_.empty() && heap_.empty(); }
    /// Of an event that is there.
    [[nodiscard]] Time next_time() const noexcept {
        return ready_.empty() ? heap_.front().time : now_;
    }

    void push_now(Action action) { ready_.push(action); }

    /// For a later time only; the ticket is good until the event has come out.
    Ticket push_later(Time time, Action action) {
        const Ticket ticket = next_ticket_++;
        rise(open_hole(), {time, ticket, action});
        return ticket;
    }

    /// False: it is not there any more. Takes as long as the queue is: whoever gives up early is
    /// rare, and all others are faster for not having to know their places.
    bool cancel(Ticket ticket) noexcept;

    /// Takes out an event that is there; it is now its time.
    [[nodiscard]] Action pop() noexcept {
        // What lies in the heap for this very moment was put there before the moment came, and so
        // before all that is ready.
        if (!ready_.empty() && (heap_.empty() || heap_.front().time != now_)) return ready_.pop();
        const Entry first = heap_.front();
        remove(0);
        now_ = first.time;
        return first.action;
    }

    /// To a moment before which nothing is left to happen.
    void advance(Time moment) noexcept { now_ = moment; }

  private:
    struct Entry {
        Time time;
        Ticket ticket;
        Action action;

        /// Times are never negative, so one comparison of 128 bits orders by time, then ticket.
        [[nodiscard]] Wide key() const noexcept {
            return Wide{static_cast<std::uint64_t>(time)} << 64 | ticket;
        }
    };

    // A heap in which every entry has four children: half as deep as one of two, and the children
    // of one entry lie side by side. Entries move into a hole rather than change places.
    [[nodiscard]] std::size_t open_hole() {
        heap_.emplace_back();
        return heap_.size() - 1;
    }
    void rise(std::size_t hole, const Entry& entry) noexcept {
        while (hole > 0) {
            const std::size_t parent = (hole - 1) / 4;
            if (heap_[parent].key() < entry.key()) break;
            heap_[hole] = heap_[parent];
            hole = parent;
        }
        heap_[hole] = entry;
    }
    void remove(std::size_t place) noexcept;

    std::vector<Entry> heap_;
    Fifo<Action> ready_;  ///< for now; most wakings are, and need no heap
    Ticket next_ticket_ = 1;
    Time now_ = 0;
};

}  // namespace via::sim
