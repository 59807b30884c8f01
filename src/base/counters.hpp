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

#include "base/counter.hpp"
#include "base/cpu.hpp"
#include "base/memory_file.hpp"
#include "base/message_counters.hpp"
#include "base/result.hpp"

namespace via::base {

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
    Counter link_policy;  ///< links::PolicyKind + 1 of a connection between hosts; 0: none
};

/// An error that happened, kept once however often it comes back.
struct alignas(cache_line) ErrorRecord {
    std::atomic<std::uint64_t> count;  ///< 0: free slot
    std::atomic<std::int64_t> first_wall_ns;
    std::atomic<std::int64_t> last_wall_ns;
    std::array<std::atomic<char>, 232> text;
};

/// One link of a connection between hosts, as of its owner's last look.
struct alignas(cache_line) LinkRecord {
    Counter in_use;   ///< 0: free slot
    Counter vi_slot;  ///< of the VI whose connection it belongs to; 0: one without a slot
    Counter state;    ///< links::LinkState
    Counter sent_packets;
    Counter sent_bytes;
    Counter received_packets;
    Counter received_bytes;
    Counter lost_packets;
    Counter duplicate_packets;
    Counter timeouts;
    Counter round_trip_ns;
    Counter least_round_trip_ns;
    Counter window_bytes;
    Counter bytes_in_flight;
    Counter bytes_per_second;  ///< what the link can carry, as its owner has measured it
    Counter changes;           ///< of state
    std::array<std::atomic<char>, 128> text;  ///< "eth0 10.0.0.1 - 10.0.0.2"
};

/// A link that changed its state.
struct alignas(cache_line) LinkChange {
    std::atomic<std::uint64_t> number;  ///< from 1, in the order of time; 0: nothing, or half of it
    std::atomic<std::int64_t> wall_ns;
    Counter vi_slot;
    Counter from;  ///< links::LinkState
    Counter to;
    std::array<std::atomic<char>, 128> text;
};

struct CountersPage {
    static constexpr std::uint32_t format_magic = 0x56494143;  // "VIAC"
    static constexpr std::uint32_t format_version = 3;
    static constexpr std::size_t vi_slots = 4096;
    static constexpr std::size_t error_slots = 32;
    static constexpr std::size_t link_slots = 1024;
    static constexpr std::size_t change_slots = 64;

    std::atomic<std::uint32_t> magic;
    std::atomic<std::uint32_t> version;
    std::atomic<std::int32_t> pid;
    std::atomic<std::uint32_t> vi_slots_ready;  ///< slots below this number have memory behind them
    std::atomic<std::int64_t> started_wall_ns;
    std::array<std::atomic<char>, 64> program;
    /// Likewise; with the first of them there is memory behind the changes, too.
    std::atomic<std::uint32_t> link_slots_ready;
    MessageCounters messages;
    std::array<ErrorRecord, error_slots> errors;
    std::array<ViCounters, vi_slots> vis;               ///< slot 0: totals of VIs that are gone
    std::array<LinkChange, change_slots> link_changes;  ///< the last ones, number n in n % slots
    std::array<LinkRecord, link_slots> links;
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
    /// A slot for a link of the VI that counts on `owner`; null if none is left.
    [[nodiscard]] LinkRecord* take_link(std::string_view text, const ViCounters* owner) noexcept;
    void give_back(LinkRecord& link) noexcept;
    /// Keeps that the link went from one state to another.
    void record_change(const LinkRecord& link, std::uint64_t from, std::uint64_t to) noexcept;

    Counters(const Counters&) = delete;
    Counters& operator=(const Counters&) = delete;

  private:
    Counters();
    [[nodiscard]] bool map_shared_page(void* wanted_address) noexcept;
    void map_private_page(void* wanted_address) noexcept;
    void describe_process() noexcept;
    [[nodiscard]] bool make_slot_ready(std::size_t index) noexcept;
    [[nodiscard]] bool make_link_ready(std::size_t index) noexcept;
    void start_anew_in_child() noexcept;

    std::mutex mutex_;  ///< guards what follows and all slots' coming and going
    UniqueFd file_;
    CountersPage* page_ = nullptr;
    std::array<std::uint64_t, CountersPage::vi_slots / 64> taken_{};
    std::array<std::uint64_t, CountersPage::link_slots / 64> taken_links_{};
    std::uint64_t changes_ = 0;  ///< of links so far
};

}  // namespace via::base
