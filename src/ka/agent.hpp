// SPDX-License-Identifier: BSD-3-Clause
// The kernel agent itself: one thread that serves the sockets of all processes and never waits for
// any of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "ka/kmem.hpp"
#include "ka/limits.hpp"

namespace via::ka {

struct AgentOptions {
    std::string socket;
    std::string version;
    bool on_demand = false;  ///< ends after idle_seconds without a process
    std::uint64_t idle_seconds = 10;
    KmemSettings kmem;
    Limits limits;
    std::uint16_t net_port = 0;  ///< UDP, for the agents of other hosts; 0: the user's usual one
    std::string net_key_file;    ///< of the cluster; empty: the text below
    std::string net_key;         ///< empty: an open cluster
};

class Agent {
  public:
    /// Binds the socket. InvalidState: another agent has it.
    [[nodiscard]] static base::Result<std::unique_ptr<Agent>> create(const AgentOptions& options);
    virtual ~Agent() = default;

    /// Serves until it is stopped or idle.
    [[nodiscard]] virtual base::Result<void> run() = 0;
    /// From any thread or signal handler.
    virtual void stop() noexcept = 0;
};

}  // namespace via::ka
