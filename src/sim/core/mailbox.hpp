// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <deque>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "sim/core/simulation.hpp"
#include "sim/core/wait_list.hpp"

namespace via::sim {

/// A channel from any processes to any processes. Values come out in the order in which put() was
/// called, and go to takers in the order in which take() was called: nobody overtakes. A put into a
/// full mailbox waits until there is room, and that is its value's room: back-pressure.
template <class T>
class Mailbox {
  public:
    static constexpr std::size_t unbounded = std::numeric_limits<std::size_t>::max();

    explicit Mailbox(Simulation& simulation, std::size_t capacity = unbounded)
        : simulation_(simulation), capacity_(capacity) {
        if (capacity == 0) throw std::invalid_argument("a mailbox needs room for one value");
    }
    Mailbox(const Mailbox&) = delete;
    Mailbox& operator=(const Mailbox&) = delete;

    [[nodiscard]] std::size_t size() const noexcept { return values_.size(); }
    [[nodiscard]] std::size_t longest() const noexcept { return longest_; }
    [[nodiscard]] bool empty() const noexcept { return values_.empty(); }
    [[nodiscard]] bool full() const noexcept { return values_.size() >= capacity_; }

    /// False: it is full, and the value is as it was.
    [[nodiscard]] bool try_put(T& value) {
        if (full()) return false;
        deliver(std::move(value));
        return true;
    }

    [[nodiscard]] std::optional<T> try_take() {
        if (values_.empty()) return std::nullopt;
        std::optional<T> value(std::move(values_.front()));
        values_.pop_front();
        if (!putting_.empty()) {
            Put& put = putting_.pop();
            deliver(std::move(put.value_));
            simulation_.wake(put.process);
        }
        return value;
    }

    class [[nodiscard]] Put : public Waiter {
      public:
        Put(Mailbox& mailbox, T value) : mailbox_(mailbox), value_(std::move(value)) {}
        [[nodiscard]] bool await_ready() { return mailbox_.try_put(value_); }
        void await_suspend(std::coroutine_handle<> waiting) noexcept {
            mailbox_.putting_.push(*this, waiting);
        }
        void await_resume() const noexcept {}

      private:
        friend class Mailbox;
        Mailbox& mailbox_;
        T value_;
    };

    class [[nodiscard]] Take : public Waiter {
      public:
        explicit Take(Mailbox& mailbox) noexcept : mailbox_(mailbox) {}
        [[nodiscard]] bool await_ready() {
            value_ = mailbox_.try_take();
            return value_.has_value();
        }
        void await_suspend(std::coroutine_handle<> waiting) noexcept {
            mailbox_.taking_.push(*this, waiting);
        }
        [[nodiscard]] T await_resume() { return std::move(*value_); }

      private:
        friend class Mailbox;
        Mailbox& mailbox_;
        std::optional<T> value_;
    };

    [[nodiscard]] Put put(T value) { return Put(*this, std::move(value)); }
    [[nodiscard]] Take take() noexcept { return Take(*this); }

  private:
    /// To the first who waits for it, or to the others; there is room.
    void deliver(T value) {
        if (taking_.empty()) {
            values_.push_back(std::move(value));
            longest_ = std::max(longest_, values_.size());
            return;
        }
        Take& take = taking_.pop();
        take.value_.emplace(std::move(value));
        simulation_.wake(take.process);
    }

    Simulation& simulation_;
    std::size_t capacity_;
    std::size_t longest_ = 0;
    std::deque<T> values_;
    WaitList<Put> putting_;
    WaitList<Take> taking_;
};

}  // namespace via::sim
