// SPDX-License-Identifier: BSD-3-Clause
// How the bytes of the soak are made and compared.
#include "system/soak_area.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <sstream>

#include "system/soak_failure.hpp"

namespace via::test {
namespace {

std::uint64_t pattern_word(std::uint64_t stream, std::uint64_t n) {
    std::uint64_t mixed = (n + 1) * 0x9E3779B97F4A7C15ULL + stream;
    mixed = (mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9ULL;
    return mixed ^ (mixed >> 32);
}

/// How many bytes of the stream's word at `place` are wanted there.
std::size_t piece_at(std::uint64_t place, std::size_t left) {
    const std::size_t whole = 8 - place % 8;  // no std::min: this is called for every word
    return whole < left ? whole : left;
}

/// Bytes [first, first + bytes) of a stream.
void write_stream(std::byte* to, std::size_t bytes, std::uint64_t stream, std::uint64_t first) {
    std::uint64_t word = 0;
    for (std::size_t at = 0, piece = 0; at < bytes; at += piece) {
        const std::uint64_t place = first + at;
        piece = piece_at(place, bytes - at);
        word = pattern_word(stream, place / 8) >> (8 * (place % 8));
        if (piece == 8)
            std::memcpy(to + at, &word, 8);
        else
            std::memcpy(to + at, &word, piece);
    }
}

/// How many bytes are right before the first that is not.
std::size_t right_bytes(const std::byte* from, std::size_t bytes, std::uint64_t stream,
                        std::uint64_t first) {
    std::uint64_t seen = 0;
    for (std::size_t at = 0, piece = 0; at < bytes; at += piece) {
        const std::uint64_t place = first + at;
        piece = piece_at(place, bytes - at);
        seen = 0;
        if (piece == 8)
            std::memcpy(&seen, from + at, 8);
        else
            std::memcpy(&seen, from + at, piece);
        const std::uint64_t mask = piece == 8 ? ~0ULL : (1ULL << (8 * piece)) - 1;
        const std::uint64_t word = pattern_word(stream, place / 8) >> (8 * (place % 8));
        const std::uint64_t wrong = (seen ^ word) & mask;
        if (wrong != 0) return at + static_cast<std::size_t>(std::countr_zero(wrong)) / 8;
    }
    return bytes;
}

}  // namespace

Area::Area(Nic& nic, VIP_PROTECTION_HANDLE tag, std::uint32_t bytes, bool kmem, std::uint32_t shift,
           std::uint64_t canary)
    : nic_(nic), bytes_(bytes), kmem_(kmem), canary_(canary) {
    VIP_MEM_ATTRIBUTES attributes{};
    attributes.Ptag = tag;
    attributes.EnableRdmaWrite = VIP_TRUE;
    attributes.EnableRdmaRead = VIP_TRUE;
    if (kmem) {
        VIP_PVOID address = nullptr;
        expect(VIP_SUCCESS, VipxAllocMem(nic, bytes, &attributes, &address, &handle_),
               "VipxAllocMem");
        base_ = static_cast<std::byte*>(address);
    } else {
        heap_ = std::make_unique<std::byte[]>(bytes + 64 + shift);
        const auto start = reinterpret_cast<std::uintptr_t>(heap_.get());
        base_ = heap_.get() + ((start + 63) / 64 * 64 - start) + shift;
        expect(VIP_SUCCESS, VipRegisterMem(nic, base_, bytes, &attributes, &handle_),
               "VipRegisterMem");
    }
    write_stream(base_, bytes_, canary_, 0);
}

Area::~Area() {
    if (kmem_) {
        EXPECT_VIP(VIP_SUCCESS, VipxFreeMem(nic_, base_, handle_));
    } else {
        EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic_, base_, handle_));
    }
}

void Area::put(const Extent& extent) const {
    write_stream(at(extent.piece.offset), extent.piece.bytes, extent.stream, extent.first);
}

void Area::check(const Extent& extent, const std::string& what) const {
    const auto [offset, bytes] = extent.piece;
    const std::size_t right = right_bytes(at(offset), bytes, extent.stream, extent.first);
    if (right == bytes) return;
    std::ostringstream text;
    text << what << ": byte " << extent.first + right << " of the message (byte " << right
         << " of a piece of " << bytes << " at offset " << offset << ") is wrong";
    const std::size_t canary =
        right_bytes(at(offset) + right, bytes - right, canary_, offset + right);
    if (canary >= 8 || right + canary == bytes) text << "; nothing has been written there";
    stop(text.str());
}

void Area::check_all(std::vector<Extent> extents, bool whole, const std::string& what) const {
    std::sort(extents.begin(), extents.end(), [](const Extent& left, const Extent& right) {
        return left.piece.offset < right.piece.offset;
    });
    std::uint32_t next = 0;
    const auto check_gap = [&](std::uint32_t end) {
        const std::size_t right = right_bytes(at(next), end - next, canary_, next);
        if (right != end - next)
            stop(what + ": the byte at offset " + std::to_string(next + right) +
                 ", which belongs to nobody, was written");
    };
    for (const Extent& extent : extents) {
        check_gap(extent.piece.offset);
        check(extent, what);
        next = extent.piece.offset + extent.piece.bytes;
    }
    check_gap(whole ? bytes_ : std::min(bytes_, next + 4096));
}

void Area::restore(const std::vector<Extent>& extents) const {
    for (const Extent& extent : extents)
        write_stream(at(extent.piece.offset), extent.piece.bytes, canary_, extent.piece.offset);
}

}  // namespace via::test
