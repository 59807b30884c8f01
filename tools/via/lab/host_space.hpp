// SPDX-License-Identifier: BSD-3-Clause
// The inside of a lab host: how a process gets in, and who is there.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"

namespace via::lab {

/// The way into a host's namespace. Opened beforehand, it can be gone through after a fork.
class SpaceDoor {
  public:
    [[nodiscard]] static base::Result<SpaceDoor> open(const std::string& space);

    /// The calling thread is in the host from here on: its network, its name, its /etc/hosts, its
    /// /sys. Only system calls. Returns 0 or the error number.
    [[nodiscard]] int enter() const noexcept;
    /// The network alone: what else the thread sees stays as it is.
    [[nodiscard]] int enter_network() const noexcept;

  private:
    base::UniqueFd space_;
    std::string host_;        ///< its name
    std::string hosts_file_;  ///< empty: the host has none of its own
};

/// Empty if it can not be read: a process may end after its file in /proc was opened.
[[nodiscard]] std::string text_of_file(const std::string& path);

struct ProcessInSpace {
    pid_t pid = 0;
    std::string name;     ///< as the kernel calls it
    std::string command;  ///< as it was started
};
[[nodiscard]] std::vector<ProcessInSpace> processes_in(const std::string& space);

/// Asks all of them to end, then makes them. Never the caller itself.
[[nodiscard]] base::Result<void> end_processes_in(const std::string& space);
/// Only those of this name.
[[nodiscard]] base::Result<void> end_processes_in(const std::string& space,
                                                  const std::string& name);

}  // namespace via::lab
