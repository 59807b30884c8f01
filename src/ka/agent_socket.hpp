// SPDX-License-Identifier: BSD-3-Clause
// Where kernel agents listen, and who may have such a place: binding it decides.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace via::ka {

/// The host's agent, run as a service by root.
[[nodiscard]] std::string system_agent_socket();
/// The agent that a user's processes start by themselves.
[[nodiscard]] std::string user_agent_socket(uid_t uid);

/// A listening socket. One with a path is guarded by a lock file beside it, so that what a killed
/// agent left is taken over and a living agent's is not; both files go with this object.
class AgentSocket {
  public:
    [[nodiscard]] static base::Result<AgentSocket> bind(const std::string& address);
    AgentSocket(AgentSocket&& other) noexcept = default;
    AgentSocket& operator=(AgentSocket&& other) noexcept = default;
    ~AgentSocket();

    [[nodiscard]] const base::UniqueFd& listener() const noexcept { return listener_; }

  private:
    AgentSocket() = default;
    base::UniqueFd listener_;
    base::UniqueFd lock_;
    std::string path_;  // empty: abstract
};

}  // namespace via::ka
