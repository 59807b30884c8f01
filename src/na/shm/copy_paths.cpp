// SPDX-License-Identifier: BSD-3-Clause
#include "na/shm/copy_paths.hpp"

#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/settings.hpp"

namespace via::na::shm {
namespace {

constexpr std::size_t word = sizeof(std::uint64_t);

}  // namespace

std::size_t last_word_offset(std::uint64_t address, std::size_t bytes) noexcept {
    const std::uint64_t end = address + bytes;
    const std::uint64_t last = (end - 1) & ~static_cast<std::uint64_t>(word - 1);
    return last <= address ? 0 : static_cast<std::size_t>(last - address);
}

AllowedPaths allowed_paths() {
    const std::string& path = base::Settings::get().text("VIA_SHM_PATH");
    AllowedPaths allowed;
    allowed.kmem = path == "auto" || path == "kmem";
    allowed.cma = path == "auto" || path == "cma";
    return allowed;
}

#if defined(__SANITIZE_THREAD__)
// What a peer does by RDMA is ordered with this program by words between the two processes, which
// the tool can not see; it would not see a NIC's accesses either.
[[gnu::noinline]] __attribute__((no_sanitize("thread"))) void copy_for_peer(
    std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    auto* target = reinterpret_cast<volatile std::byte*>(to);
    const auto* source = reinterpret_cast<const volatile std::byte*>(from);
    for (std::size_t i = 0; i < bytes; ++i)
        target[i] = source[i];
}
#else
void copy_for_peer(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    std::memcpy(to, from, bytes);
}
#endif

void copy_ascending(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    // memcpy is free to write its first bytes last, and with `rep movsb` it does.
    constexpr std::size_t piece = 32768;
    for (; bytes > piece; bytes -= piece) {
        copy_for_peer(to, from, piece);
        std::atomic_thread_fence(std::memory_order_release);
        to += piece;
        from += piece;
    }
    copy_for_peer(to, from, bytes);
}

#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread")))
#endif
void copy_ordered(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes == 0) return;
    const std::size_t last = last_word_offset(reinterpret_cast<std::uint64_t>(to), bytes);
    if (last != 0) copy_ascending(to, from, last);
    std::atomic_thread_fence(std::memory_order_release);
    // One store, so that whoever watches the last word sees all of it at once.
    if (bytes - last == word) {
        std::uint64_t value;
        copy_for_peer(reinterpret_cast<std::byte*>(&value), from + last, word);
        *reinterpret_cast<volatile std::uint64_t*>(to + last) = value;
    } else if (bytes - last == 4 && (reinterpret_cast<std::uint64_t>(to + last) & 3) == 0) {
        std::uint32_t value;
        copy_for_peer(reinterpret_cast<std::byte*>(&value), from + last, sizeof value);
        *reinterpret_cast<volatile std::uint32_t*>(to + last) = value;
    } else {
        copy_for_peer(to + last, from + last, bytes - last);
    }
}

bool cma_read(pid_t pid, std::byte* to, std::uint64_t remote_address, std::size_t bytes) noexcept {
    while (bytes != 0) {
        iovec local{to, bytes};
        iovec remote{reinterpret_cast<void*>(remote_address), bytes};
        const ssize_t moved = process_vm_readv(pid, &local, 1, &remote, 1, 0);
        if (moved <= 0) return false;
        to += moved;
        remote_address += static_cast<std::uint64_t>(moved);
        bytes -= static_cast<std::size_t>(moved);
    }
    return true;
}

bool cma_write(pid_t pid, const std::byte* from, std::uint64_t remote_address, std::size_t bytes,
               LastWord last_word) noexcept {
    while (bytes != 0) {
        // Two parts in one call: the kernel copies them one after the other.
        const std::size_t last =
            last_word == LastWord::Last ? last_word_offset(remote_address, bytes) : 0;
        iovec local{const_cast<std::byte*>(from), bytes};
        iovec remote[2] = {{reinterpret_cast<void*>(remote_address), last},
                           {reinterpret_cast<void*>(remote_address + last), bytes - last}};
        const bool split = last != 0;
        const ssize_t moved =
            process_vm_writev(pid, &local, 1, split ? remote : remote + 1, split ? 2 : 1, 0);
        if (moved <= 0) return false;
        from += moved;
        remote_address += static_cast<std::uint64_t>(moved);
        bytes -= static_cast<std::size_t>(moved);
    }
    return true;
}

namespace {
struct ProbeMemory {
    std::uint64_t value = 0;
    std::atomic<std::uint8_t> scratch{0};
};
ProbeMemory& probe_memory() {
    static ProbeMemory& memory = []() -> ProbeMemory& {
        static ProbeMemory made;
        if (getrandom(&made.value, sizeof made.value, 0) != sizeof made.value)
            made.value =
                reinterpret_cast<std::uint64_t>(&made) ^ static_cast<std::uint64_t>(getpid());
        return made;
    }();
    return memory;
}
}  // namespace

ProbeTarget own_probe_target() {
    ProbeMemory& memory = probe_memory();
    return {reinterpret_cast<std::uint64_t>(&memory.value), memory.value,
            reinterpret_cast<std::uint64_t>(&memory.scratch)};
}

ProbeResult probe_cma(pid_t pid, const ProbeTarget& target) noexcept {
    ProbeResult result;
    std::uint64_t seen = 0;
    if (!cma_read(pid, reinterpret_cast<std::byte*>(&seen), target.value_address, sizeof seen) ||
        seen != target.value)
        return result;
    result.read = true;
    const std::byte mark{1};
    result.write = cma_write(pid, &mark, target.scratch_address, 1);
    return result;
}

}  // namespace via::na::shm
