// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/window_table.hpp"

#include <sys/random.h>

#include <algorithm>
#include <random>
#include <utility>

namespace via::mvich {

namespace {

std::uint64_t random_key() {
    std::uint64_t key = 0;
    // Eight bytes come whole or not at all; a signal can not interrupt so few.
    if (::getrandom(&key, sizeof key, 0) == static_cast<ssize_t>(sizeof key)) return key;
    std::random_device device;  // a kernel without getrandom, or a filter that forbids it
    return std::uint64_t{device()} << 32 | device();
}

/// The base may be null: a window may be all of the address space.
void* at(const iovec& piece, std::uint64_t offset) noexcept {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(piece.iov_base) + offset);
}

}  // namespace

bool WindowTable::add(std::uint64_t key, Window window) {
    Entry entry;
    entry.ends.reserve(window.pieces.size());
    for (const iovec& piece : window.pieces) {
        if (__builtin_add_overflow(entry.bytes, std::uint64_t{piece.iov_len}, &entry.bytes))
            return false;
        entry.ends.push_back(entry.bytes);
    }
    std::uint64_t last = 0;
    if (entry.bytes != 0 && __builtin_add_overflow(window.first_address, entry.bytes - 1, &last))
        return false;
    entry.window = std::move(window);
    const std::lock_guard lock(mutex_);
    return windows_.try_emplace(key, std::move(entry)).second;
}

void WindowTable::remove(std::uint64_t key) {
    const std::lock_guard lock(mutex_);
    windows_.erase(key);
}

std::uint64_t WindowTable::unused_key() {
    const std::lock_guard lock(mutex_);
    for (;;) {  // ends: a table with half of all keys does not fit into any memory
        const std::uint64_t key = random_key();
        // The last one says "no key" to libfabric.
        if (key != ~std::uint64_t{0} && !windows_.contains(key)) return key;
    }
}

bool WindowTable::find(const RemotePiece& piece, std::uint32_t right,
                       std::vector<iovec>& memory) const {
    const std::lock_guard lock(mutex_);
    const auto found = windows_.find(piece.key);
    if (found == windows_.end()) return false;
    const Entry& entry = found->second;
    const Window& window = entry.window;
    if ((window.rights & right) != right || piece.address < window.first_address) return false;
    const std::uint64_t offset = piece.address - window.first_address;
    if (offset > entry.bytes || piece.bytes > entry.bytes - offset) return false;

    std::uint64_t left = piece.bytes;
    std::size_t index = static_cast<std::size_t>(
        std::upper_bound(entry.ends.begin(), entry.ends.end(), offset) - entry.ends.begin());
    std::uint64_t skipped = index == entry.ends.size()
                                ? 0
                                : offset - (entry.ends[index] - window.pieces[index].iov_len);
    const std::size_t before = memory.size();
    try {
        for (; left != 0; ++index, skipped = 0) {
            const iovec& part = window.pieces[index];
            const std::uint64_t bytes = std::min<std::uint64_t>(part.iov_len - skipped, left);
            if (bytes != 0) memory.push_back({at(part, skipped), bytes});
            left -= bytes;
        }
    } catch (...) {
        memory.resize(before);
        throw;
    }
    return true;
}

}  // namespace via::mvich
