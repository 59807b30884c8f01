// SPDX-License-Identifier: BSD-3-Clause
#include "links/link.hpp"

namespace via::links {
namespace {

constexpr std::uint32_t first_window = 128U << 10U;
/// The receiver may be computing when a packet comes; its service thread answers then.
constexpr Nanoseconds answer_slack = 2'000'000;
constexpr Nanoseconds unknown_round_trip = 20'000'000;
constexpr std::size_t most_received_ranges = 64;
constexpr std::uint32_t most_reordering = 256;
/// Lost packets are remembered for so many further ones, in case they come after all.
constexpr std::uint64_t remembered_losses = 1024;
constexpr Nanoseconds first_ping_interval = 20'000'000;
constexpr Nanoseconds longest_ping_interval = 500'000'000;
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
      loss_time_(never),
      window_(std::min(first_window, limits.window_bytes)),
      slow_start_limit_(limits.window_bytes),
      last_heard_(now),
      state_since_(now) {}

std::uint32_t Link::room(Nanoseconds now) const noexcept {
    if (now < full_until_ || now < paced_until_ || in_flight_ >= window_) return 0;
    return window_ - in_flight_;
}

void Link::sent(std::uint32_t bytes, const Span& span, Nanoseconds now) {
    SentPacket& packet = sent_.push();
    packet.idle = false;
    packet.state = SentPacket::State::OnTheWay;
    packet.sent = now;
    packet.span = span;
    packet.bytes = bytes;
    ++next_number_;
    ++counters_.sent_packets;
    counters_.sent_bytes += bytes;
    if (span.empty()) {
        packet.state = SentPacket::State::Acknowledged;  // nothing depends on it
        if (in_flight_ == 0) drop_settled();
        return;
    }
    if (in_flight_ == 0) {
        last_activity_ = now;
        acknowledged_at_ = now;
    }
    packet.acknowledged_bytes = acknowledged_bytes_;
    packet.acknowledged_at = acknowledged_at_;
    in_flight_ += bytes;
    window_limited_ = in_flight_ + limits_.packet_bytes > window_ / 2;
    // A queue stands somewhere: no faster than it drains.
    if (smoothed_rtt_ > 2 * least_rtt_ + 1'000'000 && least_rtt_ != 0) {
        const auto drain = static_cast<Nanoseconds>(static_cast<double>(bytes) *
                                                    static_cast<double>(smoothed_rtt_) /
                                                    (1.25 * static_cast<double>(window_)));
        const Nanoseconds burst = 4'000'000;
        paced_until_ = std::max(paced_until_, now - burst) + drain;
    }
}

Span Link::take_back() {
    const SentPacket packet = sent_.back();
    sent_.pop_back();
    --next_number_;
    --counters_.sent_packets;
    counters_.sent_bytes -= packet.bytes;
    if (packet.state == SentPacket::State::OnTheWay) in_flight_ -= packet.bytes;
    return packet.span;
}

void Link::kernel_full(Nanoseconds now) noexcept {
    ++counters_.stalls;
    full_until_ = now + 50'000;
}

void Link::acknowledged(std::uint64_t begin, std::uint64_t end, Nanoseconds now,
                        Nanoseconds delay) {
    begin = std::max(begin, sent_base_);
    end = std::min(end, next_number_);
    std::uint32_t bytes = 0;
    for (std::uint64_t number = begin; number < end; ++number) {
        SentPacket& packet = at(number);
        if (packet.state == SentPacket::State::Acknowledged) continue;
        if (packet.state == SentPacket::State::Lost) {
            // It was only late: be more patient, and take the window's cut back.
            packet.state = SentPacket::State::Acknowledged;
            ++counters_.spurious_losses;
            if (largest_acknowledged_ > number)
                reordering_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
                    largest_acknowledged_ - number + 1, reordering_, most_reordering));
            window_ = std::max(window_, window_before_loss_);
            continue;
        }
        packet.state = SentPacket::State::Acknowledged;
        in_flight_ -= packet.bytes;
        bytes += packet.bytes;
        acknowledged_bytes_ += packet.bytes;
        loss_share_ -= loss_share_ / 1024;
        if (!any_acknowledged_ || number > largest_acknowledged_) {
            if (number + 1 == end) {
                const Nanoseconds rtt = now - packet.sent;
                measured_rtt(rtt > delay ? rtt - delay : rtt);
                const Nanoseconds span = now - packet.acknowledged_at;
                if (span > 0 && !packet.idle) {
                    const double sample =
                        static_cast<double>(acknowledged_bytes_ - packet.acknowledged_bytes) * 1e9 /
                        static_cast<double>(span);
                    rate_ = rate_ == 0 ? sample : rate_ + (sample - rate_) / 8;
                }
            }
            largest_acknowledged_ = number;
            any_acknowledged_ = true;
        }
    }
    if (bytes == 0) return;
    acknowledged_at_ = now;
    last_activity_ = now;
    timeouts_in_a_row_ = 0;
    if (!window_limited_) return;
    if (window_ < slow_start_limit_) {
        window_ += bytes;
        if (least_rtt_ != 0 && smoothed_rtt_ > 2 * least_rtt_ + 1'000'000)
            slow_start_limit_ = window_;  // a queue builds up
    } else {
        // One packet more for each window that was acknowledged.
        grown_bytes_ += bytes;
        if (grown_bytes_ >= window_) {
            grown_bytes_ -= window_;
            window_ += limits_.packet_bytes;
        }
    }
    window_ = std::min(window_, limits_.window_bytes);
}

