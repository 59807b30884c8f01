// SPDX-License-Identifier: BSD-3-Clause
// One link of a connection: its packets on the way, its round-trip time, its window and whether it
// lives. Pure: the time goes in, decisions come out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "base/clock.hpp"
#include "links/long_packet_trust.hpp"
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
    /// Packets may be longer than a datagram (wire/long_packet.hpp).
    bool long_packets = true;
    /// Their payload need not be copied for the kernel (Output::lend).
    bool lends = false;
};

struct LinkCounters {
    std::uint64_t sent_packets = 0;
    std::uint64_t sent_long_packets = 0;  ///< of these
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
    bool is_long = false;
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
    /// The kernel knows that longer ones do not leave.
    void limit_packet_bytes(std::uint32_t bytes) noexcept {
        limits_.packet_bytes = longest_packet_bytes_ = bytes;
    }
    /// Longer ones seem to get lost. That may be wrong, so they are tried again.
    void shorten_packets(std::uint32_t bytes, Nanoseconds now) noexcept;
    /// When a ping of full length is due, to see whether long packets get through again.
    [[nodiscard]] Nanoseconds next_long_ping() const noexcept {
        return limits_.packet_bytes < longest_packet_bytes_ ? next_long_ping_ : never;
    }
    [[nodiscard]] std::uint32_t longest_packet_bytes() const noexcept {
        return longest_packet_bytes_;
    }
    void sent_long_ping(bool sent, Nanoseconds now) noexcept;
    /// A packet of that length got through.
    void passes(std::uint32_t bytes) noexcept {
        if (bytes <= longest_packet_bytes_)
            limits_.packet_bytes = std::max(limits_.packet_bytes, bytes);
    }

    // --- sending
    [[nodiscard]] std::uint64_t next_number() const noexcept { return next_number_; }
    [[nodiscard]] std::uint32_t in_flight() const noexcept { return in_flight_; }
    [[nodiscard]] std::uint32_t window() const noexcept { return window_; }
    /// To fetch what is lent costs the peer more than to fetch a copy: it lies in the sender's
    /// cache. So it is lent while the peer keeps up: little was still on the way when an
    /// acknowledgement came last.
    [[nodiscard]] bool may_lend() const noexcept {
        return limits_.lends && left_on_the_way_ <= window_ / 2;
    }
    /// Bytes that may be sent now.
    [[nodiscard]] std::uint32_t room(Nanoseconds now) const noexcept;
    /// From when on pacing and the kernel's queue let something through.
    [[nodiscard]] Nanoseconds open_at() const noexcept {
        return std::max(paced_until_, full_until_);
    }
    /// Packets without a span (acknowledgements, pings) are not counted and never lost.
    void sent(std::uint32_t bytes, const Span& span, Nanoseconds now);
    /// A train: packets of `packet_bytes` each, the last one perhaps shorter, together `bytes`.
    /// There is one at least, and only the last may be without a span.
    void sent(std::span<const Span> spans, std::uint32_t packet_bytes, std::uint32_t bytes,
              Nanoseconds now);
    void sent_long(std::uint32_t bytes, const Span& span, Nanoseconds now) {
        sent(bytes, span, now);
        if (span.empty()) return;
        sent_.back().is_long = true;
        long_packets_.sent_long();
        ++counters_.sent_long_packets;
    }
    /// How long a packet may be: as long as a train, which spares the processor work, where that
    /// does not take long; on a slow link less, for the headers that it saves. 0: no longer than a
    /// datagram.
    [[nodiscard]] std::uint32_t longest_packet() const noexcept {
        if (!limits_.long_packets || limits_.short_only || !long_packets_.allows()) return 0;
        if (rate_ == 0) return limits_.train_bytes;
        return static_cast<std::uint32_t>(
            std::min<double>(limits_.train_bytes, rate_ * longest_packet_seconds));
    }
    /// The sender has nothing more to send, so the packet sent last says nothing about the rate.
    void ran_dry() noexcept {
        if (!sent_.empty()) sent_.back().idle = true;
    }
    /// Leaves numbers out, because the kernel did not take their packets.
    void skip(std::uint32_t packets, Nanoseconds now);
    void kernel_full(Nanoseconds now) noexcept;
    /// This host's own queue is full; others wait in it, too. As good as a loss, once a round trip.
    void congested(Nanoseconds now) noexcept;

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
    /// When the oldest packet is sent once more, long before anything is concluded from the
    /// silence: nothing follows the last packets of a window that could show that they were lost.
    [[nodiscard]] Nanoseconds tail_time() const noexcept {
        if (in_flight_ == 0 || tail_sent_again_ || smoothed_rtt_ == 0) return never;
        // While answers keep coming they are not the last ones.
        return std::max(last_data_sent_ + smoothed_rtt_, last_activity_) + smoothed_rtt_ / 2 +
               tail_slack;
    }
    void sends_tail_again() noexcept { tail_sent_again_ = true; }
    /// When the link should be asked whether it lives: its oldest packet is unanswered.
    [[nodiscard]] Nanoseconds probe_time() const noexcept;
    void probe_timed_out(Nanoseconds now) noexcept;
    /// Since when its oldest packet on the way has been waiting for an answer.
    [[nodiscard]] Nanoseconds waiting_since() const noexcept { return last_activity_; }
    /// Nothing at all has come since then, though there was time enough.
    [[nodiscard]] bool owes_answer(Nanoseconds now) const noexcept {
        return last_heard_ <= last_activity_ &&
               now - last_activity_ >= smoothed_rtt_ + answer_slack;
    }
    [[nodiscard]] std::uint32_t timeouts_in_a_row() const noexcept { return timeouts_in_a_row_; }
    [[nodiscard]] const SentPacket* oldest_on_the_way() const noexcept;

