// SPDX-License-Identifier: BSD-3-Clause
// A completion queue: which work queue has a completion, in the order they completed. Room for an
// entry is made when a descriptor is posted, so that a completion never finds the queue full.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/biased_lock.hpp"
#include "na/nic_agent.hpp"
#include "ua/notifications.hpp"

namespace via::ua {

class Nic;

struct CompletionEntry {
    std::uint64_t vi = 0;
    bool receive = false;
};

class CompletionQueue {
  public:
    std::atomic<std::uint64_t> handle{0};

    void open(std::shared_ptr<Nic> nic, std::uint32_t entries);
    /// OutOfResources: VIs are still attached. InvalidArgument: somebody has closed it already.
    [[nodiscard]] base::Result<void> close(std::uint64_t expected);
    /// False: somebody has closed it already.
    bool force_close(std::uint64_t expected);

    [[nodiscard]] const std::shared_ptr<Nic>& nic() const noexcept { return nic_; }
    [[nodiscard]] na::PollGroup* group() const noexcept { return group_; }
    void attach() noexcept { attached_.fetch_add(1); }
    void detach() noexcept { attached_.fetch_sub(1); }

    /// Makes room for one more completion. Called at post.
    void reserve();
    /// Called at completion, in completion order.
    void push(std::uint64_t vi, bool receive) noexcept;
    /// Both at once. False: the queue is full, and there is no memory for a larger one.
    [[nodiscard]] bool reserve_and_push(std::uint64_t vi, bool receive) noexcept;
    /// Only a hint while others may add entries.
    [[nodiscard]] bool empty() const noexcept {
        return count_.load(std::memory_order_relaxed) == 0;
    }
    /// An entry that is there already; no polling.
    [[nodiscard]] bool pop(CompletionEntry& entry) noexcept;
    /// Undoes a pop: the entry is the next one again. False as above.
    [[nodiscard]] bool give_back(const CompletionEntry& entry) noexcept;
    /// Looks for arrivals first if nothing is there.
    [[nodiscard]] bool poll(CompletionEntry& entry) noexcept;
    void resize(std::uint32_t entries);
    /// A VI is gone: its entries vanish.
    void forget(std::uint64_t vi) noexcept;
    /// How often the program has polled; the service thread takes over a VI nobody polls.
    [[nodiscard]] std::uint64_t polls() const noexcept {
        return polls_.load(std::memory_order_relaxed);
    }
    void leave_to_service() noexcept { left_to_service_.store(true, std::memory_order_relaxed); }
    /// Threads of the program that sleep until an entry comes.
    [[nodiscard]] std::uint32_t sleepers() const noexcept {
        return sleepers_.load(std::memory_order_relaxed);
    }
    void sleeper_enters() noexcept { sleepers_.fetch_add(1, std::memory_order_relaxed); }
    void sleeper_leaves() noexcept { sleepers_.fetch_sub(1, std::memory_order_relaxed); }
    /// As poll(), by the program.
    [[nodiscard]] bool poll_for_program(CompletionEntry& entry);
    /// The same without taking an entry, and at once: for a layer that polls much else besides.
    bool poll_group_for_program();
    [[nodiscard]] bool should_yield() const noexcept { return group_->shares_core(); }

    NotificationList<CqHandler> notifications;

  private:
    void grow(std::size_t entries);
    [[nodiscard]] bool has_room() noexcept;

    base::BiasedLock lock_;
    std::vector<CompletionEntry> ring_;  ///< size is a power of two
    std::uint64_t head_ = 0;
    std::uint64_t tail_ = 0;
    std::uint64_t reserved_ = 0;  ///< descriptors posted and entries not yet taken
    std::atomic<std::uint32_t> count_{0};
    std::atomic<std::uint32_t> attached_{0};
    std::atomic<std::uint64_t> polls_{0};
    std::atomic<bool> left_to_service_{true};
    std::atomic<std::uint32_t> sleepers_{0};
    std::shared_ptr<Nic> nic_;
    na::PollGroup* group_ = nullptr;
    /// One per device that this queue has ever served: a thread with a stale handle may be polling.
    std::map<na::NicAgent*, std::unique_ptr<na::PollGroup>> groups_;
};

}  // namespace via::ua
