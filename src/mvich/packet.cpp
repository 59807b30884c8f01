// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/packet.hpp"

#include <algorithm>

namespace via::mvich {

namespace {

bool is_message(PacketKind kind) noexcept {
    return kind == PacketKind::Eager || kind == PacketKind::Request;
}

bool is_atomic(MessageClass message) noexcept {
    return message == MessageClass::Atomic || message == MessageClass::FetchAtomic ||
           message == MessageClass::CompareAtomic;
}

/// What stands behind the head, of packets of one kind, class and set of flags.
struct Fields {
    bool data = false;
    bool id = false;
    bool total = false;
    bool offset = false;
    bool protocol = false;
    bool status = false;
    bool atomic = false;
    bool remote = false;
    bool payload = false;
};

Fields fields_of(const PacketHead& head) noexcept {
    const auto kind = static_cast<PacketKind>(head.kind);
    const auto message = static_cast<MessageClass>(head.flags & packet_class_mask);
    Fields fields;
    switch (kind) {
        case PacketKind::Eager:
        case PacketKind::Request:
            fields.data = (head.flags & packet_has_data) != 0;
            fields.id = kind == PacketKind::Request || message >= MessageClass::Write ||
                        (head.flags & packet_wants_delivered) != 0;
            fields.total = kind == PacketKind::Request || message == MessageClass::ReadRequest;
            fields.protocol = kind == PacketKind::Request;
            fields.atomic = is_atomic(message);
            fields.remote = fields.atomic || message == MessageClass::Write ||
                            message == MessageClass::ReadRequest;
            fields.payload = kind == PacketKind::Eager && message != MessageClass::ReadRequest;
            break;
        case PacketKind::OkToSend:
            fields.id = true;
            fields.total = true;
            fields.protocol = true;
            break;
        case PacketKind::Data:
            fields.offset = true;
            fields.payload = true;
            break;
        case PacketKind::Finish:
        case PacketKind::Delivered:
            fields.status = true;
            break;
        case PacketKind::Noop:
            break;
        case PacketKind::Word:
            fields.payload = true;
            break;
    }
    return fields;
}

/// Whether there is an address to read from or write to.
bool has_address(PacketKind kind, Protocol protocol) noexcept {
    return kind == PacketKind::Request ? protocol == Protocol::Rget
                                       : kind == PacketKind::OkToSend && protocol != Protocol::R3;
}

/// Of a Request or an OkToSend.
bool known(Protocol protocol) noexcept {
    return protocol == Protocol::R3 || protocol == Protocol::Rget || protocol == Protocol::Rput;
}

bool known(const PacketHead& head) noexcept {
    const auto kind = static_cast<PacketKind>(head.kind);
    if (kind < PacketKind::Eager || kind > PacketKind::Word) return false;
    const int flags = is_message(kind)
                          ? packet_class_mask | packet_has_data | packet_wants_delivered
                      : kind == PacketKind::Noop ? packet_starving | packet_hello
                                                 : 0;
    return (head.flags & ~flags) == 0;
}

class Writer {
  public:
    explicit Writer(std::byte* to) noexcept : begin_(to), to_(to) {}
    template <class Value>
    void put(const Value& value) noexcept {
        std::memcpy(to_, &value, sizeof value);
        to_ += sizeof value;
    }
    [[nodiscard]] std::size_t bytes() const noexcept {
        return static_cast<std::size_t>(to_ - begin_);
    }

  private:
    std::byte* begin_;
    std::byte* to_;
};

class Reader {
  public:
    explicit Reader(std::span<const std::byte> from) noexcept : from_(from) {}
    /// False: there are not as many bytes.
    template <class Value>
    [[nodiscard]] bool get(Value& value) noexcept {
        if (from_.size() - at_ < sizeof value) return false;
        std::memcpy(&value, from_.data() + at_, sizeof value);
        at_ += sizeof value;
        return true;
    }
    [[nodiscard]] std::size_t bytes() const noexcept { return at_; }

