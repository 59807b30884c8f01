// SPDX-License-Identifier: BSD-3-Clause
#include "links/link.hpp"

namespace via::links {
namespace {

constexpr std::uint32_t first_window = 128U << 10U;
constexpr Nanoseconds unknown_round_trip = 20'000'000;
constexpr Nanoseconds least_answer_interval = 1'000'000;
constexpr Nanoseconds first_ping_interval = 20'000'000;
constexpr Nanoseconds longest_ping_interval = 500'000'000;
constexpr Nanoseconds refused_ping_interval = 1'000'000;
constexpr Nanoseconds first_long_ping_interval = 50'000'000;
constexpr Nanoseconds longest_long_ping_interval = 10'000'000'000;
/// A link that has been up for so long has its falls forgiven.
constexpr Nanoseconds forgiven_after = 10'000'000'000;

}  // namespace

const char* name_of(LinkState state) noexcept {
    switch (state) {
        case LinkState::Probing:
            return "probing";
        case LinkState::Up:
            return "up";
        case LinkState::Suspect:
            return "suspect";
        case LinkState::Down:
            return "down";
    }
    return "unknown";
}

Link::Link(std::uint8_t number, const LinkLimits& limits, Nanoseconds now)
    : number_(number),
      limits_(limits),
      longest_packet_bytes_(limits.packet_bytes),
      loss_time_(never),
      window_(std::min(first_window, limits.window_bytes)),
      slow_start_limit_(limits.window_bytes),
      last_heard_(now),
      heard_since_(now),
      state_since_(now) {}

void Link::shorten_packets(std::uint32_t bytes, Nanoseconds now) noexcept {
    limits_.packet_bytes = bytes;
    long_ping_interval_ = first_long_ping_interval;
    next_long_ping_ = now + long_ping_interval_;
}

void Link::sent_long_ping(bool sent, Nanoseconds now) noexcept {
    if (sent) long_ping_interval_ = std::min(2 * long_ping_interval_, longest_long_ping_interval);
    next_long_ping_ = now + (sent ? long_ping_interval_ : refused_ping_interval);
}

void Link::skip(std::uint32_t packets, Nanoseconds now) {
    for (std::uint32_t i = 0; i < packets; ++i) {
        sent(0, {}, now);
        --counters_.sent_packets;
    }
}

void Link::kernel_full(Nanoseconds now) noexcept {
    ++counters_.stalls;
    full_until_ = now + 50'000;
}

void Link::congested(Nanoseconds now) noexcept {
    if (now < congested_until_) return;
    congested_until_ = now + std::max(smoothed_rtt_, least_answer_interval);
    recovery_until_ = next_number_;
    cut_window();
}

/// Once for all packets that were on the way when it happened.
void Link::shrink_window(std::uint64_t lost_number) noexcept {
    if (lost_number < recovery_until_) return;
    recovery_until_ = next_number_;
    if (loses_by_chance()) return;
    window_before_loss_ = window_;
    shrunk_for_ = lost_number;
    cut_window();
}

void Link::cut_window() noexcept {
    const std::uint32_t least = 4 * limits_.packet_bytes;
    window_ = std::max(least, static_cast<std::uint32_t>(std::uint64_t{window_} * 7 / 10));
    slow_start_limit_ = window_;
    grown_bytes_ = 0;
}

const SentPacket* Link::oldest_on_the_way() const noexcept {
    if (in_flight_ == 0) return nullptr;
    for (std::size_t i = 0; i < sent_.size(); ++i)
        if (sent_[i].state == SentPacket::State::OnTheWay) return &sent_[i];
    return nullptr;
}

Nanoseconds Link::probe_time() const noexcept {
    if (in_flight_ == 0) return never;
    const Nanoseconds round_trip =
        smoothed_rtt_ == 0 ? unknown_round_trip
                           : smoothed_rtt_ + std::max<Nanoseconds>(4 * rtt_variation_, 1'000'000);
    return last_activity_ +
           ((round_trip + answer_slack) << std::min<std::uint32_t>(timeouts_in_a_row_, 4));
}

void Link::probe_timed_out(Nanoseconds now) noexcept {
    ++timeouts_in_a_row_;
    ++counters_.timeouts;
    last_activity_ = now;
}

bool Link::refused(Nanoseconds now) noexcept {
    // Several sends may meet the same answer.
    constexpr Nanoseconds apart = 5'000'000;
    if (refusals_ == 0 || now - last_refusal_ >= apart) {
        ++refusals_;
        last_refusal_ = now;
        next_ping_ = now + apart;
    }
    return believed_refused();
}

void Link::enter(LinkState state, Nanoseconds now) noexcept {
    if (state == state_) return;
    if (state_ == LinkState::Up && now - state_since_ > forgiven_after) falls_ = 0;
    const bool was_known = state_ != LinkState::Probing;
    state_ = state;
    state_since_ = now;
    ++counters_.changes;
    answers_ = 0;
    unanswered_pings_ = 0;
    timeouts_in_a_row_ = 0;
    switch (state) {
        case LinkState::Up:
            window_ = std::min(first_window, limits_.window_bytes);
            slow_start_limit_ = limits_.window_bytes;
            break;
        case LinkState::Suspect:
        case LinkState::Down:
            if (was_known && falls_ < 6) ++falls_;
            answers_needed_ = 2U << std::min(falls_, 5U);
            next_ping_ = now;
            break;
        case LinkState::Probing:
            next_ping_ = now;
            break;
    }
}

void Link::answered(Nanoseconds now) noexcept {
    unanswered_pings_ = 0;
    hear(now);
    if (state_ == LinkState::Up) return;
    if (++answers_ >= answers_needed_)
        enter(LinkState::Up, now);
    else
        next_ping_ = now + 5'000'000;  // the next of those in a row
}

void Link::ping_later(Nanoseconds now) noexcept {
    next_ping_ = now + refused_ping_interval;
}

void Link::pinged(Nanoseconds now) noexcept {
    ping_wanted_ = false;
    if (unanswered_pings_++ == 0) unanswered_since_ = now;
    if (state_ == LinkState::Up) {
        next_ping_ = now + (unanswered_pings_ > 1 ? keep_alive / 4 : keep_alive);
        return;
    }
    if (unanswered_pings_ > 1) answers_ = 0;  // not in a row any more
    const std::uint32_t doublings = std::min<std::uint32_t>(unanswered_pings_ / 4, 5);
    next_ping_ = now + std::min(first_ping_interval << doublings, longest_ping_interval);
}

}  // namespace via::links
