// SPDX-License-Identifier: BSD-3-Clause
// Packets as a peer may write them, by seed.
#pragma once

#include <vector>

#include "mvich/packet.hpp"
#include "na/seeded.hpp"

namespace via::test {

/// Only the fields that its kind has are set. The payload lies in `payload`.
inline mvich::Packet random_packet(Random& random, std::vector<std::byte>& payload) {
    using namespace mvich;
    Packet packet;
    packet.head.kind = static_cast<std::uint8_t>(random.between(1, 8));
    packet.head.credits = static_cast<std::uint16_t>(random.next());
    packet.head.word = random.next();
    std::size_t bytes = random.one_in(4) ? 0 : random.below(200);
    const PacketKind kind = packet.kind();
    if (kind == PacketKind::Eager || kind == PacketKind::Request) {
        packet.head.flags = static_cast<std::uint8_t>(random.below(32));
        const MessageClass message = packet.message_class();
        const bool atomic = message >= MessageClass::Atomic;
        if ((packet.head.flags & packet_has_data) != 0) packet.data = random.next();
        if (kind == PacketKind::Request || message >= MessageClass::Write ||
            (packet.head.flags & packet_wants_delivered) != 0)
            packet.id = random.next();
        if (atomic) {
            packet.operation = static_cast<std::uint8_t>(random.next());
            packet.datatype = static_cast<std::uint8_t>(random.next());
        }
        std::uint64_t sum = 0;
        if (atomic || message == MessageClass::Write || message == MessageClass::ReadRequest) {
            packet.remote_pieces = static_cast<std::uint8_t>(random.below(max_remote_pieces + 1));
            for (std::size_t i = 0; i < packet.remote_pieces; ++i) {
                packet.remote[i] = {random.next(), random.below(50), random.next()};
                sum += packet.remote[i].bytes;
            }
        }
        if (message == MessageClass::Write) bytes = sum;
        if (kind == PacketKind::Request || message == MessageClass::ReadRequest) bytes = 0;
        if (message == MessageClass::ReadRequest ||
            (kind == PacketKind::Request && message == MessageClass::Write))
            packet.total = sum;
        else if (kind == PacketKind::Request)
            packet.total = random.next();
        if (kind == PacketKind::Request) {
            packet.protocol = static_cast<Protocol>(random.between(1, 3));
            if (packet.protocol == Protocol::Rget) {
                packet.address = random.next();
                packet.handle = static_cast<std::uint32_t>(random.next());
            }
        }
    } else if (kind == PacketKind::OkToSend) {
        bytes = 0;
        packet.id = random.next();
        packet.total = random.next();
        packet.protocol = static_cast<Protocol>(random.between(1, 3));
        if (packet.protocol != Protocol::R3) {
            packet.address = random.next();
            packet.handle = static_cast<std::uint32_t>(random.next());
        }
    } else if (kind == PacketKind::Data) {
        packet.offset = random.next();
    } else if (kind == PacketKind::Finish || kind == PacketKind::Delivered) {
        bytes = 0;
        packet.status = static_cast<Status>(random.below(7));
    } else if (kind == PacketKind::Noop) {
        bytes = 0;
        packet.head.flags = random.one_in(2) ? packet_starving : 0;
    }
    payload.resize(bytes);
    fill_pattern(payload, random.next());
    packet.head.bytes = static_cast<std::uint32_t>(bytes);
    packet.payload = payload;
    return packet;
}

/// Head and payload.
inline std::vector<std::byte> bytes_of(const mvich::Packet& packet) {
    std::vector<std::byte> bytes(mvich::max_packet_head_bytes);
    bytes.resize(mvich::encode(
        packet, std::span<std::byte, mvich::max_packet_head_bytes>(bytes.data(), bytes.size())));
    bytes.insert(bytes.end(), packet.payload.begin(), packet.payload.end());
    return bytes;
}

}  // namespace via::test
