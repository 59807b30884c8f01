// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/gauges.hpp"

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace via::mvich {
namespace {

/// All devices of the process, and what those that are closed have counted.
struct Shares {
    std::mutex mutex;
    std::vector<const GaugeShare*> open;
    Gauges closed;
    pid_t process = 0;
};

// Never destroyed: a device may outlive everything else.
Shares& shares() {
    static auto* const all = new Shares;
    return *all;
}

void add_counts(Gauges& to, const Gauges& from) noexcept {
    to.registration_hits += from.registration_hits;
    to.registration_misses += from.registration_misses;
    to.registration_refused += from.registration_refused;
    to.registration_evicted += from.registration_evicted;
}

}  // namespace

GaugeShare::GaugeShare(base::MessageCounters& page) : page_(page), owner_(getpid()) {
    Shares& all = shares();
    const std::lock_guard guard(all.mutex);
    if (all.process != owner_) {
        all.open.clear();
        all.closed = {};
        all.process = owner_;
    }
    all.open.push_back(this);
    write(page_);
}

GaugeShare::~GaugeShare() {
    Shares& all = shares();
    const std::lock_guard guard(all.mutex);
    std::erase(all.open, this);
    if (owner_ != getpid()) return;
    add_counts(all.closed, last_);
    write(page_);
}

void GaugeShare::tell(const Gauges& now) noexcept {
    Shares& all = shares();
    const std::lock_guard guard(all.mutex);
    last_ = now;
    if (owner_ == all.process) write(page_);
}

void GaugeShare::write(base::MessageCounters& page) noexcept {
    const Shares& all = shares();
    Gauges sum = all.closed;
    for (const GaugeShare* share : all.open) {
        const Gauges& each = share->last_;
        sum.unexpected_now += each.unexpected_now;
        sum.vbufs_in_use += each.vbufs_in_use;
        sum.vbuf_regions += each.vbuf_regions;
        sum.registered_bytes += each.registered_bytes;
        add_counts(sum, each);
        sum.connections_in_host += each.connections_in_host;
        sum.connections_between_hosts += each.connections_between_hosts;
        sum.least_credits = std::min(sum.least_credits, each.least_credits);
    }
    const bool known = sum.least_credits != Gauges{}.least_credits;
    page.devices.set(all.open.size());
    page.unexpected_now.set(sum.unexpected_now);
    page.vbufs_in_use.set(sum.vbufs_in_use);
    page.vbuf_regions.set(sum.vbuf_regions);
    page.registered_bytes.set(sum.registered_bytes);
    page.registration_hits.set(sum.registration_hits);
    page.registration_misses.set(sum.registration_misses);
    page.registration_refused.set(sum.registration_refused);
    page.registration_evicted.set(sum.registration_evicted);
    page.connections_in_host.set(sum.connections_in_host);
    page.connections_between_hosts.set(sum.connections_between_hosts);
    page.least_credits.set(known ? sum.least_credits : 0);
}

}  // namespace via::mvich
