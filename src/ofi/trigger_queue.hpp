// SPDX-License-Identifier: BSD-3-Clause
// Orders that wait for a counter (FI_TRIGGER and deferred work): kept until the counter has reached
// their threshold, then started.
//
// A counter is mostly raised inside the message layer, with its lock held, where nothing can be
// started. So who raises it only says that orders are due. They are started by the next call that
// reads a counter, or else by a thread of the queue, which sleeps otherwise. Locks are taken in the
// order: turn_, device's, finishing_, mutex_.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include <rdma/fi_trigger.h>

#include "mvich/order.hpp"
#include "ofi/references.hpp"

namespace via::ofi {

class Counter;
class Domain;
class Endpoint;

/// What an order waits for.
struct Trigger {
    Counter* counter = nullptr;
    std::uint64_t threshold = 0;
    // Deferred work: it tells its own counter instead of the endpoint's queue and counters, unless
    // it was asked to tell those, too.
    const fi_deferred_work* work = nullptr;
    Counter* completion = nullptr;
    bool tells_endpoint = true;
};

/// Of a context that the program gave with FI_TRIGGER. 0, or an error.
[[nodiscard]] int read_trigger(void* context, Trigger& trigger) noexcept;

struct CounterChange {
    Counter* counter = nullptr;
    std::uint64_t value = 0;
    bool sets = false;  ///< else it adds
};

/// An order with all that it points to but the program's buffers.
class TriggeredOrder {
  public:
    TriggeredOrder(const Trigger& trigger, Endpoint& endpoint, const mvich::SendOrder& order);
    TriggeredOrder(const Trigger& trigger, Endpoint& endpoint, const mvich::ReceiveOrder& order);
    TriggeredOrder(const Trigger& trigger, Endpoint& endpoint, const mvich::RemoteOrder& order);
    TriggeredOrder(const Trigger& trigger, const CounterChange& change);
    TriggeredOrder(const TriggeredOrder&) = delete;
    TriggeredOrder& operator=(const TriggeredOrder&) = delete;

    [[nodiscard]] const Trigger& trigger() const noexcept { return trigger_; }
    [[nodiscard]] Endpoint* endpoint() const noexcept { return endpoint_; }
    [[nodiscard]] bool is_work() const noexcept { return trigger_.work != nullptr; }
    [[nodiscard]] bool has_context(const void* context) const noexcept {
        return !is_work() && endpoint_ != nullptr && cookie_.context == context;
    }
    [[nodiscard]] mvich::Posted start();
    /// As if the message layer told it. Its cookie leads to the order if it is work.
    [[nodiscard]] mvich::Completion ended(mvich::Status status) const noexcept;
    /// As the program gave it.
    [[nodiscard]] const mvich::Cookie& cookie() const noexcept { return cookie_; }

    std::list<TriggeredOrder>::iterator place;  ///< among those under way

  private:
    /// What all orders of an endpoint have.
    TriggeredOrder(const Trigger& trigger, Endpoint& endpoint, const mvich::Cookie& cookie,
                   mvich::Happened happens);
    void keep(std::span<const iovec>& pieces, std::vector<iovec>& copy);
    /// The buffers are the program's again at once.
    void keep_bytes(std::span<const iovec>& pieces);
    [[nodiscard]] mvich::Cookie told_cookie() noexcept;

    Trigger trigger_;
    Reference trigger_reference_;
    Reference completion_reference_;
    Reference changed_reference_;
    Endpoint* endpoint_ = nullptr;
    mvich::Cookie cookie_;
    mvich::Happened happens_ = mvich::Happened::Sent;
    std::variant<mvich::SendOrder, mvich::ReceiveOrder, mvich::RemoteOrder, CounterChange> order_;
    std::vector<iovec> pieces_;
    std::vector<iovec> results_;
    std::vector<iovec> compares_;
    std::vector<mvich::RemotePiece> remote_;
    std::vector<std::byte> bytes_;
};

class TriggerQueue {
  public:
    explicit TriggerQueue(Domain& domain);
    ~TriggerQueue();
    TriggerQueue(const TriggerQueue&) = delete;
    TriggerQueue& operator=(const TriggerQueue&) = delete;

    /// Can throw; nothing has happened then. What is due already is started.
    template <class... What>
    void add(What&&... what) {
        Orders one;
        one.emplace_back(std::forward<What>(what)...);
        add(one);
    }
    /// The counter has been raised. Any lock may be held but those of this class.
    void reached(Counter& counter) noexcept;
    /// No lock is held.
    void start_due() noexcept {
        if (any_due_.load(std::memory_order_acquire)) start_in_turn();
    }
    /// The end of work: its counter is told. True: its endpoint is to be told as well, by this
    /// completion.
    [[nodiscard]] bool finished(mvich::Completion& completion) noexcept;
    /// Waits until who tells a counter that work is done has let go of it.
    void let_finish() noexcept { const std::lock_guard guard(finishing_); }

    /// Nothing of it is started any more. The program calls nothing of the endpoint meanwhile. Once
    /// more when it has no wire: then nothing of it ends any more, either.
    void forget(Endpoint& endpoint) noexcept;
    /// An order of the endpoint with this context ends as cancelled, if it still waits.
    [[nodiscard]] bool cancel(Endpoint& endpoint, const void* context) noexcept;
    [[nodiscard]] bool cancel_work(const fi_deferred_work* work) noexcept;
    /// Work that waits for this counter, or (null) all that waits.
    void flush_work(const Counter* counter) noexcept;

  private:
    using Orders = std::list<TriggeredOrder>;

    void add(Orders& one);
    void start_in_turn() noexcept;
    /// False: one can not be started yet.
    [[nodiscard]] bool start_all() noexcept;
    [[nodiscard]] bool start(Orders& one) noexcept;
    /// Takes out what waits or is due. Under mutex_.
    template <class Which>
    [[nodiscard]] Orders take_out(Which which) noexcept;
    void run();

    Domain& domain_;
    std::mutex turn_;       ///< of who starts orders
    std::mutex finishing_;  ///< of who tells a counter that work is done
    std::mutex mutex_;
    std::map<Counter*, Orders> waiting_;  ///< lowest threshold first
    Orders due_;
    Orders under_way_;  ///< work that was started
    std::atomic<bool> any_due_{false};
    bool stopping_ = false;
    std::condition_variable changed_;
    std::thread thread_;
};

}  // namespace via::ofi
