// SPDX-License-Identifier: BSD-3-Clause
// Which Open MPI the components are for: its inner structures differ between series, and it checks
// only what its own interface is called.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "openmpi/open_mpi.hpp"

namespace via::openmpi {

[[nodiscard]] inline base::Result<void> right_open_mpi() {
    constexpr std::string_view built_for = "Open MPI v4.1.";
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    if (std::string_view(text).starts_with(built_for)) return {};
    return base::Result<void>(base::Code::NotSupported,
                              "this component is for Open MPI 4.1, and the program runs with " +
                                  std::string(text, std::string_view(text).find(',')) +
                                  "; run it by libfabric (--mca pml cm --mca mtl ofi)");
}

}  // namespace via::openmpi
