// SPDX-License-Identifier: BSD-3-Clause
// What the kernel says of the mapping in which an address lies (/proc/self/smaps).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace via::test {

/// The rest of the line "NAME:..."; empty if nothing is said.
inline std::string mapping_field(const void* address, const std::string& name) {
    std::ifstream file("/proc/self/smaps");
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    bool here = false;
    for (std::string line; std::getline(file, line);) {
        std::uintptr_t from = 0;
        std::uintptr_t to = 0;
        char dash = 0;
        std::istringstream text(line);
        if (text >> std::hex >> from >> dash >> to && dash == '-')
            here = from <= wanted && wanted < to;
        else if (here && line.starts_with(name + ":"))
            return line.substr(name.size() + 1);
    }
    return {};
}

/// Of all of that mapping.
inline std::size_t huge_bytes_at(const void* address) {
    return std::strtoull(mapping_field(address, "AnonHugePages").c_str(), nullptr, 10) * 1024;
}

}  // namespace via::test
