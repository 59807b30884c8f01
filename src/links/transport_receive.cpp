// SPDX-License-Identifier: BSD-3-Clause
// What comes: datagrams become packets, packets frames, and it is owed that they are acknowledged.
#include <algorithm>

#include "links/transport.hpp"

namespace via::links {
namespace {

/// A receiver of a long stream acknowledges this often, and four times a window.
constexpr std::uint32_t acknowledge_every_bytes = 256U << 10U;
constexpr std::uint32_t acknowledge_every_packets = 256;
/// While packets come one after the other their acknowledgement waits so long for more of them.
constexpr Nanoseconds acknowledge_within = 8'000;
/// The same while a message is on its way of which only a part has come: more must follow.
constexpr Nanoseconds acknowledge_midway_within = 32'000;
/// A packet that comes so long after the one before it is no part of a stream.
constexpr Nanoseconds lone_after = 20'000;
/// From so many bytes on it pays to look for their place before they are checked.
constexpr std::size_t least_early_bytes = 8192;

}  // namespace

bool Transport::receive(std::size_t index, std::span<const std::byte> datagrams,
                        std::size_t datagram_bytes, Nanoseconds now) {
    if (index >= links_.size()) return true;
    std::uint32_t packets = 0;
    for (; !datagrams.empty() && !closed_; ++packets)
        datagrams = datagrams.subspan(take_first(index, datagrams, datagram_bytes, now));
    return packets <= 1;
}

std::size_t Transport::take_first(std::size_t index, std::span<const std::byte> datagrams,
                                  std::size_t datagram_bytes, Nanoseconds now) {
    const auto first = datagrams.first(std::min(datagram_bytes, datagrams.size()));
    PacketJoiner& joiner = joiners_[index];
    if (wire::begins_packet(first, terms_.local_token)) [[likely]] {
        joiner.give_up();
        if (!take_packet(index, first, now)) ++damaged_packets_;
        return first.size();
    }
    if (wire::begins_long_packet(first, terms_.local_token)) {
        joiner.give_up();
        const auto prefix = wire::decode_long_packet_prefix(first);
        if (!prefix) return first.size();
        const std::size_t bytes = wire::LongPacketPrefix::bytes + prefix->length;
        if (bytes > datagrams.size()) {
            joiner.begin(*prefix, first);
            return first.size();
        }
        // All of it is here. If it is not what was sent, a datagram is missing in it, and those of
        // the next packet follow.
        const auto packet = datagrams.subspan(wire::LongPacketPrefix::bytes, prefix->length);
        if (!take_packet(index, packet, now)) {
            ++damaged_packets_;
            return first.size();
        }
        const std::size_t count = (bytes + datagram_bytes - 1) / datagram_bytes;
        return std::min(count * datagram_bytes, datagrams.size());
    }
    if (joiner.joining() && joiner.add(first) && joiner.complete() &&
        !take_packet(index, joiner.take(), now))
        ++damaged_packets_;
    return first.size();
}

bool Transport::receive_unmeasured(std::size_t index, std::span<const std::byte> datagrams,
                                   Nanoseconds now) {
    if (index >= links_.size() || datagrams.empty()) return true;
    // Whoever sends nothing but beginnings of packets does not keep us busy for long.
    constexpr std::uint32_t most_guesses = 16;
    std::uint32_t guesses = most_guesses;
    std::uint32_t packets = 0;
    for (; !datagrams.empty() && guesses != 0 && !closed_; ++packets)
        datagrams = datagrams.subspan(take_first_unmeasured(index, datagrams, guesses, now));
    return packets <= 1 && guesses == most_guesses;
}

/// The kernel joins datagrams of one length, and a shorter one ends them. So whatever follows a
/// packet lies right behind it, and the end of a long packet is known from its beginning.
inline std::size_t Transport::take_first_unmeasured(std::size_t index,
                                                    std::span<const std::byte> datagrams,
                                                    std::uint32_t& guesses, Nanoseconds now) {
    PacketJoiner& joiner = joiners_[index];
    if (wire::begins_long_packet(datagrams, terms_.local_token)) {
        joiner.give_up();
        if (const auto prefix = wire::decode_unmeasured_prefix(datagrams)) {
            const std::size_t bytes = wire::LongPacketPrefix::bytes + prefix->length;
            if (bytes > datagrams.size()) {
                joiner.begin_unmeasured(*prefix, datagrams);
                return datagrams.size();
            }
            const auto packet = datagrams.subspan(wire::LongPacketPrefix::bytes, prefix->length);
            if (take_packet(index, packet, now)) return bytes;
            ++damaged_packets_;
        }
    } else if (wire::begins_packet(datagrams, terms_.local_token)) {
        joiner.give_up();
        if (take_packet(index, datagrams, now)) return datagrams.size();
        // Not alone, then: it ends where another one begins, its checksum knows where, and now
        // their length is known.
        for (std::size_t end = wire::PacketHeader::bytes - 1; guesses != 0; --guesses) {
            end = next_beginning(datagrams, end);
            if (end == datagrams.size()) break;
            if (!take_packet(index, datagrams.first(end), now)) continue;
            --guesses;
            receive(index, datagrams.subspan(end), end, now);
            return datagrams.size();
        }
        ++damaged_packets_;
    } else if (joiner.joining()) {
        const auto part = datagrams.first(std::min(joiner.missing(), datagrams.size()));
        joiner.add_unmeasured(part);
        if (joiner.complete() && !take_packet(index, joiner.take(), now)) ++damaged_packets_;
        return part.size();
    }
    if (guesses != 0) --guesses;
    return next_beginning(datagrams, 0);
}

std::size_t Transport::next_beginning(std::span<const std::byte> datagrams,
                                      std::size_t from) const noexcept {
    for (std::size_t at = from + 1; at + sizeof terms_.local_token <= datagrams.size(); ++at) {
        const auto word = wire::load<std::uint32_t>(datagrams.data() + at);
        if (word == terms_.local_token || word == ~terms_.local_token) return at;
    }
    return datagrams.size();
}

bool Transport::take_packet(std::size_t index, std::span<const std::byte> packet, Nanoseconds now) {
    const wire::PacketHeader header = wire::decode_packet_header(packet.data());
    if (header.token != terms_.local_token || header.version != wire::packet_version ||
        header.link != index)
        return false;
    settle();
    Link& link = links_[index];
    const std::uint64_t number = wire::expand(header.number, link.largest_received());
    EarlyPlace early;
    std::span<const std::byte> body = packet.subspan(wire::PacketHeader::bytes);
    if (packet.size() >= least_early_bytes) early = find_early_place(header, packet);
    if (early.place != nullptr) {
        if (!guard_.open_to(header, packet, early.payload, early.place)) return false;
    } else {
        const auto opened = guard_.open(header, number, packet, opened_);
        if (!opened) return false;
        body = *opened;
    }
    link.heard(now);
    const bool in_order = link.expects(number);
    if (!in_order && link.has_received(number)) {
        ++link.counters().duplicate_packets;
        // The sender may not have heard that it came.
        if (owed_packets_ != 0) soon_ = true;
        return true;
    }
    const Contents contents = (header.flags & wire::packet_continues) != 0
                                  ? take_continuation(header, body)
                                  : take_frames(index, body, early, now);
    if (contents == Contents::Refused) return true;
    if (!link.received(number, static_cast<std::uint32_t>(packet.size()), now)) return true;
    if (contents != Contents::Data) return true;
    last_arrival_ = index;
    Owed& owed = owed_[index];
    if (owed_packets_ == 0) {
        owed_since_ = now;
        lone_ = now - last_data_ > lone_after;
    }
    last_data_ = now;
    ++owed.packets;
    ++owed_packets_;
    owed.bytes += static_cast<std::uint32_t>(packet.size());
    if (!in_order || owed.packets >= acknowledge_every_packets ||
        owed.bytes >= std::min(acknowledge_every_bytes, link.limits().window_bytes / 4))
        soon_ = true;
    return true;
}

/// Long data needs one pass instead of two if it is copied while it is checked. Nothing is known of
/// the packet yet but that it is for this connection.
Transport::EarlyPlace Transport::find_early_place(const wire::PacketHeader& header,
                                                  std::span<const std::byte> packet) {
    constexpr std::uint8_t others = wire::packet_sealed | wire::packet_continues;
    if (!copies_early_ || (header.flags & others) != 0) return {};
    wire::FrameReader reader(packet.subspan(wire::PacketHeader::bytes));
    if (reader.next() == wire::FrameType::Acknowledgement) {
        wire::AcknowledgementFrame skipped;
        if (!reader.take(skipped)) return {};
    }
    const auto type = reader.next();
    if (type != wire::FrameType::Send && type != wire::FrameType::RdmaWrite) return {};
    wire::DataFrame frame;
    std::span<const std::byte> payload;
    if (!reader.take(frame, payload) || payload.size() < least_early_bytes) return {};
    return {payload, client_.early_place(frame)};
}

/// The peer breaks the rules.
Transport::Contents Transport::violation(const char* what) {
    client_.violation(what);
    return Contents::Refused;
}

/// Refused: it will come again, in a packet with another number.
Transport::Contents Transport::take_continuation(const wire::PacketHeader& header,
                                                 std::span<const std::byte> body) {
    const auto piece = wire::decode_continuation(header, body);
    if (!piece) return violation("a piece without bytes");
    const bool taken = client_.take_continued(*piece, body.subspan(wire::Continuation::bytes));
    return taken ? Contents::Data : Contents::Refused;
}

inline Transport::Contents Transport::take_frames(std::size_t index,
                                                  std::span<const std::byte> body,
                                                  const EarlyPlace& early, Nanoseconds now) {
    wire::FrameReader reader(body);
    Contents contents = Contents::Words;
    while (const auto type = reader.next()) {
        switch (*type) {
            case wire::FrameType::Acknowledgement: {
                settle();
                if (!reader.take(heard_)) return violation("a malformed acknowledgement");
                heard_at_ = now;
                put_aside_ = true;
                if (!may_put_aside_ || reader.next() != wire::FrameType::Send) settle();
                break;
            }
            case wire::FrameType::Ping: {
                wire::PingFrame frame;
                if (!reader.take(frame)) return violation("a malformed ping");
                send_control(index, now, wire::FrameType::Pong, frame.stamp, 0);
                break;
            }
            case wire::FrameType::Pong: {
                wire::PingFrame frame;
                if (!reader.take(frame)) return violation("a malformed pong");
                take_pong(index, frame.stamp, now);
                break;
            }
            case wire::FrameType::Close: {
                wire::CloseFrame frame;
                if (!reader.take(frame)) return violation("a malformed goodbye");
                send_control(index, now, wire::FrameType::Closed, 0, 0);
                client_.peer_closes(frame);
                // Whoever has said goodbye does not listen any more.
                if (closing_) closed_ = true;
                break;
            }
            case wire::FrameType::Closed: {
                wire::CloseFrame frame;
                if (!reader.take(frame)) return violation("a malformed goodbye");
                if (closing_) closed_ = true;
                break;
            }
            case wire::FrameType::Send:
            case wire::FrameType::RdmaWrite:
            case wire::FrameType::ReadRequest:
            case wire::FrameType::ReadData: {
                wire::DataFrame frame;
                std::span<const std::byte> payload;
                if (!reader.take(frame, payload)) return violation("a malformed operation");
                if (early.place != nullptr && payload.data() == early.payload.data())
                    payload = {early.place, payload.size()};
                contents = Contents::Data;
                // It will come again, in a packet with another number.
                if (!client_.take(frame, payload)) return Contents::Refused;
                break;
            }
            default:
                return violation("a frame of a kind that there is not");
        }
    }
    return contents;
}

void Transport::received_all(Nanoseconds now) noexcept {
    if (owed_packets_ != 0 && (lone_ || now >= acknowledge_at())) soon_ = true;
}

Nanoseconds Transport::acknowledge_at() const noexcept {
    return owed_since_ + (client_.is_midway() ? acknowledge_midway_within : acknowledge_within);
}

bool Transport::awaits_answers() const noexcept {
    return std::any_of(links_.begin(), links_.end(),
                       [](const Link& link) { return link.in_flight() != 0; });
}

void Transport::take_acknowledgement(const wire::AcknowledgementFrame& frame, Nanoseconds now) {
    client_.peer_delivered(frame.delivered);
    if (frame.ranges == 0 || frame.link >= links_.size()) return;
    Link& link = links_[frame.link];
    if (link.next_number() == 0) return client_.violation("an acknowledgement of nothing");
    const std::uint64_t largest = wire::expand(frame.largest, link.next_number() - 1);
    if (largest >= link.next_number())
        return client_.violation("an acknowledgement of a packet that was not sent");
    link.peer_busy = (frame.state & wire::receiver_busy) != 0;
    const Nanoseconds delay = Nanoseconds{frame.delay_us} * 1000;
    const std::uint32_t in_flight = link.in_flight();
    std::uint64_t end = largest + 1;
    for (std::uint32_t i = 0; i < frame.ranges; ++i) {
        const auto& range = frame.range[i];
        if (range.length > end) return client_.violation("an acknowledgement below zero");
        link.acknowledged(end - range.length, end, now, delay);
        end -= range.length;
        if (range.gap > end) break;
        end -= range.gap;
    }
    if (link.in_flight() < in_flight) works(frame.link, now);
    link.detect_losses(now, [&](const Span& span) { client_.lost(span); });
}

}  // namespace via::links
