// SPDX-License-Identifier: BSD-3-Clause
// Moving bytes between address spaces with one copy: a mapping of the peer's kmem memory, or CMA
// (process_vm_readv/writev).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace via::na::shm {

/// Which single-copy paths this process may use (VIA_SHM_PATH).
struct AllowedPaths {
    bool kmem = true;
    bool cma = true;
};
[[nodiscard]] AllowedPaths allowed_paths();

/// A copy into or out of the program's memory on the peer's behalf.
void copy_for_peer(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

/// The same, piece by piece of some pages from the beginning to the end.
void copy_ascending(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

/// Ascending, and the last aligned word becomes visible last: programs poll a flag word that the
/// same RDMA write carries.
void copy_ordered(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

/// Where the last aligned word of [address, +bytes) begins; 0 if all of it is one word or less.
[[nodiscard]] std::size_t last_word_offset(std::uint64_t address, std::size_t bytes) noexcept;

/// False: the kernel refused or the peer is gone; errno says which.
[[nodiscard]] bool cma_read(pid_t pid, std::byte* to, std::uint64_t remote_address,
                            std::size_t bytes) noexcept;
/// When a write's last word becomes visible. To have it last costs the kernel a look of its own at
/// the page, about a tenth of the time of 32 KB.
enum class LastWord : std::uint8_t {
    Last,     ///< as with copy_ordered
    Whenever  ///< nobody watches it: the target is told by a message
};
[[nodiscard]] bool cma_write(pid_t pid, const std::byte* from, std::uint64_t remote_address,
                             std::size_t bytes, LastWord last_word = LastWord::Last) noexcept;

/// What a process shows its peers so that they can try CMA on it: they read a random word and
/// write a byte, so a refused call and a wrong process (another pid namespace) are both noticed.
struct ProbeTarget {
    std::uint64_t value_address;
    std::uint64_t value;
    std::uint64_t scratch_address;
};
[[nodiscard]] ProbeTarget own_probe_target();
struct ProbeResult {
    bool read = false;
    bool write = false;
};
[[nodiscard]] ProbeResult probe_cma(pid_t pid, const ProbeTarget& target) noexcept;

}  // namespace via::na::shm
