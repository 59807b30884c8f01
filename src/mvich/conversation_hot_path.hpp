// SPDX-License-Identifier: BSD-3-Clause
// What every short message goes through, to be inlined where it is called: Endpoint::send on its
// way out, ViLane::frame on its way in.
#pragma once

#include <algorithm>

#include "mvich/conversation.hpp"

namespace via::mvich {

[[nodiscard]] inline std::uint64_t bytes_of(std::span<const iovec> pieces) noexcept {
    std::uint64_t bytes = 0;
    for (const iovec& piece : pieces)
        bytes += piece.iov_len;
    return bytes;
}

inline MessageClass Conversation::class_of(Space space) noexcept {
    return space == Space::Tagged ? MessageClass::Tagged : MessageClass::Message;
}

inline bool Conversation::send_at_once(const SendOrder& order) {
    const std::uint64_t bytes =
        order.pieces.size() == 1 ? order.pieces[0].iov_len : bytes_of(order.pieces);
    if (!lost_) na::ask_for(abilities_.next_frame, bytes);
    // Before the peer's Hello there are no credits.
    if (bytes > eager_limit_ || first_pending_ != nullptr || !control_.empty() ||
        !credits_.may_send_data() ||
        (order.flags & (order_delivered | order_fence | order_matched)) != 0 || lost_ ||
        order.pieces.size() > most_pieces_at_once) [[unlikely]]
        return false;
    if (abilities_.in_place && order.pieces.size() == 1) [[likely]] {
        const std::uint16_t credits = credits_.take_riding(most_noted_credits);
        na::HeadedMessage message;
        encode_headed({.message_class = class_of(order.space),
                       .has_data = (order.flags & order_has_data) != 0,
                       .credits = credits,
                       .tag = order.tag,
                       .data = order.data,
                       .payload = {}},
                      message);
        message.payload = order.pieces[0].iov_base;
        message.payload_bytes = static_cast<std::uint32_t>(bytes);
        if (!went(lane_->send_headed(message), credits)) [[unlikely]]
            return false;
    } else if (!send_plain(order, bytes)) {
        return false;
    }
    credits_.sent();
    around_.counters->count_sent(index_of(Protocol::Eager), bytes);
    return true;
}

/// Tells of a message in a receive, and gives the receive up if it was its last.
inline void Conversation::complete_posted(PostedReceive& receive, Completion& completion,
                                          std::uint64_t offset) {
    completion.cookie = receive.cookie;
    Listener* listener = receive.listener;
    bool over = true;
    if (receive.is_multi()) [[unlikely]] {
        completion.buffer = static_cast<std::byte*>(receive.pieces.pieces()[0].iov_base) + offset;
        --receive.messages;
        over = receive.spent && receive.messages == 0;
        completion.last_of_buffer = over;
    } else if (!receive.pieces.pieces().empty()) {
        completion.buffer = receive.pieces.pieces()[0].iov_base;
    }
    if (over) around_.receives->destroy(&receive);
    listener->done(completion);
}

/// A whole message into its receive.
inline void Conversation::deliver(PostedReceive& receive, const Announcement& message,
                                  std::span<const std::byte> payload) {
    const std::uint64_t offset = around_.receives->use_of(receive, payload.size());
    const std::size_t copied = receive.pieces.scatter(offset, payload);
    if (copied != 0) {
        auto& counters = *around_.counters;
        counters.copies.add();
        counters.copied_bytes.add(copied);
    }
    const std::uint64_t overflow = payload.size() - copied;
    Completion completion{.what = Happened::Received,
                          .status = overflow == 0 ? Status::Ok : Status::Truncated,
                          .has_data = message.has_data,
                          .space = receive.space,
                          .source = peer,
                          .length = copied,
                          .overflow = overflow,
                          .data = message.data,
                          .tag = message.word,
                          .cookie = {}};
    if (message.wants_delivered) [[unlikely]]
        answer(message.id, Status::Ok);
    complete_posted(receive, completion, offset);
}

inline Space Conversation::space_of(const PlainEager& packet) noexcept {
    return packet.message_class == MessageClass::Tagged ? Space::Tagged : Space::Message;
}

inline void Conversation::heard_credits(std::uint32_t credits) noexcept {
    credits_.granted(credits);
    if (peer_starves_on_us_ && credits_.may_send_data()) [[unlikely]]
        peer_starves_on_us_ = false;
}

inline Conversation::Arrival Conversation::eager_message(const PlainEager& packet,
                                                         OrderId delivered, Vbuf* vbuf) {
    const std::size_t bytes = packet.payload.size();
    // A peer that sends more than it may gets none of our receives. Before its Hello it may
    // nothing.
    if (bytes > around_.settings->vbuf_bytes || credits_.peer_has() == 0) [[unlikely]]
        return Arrival::Broken;
    PostedReceive* receive = around_.receives->match(space_of(packet), packet.tag, peer);
    if (receive == nullptr) [[unlikely]]
        return keep_message(PlainEager(packet), delivered,
                            vbuf);  // so that this one needs no memory
    heard_credits(packet.credits);
    credits_.passed();
    around_.counters->received.add();
    deliver(*receive,
            {packet.message_class, Protocol::Eager, packet.has_data, delivered != 0, packet.tag,
             packet.data, delivered, bytes, 0, 0},
            packet.payload);
    return delivered == 0 ? Arrival::Passed : Arrival::Taken;
}

inline Conversation::Arrival Conversation::headed_packet(std::uint32_t note,
                                                         const std::uint64_t* head,
                                                         std::uint32_t head_bytes,
                                                         std::span<const std::byte> payload) {
    if (starving_said_ && !credits_.peer_starves()) [[unlikely]]
        starving_said_ = false;
    PlainEager eager;
    if (lost_ || !decode_headed(note, head, head_bytes, eager)) [[unlikely]]
        return other_headed(note, head, head_bytes, payload);
    eager.payload = payload;
    return eager_message(eager, 0, nullptr);
}

inline Conversation::Arrival Conversation::packet(std::span<const std::byte> bytes, Vbuf* vbuf) {
    if (starving_said_ && !credits_.peer_starves()) [[unlikely]]
        starving_said_ = false;
    PlainEager eager;
    if (!lost_ && decode_plain_eager(bytes, eager)) [[likely]]
        return eager_message(eager, 0, vbuf);
    return other_bytes(bytes, vbuf);
}

}  // namespace via::mvich
