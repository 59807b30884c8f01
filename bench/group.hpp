// SPDX-License-Identifier: BSD-3-Clause
// What rows and curves belong to.
#pragma once

#include <cstdint>
#include <string_view>

namespace via::bench {

/// Messages of VIPL in a host or between hosts, those of MPI, or the simulator.
enum class Group : std::uint8_t { InHost, BetweenHosts, Mpi, Simulator };

inline constexpr Group all_groups[] = {Group::InHost, Group::BetweenHosts, Group::Mpi,
                                       Group::Simulator};

/// "shm", "net", "mpi" and "sim", as the command line calls them.
[[nodiscard]] std::string_view group_name(Group group);

}  // namespace via::bench
