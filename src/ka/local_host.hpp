// SPDX-License-Identifier: BSD-3-Clause
// Which network addresses mean this host. A host has many; its kernel agent knows itself by one.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.hpp"
#include "ka/host_address.hpp"

namespace via::ka {

class LocalHost {
  public:
    /// `port`: of this host's agent.
    explicit LocalHost(std::uint16_t port) : own_(host_address()), port_(port) {}

    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    [[nodiscard]] const HostAddress& own() const noexcept { return own_; }
    /// Internet addresses at which other hosts may reach this one, with the agent's port.
    [[nodiscard]] std::vector<AgentAddress> addresses(base::Nanoseconds now);
    /// Whether that is this host's agent. A port of 0 is the own one.
    [[nodiscard]] bool is_here(const AgentAddress& address, base::Nanoseconds now);
    /// With the six-byte host if the host part is an Internet address of this host.
    [[nodiscard]] NetAddress canonical(const NetAddress& address, base::Nanoseconds now);
    /// The agent to be asked, if the address means another host.
    [[nodiscard]] std::optional<AgentAddress> elsewhere(const NetAddress& address,
                                                        base::Nanoseconds now);

  private:
    void refresh(base::Nanoseconds now);

    HostAddress own_;
    std::uint16_t port_;
    std::vector<AgentAddress> interfaces_;
    base::Deadline fresh_until_ = base::Deadline::at(0);
};

}  // namespace via::ka