  private:
    std::span<const std::byte> from_;
    std::size_t at_ = 0;
};

/// Writes and reads must be about as many bytes as their remote pieces have.
bool remote_bytes_agree(const Packet& packet) noexcept {
    std::uint64_t expected = packet.total;
    if (packet.message_class() == MessageClass::Write) {
        if (packet.kind() == PacketKind::Eager) expected = packet.head.bytes;
    } else if (packet.message_class() != MessageClass::ReadRequest) {
        return true;
    }
    for (std::size_t i = 0; i < packet.remote_pieces; ++i) {
        if (packet.remote[i].bytes > expected) return false;
        expected -= packet.remote[i].bytes;
    }
    return expected == 0;
}

bool read_fields(Reader& reader, const Fields& fields, Packet& packet) noexcept {
    if (fields.data && !reader.get(packet.data)) return false;
    if (fields.id && !reader.get(packet.id)) return false;
    if (fields.total && !reader.get(packet.total)) return false;
    if (fields.offset && !reader.get(packet.offset)) return false;
    if (fields.protocol) {
        if (!reader.get(packet.protocol) || !known(packet.protocol)) return false;
        if (has_address(packet.kind(), packet.protocol) &&
            !(reader.get(packet.address) && reader.get(packet.handle)))
            return false;
    }
    if (fields.status && (!reader.get(packet.status) || packet.status > Status::Unsupported))
        return false;
    if (fields.atomic && !(reader.get(packet.operation) && reader.get(packet.datatype)))
        return false;
    if (fields.remote) {
        if (!reader.get(packet.remote_pieces) || packet.remote_pieces > max_remote_pieces)
            return false;
        for (std::size_t i = 0; i < packet.remote_pieces; ++i)
            if (!reader.get(packet.remote[i])) return false;
        if (!remote_bytes_agree(packet)) return false;
    }
    return fields.payload || packet.head.bytes == 0;
}

}  // namespace

std::size_t encode(const Packet& packet, std::span<std::byte, max_packet_head_bytes> to) noexcept {
    static_assert(sizeof(PacketHead) + 5 * sizeof(std::uint64_t) + sizeof(std::uint32_t) +
                      5 * sizeof(std::uint8_t) + max_remote_pieces * sizeof(RemotePiece) <=
                  max_packet_head_bytes);
    static_assert(sizeof(RemotePiece) == 24);  // no holes: it is copied as it is
    Writer writer(to.data());
    PacketHead head = packet.head;
    head.bytes = static_cast<std::uint32_t>(packet.payload.size());
    writer.put(head);
    const Fields fields = fields_of(head);
    if (fields.data) writer.put(packet.data);
    if (fields.id) writer.put(packet.id);
    if (fields.total) writer.put(packet.total);
    if (fields.offset) writer.put(packet.offset);
    if (fields.protocol) {
        writer.put(packet.protocol);
        if (has_address(packet.kind(), packet.protocol)) {
            writer.put(packet.address);
            writer.put(packet.handle);
        }
    }
    if (fields.status) writer.put(packet.status);
    if (fields.atomic) {
        writer.put(packet.operation);
        writer.put(packet.datatype);
    }
    if (fields.remote) {
        writer.put(packet.remote_pieces);
        for (std::size_t i = 0; i < packet.remote_pieces; ++i)
            writer.put(packet.remote[i]);
    }
    return writer.bytes();
}

std::optional<Packet> decode(std::span<const std::byte> bytes) noexcept {
    std::array<std::byte, max_packet_head_bytes> copy;
    const std::size_t copied = std::min(bytes.size(), copy.size());
    if (copied < sizeof(PacketHead)) return std::nullopt;
    std::memcpy(copy.data(), bytes.data(), copied);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // read once: a peer may be writing
    Reader reader(std::span<const std::byte>(copy).first(copied));
    std::optional<Packet> packet(std::in_place);
    if (!reader.get(packet->head) || !known(packet->head) ||
        !read_fields(reader, fields_of(packet->head), *packet) ||
        bytes.size() != reader.bytes() + packet->head.bytes)
        return std::nullopt;
    packet->payload = bytes.subspan(reader.bytes());
    return packet;
}

}  // namespace via::mvich
