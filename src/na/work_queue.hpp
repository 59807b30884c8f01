// SPDX-License-Identifier: BSD-3-Clause
// A work queue as user agent and NIC agent share it: entries in the order they were posted, with
// the PD chains that the NIC agent performs. The NIC agent marks entries done, in any order; the
// user agent sees them complete from the head on, so completion is in post order.
#pragma once

#include <cstdint>
#include <vector>

#include "na/pd_ring.hpp"

namespace via::na {

// Completion status, bit for bit VIPL's (checked by static_asserts where both are known).
inline constexpr std::uint32_t status_done = 0x1;
inline constexpr std::uint32_t status_format = 0x2;
inline constexpr std::uint32_t status_protection = 0x4;
inline constexpr std::uint32_t status_length = 0x8;
inline constexpr std::uint32_t status_partial = 0x10;
inline constexpr std::uint32_t status_flushed = 0x20;
inline constexpr std::uint32_t status_transport = 0x40;
inline constexpr std::uint32_t status_rdma_protection = 0x80;
inline constexpr std::uint32_t status_remote_descriptor = 0x100;
inline constexpr std::uint32_t status_error_mask = 0x1FE;
inline constexpr std::uint32_t status_op_send = 0x00000;
inline constexpr std::uint32_t status_op_receive = 0x10000;
inline constexpr std::uint32_t status_op_rdma_write = 0x20000;
inline constexpr std::uint32_t status_op_remote_rdma_write = 0x30000;
inline constexpr std::uint32_t status_op_rdma_read = 0x40000;
inline constexpr std::uint32_t status_immediate = 0x80000;

enum class WorkState : std::uint8_t {
    Queued,
    AwaitingAcknowledgement,
    AwaitingFetch,
    AwaitingRead
};

struct WorkEntry {
    std::uint64_t cookie;         ///< the user agent's: the descriptor's address
    std::uint32_t cookie_handle;  ///< and the handle of the region it lies in
    std::uint32_t status;         ///< 0 until done
    std::uint32_t length;         ///< at completion: bytes moved
    std::uint32_t immediate;
    std::uint32_t operation_bits;  ///< status_op_*, also shown when it is flushed
    std::uint16_t chain_pds;       ///< PDs of this entry in the ring
    WorkState state;               ///< the NIC agent's
};
static_assert(sizeof(WorkEntry) == 32);

class WorkQueue {
  public:
    WorkQueue(std::uint32_t small_ring, std::uint32_t low_water, std::uint32_t max_entries)
        : pds(small_ring, low_water), entries_(8), max_entries_(max_entries) {}

    PdRing pds;

    // --- user agent ---
    [[nodiscard]] bool full() const noexcept { return posted_ - reaped_ >= max_entries_; }
    [[nodiscard]] bool empty() const noexcept { return posted_ == reaped_; }
    /// Room for one more entry and its PDs: posting them needs no memory then.
    [[nodiscard]] bool has_room(std::uint32_t chain_pds) const noexcept {
        return posted_ - reaped_ <= mask_ && pds.has_room(chain_pds);
    }
    void make_room(std::uint32_t chain_pds) {
        if (posted_ - reaped_ > mask_) grow();
        pds.make_room(chain_pds);
    }
    /// Appends an entry; its PDs are pushed by the caller before the NIC agent looks.
    [[gnu::always_inline]] WorkEntry& post(std::uint64_t cookie, std::uint32_t cookie_handle,
                                           std::uint32_t chain_pds, std::uint32_t operation_bits) {
        if (posted_ - reaped_ > mask_) [[unlikely]]
            grow();
        WorkEntry& entry = at(posted_++);
        entry = {cookie,
                 cookie_handle,
                 0,
                 0,
                 0,
                 operation_bits,
                 static_cast<std::uint16_t>(chain_pds),
                 WorkState::Queued};
        return entry;
    }
    /// The same for one that the NIC agent takes as it is posted, with no PDs; it gets its number.
    [[gnu::always_inline]] std::uint64_t post_taken(std::uint64_t cookie,
                                                    std::uint32_t cookie_handle,
                                                    std::uint32_t operation_bits) {
        post(cookie, cookie_handle, 0, operation_bits);
        started_ = posted_;
        return posted_ - 1;
    }
    /// It has not taken it after all, and nothing has happened.
    void take_back() noexcept { started_ = --posted_; }
    /// Nothing waits to be started or to complete: a new entry would be the NIC agent's next one,
    /// and there is room for it.
    [[nodiscard]] bool quiet() const noexcept {
        return posted_ == harvested_ && pds.empty() && !full() && posted_ - reaped_ <= mask_;
    }
    /// Appends an entry that is done and harvested.
    void post_done(std::uint64_t cookie, std::uint32_t cookie_handle, std::uint32_t status,
                   std::uint32_t length) {
        if (posted_ - reaped_ > mask_) [[unlikely]]
            grow();
        at(posted_) = {cookie, cookie_handle,    status | status_done, length, 0, 0,
                       0,      WorkState::Queued};
        started_ = harvested_ = ++posted_;
    }
    /// The entry posted last, if it has not been taken back.
    [[nodiscard]] const WorkEntry* last() const noexcept {
        return empty() ? nullptr : &at(posted_ - 1);
    }
    /// Entries that are done, from the head on, and not yet taken by harvest().
    [[nodiscard]] bool harvestable() const noexcept {
        return harvested_ != posted_ && at(harvested_).status != 0;
    }
    WorkEntry& harvest() noexcept { return at(harvested_++); }
    [[nodiscard]] bool reapable() const noexcept { return reaped_ != harvested_; }
    WorkEntry& reap() noexcept { return at(reaped_++); }
    /// For a queue from which everything harvested has been reaped.
    void harvest_and_reap() noexcept { reaped_ = ++harvested_; }
    [[nodiscard]] std::uint64_t harvested() const noexcept { return harvested_; }
    [[nodiscard]] std::uint64_t reaped() const noexcept { return reaped_; }
    [[nodiscard]] std::uint64_t posted() const noexcept { return posted_; }

