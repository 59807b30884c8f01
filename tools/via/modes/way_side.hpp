// SPDX-License-Identifier: BSD-3-Clause
// One of the two processes between which the ways are measured: sends and receives messages in any
// of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/cpu.hpp"
#include "modes/kernel_carrier.hpp"
#include "modes/patience.hpp"
#include "modes/ring_carrier.hpp"
#include "modes/way.hpp"
#include "modes/way_memory.hpp"
#include "pattern.hpp"

namespace via::tool {

/// What the receiver of a direction tells its sender, in memory that both map.
struct alignas(base::cache_line) EndSignal {
    std::atomic<std::uint64_t> number{0};  ///< of the last message that lies at its final place
};

class WaySide {
  public:
    struct Parts {
        na::shm::Direction outgoing;
        na::shm::Direction incoming;
        std::uint32_t chunk_bytes = 0;
        int socket = -1;
        MessageSlots& own_shared;
        const MessageSlots& other_shared;
        pid_t other = 0;
        EndSignal& sent;      ///< about what this side sends
        EndSignal& received;  ///< about what it receives
        Patience patience;
    };
    explicit WaySide(const Parts& parts);

    /// The program's part before it sends: the data, new in every byte, and the structure. The
    /// message but one before must have ended.
    void prepare(const Way& way, std::uint64_t number, std::uint64_t bytes, Contents contents);
    /// Returns when the message is on its way; where data was copied its buffer is free then.
    [[nodiscard]] bool send(const Way& way, std::uint64_t number);
    /// Until the other side has said that the message lies at its final place.
    [[nodiscard]] bool wait_for_end(std::uint64_t number);
    /// Takes the next message to its final place, and says so with `signal_end`.
    [[nodiscard]] bool receive(const Way& way, std::uint64_t number, std::uint64_t bytes,
                               bool signal_end);
    /// Compares what lies at the final place: Checked all of it, Fresh a few bytes.
    [[nodiscard]] bool verify(std::uint64_t number, std::uint64_t bytes, Contents contents);

    /// Why one of them said no.
    [[nodiscard]] const std::string& problem() const { return problem_; }

  private:
    [[nodiscard]] bool fail(const Way& way, std::uint64_t number, const char* what);

    RingCarrier ring_;
    KernelCarrier kernel_;
    OutgoingMemory outgoing_;
    IncomingMemory incoming_;
    EndSignal& sent_;
    EndSignal& received_;
    Patience patience_;
    std::unique_ptr<std::array<std::byte, most_mode_bytes>> final_place_;
    std::string problem_;
};

}  // namespace via::tool
