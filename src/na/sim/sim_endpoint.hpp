// SPDX-License-Identifier: BSD-3-Clause
// The host's side of a VI on a simulated NIC: what is posted goes into the NIC's rings, in the
// host's time; what the NIC has to tell comes out when the host polls.
#pragma once

#include <cstdint>
#include <memory>

#include "na/nic_agent.hpp"
#include "na/sim/nic_vi.hpp"
#include "na/sim/world.hpp"

namespace via::na::sim {

class SimNicAgent;
class SimPollGroup;

class SimEndpoint final : public Endpoint {
  public:
    SimEndpoint(SimNicAgent& agent, std::shared_ptr<World> world, std::uint32_t host,
                QueuePair& queues, EndpointOwner& owner, const EndpointGroups& groups,
                std::shared_ptr<NicVi> vi);
    ~SimEndpoint() override;

    void ring_send() override;
    void ring_receive() override;
    bool poll() override;
    void arm(Wakes wakes) override;
    [[nodiscard]] bool unfinished() const override;
    void nudge() override {}
    void disconnect() override;
    [[nodiscard]] std::int32_t peer_pid() const override;

    [[nodiscard]] World& world() noexcept { return *world_; }
    [[nodiscard]] std::uint32_t host() const noexcept { return host_; }
    [[nodiscard]] const std::shared_ptr<NicVi>& vi() const noexcept { return vi_; }
    [[nodiscard]] EndpointOwner& owner() noexcept { return owner_; }
    [[nodiscard]] const ka::EndpointAttributes& local() const noexcept { return queues_.local; }
    /// The connection has come about; the NIC knows already.
    void connected(const ka::EndpointAttributes& remote) { queues_.remote = remote; }
    [[nodiscard]] bool has_news() override;
    [[nodiscard]] std::uint64_t oldest_news();

  private:
    [[nodiscard]] NicVi::Chain take_chain(WorkQueue& queue);
    bool hand_over_news();

    SimNicAgent& agent_;
    std::shared_ptr<World> world_;
    std::uint32_t host_;
    QueuePair& queues_;
    EndpointOwner& owner_;
    std::array<SimPollGroup*, 2> groups_;
    std::shared_ptr<NicVi> vi_;
};

}  // namespace via::na::sim
