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
    return peer << context_bits_;
}

void AddressBook::put(Peer peer, const HostPort& address) {
    const std::lock_guard lock(mutex_);
    peer >>= context_bits_;
    if (peer >= entries_.size()) entries_.resize(peer + 1);
    by_address_.emplace(address, peer);
    if (entries_[peer] && *entries_[peer] != address) by_address_.erase({*entries_[peer], peer});
    entries_[peer] = address;
    version_.fetch_add(1, std::memory_order_release);
}

bool AddressBook::remove(Peer peer) {
    const std::lock_guard lock(mutex_);
    peer >>= context_bits_;
    if (peer >= entries_.size() || !entries_[peer]) return false;
    free_.push(peer);
    by_address_.erase({*entries_[peer], peer});
    entries_[peer].reset();
    version_.fetch_add(1, std::memory_order_release);
    return true;
}

std::optional<HostPort> AddressBook::find(Peer peer) const {
    const std::lock_guard lock(mutex_);
    const Peer place = peer >> context_bits_;
    if (place >= entries_.size() || !entries_[place]) return std::nullopt;
    HostPort address = *entries_[place];
    address.port = static_cast<std::uint16_t>(address.port + (peer - (place << context_bits_)));
    return address;
}

std::optional<Peer> AddressBook::find(const HostPort& address) const {
    const std::lock_guard lock(mutex_);
    HostPort first = address;
    for (unsigned context = 0; context < 1U << context_bits_; ++context) {
        const auto found = by_address_.lower_bound({first, 0});
        if (found != by_address_.end() && found->first == first)
            return found->second << context_bits_;
        if (first.port-- == 0) break;
    }
    return std::nullopt;
}

std::vector<AddressBook::Entry> AddressBook::entries() const {
    const std::lock_guard lock(mutex_);
    std::vector<Entry> all;
    all.reserve(by_address_.size());
    for (Peer peer = 0; peer < entries_.size(); ++peer)
        if (entries_[peer]) all.push_back({peer << context_bits_, *entries_[peer]});
    return all;
}

}  // namespace via::mvich
