// SPDX-License-Identifier: BSD-3-Clause
// The files of the page, which are part of the program (see embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace via::tool::web {

struct PageFile {
    std::string_view name;  ///< "page.js"
    std::string_view text;
};
[[nodiscard]] std::span<const PageFile> page_files();

}  // namespace via::tool::web
