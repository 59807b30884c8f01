// SPDX-License-Identifier: BSD-3-Clause
// Sizes from the command line: a list that is accepted is neither empty nor endless, and each size
// reads back as itself.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cpu_choice.hpp"
#include "size_list.hpp"

using namespace via::tool;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto sizes = parse_size_list(text)) {
        if (sizes.value().empty() || sizes.value().size() > max_sizes) std::abort();
        for (const std::uint64_t bytes : sizes.value())
            if (parse_size(format_size(bytes)).value() != bytes) std::abort();
    }
    if (const auto cpus = parse_cpus(text, {{0, 0, 0}, {1, 1, 0}}))
        if (cpus.value().first.has_value() != cpus.value().second.has_value()) std::abort();
    return 0;
}
