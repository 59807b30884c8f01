// SPDX-License-Identifier: BSD-3-Clause
// Peers by number: what MPI's ranks and libfabric's address vectors are down here. One book may
// serve several endpoints. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "mvich/order.hpp"

namespace via::mvich {

/// An endpoint's name: a host's address and a number that is unique there.
struct HostPort {
    std::array<std::uint8_t, 16> host{};
    std::uint8_t host_bytes = 4;  ///< 4 or 16
    std::uint16_t port = 0;
    // clang-tidy 14 takes the zero of what the compiler writes for a pointer.
    // NOLINTNEXTLINE(modernize-use-nullptr)
    friend auto operator<=>(const HostPort&, const HostPort&) = default;
};

class AddressBook {
  public:
    /// A peer with several receive contexts has them on ports one behind the other. Its number is
    /// that of its first; the context that is meant stands in the lowest bits.
    explicit AddressBook(unsigned context_bits = 0) : context_bits_(context_bits) {}
    [[nodiscard]] unsigned context_bits() const noexcept { return context_bits_; }

    /// Takes the lowest free number, also if the address is in the book already. Can throw
    /// std::bad_alloc; nothing has happened then.
    [[nodiscard]] Peer insert(const HostPort& address);
    /// For a book that is a copy of another: this number becomes this address's. Such a book is not
    /// inserted into.
    void put(Peer peer, const HostPort& address);
    /// False: there is no such peer.
    bool remove(Peer peer);
    [[nodiscard]] std::optional<HostPort> find(Peer peer) const;
    /// The lowest number of an address. All contexts of a peer have its number.
    [[nodiscard]] std::optional<Peer> find(const HostPort& address) const;
    struct Entry {
        Peer peer;
        HostPort address;
    };
    /// All that stand in it, by number.
    [[nodiscard]] std::vector<Entry> entries() const;
    /// Counts insertions and removals, so that others can tell when to look again. Takes no lock.
    [[nodiscard]] std::uint64_t version() const noexcept {
        return version_.load(std::memory_order_acquire);
    }

  private:
    const unsigned context_bits_;
    mutable std::mutex mutex_;
    // By number without the bits of the context, as all of these.
    std::vector<std::optional<HostPort>> entries_;
    std::set<std::pair<HostPort, Peer>> by_address_;
    // The numbers below entries_.size() that are free: lowest first.
    std::priority_queue<Peer, std::vector<Peer>, std::greater<>> free_;
    std::atomic<std::uint64_t> version_ = 1;
};

}  // namespace via::mvich
