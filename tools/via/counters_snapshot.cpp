// SPDX-License-Identifier: BSD-3-Clause
#include "counters_snapshot.hpp"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>

#include "base/clock.hpp"
#include "base/memory_file.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

base::Result<void> read_exactly(const base::UniqueFd& file, void* target, std::size_t bytes,
                                std::size_t offset) {
    auto* position = static_cast<std::byte*>(target);
    while (bytes > 0) {
        const ssize_t count = ::pread(file.get(), position, bytes, static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return base::system_error(errno, "reading a counters page");
        if (count == 0)
            return {base::Code::ProtocolViolation, "a counters page is shorter than it says"};
        position += count;
        offset += static_cast<std::size_t>(count);
        bytes -= static_cast<std::size_t>(count);
    }
    return {};
}

template <std::size_t Size>
std::string copy_text(const std::array<std::atomic<char>, Size>& text) {
    std::string copy;
    for (const auto& character : text) {
        const char value = character.load(std::memory_order_relaxed);
        if (value == '\0') break;
        copy += value;
    }
    return printable(copy);
}

template <class Counters, class Numbers>
void copy_counters(const Counters& from, Numbers& to) {
    std::transform(from.begin(), from.end(), to.begin(),
                   [](const base::Counter& counter) { return counter.get(); });
}

ViSnapshot copy_vi(const base::ViCounters& vi, std::size_t slot) {
    ViSnapshot copy;
    copy.slot = slot;
    copy.state = vi.state.get();
    copy.peer_pid = vi.peer_pid.get();
    copy.reliability = vi.reliability.get();
    copy.device = copy_text(vi.device);
    copy_counters(vi.sent_messages, copy.sent_messages);
    copy_counters(vi.received_messages, copy.received_messages);
    copy.sent_bytes = vi.sent_bytes.get();
    copy.received_bytes = vi.received_bytes.get();
    copy.rdma_writes = vi.rdma_writes.get();
    copy.rdma_reads = vi.rdma_reads.get();
    copy.rdma_bytes = vi.rdma_bytes.get();
    copy.send_stalls = vi.send_stalls.get();
    copy.big_ring_posts = vi.big_ring_posts.get();
    copy.big_ring_refills = vi.big_ring_refills.get();
    copy.completed_in_error = vi.completed_in_error.get();
    copy.sleeps = vi.sleeps.get();
    copy.wakes_sent = vi.wakes_sent.get();
    copy.link_policy = vi.link_policy.get();
    return copy;
}

MessageSnapshot copy_messages(const base::MessageCounters& messages) {
    MessageSnapshot copy;
    for (std::size_t protocol = 0; protocol < base::message_protocols; ++protocol)
        copy_counters(messages.sent[protocol], copy.sent[protocol]);
    copy.received = messages.received.get();
    copy.unexpected = messages.unexpected.get();
    copy.noops_sent = messages.noops_sent.get();
    copy.noops_received = messages.noops_received.get();
    copy.credit_stalls = messages.credit_stalls.get();
    copy.starvations = messages.starvations.get();
    copy.fallbacks = messages.fallbacks.get();
    copy.copies = messages.copies.get();
    copy.copied_bytes = messages.copied_bytes.get();
    copy.remote_operations = messages.remote_operations.get();
    copy.devices = messages.devices.get();
    copy.unexpected_now = messages.unexpected_now.get();
    copy.vbufs_in_use = messages.vbufs_in_use.get();
    copy.vbuf_regions = messages.vbuf_regions.get();
    copy.registered_bytes = messages.registered_bytes.get();
    copy.registration_hits = messages.registration_hits.get();
    copy.registration_misses = messages.registration_misses.get();
    copy.registration_refused = messages.registration_refused.get();
    copy.registration_evicted = messages.registration_evicted.get();
    copy.connections_in_host = messages.connections_in_host.get();
    copy.connections_between_hosts = messages.connections_between_hosts.get();
    copy.least_credits = messages.least_credits.get();
    return copy;
}

LinkSnapshot copy_link(const base::LinkRecord& link, std::size_t slot) {
    LinkSnapshot copy;
    copy.slot = slot;
    copy.vi_slot = link.vi_slot.get();
    copy.state = link.state.get();
    copy.text = copy_text(link.text);
    copy.sent_packets = link.sent_packets.get();
    copy.sent_bytes = link.sent_bytes.get();
    copy.received_packets = link.received_packets.get();
    copy.received_bytes = link.received_bytes.get();
    copy.lost_packets = link.lost_packets.get();
    copy.duplicate_packets = link.duplicate_packets.get();
    copy.timeouts = link.timeouts.get();
    copy.round_trip_ns = link.round_trip_ns.get();
    copy.least_round_trip_ns = link.least_round_trip_ns.get();
    copy.window_bytes = link.window_bytes.get();
    copy.bytes_in_flight = link.bytes_in_flight.get();
    copy.bytes_per_second = link.bytes_per_second.get();
    copy.changes = link.changes.get();
    return copy;
}

/// Links are in the page only if the process has had any.
base::Result<void> read_links(const base::UniqueFd& file, base::CountersPage& page,
                              CountersSnapshot& snapshot) {
    using base::CountersPage;
    const std::size_t slots = std::min<std::size_t>(
        page.link_slots_ready.load(std::memory_order_relaxed), CountersPage::link_slots);
    if (slots == 0) return {};
    constexpr std::size_t begin = offsetof(CountersPage, link_changes);
    const std::size_t bytes =
        offsetof(CountersPage, links) + slots * sizeof(base::LinkRecord) - begin;
    if (auto read = read_exactly(file, page.link_changes.data(), bytes, begin); !read) return read;
    for (std::size_t slot = 0; slot < slots; ++slot)
        if (page.links[slot].in_use.get() != 0)
            snapshot.links.push_back(copy_link(page.links[slot], slot));
    for (const base::LinkChange& change : page.link_changes) {
        const std::uint64_t number = change.number.load(std::memory_order_relaxed);
        if (number == 0) continue;
        snapshot.link_changes.push_back({number, change.wall_ns.load(std::memory_order_relaxed),
                                         change.vi_slot.get(), change.from.get(), change.to.get(),
                                         copy_text(change.text)});
    }
    std::sort(snapshot.link_changes.begin(), snapshot.link_changes.end(),
              [](const LinkChangeSnapshot& a, const LinkChangeSnapshot& b) {
                  return a.number < b.number;
              });
    return {};
}

double rate(std::uint64_t before, std::uint64_t after, double seconds) {
    const std::uint64_t change = after >= before ? after - before : after;
    return static_cast<double>(change) / seconds;
}

}  // namespace

