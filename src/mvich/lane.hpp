// SPDX-License-Identifier: BSD-3-Clause
// What a conversation needs of a connection. The real one is a VI (vi_lane.hpp); tests have one
// whose time and order a seed decides.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <span>

#include "mvich/packet.hpp"
#include "na/nic_agent.hpp"

namespace via::mvich {

struct Vbuf;

struct LaneAbilities {
    std::uint32_t packet_bytes = 0;  ///< largest packet, head included
    std::uint32_t eager_bytes = 0;   ///< largest message in one: it may have to wait in a vbuf
    std::uint64_t rdma_bytes = 0;    ///< largest RDMA
    bool in_place = false;           ///< packets are seen where they lie: the peer is on this host
    bool one_copy = false;  ///< in place: both ends reach straight into each other's memory
    bool rdma_read = false;
    bool rdma_write = false;
    const na::PlaceAhead* next_frame = nullptr;       ///< na::QueuePair::next_frame
    const std::atomic<bool>* peer_on_core = nullptr;  ///< na::QueuePair::peer_on_core
};

/// One RDMA; `token` is said when it is done.
struct RdmaOrder {
    void* local = nullptr;
    std::uint32_t local_handle = 0;
    std::uint32_t remote_handle = 0;
    std::uint64_t remote = 0;
    std::uint64_t bytes = 0;
    OrderId token = 0;
};

class Lane {
  public:
    enum class Outcome : std::uint8_t {
        Done,    ///< on its way; packets: their memory is free again
        NoRoom,  ///< nothing has happened; later there will be room
        Gone,    ///< the connection is lost
    };
    virtual ~Lane() = default;
    [[nodiscard]] virtual const LaneAbilities& abilities() const noexcept = 0;
    [[nodiscard]] virtual Outcome send(std::span<const iovec> pieces, std::uint32_t bytes) = 0;
    /// For a lane that is `in_place`: Conversation::headed_packet at the other end.
    [[nodiscard]] virtual Outcome send_headed(const na::HeadedMessage& message) = 0;
    /// Conversation::rdma_done follows, from a later poll.
    [[nodiscard]] virtual Outcome read(const RdmaOrder& order) = 0;
    [[nodiscard]] virtual Outcome write(const RdmaOrder& order) = 0;
    /// The conversation has no more use for a vbuf in which a packet came.
    virtual void recycle(Vbuf* vbuf) noexcept = 0;
    /// The peer is about to stop for want of credits: makes more vbufs ready for it than the
    /// `window` that there is, and says how many. 0: it shall not have more, or there are none.
    [[nodiscard]] virtual std::uint32_t widen(std::uint32_t window) = 0;
};

}  // namespace via::mvich
