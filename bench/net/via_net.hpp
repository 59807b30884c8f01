// SPDX-License-Identifier: BSD-3-Clause
// Our own values between two hosts of a lab, from the commands that a user would type.
#pragma once

#include <cstdint>
#include <string>

#include "lab/lab.hpp"
#include "via_tool.hpp"

namespace via::bench {

struct NetForm {
    const lab::Lab* lab = nullptr;  ///< must be there when a value is taken
    std::size_t bytes = 8;
    std::string links = {};   ///< the only ones used, "link1"; empty: all
    std::string policy = {};  ///< empty: the usual
    std::string raw = {};     ///< empty: the usual
    bool block = false;       ///< sleep until something completes, instead of polling
    std::uint64_t rate = 0;   ///< bits per second of the links together; 0: no limit
};

/// `via pingpong` or `via window` between the hosts; it says JSON.
[[nodiscard]] Command via_net_command(const ViaTool& via, const char* program, const NetForm& form);

[[nodiscard]] Probe via_net_latency(const ViaTool& via, const NetForm& form);
[[nodiscard]] Probe via_net_rate(const ViaTool& via, const NetForm& form);
[[nodiscard]] Probe via_net_stream(const ViaTool& via, const NetForm& form);
/// Processor time of both sides for a stream.
[[nodiscard]] Probe via_net_cpu(const ViaTool& via, const NetForm& form);
/// The longest time for which a stream over two links of a gigabit stood still while one was cut
/// and came back, in a lab of its own. `silent`: packets vanish instead, and the interfaces stay
/// up.
[[nodiscard]] Probe via_net_stall(const ViaTool& via, bool silent);

}  // namespace via::bench
