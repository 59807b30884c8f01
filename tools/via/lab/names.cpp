// SPDX-License-Identifier: BSD-3-Clause
#include "names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>

namespace via::lab {
namespace {

constexpr std::string_view prefix = "via-lab-";

}  // namespace

bool valid_lab_name(std::string_view name) {
    const auto good = [](char one) {
        return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') ||
               (one >= '0' && one <= '9') || one == '_';
    };
    return !name.empty() && name.size() <= 24 && std::all_of(name.begin(), name.end(), good);
}

std::string host_name(unsigned host) {
    return std::string(1, static_cast<char>('a' + host));
}

std::optional<unsigned> host_number(std::string_view name) {
    if (name.size() != 1 || name[0] < 'a' || name[0] >= static_cast<char>('a' + most_hosts))
        return std::nullopt;
    return static_cast<unsigned>(name[0] - 'a');
}

std::string space_name(std::string_view lab, std::string_view host) {
    return fmt::format("{}{}-{}", prefix, lab, host);
}

std::string space_path(std::string_view space) {
    return fmt::format("/run/netns/{}", space);
}

std::string space_etc_folder(std::string_view space) {
    return fmt::format("/etc/netns/{}", space);
}

std::string device_name(unsigned link) {
    return fmt::format("link{}", link);
}

std::string bridge_name(unsigned link) {
    return fmt::format("bridge{}", link);
}

std::string port_name(unsigned link, unsigned host) {
    return fmt::format("port{}{}", link, host_name(host));
}

std::string relay_device_name(unsigned link) {
    return fmt::format("relay{}", link);
}

std::string inject_device_name(unsigned link, unsigned host) {
    return fmt::format("inject{}{}", link, host_name(host));
}

std::string relay_process_name(unsigned link) {
    return fmt::format("via-relay{}", link);
}

std::string ipv4_address(unsigned link, unsigned host) {
    return fmt::format("10.77.{}.{}", link, host + 1);
}

std::string ipv6_address(unsigned link, unsigned host) {
    return fmt::format("fd77:{:x}::{:x}", link, host + 1);
}

std::optional<SpaceName> parse_space_name(std::string_view space) {
    if (!space.starts_with(prefix)) return std::nullopt;
    space.remove_prefix(prefix.size());
    const std::size_t dash = space.rfind('-');
    if (dash == std::string_view::npos) return std::nullopt;
    SpaceName name{std::string(space.substr(0, dash)), std::string(space.substr(dash + 1))};
    if (!valid_lab_name(name.lab)) return std::nullopt;
    if (name.host != wire && !host_number(name.host)) return std::nullopt;
    return name;
}

std::vector<SpaceName> present_spaces() {
    std::vector<SpaceName> spaces;
    std::error_code error;
    for (std::filesystem::directory_iterator entry("/run/netns", error), end;
         !error && entry != end; entry.increment(error))
        if (auto name = parse_space_name(entry->path().filename().string()))
            spaces.push_back(std::move(*name));
    std::sort(spaces.begin(), spaces.end(), [](const SpaceName& one, const SpaceName& other) {
        return std::tie(one.lab, one.host) < std::tie(other.lab, other.host);
    });
    return spaces;
}

}  // namespace via::lab
