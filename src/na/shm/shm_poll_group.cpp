// SPDX-License-Identifier: BSD-3-Clause
// Polling many endpoints at the cost of the active ones. Active endpoints are looked at directly;
// idle ones have asked their peers to ring, and a ring makes them active again.
#include <algorithm>
#include <bit>

#include "na/shm/shm_nic_agent.hpp"

namespace via::na::shm {
namespace {

constexpr std::uint32_t polls_per_sweep = 4096;
constexpr std::uint32_t polls_per_look = 64;

void remove_duplicates(std::vector<ShmEndpoint*>& endpoints) {
    std::sort(endpoints.begin(), endpoints.end());
    endpoints.erase(std::unique(endpoints.begin(), endpoints.end()), endpoints.end());
}

}  // namespace

bool ShmPollGroup::poll() {
    // Whoever holds the lock is polling this group already.
    bool as_owner;
    if (!lock_.try_lock(as_owner)) return false;
    if (agent_.any_mark()) agent_.collect_marks(false);
    bool found = any_woken_.load(std::memory_order_relaxed) && take_woken();
    for (Active& active : active_) {
        if (!active.endpoint->arrival_visible()) continue;
        active.last_arrival = sweeps_;
        active.endpoint->owner().progress();
        found = true;
    }
    ++polls_;
    // Also while others keep this group busy.
    if (polls_ % polls_per_look == 0) {
        bool shares = false;
        for (Active& active : active_) {
            active.endpoint->owner().progress();  // peer's state, unfinished sends
            shares = shares || active.endpoint->shares_core();
        }
        shares_core_.store(shares, std::memory_order_relaxed);
    }
    if (polls_ >= polls_per_sweep) sweep();
    lock_.unlock(as_owner);
    return found;
}

void ShmPollGroup::join() {
    const base::BiasedGuard guard(lock_);
    const std::size_t members = std::bit_ceil(members_ + 1);
    active_.reserve(members);
    silent_.reserve(members);
    taken_.reserve(2 * members);
    const base::SpinGuard woken_guard(woken_lock_);
    woken_.reserve(2 * members);
    ++members_;
}

void ShmPollGroup::woken(ShmEndpoint& endpoint) noexcept {
    const base::SpinGuard guard(woken_lock_);
    // Peers may ring for long while nobody polls this group.
    if (woken_.size() == woken_.capacity()) remove_duplicates(woken_);
    woken_.push_back(&endpoint);
    any_woken_.store(true, std::memory_order_release);
}

bool ShmPollGroup::take_woken() {
    taken_.clear();
    {
        const base::SpinGuard guard(woken_lock_);
        taken_.swap(woken_);
        any_woken_.store(false, std::memory_order_relaxed);
    }
    remove_duplicates(taken_);
    for (ShmEndpoint* endpoint : taken_) {
        const bool known = std::any_of(active_.begin(), active_.end(),
                                       [&](const Active& a) { return a.endpoint == endpoint; });
        if (!known) {
            active_.push_back({endpoint, sweeps_});
            std::erase(silent_, endpoint);
        }
        // A ring may also say that the peer has closed, which no frame shows.
        endpoint->owner().progress();
    }
    return !taken_.empty();
}

/// Endpoints that were silent since the last sweep are left to ring, unless they wait for
/// something that no ring tells of.
void ShmPollGroup::sweep() {
    polls_ = 0;
    ++sweeps_;
    if (active_.size() <= 1) return;
    const auto silent_from = std::partition(active_.begin(), active_.end(), [&](const Active& a) {
        return sweeps_ - a.last_arrival <= 1 || !a.endpoint->may_be_left_to_ring();
    });
    if (silent_from == active_.end()) return;
    // If nobody but the service thread polls, it must be woken for them, too.
    const Wakes wakes = armed_ == Wakes::Service ? Wakes::Service : Wakes::Sleeper;
    for (auto i = silent_from; i != active_.end(); ++i)
        i->endpoint->want_attention(wakes);
    asymmetric_barrier();
    // What arrived before the peer could see that it must ring keeps the endpoint active.
    const auto quiet_from = std::partition(
        silent_from, active_.end(), [](const Active& a) { return a.endpoint->arrival_visible(); });
    for (auto i = quiet_from; i != active_.end(); ++i)
        silent_.push_back(i->endpoint);
    active_.erase(quiet_from, active_.end());
}

void ShmPollGroup::arm(Wakes wakes) {
    {
        const base::BiasedGuard guard(lock_);
        armed_ = wakes;
        for (Active& active : active_)
            active.endpoint->want_attention(wakes);
        // The silent ones ring for sleepers already.
        if (wakes == Wakes::Service)
            for (ShmEndpoint* endpoint : silent_)
                endpoint->want_attention(wakes);
    }
    asymmetric_barrier();
}

void ShmPollGroup::remove(ShmEndpoint& endpoint) {
    const base::BiasedGuard guard(lock_);
    std::erase_if(active_, [&](const Active& a) { return a.endpoint == &endpoint; });
    std::erase(silent_, &endpoint);
    const base::SpinGuard woken_guard(woken_lock_);
    std::erase(woken_, &endpoint);
}

void ShmPollGroup::leave(ShmEndpoint& endpoint) {
    remove(endpoint);
    const base::BiasedGuard guard(lock_);
    --members_;
}

}  // namespace via::na::shm