std::uint64_t ViSnapshot::all_sent() const {
    return std::accumulate(sent_messages.begin(), sent_messages.end(), std::uint64_t{0});
}

std::uint64_t ViSnapshot::all_received() const {
    return std::accumulate(received_messages.begin(), received_messages.end(), std::uint64_t{0});
}

void ViSnapshot::add(const ViSnapshot& other) {
    for (std::size_t path = 0; path < base::data_paths; ++path) {
        sent_messages[path] += other.sent_messages[path];
        received_messages[path] += other.received_messages[path];
    }
    sent_bytes += other.sent_bytes;
    received_bytes += other.received_bytes;
    rdma_writes += other.rdma_writes;
    rdma_reads += other.rdma_reads;
    rdma_bytes += other.rdma_bytes;
    send_stalls += other.send_stalls;
    big_ring_posts += other.big_ring_posts;
    big_ring_refills += other.big_ring_refills;
    completed_in_error += other.completed_in_error;
    sleeps += other.sleeps;
    wakes_sent += other.wakes_sent;
}

base::Result<CountersSnapshot> read_counters(const base::UniqueFd& file) {
    using base::CountersPage;
    // Only a memfd: reading any other file that a process handed out might never end.
    if (auto checked = base::verify_memory_file(file, sizeof(CountersPage)); !checked)
        return std::move(checked).error();
    const auto page = std::make_unique<CountersPage>();
    constexpr std::size_t head_bytes = offsetof(CountersPage, vis);
    if (auto read = read_exactly(file, page.get(), head_bytes, 0); !read)
        return std::move(read).error();
    if (page->magic.load(std::memory_order_relaxed) != CountersPage::format_magic)
        return {base::Code::ProtocolViolation, "that is not a counters page"};
    if (page->version.load(std::memory_order_relaxed) != CountersPage::format_version)
        return {base::Code::NotSupported,
                "the process keeps its counters in the format of another version of Viaduct"};
    const std::size_t slots = std::min<std::size_t>(
        page->vi_slots_ready.load(std::memory_order_relaxed), CountersPage::vi_slots);
    if (auto read =
            read_exactly(file, page->vis.data(), slots * sizeof(base::ViCounters), head_bytes);
        !read)
        return std::move(read).error();

    CountersSnapshot snapshot;
    snapshot.taken_monotonic_ns = base::monotonic_now();
    snapshot.pid = page->pid.load(std::memory_order_relaxed);
    snapshot.program = copy_text(page->program);
    snapshot.started_wall_ns = page->started_wall_ns.load(std::memory_order_relaxed);
    snapshot.messages = copy_messages(page->messages);
    if (slots > 0) snapshot.totals = copy_vi(page->vis[0], 0);
    for (std::size_t slot = 1; slot < slots; ++slot) {
        if (page->vis[slot].in_use.get() == 0) continue;
        snapshot.vis.push_back(copy_vi(page->vis[slot], slot));
        snapshot.totals.add(snapshot.vis.back());
    }
    for (const base::ErrorRecord& record : page->errors) {
        const std::uint64_t count = record.count.load(std::memory_order_relaxed);
        if (count == 0) continue;
        snapshot.errors.push_back({count, record.first_wall_ns.load(std::memory_order_relaxed),
                                   record.last_wall_ns.load(std::memory_order_relaxed),
                                   copy_text(record.text)});
    }
    if (auto read = read_links(file, *page, snapshot); !read) return std::move(read).error();
    return snapshot;
}

