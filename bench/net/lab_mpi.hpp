// SPDX-License-Identifier: BSD-3-Clause
// Open MPI over TCP, with a rank in each of two hosts of a lab.
#pragma once

#include "lab/lab.hpp"
#include "mpi.hpp"

namespace via::bench {

/// `open_mpi` is compiled. `folder`: where a script goes by which Open MPI enters the other host;
/// its path has no blanks. `via`: the program. The lab must be there when a value is taken.
[[nodiscard]] Mpi mpi_between_hosts(const Mpi& open_mpi, const lab::Lab* lab,
                                    const std::string& folder, const std::string& via);

}  // namespace via::bench
