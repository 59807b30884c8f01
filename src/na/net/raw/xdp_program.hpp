// SPDX-License-Identifier: BSD-3-Clause
// The program that an interface runs for each frame: ours go to the socket of their id, all others
// pass as if it were not there.
#pragma once

#include <linux/bpf.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "na/net/raw/raw_frame.hpp"

namespace via::na::net {

/// `ids` maps an id, as it stands in the frame, to an index of `sockets`, an XSKMAP.
[[nodiscard]] inline auto make_xdp_program(int ids, int sockets) {
    using Instruction = bpf_insn;
    const auto make = [](unsigned code, unsigned to, unsigned from, int offset, int value) {
        Instruction instruction{};
        instruction.code = static_cast<std::uint8_t>(code);
        instruction.dst_reg = to & 0xF;
        instruction.src_reg = from & 0xF;
        instruction.off = static_cast<std::int16_t>(offset);
        instruction.imm = value;
        return instruction;
    };
    const auto load = [&](unsigned size, unsigned to, unsigned from, int offset) {
        return make(BPF_LDX | BPF_MEM | size, to, from, offset, 0);
    };
    const auto copy = [&](unsigned to, unsigned from) {
        return make(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
    };
    const auto set = [&](unsigned to, int value) {
        return make(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value);
    };
    const auto add = [&](unsigned to, int value) {
        return make(BPF_ALU64 | BPF_ADD, to, 0, 0, value);
    };
    const auto call = [&](int function) { return make(BPF_JMP | BPF_CALL, 0, 0, 0, function); };
    // The first of the two words that load a map. (BPF_IMM, like BPF_K above, is zero.)
    const auto map = [&](unsigned to, int descriptor) {
        return make(BPF_LD | BPF_DW, to, BPF_PSEUDO_MAP_FD, 0, descriptor);
    };
    const Instruction second_word = make(0, 0, 0, 0, 0);
    constexpr std::uint16_t type =
        std::endian::native == std::endian::little
            ? static_cast<std::uint16_t>((raw_ethertype & 0xFF) << 8 | raw_ethertype >> 8)
            : raw_ethertype;
    constexpr int to_pass_from_length = 16;
    constexpr int to_pass_from_type = 14;
    constexpr int to_pass_from_id = 6;
    return std::array{
        load(BPF_W, 2, 1, offsetof(xdp_md, data)),
        load(BPF_W, 3, 1, offsetof(xdp_md, data_end)),
        copy(4, 2),
        add(4, static_cast<int>(raw_header_bytes)),
        make(BPF_JMP | BPF_JGT | BPF_X, 4, 3, to_pass_from_length, 0),  // too short
        load(BPF_H, 4, 2, raw_type_offset),
        make(BPF_JMP | BPF_JNE | BPF_K, 4, 0, to_pass_from_type, type),  // not ours
        load(BPF_W, 4, 2, raw_id_offset),
        make(BPF_STX | BPF_MEM | BPF_W, 10, 4, -4, 0),
        map(1, ids),
        second_word,
        copy(2, 10),
        add(2, -4),
        call(BPF_FUNC_map_lookup_elem),
        make(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, to_pass_from_id, 0),  // nobody's
        load(BPF_W, 2, 0, 0),
        map(1, sockets),
        second_word,
        set(3, XDP_PASS),
        call(BPF_FUNC_redirect_map),
        make(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
        set(0, XDP_PASS),
        make(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
    };
}

}  // namespace via::na::net
