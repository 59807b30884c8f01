// SPDX-License-Identifier: BSD-3-Clause
// Our own values, from the same commands that a user would type.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bare/bare_limits.hpp"
#include "probe.hpp"
#include "process.hpp"

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

    /// `via` with these arguments, for what is not above.
    [[nodiscard]] Command command(std::vector<std::string> arguments) const;
    /// Why there is no `via`; empty if there is one.
    [[nodiscard]] std::string missing() const;
    /// "0,1", as its --cpus wants it.
    [[nodiscard]] std::string cpus() const;

  private:
    [[nodiscard]] std::vector<std::string> environment() const;

    std::string path_;
    std::string folder_;
    bare::CorePair cores_;
    std::string agent_socket_;
};

/// Runs it and takes a number out of the JSON that it prints.
[[nodiscard]] base::Result<double> number_from(const Command& command, std::string_view member);

/// A number out of a JSON text that a program printed: of a member, or of a member's member as
/// "outer/inner". `program` is for the message.
[[nodiscard]] base::Result<double> json_number(std::string_view text, std::string_view member,
                                               std::string_view program);

}  // namespace via::bench
