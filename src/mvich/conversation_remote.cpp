// SPDX-License-Identifier: BSD-3-Clause
// Writes, reads and atomics on windows: messages that find their memory by key.
#include <algorithm>
#include <cstring>

#include "mvich/atomic_operation.hpp"
#include "mvich/conversation.hpp"

namespace via::mvich {
namespace {

/// Operands of an atomic are copied into the packet.
void copy_out(std::span<const iovec> pieces, std::vector<std::byte>& to) {
    for (const iovec& piece : pieces) {
        const auto* from = static_cast<const std::byte*>(piece.iov_base);
        to.insert(to.end(), from, from + piece.iov_len);
    }
}

}  // namespace

Posted Conversation::remote(const RemoteOrder& order) {
    if (lost_) return Posted::Again;
    if (order.remote.size() > max_remote_pieces || order.remote.empty()) return Posted::Invalid;
    const bool inject = (order.flags & order_inject) != 0;
    if (inject && injected_pending_ >= 1024) return Posted::Again;
    SendRecord& record = sends_.make();
    record.flags = order.flags;
    record.data = order.data;
    record.word = 0;
    record.cookie = order.cookie;
    record.answered = true;
    // One that is waited for is told, though its buffers are free at once.
    record.silent = inject && (order.flags & order_delivered) == 0;
    record.operation = order.operation;
    record.datatype = order.datatype;
    record.remote_pieces = static_cast<std::uint8_t>(order.remote.size());
    std::copy(order.remote.begin(), order.remote.end(), record.remote.begin());
    record.pieces.assign(order.pieces);
    switch (order.what) {
        case Remote::Write:
            record.message_class = MessageClass::Write;
            record.what = Happened::Wrote;
            record.total = record.pieces.bytes();
            break;
        case Remote::Read:
            record.message_class = MessageClass::ReadRequest;
            record.what = Happened::Read;
            record.total = 0;
            record.wanted = record.pieces.bytes();
            record.results.assign(order.pieces);
            break;
        case Remote::Atomic:
        case Remote::FetchAtomic:
        case Remote::CompareAtomic:
            record.message_class = order.what == Remote::Atomic        ? MessageClass::Atomic
                                   : order.what == Remote::FetchAtomic ? MessageClass::FetchAtomic
                                                                       : MessageClass::CompareAtomic;
            record.what = Happened::AtomicDone;
            copy_out(order.pieces, record.copy);
            copy_out(order.compares, record.copy);
            record.results.assign(order.results);
            record.wanted = record.results.bytes();
            record.total = record.copy.size();
            break;
    }
    if (inject && order.what == Remote::Write) copy_out(order.pieces, record.copy);
    if (!record.copy.empty()) {
        const iovec piece{record.copy.data(), record.copy.size()};
        record.pieces.assign({&piece, 1});
    }
    if (inject) ++injected_pending_;
    if (record.silent) ++promised_;
    append(record);
    return record.silent ? Posted::Done : Posted::UnderWay;
}

void Conversation::answer(OrderId id, Status status) {
    control_.push_back({PacketKind::Delivered, id, 0, 0, 0, Protocol::Eager, status});
}

/// For what a read or a fetching atomic of the peer is answered with.
Conversation::SendRecord& Conversation::make_reply(OrderId to) {
    SendRecord& record = sends_.make();
    record.message_class = MessageClass::ReadReply;
    record.what = Happened::Sent;
    record.silent = true;
    record.word = to;
    record.next = nullptr;
    (last_reply_ != nullptr ? last_reply_->next : first_reply_) = &record;
    last_reply_ = &record;
    ++replies_under_way_;
    return record;
}

/// The memory that a packet's remote pieces mean, if the peer may have it and it is `bytes` long.
bool Conversation::window_memory(const Packet& packet, std::uint64_t bytes, std::uint32_t right,
                                 PieceList& pieces) {
    std::vector<iovec> memory;
    std::uint64_t named = 0;
    for (std::size_t i = 0; i < packet.remote_pieces; ++i) {
        const RemotePiece& piece = packet.remote[i];
        if (piece.bytes > bytes - named) return false;
        named += piece.bytes;
        if (!around_.windows->find(piece, right, memory)) return false;
    }
    if (named != bytes) return false;
    pieces.assign(memory);
    return pieces.bytes() == bytes;
}

void Conversation::tell_of_remote(Happened what, const Packet& packet, std::uint64_t bytes) {
    around_.counters->remote_operations.add();
    Completion completion;
    completion.what = what;
    completion.source = peer;
    completion.length = bytes;
    completion.has_data = (packet.head.flags & packet_has_data) != 0;
    completion.data = packet.data;
    completion.key = packet.remote_pieces != 0 ? packet.remote[0].key : 0;
    around_.listener->done(completion);
}

void Conversation::take_write(const Packet& packet) {
    const bool whole = packet.kind() == PacketKind::Eager;
    const std::uint64_t bytes = whole ? packet.payload.size() : packet.total;
    PieceList pieces;
    if (!window_memory(packet, bytes, window_write, pieces)) {
        answer(packet.id, Status::Refused);
        return;
    }
    if (whole) {
        pieces.scatter(0, packet.payload);
        answer(packet.id, Status::Ok);
        tell_of_remote(Happened::RemoteWrite, packet, bytes);
        return;
    }
    around_.counters->remote_operations.add();
    ReceiveRecord& record = receives_.make();
    record.pieces = pieces;
    record.capacity = bytes;
    record.key = packet.remote[0].key;
    begin_receive({MessageClass::Write, packet.protocol,
                   (packet.head.flags & packet_has_data) != 0, true, 0, packet.data, packet.id,
                   packet.total, packet.address, packet.handle},
                  record);
}

void Conversation::take_read(const Packet& packet) {
    PieceList pieces;
    if (!window_memory(packet, packet.total, window_read, pieces)) {
        answer(packet.id, Status::Refused);
        return;
    }
    SendRecord& record = make_reply(packet.id);
    record.total = packet.total;
    record.pieces = pieces;
    // A later write must not change what a small read returns: it is read now.
    if (packet.total <= eager_limit_ && packet.total != 0) {
        record.copy.resize(packet.total);
        reply_bytes_ += packet.total;
        pieces.gather(0, record.copy);
        const iovec piece{record.copy.data(), record.copy.size()};
        record.pieces.assign({&piece, 1});
    }
    tell_of_remote(Happened::RemoteRead, packet, packet.total);
}

void Conversation::take_atomic(const Packet& packet) {
    const auto operation = static_cast<AtomicOperation>(packet.operation);
    const auto type = static_cast<AtomicType>(packet.datatype);
    const MessageClass message_class = packet.message_class();
    const AtomicUse use = message_class == MessageClass::Atomic        ? AtomicUse::Plain
                          : message_class == MessageClass::FetchAtomic ? AtomicUse::Fetch
                                                                       : AtomicUse::Compare;
    if (packet.operation >= atomic_operations || packet.datatype >= atomic_types ||
        !supports(use, operation, type)) {
        answer(packet.id, Status::Unsupported);
        return;
    }
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < packet.remote_pieces; ++i)
        bytes += std::min<std::uint64_t>(packet.remote[i].bytes, abilities_.packet_bytes);
    const std::size_t element = size_of(type);
    // A read has no operand; a compare has two of them.
    const std::uint64_t operands = operation == AtomicOperation::Read ? packet.payload.size()
                                   : use == AtomicUse::Compare        ? 2 * bytes
                                                                      : bytes;
    PieceList pieces;
    const std::uint32_t rights = use == AtomicUse::Plain ? window_write : window_write | window_read;
    if (packet.payload.size() != operands || bytes % element != 0 ||
        !window_memory(packet, bytes, rights, pieces)) {
        answer(packet.id, Status::Refused);
        return;
    }
    std::vector<std::byte> before(use == AtomicUse::Plain ? 0 : bytes);
    // Each piece holds whole elements, or the order of them would be torn.
    std::uint64_t at = 0;
    for (const iovec& piece : pieces.pieces()) {
        if (piece.iov_len % element != 0) {
            answer(packet.id, Status::Refused);
            return;
        }
    }
    // The payload may lie in memory that the peer can still write: one copy, then it is used.
    const std::vector<std::byte> copy(packet.payload.begin(), packet.payload.end());
    for (const iovec& piece : pieces.pieces()) {
        apply(operation, type, piece.iov_base, copy.data() + std::min<std::uint64_t>(at, copy.size()),
              use == AtomicUse::Compare ? copy.data() + bytes + at : nullptr,
              before.empty() ? nullptr : before.data() + at, piece.iov_len / element);
        at += piece.iov_len;
    }
    if (use == AtomicUse::Plain) {
        answer(packet.id, Status::Ok);
    } else {
        SendRecord& record = make_reply(packet.id);
        record.copy = std::move(before);
        record.total = record.copy.size();
        reply_bytes_ += record.total;
        const iovec piece{record.copy.data(), record.copy.size()};
        record.pieces.assign({&piece, 1});
    }
    tell_of_remote(Happened::RemoteWrite, packet, bytes);
}

/// What a read or a fetching atomic of ours waits for.
bool Conversation::take_reply(const Packet& packet) {
    SendRecord* own = sends_.find(packet.head.word);
    const bool whole = packet.kind() == PacketKind::Eager;
    const std::uint64_t bytes = whole ? packet.payload.size() : packet.total;
    if (own == nullptr || own->state != SendState::Awaiting || own->wanted != bytes ||
        (own->message_class != MessageClass::ReadRequest &&
         own->message_class != MessageClass::FetchAtomic &&
         own->message_class != MessageClass::CompareAtomic))
        return false;
    if (whole) {
        own->results.scatter(0, packet.payload);
        finish_send(*own, Status::Ok);
        return true;
    }
    own->state = SendState::Answered;
    ReceiveRecord& record = receives_.make();
    record.read = own->id;
    record.pieces.assign(own->results.pieces());
    record.capacity = bytes;
    begin_receive({MessageClass::ReadReply, packet.protocol, false, false, 0, 0, packet.id,
                   packet.total, packet.address, packet.handle},
                  record);
    return true;
}

}  // namespace via::mvich
