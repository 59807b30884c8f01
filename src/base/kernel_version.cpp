// SPDX-License-Identifier: BSD-3-Clause
#include "base/kernel_version.hpp"

#include <sys/utsname.h>

#include <cstdio>
#include <utility>

namespace via::base {

bool kernel_is_at_least(unsigned major, unsigned minor) noexcept {
    static const auto version = [] {
        std::pair<unsigned, unsigned> read{0, 0};
        utsname name{};
        if (::uname(&name) != 0 ||
            std::sscanf(name.release, "%u.%u", &read.first, &read.second) != 2)
            return std::pair<unsigned, unsigned>{0, 0};
        return read;
    }();
    return version >= std::pair{major, minor};
}

}  // namespace via::base
