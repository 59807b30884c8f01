// SPDX-License-Identifier: BSD-3-Clause
// One link of a connection: its packets on the way, its round-trip time, its window and whether it
// lives. Pure: the time goes in, decisions come out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/clock.hpp"
#include "links/range_set.hpp"
#include "links/ring.hpp"
#include "links/span.hpp"

namespace via::links {

using base::Nanoseconds;
/// A moment that does not come.
inline constexpr Nanoseconds never = std::numeric_limits<Nanoseconds>::max();

/// Probing: has to answer a ping before it carries data. Suspect: its packets stay unanswered.
/// Down: its pings do.
enum class LinkState : std::uint8_t { Probing, Up, Suspect, Down };
[[nodiscard]] const char* name_of(LinkState state) noexcept;

struct LinkLimits {
    std::uint32_t packet_bytes = 1400;       ///< longest packet
    std::uint32_t train_bytes = 65000;       ///< most bytes of one send
    std::uint32_t window_bytes = 1U << 20U;  ///< most bytes on the way
    /// For packets up to its length only, and never for bulk (the raw path).
    bool short_only = false;
};

struct LinkCounters {
    std::uint64_t sent_packets = 0;
    std::uint64_t sent_bytes = 0;
    std::uint64_t received_packets = 0;
    std::uint64_t received_bytes = 0;
    std::uint64_t duplicate_packets = 0;
    std::uint64_t lost_packets = 0;
    std::uint64_t spurious_losses = 0;
    std::uint64_t timeouts = 0;
    std::uint64_t stalls = 0;   ///< sends that the kernel's queue refused
    std::uint64_t changes = 0;  ///< of state
};

struct SentPacket {
    Nanoseconds sent = 0;
    std::uint64_t acknowledged_bytes = 0;  ///< of the link, when it was sent
    Nanoseconds acknowledged_at = 0;       ///< when that count was reached
    Span span;
    std::uint32_t bytes = 0;
    bool idle = false;  ///< the sender had nothing more to send: says nothing about the rate
    enum class State : std::uint8_t { OnTheWay, Acknowledged, Lost } state = State::OnTheWay;
};

class Link {
  public:
    Link(std::uint8_t number, const LinkLimits& limits, Nanoseconds now);

    [[nodiscard]] std::uint8_t number() const noexcept { return number_; }
    [[nodiscard]] LinkState state() const noexcept { return state_; }
    [[nodiscard]] const LinkLimits& limits() const noexcept { return limits_; }
    [[nodiscard]] const LinkCounters& counters() const noexcept { return counters_; }
    [[nodiscard]] LinkCounters& counters() noexcept { return counters_; }
    void set_packet_bytes(std::uint32_t bytes) noexcept { limits_.packet_bytes = bytes; }

    // --- sending
    [[nodiscard]] std::uint64_t next_number() const noexcept { return next_number_; }
    [[nodiscard]] std::uint32_t in_flight() const noexcept { return in_flight_; }
    [[nodiscard]] std::uint32_t window() const noexcept { return window_; }
    /// Bytes that may be sent now.
    [[nodiscard]] std::uint32_t room(Nanoseconds now) const noexcept;
    /// From when on pacing and the kernel's queue let something through.
    [[nodiscard]] Nanoseconds open_at() const noexcept {
        return std::max(paced_until_, full_until_);
    }
    /// Packets without a span (acknowledgements, pings) are not counted and never lost.
    void sent(std::uint32_t bytes, const Span& span, Nanoseconds now);
    /// The sender has nothing more to send, so the packet sent last says nothing about the rate.
    void ran_dry() noexcept {
        if (!sent_.empty()) sent_.back().idle = true;
    }
    /// Takes the packet sent last back, because the kernel did not take it.
    [[nodiscard]] Span take_back();
    void kernel_full(Nanoseconds now) noexcept;

