// SPDX-License-Identifier: BSD-3-Clause
// What a side sends from and receives into: two slots for messages under way, each with its
// structure and its data, once in memory that both sides map and once in ordinary memory.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/memory_file.hpp"
#include "base/result.hpp"
#include "modes/instruction.hpp"
#include "modes/way.hpp"

namespace via::tool {

inline constexpr std::size_t most_mode_bytes = 65536;

struct MessageSlot {
    Instruction structure;
    alignas(4096) std::array<std::byte, most_mode_bytes> data;
};

/// A slot's worth of memory for each message that may be under way.
using MessageSlots = std::array<MessageSlot, 2>;

/// The sender's view: its slots for a way of fetching.
class OutgoingMemory {
  public:
    /// `shared` is this side's part of what both map; the ordinary memory is this process's own.
    explicit OutgoingMemory(MessageSlots& shared)
        : shared_(shared), ordinary_(std::make_unique<MessageSlots>()) {}

    [[nodiscard]] MessageSlot& slot(Fetch fetch, std::uint64_t number) {
        return (fetch == Fetch::Mapping ? shared_ : *ordinary_)[number % 2];
    }
    [[nodiscard]] Reference refer_to(Fetch fetch, const void* place) const {
        const auto address = reinterpret_cast<std::uint64_t>(place);
        return fetch == Fetch::Mapping ? address - reinterpret_cast<std::uint64_t>(&shared_)
                                       : address;
    }

  private:
    MessageSlots& shared_;
    std::unique_ptr<MessageSlots> ordinary_;
};

/// The receiver's view of the sender's memory.
class IncomingMemory {
  public:
    IncomingMemory(const MessageSlots& shared, pid_t sender) : shared_(shared), sender_(sender) {}

    /// One copy of what lies at the reference. False: it lies outside, or the kernel refused.
    [[nodiscard]] bool fetch(Fetch fetch, Reference from, void* to, std::size_t bytes) const;

  private:
    const MessageSlots& shared_;
    pid_t sender_;
};

}  // namespace via::tool
