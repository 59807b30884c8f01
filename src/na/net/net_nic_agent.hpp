// SPDX-License-Identifier: BSD-3-Clause
// The net device: a NIC agent for ordinary Ethernet. It works inline in the thread that posts or
// polls; when nobody does, the service thread is woken by what comes and by what is due.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/event_loop.hpp"
#include "base/fd.hpp"
#include "na/endpoint_registry.hpp"
#include "na/net/conversation.hpp"
#include "na/net/interfaces.hpp"
#include "na/net/net_endpoint.hpp"
#include "na/net/raw/raw_port.hpp"
#include "na/nic_agent.hpp"

namespace via::na::net {

struct NetSettings {
    links::PolicyKind policy = links::PolicyKind::Adaptive;
    bool sealed = false;
    std::optional<RawKind> raw;  ///< none: no raw path
    base::Nanoseconds lost_after = 0;
    base::Nanoseconds cork = 0;
    PortRange ports;
    [[nodiscard]] static NetSettings read();
};

/// InvalidArgument with the names that there are.
[[nodiscard]] base::Result<links::PolicyKind> parse_policy(std::string_view name);

class NetNicAgent final : public NicAgent {
  public:
    NetNicAgent(ka::AgentClient& agent, base::EventLoop& service);
    ~NetNicAgent() override;

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
    /// The agent's word is not needed: the connection itself tells.
    void connection_lost(std::uint64_t) override {}
    [[nodiscard]] base::Result<void> set_link_policy(std::string_view policy,
                                                     std::uint32_t slot) override;
    bool service() override;

    // For endpoints.
    void give_back_index(std::uint32_t index) noexcept { registry_.remove(index); }
    /// The interfaces that have a carrier, in order, as the kernel told last.
    [[nodiscard]] std::vector<std::uint32_t> running_interfaces();
    /// The descriptor wakes the service thread from now on.
    void watch(int descriptor, std::uint32_t index) noexcept;
    void unwatch(int descriptor) noexcept;
    /// The service thread calls the owners of endpoints with something due then.
    void wake_at(base::Nanoseconds moment) noexcept;
    void say_goodbye(std::unique_ptr<Conversation> conversation, std::uint64_t connection);

  private:
    [[nodiscard]] base::Result<ka::ConnectOffer> make_offer(NetEndpoint& endpoint,
                                                            const ConnectTerms& terms) const;
    [[nodiscard]] base::Result<void> go_live(NetEndpoint& endpoint, ka::Established&& established);
    void add_raw_links(const NetEndpoint::Prepared& prepared, const InterfaceOffer& theirs,
                       const std::vector<LinkPair>& pairs, std::uint32_t remote_token,
                       std::vector<LinkEnd>& links) const;
    void watch_interfaces();
    void interfaces_changed();
    void woken();
    void timer_rang();
    bool finish_goodbyes();

    ka::AgentClient& agent_;
    base::EventLoop& service_;
    NetSettings settings_;
    NicAttributes attributes_;
    base::UniqueFd epoll_;  ///< of all connections, for the service thread
    base::UniqueFd timer_;
    std::mutex timer_mutex_;
    base::Nanoseconds timer_set_ = links::never;

    EndpointRegistry<NetEndpoint> registry_;
    std::mutex policy_mutex_;
    links::PolicyKind policy_;  ///< of endpoints to come

    std::optional<InterfaceWatch> interface_watch_;
    std::mutex running_mutex_;
    std::vector<std::uint32_t> running_;

    std::mutex goodbyes_mutex_;
    std::list<std::unique_ptr<Conversation>> goodbyes_;
};

}  // namespace via::na::net
