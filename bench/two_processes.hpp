// SPDX-License-Identifier: BSD-3-Clause
// A program of two processes that go on together step by step.
#pragma once

#include <sys/types.h>

#include <functional>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"

namespace via::bench {

/// The other process, and a socket to it that only says "I am here too".
class Companion {
  public:
    /// Forks; the child runs `child_part` with its own Companion and exits with its success. To be
    /// called before the process has any thread.
    [[nodiscard]] static base::Result<Companion> start(
        const std::function<base::Result<void>(Companion&)>& child_part);
    Companion(Companion&& other) noexcept;
    Companion& operator=(Companion&&) = delete;
    Companion(const Companion&) = delete;
    Companion& operator=(const Companion&) = delete;
    ~Companion();

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    /// Both come here before either goes on.
    [[nodiscard]] base::Result<void> meet(base::Deadline deadline);
    /// The parent waits for the child's end; an error if the child had one.
    [[nodiscard]] base::Result<void> join(base::Deadline deadline);

  private:
    Companion(pid_t pid, base::UniqueFd socket, bool is_child)
        : pid_(pid), socket_(std::move(socket)), owns_(is_child) {}
    pid_t pid_;
    base::UniqueFd socket_;
    bool owns_;  ///< the other process is a child, to be ended
};

}  // namespace via::bench
