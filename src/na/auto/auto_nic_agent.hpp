// SPDX-License-Identifier: BSD-3-Clause
// The device `auto`: one name for shm0 inside the host and net0 outside. It is chosen for each
// connection, when it is known where the other end is.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "ka/local_host.hpp"
#include "na/auto/auto_endpoint.hpp"
#include "na/nic_agent.hpp"

namespace via::na::any {

class AutoNicAgent final : public NicAgent {
  public:
    /// Finds a device of the process by name.
    using Find = std::function<base::Result<NicAgent*>(const char*)>;
    AutoNicAgent(ka::AgentClient& agent, Find find);

    [[nodiscard]] const NicAttributes& attributes() const override { return attributes_; }
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
    // The two devices are the process's own and hear of these themselves.
    void connection_lost(std::uint64_t) override {}
    [[nodiscard]] base::Result<void> set_link_policy(std::string_view policy,
                                                     std::uint32_t slot) override;
    bool service() override { return false; }

  private:
    struct Choice {
        NicAgent& device;
        Endpoint& endpoint;
    };
    [[nodiscard]] Choice choose(AutoEndpoint& endpoint, bool local) const;
    [[nodiscard]] Choice chosen(AutoEndpoint& endpoint) const;
    /// Does the address mean this very host?
    [[nodiscard]] bool is_here(const ka::NetAddress& address);

    ka::AgentClient& agent_;
    Find find_;
    std::mutex here_mutex_;
    ka::LocalHost here_;
    NicAgent* local_ = nullptr;
    NicAgent* remote_ = nullptr;
    NicAttributes attributes_;
};

}  // namespace via::na::any