    /// Packets [begin, end) have come.
    void acknowledged(std::uint64_t begin, std::uint64_t end, Nanoseconds now, Nanoseconds delay);
    /// After all ranges of an acknowledgement.
    template <class Lost>
    void detect_losses(Nanoseconds now, Lost lost);
    template <class Lost>
    void lose_all(Lost lost);
    /// The oldest packet on the way, whose loss a probe will show.
    template <class Lost>
    void lose_oldest(Lost lost);
    [[nodiscard]] Nanoseconds loss_time() const noexcept { return loss_time_; }
    /// When the link should be asked whether it lives: its oldest packet is unanswered.
    [[nodiscard]] Nanoseconds probe_time() const noexcept;
    void probe_timed_out(Nanoseconds now) noexcept;
    [[nodiscard]] std::uint32_t timeouts_in_a_row() const noexcept { return timeouts_in_a_row_; }
    [[nodiscard]] const SentPacket* oldest_on_the_way() const noexcept;

    // --- measured
    [[nodiscard]] Nanoseconds smoothed_rtt() const noexcept { return smoothed_rtt_; }
    [[nodiscard]] Nanoseconds least_rtt() const noexcept { return least_rtt_; }
    void measured_rtt(Nanoseconds rtt) noexcept;
    /// Bytes a second; 0: not known yet.
    [[nodiscard]] double rate() const noexcept { return rate_; }
    [[nodiscard]] double loss_share() const noexcept { return loss_share_; }

    // --- receiving
    /// False: it has come before.
    [[nodiscard]] bool received(std::uint64_t number, std::uint32_t bytes, Nanoseconds now);
    [[nodiscard]] bool has_received(std::uint64_t number) const noexcept;
    [[nodiscard]] std::uint64_t largest_received() const noexcept { return largest_received_; }
    [[nodiscard]] const RangeSet& received_ranges() const noexcept { return received_; }
    [[nodiscard]] Nanoseconds last_heard() const noexcept { return last_heard_; }
    [[nodiscard]] Nanoseconds largest_received_at() const noexcept { return largest_received_at_; }

    // --- living
    void enter(LinkState state, Nanoseconds now) noexcept;
    [[nodiscard]] Nanoseconds state_since() const noexcept { return state_since_; }
    /// Its own ping came back.
    void answered(Nanoseconds now) noexcept;
    /// Good pings in a row that bring it back; more each time it goes down.
    [[nodiscard]] std::uint32_t answers_needed() const noexcept { return answers_needed_; }
    [[nodiscard]] Nanoseconds next_ping() const noexcept { return next_ping_; }
    void pinged(Nanoseconds now) noexcept;
    [[nodiscard]] std::uint32_t unanswered_pings() const noexcept { return unanswered_pings_; }
    void heard(Nanoseconds now) noexcept {
        last_heard_ = now;
        refusals_ = 0;
    }
    /// The peer's host said that nobody listens there. True: often enough to be believed.
    [[nodiscard]] bool refused(Nanoseconds now) noexcept;
    [[nodiscard]] bool is_refused() const noexcept { return refusals_ != 0; }
    [[nodiscard]] bool believed_refused() const noexcept { return refusals_ >= believed_refusals; }
    bool peer_busy = false;  ///< MNC's receiver state, from acknowledgements
    /// Asks for a ping at once.
    void ping_now() noexcept { next_ping_ = 0; }
    Nanoseconds keep_alive = 500'000'000;

  private:
    [[nodiscard]] SentPacket& at(std::uint64_t number) noexcept {
        return sent_[number - sent_base_];
    }
    void shrink_window(std::uint64_t lost_number, Nanoseconds now) noexcept;
    void drop_settled() noexcept;

    std::uint8_t number_;
    LinkState state_ = LinkState::Probing;
    LinkLimits limits_;
    LinkCounters counters_;

