// SPDX-License-Identifier: BSD-3-Clause
// How VIs of simulated hosts are connected: the kernel agent's own state machine, asked directly,
// because the hosts' agents are as simulated as the hosts. Who waits, waits in the time of its
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "ka/connections.hpp"
#include "na/sim/nic_vi.hpp"
#include "na/sim/world.hpp"

namespace via::na::sim {

class Switchboard {
  public:
    explicit Switchboard(World& world)
        : world_(world), connections_(ka::Limits{}, 0, ka::Reach::AnyHost) {}

    /// The other end's attributes, or why not.
    using Answer = base::Result<ka::EndpointAttributes>;

    [[nodiscard]] base::Result<ka::IncomingRequest> wait(std::uint32_t host,
                                                         const ka::NetAddress& local,
                                                         base::Deadline deadline,
                                                         const void* owner);
    void cancel_waits(const void* owner);
    [[nodiscard]] Answer accept(std::uint64_t request, const std::shared_ptr<NicVi>& vi,
                                const ka::ConnectOffer& offer);
    [[nodiscard]] base::Result<void> reject(std::uint32_t host, std::uint64_t request);
    [[nodiscard]] Answer request(const std::shared_ptr<NicVi>& vi, const ka::ConnectOffer& offer,
                                 base::Deadline deadline);
    [[nodiscard]] base::Result<std::uint64_t> peer_request(const std::shared_ptr<NicVi>& vi,
                                                           const ka::ConnectOffer& offer,
                                                           base::Deadline deadline);
    [[nodiscard]] std::optional<Answer> peer_poll(std::uint64_t ticket);
    [[nodiscard]] Answer peer_wait(std::uint64_t ticket);
    void peer_cancel(std::uint64_t ticket);

  private:
    /// A question that waits for its outcome.
    struct Question {
        std::uint32_t host = 0;
        std::shared_ptr<NicVi> vi;
        const void* owner = nullptr;
        std::optional<base::Error> failed;
        std::optional<ka::EndpointAttributes> connected;
        std::optional<ka::IncomingRequest> incoming;
        bool done = false;
        [[nodiscard]] bool answered() const noexcept {
            return failed || connected || incoming || done;
        }
    };
    [[nodiscard]] static ka::ProcessNumber process_of(std::uint32_t host) noexcept {
        return host + 1;
    }
    [[nodiscard]] std::uint64_t ask(std::uint32_t host, std::shared_ptr<NicVi> vi,
                                    const void* owner = nullptr);
    /// Tells those who asked.
    void deliver(const ka::Outcomes& outcomes);
    void expire();
    /// Until the question is answered, which deadlines see to.
    void await(World::Lock& lock, std::uint64_t ticket);
    [[nodiscard]] Answer take_answer(std::uint64_t ticket);
    /// Is there such a host? An error says that there is none.
    [[nodiscard]] base::Result<void> reachable(const ka::NetAddress& remote) const;
    void pay_system_call(World::Lock& lock);

    World& world_;
    ka::Connections connections_;
    std::uint64_t last_ticket_ = 0;
    std::map<std::uint64_t, Question> questions_;
};

}  // namespace via::na::sim
