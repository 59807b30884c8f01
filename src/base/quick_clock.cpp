// SPDX-License-Identifier: BSD-3-Clause
#include "base/quick_clock.hpp"

#if defined(__x86_64__)

#include <fcntl.h>
#include <unistd.h>

#include <string_view>

#include "base/fd.hpp"

namespace via::base {

bool counter_is_clock() noexcept {
    static const bool is = [] {
        const UniqueFd file(
            ::open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                   O_RDONLY | O_CLOEXEC));
        char text[16] = {};
        if (!file.valid()) return false;
        const ssize_t bytes = ::read(file.get(), text, sizeof text);
        return bytes > 0 && std::string_view(text, static_cast<std::size_t>(bytes)) == "tsc\n";
    }();
    return is;
}

}  // namespace via::base

#endif
