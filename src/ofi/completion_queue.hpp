// SPDX-License-Identifier: BSD-3-Clause
// Completion queues. A queue grows when it is full, so it never overruns and no operation has to
// wait for room in it; in the steady state nothing is allocated.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include "base/biased_lock.hpp"
#include "base/cpu.hpp"
#include "mvich/order.hpp"
#include "ofi/references.hpp"
#include "ofi/waitable.hpp"

namespace via::ofi {

class Domain;

class CompletionQueue final : public fid_cq, public Waitable {
  public:
    /// A cache line each.
    struct alignas(base::cache_line) Entry {
        void* context = nullptr;
        std::uint64_t flags = 0;
        std::uint64_t length = 0;
        void* buffer = nullptr;
        std::uint64_t data = 0;
        std::uint64_t tag = 0;
        mvich::Peer source = mvich::unknown_peer;
        bool is_error = false;  ///< the rest is in errors_
    };
    struct ErrorEntry {
        Entry entry;
        mvich::Status status = mvich::Status::Ok;
        std::uint64_t overflow = 0;
    };

    static int open(fid_domain* domain, fi_cq_attr* attributes, fid_cq** queue, void* context);

    /// Called with or without the device's lock. `write` fills an entry.
    template <class Write>
    void add(Write write) noexcept {
        const base::BiasedGuard guard(lock_);
        add_locked(write);
    }
    void add_error(const ErrorEntry& error) noexcept;

    [[nodiscard]] bool ready() override;
    void prepare_to_sleep() override;
    void progress() override;

  private:
    CompletionQueue(Domain& domain, const fi_cq_attr& attributes, void* context);

    template <class Write>
    void add_locked(const Write& write) noexcept {
        const std::size_t tail = tail_.load(std::memory_order_relaxed);
        if (tail - head_.load(std::memory_order_relaxed) == ring_.size() && !grow()) [[unlikely]]
            return;
        write(ring_[tail & (ring_.size() - 1)]);
        tail_.store(tail + 1, std::memory_order_relaxed);
        wait_object().signal_if_wanted();
    }
    template <class Form>
    [[nodiscard]] ssize_t take(Form* to, std::size_t count, fi_addr_t* sources) noexcept;
    template <class Form>
    [[nodiscard]] ssize_t read_now(Form* to, std::size_t count, fi_addr_t* sources) noexcept;
    [[nodiscard]] bool has_at_least(std::size_t count) noexcept;
    /// Nothing, without a lock: only a hint while others may add entries.
    [[nodiscard]] bool looks_empty() const noexcept {
        return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_relaxed) &&
               !overrun_.load(std::memory_order_relaxed);
    }
    /// False: there is no memory, and the entry is lost.
    [[gnu::noinline]] bool grow() noexcept;

    template <class Form>
    static ssize_t read(fid_cq* queue, void* to, std::size_t count);
    template <class Form>
    static ssize_t read_from(fid_cq* queue, void* to, std::size_t count, fi_addr_t* sources);
    template <class Form>
    static ssize_t sleeping_read(fid_cq* queue, void* to, std::size_t count, const void* condition,
                                 int timeout);
    template <class Form>
    static ssize_t sleeping_read_from(fid_cq* queue, void* to, std::size_t count,
                                      fi_addr_t* sources, const void* condition, int timeout);
    static ssize_t read_error(fid_cq* queue, fi_cq_err_entry* to, std::uint64_t flags);
    static int signal(fid_cq* queue);
    static const char* error_text(fid_cq* queue, int provider_error, const void* data, char* buffer,
                                  std::size_t bytes);
    static int close(struct fid* fid);
    static int control(struct fid* fid, int command, void* argument);

    template <class Form>
    static fi_ops_cq operations;
    static fi_ops object_operations;

    Domain& domain_;
    Reference domain_reference_;
    base::BiasedLock lock_;
    std::vector<Entry> ring_;  ///< a power of two
    /// Of the oldest entry; counts on for ever, as tail_. Both change under the lock.
    std::atomic<std::size_t> head_{0};
    std::atomic<std::size_t> tail_{0};
    std::deque<ErrorEntry> errors_;
    std::atomic<bool> overrun_{false};    ///< there was no memory for an entry
    std::atomic<bool> just_read_{false};  ///< the last read found something
    bool by_threshold_ = false;
    std::atomic<bool> signalled_{false};
};

}  // namespace via::ofi
