// SPDX-License-Identifier: BSD-3-Clause
// Which processors the two sides of a measurement run on.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace via::tool {

/// One processor as far as the choice depends on it.
struct Processor {
    int number = 0;
    int core = 0;     ///< hyperthreads of one core share it
    int package = 0;  ///< socket
};

/// The processors this process may use, with their places from sysfs.
[[nodiscard]] std::vector<Processor> usable_processors();

/// No value: do not pin.
struct CpuPair {
    std::optional<int> first;
    std::optional<int> second;
};

/// Two cores of one package, else two cores, else two hyperthreads, else twice the same one.
[[nodiscard]] CpuPair choose_cpus(const std::vector<Processor>& processors);

/// "A,B", "A" (both there) or "none".
[[nodiscard]] base::Result<CpuPair> parse_cpus(std::string_view text,
                                               const std::vector<Processor>& processors);

[[nodiscard]] base::Result<void> pin_to(std::optional<int> cpu);

/// "cores 0 and 1", "core 0 for both", "cores of the system's choice"
[[nodiscard]] std::string describe(const CpuPair& cpus);

}  // namespace via::tool
