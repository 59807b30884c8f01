// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/net_poll_group.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>

#include "na/net/net_endpoint.hpp"

namespace via::na::net {
namespace {

/// So many are polled without asking the kernel which have packets.
constexpr std::size_t few = 2;
/// All are looked at this often, for what is due.
constexpr std::uint32_t sweep_interval = 256;

}  // namespace

void NetPollGroup::join(NetEndpoint& endpoint) {
    const std::lock_guard guard(mutex_);
    members_.push_back(&endpoint);
    if (members_.size() <= few || asks_kernel()) return;
    // From now on it is worth a descriptor. Without one, all are polled.
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) return;
    file_ = base::UniqueFd(epoll);
    epoll_.store(epoll, std::memory_order_release);
    for (NetEndpoint* member : members_)
        if (member->live()) member->watch_in(epoll, true);
}

void NetPollGroup::leave(NetEndpoint& endpoint) {
    const std::lock_guard guard(mutex_);
    std::erase(members_, &endpoint);
}

void NetPollGroup::connected(NetEndpoint& endpoint) {
    live_members_.fetch_add(1, std::memory_order_release);
    if (const int epoll = epoll_.load(std::memory_order_acquire); epoll >= 0)
        endpoint.watch_in(epoll, true);
}

void NetPollGroup::disconnected(NetEndpoint& endpoint) {
    live_members_.fetch_sub(1, std::memory_order_relaxed);
    if (const int epoll = epoll_.load(std::memory_order_acquire); epoll >= 0)
        endpoint.watch_in(epoll, false);
}

bool NetPollGroup::poll() {
    if (live_members_.load(std::memory_order_relaxed) == 0) return false;
    const std::lock_guard guard(mutex_);
    const bool all = members_.size() <= few || !asks_kernel() || ++polls_ % sweep_interval == 0;
    bool any = false;
    if (!all) {
        std::array<epoll_event, 64> events;
        const int ready = epoll_wait(epoll_.load(), events.data(), events.size(), 0);
        for (int i = 0; i < ready; ++i) {
            // It may have left since the kernel was asked.
            auto* endpoint =
                static_cast<NetEndpoint*>(events[static_cast<std::size_t>(i)].data.ptr);
            if (std::find(members_.begin(), members_.end(), endpoint) == members_.end()) continue;
            endpoint->owner().progress();
            any = true;
        }
    }
    for (NetEndpoint* endpoint : members_) {
        if (!endpoint->live() || (!all && !endpoint->busy())) continue;
        endpoint->owner().progress();
        any = true;
    }
    return any;
}

void NetPollGroup::arm(Wakes wakes) {
    const std::lock_guard guard(mutex_);
    for (NetEndpoint* endpoint : members_)
        if (endpoint->live()) endpoint->want_attention(wakes);
}

}  // namespace via::na::net
