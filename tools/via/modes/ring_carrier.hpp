// SPDX-License-Identifier: BSD-3-Clause
// User level: what is given goes through the shm device's own channel (frames and byte ring), with
// no system call. All functions wait; false: they waited in vain or met nonsense.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "modes/instruction.hpp"
#include "modes/patience.hpp"
#include "na/shm/channel.hpp"

namespace via::tool {

class RingCarrier {
  public:
    /// `outgoing` and `incoming` are the channel's two directions as this side sees them.
    RingCarrier(const na::shm::Direction& outgoing, const na::shm::Direction& incoming,
                std::uint32_t chunk_bytes, const Patience& patience)
        : writer_(outgoing), reader_(incoming), chunk_bytes_(chunk_bytes), patience_(patience) {}

    [[nodiscard]] bool send_word(Reference word);
    [[nodiscard]] bool send_structure(const Instruction& structure);
    /// In chunks, as the device does: the receiver takes one out while the next is put in.
    [[nodiscard]] bool send_all(const Instruction& structure, const std::byte* data);

    [[nodiscard]] bool receive_word(Reference& word);
    [[nodiscard]] bool receive_structure(Instruction& structure);
    [[nodiscard]] bool receive_all(Instruction& structure, std::span<std::byte> place);

  private:
    /// Puts up to a chunk of (structure and) data into the byte ring and tells of it.
    [[nodiscard]] bool send_chunk(const Instruction* structure, const std::byte* data,
                                  std::uint32_t bytes, bool final);
    [[nodiscard]] bool wait_for_frame(na::shm::FrameKind wanted, na::shm::FrameHeader& frame);
    [[nodiscard]] const std::byte* wait_for_chunk(na::shm::FrameKind wanted,
                                                  na::shm::RingChunk& chunk, bool& final);

    na::shm::ChannelWriter writer_;
    na::shm::ChannelReader reader_;
    std::uint32_t chunk_bytes_;
    Patience patience_;
};

}  // namespace via::tool
