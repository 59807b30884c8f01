// SPDX-License-Identifier: BSD-3-Clause
// Any bytes as a packet of the message layer: refused, or in range, inside the bytes, and written
// again as they were; the short way for the commonest packet says the same.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "mvich/packet.hpp"

using namespace via::mvich;

namespace {

void require(bool condition) {
    if (!condition) std::abort();
}

bool begins_with(std::span<const std::byte> bytes, std::span<const std::byte> beginning) {
    return bytes.size() >= beginning.size() &&
           std::ranges::equal(bytes.first(beginning.size()), beginning);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
    const auto packet = decode(bytes);
    PlainEager eager;
    const bool short_way = decode_plain_eager(bytes, eager);
    if (!packet) {
        require(!short_way);
        return 0;
    }
    require(packet->kind() >= PacketKind::Eager && packet->kind() <= PacketKind::Word);
    require(packet->protocol <= Protocol::Rput);
    require(packet->status <= Status::Unsupported);
    require(packet->remote_pieces <= max_remote_pieces);
    require(packet->payload.data() + packet->payload.size() == bytes.data() + bytes.size());
    std::array<std::byte, max_packet_head_bytes> again;
    const std::size_t head = encode(*packet, again);
    require(head + packet->payload.size() == size);
    require(begins_with(bytes, std::span(again).first(head)));

    const bool expected = packet->kind() == PacketKind::Eager &&
                          packet->message_class() <= MessageClass::Tagged &&
                          (packet->head.flags & packet_wants_delivered) == 0;
    require(short_way == expected);
    if (!short_way) return 0;
    require(eager.payload.data() == packet->payload.data() &&
            eager.payload.size() == packet->payload.size());
    std::array<std::uint64_t, max_plain_eager_head_bytes / 8> shortly;
    require(encode_plain_eager(eager, shortly) == head);
    require(begins_with(bytes, std::as_bytes(std::span(shortly)).first(head)));
    return 0;
}