Rates rates_between(const ViSnapshot& before, const ViSnapshot& after, std::int64_t nanoseconds) {
    Rates rates;
    if (nanoseconds <= 0) return rates;
    rates.seconds = static_cast<double>(nanoseconds) / 1e9;
    rates.sent_bytes = rate(before.sent_bytes, after.sent_bytes, rates.seconds);
    rates.received_bytes = rate(before.received_bytes, after.received_bytes, rates.seconds);
    rates.rdma_operations = rate(before.rdma_writes, after.rdma_writes, rates.seconds) +
                            rate(before.rdma_reads, after.rdma_reads, rates.seconds);
    rates.rdma_bytes = rate(before.rdma_bytes, after.rdma_bytes, rates.seconds);
    rates.sleeps = rate(before.sleeps, after.sleeps, rates.seconds);
    rates.stalls = rate(before.send_stalls, after.send_stalls, rates.seconds);
    for (std::size_t path = 0; path < base::data_paths; ++path) {
        rates.sent_by_path[path] =
            rate(before.sent_messages[path], after.sent_messages[path], rates.seconds);
        rates.received_by_path[path] =
            rate(before.received_messages[path], after.received_messages[path], rates.seconds);
        rates.sent_messages += rates.sent_by_path[path];
        rates.received_messages += rates.received_by_path[path];
    }
    return rates;
}

std::uint64_t MessageSnapshot::all_sent() const {
    std::uint64_t sum = 0;
    for (const auto& sizes : sent)
        sum = std::accumulate(sizes.begin(), sizes.end(), sum);
    return sum;
}

double MessageRates::all_sent() const {
    double sum = 0;
    for (const auto& sizes : sent)
        sum = std::accumulate(sizes.begin(), sizes.end(), sum);
    return sum;
}

MessageRates rates_between(const MessageSnapshot& before, const MessageSnapshot& after,
                           std::int64_t nanoseconds) {
    MessageRates rates;
    if (nanoseconds <= 0) return rates;
    rates.seconds = static_cast<double>(nanoseconds) / 1e9;
    for (std::size_t protocol = 0; protocol < base::message_protocols; ++protocol)
        for (std::size_t size = 0; size < base::message_size_classes; ++size)
            rates.sent[protocol][size] =
                rate(before.sent[protocol][size], after.sent[protocol][size], rates.seconds);
    rates.received = rate(before.received, after.received, rates.seconds);
    rates.unexpected = rate(before.unexpected, after.unexpected, rates.seconds);
    rates.noops_sent = rate(before.noops_sent, after.noops_sent, rates.seconds);
    rates.noops_received = rate(before.noops_received, after.noops_received, rates.seconds);
    rates.credit_stalls = rate(before.credit_stalls, after.credit_stalls, rates.seconds);
    rates.copied_bytes = rate(before.copied_bytes, after.copied_bytes, rates.seconds);
    rates.remote_operations =
        rate(before.remote_operations, after.remote_operations, rates.seconds);
    return rates;
}

std::string_view message_size_class_name(std::size_t size_class) {
    static_assert(base::message_size_class(64) == 1 && base::message_size_class(512) == 2 &&
                  base::message_size_class(4096) == 3 && base::message_size_class(32768) == 4 &&
                  base::message_size_class(262144) == 5 && base::message_size_class(2097152) == 6);
    constexpr std::array<std::string_view, base::message_size_classes> names{
        "0", "1-64", "65-512", "-4k", "-32k", "-256k", "-2m", "more"};
    return size_class < names.size() ? names[size_class] : "?";
}

std::string_view message_protocol_name(std::size_t protocol) {
    constexpr std::array<std::string_view, base::message_protocols> names{"eager", "r3", "rget",
                                                                          "rput"};
    return protocol < names.size() ? names[protocol] : "?";
}

std::string_view vi_state_name(std::uint64_t state) {
    switch (state) {
        case 0:
            return "idle";
        case 1:
            return "connected";
        case 2:
            return "pending";
        case 3:
            return "error";
        default:
            return "?";
    }
}

std::string_view reliability_name(std::uint64_t bit) {
    switch (bit) {
        case 1:
            return "unreliable";
        case 2:
            return "delivery";
        case 4:
            return "reception";
        default:
            return "?";
    }
}

std::string_view link_state_name(std::uint64_t state) {
    switch (state) {
        case 0:
            return "probing";
        case 1:
            return "up";
        case 2:
            return "suspect";
        case 3:
            return "down";
        default:
            return "?";
    }
}

std::string_view link_policy_name(std::uint64_t policy) {
    constexpr std::array<std::string_view, 5> names{"", "static", "oneway", "dynamic", "adaptive"};
    return policy < names.size() ? names[policy] : "?";
}

}  // namespace via::tool
