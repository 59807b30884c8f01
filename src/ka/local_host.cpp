// SPDX-License-Identifier: BSD-3-Clause
#include "ka/local_host.hpp"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace via::ka {
namespace {

/// Interfaces come and go; asking the kernel for each request would be dear.
constexpr base::Nanoseconds refresh_interval = 100'000'000;

}  // namespace

void LocalHost::refresh(base::Nanoseconds now) {
    if (!fresh_until_.expired(now)) return;
    fresh_until_ = base::Deadline::at(now + refresh_interval);
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return;  // what was known stays
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
    interfaces_.clear();
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr) continue;
        AgentAddress address;
        address.port = port_;
        if (each->ifa_addr->sa_family == AF_INET) {
            sockaddr_in in{};
            std::memcpy(&in, each->ifa_addr, sizeof in);
            address.family = 4;
            std::memcpy(address.ip.data(), &in.sin_addr, 4);
        } else if (each->ifa_addr->sa_family == AF_INET6) {
            sockaddr_in6 in{};
            std::memcpy(&in, each->ifa_addr, sizeof in);
            address.family = 6;
            std::memcpy(address.ip.data(), &in.sin6_addr, 16);
        } else {
            continue;
        }
        interfaces_.push_back(undressed(address));
    }
}

std::vector<AgentAddress> LocalHost::addresses(base::Nanoseconds now) {
    refresh(now);
    std::vector<AgentAddress> result;
    std::copy_if(interfaces_.begin(), interfaces_.end(), std::back_inserter(result),
                 [](const AgentAddress& address) {
                     return !address.is_loopback() && !address.is_link_local();
                 });
    return result;
}

bool LocalHost::is_here(const AgentAddress& address, base::Nanoseconds now) {
    if (address.port != 0 && address.port != port_) return false;
    if (address.is_loopback()) return true;
    refresh(now);
    return std::any_of(interfaces_.begin(), interfaces_.end(),
                       [&](const AgentAddress& own) { return own.same_host(address); });
}

NetAddress LocalHost::canonical(const NetAddress& address, base::Nanoseconds now) {
    const auto host = agent_address(address);
    if (!host || !is_here(*host, now)) return address;
    NetAddress result = address;
    set_host(result, own_);
    return result;
}

std::optional<AgentAddress> LocalHost::elsewhere(const NetAddress& address, base::Nanoseconds now) {
    auto host = agent_address(address);
    if (!host || is_here(*host, now)) return {};
    if (host->port == 0) host->port = port_;
    return host;
}

}  // namespace via::ka