    std::uint64_t next_number_ = 0;
    std::uint64_t sent_base_ = 0;  ///< number of sent_.front()
    Ring<SentPacket> sent_;
    std::uint32_t in_flight_ = 0;
    std::uint64_t largest_acknowledged_ = 0;
    bool any_acknowledged_ = false;
    std::uint32_t reordering_ = 3;  ///< packets that may overtake one before it counts as lost
    Nanoseconds loss_time_;         ///< when the next packet will count as lost

    std::uint32_t window_;
    std::uint32_t slow_start_limit_;
    std::uint64_t recovery_until_ = 0;  ///< packets below this do not shrink the window again
    std::uint32_t window_before_loss_ = 0;
    std::uint64_t grown_bytes_ = 0;
    bool window_limited_ = false;
    Nanoseconds paced_until_ = 0;
    Nanoseconds full_until_ = 0;

    Nanoseconds smoothed_rtt_ = 0;
    Nanoseconds rtt_variation_ = 0;
    Nanoseconds least_rtt_ = 0;
    std::uint64_t acknowledged_bytes_ = 0;
    Nanoseconds acknowledged_at_ = 0;
    double rate_ = 0;
    double loss_share_ = 0;
    std::uint32_t timeouts_in_a_row_ = 0;
    Nanoseconds last_activity_ = 0;  ///< the later of the oldest packet's time and the last news

    RangeSet received_;
    std::uint64_t received_floor_ = 0;  ///< everything below counts as received
    std::uint64_t largest_received_ = 0;
    Nanoseconds largest_received_at_ = 0;
    Nanoseconds last_heard_;

    Nanoseconds state_since_;
    std::uint32_t answers_ = 0;
    std::uint32_t answers_needed_ = 1;
    Nanoseconds next_ping_ = 0;
    std::uint32_t unanswered_pings_ = 0;
    std::uint32_t falls_ = 0;  ///< recent ones, for damping
    static constexpr std::uint32_t believed_refusals = 3;
    std::uint32_t refusals_ = 0;  ///< since it was heard
    Nanoseconds last_refusal_ = 0;
};

template <class Lost>
void Link::detect_losses(Nanoseconds now, Lost lost) {
    loss_time_ = never;
    if (!any_acknowledged_) return;
    const Nanoseconds patience =
        std::max(smoothed_rtt_, Nanoseconds{200'000}) + smoothed_rtt_ / 8 + Nanoseconds{50'000};
    for (std::uint64_t number = sent_base_;
         number < largest_acknowledged_ && number - sent_base_ < sent_.size(); ++number) {
        SentPacket& packet = at(number);
        if (packet.state != SentPacket::State::OnTheWay) continue;
        const bool overtaken = largest_acknowledged_ - number >= reordering_;
        if (!overtaken && packet.sent + patience > now) {
            loss_time_ = std::min(loss_time_, packet.sent + patience);
            continue;
        }
        packet.state = SentPacket::State::Lost;
        in_flight_ -= packet.bytes;
        ++counters_.lost_packets;
        loss_share_ += (1.0 - loss_share_) / 1024;
        shrink_window(number, now);
        if (!packet.span.empty()) lost(packet.span);
    }
    drop_settled();
}

template <class Lost>
void Link::lose_oldest(Lost lost) {
    for (std::size_t i = 0; i < sent_.size(); ++i) {
        SentPacket& packet = sent_[i];
        if (packet.state != SentPacket::State::OnTheWay) continue;
        packet.state = SentPacket::State::Lost;
        in_flight_ -= packet.bytes;
        ++counters_.lost_packets;
        if (!packet.span.empty()) lost(packet.span);
        break;
    }
}

template <class Lost>
void Link::lose_all(Lost lost) {
    for (std::size_t i = 0; i < sent_.size(); ++i) {
        SentPacket& packet = sent_[i];
        if (packet.state != SentPacket::State::OnTheWay) continue;
        packet.state = SentPacket::State::Lost;
        in_flight_ -= packet.bytes;
        ++counters_.lost_packets;
        if (!packet.span.empty()) lost(packet.span);
    }
    loss_time_ = never;
    drop_settled();
}

}  // namespace via::links
