// SPDX-License-Identifier: BSD-3-Clause
// A NIC of the papers as a device: the firmware that the simulator models, with the user agent on
// top. Threads that are simulated hosts find their host's NIC; all others share one world.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "base/event_loop.hpp"
#include "na/nic_agent.hpp"
#include "na/sim/sim_endpoint.hpp"
#include "na/sim/switchboard.hpp"
#include "na/sim/world.hpp"

namespace via::na::sim {

class SimNicAgent final : public NicAgent {
  public:
    /// `name`: of the NIC's parameters, which is the device's name too.
    SimNicAgent(std::string name, ka::AgentClient& agent, base::EventLoop& service);

    [[nodiscard]] const NicAttributes& attributes() const override;
    [[nodiscard]] base::Result<void> may_open() override;
    [[nodiscard]] std::optional<NicAddress> find_host(std::string_view name) override;
    [[nodiscard]] std::unique_ptr<PollGroup> create_poll_group() override;
    [[nodiscard]] base::Result<std::unique_ptr<Endpoint>> create_endpoint(
        QueuePair& queues, EndpointOwner& owner, const EndpointGroups& groups) override;

    [[nodiscard]] base::Result<ka::IncomingRequest> connect_wait(const ka::NetAddress& local,
                                                                 base::Deadline deadline,
                                                                 const void* owner) override;
    void cancel_waits(const void* owner) override;
    [[nodiscard]] base::Result<void> connect_accept(const ka::IncomingRequest& request,
                                                    Endpoint& endpoint, const ConnectTerms& terms,
                                                    base::Deadline deadline) override;
    [[nodiscard]] base::Result<void> connect_reject(std::uint64_t request) override;
    [[nodiscard]] base::Result<void> connect_request(Endpoint& endpoint, const ConnectTerms& terms,
                                                     base::Deadline deadline) override;
    [[nodiscard]] base::Result<std::uint64_t> peer_request(Endpoint& endpoint,
                                                           const ConnectTerms& terms,
                                                           base::Deadline deadline) override;
    [[nodiscard]] std::optional<base::Result<void>> peer_poll(Endpoint& endpoint,
                                                              std::uint64_t request) override;
    [[nodiscard]] base::Result<void> peer_wait(Endpoint& endpoint, std::uint64_t request) override;
    void peer_cancel(std::uint64_t request) override;
    void connection_lost(std::uint64_t) override {}
    bool service() override;

    // For endpoints.
    void add(SimEndpoint& endpoint);
    void remove(SimEndpoint& endpoint);
    /// Something is under way, and perhaps nobody polls: the service thread lets time pass.
    void go_on() { service_.start_ticking(); }

  private:
    /// A world with what belongs to it here. It is forgotten when the world has gone.
    struct Place {
        std::weak_ptr<World> world;
        std::unique_ptr<Switchboard> switchboard;
    };
    /// The calling thread's; with an error where there is none.
    [[nodiscard]] base::Result<Place*> here();
    [[nodiscard]] Switchboard& board_of(SimEndpoint& endpoint);
    [[nodiscard]] std::uint32_t host_here() const noexcept;
    [[nodiscard]] static ka::ConnectOffer make_offer(const SimEndpoint& endpoint,
                                                     const ConnectTerms& terms);
    [[nodiscard]] static base::Result<void> go_live(SimEndpoint& endpoint,
                                                    Switchboard::Answer&& answer);

    std::string name_;
    ka::AgentClient& agent_;
    base::EventLoop& service_;
    NicAttributes attributes_;  ///< for threads that are no hosts
    std::mutex places_mutex_;
    std::map<World*, Place> places_;
    std::shared_ptr<World> common_;  ///< of threads that are no hosts
    std::shared_mutex endpoints_mutex_;
    std::vector<SimEndpoint*> endpoints_;
};

class SimPollGroup final : public PollGroup {
  public:
    bool poll() override;
    void arm(Wakes wakes) override;
    [[nodiscard]] bool shares_core() const noexcept override { return false; }

    void join(SimEndpoint& endpoint);
    void leave(SimEndpoint& endpoint);

  private:
    std::mutex mutex_;  ///< held while an owner is called, so that no endpoint goes meanwhile
    std::vector<SimEndpoint*> members_;
};

}  // namespace via::na::sim
