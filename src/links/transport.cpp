// SPDX-License-Identifier: BSD-3-Clause
#include "links/transport.hpp"

#include <algorithm>

namespace via::links {
namespace {

/// What is no longer than this goes where it arrives first, and on one link.
constexpr std::uint64_t short_bytes = 8192;
/// The choice of a link for it holds so long, unless the link falls or fills up: choosing takes
/// time.
constexpr Nanoseconds short_choice_holds = 50'000;
/// The least train of a long stream.
constexpr std::uint32_t worthwhile_bytes = 48U << 10U;
/// Links whose state one packet tells.
constexpr std::uint32_t most_acknowledgements = 4;
constexpr std::uint32_t suspect_after_timeouts = 2;
constexpr std::uint32_t down_after_pings = 3;
constexpr Nanoseconds goodbye_time = 1'000'000'000;

// A ping's stamp: when it was sent, and how long it was.
constexpr int stamp_size_shift = 48;
std::uint64_t stamp_of(Nanoseconds now, std::uint32_t bytes) noexcept {
    return (static_cast<std::uint64_t>(now) & ((std::uint64_t{1} << stamp_size_shift) - 1)) |
           std::uint64_t{bytes} << stamp_size_shift;
}

bool carries(const LinkLimits& limits, std::uint64_t pending) noexcept {
    constexpr std::uint64_t most_headers = 128;
    return !limits.short_only || pending + most_headers <= limits.packet_bytes;
}

}  // namespace

Transport::Transport(StreamClient& client, Output& output, const TransportTerms& terms,
                     Nanoseconds now)
    : client_(client),
      output_(output),
      terms_(terms),
      guard_(terms.key, terms.requester, terms.sealed),
      policy_(make_policy(terms.policy, {terms.connection, terms.requester})),
      last_time_(now) {
    // Filling a train can not fail half-way.
    spans_.reserve(Train::most_packets);
}

void Transport::add_link(const LinkLimits& limits, Nanoseconds now) {
    LinkLimits agreed = limits;
    // Where messages may be lost, no more of them than need be are; and a sealed packet is short.
    if (terms_.one_link || terms_.sealed) agreed.long_packets = false;
    links_.emplace_back(static_cast<std::uint8_t>(links_.size()), agreed, now);
    links_.back().keep_alive = terms_.lost_after / 4;
    joiners_.emplace_back();
    owed_.emplace_back();
}

void Transport::set_policy(PolicyKind policy) {
    policy_ = make_policy(policy, {terms_.connection, terms_.requester});
    terms_.policy = policy;
    short_choice_until_ = 0;
}

Nanoseconds Transport::silent_since() const noexcept {
    Nanoseconds latest = silence_counts_from_;
    for (const Link& link : links_)
        latest = std::max(latest, link.last_heard());
    return latest;
}

bool Transport::any_up() const noexcept {
    return std::any_of(links_.begin(), links_.end(),
                       [](const Link& link) { return link.state() == LinkState::Up; });
}

bool Transport::another_up(std::size_t index) const noexcept {
    for (const Link& link : links_)
        if (link.number() != index && link.state() == LinkState::Up && !link.limits().short_only)
            return true;
    return false;
}

// ---- sending ------------------------------------------------------------------------------------

wire::PacketHeader Transport::header_for(const Link& link) const noexcept {
    wire::PacketHeader header;
    header.token = terms_.remote_token;
    header.link = link.number();
    header.flags = terms_.sealed ? wire::packet_sealed : std::uint8_t{0};
    return header;
}

void Transport::begin_train(const Link& link, std::uint32_t packet_bytes, std::uint32_t limit) {
    train_.begin(packet_bytes, limit, guard_, header_for(link), link.next_number());
}

/// What has come on each link that owes, as far as it fits.
template <class Packet>
inline void Transport::append_acknowledgements(Packet& packet, Nanoseconds now) {
    const std::uint64_t delivered = client_.delivered();
    if (owed_packets_ == 0 && delivered == told_delivered_) return;
    std::uint32_t told = 0;
    for (std::size_t i = 0; i < links_.size() && told < most_acknowledgements; ++i) {
        Owed& owed = owed_[i];
        if (owed.packets == 0) continue;
        const Link& link = links_[i];
        wire::AcknowledgementFrame frame;
        frame.link = link.number();
        frame.state = busy_ && last_arrival_ == i ? wire::receiver_busy : std::uint8_t{0};
        frame.delay_us = static_cast<std::uint32_t>(
            std::clamp<Nanoseconds>((now - link.largest_received_at()) / 1000, 0, 10'000'000));
        frame.delivered = static_cast<std::uint32_t>(delivered);
        frame.largest = static_cast<std::uint32_t>(link.largest_received());
        const auto& ranges = link.received_ranges().ranges();
        const std::uint32_t fit = packet.room() < wire::AcknowledgementFrame::fixed_bytes
                                      ? 0
                                      : (packet.room() - wire::AcknowledgementFrame::fixed_bytes) /
                                            wire::AcknowledgementFrame::range_bytes;
        const std::uint32_t most =
            std::min<std::uint32_t>(fit, wire::AcknowledgementFrame::most_ranges);
        if (most == 0) return;
        // Straight into the packet: what is copied there takes longer than all the rest.
        frame.ranges = static_cast<std::uint8_t>(std::min<std::size_t>(ranges.size(), most));
        std::byte* at = packet.append(wire::AcknowledgementFrame::fixed_bytes +
                                      frame.ranges * wire::AcknowledgementFrame::range_bytes);
        wire::encode_fixed(at, frame);
        at += wire::AcknowledgementFrame::fixed_bytes;
        auto range = ranges.rbegin();
        for (std::uint32_t left = frame.ranges; left != 0; --left) {
            const auto length = static_cast<std::uint32_t>(range->end - range->begin);
            const std::uint64_t begin = (range++)->begin;
            wire::encode(
                at, wire::AcknowledgementFrame::Range{
                        length, left == 1 ? 0 : static_cast<std::uint32_t>(begin - range->end)});
            at += wire::AcknowledgementFrame::range_bytes;
        }
        owed_packets_ -= owed.packets;
        owed = {};
        ++told;
    }
    if (told == 0 && packet.room() >= wire::AcknowledgementFrame::fixed_bytes) {
        wire::AcknowledgementFrame frame;  // only what was delivered
        frame.delivered = static_cast<std::uint32_t>(delivered);
        wire::encode(packet.append(wire::AcknowledgementFrame::fixed_bytes), frame);
    }
    told_delivered_ = delivered;
    if (owed_packets_ == 0) soon_ = false;
}

void Transport::view(Nanoseconds now, std::uint64_t pending) {
    views_.clear();
    const bool any = any_up();
    Nanoseconds last_measured = 0;
    for (const Link& link : links_)
        last_measured = std::max(last_measured, link.rate_measured_at());
    for (const Link& link : links_) {
        LinkView one;
        one.index = link.number();
        // Before the first link has answered, any may.
        one.up = any ? link.state() == LinkState::Up : link.state() != LinkState::Down;
        one.short_only = link.limits().short_only;
        one.peer_busy = link.peer_busy;
        one.room = room_for(link, pending, now);
        one.in_flight = link.in_flight();
        // A link that was not used while others were may have become a better one: it is tried
        // again.
        one.rate = link.rate_is_known(last_measured) ? link.rate() : 0;
        one.round_trip = link.smoothed_rtt();
        one.least_round_trip = link.least_rtt();
        views_.push_back(one);
    }
    // The last resort: whatever there is.
    if (!any && std::none_of(views_.begin(), views_.end(), [](const auto& v) { return v.up; }))
        for (LinkView& one : views_)
            one.up = true;
}

/// Room for what is pending. A long stream waits until a good part of a train fits, or it would
/// go on in single packets for ever, each behind one acknowledgement.
std::uint32_t Transport::room_for(const Link& link, std::uint64_t pending, Nanoseconds now) const {
    const std::uint32_t room = link.room(now);
    if (room >= pending || link.in_flight() == 0 || client_.is_urgent()) return room;
    return room < std::min(worthwhile_bytes, link.window() / 4) ? 0 : room;
}

bool Transport::short_choice_holds_for(std::uint64_t pending, Nanoseconds now) const noexcept {
    if (now >= short_choice_until_ || pending > short_bytes) return false;
    const Link& link = links_[short_choice_];
    return link.state() == LinkState::Up && carries(link.limits(), pending) &&
           link.room(now) >= pending;
}

std::optional<Choice> Transport::choose(std::uint64_t pending, Nanoseconds now) {
    if (links_.size() == 1) {
        if (room_for(links_[0], pending, now) == 0) return std::nullopt;
        return Choice{};
    }
    if (short_choice_holds_for(pending, now)) return Choice{short_choice_};
    view(now, pending);
    if (terms_.one_link) {
        if (!views_[sticky_].up || views_[sticky_].short_only) {
            for (const LinkView& one : views_)
                if (one.up && !one.short_only) sticky_ = one.index;
        }
        if (views_[sticky_].room == 0) return std::nullopt;
        return Choice{sticky_};
    }
    if (pending <= short_bytes) {
        const auto left_out = std::erase_if(views_, [&](const LinkView& one) {
            return !carries(links_[one.index].limits(), pending);
        });
        const auto chosen = policy_->choose_short(views_);
        if (!chosen || links_[*chosen].room(now) == 0) return std::nullopt;
        short_choice_ = *chosen;
        short_choice_until_ = left_out == 0 ? now + short_choice_holds : 0;
        return Choice{*chosen};
    }
    return policy_->choose(views_, pending);
}

/// Where the peer's packets come from, the way back is open, too, most likely. If the link is not
/// trusted here it may not be, and the ones that are trusted may have died unnoticed by whoever
/// only answers; so they take turns.
std::size_t Transport::answering_link() noexcept {
    if (links_[last_arrival_].state() == LinkState::Up) return last_arrival_;
    for (std::size_t i = 0; i < links_.size(); ++i) {
        last_answer_ = (last_answer_ + 1) % links_.size();
        if (last_answer_ == last_arrival_ || links_[last_answer_].state() == LinkState::Up)
            return last_answer_;
    }
    return last_arrival_;
}

bool Transport::transmit(Nanoseconds now, std::uint64_t worth) {
    if (closed_ || links_.empty()) return false;
    last_transmit_ = now;
    bool any = false;
    for (;;) {
        const std::uint64_t pending = closing_ ? 0 : client_.pending_bytes();
        if (pending < (any ? worth : 1) && !acknowledgement_due()) break;
        std::optional<Choice> choice;
        if (pending != 0) choice = choose(pending, now);
        if (!choice && acknowledgement_due()) choice = Choice{answering_link()};
        if (!choice) break;
        std::optional<bool> sent;
        if (pending != 0) sent = send_alone(choice->link, pending, now);
        if (!sent) sent = send_train(*choice, now);
        if (!*sent) break;
        any = true;
    }
    return any;
}

/// Nothing: all that waits is no such message, or does not go into one packet now.
std::optional<bool> Transport::send_alone(std::size_t index, std::uint64_t pending,
                                          Nanoseconds now) {
    Link& link = links_[index];
    const std::uint32_t datagram_bytes = link.limits().packet_bytes;
    const bool is_short = pending <= datagram_bytes / 2;
    if (pending > short_bytes || pending > link.room(now) || guard_.sealed()) return std::nullopt;
    LonePacket packet(is_short ? datagram_bytes : std::max(datagram_bytes, link.longest_packet()));
    Span span;
    if (!client_.fill_alone(packet, span)) return std::nullopt;
    const bool acknowledging = owed_packets_ != 0 || client_.delivered() != told_delivered_;
    if (acknowledging) {
        LonePacket::Front front(packet);
        append_acknowledgements(front, now);
    }
    wire::PacketHeader header = header_for(link);
    header.number = static_cast<std::uint32_t>(link.next_number());
    const std::span<const iovec> parts = packet.finish(header, guard_.seed(), datagram_bytes);
    const SendOutcome outcome = output_.send(index, parts, datagram_bytes);
    if (outcome != SendOutcome::Sent) {
        not_sent(index, {&span, 1}, acknowledging, outcome, now);
        return false;
    }
    if (packet.bytes() > datagram_bytes)
        link.sent_long(packet.bytes(), span, now);
    else
        link.sent(packet.bytes(), span, now);
    client_.sent({&span, 1});
    link.ran_dry();
    return true;
}

bool Transport::send_train(const Choice& choice, Nanoseconds now) {
    const std::size_t index = choice.link;
    Link& link = links_[index];
    const LinkLimits& limits = link.limits();
    const std::uint32_t room = link.room(now);
    const auto wanted = static_cast<std::uint32_t>(std::min<std::uint64_t>(room, choice.bytes));
    const std::uint32_t limit =
        std::min({limits.train_bytes, Train::most_bytes, std::max(wanted, limits.packet_bytes)});
    // What was lost comes in many short pieces, each a packet of its own.
    const bool is_short = client_.pending_bytes() <= limits.packet_bytes / 2;
    const bool acknowledging = owed_packets_ != 0 || client_.delivered() != told_delivered_;
    const std::uint32_t long_limit =
        is_short || client_.is_urgent() ? 0 : std::min(limit, link.longest_packet());
    if (long_limit >= 2 * limits.packet_bytes)
        train_.begin_long(limits.packet_bytes, long_limit, guard_, header_for(link),
                          link.next_number(), link.may_lend());
    else
        begin_train(link, limits.packet_bytes, limit);
    spans_.clear();
    train_.open_packet();
    if (acknowledging) append_acknowledgements(train_, now);
    if (room != 0 && !closing_) client_.fill(train_, spans_);
    if (spans_.size() < train_.packets()) {
        // The last packet took nothing of the stream.
        if (train_.packet_empty())
            train_.drop_packet();
        else
            spans_.emplace_back();
    }
    if (spans_.empty()) return false;
    train_.finish();
    const SendOutcome outcome =
        train_.lends_last()
            ? output_.lend(index, train_.parts(), train_.parts_not_lent(), limits.packet_bytes)
            : output_.send(index, train_.parts(), limits.packet_bytes);
    if (outcome == SendOutcome::Sent) {
        if (train_.is_long())
            link.sent_long(train_.bytes(), spans_.front(), now);
        else
            link.sent(spans_, train_.packet_bytes(), train_.bytes(), now);
        client_.sent(spans_);
        if (client_.pending_bytes() == 0) link.ran_dry();
        return true;
    }
    not_sent(index, spans_, acknowledging, outcome, now);
    return false;
}

void Transport::not_sent(std::size_t index, std::span<const Span> spans, bool acknowledging,
                         SendOutcome outcome, Nanoseconds now) {
    // Their numbers are used up: some may have left all the same, and a number never means two
    // packets.
    links_[index].skip(static_cast<std::uint32_t>(spans.size()), now);
    for (auto span = spans.rbegin(); span != spans.rend(); ++span)
        if (!span->empty()) client_.unsent(*span);
    refused(index, outcome, now);
    if (acknowledging) {  // they did not go
        owed_[last_arrival_].packets += 1;
        owed_packets_ += 1;
        soon_ = true;
    }
}

void Transport::refused(std::size_t index, SendOutcome outcome, Nanoseconds now) {
    Link& link = links_[index];
    switch (outcome) {
        case SendOutcome::Sent:
            return;
        case SendOutcome::Congested:
            link.congested(now);
            [[fallthrough]];
        case SendOutcome::Later:
            link.kernel_full(now);
            return;
        case SendOutcome::TooLong: {
            const std::uint32_t bytes = output_.packet_bytes(index);
            // Shorter anyhow, whatever the kernel believes.
            link.limit_packet_bytes(std::max(terms_.least_packet_bytes,
                                             std::min(bytes, link.limits().packet_bytes - 8)));
            return;
        }
        case SendOutcome::Refused:
            if (closing_) closed_ = true;  // there is nobody to say goodbye to
            if (link.refused(now) && std::all_of(links_.begin(), links_.end(), [](const Link& one) {
                    return one.believed_refused() || one.state() == LinkState::Down;
                }))
                lost_ = true;
            link.kernel_full(now);
            if (link.state() == LinkState::Up && another_up(index))
                fall(index, LinkState::Suspect, now);
            return;
        case SendOutcome::LinkDown:
            link.kernel_full(now);
            // Also when no other is up: one that was given up may work, and this one does not.
            if (link.state() == LinkState::Up) fall(index, LinkState::Suspect, now);
            return;
    }
}

bool Transport::send_control(std::size_t index, Nanoseconds now, wire::FrameType type,
                             std::uint64_t stamp, std::uint32_t padded_to) {
    Link& link = links_[index];
    const std::uint32_t bytes = std::max(link.limits().packet_bytes, padded_to);
    begin_train(link, bytes, bytes);
    train_.open_packet();
    if (type == wire::FrameType::Ping || type == wire::FrameType::Pong) {
        wire::encode_ping(train_.append(wire::PingFrame::bytes), type, {stamp});
    } else {
        // What was delivered before the end counts, though no acknowledgement has said so yet.
        wire::AcknowledgementFrame last;
        last.delivered = static_cast<std::uint32_t>(client_.delivered());
        wire::encode(train_.append(wire::AcknowledgementFrame::fixed_bytes), last);
        wire::encode_close(train_.append(wire::CloseFrame::bytes), type, close_frame_);
    }
    if (padded_to > guard_.overhead()) train_.pad(padded_to - guard_.overhead());
    train_.finish();
    const SendOutcome outcome = output_.send(index, train_.parts(), train_.packet_bytes());
    if (outcome == SendOutcome::Sent) {
        link.sent(train_.bytes(), {}, now);
        return true;
    }
    link.skip(1, now);
    refused(index, outcome, now);
    return outcome != SendOutcome::Later && outcome != SendOutcome::Congested;
}

void Transport::ping(std::size_t index, Nanoseconds now) {
    Link& link = links_[index];
    // A link that has to show that it works shows it with packets of full length; if none of them
    // comes through, shorter ones may.
    std::uint32_t bytes = wire::PacketHeader::bytes + wire::PingFrame::bytes + guard_.overhead();
    if (link.state() != LinkState::Up)
        bytes = link.unanswered_pings() % 3 == 2
                    ? std::min(terms_.least_packet_bytes, link.limits().packet_bytes)
                    : link.limits().packet_bytes;
    if (send_control(index, now, wire::FrameType::Ping, stamp_of(now, bytes), bytes))
        link.pinged(now);
    else
        link.ping_later(now);
}

// ---- time ---------------------------------------------------------------------------------------

void Transport::enter(std::size_t index, LinkState state, Nanoseconds now) {
    const LinkState before = links_[index].state();
    links_[index].enter(state, now);
    if (before != state) output_.link_changed(index, before, state);
}

void Transport::fall(std::size_t index, LinkState state, Nanoseconds now) {
    enter(index, state, now);
    links_[index].lose_all([&](const Span& span) { client_.lost(span); });
    if (!any_up()) ask_all();
}

/// Those given up, too, which are asked seldom otherwise.
void Transport::ask_all() noexcept {
    for (Link& link : links_)
        link.ping_now();
}

bool Transport::another_shows_life(std::size_t index, Nanoseconds since,
                                   Nanoseconds now) const noexcept {
    return another_up(index) && std::any_of(links_.begin(), links_.end(), [&](const Link& other) {
               return other.number() != index && other.state() == LinkState::Up &&
                      other.shows_life(since, now);
           });
}

/// No other is up, yet the peer is heard on one that was given up: its packets come, perhaps too
/// many of them for our pings to be answered in a row. It is worth more than one that is silent.
bool Transport::replaced_by_one_heard(std::size_t index, Nanoseconds since, Nanoseconds now) {
    if (another_up(index)) return false;
    for (const Link& other : links_)
        if (other.number() != index && other.last_heard() > since && !other.limits().short_only) {
            enter(other.number(), LinkState::Up, now);
            fall(index, LinkState::Suspect, now);
            return true;
        }
    return false;
}

/// How often a link has to answer before it is trusted again is for links that one can do without.
void Transport::works(std::size_t index, Nanoseconds now) {
    if (links_[index].state() != LinkState::Up && !any_up()) enter(index, LinkState::Up, now);
}

void Transport::take_pong(std::size_t index, std::uint64_t stamp, Nanoseconds now) {
    Link& link = links_[index];
    const auto mask = (std::uint64_t{1} << stamp_size_shift) - 1;
    const std::uint64_t age = (static_cast<std::uint64_t>(now) - stamp) & mask;
    if (age > static_cast<std::uint64_t>(terms_.lost_after)) return;  // not one of ours
    const auto bytes = static_cast<std::uint32_t>(stamp >> stamp_size_shift);
    const LinkState before = link.state();
    if (before != LinkState::Up && bytes >= terms_.least_packet_bytes &&
        bytes < link.limits().packet_bytes)
        link.shorten_packets(bytes, now);
    else
        link.passes(bytes);
    link.measured_rtt(static_cast<Nanoseconds>(age));
    link.answered(now);
    if (link.state() != before) output_.link_changed(index, before, link.state());
    works(index, now);
}

/// Pings of the link stay unanswered. Those of others are asked for, too, before it is to blame.
void Transport::pings_unanswered(std::size_t index, Nanoseconds now) {
    const Nanoseconds since = links_[index].unanswered_since();
    if (another_shows_life(index, since, now)) {
        fall(index, LinkState::Suspect, now);
        return;
    }
    if (replaced_by_one_heard(index, since, now)) return;
    for (Link& other : links_)
        if (other.number() != index && other.state() == LinkState::Up &&
            other.unanswered_pings() == 0 && other.last_heard() <= since)
            other.ping_now();
}

/// Packets of the link stay unanswered. Is it the link, or the peer, which may be computing?
void Transport::probe_timed_out(std::size_t index, Nanoseconds now) {
    Link& link = links_[index];
    const Nanoseconds since = link.waiting_since();
    link.probe_timed_out(now);
    if (link.timeouts_in_a_row() >= suspect_after_timeouts &&
        another_shows_life(index, since, now)) {
        fall(index, LinkState::Suspect, now);
        return;
    }
    if (link.timeouts_in_a_row() >= suspect_after_timeouts &&
        replaced_by_one_heard(index, since, now))
        return;
    // What is silent for so long has lost all there was, not one packet, and what is sent anew must
    // find room.
    if (link.timeouts_in_a_row() >= suspect_after_timeouts)
        link.lose_all([&](const Span& span) { client_.lost(span); });
    else
        link.lose_oldest([&](const Span& span) { client_.lost(span); });
    // All are asked, so that the next time it is known.
    if (!another_up(index)) ask_all();
    for (Link& one : links_)
        if (one.state() == LinkState::Up) one.ping_now();
    // Short packets are answered and long ones are not: the path may have become shorter.
    if (link.timeouts_in_a_row() > suspect_after_timeouts &&
        now - link.last_heard() < link.keep_alive &&
        link.limits().packet_bytes > terms_.least_packet_bytes)
        link.shorten_packets(terms_.least_packet_bytes, now);
}

void Transport::on_time(Nanoseconds now) {
    if (closed_) return;
    // Nobody has called for long: this process stood still, not the peer.
    if (now - last_time_ > terms_.lost_after / 2)
        silence_counts_from_ = now - terms_.lost_after / 2;
    last_time_ = now;
    if (closing_) {
        if (now >= close_until_)
            closed_ = true;
        else if (now >= next_close_)
            send_close(now);
        return;
    }
    if (owed_packets_ != 0 && now >= acknowledge_at()) soon_ = true;
    for (std::size_t i = 0; i < links_.size(); ++i) {
        Link& link = links_[i];
        if (link.loss_time() <= now)
            link.detect_losses(now, [&](const Span& span) { client_.lost(span); });
        if (link.tail_time() <= now) {
            link.sends_tail_again();
            link.lose_oldest([&](const Span& span) { client_.lost(span); });
        }
        if (link.probe_time() <= now) probe_timed_out(i, now);
        // Asked twice and still silent, while another is heard again.
        if (link.state() == LinkState::Up && link.timeouts_in_a_row() >= suspect_after_timeouts &&
            link.owes_answer(now) && another_shows_life(i, link.waiting_since(), now))
            fall(i, LinkState::Suspect, now);
        if (link.next_long_ping() <= now) {
            const std::uint32_t bytes = link.longest_packet_bytes();
            link.sent_long_ping(
                send_control(i, now, wire::FrameType::Ping, stamp_of(now, bytes), bytes), now);
        }
        const bool idle_too_long = now - link.last_heard() >= link.keep_alive;
        if (now >= link.next_ping() &&
            (link.state() != LinkState::Up || idle_too_long || link.wants_ping()))
            ping(i, now);
        if (link.state() == LinkState::Up && link.unanswered_pings() >= down_after_pings)
            pings_unanswered(i, now);
        if (link.state() == LinkState::Suspect && link.unanswered_pings() >= down_after_pings)
            enter(i, LinkState::Down, now);
    }
    if (now - silent_since() >= terms_.lost_after) lost_ = true;
}

Nanoseconds Transport::concludes_at() const noexcept {
    Nanoseconds earliest = never;
    for (const Link& link : links_)
        earliest = std::min({earliest, link.loss_time(), link.tail_time(), link.probe_time(),
                             link.unanswered_pings() != 0 ? link.next_ping() : never});
    return earliest;
}

Nanoseconds Transport::next_deadline() const noexcept {
    if (closed_) return never;
    if (closing_) return std::min(close_until_, next_close_);
    Nanoseconds earliest = silent_since() + terms_.lost_after;
    if (owed_packets_ != 0) earliest = std::min(earliest, acknowledge_at());
    const bool pending = client_.pending_bytes() != 0;
    for (const Link& link : links_) {
        earliest = std::min({earliest, link.loss_time(), link.tail_time(), link.probe_time(),
                             link.next_long_ping()});
        if (link.state() != LinkState::Up || link.wants_ping())
            earliest = std::min(earliest, link.next_ping());
        else
            earliest =
                std::min(earliest, std::max(link.next_ping(), link.last_heard() + link.keep_alive));
        // What was open when it was tried last waits for an acknowledgement, not for the time.
        if (pending && link.in_flight() < link.window() && link.open_at() > last_transmit_)
            earliest = std::min(earliest, link.open_at());
    }
    return earliest;
}

// ---- goodbye ------------------------------------------------------------------------------------

void Transport::close(const wire::CloseFrame& frame, Nanoseconds now) {
    if (closing_ || closed_) return;
    closing_ = true;
    close_frame_ = frame;
    close_until_ = now + goodbye_time;
    send_close(now);
}

void Transport::send_close(Nanoseconds now) {
    for (std::size_t i = 0; i < links_.size(); ++i)
        if (links_[i].state() != LinkState::Down || !any_up())
            send_control(i, now, wire::FrameType::Close, 0, 0);
    next_close_ = now + close_interval_;
    close_interval_ = std::min<Nanoseconds>(2 * close_interval_, 100'000'000);
}

}  // namespace via::links
