// SPDX-License-Identifier: BSD-3-Clause
// The sending half of a conversation.
#include <algorithm>
#include <cstring>

#include "mvich/conversation_hot_path.hpp"

namespace via::mvich {
namespace {

/// Injected messages that wait are copies in our memory: beyond so many the program must wait.
constexpr std::uint32_t most_injected_pending = 1024;

}  // namespace

void Conversation::open(Lane& lane, std::uint32_t window) {
    lane_ = &lane;
    window_ = window;
    abilities_ = lane.abilities();
    PacketHead hello;
    hello.kind = static_cast<std::uint8_t>(PacketKind::Noop);
    hello.flags = packet_hello;
    hello.credits = static_cast<std::uint16_t>(window);
    hello.word =
        Hello{abilities_.packet_bytes, abilities_.eager_bytes, around_.settings->credit_preserve}
            .word();
    const iovec piece{&hello, sizeof hello};
    // The first packet on a new connection always finds room.
    if (lane.send({&piece, 1}, sizeof hello) != Lane::Outcome::Done) go_lost();
}

/// A short message whose head does not go apart.
bool Conversation::send_plain(const SendOrder& order, std::uint64_t bytes) {
    const PlainEager packet{class_of(order.space),
                            (order.flags & order_has_data) != 0,
                            credits_.take_riding(),
                            order.tag,
                            order.data,
                            {static_cast<const std::byte*>(nullptr), bytes}};
    std::array<std::uint64_t, max_plain_eager_head_bytes / 8> head;
    const std::size_t head_bytes = encode_plain_eager(packet, head);
    std::array<iovec, 1 + most_pieces_at_once> pieces;
    pieces[0] = {head.data(), head_bytes};
    std::copy(order.pieces.begin(), order.pieces.end(), pieces.begin() + 1);
    const Lane::Outcome outcome = lane_->send({pieces.data(), 1 + order.pieces.size()},
                                              static_cast<std::uint32_t>(head_bytes + bytes));
    return went(outcome, packet.credits);
}

Posted Conversation::send_later(const SendOrder& order) {
    const std::uint64_t bytes = bytes_of(order.pieces);
    const bool inject = (order.flags & order_inject) != 0;
    if (lost_) return Posted::Again;
    if (inject && injected_pending_ >= most_injected_pending) return Posted::Again;
    SendRecord& record = sends_.make();
    record.message_class = class_of(order.space);
    record.what = Happened::Sent;
    record.flags = order.flags;
    record.word = order.tag;
    record.data = order.data;
    record.total = bytes;
    record.cookie = order.cookie;
    record.answered = (order.flags & order_delivered) != 0;
    record.pieces.assign(order.pieces);
    if (inject) {
        record.silent = !record.answered;
        record.copy.resize(bytes);
        record.pieces.gather(0, record.copy);
        const iovec piece{record.copy.data(), record.copy.size()};
        record.pieces.assign({&piece, 1});
        ++injected_pending_;
        if (record.silent) ++promised_;
    }
    append(record);
    return record.silent ? Posted::Done : Posted::UnderWay;
}

base::Result<void> Conversation::say(std::span<const std::byte> word) {
    if (lost_) return base::Result<void>(base::Code::ConnectionLost, "the connection is gone");
    SendRecord& record = sends_.make();
    // A word is an untagged message that is not matched: its kind says so when it is sent.
    record.message_class = MessageClass::Message;
    record.what = Happened::Sent;
    record.silent = true;
    record.operation = static_cast<std::uint8_t>(PacketKind::Word);
    record.copy.assign(word.begin(), word.end());
    record.total = word.size();
    const iovec piece{record.copy.data(), record.copy.size()};
    record.pieces.assign({&piece, 1});
    ++promised_;
    append(record);
    return {};
}

void Conversation::append(SendRecord& record) noexcept {
    record.next = nullptr;
    if (first_pending_ == nullptr)
        first_pending_ = &record;
    else
        last_pending_->next = &record;
    last_pending_ = &record;
}

void Conversation::remove_first_pending() noexcept {
    SendRecord* record = first_pending_;
    first_pending_ = record->next;
    if (first_pending_ == nullptr) last_pending_ = nullptr;
    record->next = nullptr;
    if ((record->flags & order_inject) != 0) --injected_pending_;
}

bool Conversation::cancel_send(const void* context) {
    SendRecord* previous = nullptr;
    for (SendRecord* record = first_pending_; record != nullptr; record = record->next) {
        if (record->silent || record->cookie.context != context) {
            previous = record;
            continue;
        }
        if (previous == nullptr) {
            remove_first_pending();
        } else {
            previous->next = record->next;
            if (last_pending_ == record) last_pending_ = previous;
            if ((record->flags & order_inject) != 0) --injected_pending_;
        }
        finish_send(*record, Status::Cancelled);
        return true;
    }
    return false;
}

/// What a packet says of a record's message.
void Conversation::describe(const SendRecord& record, Packet& packet) const noexcept {
    packet.head.flags = static_cast<std::uint8_t>(record.message_class);
    if ((record.flags & order_has_data) != 0) {
        packet.head.flags |= packet_has_data;
        packet.data = record.data;
    }
    packet.head.word = record.word;
    if (record.answered && record.message_class <= MessageClass::Tagged)
        packet.head.flags |= packet_wants_delivered;
    packet.id = record.id;
    packet.operation = record.operation;
    packet.datatype = record.datatype;
    packet.remote_pieces = record.remote_pieces;
    packet.remote = record.remote;
    packet.total = record.message_class == MessageClass::ReadRequest ? record.wanted : record.total;
}

/// With [offset, offset + bytes) of the pieces behind its head.
Lane::Outcome Conversation::send_packet(Packet& packet, std::span<const iovec> pieces,
                                        std::uint64_t offset, std::uint64_t bytes) {
    std::array<std::byte, max_packet_head_bytes> head;
    packet.head.bytes = static_cast<std::uint32_t>(bytes);
    packet.head.credits = credits_.take_riding();
    packet.payload = {static_cast<const std::byte*>(nullptr), static_cast<std::size_t>(bytes)};
    const std::size_t head_bytes = encode(packet, head);
    slice_.clear();
    slice_.push_back({head.data(), head_bytes});
    for (std::uint64_t left = bytes; const iovec& piece : pieces) {
        if (left == 0) break;
        if (offset >= piece.iov_len) {
            offset -= piece.iov_len;
            continue;
        }
        const std::uint64_t part = std::min<std::uint64_t>(piece.iov_len - offset, left);
        slice_.push_back({static_cast<std::byte*>(piece.iov_base) + offset, part});
        left -= part;
        offset = 0;
    }
    const Lane::Outcome outcome =
        lane_->send(slice_, static_cast<std::uint32_t>(head_bytes + bytes));
    if (went(outcome, packet.head.credits) && packet.kind() != PacketKind::Noop) credits_.sent();
    return outcome;
}

bool Conversation::flush() {
    if (!open_ || lost_) return false;
    bool moved = false;
    while (!gone_) {
        // Control first: it is what peers wait for. Then messages and streams take turns.
        bool step = send_control();
        step = transfer_next() || step;
        step = start_reply() || step;
        step = start_next() || step;
        step = stream_next() || step;
        if (!step) break;
        moved = true;
    }
    if (gone_) return moved;
    if (credits_.noop_due() || starving_due()) {
        if (credits_.peer_may_stop()) credits_.widen(lane_->widen(credits_.window()));
        moved = send_noop() || moved;
    }
    return moved;
}

bool Conversation::send_control() {
    bool moved = false;
    while (!control_.empty() && credits_.may_send_control()) {
        const ControlPacket& waiting = control_.front();
        Packet packet;
        packet.head.kind = static_cast<std::uint8_t>(waiting.kind);
        packet.head.word = waiting.word;
        packet.id = waiting.id;
        packet.address = waiting.address;
        packet.handle = waiting.handle;
        packet.protocol = waiting.protocol;
        packet.status = waiting.status;
        packet.total = waiting.total;
        if (send_packet(packet, {}, 0, 0) != Lane::Outcome::Done) return moved;
        control_.pop_front();
        moved = true;
    }
    return moved;
}

bool Conversation::start_next() {
    SendRecord* record = first_pending_;
    if (record == nullptr || !credits_.may_send_control()) return false;
    if ((record->flags & order_fence) != 0) {
        // It waits until everything before it is done: it is the only one under way then, but for
        // those behind it in the queue.
        std::size_t queued = 0;
        for (const SendRecord* each = record; each != nullptr; each = each->next)
            ++queued;
        if (sends_.used() - replies_under_way_ != queued) return false;
        record->flags &= ~order_fence;
    }
    if (record->message_class > MessageClass::Tagged ||
        record->operation == static_cast<std::uint8_t>(PacketKind::Word))
        return start_unmatched(*record);
    const ProtocolChoice choice = choose_protocol(
        around_.settings->protocol, abilities_,
        {record->total, record->pieces.pieces().size() == 1, peer_starves_on_us_,
         sends_.used() - replies_under_way_ > 1, (record->flags & order_matched) != 0});
    if (choice.protocol != Protocol::Eager) return start_request(*record, choice.protocol);
    if (!credits_.may_send_data()) {
        if (!std::exchange(stalled_, true)) around_.counters->credit_stalls.add();
        return false;
    }
    return start_eager(*record);
}

bool Conversation::start_reply() {
    return first_reply_ != nullptr && start_unmatched(*first_reply_);
}

/// Words and traffic on windows.
bool Conversation::start_unmatched(SendRecord& record) {
    if (!may_send_unmatched()) return false;
    const bool at_once = record.message_class != MessageClass::Write &&
                         record.message_class != MessageClass::ReadReply;
    const ProtocolChoice choice =
        choose_protocol(around_.settings->protocol, abilities_,
                        {record.total, record.pieces.pieces().size() == 1, false});
    if (at_once || choice.protocol == Protocol::Eager) return start_eager(record);
    return start_request(record, choice.protocol);
}

/// It is under way: the next of its queue is due.
void Conversation::started(SendRecord& record) noexcept {
    stalled_ = false;
    if (record.message_class != MessageClass::ReadReply) {
        remove_first_pending();
        return;
    }
    first_reply_ = record.next;
    if (first_reply_ == nullptr) last_reply_ = nullptr;
    record.next = nullptr;
}

bool Conversation::start_eager(SendRecord& record) {
    Packet packet;
    describe(record, packet);
    packet.head.kind = static_cast<std::uint8_t>(PacketKind::Eager);
    if (record.operation == static_cast<std::uint8_t>(PacketKind::Word) &&
        record.message_class == MessageClass::Message) {
        packet = {};
        packet.head.kind = static_cast<std::uint8_t>(PacketKind::Word);
    }
    if (send_packet(packet, record.pieces.pieces(), 0,
                    record.message_class == MessageClass::ReadRequest ? 0 : record.total) !=
        Lane::Outcome::Done)
        return false;
    around_.counters->count_sent(index_of(Protocol::Eager), record.total);
    started(record);
    record.state = SendState::Awaiting;
    if (!record.answered) finish_send(record, Status::Ok);
    return true;
}

bool Conversation::start_request(SendRecord& record, Protocol protocol) {
    if (protocol == Protocol::Rget) {
        const iovec piece = record.pieces.pieces()[0];
        if (record.registration == nullptr)
            record.registration = around_.registrations->acquire(piece.iov_base, piece.iov_len);
        if (record.registration == nullptr) {
            around_.counters->fallbacks.add();
            protocol = Protocol::R3;
        }
    }
    Packet packet;
    describe(record, packet);
    packet.head.kind = static_cast<std::uint8_t>(PacketKind::Request);
    packet.protocol = protocol;
    if (protocol == Protocol::Rget) {
        packet.address = reinterpret_cast<std::uint64_t>(record.pieces.pieces()[0].iov_base);
        packet.handle = RegistrationCache::handle_of(record.registration);
    }
    if (send_packet(packet, {}, 0, 0) != Lane::Outcome::Done) return false;
    started(record);
    record.protocol = protocol;
    record.state = protocol == Protocol::Rget ? SendState::Lent : SendState::Requested;
    return true;
}

/// The next bytes of a stream in a packet.
Lane::Outcome Conversation::send_stream_part(const SendRecord& record, std::uint64_t bytes) {
    const std::span<const iovec> pieces = record.pieces.pieces();
    if (!abilities_.in_place || pieces.size() != 1) {
        Packet packet;
        packet.head.kind = static_cast<std::uint8_t>(PacketKind::Data);
        packet.head.word = record.peer_id;
        packet.offset = record.sent;
        return send_packet(packet, pieces, record.sent, bytes);
    }
    const std::uint16_t credits = credits_.take_riding(most_noted_credits);
    na::HeadedMessage message;
    message.note = std::uint32_t{credits} << 24 | noted_stream;
    message.head[0] = record.peer_id;
    message.head[1] = record.sent;
    message.head_bytes = 16;
    message.payload = static_cast<const std::byte*>(pieces[0].iov_base) + record.sent;
    message.payload_bytes = static_cast<std::uint32_t>(bytes);
    const Lane::Outcome outcome = lane_->send_headed(message);
    if (went(outcome, credits)) credits_.sent();
    return outcome;
}

/// One packet of the stream whose turn it is.
bool Conversation::stream_next() {
    if (streams_.empty() || !may_send_unmatched()) return false;
    SendRecord& record = *streams_.front();
    const std::uint64_t bytes = std::min<std::uint64_t>(
        record.agreed - record.sent,
        abilities_.packet_bytes - sizeof(PacketHead) - sizeof(std::uint64_t));
    if (send_stream_part(record, bytes) != Lane::Outcome::Done) return false;
    record.sent += bytes;
    streams_.pop_front();
    if (record.sent < record.agreed) {
        streams_.push_back(&record);
        return true;
    }
    around_.counters->count_sent(index_of(Protocol::R3), record.total);
    record.state = SendState::Awaiting;
    if (!record.answered) finish_send(record, Status::Ok);
    return true;
}

/// Begins RDMA: our writes (RPUT) and our reads (RGET).
bool Conversation::transfer_next() {
    if (transfers_.empty()) return false;
    const OrderId id = transfers_.front();
    RdmaOrder order;
    order.token = id;
    Lane::Outcome outcome;
    if ((id & receive_id_bit) != 0) {
        ReceiveRecord* record = receives_.find(id);
        const iovec piece = record->pieces.pieces()[0];
        order.local = static_cast<std::byte*>(piece.iov_base) + record->base + record->received;
        order.local_handle = RegistrationCache::handle_of(record->registration);
        order.remote = record->remote_address + record->received;
        order.remote_handle = record->remote_handle;
        order.bytes = std::min(record->agreed - record->received, abilities_.rdma_bytes);
        outcome = lane_->read(order);
    } else {
        SendRecord* record = sends_.find(id);
        const iovec piece = record->pieces.pieces()[0];
        order.local = static_cast<std::byte*>(piece.iov_base) + record->sent;
        order.local_handle = RegistrationCache::handle_of(record->registration);
        order.remote = record->remote_address + record->sent;
        order.remote_handle = record->remote_handle;
        order.bytes = std::min(record->agreed - record->sent, abilities_.rdma_bytes);
        outcome = lane_->write(order);
    }
    if (outcome == Lane::Outcome::Gone) go_lost();
    if (outcome != Lane::Outcome::Done) return false;
    transfers_.pop_front();
    return true;
}

bool Conversation::send_noop() {
    PacketHead noop;
    noop.kind = static_cast<std::uint8_t>(PacketKind::Noop);
    noop.credits = credits_.take_owed();
    const bool starving = credits_.peer_starves();
    if (starving) noop.flags = packet_starving;
    const iovec piece{&noop, sizeof noop};
    if (!went(lane_->send({&piece, 1}, sizeof noop), noop.credits)) return false;
    around_.counters->noops_sent.add();
    if (starving && !starving_said_) around_.counters->starvations.add();
    starving_said_ = starving;
    return true;
}

void Conversation::release(RegistrationCache::Entry*& entry) noexcept {
    if (entry != nullptr) around_.registrations->release(entry);
    entry = nullptr;
}

void Conversation::finish_send(SendRecord& record, Status status) {
    release(record.registration);
    const bool silent = record.silent;
    Completion completion;
    completion.what = record.what;
    completion.status = status;
    completion.cookie = record.cookie;
    completion.source = peer;
    completion.length = record.total + record.wanted;
    if (record.state == SendState::Streaming) std::erase(streams_, &record);
    if (record.message_class == MessageClass::ReadReply) {
        --replies_under_way_;
        reply_bytes_ -= record.copy.size();
    } else if (silent) {
        --promised_;
    }
    sends_.give_back(record);
    if (!silent) around_.listener->done(completion);
}

void Conversation::lost(Status status) {
    if (std::exchange(lost_, true)) return;
    control_.clear();
    transfers_.clear();
    streams_.clear();
    first_reply_ = last_reply_ = nullptr;
    first_pending_ = last_pending_ = nullptr;
    injected_pending_ = 0;
    sends_.visit_all([&](SendRecord& record) { finish_send(record, status); });
    receives_.visit_all([&](ReceiveRecord& record) { finish_receive(record, status); });
    // Announced messages can not be fetched any more; what is here already can still be received.
    around_.receives->visit_unexpected_of(*this, [&](UnexpectedMessage& message) {
        if (message.protocol != Protocol::Eager) around_.receives->remove(message);
    });
}

}  // namespace via::mvich
