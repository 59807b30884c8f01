// SPDX-License-Identifier: BSD-3-Clause
// The counters page: what a process did, readable by tools while it runs and without its help. It
// lies in a memfd that the kernel agent hands to tools of the same user. Each counter has one
// writer at a time (the holder of the VI's lock), so counting is a plain load, add and store.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "base/cpu.hpp"
#include "base/memory_file.hpp"
#include "base/result.hpp"

namespace via::base {

class Counter {
  public:
    void add(std::uint64_t amount = 1) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
    }
    void set(std::uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t get() const noexcept {
        return value_.load(std::memory_order_relaxed);
    }

  private:
    std::atomic<std::uint64_t> value_{0};
};

/// Which way the bytes of a message took. The order is part of the page's format.
enum class DataPath : std::uint8_t { Inline, Ring, Kmem, Cma, Stream, Packet };
inline constexpr std::size_t data_paths = 6;
[[nodiscard]] std::string_view data_path_name(DataPath path) noexcept;

/// One VI. Counters of a destroyed VI are added to the process's totals (slot 0).
struct alignas(cache_line) ViCounters {
    Counter in_use;       ///< 0: free slot
    Counter state;        ///< VIP_VI_STATE
    Counter peer_pid;     ///< 0: not connected
    Counter reliability;  ///< VIPL bit
    std::array<std::atomic<char>, 16> device;
    std::array<Counter, data_paths> sent_messages;
    std::array<Counter, data_paths> received_messages;
    Counter sent_bytes;
    Counter received_bytes;
    Counter rdma_writes;
    Counter rdma_reads;
    Counter rdma_bytes;
    Counter send_stalls;     ///< posts that found the channel full
    Counter big_ring_posts;  ///< PDs that went to the big ring because the small ring was full
    Counter big_ring_refills;
    Counter completed_in_error;
    Counter sleeps;  ///< blocking waits that had to sleep
    Counter wakes_sent;
};

/// An error that happened, kept once however often it comes back.
struct alignas(cache_line) ErrorRecord {
    std::atomic<std::uint64_t> count;  ///< 0: free slot
    std::atomic<std::int64_t> first_wall_ns;
    std::atomic<std::int64_t> last_wall_ns;
    std::array<std::atomic<char>, 232> text;
};

struct CountersPage {
    static constexpr std::uint32_t format_magic = 0x56494143;  // "VIAC"
    static constexpr std::uint32_t format_version = 2;
    static constexpr std::size_t vi_slots = 4096;
    static constexpr std::size_t error_slots = 32;

    std::atomic<std::uint32_t> magic;
    std::atomic<std::uint32_t> version;
    std::atomic<std::int32_t> pid;
    std::atomic<std::uint32_t> vi_slots_ready;  ///< slots below this number have memory behind them
    std::atomic<std::int64_t> started_wall_ns;
    std::array<std::atomic<char>, 64> program;
    std::array<ErrorRecord, error_slots> errors;
    std::array<ViCounters, vi_slots> vis;  ///< slot 0: totals of VIs that are gone
};

/// The process's own page: created at first use, never fails (without memory for a shared page the
/// counters go to private memory that nobody else sees). All functions may be called by any thread.
/// After fork() the child counts on a page of its own, at the same address.
class Counters {
  public:
    [[nodiscard]] static Counters& get();
    [[nodiscard]] int file() const noexcept { return file_.get(); }  ///< -1: private
    [[nodiscard]] CountersPage& page() noexcept { return *page_; }
    /// A slot for a VI; with none free all further VIs share slot 0, where counts may get lost.
    [[nodiscard]] ViCounters& take_slot(std::string_view device) noexcept;
    /// Names the device anew, when it is known which one carries the connection. Not for slot 0.
    void set_device(ViCounters& slot, std::string_view device) noexcept;
    /// Adds the counts to slot 0 and frees the slot.
    void give_back(ViCounters& slot) noexcept;
    void record_error(std::string_view sentence) noexcept;

    Counters(const Counters&) = delete;
    Counters& operator=(const Counters&) = delete;

  private:
    Counters();
    [[nodiscard]] bool map_shared_page(void* wanted_address) noexcept;
    void map_private_page(void* wanted_address) noexcept;
    void describe_process() noexcept;
    [[nodiscard]] bool make_slot_ready(std::size_t index) noexcept;
    void start_anew_in_child() noexcept;

    std::mutex mutex_;  ///< guards what follows and all slots' coming and going
    UniqueFd file_;
    CountersPage* page_ = nullptr;
    std::array<std::uint64_t, CountersPage::vi_slots / 64> taken_{};
};

}  // namespace via::base