    // --- measured
    [[nodiscard]] Nanoseconds smoothed_rtt() const noexcept { return smoothed_rtt_; }
    [[nodiscard]] Nanoseconds least_rtt() const noexcept { return least_rtt_; }
    void measured_rtt(Nanoseconds rtt) noexcept;
    /// Bytes a second; 0: not known yet.
    [[nodiscard]] double rate() const noexcept { return rate_; }
    [[nodiscard]] Nanoseconds rate_measured_at() const noexcept { return rate_measured_at_; }
    /// Measured not long before then.
    [[nodiscard]] bool rate_is_known(Nanoseconds at) const noexcept {
        return rate_ != 0 && at - rate_measured_at_ < rate_holds;
    }
    [[nodiscard]] double loss_share() const noexcept { return loss_share_; }

    // --- receiving
    /// Right behind the largest that has come.
    [[nodiscard]] bool expects(std::uint64_t number) const noexcept {
        return number == (received_.empty() ? 0 : largest_received_ + 1);
    }
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
    /// There was no room for it.
    void ping_later(Nanoseconds now) noexcept;
    [[nodiscard]] std::uint32_t unanswered_pings() const noexcept { return unanswered_pings_; }
    void heard(Nanoseconds now) noexcept {
        hear(now);
        refusals_ = 0;
    }
    /// The peer has been heard by this link after `since`, and for long enough that others could be
    /// heard, too. Who wakes up is heard on one link before the other.
    [[nodiscard]] bool shows_life(Nanoseconds since, Nanoseconds now) const noexcept {
        return last_heard_ > since && heard_since_ <= now - answer_slack;
    }
    /// The first of the pings that stay unanswered.
    [[nodiscard]] Nanoseconds unanswered_since() const noexcept { return unanswered_since_; }
    /// The peer's host said that nobody listens there. True: often enough to be believed.
    [[nodiscard]] bool refused(Nanoseconds now) noexcept;
    [[nodiscard]] bool believed_refused() const noexcept { return refusals_ >= believed_refusals; }
    bool peer_busy = false;  ///< MNC's receiver state, from acknowledgements
    /// Asks for a ping at once.
    void ping_now() noexcept {
        next_ping_ = 0;
        ping_wanted_ = true;
    }
    [[nodiscard]] bool wants_ping() const noexcept {
        return ping_wanted_ || timeouts_in_a_row_ != 0 || refusals_ != 0;
    }
    Nanoseconds keep_alive = 500'000'000;

