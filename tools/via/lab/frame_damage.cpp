// SPDX-License-Identifier: BSD-3-Clause
#include "frame_damage.hpp"

#include <cstddef>

namespace via::lab {
namespace {

constexpr std::size_t ethernet_header = 14;
constexpr std::uint8_t protocol_tcp = 6;
constexpr std::uint8_t protocol_udp = 17;

std::uint32_t word(std::span<const std::uint8_t> bytes, std::size_t at) {
    return static_cast<std::uint32_t>(bytes[at] << 8 | bytes[at + 1]);
}

/// Where the data of a frame lies and which checksum covers it.
struct Layout {
    std::size_t begin = 0;
    std::size_t end = 0;       ///< padding of short frames is no part of it
    std::size_t checksum = 0;  ///< place of the 16 bits; 0: none that covers it
};

/// `header`: of UDP or TCP, within a whole (unfragmented) packet that ends at `end`.
Layout transport_layout(std::span<const std::uint8_t> frame, std::uint8_t protocol,
                        std::size_t header, std::size_t end) {
    if (protocol == protocol_udp && end >= header + 8)
        // A UDP checksum of 0 means that there is none.
        return {header + 8, end, word(frame, header + 6) != 0 ? header + 6 : 0};
    if (protocol == protocol_tcp && end >= header + 20) {
        const std::size_t length = static_cast<std::size_t>(frame[header + 12] >> 4) * 4;
        if (length >= 20 && header + length <= end) return {header + length, end, header + 16};
    }
    return {header, end, 0};
}

Layout layout_of(std::span<const std::uint8_t> frame) {
    if (frame.size() <= ethernet_header) return {};
    const std::uint32_t type = word(frame, 12);
    const std::size_t ip = ethernet_header;
    if (type == 0x0800 && frame.size() >= ip + 20) {
        const std::size_t header = static_cast<std::size_t>(frame[ip] & 0x0f) * 4;
        const std::size_t end = ip + word(frame, ip + 2);
        if (header < 20 || end > frame.size() || ip + header > end) return {};
        const bool fragment = (word(frame, ip + 6) & 0x3fff) != 0;
        if (fragment) return {ip + header, end, 0};
        return transport_layout(frame, frame[ip + 9], ip + header, end);
    }
    if (type == 0x86dd && frame.size() >= ip + 40) {
        const std::size_t end = ip + 40 + word(frame, ip + 4);
        if (end > frame.size()) return {};
        return transport_layout(frame, frame[ip + 6], ip + 40, end);
    }
    return {ethernet_header, frame.size(), 0};
}

/// RFC 1624: the checksum after one of the words under it has changed.
void adjust_checksum(std::span<std::uint8_t> frame, std::size_t place, std::uint32_t before,
                     std::uint32_t after) {
    std::uint32_t sum = (~word(frame, place) & 0xffff) + (~before & 0xffff) + after;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    std::uint32_t checksum = ~sum & 0xffff;
    if (checksum == 0) checksum = 0xffff;  // the same number, but 0 would mean "none" in UDP
    frame[place] = static_cast<std::uint8_t>(checksum >> 8);
    frame[place + 1] = static_cast<std::uint8_t>(checksum);
}

}  // namespace

bool damage_frame(std::span<std::uint8_t> frame, std::mt19937_64& random) {
    const Layout layout = layout_of(frame);
    if (layout.begin >= layout.end) return false;
    const std::size_t place = layout.begin + random() % (layout.end - layout.begin);
    const auto change = static_cast<std::uint8_t>(1 + random() % 255);
    // Headers are of even length, so words are counted from the start of the data.
    const std::uint32_t shift = (place - layout.begin) % 2 == 0 ? 8 : 0;
    const std::uint32_t before = static_cast<std::uint32_t>(frame[place]) << shift;
    frame[place] = static_cast<std::uint8_t>(frame[place] ^ change);
    const std::uint32_t after = static_cast<std::uint32_t>(frame[place]) << shift;
    // What shares the word with the byte stands on both sides of the difference: left out.
    if (layout.checksum != 0) adjust_checksum(frame, layout.checksum, before, after);
    return true;
}

}  // namespace via::lab