void Link::measured_rtt(Nanoseconds rtt) noexcept {
    rtt = std::max<Nanoseconds>(rtt, 1);
    if (smoothed_rtt_ == 0) {
        smoothed_rtt_ = rtt;
        rtt_variation_ = rtt / 2;
        least_rtt_ = rtt;
        return;
    }
    least_rtt_ = std::min(least_rtt_, rtt);
    const Nanoseconds difference = smoothed_rtt_ > rtt ? smoothed_rtt_ - rtt : rtt - smoothed_rtt_;
    rtt_variation_ += (difference - rtt_variation_) / 4;
    smoothed_rtt_ += (rtt - smoothed_rtt_) / 8;
    if (smoothed_rtt_ < 1) smoothed_rtt_ = 1;
}

/// Once for all packets that were on the way when it happened.
void Link::shrink_window(std::uint64_t lost_number, Nanoseconds now) noexcept {
    (void)now;
    if (lost_number < recovery_until_) return;
    recovery_until_ = next_number_;
    window_before_loss_ = window_;
    const std::uint32_t least = 4 * limits_.packet_bytes;
    window_ = std::max(least, static_cast<std::uint32_t>(std::uint64_t{window_} * 7 / 10));
    slow_start_limit_ = window_;
    grown_bytes_ = 0;
}

void Link::drop_settled() noexcept {
    while (!sent_.empty()) {
        const SentPacket& packet = sent_.front();
        const bool remembered = packet.state == SentPacket::State::Lost &&
                                sent_base_ + remembered_losses > largest_acknowledged_;
        if (packet.state == SentPacket::State::OnTheWay || remembered) break;
        sent_.pop_front();
        ++sent_base_;
    }
    // A lost packet in front must not keep all the others.
    if (sent_.size() > 4 * remembered_losses + limits_.window_bytes / 64)
        while (!sent_.empty() && sent_.front().state != SentPacket::State::OnTheWay) {
            sent_.pop_front();
            ++sent_base_;
        }
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
           ((round_trip + answer_slack) << std::min<std::uint32_t>(timeouts_in_a_row_, 6));
}

void Link::probe_timed_out(Nanoseconds now) noexcept {
    ++timeouts_in_a_row_;
    ++counters_.timeouts;
    last_activity_ = now;
}

bool Link::has_received(std::uint64_t number) const noexcept {
    return number < received_floor_ || received_.contains(number);
}

bool Link::received(std::uint64_t number, std::uint32_t bytes, Nanoseconds now) {
    if (number < received_floor_ || !received_.add(number, number + 1)) {
        ++counters_.duplicate_packets;
        return false;
    }
    if (received_.ranges().size() > most_received_ranges) {
        received_.keep_last(most_received_ranges);
        received_floor_ = received_.ranges().front().begin;
    }
    ++counters_.received_packets;
    counters_.received_bytes += bytes;
    if (number >= largest_received_) {
        largest_received_ = number;
        largest_received_at_ = now;
    }
    last_heard_ = now;
    return true;
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
    last_heard_ = now;
    if (state_ == LinkState::Up) return;
    if (++answers_ >= answers_needed_)
        enter(LinkState::Up, now);
    else
        next_ping_ = now + 5'000'000;  // the next of those in a row
}

void Link::pinged(Nanoseconds now) noexcept {
    ++unanswered_pings_;
    if (state_ == LinkState::Up) {
        next_ping_ = now + (unanswered_pings_ > 1 ? keep_alive / 4 : keep_alive);
        return;
    }
    if (unanswered_pings_ > 1) answers_ = 0;  // not in a row any more
    const std::uint32_t doublings = std::min<std::uint32_t>(unanswered_pings_ / 4, 5);
    next_ping_ = now + std::min(first_ping_interval << doublings, longest_ping_interval);
}

}  // namespace via::links
