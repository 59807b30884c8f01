// SPDX-License-Identifier: BSD-3-Clause
#include "wire/packet.hpp"

namespace via::wire {

void encode(std::byte* to, const PacketHeader& header) noexcept {
    store(to, header.token);
    store(to + 4, header.checksum);
    store(to + 8, header.number);
    store(to + 12, header.version);
    store(to + 13, header.link);
    store(to + 14, header.flags);
    store(to + 15, std::uint8_t{0});
}

PacketHeader decode_packet_header(const std::byte* from) noexcept {
    PacketHeader header;
    header.token = load<std::uint32_t>(from);
    header.checksum = load<std::uint32_t>(from + 4);
    header.number = load<std::uint32_t>(from + 8);
    header.version = load<std::uint8_t>(from + 12);
    header.link = load<std::uint8_t>(from + 13);
    header.flags = load<std::uint8_t>(from + 14);
    return header;
}

std::uint32_t encode(std::byte* to, const DataFrame& frame) noexcept {
    store(to, frame.type);
    store(to + 1, frame.flags);
    store(to + 2, frame.length);
    store(to + 4, frame.message);
    store(to + 8, frame.receive);
    std::byte* at = to + 12;
    if (!frame.whole()) {
        store(at, frame.total);
        store(at + 4, frame.offset);
        at += 8;
    }
    if (frame.has_immediate()) {
        store(at, frame.immediate);
        at += 4;
    }
    if (frame.has_target()) {
        store(at, frame.address);
        store(at + 8, frame.handle);
        at += 12;
    }
    return static_cast<std::uint32_t>(at - to);
}

std::uint32_t encode(std::byte* to, const AcknowledgementFrame& frame) noexcept {
    store(to, FrameType::Acknowledgement);
    store(to + 1, frame.link);
    store(to + 2, frame.ranges);
    store(to + 3, frame.state);
    // Delay, delivered, largest.
    store(to + 4, frame.delay_us);
    store(to + 8, frame.delivered);
    store(to + 12, frame.largest);
    std::byte* at = to + AcknowledgementFrame::fixed_bytes;
    for (std::uint32_t i = 0; i < frame.ranges; ++i) {
        store(at, frame.range[i].length);
        store(at + 4, frame.range[i].gap);
        at += AcknowledgementFrame::range_bytes;
    }
    return static_cast<std::uint32_t>(at - to);
}

std::uint32_t encode_ping(std::byte* to, FrameType type, const PingFrame& frame) noexcept {
    std::memset(to, 0, 4);
    store(to, type);
    store(to + 4, frame.stamp);
    return PingFrame::bytes;
}

std::uint32_t encode_close(std::byte* to, FrameType type, const CloseFrame& frame) noexcept {
    std::memset(to, 0, 4);
    store(to, type);
    store(to + 1, frame.reason);
    store(to + 4, frame.message);
    store(to + 8, frame.status);
    return CloseFrame::bytes;
}

std::optional<FrameType> FrameReader::next() const noexcept {
    if (rest_.empty()) return std::nullopt;
    const auto type = static_cast<FrameType>(rest_[0]);
    if (type == FrameType::Pad) return std::nullopt;
    return type;
}

bool FrameReader::take(DataFrame& frame, std::span<const std::byte>& payload) noexcept {
    if (rest_.size() < 12) return false;
    const std::byte* from = rest_.data();
    frame.type = static_cast<FrameType>(from[0]);
    frame.flags = load<std::uint8_t>(from + 1);
    frame.length = load<std::uint16_t>(from + 2);
    frame.message = load<std::uint32_t>(from + 4);
    frame.receive = load<std::uint32_t>(from + 8);
    if ((frame.flags & ~(data_whole | data_immediate)) != 0) return false;
    const std::uint32_t header = data_frame_header_bytes(frame.type, frame.flags);
    if (rest_.size() < header + frame.length) return false;
    const std::byte* at = from + 12;
    if (frame.whole()) {
        frame.total = frame.length;
        frame.offset = 0;
    } else {
        frame.total = load<std::uint32_t>(at);
        frame.offset = load<std::uint32_t>(at + 4);
        at += 8;
    }
    if (frame.has_immediate()) {
        frame.immediate = load<std::uint32_t>(at);
        at += 4;
    }
    if (frame.has_target()) {
        frame.address = load<std::uint64_t>(at);
        frame.handle = load<std::uint32_t>(at + 8);
        at += 12;
    }
    payload = {at, frame.length};
    rest_ = rest_.subspan(header + frame.length);
    return frame.type == FrameType::ReadRequest
               ? frame.length == 0 && frame.offset == 0
               : frame.offset <= frame.total && frame.length <= frame.total - frame.offset;
}

bool FrameReader::take(AcknowledgementFrame& frame) noexcept {
    if (rest_.size() < AcknowledgementFrame::fixed_bytes) return false;
    const std::byte* from = rest_.data();
    frame.link = load<std::uint8_t>(from + 1);
    frame.ranges = load<std::uint8_t>(from + 2);
    frame.state = load<std::uint8_t>(from + 3);
    frame.delay_us = load<std::uint32_t>(from + 4);
    frame.delivered = load<std::uint32_t>(from + 8);
    frame.largest = load<std::uint32_t>(from + 12);
    const std::uint32_t bytes = AcknowledgementFrame::fixed_bytes +
                                frame.ranges * AcknowledgementFrame::range_bytes;
    if (frame.ranges > AcknowledgementFrame::most_ranges || rest_.size() < bytes) return false;
    const std::byte* at = from + AcknowledgementFrame::fixed_bytes;
    for (std::uint32_t i = 0; i < frame.ranges; ++i) {
        frame.range[i].length = load<std::uint32_t>(at);
        frame.range[i].gap = load<std::uint32_t>(at + 4);
        at += AcknowledgementFrame::range_bytes;
        if (frame.range[i].length == 0) return false;
        if ((frame.range[i].gap == 0) != (i + 1U == frame.ranges)) return false;
    }
    rest_ = rest_.subspan(bytes);
    return true;
}

bool FrameReader::take(PingFrame& frame) noexcept {
    if (rest_.size() < PingFrame::bytes) return false;
    frame.stamp = load<std::uint64_t>(rest_.data() + 4);
    rest_ = rest_.subspan(PingFrame::bytes);
    return true;
}

bool FrameReader::take(CloseFrame& frame) noexcept {
    if (rest_.size() < CloseFrame::bytes) return false;
    frame.reason = load<std::uint8_t>(rest_.data() + 1);
    frame.message = load<std::uint32_t>(rest_.data() + 4);
    frame.status = load<std::uint32_t>(rest_.data() + 8);
    rest_ = rest_.subspan(CloseFrame::bytes);
    return true;
}

}  // namespace via::wire
