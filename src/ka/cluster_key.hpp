// SPDX-License-Identifier: BSD-3-Clause
// The key that the hosts of a cluster share, from a file that only its owner can read or from the
// environment.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "wire/seal.hpp"

namespace via::ka {

/// The file if one is named, else the text, else the key of an open cluster. A file that others can
/// read or that is somebody else's is refused.
[[nodiscard]] base::Result<wire::Key> read_cluster_key(const std::string& file,
                                                       const std::string& text);

}  // namespace via::ka
