// SPDX-License-Identifier: BSD-3-Clause
// Where the provider for libfabric lies that belongs to this program.
#pragma once

#include <string>

#include "base/result.hpp"

namespace via::tool {

/// In the build tree it lies in the folder of libraries, installed in one of its own.
[[nodiscard]] base::Result<std::string> find_provider_folder();

}  // namespace via::tool
