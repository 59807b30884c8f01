// SPDX-License-Identifier: BSD-3-Clause
#include "na/sim/descriptor_ring.hpp"

#include <utility>

namespace via::na::sim {

DescriptorRing::DescriptorRing(model::Cluster& cluster, model::Cluster::Host& host,
                               std::uint32_t small_entries, std::uint32_t low_water)
    : cluster_(cluster),
      host_(host),
      nic_memory_(small_entries),
      ring_(std::span(nic_memory_), low_water, Refill::ByHost) {}

model::Task<> DescriptorRing::post(std::vector<PhysicalDescriptor> chain, model::Message message) {
    const model::ViaFirmware& firmware = cluster_.system().firmware;
    const auto self = shared_from_this();
    const std::uint64_t life = life_;
    co_await host_.processor.work(model::microseconds(firmware.host_post), "user agent");
    // The VI may have been closed meanwhile; what comes next in the ring is another connection's.
    if (life != life_) co_return;
    const std::uint64_t spilled = ring_.spilled();
    for (const PhysicalDescriptor& pd : chain)
        ring_.push(pd);
    posted_ += chain.size();
    lengths_.push_back(static_cast<std::uint32_t>(chain.size()));
    waiting_.push_back({posted_, std::move(message)});
    if (ring_.spilled() != spilled) {
        // Only host memory was written; the flag says that the NIC has to ask for it.
        ++statistics_.spilled;
        announce();
        interrupt_if_wanted();
        co_return;
    }
    // What the papers' systems write for a message, and a PD for each further segment.
    constexpr std::uint64_t plain_chain = 2;
    const std::uint64_t further = chain.size() > plain_chain ? chain.size() - plain_chain : 0;
    co_await host_.processor.write(
        static_cast<std::uint64_t>(firmware.host_writes) + further * sizeof(PhysicalDescriptor),
        "post");
    announce();
}

void DescriptorRing::announce() {
    const std::uint64_t in_nic = taken_ + ring_.in_small();
    while (!waiting_.empty()) {
        // A chain longer than the ring is announced when it fills it: the NIC fetches the rest.
        const bool whole = waiting_.front().end <= in_nic;
        const bool filled = announced_ == 0 && ring_.in_small() == ring_.small_entries();
        if (!whole && !filled) return;
        ++announced_;
        [[maybe_unused]] const bool put = host_.nics[0]->posted().try_put(waiting_.front().message);
        waiting_.pop_front();
    }
}

std::vector<PhysicalDescriptor> DescriptorRing::take() {
    // Its VI may have been closed since.
    if (announced_ == 0 || lengths_.empty()) return {};
    const std::uint32_t length = lengths_.front();
    lengths_.pop_front();
    std::vector<PhysicalDescriptor> chain;
    chain.reserve(length);
    for (std::uint32_t i = 0; i < length; ++i)
        chain.push_back(ring_.at(i));
    ring_.pop(length);
    taken_ += length;
    --announced_;
    model::Simulation& simulation = cluster_.simulation();
    const bool some_wait = ring_.size() != ring_.in_small();
    if (announced_ == 0 && some_wait && dry_since_ < 0) dry_since_ = simulation.now();
    interrupt_if_wanted();
    return chain;
}

void DescriptorRing::interrupt_if_wanted() {
    if (wants_refill() && !std::exchange(interrupting_, true))
        cluster_.simulation().spawn(answer_interrupt());
}

model::Task<> DescriptorRing::answer_interrupt() {
    const auto self = shared_from_this();
    ++statistics_.interrupts;
    const std::uint64_t life = life_;
    co_await host_.processor.work(host_.processor.interrupt(), "interrupt");
    if (life != life_) co_return;
    const std::uint32_t moved = ring_.refill();
    co_await host_.processor.write(moved * sizeof(PhysicalDescriptor), "refill");
    if (life != life_) co_return;
    interrupting_ = false;
    if (dry_since_ >= 0) {
        ++statistics_.stalls;
        statistics_.stalled += cluster_.simulation().now() - dry_since_;
        dry_since_ = -1;
    }
    announce();
    // The NIC may have taken them all meanwhile.
    interrupt_if_wanted();
}

void DescriptorRing::clear() {
    ++life_;
    ring_.clear();
    taken_ = posted_;
    lengths_.clear();
    waiting_.clear();
    announced_ = 0;
    interrupting_ = false;
    dry_since_ = -1;
}

RingStatistics DescriptorRing::statistics() const {
    return statistics_;
}

}  // namespace via::na::sim
