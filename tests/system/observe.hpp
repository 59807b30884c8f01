// SPDX-License-Identifier: BSD-3-Clause
// What a system test looks at from outside: descriptors, processes, files and the agent's books.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ka/client.hpp"

namespace via::test {

/// What the kernel agent at VIA_AGENT_SOCKET holds. Throws if none answers.
[[nodiscard]] ka::AgentStatus agent_status();
/// How the agent sees this process; all zero if it is not attached.
[[nodiscard]] ka::ProcessStatus own_entry(const ka::AgentStatus& status);
/// Whether the agent serves this process alone, and holds nothing for it.
[[nodiscard]] bool agent_holds_nothing();

/// Open descriptors of a process.
[[nodiscard]] std::size_t open_descriptors(pid_t pid);
/// Processes that were started with this program's VIA_AGENT_SOCKET, but not this one.
[[nodiscard]] std::vector<pid_t> processes_of_this_test();
/// Names in a folder; empty if there is none.
[[nodiscard]] std::set<std::string> names_in(const std::string& folder);
/// Names in /dev/shm that could be Viaduct's.
[[nodiscard]] std::set<std::string> shared_memory_names();

/// A TMPDIR of its own for as long as it lives, which must be empty in the end.
class OwnTemporaryFolder {
  public:
    OwnTemporaryFolder();
    OwnTemporaryFolder(const OwnTemporaryFolder&) = delete;
    OwnTemporaryFolder& operator=(const OwnTemporaryFolder&) = delete;
    ~OwnTemporaryFolder();
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
    std::string before_;
};

/// For how long a thread of this process was ready to run but had no processor. On a busy machine
/// that time is nobody's fault; 0 where the system does not tell.
[[nodiscard]] std::uint64_t waited_for_processor_ns(pid_t thread);
/// The library's service thread, or -1.
[[nodiscard]] pid_t service_thread();

/// Numbers from a seed, the same everywhere.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    [[nodiscard]] std::uint64_t next() {
        state_ += 0x9E3779B97F4A7C15U;
        std::uint64_t value = state_;
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
        value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
        return value ^ (value >> 31);
    }
    /// 0 … bound - 1
    [[nodiscard]] std::uint64_t below(std::uint64_t bound) { return next() % bound; }

  private:
    std::uint64_t state_;
};

}  // namespace via::test
