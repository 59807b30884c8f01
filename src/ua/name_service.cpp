// SPDX-License-Identifier: BSD-3-Clause
#include "ua/name_service.hpp"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/log.hpp"
#include "base/settings.hpp"

namespace via::ua {
namespace {

/// Six numbers of one or two hexadecimal digits, and nothing else.
bool parse_address(std::string_view text, HostAddress& address) {
    std::array<std::uint8_t, 6> bytes{};
    const char* at = text.data();
    const char* const end = text.data() + text.size();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (i != 0 && (at == end || *at++ != ':')) return false;
        const char* const digits_end = at + std::min<std::ptrdiff_t>(end - at, 2);
        const auto parsed = std::from_chars(at, digits_end, bytes[i], 16);
        if (parsed.ec != std::errc{}) return false;
        at = parsed.ptr;
    }
    address = bytes;
    return at == end;
}

std::string host_name() {
    char name[256] = {};
    gethostname(name, sizeof name - 1);
    return name;
}

std::string short_name(const std::string& name) {
    return name.substr(0, name.find('.'));
}

/// Is this one of the addresses of this host's interfaces?
bool is_own_interface(const sockaddr* address) {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return false;
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
    for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
        if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != address->sa_family) continue;
        if (address->sa_family == AF_INET &&
            std::memcmp(&reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr,
                        &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4) == 0)
            return true;
        if (address->sa_family == AF_INET6 &&
            std::memcmp(&reinterpret_cast<const sockaddr_in6*>(i->ifa_addr)->sin6_addr,
                        &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16) == 0)
            return true;
    }
    return false;
}

bool resolves_to_own_host(const std::string& name) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return false;
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
    for (const addrinfo* i = found; i != nullptr; i = i->ai_next) {
        if (i->ai_family == AF_INET) {
            const auto* in = reinterpret_cast<const sockaddr_in*>(i->ai_addr);
            if ((ntohl(in->sin_addr.s_addr) >> 24) == 127) return true;
        }
        if (is_own_interface(i->ai_addr)) return true;
    }
    return false;
}

}  // namespace

std::vector<HostEntry> parse_hosts(std::string_view text, std::vector<std::string>& problems) {
    std::vector<HostEntry> entries;
    std::istringstream lines{std::string(text)};
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
        line = line.substr(0, line.find('#'));
        std::istringstream words(line);
        std::string name, address_text, rest;
        if (!(words >> name)) continue;
        HostEntry entry{name, {}};
        if (!(words >> address_text) || !parse_address(address_text, entry.address) ||
            (words >> rest)) {
            problems.push_back("line " + std::to_string(number) +
                               ": expected a name and an address like 02:00:00:00:00:01");
            continue;
        }
        entries.push_back(std::move(entry));
    }
    return entries;
}

std::vector<HostEntry> NameService::read_file() const {
    const std::string& path = base::Settings::get().text("VIA_HOSTS_FILE");
    std::ifstream file(path);
    if (!file) return {};
    std::ostringstream text;
    text << file.rdbuf();
    std::vector<std::string> problems;
    auto entries = parse_hosts(text.str(), problems);
    for (const std::string& problem : problems)
        base::log(base::LogLevel::Warning, path + ", " + problem);
    return entries;
}

base::Result<HostAddress> NameService::address_of(const std::string& name,
                                                  std::uint64_t index) const {
    std::uint64_t seen = 0;
    for (const HostEntry& entry : read_file())
        if (entry.name == name && seen++ == index) return entry.address;
    if (seen == 0 && index == 0) {
        const std::string own = host_name();
        if (name == own || name == short_name(own) || name == "localhost" ||
            resolves_to_own_host(name))
            return own_;
    }
    return base::Result<HostAddress>(
        base::Code::NameService,
        seen == 0 ? "the host '" + name + "' is neither in " +
                        base::Settings::get().text("VIA_HOSTS_FILE") + " nor this host"
                  : "the host '" + name + "' has only " + std::to_string(seen) + " addresses");
}

base::Result<std::string> NameService::name_of(const HostAddress& address) const {
    for (const HostEntry& entry : read_file())
        if (entry.address == address) return entry.name;
    if (address == own_) return short_name(host_name());
    return base::Result<std::string>(base::Code::NameService, "no host with this address is known");
}

}  // namespace via::ua