  private:
    [[nodiscard]] SentPacket& at(std::uint64_t number) noexcept {
        return sent_[number - sent_base_];
    }
    void hear(Nanoseconds now) noexcept {
        if (now - last_heard_ > answer_slack) heard_since_ = now;
        last_heard_ = now;
    }
    /// The receiver may be computing when a packet comes; its service thread answers then.
    static constexpr Nanoseconds answer_slack = 2'000'000;
    static constexpr Nanoseconds tail_slack = 300'000;
    /// More than this link's own packets stand in a queue on the way.
    [[nodiscard]] bool queue_stands() const noexcept {
        return least_rtt_ != 0 && smoothed_rtt_ > 2 * least_rtt_ + 1'000'000;
    }
    /// Hardly anything is lost, and nothing waits in a queue that could have been full: to send
    /// less would only leave the link empty.
    [[nodiscard]] bool loses_by_chance() const noexcept {
        return least_rtt_ != 0 && loss_share_ <= most_lost_by_chance &&
               smoothed_rtt_ <= least_rtt_ + least_rtt_ / 4 + unfelt_queue;
    }
    void shrink_window(std::uint64_t lost_number) noexcept;
    void cut_window() noexcept;
    void lose(SentPacket& packet) noexcept {
        packet.state = SentPacket::State::Lost;
        in_flight_ -= packet.bytes;
        ++counters_.lost_packets;
        long_packets_.lost(packet.is_long);
    }
    void drop_settled() noexcept;
    void measure(const SentPacket& packet, Nanoseconds now, Nanoseconds delay) noexcept;
    /// A packet has come: losses lie further back.
    void forget_losses() noexcept {
        loss_share_ -= loss_share_ / 1024;
        if (loss_share_ < least_loss_share) loss_share_ = 0;
    }
    static constexpr double least_loss_share = 1e-9;
    static constexpr double longest_packet_seconds = 0.5e-3;
    static constexpr Nanoseconds rate_memory = 16'000'000;
    static constexpr Nanoseconds rate_holds = 100'000'000;
    static constexpr std::uint64_t least_measured = 8192;
    static constexpr double most_lost_by_chance = 0.02;
    static constexpr Nanoseconds unfelt_queue = 250'000;

    std::uint8_t number_;
    LinkState state_ = LinkState::Probing;
    LinkLimits limits_;
    LinkCounters counters_;

    std::uint32_t longest_packet_bytes_;
    Nanoseconds next_long_ping_ = never;
    Nanoseconds long_ping_interval_ = 0;

    std::uint64_t next_number_ = 0;
    std::uint64_t sent_base_ = 0;  ///< number of sent_.front()
    Ring<SentPacket> sent_;
    std::uint32_t in_flight_ = 0;
    std::uint32_t left_on_the_way_ = 0;  ///< after the last acknowledgement
    std::uint64_t largest_acknowledged_ = 0;
    bool any_acknowledged_ = false;
    std::uint32_t reordering_ = 3;  ///< packets that may overtake one before it counts as lost
    Nanoseconds loss_time_;         ///< when the next packet will count as lost

    std::uint32_t window_;
    std::uint32_t slow_start_limit_;
    std::uint64_t recovery_until_ = 0;  ///< packets below this do not shrink the window again
    std::uint32_t window_before_loss_ = 0;
    std::uint64_t shrunk_for_ = 0;  ///< the lost packet
    std::uint64_t grown_bytes_ = 0;
    bool window_limited_ = false;
    Nanoseconds paced_until_ = 0;
    Nanoseconds full_until_ = 0;
    Nanoseconds congested_until_ = 0;  ///< what it says until then was answered
    Nanoseconds last_data_sent_ = 0;
    bool tail_sent_again_ = false;  ///< since the last acknowledgement

    Nanoseconds smoothed_rtt_ = 0;
    Nanoseconds rtt_variation_ = 0;
    Nanoseconds least_rtt_ = 0;
    std::uint64_t acknowledged_bytes_ = 0;
    Nanoseconds acknowledged_at_ = 0;
    double rate_ = 0;
    Nanoseconds rate_measured_at_ = 0;
    double loss_share_ = 0;
    LongPacketTrust long_packets_;
    std::uint32_t timeouts_in_a_row_ = 0;
    Nanoseconds last_activity_ = 0;  ///< the later of the oldest packet's time and the last news

    RangeSet received_;
    std::uint64_t received_floor_ = 0;  ///< everything below counts as received
    std::uint64_t largest_received_ = 0;
    Nanoseconds largest_received_at_ = 0;
    Nanoseconds last_heard_;
    Nanoseconds heard_since_;  ///< and never silent for longer than an answer takes

    Nanoseconds state_since_;
    std::uint32_t answers_ = 0;
    std::uint32_t answers_needed_ = 1;
    Nanoseconds next_ping_ = 0;
    std::uint32_t unanswered_pings_ = 0;
    Nanoseconds unanswered_since_ = 0;
    bool ping_wanted_ = false;
    std::uint32_t falls_ = 0;  ///< recent ones, for damping
    static constexpr std::uint32_t believed_refusals = 3;
    std::uint32_t refusals_ = 0;  ///< since it was heard
    Nanoseconds last_refusal_ = 0;
};

