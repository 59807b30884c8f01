// SPDX-License-Identifier: BSD-3-Clause
#include "modes/ring_carrier.hpp"

#include <algorithm>
#include <cstring>

namespace via::tool {

using na::shm::ChannelReader;
using na::shm::frame_final;
using na::shm::FrameHeader;
using na::shm::FrameKind;
using na::shm::RingChunk;

bool RingCarrier::send_word(Reference word) {
    if (!patience_.wait([&] { return writer_.reserve(sizeof word); })) return false;
    writer_.publish(FrameKind::Reference, 0, &word, sizeof word, 0);
    return true;
}

bool RingCarrier::send_chunk(const Instruction* structure, const std::byte* data,
                             std::uint32_t bytes, bool final) {
    const std::uint32_t lead = structure != nullptr ? sizeof *structure : 0;
    na::shm::ChannelWriter::Place place;
    const bool room = patience_.wait([&] {
        place = writer_.find_place(lead + bytes);
        return place.at != nullptr && writer_.reserve(sizeof place.chunk);
    });
    if (!room) return false;
    if (structure != nullptr) std::memcpy(place.at, structure, lead);
    if (bytes != 0) std::memcpy(place.at + lead, data, bytes);
    writer_.take_place(place);
    writer_.publish(structure != nullptr ? FrameKind::First : FrameKind::Next,
                    final ? frame_final : std::uint8_t{0}, &place.chunk, sizeof place.chunk, 0);
    return true;
}

bool RingCarrier::send_structure(const Instruction& structure) {
    return send_chunk(&structure, nullptr, 0, true);
}

bool RingCarrier::send_all(const Instruction& structure, const std::byte* data) {
    const Instruction* lead = &structure;
    std::uint64_t left = structure.bytes;
    do {
        const std::uint64_t room = chunk_bytes_ - (lead != nullptr ? sizeof *lead : 0);
        const auto bytes = static_cast<std::uint32_t>(std::min(left, room));
        left -= bytes;
        if (!send_chunk(lead, data, bytes, left == 0)) return false;
        data += bytes;
        lead = nullptr;
    } while (left != 0);
    return true;
}

bool RingCarrier::wait_for_frame(FrameKind wanted, FrameHeader& frame) {
    auto look = ChannelReader::Look::Nothing;
    const bool came = patience_.wait([&] {
        look = reader_.look(frame);
        if (look != ChannelReader::Look::Nothing) return true;
        reader_.publish_the_rest();
        return false;
    });
    return came && look == ChannelReader::Look::Frame && frame.kind == wanted;
}

bool RingCarrier::receive_word(Reference& word) {
    FrameHeader frame;
    if (!wait_for_frame(FrameKind::Reference, frame) || frame.length != sizeof word) return false;
    word = reader_.small_payload();
    reader_.advance(frame);
    return true;
}

const std::byte* RingCarrier::wait_for_chunk(FrameKind wanted, RingChunk& chunk, bool& final) {
    FrameHeader frame;
    if (!wait_for_frame(wanted, frame) || frame.length != sizeof chunk) return nullptr;
    reader_.read_payload(reinterpret_cast<std::byte*>(&chunk), sizeof chunk);
    final = (frame.flags & frame_final) != 0;
    reader_.advance(frame);
    return reader_.chunk(chunk);
}

bool RingCarrier::receive_structure(Instruction& structure) {
    return receive_all(structure, {});
}

bool RingCarrier::receive_all(Instruction& structure, std::span<std::byte> place) {
    bool final = false;
    std::size_t put = 0;
    FrameKind wanted = FrameKind::First;
    do {
        RingChunk chunk;
        const std::byte* from = wait_for_chunk(wanted, chunk, final);
        if (from == nullptr) return false;
        std::size_t bytes = chunk.bytes;
        if (wanted == FrameKind::First) {
            if (bytes < sizeof structure) return false;
            std::memcpy(&structure, from, sizeof structure);
            from += sizeof structure;
            bytes -= sizeof structure;
        }
        if (bytes > place.size() - put) return false;
        if (bytes != 0) std::memcpy(place.data() + put, from, bytes);
        put += bytes;
        reader_.chunk_done(chunk);
        wanted = FrameKind::Next;
    } while (!final);
    return place.empty() || put == structure.bytes;
}

}  // namespace via::tool
