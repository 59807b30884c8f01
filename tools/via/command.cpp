// SPDX-License-Identifier: BSD-3-Clause
#include "command.hpp"

#include <fmt/format.h>
#include <stdio.h>

#include <nlohmann/json.hpp>

namespace via::tool {

int report_failure(const base::Error& error) {
    fflush(stdout);
    fmt::print(stderr, "via: {}\n", error.sentence);
    return status_failed;
}

void print_json(const nlohmann::json& value) {
    fmt::print("{}\n", value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    fflush(stdout);
}

void print_json_line(const nlohmann::json& value) {
    fmt::print("{}\n", value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    fflush(stdout);
}

std::string_view version_text() {
    return VIA_VERSION;
}

}  // namespace via::tool