template <class Lost>
void Link::detect_losses(Nanoseconds now, Lost lost) {
    loss_time_ = never;
    if (!any_acknowledged_) return;
    drop_settled();
    if (in_flight_ == 0 || sent_base_ >= largest_acknowledged_) return;
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
        lose(packet);
        loss_share_ += (1.0 - loss_share_) / 1024;
        shrink_window(number);
        if (!packet.span.empty()) lost(packet.span);
    }
    drop_settled();
}

template <class Lost>
void Link::lose_oldest(Lost lost) {
    for (std::size_t i = 0; i < sent_.size(); ++i) {
        SentPacket& packet = sent_[i];
        if (packet.state != SentPacket::State::OnTheWay) continue;
        lose(packet);
        if (!packet.span.empty()) lost(packet.span);
        break;
    }
}

template <class Lost>
void Link::lose_all(Lost lost) {
    for (std::size_t i = 0; i < sent_.size(); ++i) {
        SentPacket& packet = sent_[i];
        if (packet.state != SentPacket::State::OnTheWay) continue;
        lose(packet);
        if (!packet.span.empty()) lost(packet.span);
    }
    loss_time_ = never;
    drop_settled();
}

namespace detail {
inline constexpr std::size_t most_received_ranges = 64;
inline constexpr std::uint32_t most_reordering = 256;
/// Lost packets are remembered for so many further ones, in case they come after all.
inline constexpr std::uint64_t remembered_losses = 1024;
}  // namespace detail

// ---- what every packet passes through -----------------------------------------------------------

inline std::uint32_t Link::room(Nanoseconds now) const noexcept {
    if (now < full_until_ || now < paced_until_ || in_flight_ >= window_) return 0;
    return window_ - in_flight_;
}

inline void Link::sent(std::uint32_t bytes, const Span& span, Nanoseconds now) {
    sent({&span, 1}, bytes, bytes, now);
}

inline void Link::sent(std::span<const Span> spans, std::uint32_t packet_bytes, std::uint32_t bytes,
                       Nanoseconds now) {
    next_number_ += spans.size();
    counters_.sent_packets += spans.size();
    counters_.sent_bytes += bytes;
    const bool was_idle = in_flight_ == 0;
    if (was_idle && !spans.front().empty()) {
        last_activity_ = now;
        acknowledged_at_ = now;
    }
    std::uint32_t counted = 0;
    for (const Span& span : spans) {
        SentPacket& packet = sent_.push();
        packet.sent = now;
        packet.acknowledged_bytes = acknowledged_bytes_;
        packet.acknowledged_at = acknowledged_at_;
        packet.span = span;
        packet.bytes = std::min(packet_bytes, bytes);
        packet.is_long = false;
        packet.idle = false;
        bytes -= packet.bytes;
        // Nothing depends on one that carries nothing.
        packet.state = span.empty() ? SentPacket::State::Acknowledged : SentPacket::State::OnTheWay;
        if (!span.empty()) counted += packet.bytes;
    }
    if (counted == 0) {
        if (was_idle) drop_settled();
        return;
    }
    last_data_sent_ = now;
    in_flight_ += counted;
    window_limited_ = in_flight_ + limits_.packet_bytes > window_ / 2;
    // A queue stands somewhere: no faster than it drains.
    if (queue_stands()) {
        const auto drain = static_cast<Nanoseconds>(static_cast<double>(counted) *
                                                    static_cast<double>(smoothed_rtt_) /
                                                    (1.25 * static_cast<double>(window_)));
        const Nanoseconds burst = 4'000'000;
        paced_until_ = std::max(paced_until_, now - burst) + drain;
    }
}

