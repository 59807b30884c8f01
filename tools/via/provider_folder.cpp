// SPDX-License-Identifier: BSD-3-Clause
#include "provider_folder.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <string_view>
#include <vector>

#include "child_program.hpp"

namespace via::tool {
namespace {

bool holds_provider(const std::filesystem::path& folder) {
    std::error_code error;
    return std::filesystem::exists(folder / "libvia-fi.so", error);
}

}  // namespace

base::Result<std::string> find_provider_folder() {
    std::vector<std::filesystem::path> folders;
    if (const char* given = ::getenv("FI_PROVIDER_PATH")) {
        std::string_view rest = given;
        if (rest.starts_with('@')) rest.remove_prefix(1);
        while (!rest.empty()) {
            const auto end = rest.find(':');
            folders.emplace_back(rest.substr(0, end));
            rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
        }
    }
    const std::filesystem::path own = child::own_folder();
    for (const char* libraries : {"../lib", VIA_LIBRARIES_FROM_PROGRAMS})
        for (const char* folder : {"", "viaduct", "libfabric"})
            folders.push_back(own / libraries / folder);
    for (const std::filesystem::path& folder : folders) {
        if (!holds_provider(folder)) continue;
        std::error_code error;
        const auto whole = std::filesystem::canonical(folder, error);
        return (error ? folder : whole).string();
    }
    return {base::Code::NotFound,
            fmt::format("libvia-fi.so, the provider for libfabric, is not where this program looks "
                        "for it ({}/../lib and FI_PROVIDER_PATH); Debian's package is libvia-fi, a "
                        "build of one's own has it where libfabric-dev is installed",
                        own.string())};
}

}  // namespace via::tool
