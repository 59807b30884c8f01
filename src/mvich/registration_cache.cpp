// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/registration_cache.hpp"

#include <bit>
#include <iterator>
#include <map>
#include <new>

namespace via::mvich {

namespace {

/// To move memory to huge pages takes as long as some of its transfers, and saves half of each.
constexpr std::uint32_t uses_worth_favour = 8;

}  // namespace

class RegistrationCache::Entry {
  public:
    std::uintptr_t first = 0;
    std::size_t bytes = 0;
    std::uint32_t handle = 0;
    std::uint32_t users = 0;
    std::uint32_t uses = 1;
    bool superseded = false;
    // Of those that are not in use, in the order of their last use.
    Entry* older = nullptr;
    Entry* newer = nullptr;

    [[nodiscard]] bool covers(std::uintptr_t address, std::size_t wanted) const noexcept {
        return address >= first && address - first <= bytes && wanted <= bytes - (address - first);
    }
};

struct RegistrationCache::Parts {
    Parts(Registrar& the_registrar, const Limits& the_limits, Counts& the_counts) noexcept
        : registrar(the_registrar), limits(the_limits), counts(the_counts) {}

    /// The entry that begins last at or before the address reaches farthest of all such: none in
    /// `ranges` covers another one.
    [[nodiscard]] Entry* find(std::uintptr_t address, std::size_t bytes) noexcept {
        const auto after = ranges.upper_bound(address);
        if (after == ranges.begin()) return nullptr;
        Entry& entry = std::prev(after)->second;
        return entry.covers(address, bytes) ? &entry : nullptr;
    }

    void use(Entry& entry) noexcept {
        if (entry.users++ == 0) unlink(entry);
        // Again now and then: pages that are on their way somewhere can not be moved.
        if (++entry.uses >= uses_worth_favour && std::has_single_bit(entry.uses))
            registrar.favour(reinterpret_cast<void*>(entry.first), entry.bytes);
    }
    void append(Entry& entry) noexcept {
        entry.older = newest;
        entry.newer = nullptr;
        (newest != nullptr ? newest->newer : oldest) = &entry;
        newest = &entry;
    }
    void unlink(Entry& entry) noexcept {
        (entry.older != nullptr ? entry.older->newer : oldest) = entry.newer;
        (entry.newer != nullptr ? entry.newer->older : newest) = entry.older;
    }

    void deregister(const Entry& entry) noexcept {
        registrar.deregister(reinterpret_cast<void*>(entry.first), entry.handle);
        registered_bytes -= entry.bytes;
    }
    /// The oldest, of which there is one.
    void evict() noexcept {
        Entry& entry = *oldest;
        unlink(entry);
        deregister(entry);
        ++counts.evicted;
        ranges.erase(entry.first);
    }
    [[nodiscard]] std::size_t entries() const noexcept { return ranges.size() + superseded.size(); }
    /// So that as much can be added, as far as entries are in use.
    void make_room(std::size_t more_entries, std::size_t more_bytes) noexcept {
        while (oldest != nullptr &&
               (entries() + more_entries > limits.entries || registered_bytes > limits.bytes ||
                more_bytes > limits.bytes - registered_bytes))
            evict();
    }

    /// Takes all that the range covers out of `ranges`.
    void supersede(std::uintptr_t first, std::size_t bytes) noexcept {
        auto each = ranges.lower_bound(first);
        while (each != ranges.end() && each->first - first <= bytes &&
               each->second.bytes <= bytes - (each->first - first)) {
            Entry& entry = each->second;
            if (entry.users != 0) {
                entry.superseded = true;
                superseded.insert(ranges.extract(each++));
                continue;
            }
            unlink(entry);
            deregister(entry);
            ++counts.evicted;
            each = ranges.erase(each);
        }
    }
    void remove_superseded(Entry& entry) noexcept {
        auto [each, end] = superseded.equal_range(entry.first);
        while (each != end && &each->second != &entry)
            ++each;
        deregister(entry);
        superseded.erase(each);
    }

    [[nodiscard]] base::Result<std::uint32_t> register_range(std::uintptr_t first,
                                                             std::size_t bytes) {
        auto* address = reinterpret_cast<void*>(first);
        base::Result<std::uint32_t> handle = registrar.register_memory(address, bytes);
        if (handle || handle.error().code != base::Code::OutOfResources || oldest == nullptr)
            return handle;
        // A limit of the system, which our own do not know. Room for this one, and once more.
        for (std::size_t given_back = 0; oldest != nullptr && given_back < bytes;) {
            given_back += oldest->bytes;
            evict();
        }
        return registrar.register_memory(address, bytes);
    }

    [[nodiscard]] Entry* add(std::uintptr_t first, std::size_t bytes) {
        make_room(1, bytes);
        // The memory for it is taken before anything happens that could not be taken back.
        std::map<std::uintptr_t, Entry> made;
        Entry& entry = made[first];
        const base::Result<std::uint32_t> handle = register_range(first, bytes);
        if (!handle) return nullptr;
        entry.first = first;
        entry.bytes = bytes;
        entry.handle = handle.value();
        entry.users = 1;
        supersede(first, bytes);
        ranges.insert(made.extract(made.begin()));
        registered_bytes += bytes;
        return &entry;
    }

    Registrar& registrar;
    Limits limits;
    Counts& counts;
    std::map<std::uintptr_t, Entry> ranges;           // by first address
    std::multimap<std::uintptr_t, Entry> superseded;  // in use, and covered by a later one
    std::size_t registered_bytes = 0;
    Entry* oldest = nullptr;
    Entry* newest = nullptr;
};

RegistrationCache::RegistrationCache(Registrar& registrar, const Limits& limits)
    : parts_(std::make_unique<Parts>(registrar, limits, counts_)) {}

RegistrationCache::~RegistrationCache() {
    for (const auto& [first, entry] : parts_->ranges)
        parts_->deregister(entry);
    for (const auto& [first, entry] : parts_->superseded)
        parts_->deregister(entry);
}

RegistrationCache::Entry* RegistrationCache::acquire(const void* address,
                                                     std::size_t bytes) noexcept {
    const auto first = reinterpret_cast<std::uintptr_t>(address);
    if (Entry* entry = parts_->find(first, bytes)) {
        ++counts_.hits;
        parts_->use(*entry);
        return entry;
    }
    ++counts_.misses;
    Entry* entry = nullptr;
    if (bytes <= ~std::uintptr_t{0} - first) {
        try {
            entry = parts_->add(first, bytes);
        } catch (const std::bad_alloc&) {
            entry = nullptr;
        }
    }
    if (entry == nullptr) ++counts_.refused;
    return entry;
}

void RegistrationCache::release(Entry* entry) noexcept {
    if (--entry->users != 0) return;
    if (entry->superseded) {
        parts_->remove_superseded(*entry);
        return;
    }
    parts_->append(*entry);
    parts_->make_room(0, 0);
}

std::uint32_t RegistrationCache::handle_of(const Entry* entry) noexcept {
    return entry->handle;
}

std::size_t RegistrationCache::registered_bytes() const noexcept {
    return parts_->registered_bytes;
}

std::size_t RegistrationCache::entries() const noexcept {
    return parts_->entries();
}

}  // namespace via::mvich