inline void Link::acknowledged(std::uint64_t begin, std::uint64_t end, Nanoseconds now,
                               Nanoseconds delay) {
    begin = std::max(begin, sent_base_);
    end = std::min(end, next_number_);
    std::uint32_t bytes = 0;
    std::uint64_t newest = 0;  // of those that were on the way
    for (std::uint64_t number = begin; number < end; ++number) {
        SentPacket& packet = at(number);
        if (packet.state == SentPacket::State::OnTheWay) [[likely]] {
            packet.state = SentPacket::State::Acknowledged;
            bytes += packet.bytes;
            newest = number;
            long_packets_.came(packet.is_long);
            if (loss_share_ != 0) forget_losses();
            continue;
        }
        if (packet.state == SentPacket::State::Acknowledged) continue;
        // It was only late: be more patient, and take the window's cut back.
        packet.state = SentPacket::State::Acknowledged;
        ++counters_.spurious_losses;
        if (packet.is_long) long_packets_.came_late();
        if (largest_acknowledged_ > number)
            reordering_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
                largest_acknowledged_ - number + 1, reordering_, detail::most_reordering));
        if (number == shrunk_for_) window_ = std::max(window_, window_before_loss_);
    }
    if (bytes == 0) return;
    in_flight_ -= bytes;
    left_on_the_way_ = in_flight_;
    acknowledged_bytes_ += bytes;
    if (!any_acknowledged_ || newest > largest_acknowledged_) {
        if (newest + 1 == end) measure(at(newest), now, delay);
        largest_acknowledged_ = newest;
        any_acknowledged_ = true;
    }
    acknowledged_at_ = now;
    last_activity_ = now;
    timeouts_in_a_row_ = 0;
    tail_sent_again_ = false;
    if (!window_limited_) return;
    if (window_ < slow_start_limit_) {
        window_ += bytes;
        if (queue_stands()) slow_start_limit_ = window_;
    } else {
        // One packet more for each window that was acknowledged; half of that where others may
        // wait in the same queue, as TCP with the same answer to losses does (RFC 9438, 4.3).
        grown_bytes_ += queue_stands() ? bytes / 2 : bytes;
        if (grown_bytes_ >= window_) {
            grown_bytes_ -= window_;
            window_ += limits_.packet_bytes;
        }
    }
    window_ = std::min(window_, limits_.window_bytes);
}

/// The newest packet that came says how long its way took, and how fast those before it left.
inline void Link::measure(const SentPacket& packet, Nanoseconds now, Nanoseconds delay) noexcept {
    const Nanoseconds rtt = now - packet.sent;
    measured_rtt(rtt > delay ? rtt - delay : rtt);
    const Nanoseconds span = now - packet.acknowledged_at;
    if (span <= 0) return;
    const std::uint64_t bytes = acknowledged_bytes_ - packet.acknowledged_bytes;
    const double sample = static_cast<double>(bytes) * 1e9 / static_cast<double>(span);
    // With nothing behind it, it shows only that the link is not slower than that; unless it was
    // its length that took the time.
    if (packet.idle && (bytes < least_measured ||
                        (sample < rate_ && rtt < 2 * least_rtt_ + unfelt_queue && rate_ != 0)))
        return;
    // As much as it tells of time, and no more than half: many links let the first bytes after a
    // pause through at once, which says nothing about those that follow.
    const double weight =
        std::min(static_cast<double>(span) / static_cast<double>(rate_memory), 0.5);
    rate_ = rate_ == 0 ? sample : rate_ + (sample - rate_) * weight;
    rate_measured_at_ = now;
}

inline void Link::measured_rtt(Nanoseconds rtt) noexcept {
    // Half of what counts as silence: no way takes so long, but a host that stood still does.
    if (rtt >= 2 * keep_alive) return;
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

inline void Link::drop_settled() noexcept {
    while (!sent_.empty()) {
        const SentPacket& packet = sent_.front();
        const bool remembered = packet.state == SentPacket::State::Lost &&
                                sent_base_ + detail::remembered_losses > largest_acknowledged_;
        if (packet.state == SentPacket::State::OnTheWay || remembered) break;
        sent_.pop_front();
        ++sent_base_;
    }
    // A lost packet in front must not keep all the others.
    if (sent_.size() > 4 * detail::remembered_losses + limits_.window_bytes / 64)
        while (!sent_.empty() && sent_.front().state != SentPacket::State::OnTheWay) {
            sent_.pop_front();
            ++sent_base_;
        }
}

inline bool Link::has_received(std::uint64_t number) const noexcept {
    return number < received_floor_ || received_.contains(number);
}

inline bool Link::received(std::uint64_t number, std::uint32_t bytes, Nanoseconds now) {
    if (expects(number) && number != 0) [[likely]] {
        received_.extend();
    } else if (number < received_floor_ || !received_.add(number, number + 1)) {
        ++counters_.duplicate_packets;
        return false;
    } else if (received_.ranges().size() > detail::most_received_ranges) {
        received_.keep_last(detail::most_received_ranges);
        received_floor_ = received_.ranges().front().begin;
    }
    ++counters_.received_packets;
    counters_.received_bytes += bytes;
    if (number >= largest_received_) {
        largest_received_ = number;
        largest_received_at_ = now;
    }
    hear(now);
    return true;
}

}  // namespace via::links
