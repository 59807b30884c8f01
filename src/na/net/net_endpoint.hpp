// SPDX-License-Identifier: BSD-3-Clause
// A VI's end of a connection between hosts.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "na/net/conversation.hpp"
#include "na/net/pairing.hpp"
#include "na/net/udp_port.hpp"
#include "na/nic_agent.hpp"

namespace via::na::net {

class NetNicAgent;
class NetPollGroup;

class NetEndpoint final : public Endpoint {
  public:
    NetEndpoint(NetNicAgent& agent, QueuePair& queues, EndpointOwner& owner,
                const EndpointGroups& groups, std::uint32_t index);
    ~NetEndpoint() override;

    void ring_send() override;
    [[nodiscard]] bool take_send(std::uint64_t entry, PhysicalDescriptor segment,
                                 bool has_immediate, std::uint32_t immediate) override;
    bool poll() override;
    void arm(Wakes wakes) override;
    [[nodiscard]] base::Nanoseconds respite() override;
    [[nodiscard]] bool unfinished() const override;
    void nudge() override {}
    void disconnect() override;
    [[nodiscard]] std::int32_t peer_pid() const override { return 0; }
    [[nodiscard]] base::Result<void> set_link_policy(std::string_view policy) override;

    /// What is offered to a peer: ports that are open and wait for their other ends.
    struct Prepared {
        InterfaceOffer offer;
        std::vector<std::unique_ptr<UdpPort>> ports;  ///< one for each entry of the offer
        std::vector<LocalInterface> interfaces;       ///< likewise
        std::uint32_t token = 0;
        bool raw = false;  ///< a raw path is offered, too
    };
    Prepared prepared;  ///< between offer and connection; used by the connecting thread only

    void go_live(std::unique_ptr<Conversation> conversation, std::uint64_t connection);

    // For the agent and the poll groups, any thread.
    [[nodiscard]] bool live() const noexcept { return live_.load(std::memory_order_acquire); }
    [[nodiscard]] EndpointOwner& owner() noexcept { return owner_; }
    [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
    [[nodiscard]] QueuePair& queues() noexcept { return queues_; }
    /// Polls so far, to see that somebody still looks.
    [[nodiscard]] std::uint64_t polls() const noexcept {
        return polls_.load(std::memory_order_relaxed);
    }
    [[nodiscard]] base::Nanoseconds deadline() const noexcept {
        return deadline_.load(std::memory_order_relaxed);
    }
    /// Has it something to do besides waiting for packets?
    [[nodiscard]] bool busy() const noexcept { return busy_.load(std::memory_order_relaxed); }
    /// The program does not poll; the service thread has been told to.
    [[nodiscard]] bool asleep() const noexcept {
        return armed_.load(std::memory_order_relaxed) != Wakes::Nobody;
    }
    // Taken up by the next poll.
    void want_policy(links::PolicyKind policy) noexcept {
        policy_.store(policy, std::memory_order_relaxed);
        told_.store(true, std::memory_order_release);
    }
    void want_look_at_interfaces() noexcept {
        interfaces_changed_.store(true, std::memory_order_relaxed);
        told_.store(true, std::memory_order_release);
    }
    [[nodiscard]] links::PolicyKind wanted_policy() const noexcept {
        return policy_.load(std::memory_order_relaxed);
    }
    void want_attention(Wakes wakes);
    /// Puts its descriptors into a poll group's set, or takes them out.
    void watch_in(int epoll, bool watched);

  private:
    void watch_descriptors(bool watched) noexcept;
    void take_up();
    void follow_policy();
    void show_policy() noexcept;

    NetNicAgent& agent_;
    QueuePair& queues_;
    EndpointOwner& owner_;
    std::array<NetPollGroup*, 2> groups_;  ///< different ones or null
    const std::uint32_t index_;
    std::unique_ptr<Conversation> conversation_;
    std::uint64_t connection_ = 0;
    std::atomic<bool> live_{false};
    std::atomic<bool> busy_{false};
    std::atomic<links::PolicyKind> policy_{links::PolicyKind::Adaptive};
    std::atomic<bool> interfaces_changed_{false};
    std::atomic<bool> told_{false};  ///< one of these two
    std::atomic<std::uint64_t> polls_{0};
    std::atomic<base::Nanoseconds> deadline_{links::never};

    std::mutex watch_mutex_;
    std::vector<int> descriptors_;             ///< of the live connection
    std::atomic<Wakes> armed_{Wakes::Nobody};  ///< written under the mutex
};

}  // namespace via::na::net
