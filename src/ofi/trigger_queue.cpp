// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/trigger_queue.hpp"

#include <chrono>
#include <cstring>

#include "base/biased_lock.hpp"
#include "mvich/endpoint_address.hpp"
#include "ofi/counter.hpp"
#include "ofi/domain.hpp"
#include "ofi/endpoint.hpp"
#include "ofi/provider.hpp"

namespace via::ofi {
namespace {

/// Before an order that could not be taken is tried again.
constexpr auto between_tries = std::chrono::milliseconds(1);

References* references_of(Counter* counter) noexcept {
    return counter != nullptr ? &counter->references() : nullptr;
}

mvich::Happened end_of(mvich::Remote what) noexcept {
    switch (what) {
        case mvich::Remote::Write:
            return mvich::Happened::Wrote;
        case mvich::Remote::Read:
            return mvich::Happened::Read;
        default:
            return mvich::Happened::AtomicDone;
    }
}

}  // namespace

int read_trigger(void* context, Trigger& trigger) noexcept {
    if (context == nullptr) return -FI_EINVAL;  // also of injects, which have none
    const auto& given = *static_cast<const fi_triggered_context*>(context);
    if (given.event_type != FI_TRIGGER_THRESHOLD) return -FI_ENOSYS;
    fid_cntr* const counter = given.trigger.threshold.cntr;
    if (counter == nullptr) return -FI_EINVAL;
    trigger.counter = &static_cast<Counter&>(*counter);
    trigger.threshold = given.trigger.threshold.threshold;
    return 0;
}

TriggeredOrder::TriggeredOrder(const Trigger& trigger, Endpoint& endpoint,
                               const mvich::Cookie& cookie, mvich::Happened happens)
    : trigger_(trigger),
      trigger_reference_(references_of(trigger.counter)),
      completion_reference_(references_of(trigger.completion)),
      changed_reference_(nullptr),
      endpoint_(&endpoint),
      cookie_(cookie),
      happens_(happens) {}

TriggeredOrder::TriggeredOrder(const Trigger& trigger, Endpoint& endpoint,
                               const mvich::SendOrder& order)
    : TriggeredOrder(trigger, endpoint, order.cookie, mvich::Happened::Sent) {
    mvich::SendOrder kept = order;
    keep(kept.pieces, pieces_);
    if (kept.flags & mvich::order_inject) keep_bytes(kept.pieces);
    kept.cookie = told_cookie();
    order_ = kept;
}

TriggeredOrder::TriggeredOrder(const Trigger& trigger, Endpoint& endpoint,
                               const mvich::ReceiveOrder& order)
    : TriggeredOrder(trigger, endpoint, order.cookie, mvich::Happened::Received) {
    mvich::ReceiveOrder kept = order;
    keep(kept.pieces, pieces_);
    kept.cookie = told_cookie();
    order_ = kept;
}

TriggeredOrder::TriggeredOrder(const Trigger& trigger, Endpoint& endpoint,
                               const mvich::RemoteOrder& order)
    : TriggeredOrder(trigger, endpoint, order.cookie, end_of(order.what)) {
    mvich::RemoteOrder kept = order;
    keep(kept.pieces, pieces_);
    keep(kept.results, results_);
    keep(kept.compares, compares_);
    remote_.assign(order.remote.begin(), order.remote.end());
    kept.remote = remote_;
    if (kept.flags & mvich::order_inject) keep_bytes(kept.pieces);
    kept.cookie = told_cookie();
    order_ = kept;
}

TriggeredOrder::TriggeredOrder(const Trigger& trigger, const CounterChange& change)
    : trigger_(trigger),
      trigger_reference_(references_of(trigger.counter)),
      completion_reference_(nullptr),
      changed_reference_(references_of(change.counter)),
      order_(change) {}

void TriggeredOrder::keep(std::span<const iovec>& pieces, std::vector<iovec>& copy) {
    copy.assign(pieces.begin(), pieces.end());
    pieces = copy;
}

void TriggeredOrder::keep_bytes(std::span<const iovec>& pieces) {
    for (const iovec& piece : pieces) {
        const auto* from = static_cast<const std::byte*>(piece.iov_base);
        bytes_.insert(bytes_.end(), from, from + piece.iov_len);
    }
    pieces_.assign(1, {bytes_.data(), bytes_.size()});
    pieces = pieces_;
}

mvich::Cookie TriggeredOrder::told_cookie() noexcept {
    if (!is_work()) return cookie_;
    return {this, cookie_.flags | FI_TRIGGER};
}

mvich::Posted TriggeredOrder::start() {
    if (const auto* change = std::get_if<CounterChange>(&order_)) {
        if (change->sets)
            change->counter->set(change->value);
        else
            change->counter->add(change->value);
        return mvich::Posted::Done;
    }
    mvich::Endpoint& wire = *endpoint_->wire();
    if (const auto* send = std::get_if<mvich::SendOrder>(&order_)) return wire.send(*send);
    if (const auto* receive = std::get_if<mvich::ReceiveOrder>(&order_))
        return wire.receive(*receive);
    return wire.remote(std::get<mvich::RemoteOrder>(order_));
}

mvich::Completion TriggeredOrder::ended(mvich::Status status) const noexcept {
    mvich::Completion completion;
    completion.what = happens_;
    completion.status = status;
    completion.cookie = std::visit(
        [](const auto& order) -> mvich::Cookie {
            if constexpr (requires { order.cookie; })
                return order.cookie;
            else
                return {};
        },
        order_);
    return completion;
}

TriggerQueue::TriggerQueue(Domain& domain) : domain_(domain) {
    auto thread = mvich::quiet_thread([this] { run(); });
    if (!thread) {
        VIA_OFI_WARN(FI_LOG_DOMAIN, "triggered operations: %s\n", thread.error().sentence.c_str());
        throw std::bad_alloc();
    }
    thread_ = std::move(thread).value();
}

TriggerQueue::~TriggerQueue() {
    {
        const std::lock_guard guard(mutex_);
        stopping_ = true;
        changed_.notify_all();
    }
    thread_.join();
}

void TriggerQueue::add(Orders& one) {
    TriggeredOrder& order = one.front();
    Counter& counter = *order.trigger().counter;
    // From now on what it hears may be the end of work.
    if (order.is_work() && order.endpoint() != nullptr) order.endpoint()->look_twice();
    {
        const std::lock_guard guard(mutex_);
        Orders& waiting = waiting_[&counter];
        auto before = waiting.end();
        while (before != waiting.begin() &&
               std::prev(before)->trigger().threshold > order.trigger().threshold)
            --before;
        waiting.splice(before, one);
        counter.trip_at(waiting.front().trigger().threshold);
    }
    // It may have been raised meanwhile.
    reached(counter);
    start_due();
}

void TriggerQueue::reached(Counter& counter) noexcept {
    const std::lock_guard guard(mutex_);
    const auto found = waiting_.find(&counter);
    if (found == waiting_.end()) return;
    Orders& waiting = found->second;
    const std::uint64_t value = counter.all();
    auto end = waiting.begin();
    while (end != waiting.end() && end->trigger().threshold <= value)
        ++end;
    if (end == waiting.begin()) return;
    due_.splice(due_.end(), waiting, waiting.begin(), end);
    if (waiting.empty()) {
        counter.trip_at(Counter::never);
        waiting_.erase(found);
    } else {
        counter.trip_at(waiting.front().trigger().threshold);
    }
    any_due_.store(true, std::memory_order_release);
    changed_.notify_one();
}

void TriggerQueue::start_in_turn() noexcept {
    // Who is at it goes on until nothing is due, and the thread looks again after that.
    const std::unique_lock turn(turn_, std::try_to_lock);
    if (turn) (void)start_all();
}

/// One at a time and in a loop: an order that is done at once may make others due.
bool TriggerQueue::start_all() noexcept {
    bool all = true;
    for (;;) {
        Orders one;
        {
            const std::lock_guard guard(mutex_);
            if (due_.empty()) {
                any_due_.store(false, std::memory_order_relaxed);
                break;
            }
            one.splice(one.begin(), due_, due_.begin());
        }
        if (!start(one)) {
            all = false;
            break;
        }
    }
    // What was done at once may be what a thread of the program sleeps for.
    domain_.device().wake();
    return all;
}

bool TriggerQueue::start(Orders& one) noexcept {
    TriggeredOrder& order = one.front();
    const bool heard_of = order.is_work() && order.endpoint() != nullptr;
    if (heard_of) {
        // Its end may be heard before the call returns.
        const std::lock_guard guard(mutex_);
        order.place = one.begin();
        under_way_.splice(under_way_.end(), one);
    }
    mvich::Posted posted = mvich::Posted::Again;
    try {
        posted = order.start();
    } catch (const std::bad_alloc&) {  // later, perhaps
    }
    if (posted == mvich::Posted::UnderWay) return true;
    if (posted == mvich::Posted::Again) {
        const std::lock_guard guard(mutex_);
        if (heard_of)
            due_.splice(due_.begin(), under_way_, order.place);
        else
            due_.splice(due_.begin(), one);
        return false;
    }
    if (order.endpoint() == nullptr) return true;
    if (posted != mvich::Posted::Done)
        order.endpoint()->done(order.ended(posted == mvich::Posted::UnknownPeer
                                               ? mvich::Status::PeerLost
                                               : mvich::Status::Unsupported));
    else if (heard_of)
        order.endpoint()->done(order.ended(mvich::Status::Ok));
    else
        order.endpoint()->transmitted(order.cookie());
    return true;
}

bool TriggerQueue::finished(mvich::Completion& completion) noexcept {
    const std::lock_guard finishing(finishing_);
    Orders one;
    auto& order = *static_cast<TriggeredOrder*>(completion.cookie.context);
    {
        const std::lock_guard guard(mutex_);
        one.splice(one.begin(), under_way_, order.place);
    }
    completion.cookie = order.cookie();
    const bool good = completion.status == mvich::Status::Ok;
    Counter* const counter = order.trigger().completion;
    if (counter != nullptr) {
        if (good)
            counter->add(1);
        else
            counter->add_error(1);
    }
    return order.trigger().tells_endpoint || (!good && counter == nullptr);
}

template <class Which>
TriggerQueue::Orders TriggerQueue::take_out(Which which) noexcept {
    Orders taken;
    const auto take = [&](Orders& from) {
        for (auto at = from.begin(); at != from.end();) {
            const auto next = std::next(at);
            if (which(*at)) taken.splice(taken.end(), from, at);
            at = next;
        }
    };
    take(due_);
    for (auto at = waiting_.begin(); at != waiting_.end();) {
        take(at->second);
        if (at->second.empty()) {
            at->first->trip_at(Counter::never);
            at = waiting_.erase(at);
        } else {
            at->first->trip_at(at->second.front().trigger().threshold);
            ++at;
        }
    }
    return taken;
}

void TriggerQueue::forget(Endpoint& endpoint) noexcept {
    const std::lock_guard turn(turn_);
    const auto is_of_it = [&](const TriggeredOrder& order) {
        return order.endpoint() == &endpoint;
    };
    Orders forgotten;
    const std::lock_guard guard(mutex_);
    forgotten = take_out(is_of_it);
    if (endpoint.wire() == nullptr) under_way_.remove_if(is_of_it);
}

bool TriggerQueue::cancel(Endpoint& endpoint, const void* context) noexcept {
    bool found = false;
    Orders cancelled;
    {
        const std::lock_guard guard(mutex_);
        cancelled = take_out([&](const TriggeredOrder& order) {
            if (found || order.endpoint() != &endpoint || !order.has_context(context)) return false;
            found = true;
            return true;
        });
    }
    if (found) endpoint.done(cancelled.front().ended(mvich::Status::Cancelled));
    return found;
}

bool TriggerQueue::cancel_work(const fi_deferred_work* work) noexcept {
    Orders cancelled;
    const std::lock_guard guard(mutex_);
    cancelled = take_out([&](const TriggeredOrder& order) { return order.trigger().work == work; });
    return !cancelled.empty();
}

void TriggerQueue::flush_work(const Counter* counter) noexcept {
    Orders flushed;
    const std::lock_guard guard(mutex_);
    flushed = take_out([&](const TriggeredOrder& order) {
        return order.is_work() && (counter == nullptr || order.trigger().counter == counter);
    });
}

void TriggerQueue::run() {
    base::this_thread_owns_no_locks = true;
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return stopping_ || !due_.empty(); });
            if (stopping_) return;
        }
        bool all = false;
        {
            const std::lock_guard turn(turn_);
            all = start_all();
        }
        if (all) continue;
        domain_.progress();
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, between_tries, [&] { return stopping_; });
    }
}

}  // namespace via::ofi
