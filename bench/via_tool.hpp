// SPDX-License-Identifier: BSD-3-Clause
// Our own values, from the same commands that a user would type.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bare/bare_limits.hpp"
#include "probe.hpp"

namespace via::bench {

enum class Memory { Heap, Kmem };

struct PingPongForm {
    std::size_t bytes = 8;
    Memory memory = Memory::Kmem;
    std::optional<std::size_t> idle_vis = {};  ///< given, even as 0: through a completion queue
    bool block = false;                        ///< wait blocking instead of polling
    bool one_core = false;                     ///< both processes on the first core
};

class ViaTool {
  public:
    /// `folder` holds via, vi_memory and blocked_cpu. `agent_socket` keeps these runs away from any
    /// agent the user has.
    ViaTool(std::string path, std::string folder, bare::CorePair cores, std::string agent_socket);

    [[nodiscard]] Probe latency(const PingPongForm& form) const;
    [[nodiscard]] Probe message_rate(std::size_t bytes, Memory memory) const;
    /// The same stream in bytes per second.
    [[nodiscard]] Probe stream(std::size_t bytes, Memory memory) const;
    [[nodiscard]] Probe memory_per_vi() const;
    [[nodiscard]] Probe blocked_cpu() const;

    /// How many buffers the stream goes round, as the tool itself reports it.
    [[nodiscard]] base::Result<std::size_t> stream_buffers(std::size_t bytes) const;

    [[nodiscard]] std::string version() const;
    void stop_agent() const;

  private:
    [[nodiscard]] std::vector<std::string> environment() const;
    [[nodiscard]] std::string missing() const;

    std::string path_;
    std::string folder_;
    bare::CorePair cores_;
    std::string agent_socket_;
};

/// A number out of a JSON text that a program printed. `program` is for the message.
[[nodiscard]] base::Result<double> json_number(std::string_view text, std::string_view member,
                                               std::string_view program);

}  // namespace via::bench