    // --- NIC agent ---
    /// Is there an entry to start? Entries that the user agent completed itself at post (a format
    /// error and the like) have no PDs and are passed over.
    [[nodiscard]] bool has_work() noexcept {
        // They may even be taken back by now, and their places in the ring belong to others.
        if (started_ < harvested_) started_ = harvested_;
        while (started_ != posted_ && at(started_).status != 0)
            ++started_;
        return started_ != posted_;
    }
    [[nodiscard]] bool has_unstarted() const noexcept { return !pds.empty(); }
    /// Is any entry not done?
    [[nodiscard]] bool pending() const noexcept {
        for (std::uint64_t n = harvested_; n != posted_; ++n)
            if (at(n).status == 0) return true;
        return false;
    }
    /// Takes the front entry: its PDs leave the ring. Returns its number.
    std::uint64_t start() noexcept {
        pds.pop(at(started_).chain_pds);
        return started_++;
    }
    /// The front chain if it has one segment; no has_work() is needed before.
    [[nodiscard]] bool front_pair(PhysicalDescriptor& head, PhysicalDescriptor& segment) noexcept {
        return pds.front_pair(head, segment) && decode_head(head).segments == 1;
    }
    /// Completes that chain.
    void complete_front_pair(std::uint32_t status, std::uint32_t length,
                             std::uint32_t immediate) noexcept {
        if (started_ < harvested_) started_ = harvested_;
        while (at(started_).status != 0)
            [[unlikely]]++ started_;
        pds.pop_pair();
        complete(started_++, status, length, immediate);
    }
    [[nodiscard]] WorkEntry& at(std::uint64_t number) noexcept { return entries_[number & mask_]; }
    [[nodiscard]] const WorkEntry& at(std::uint64_t number) const noexcept {
        return entries_[number & mask_];
    }
    void complete(std::uint64_t number, std::uint32_t status, std::uint32_t length,
                  std::uint32_t immediate = 0) noexcept {
        WorkEntry& entry = at(number);
        entry.length = length;
        entry.immediate = immediate;
        entry.status = status | entry.operation_bits | status_done;
    }
    /// Completes everything that is not done as flushed.
    void flush() noexcept {
        for (std::uint64_t n = harvested_; n != posted_; ++n)
            if (at(n).status == 0) complete(n, status_flushed, 0);
        started_ = posted_;
        pds.clear();
    }

  private:
    void grow() {
        std::vector<WorkEntry> larger(entries_.size() * 2);
        for (std::uint64_t n = reaped_; n != posted_; ++n)
            larger[n & (larger.size() - 1)] = at(n);
        entries_ = std::move(larger);
        mask_ = entries_.size() - 1;
    }

    std::vector<WorkEntry> entries_;  ///< a ring; its size is a power of two
    std::uint64_t mask_ = 7;
    std::uint32_t max_entries_;
    std::uint64_t posted_ = 0;
    std::uint64_t started_ = 0;
    std::uint64_t harvested_ = 0;
    std::uint64_t reaped_ = 0;
};

}  // namespace via::na
