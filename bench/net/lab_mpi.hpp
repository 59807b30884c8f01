// SPDX-License-Identifier: BSD-3-Clause
// Open MPI with a rank in each of two hosts of a lab.
#pragma once

#include "lab/lab.hpp"
#include "mpi.hpp"

namespace via::bench {

/// `open_mpi` is compiled; `via` is the program, by which Open MPI enters the other host; its path
/// has no blanks. Over the first `links` links, by `transport` (arguments of mpirun). The lab must
/// be there when a value is taken.
[[nodiscard]] Mpi mpi_between_hosts(const Mpi& open_mpi, std::string name, const lab::Lab* lab,
                                    const std::string& via, std::vector<std::string> transport,
                                    std::vector<std::string> environment = {});

/// Arguments for Open MPI's own way between hosts.
[[nodiscard]] std::vector<std::string> tcp_transport(unsigned links);

}  // namespace via::bench
