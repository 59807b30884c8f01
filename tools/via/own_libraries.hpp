// SPDX-License-Identifier: BSD-3-Clause
// Where the libraries lie that belong to this program and that others load: libfabric its provider,
// Open MPI its component. In the build tree they lie in folders of libraries, installed in ones of
// their own.
#pragma once

#include <string>

#include "base/result.hpp"

namespace via::tool {

/// The folder of libvia-fi.so.
[[nodiscard]] base::Result<std::string> find_provider_folder();

/// Where the Open MPI of this launcher is to look for components, ours among them, as its parameter
/// mca_base_component_path wants it. Fails if ours is not there or is for another Open MPI.
[[nodiscard]] base::Result<std::string> find_component_path(const std::string& launcher);

}  // namespace via::tool
