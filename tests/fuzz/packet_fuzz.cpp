// SPDX-License-Identifier: BSD-3-Clause
// Any bytes as a packet: the reader stays inside them, what it takes is in range, and written again
// it is what it was.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "wire/long_packet.hpp"
#include "wire/packet.hpp"

using namespace via::wire;

namespace {

void require(bool condition) {
    if (!condition) std::abort();
}

/// Takes frames until the end or one that is malformed.
void read_all(std::span<const std::byte> body) {
    FrameReader reader(body);
    std::size_t at = 0;
    std::size_t apart = 0;  // bytes of payloads behind all frames
    std::array<std::byte, 512> again;
    // Each takes at least one byte.
    for (std::size_t frames = 0; frames <= body.size(); ++frames) {
        const auto type = reader.next();
        if (!type) {
            require(apart == 0 || at + apart == body.size());
            return;
        }
        std::size_t bytes = 0;
        switch (*type) {
            case FrameType::Acknowledgement: {
                AcknowledgementFrame frame;
                if (!reader.take(frame)) return;
                require(frame.ranges <= AcknowledgementFrame::most_ranges);
                bytes = encode(again.data(), frame);
                require(std::equal(again.begin(), again.begin() + static_cast<long>(bytes),
                                   body.begin() + static_cast<long>(at)));
                break;
            }
            case FrameType::Ping:
            case FrameType::Pong: {
                PingFrame frame;
                if (!reader.take(frame)) return;
                bytes = encode_ping(again.data(), *type, frame);
                require(load<std::uint64_t>(body.data() + at + 4) == frame.stamp);
                break;
            }
            case FrameType::Close:
            case FrameType::Closed: {
                CloseFrame frame;
                if (!reader.take(frame)) return;
                bytes = encode_close(again.data(), *type, frame);
                break;
            }
            case FrameType::Send:
            case FrameType::RdmaWrite:
            case FrameType::ReadRequest:
            case FrameType::ReadData: {
                DataFrame frame;
                std::span<const std::byte> payload;
                if (!reader.take(frame, payload)) return;
                bytes = encode(again.data(), frame);
                require(std::equal(again.begin(), again.begin() + static_cast<long>(bytes),
                                   body.begin() + static_cast<long>(at)));
                require(payload.size() == frame.length);
                if (frame.apart()) {
                    require(payload.data() >= body.data() + at + bytes);
                    require(payload.data() + payload.size() <= body.data() + body.size());
                    apart += frame.length;
                } else {
                    require(payload.data() == body.data() + at + bytes);
                    require(apart == 0);
                    bytes += frame.length;
                }
                if (*type != FrameType::ReadRequest)
                    require(std::uint64_t{frame.offset} + frame.length <= frame.total);
                break;
            }
            default:
                return;
        }
        at += bytes;
        require(at <= body.size());
    }
    std::abort();  // more frames than bytes
}

void read_continuation(PacketHeader header, std::span<const std::byte> body) {
    const auto piece = decode_continuation(header, body);
    require(piece.has_value() == (body.size() > Continuation::bytes));
    if (!piece) return;
    std::array<std::byte, PacketHeader::bytes + 8> again;
    const std::uint8_t message_high = header.message_high;
    header.message_high = 0;
    encode(again.data(), header);
    encode(again.data(), *piece);
    require(load<std::uint8_t>(again.data() + 15) == message_high);
    require(std::equal(body.begin(), body.begin() + Continuation::bytes,
                       again.begin() + PacketHeader::bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span packet(reinterpret_cast<const std::byte*>(data), size);
    if (size > LongPacketPrefix::bytes + PacketHeader::bytes) {
        const std::uint32_t token = ~load<std::uint32_t>(packet.data());
        require(begins_long_packet(packet, token));
        if (const auto prefix = decode_long_packet_prefix(packet)) {
            require(prefix->token == token && prefix->length > size - LongPacketPrefix::bytes &&
                    prefix->length <= LongPacketPrefix::longest_packet);
            std::array<std::byte, LongPacketPrefix::bytes> prefix_again;
            encode(prefix_again.data(), *prefix);
            require(std::equal(prefix_again.begin(), prefix_again.end(), packet.begin()));
        }
    }
    if (size < PacketHeader::bytes) return 0;
    const PacketHeader header = decode_packet_header(packet.data());
    std::array<std::byte, PacketHeader::bytes> again;
    encode(again.data(), header);
    require(std::equal(again.begin(), again.end(), packet.begin()));
    const auto body = packet.subspan(PacketHeader::bytes);
    if ((header.flags & packet_continues) == 0)
        read_all(body);
    else
        read_continuation(header, body);
    return 0;
}
