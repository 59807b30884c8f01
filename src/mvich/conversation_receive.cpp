// SPDX-License-Identifier: BSD-3-Clause
// The receiving half of a conversation. A packet may say anything: what it names is looked up, and
// lengths are bounded by what was posted here.
#include <algorithm>
#include <cstring>

#include "base/cpu.hpp"
#include "mvich/conversation_hot_path.hpp"

namespace via::mvich {
namespace {

constexpr std::uint32_t most_head_bytes = max_packet_head_bytes;

}  // namespace

/// What is neither a short message that has its receive, nor wrong at first sight.
Conversation::Arrival Conversation::other_bytes(std::span<const std::byte> bytes, Vbuf* vbuf) {
    if (lost_) return Arrival::Taken;
    const auto decoded = decode(bytes);
    if (!decoded) return Arrival::Broken;
    return decoded->kind() == PacketKind::Noop ? noop(decoded->head) : other_packet(*decoded, vbuf);
}

/// R3 data, or wrong.
Conversation::Arrival Conversation::other_headed(std::uint32_t note, const std::uint64_t* head,
                                                 std::uint32_t head_bytes,
                                                 std::span<const std::byte> payload) {
    if (lost_) return Arrival::Taken;
    if (head_bytes != 16 || (note & ~(std::uint32_t{most_noted_credits} << 24)) != noted_stream)
        return Arrival::Broken;
    Packet packet;
    packet.head.kind = static_cast<std::uint8_t>(PacketKind::Data);
    packet.head.credits = static_cast<std::uint16_t>(noted_credits(note));
    packet.head.word = head[0];
    packet.offset = head[1];
    packet.payload = payload;
    return other_packet(packet, nullptr);
}

Conversation::Arrival Conversation::noop(const PacketHead& head) {
    if ((head.flags & packet_hello) != 0) {
        const Hello hello = Hello::of(head.word);
        if (open_ || hello.packet_bytes < 2 * max_packet_head_bytes) return Arrival::Broken;
        open_ = true;
        credits_ = CreditAccount(head.credits, window_, around_.settings->credit_preserve,
                                 hello.preserve, around_.settings->piggyback);
        abilities_.packet_bytes = std::min(abilities_.packet_bytes, hello.packet_bytes);
        abilities_.eager_bytes = std::min(
            {abilities_.eager_bytes, hello.eager_bytes, abilities_.packet_bytes - most_head_bytes});
        eager_limit_ = eager_limit(around_.settings->protocol, abilities_);
        return Arrival::Taken;
    }
    credits_.granted(head.credits);
    if ((head.flags & packet_starving) != 0)
        peer_starves_on_us_ = true;
    else if (credits_.may_send_data())
        peer_starves_on_us_ = false;
    around_.counters->noops_received.add();
    return Arrival::Taken;
}

/// A message that nobody has asked for yet.
Conversation::Arrival Conversation::keep_message(const PlainEager& packet, OrderId delivered,
                                                 Vbuf* vbuf) {
    const std::size_t bytes = packet.payload.size();
    Vbuf* kept = vbuf;
    if (bytes != 0 && vbuf == nullptr) {
        kept = around_.vbufs->take_to_keep();
        if (kept == nullptr) return Arrival::NotNow;
        kept->owner = nullptr;  // nobody posted it
    }
    heard_credits(packet.credits);
    credits_.arrived();
    around_.counters->received.add();
    around_.counters->unexpected.add();
    UnexpectedMessage message;
    message.source = this;
    message.space = space_of(packet);
    message.tag = packet.tag;
    message.data = packet.data;
    message.has_data = packet.has_data;
    message.total = bytes;
    message.id = delivered;
    // It is here, and that is all that the sender wants to know.
    if (delivered != 0) answer(delivered, Status::Ok);
    if (bytes == 0) {
        if (listed_ >= most_owed) return Arrival::Broken;
        around_.receives->add(message);
        ++listed_;
        credits_.released();
        return Arrival::Taken;
    }
    message.vbuf = kept;
    if (vbuf == nullptr) {
        std::memcpy(kept->packet, packet.payload.data(), bytes);
        message.payload = {kept->packet, bytes};
        around_.receives->add(message);
        return Arrival::Taken;
    }
    message.payload = packet.payload;
    around_.receives->add(message);
    return Arrival::Kept;
}

Conversation::Arrival Conversation::other_packet(const Packet& packet, Vbuf* vbuf) {
    if (!open_ || owes_too_much()) return Arrival::Broken;
    if (packet.kind() == PacketKind::Eager && packet.message_class() <= MessageClass::Tagged)
        return eager_message({packet.message_class(), (packet.head.flags & packet_has_data) != 0,
                              packet.head.credits, packet.head.word, packet.data, packet.payload},
                             packet.id, vbuf);
    heard_credits(packet.head.credits);
    if (credits_.peer_has() == 0) return Arrival::Broken;
    credits_.arrived();
    credits_.released();  // nothing of what follows stays in its vbuf
    bool good = true;
    switch (packet.kind()) {
        case PacketKind::Eager:
            switch (packet.message_class()) {
                case MessageClass::Write:
                    take_write(packet);
                    break;
                case MessageClass::ReadRequest:
                    take_read(packet);
                    break;
                case MessageClass::ReadReply:
                    good = take_reply(packet);
                    break;
                default:
                    take_atomic(packet);
                    break;
            }
            break;
        case PacketKind::Request:
            good = take_request(packet);
            break;
        case PacketKind::OkToSend:
            good = take_ok_to_send(packet);
            break;
        case PacketKind::Data:
            good = take_data(packet);
            break;
        case PacketKind::Finish:
            good = take_finish(packet);
            break;
        case PacketKind::Delivered:
            good = take_delivered(packet);
            break;
        case PacketKind::Word:
            if (around_.words != nullptr) around_.words->word(name_, packet.payload);
            break;
        case PacketKind::Noop:
            return Arrival::Broken;
    }
    return good ? Arrival::Taken : Arrival::Broken;
}

bool Conversation::take_request(const Packet& packet) {
    const MessageClass message_class = packet.message_class();
    if (message_class == MessageClass::Write) {
        take_write(packet);
        return true;
    }
    if (message_class == MessageClass::ReadReply) return take_reply(packet);
    if (message_class > MessageClass::Tagged) return false;
    around_.counters->received.add();
    const bool has_data = (packet.head.flags & packet_has_data) != 0;
    const bool wants_delivered = (packet.head.flags & packet_wants_delivered) != 0;
    const Space space = message_class == MessageClass::Tagged ? Space::Tagged : Space::Message;
    const Announcement announcement{message_class,    packet.protocol, has_data,  wants_delivered,
                                    packet.head.word, packet.data,     packet.id, packet.total,
                                    packet.address,   packet.handle};
    if (PostedReceive* receive = around_.receives->match(space, packet.head.word, peer)) {
        ReceiveRecord& record = receives_.make();
        record.receive = receive;
        begin_receive(announcement, record);
        return true;
    }
    around_.counters->unexpected.add();
    UnexpectedMessage message;
    message.source = this;
    message.space = space;
    message.tag = packet.head.word;
    message.data = packet.data;
    message.has_data = has_data;
    message.wants_delivered = wants_delivered;
    message.id = packet.id;
    message.total = packet.total;
    message.protocol = packet.protocol;
    message.address = packet.address;
    message.handle = packet.handle;
    around_.receives->add(message);
    ++listed_;
    return true;
}

void Conversation::receive(const UnexpectedMessage& message, PostedReceive& receive) {
    const Announcement announcement{
        message.space == Space::Tagged ? MessageClass::Tagged : MessageClass::Message,
        message.protocol,
        message.has_data,
        message.wants_delivered,
        message.tag,
        message.data,
        message.id,
        message.total,
        message.address,
        message.handle};
    if (message.protocol != Protocol::Eager) {
        --listed_;
        ReceiveRecord& record = receives_.make();
        record.receive = &receive;
        begin_receive(announcement, record);
        return;
    }
    deliver(receive, announcement, message.payload);
    discard(message);
}

void Conversation::discard(const UnexpectedMessage& message) {
    if (message.vbuf == nullptr) --listed_;
    if (message.protocol != Protocol::Eager) {
        if (lost_) return;
        control_.push_back({PacketKind::Finish, message.id});
        if (message.wants_delivered) answer(message.id, Status::Ok);
        return;
    }
    if (message.vbuf == nullptr) return;
    if (message.vbuf->owner == nullptr)
        around_.vbufs->give(message.vbuf);
    else
        lane_->recycle(message.vbuf);
    if (!lost_) credits_.released();
}

/// `record` has its receive, or its pieces and capacity.
void Conversation::begin_receive(const Announcement& message, ReceiveRecord& record) {
    record.total = message.total;
    record.peer_id = message.id;
    record.message_class = message.message_class;
    record.protocol = message.protocol;
    record.has_data = message.has_data;
    record.wants_delivered = message.wants_delivered;
    record.data = message.data;
    record.word = message.word;
    record.remote_address = message.address;
    record.remote_handle = message.handle;
    if (record.receive != nullptr) {
        record.base = around_.receives->use_of(*record.receive, message.total);
        record.pieces.assign(record.receive->pieces.pieces());
        record.capacity = record.pieces.bytes() - record.base;
    }
    if (lost_) {
        finish_receive(record, Status::PeerLost);
        return;
    }
    grant(record);
}

/// How much of a message the sender is to write. Inside a host two cores copy faster than one: of
/// a message that it offers for reading it writes one half while we read the other. Halves, and not
/// every other message: programs receive many messages into the same memory, over which the cores
/// would quarrel.
std::uint64_t Conversation::part_of_sender(const ReceiveRecord& record) const noexcept {
    if (record.protocol == Protocol::Rput) return record.agreed;
    if (!abilities_.one_copy || around_.settings->protocol.forced) return 0;
    return record.agreed / 2 / base::cache_line * base::cache_line;
}

/// Asks for the data, by the way that the sender proposes or, if that can not be, by R3.
void Conversation::grant(ReceiveRecord& record) {
    const std::uint64_t bytes = record.agreed = std::min(record.total, record.capacity);
    if (bytes == 0) {
        // Nothing needs to move.
        control_.push_back({PacketKind::Finish, record.peer_id});
        finish_receive(record, Status::Ok);
        return;
    }
    const bool can_rdma =
        record.pieces.pieces().size() == 1 &&
        (!abilities_.in_place || abilities_.one_copy || around_.settings->protocol.forced);
    if (record.protocol != Protocol::R3 && can_rdma) {
        std::byte* to = static_cast<std::byte*>(record.pieces.pieces()[0].iov_base) + record.base;
        record.registration = around_.registrations->acquire(to, bytes);
        if (record.registration != nullptr) {
            const std::uint64_t written = part_of_sender(record);
            record.sender_writes = written != 0;
            if (record.sender_writes)
                control_.push_back({PacketKind::OkToSend, record.peer_id, record.id,
                                    reinterpret_cast<std::uint64_t>(to),
                                    RegistrationCache::handle_of(record.registration),
                                    record.protocol, Status::Ok, written});
            if (record.protocol == Protocol::Rget) {
                record.received = written;
                transfers_.push_back(record.id);
            }
            return;
        }
    }
    if (record.protocol != Protocol::R3) around_.counters->fallbacks.add();
    record.protocol = Protocol::R3;
    control_.push_back(
        {PacketKind::OkToSend, record.peer_id, record.id, 0, 0, Protocol::R3, Status::Ok, bytes});
}

bool Conversation::take_ok_to_send(const Packet& packet) {
    SendRecord* record = sends_.find(packet.head.word);
    if (record == nullptr ||
        (record->state != SendState::Requested && record->state != SendState::Lent))
        return false;
    if (packet.total > record->total || packet.total == 0) return false;
    record->peer_id = packet.id;
    record->agreed = packet.total;
    if (packet.protocol == Protocol::R3) {
        release(record->registration);
        if (record->protocol != Protocol::R3) around_.counters->fallbacks.add();
        record->protocol = Protocol::R3;
        record->state = SendState::Streaming;
        streams_.push_back(record);
        return true;
    }
    if (packet.protocol != record->protocol) return false;
    const iovec piece = record->pieces.pieces()[0];
    if (record->registration == nullptr)
        record->registration = around_.registrations->acquire(piece.iov_base, piece.iov_len);
    if (record->registration == nullptr) {
        // The receiver has lent its memory; data packets are as good.
        around_.counters->fallbacks.add();
        record->protocol = Protocol::R3;
        record->state = SendState::Streaming;
        streams_.push_back(record);
        return true;
    }
    record->remote_address = packet.address;
    record->remote_handle = packet.handle;
    record->state = packet.protocol == Protocol::Rget ? SendState::Shared : SendState::Writing;
    transfers_.push_back(record->id);
    return true;
}

bool Conversation::take_data(const Packet& packet) {
    ReceiveRecord* record = receives_.find(packet.head.word);
    if (record == nullptr || record->protocol == Protocol::Rget ||
        packet.offset != record->received ||
        packet.payload.size() > record->agreed - record->received || packet.payload.empty())
        return false;
    record->pieces.scatter(record->base + packet.offset, packet.payload);
    around_.counters->copies.add();
    around_.counters->copied_bytes.add(packet.payload.size());
    record->received += packet.payload.size();
    if (record->received == record->agreed) finish_receive(*record, Status::Ok);
    return true;
}

bool Conversation::take_finish(const Packet& packet) {
    if ((packet.head.word & receive_id_bit) != 0) {
        ReceiveRecord* record = receives_.find(packet.head.word);
        if (record == nullptr || !record->sender_writes) return false;
        record->sender_writes = false;
        if (record->protocol == Protocol::Rput || record->received == record->agreed)
            finish_receive(*record, Status::Ok);
        return true;
    }
    SendRecord* record = sends_.find(packet.head.word);
    if (record != nullptr && record->state == SendState::Shared && !record->peer_has_read) {
        record->peer_has_read = true;
        if (record->sent == record->agreed) written(*record);
        return true;
    }
    if (record == nullptr ||
        (record->state != SendState::Lent && record->state != SendState::Requested))
        return false;
    release(record->registration);
    around_.counters->count_sent(index_of(record->protocol), record->total);
    record->state = SendState::Awaiting;
    if (!record->answered) finish_send(*record, Status::Ok);
    return true;
}

bool Conversation::take_delivered(const Packet& packet) {
    SendRecord* record = sends_.find(packet.head.word);
    // A peer that refuses a write may do so before it has seen the data.
    if (record == nullptr || !record->answered || record->state == SendState::Pending) return false;
    if (record->state == SendState::Writing || record->state == SendState::Shared ||
        record->state == SendState::Answered)
        return false;
    // What was asked for comes in an answer of its own, or not at all.
    if (record->wanted != 0 && packet.status == Status::Ok) return false;
    finish_send(*record, packet.status);
    return true;
}

void Conversation::rdma_done(OrderId token, bool good) {
    if (!good) {
        go_lost();
        return;
    }
    if ((token & receive_id_bit) != 0) {
        ReceiveRecord* record = receives_.find(token);
        if (record == nullptr) return;  // lost meanwhile
        record->received += std::min(record->agreed - record->received, abilities_.rdma_bytes);
        if (record->received < record->agreed) {
            transfers_.push_back(token);
            return;
        }
        control_.push_back({PacketKind::Finish, record->peer_id});
        if (!record->sender_writes) finish_receive(*record, Status::Ok);
        return;
    }
    SendRecord* record = sends_.find(token);
    if (record == nullptr) return;
    record->sent += std::min(record->agreed - record->sent, abilities_.rdma_bytes);
    if (record->sent < record->agreed) {
        transfers_.push_back(token);
        return;
    }
    control_.push_back({PacketKind::Finish, record->peer_id});
    if (record->state == SendState::Writing || record->peer_has_read) written(*record);
}

/// All of a message is in the receiver's memory.
void Conversation::written(SendRecord& record) {
    around_.counters->count_sent(index_of(record.protocol), record.total);
    record.state = SendState::Awaiting;
    if (!record.answered) finish_send(record, Status::Ok);
}

void Conversation::finish_receive(ReceiveRecord& record, Status status) {
    release(record.registration);
    Completion completion;
    completion.status = status;
    completion.source = peer;
    completion.length = status == Status::Ok ? std::min(record.total, record.capacity) : 0;
    completion.overflow = record.total > record.capacity ? record.total - record.capacity : 0;
    completion.tag = record.word;
    completion.data = record.data;
    completion.has_data = record.has_data;
    if (status == Status::Ok && record.wants_delivered) answer(record.peer_id, Status::Ok);
    PostedReceive* receive = record.receive;
    const OrderId read = record.read;
    const std::uint64_t base = record.base;
    const bool write = record.message_class == MessageClass::Write;
    completion.key = record.key;
    receives_.give_back(record);
    if (receive != nullptr) {
        completion.what = Happened::Received;
        completion.space = receive->space;
        if (status == Status::Ok && completion.overflow != 0) completion.status = Status::Truncated;
        complete_posted(*receive, completion, base);
    } else if (read != 0) {
        if (SendRecord* own = sends_.find(read)) finish_send(*own, status);
    } else if (write && status == Status::Ok) {
        completion.what = Happened::RemoteWrite;
        around_.listener->done(completion);
    }
}

}  // namespace via::mvich
