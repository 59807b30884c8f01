// SPDX-License-Identifier: BSD-3-Clause
// MyVIA's dynamic PD cache on a simulated NIC: the small ring lies in the NIC's memory and is
// written by PIO; what does not fit waits in the big ring in host memory. At the low-water mark the
// NIC interrupts its host, which moves PDs over.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "na/pd_ring.hpp"
#include "sim/experiment/cluster.hpp"

namespace via::na::sim {

namespace model = via::sim;

struct RingStatistics {
    std::uint64_t interrupts = 0;
    std::uint64_t spilled = 0;  ///< messages that went through the big ring
    std::uint64_t stalls = 0;   ///< times that the NIC ran dry while PDs waited
    model::Time stalled = 0;
};

/// Owned by a shared_ptr: an interrupt may be under way when its VI goes.
class DescriptorRing : public std::enable_shared_from_this<DescriptorRing> {
  public:
    DescriptorRing(model::Cluster& cluster, model::Cluster::Host& host, std::uint32_t small_entries,
                   std::uint32_t low_water);
    DescriptorRing(const DescriptorRing&) = delete;
    DescriptorRing& operator=(const DescriptorRing&) = delete;

    /// The host posts a message: its PDs are written, and the NIC is told, now or after a refill.
    [[nodiscard]] model::Task<> post(std::vector<PhysicalDescriptor> chain, model::Message message);
    /// The NIC takes the PDs of the message whose turn it is.
    [[nodiscard]] std::vector<PhysicalDescriptor> take();
    /// Forgets everything that is in the rings.
    void clear();
    [[nodiscard]] RingStatistics statistics() const;

  private:
    struct Waiting {
        std::uint64_t end;  ///< PDs ever posted, with this chain's
        model::Message message;
    };
    /// The low-water mark, or nothing left to do, and PDs wait in host memory.
    [[nodiscard]] bool wants_refill() const noexcept {
        return ring_.wants_refill() || (announced_ == 0 && ring_.size() != ring_.in_small());
    }
    void interrupt_if_wanted();
    model::Task<> answer_interrupt();
    /// Tells the NIC of chains that are in the small ring, whole or as far as they fit.
    void announce();

    model::Cluster& cluster_;
    model::Cluster::Host& host_;
    std::vector<PhysicalDescriptor> nic_memory_;
    PdRing ring_;
    std::uint64_t posted_ = 0;           ///< PDs, ever
    std::uint64_t taken_ = 0;            ///< PDs, ever
    std::deque<std::uint32_t> lengths_;  ///< of the chains in the rings
    std::deque<Waiting> waiting_;        ///< not yet announced
    std::uint32_t announced_ = 0;        ///< chains that the NIC knows of and has not taken
    bool interrupting_ = false;
    std::uint64_t life_ = 0;  ///< an interrupt of an earlier one finds nothing to do
    model::Time dry_since_ = -1;
    RingStatistics statistics_;
};

}  // namespace via::na::sim
