// SPDX-License-Identifier: BSD-3-Clause
// A copy of another process's counters page, as far as it can be believed: that process writes it
// while we read and may write anything.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/counters.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"

namespace via::tool {

struct ViSnapshot {
    std::size_t slot = 0;
    std::uint64_t state = 0;  ///< VIP_VI_STATE, or anything
    std::uint64_t peer_pid = 0;
    std::uint64_t reliability = 0;
    std::string device;
    std::array<std::uint64_t, base::data_paths> sent_messages{};
    std::array<std::uint64_t, base::data_paths> received_messages{};
    std::uint64_t sent_bytes = 0;
    std::uint64_t received_bytes = 0;
    std::uint64_t rdma_writes = 0;
    std::uint64_t rdma_reads = 0;
    std::uint64_t rdma_bytes = 0;
    std::uint64_t send_stalls = 0;
    std::uint64_t big_ring_posts = 0;
    std::uint64_t big_ring_refills = 0;
    std::uint64_t completed_in_error = 0;
    std::uint64_t sleeps = 0;
    std::uint64_t wakes_sent = 0;
    std::uint64_t link_policy = 0;  ///< links::PolicyKind + 1, 0 for none, or anything

    [[nodiscard]] std::uint64_t all_sent() const;
    [[nodiscard]] std::uint64_t all_received() const;
    void add(const ViSnapshot& other);
};

struct ErrorSnapshot {
    std::uint64_t count = 0;
    std::int64_t first_wall_ns = 0;
    std::int64_t last_wall_ns = 0;
    std::string text;
};

/// A link of a connection between hosts.
struct LinkSnapshot {
    std::size_t slot = 0;
    std::uint64_t vi_slot = 0;
    std::uint64_t state = 0;  ///< links::LinkState, or anything
    std::string text;         ///< "eth0 10.0.0.1 - 10.0.0.2"
    std::uint64_t sent_packets = 0;
    std::uint64_t sent_bytes = 0;
    std::uint64_t received_packets = 0;
    std::uint64_t received_bytes = 0;
    std::uint64_t lost_packets = 0;
    std::uint64_t duplicate_packets = 0;
    std::uint64_t timeouts = 0;
    std::uint64_t round_trip_ns = 0;
    std::uint64_t least_round_trip_ns = 0;
    std::uint64_t window_bytes = 0;
    std::uint64_t bytes_in_flight = 0;
    std::uint64_t bytes_per_second = 0;
    std::uint64_t changes = 0;
};

struct LinkChangeSnapshot {
    std::uint64_t number = 0;
    std::int64_t wall_ns = 0;
    std::uint64_t vi_slot = 0;
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    std::string text;  ///< which link
};

/// The message layer of a process, under MPI and libfabric.
struct MessageSnapshot {
    std::array<std::array<std::uint64_t, base::message_size_classes>, base::message_protocols>
        sent{};
    std::uint64_t received = 0;
    std::uint64_t unexpected = 0;
    std::uint64_t noops_sent = 0;
    std::uint64_t noops_received = 0;
    std::uint64_t credit_stalls = 0;
    std::uint64_t starvations = 0;
    std::uint64_t fallbacks = 0;
    std::uint64_t copies = 0;
    std::uint64_t copied_bytes = 0;
    std::uint64_t remote_operations = 0;
    std::uint64_t devices = 0;
    std::uint64_t unexpected_now = 0;
    std::uint64_t vbufs_in_use = 0;
    std::uint64_t vbuf_regions = 0;
    std::uint64_t registered_bytes = 0;
    std::uint64_t registration_hits = 0;
    std::uint64_t registration_misses = 0;
    std::uint64_t registration_refused = 0;
    std::uint64_t registration_evicted = 0;
    std::uint64_t connections_in_host = 0;
    std::uint64_t connections_between_hosts = 0;
    std::uint64_t least_credits = 0;

    /// Has the process one?
    [[nodiscard]] bool present() const { return devices != 0; }
    [[nodiscard]] std::uint64_t all_sent() const;
};

struct CountersSnapshot {
    std::int32_t pid = 0;
    std::string program;
    std::int64_t started_wall_ns = 0;
    std::int64_t taken_monotonic_ns = 0;
    std::vector<ViSnapshot> vis;  ///< those in use
    ViSnapshot totals;            ///< those in use and those that are gone
    MessageSnapshot messages;
    std::vector<ErrorSnapshot> errors;
    std::vector<LinkSnapshot> links;               ///< those in use
    std::vector<LinkChangeSnapshot> link_changes;  ///< the last ones, oldest first
};

/// Reads with pread, never through a mapping: a page that cannot be had is an error and no signal.
[[nodiscard]] base::Result<CountersSnapshot> read_counters(const base::UniqueFd& file);

/// What happened between two snapshots of one process, a second.
struct Rates {
    double seconds = 0;
    double sent_messages = 0;
    double received_messages = 0;
    double sent_bytes = 0;
    double received_bytes = 0;
    double rdma_operations = 0;
    double rdma_bytes = 0;
    double sleeps = 0;
    double stalls = 0;
    std::array<double, base::data_paths> sent_by_path{};
    std::array<double, base::data_paths> received_by_path{};
};

/// A counter that went backwards (another VI took the slot) counts from zero.
[[nodiscard]] Rates rates_between(const ViSnapshot& before, const ViSnapshot& after,
                                  std::int64_t nanoseconds);

/// What the message layer did between two snapshots, a second.
struct MessageRates {
    double seconds = 0;
    std::array<std::array<double, base::message_size_classes>, base::message_protocols> sent{};
    double received = 0;
    double unexpected = 0;
    double noops_sent = 0;
    double noops_received = 0;
    double credit_stalls = 0;
    double copied_bytes = 0;
    double remote_operations = 0;

    [[nodiscard]] double all_sent() const;
};

[[nodiscard]] MessageRates rates_between(const MessageSnapshot& before,
                                         const MessageSnapshot& after, std::int64_t nanoseconds);

/// "0", "1-64", ..., "-2m" (up to), "more".
[[nodiscard]] std::string_view message_size_class_name(std::size_t size_class);
/// In the order of the counters: "eager", "r3", "rget", "rput".
[[nodiscard]] std::string_view message_protocol_name(std::size_t protocol);
[[nodiscard]] std::string_view vi_state_name(std::uint64_t state);
[[nodiscard]] std::string_view reliability_name(std::uint64_t bit);
[[nodiscard]] std::string_view link_state_name(std::uint64_t state);
/// Of the counter; empty: there is none.
[[nodiscard]] std::string_view link_policy_name(std::uint64_t policy);

}  // namespace via::tool
