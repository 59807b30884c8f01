// SPDX-License-Identifier: BSD-3-Clause
// A descriptor that may lie in the output queues of several processes at once.
#pragma once

#include <memory>
#include <utility>

#include "base/fd.hpp"

namespace via::ka {

using SharedFd = std::shared_ptr<const base::UniqueFd>;

[[nodiscard]] inline SharedFd share(base::UniqueFd fd) {
    return std::make_shared<const base::UniqueFd>(std::move(fd));
}

}  // namespace via::ka
