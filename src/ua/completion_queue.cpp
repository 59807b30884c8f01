// SPDX-License-Identifier: BSD-3-Clause
#include "ua/completion_queue.hpp"

#include <algorithm>
#include <bit>

#include "ua/nic.hpp"

namespace via::ua {

void CompletionQueue::open(std::shared_ptr<Nic> nic, std::uint32_t entries) {
    nic_ = std::move(nic);
    auto& group = groups_[&nic_->device()];
    if (!group) group = nic_->device().create_poll_group();
    group_ = group.get();
    const base::BiasedGuard guard(lock_);
    head_ = tail_ = std::uint64_t{1} << 32;  // give_back() may step back
    reserved_ = 0;
    count_.store(0);
    attached_.store(0);
    left_to_service_.store(true);
    ring_.assign(std::bit_ceil(std::max<std::size_t>(entries, 16)), CompletionEntry{});
}

base::Result<void> CompletionQueue::close(std::uint64_t expected) {
    if (attached_.load() != 0)
        return base::Result<void>(base::Code::OutOfResources,
                                  "VIs are still attached to the completion queue: destroy them "
                                  "first");
    if (!force_close(expected))
        return base::Result<void>(base::Code::InvalidArgument,
                                  "the completion queue has been destroyed");
    return {};
}

bool CompletionQueue::force_close(std::uint64_t expected) {
    if (!handle.compare_exchange_strong(expected, 0)) return false;
    const std::size_t cancelled = notifications.clear();
    for (std::size_t i = 0; i < cancelled; ++i)
        nic_->process().notification_served();
    {
        const base::BiasedGuard guard(lock_);
        head_ = tail_;
        count_.store(0);
    }
    // The poll group and the memory stay until the slot is used again: another thread may be in
    // poll() with a handle that was good a moment ago.
    return true;
}

void CompletionQueue::reserve() {
    const base::BiasedGuard guard(lock_);
    if (reserved_ >= ring_.size()) [[unlikely]]
        grow(ring_.size() * 2);
    ++reserved_;
}

bool CompletionQueue::has_room() noexcept {
    if (reserved_ < ring_.size()) [[likely]]
        return true;
    try {
        grow(ring_.size() * 2);
    } catch (const std::bad_alloc&) {
        return false;
    }
    return true;
}

void CompletionQueue::grow(std::size_t entries) {
    std::vector<CompletionEntry> larger(entries);
    for (std::uint64_t n = head_; n != tail_; ++n)
        larger[n & (entries - 1)] = ring_[n & (ring_.size() - 1)];
    ring_ = std::move(larger);
}

void CompletionQueue::push(std::uint64_t vi, bool receive) noexcept {
    const base::BiasedGuard guard(lock_);
    ring_[tail_++ & (ring_.size() - 1)] = {vi, receive};
    count_.store(static_cast<std::uint32_t>(tail_ - head_), std::memory_order_relaxed);
}

bool CompletionQueue::reserve_and_push(std::uint64_t vi, bool receive) noexcept {
    const base::BiasedGuard guard(lock_);
    if (!has_room()) [[unlikely]]
        return false;
    ++reserved_;
    ring_[tail_++ & (ring_.size() - 1)] = {vi, receive};
    count_.store(static_cast<std::uint32_t>(tail_ - head_), std::memory_order_relaxed);
    return true;
}

bool CompletionQueue::pop(CompletionEntry& entry) noexcept {
    if (empty()) return false;
    const base::BiasedGuard guard(lock_);
    const bool some = head_ != tail_;
    if (some) {
        entry = ring_[head_++ & (ring_.size() - 1)];
        --reserved_;
        count_.store(static_cast<std::uint32_t>(tail_ - head_), std::memory_order_relaxed);
    }
    return some;
}

bool CompletionQueue::give_back(const CompletionEntry& entry) noexcept {
    const base::BiasedGuard guard(lock_);
    if (!has_room()) return false;
    ++reserved_;
    ring_[--head_ & (ring_.size() - 1)] = entry;
    count_.store(static_cast<std::uint32_t>(tail_ - head_), std::memory_order_relaxed);
    return true;
}

bool CompletionQueue::poll(CompletionEntry& entry) noexcept {
    if (pop(entry)) return true;
    group_->poll();
    return pop(entry);
}

bool CompletionQueue::poll_group_for_program() {
    polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (left_to_service_.load(std::memory_order_relaxed)) [[unlikely]] {
        left_to_service_.store(false, std::memory_order_relaxed);
        nic_->process().look_after();
    }
    return group_->poll();
}

bool CompletionQueue::poll_for_program(CompletionEntry& entry) {
    if (pop(entry)) return true;
    if (!poll_group_for_program()) base::cpu_relax();
    return pop(entry);
}

void CompletionQueue::forget(std::uint64_t vi) noexcept {
    const base::BiasedGuard guard(lock_);
    std::uint64_t kept = head_;
    for (std::uint64_t n = head_; n != tail_; ++n) {
        const CompletionEntry entry = ring_[n & (ring_.size() - 1)];
        if (entry.vi == vi)
            --reserved_;
        else
            ring_[kept++ & (ring_.size() - 1)] = entry;
    }
    tail_ = kept;
    count_.store(static_cast<std::uint32_t>(tail_ - head_), std::memory_order_relaxed);
}

void CompletionQueue::resize(std::uint32_t entries) {
    const base::BiasedGuard guard(lock_);
    const std::size_t wanted =
        std::bit_ceil(std::max<std::size_t>({entries, static_cast<std::size_t>(reserved_), 16}));
    if (wanted != ring_.size()) grow(wanted);
}

}  // namespace via::ua
