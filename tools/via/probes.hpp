// SPDX-License-Identifier: BSD-3-Clause
// What this machine and this process's rights allow, found out by trying it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace via::tool {

/// One thing that works here or does not, and why.
struct Finding {
    std::string name;
    bool works = false;
    std::string detail;
};

/// Two sibling processes, one of which reads and writes the other's memory (process_vm_readv and
/// process_vm_writev): the position of two peers of one user.
[[nodiscard]] Finding probe_cma();
/// A sealed memfd that two processes map.
[[nodiscard]] Finding probe_memory_file();
/// Memory of the program's own, really moved.
[[nodiscard]] Finding probe_huge_pages();
/// Those that are set aside, for kmem: a memfd of them, really allocated.
[[nodiscard]] Finding probe_reserved_huge_pages();
/// A process that sleeps on a word in shared memory and is woken by another.
[[nodiscard]] Finding probe_futex();
[[nodiscard]] Finding probe_membarrier();
[[nodiscard]] Finding probe_pidfd();

struct Limit {
    std::string name;
    std::string meaning;
    std::uint64_t now = 0;  ///< all ones: no limit
    std::uint64_t most = 0;
};
[[nodiscard]] std::vector<Limit> resource_limits();

struct Machine {
    std::string kernel;
    std::string architecture;
    std::string processor;
    std::uint64_t page_bytes = 0;
    std::uint64_t cache_line_bytes = 0;
    std::uint64_t memory_bytes = 0;
    std::string surroundings;  ///< "container", "user namespace"; empty: plain
};
[[nodiscard]] Machine describe_machine();

}  // namespace via::tool
