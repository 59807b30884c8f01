// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/address_book.hpp"

#include "base/undo.hpp"

namespace via::mvich {

Peer AddressBook::insert(const HostPort& address) {
    const std::lock_guard lock(mutex_);
    const bool again = !free_.empty();
    const Peer peer = again ? free_.top() : static_cast<Peer>(entries_.size());
    if (!again) entries_.emplace_back();
    base::Undo shrink([&]() noexcept {
        if (!again) entries_.pop_back();
    });
    by_address_.emplace(address, peer);
    shrink.keep();
    entries_[peer] = address;
    if (again) free_.pop();
    version_.fetch_add(1, std::memory_order_release);
    return peer;
}

bool AddressBook::remove(Peer peer) {
    const std::lock_guard lock(mutex_);
    if (peer >= entries_.size() || !entries_[peer]) return false;
    free_.push(peer);
    by_address_.erase({*entries_[peer], peer});
    entries_[peer].reset();
    version_.fetch_add(1, std::memory_order_release);
    return true;
}

std::optional<HostPort> AddressBook::find(Peer peer) const {
    const std::lock_guard lock(mutex_);
    return peer < entries_.size() ? entries_[peer] : std::nullopt;
}

std::optional<Peer> AddressBook::find(const HostPort& address) const {
    const std::lock_guard lock(mutex_);
    const auto found = by_address_.lower_bound({address, 0});
    if (found == by_address_.end() || found->first != address) return std::nullopt;
    return found->second;
}

}  // namespace via::mvich
