// SPDX-License-Identifier: BSD-3-Clause
// The shm device: a NIC agent that moves data between processes of one host, inline in the thread
// that posts or polls.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/biased_lock.hpp"
#include "base/event_loop.hpp"
#include "na/doorbell.hpp"
#include "na/endpoint_registry.hpp"
#include "na/nic_agent.hpp"
#include "na/shm/shm_endpoint.hpp"

namespace via::na::shm {

class ShmNicAgent final : public NicAgent {
  public:
    ShmNicAgent(ka::AgentClient& agent, Doorbell& doorbell, base::EventLoop& service);
    ~ShmNicAgent() override;

    [[nodiscard]] const NicAttributes& attributes() const override { return attributes_; }
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
    void connection_lost(std::uint64_t connection) override;
    bool service() override;

    // For endpoints and poll groups.
    [[nodiscard]] ka::RmmtView rmmt() const noexcept { return rmmt_; }
    [[nodiscard]] const ShmSettings& settings() const noexcept { return settings_; }
    [[nodiscard]] ka::AgentClient& agent() noexcept { return agent_; }
    /// The service thread has let go of the endpoint when this returns.
    void give_back_index(std::uint32_t index) noexcept { registry_.remove(index); }
    /// Hands the endpoints that peers have marked to their poll groups; `visit_ungrouped` also
    /// progresses those without one (service thread).
    void collect_marks(bool visit_all);
    [[nodiscard]] bool any_mark() noexcept {
        return doorbell_.page().summary.load(std::memory_order_relaxed) != 0;
    }

  private:
    [[nodiscard]] ka::ConnectOffer make_offer(ShmEndpoint& endpoint, const ConnectTerms& terms,
                                              const Geometry& geometry) const;
    [[nodiscard]] base::Result<void> go_live(ShmEndpoint& endpoint, ka::Established&& established);
    [[nodiscard]] base::Result<std::shared_ptr<PeerProcess>> peer_of(ka::Established& established);
    void peer_died(std::weak_ptr<PeerProcess> peer);
    void end_of(ShmEndpoint& endpoint);

    ka::AgentClient& agent_;
    Doorbell& doorbell_;
    base::EventLoop& service_;
    ka::RmmtView rmmt_;
    ShmSettings settings_;
    NicAttributes attributes_;
    bool barrier_;

    EndpointRegistry<ShmEndpoint> registry_;

    std::mutex peers_mutex_;
    struct KnownPeer {
        std::weak_ptr<PeerProcess> process;
        int pidfd = -1;
    };
    std::map<std::pair<std::uint64_t, std::uint64_t>, KnownPeer> peers_;
};

class ShmPollGroup final : public PollGroup {
  public:
    explicit ShmPollGroup(ShmNicAgent& agent) : agent_(agent) {}
    bool poll() override;
    void arm(Wakes wakes) override;
    [[nodiscard]] bool shares_core() const noexcept override {
        return shares_core_.load(std::memory_order_relaxed);
    }

    /// Somebody has rung for this endpoint (or it is new): look at it directly from now on.
    void woken(ShmEndpoint& endpoint) noexcept;
    void remove(ShmEndpoint& endpoint);

    /// Makes room for one more member, so that polling and being woken need no memory.
    void join();
    void leave(ShmEndpoint& endpoint);

  private:
    struct Active {
        ShmEndpoint* endpoint;
        std::uint32_t last_arrival;  ///< sweep number
    };
    bool take_woken();
    void sweep();

    ShmNicAgent& agent_;
    base::BiasedLock lock_;
    std::vector<Active> active_;
    std::vector<ShmEndpoint*> silent_;  ///< left to ring
    Wakes armed_ = Wakes::Sleeper;      ///< whom the last arm() asked for
    std::uint32_t polls_ = 0;
    std::uint32_t sweeps_ = 0;
    std::atomic<bool> shares_core_{false};

    base::SpinLock woken_lock_;
    std::vector<ShmEndpoint*> woken_;
    std::atomic<bool> any_woken_{false};
    std::vector<ShmEndpoint*> taken_;  ///< of the woken ones, while they are looked at
    std::size_t members_ = 0;
};

}  // namespace via::na::shm
