// SPDX-License-Identifier: BSD-3-Clause
// The processes that use Viaduct on this host, with their counters now and at the last look.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "counters_snapshot.hpp"
#include "ka/client.hpp"

namespace via::tool {

struct WatchedProcess {
    ka::ProcessStatus agent;
    CountersSnapshot counters;
    std::optional<CountersSnapshot> before;  ///< at the last look, if it was there
    std::string problem;                     ///< why there are no counters
};

/// Is the process that looks among those it sees? As a user of Viaduct it may want to be.
enum class OwnProcess : std::uint8_t { LeftOut, Shown };

class ProcessWatch {
  public:
    /// `who`: a process number or a part of a program's name; empty: all.
    explicit ProcessWatch(std::string who, OwnProcess own = OwnProcess::LeftOut)
        : who_(std::move(who)), own_(own) {}

    /// A look at all processes that are wanted. See no_agent() for when none runs.
    [[nodiscard]] base::Result<std::vector<WatchedProcess>> look();
    /// The agent at the last look; none if that failed.
    [[nodiscard]] const std::optional<ka::AgentStatus>& agent() const { return agent_; }
    /// After a look: asks a process to choose its links so, if its user may.
    [[nodiscard]] base::Result<void> wish_link_policy(std::int32_t pid,
                                                      const ka::AgentClient::LinkPolicyWish& wish) {
        return client_->wish_link_policy(pid, wish);
    }

  private:
    [[nodiscard]] base::Result<void> attach();
    void read_counters_of(WatchedProcess& process);

    std::string who_;
    OwnProcess own_;
    std::unique_ptr<ka::AgentClient> client_;
    std::optional<ka::AgentStatus> agent_;
    std::map<std::int32_t, CountersSnapshot> before_;
};

/// The look failed because no kernel agent runs, so no process uses Viaduct.
[[nodiscard]] bool no_agent(const base::Error& error);

void sleep_for(double seconds);

}  // namespace via::tool
