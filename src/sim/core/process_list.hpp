// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <vector>

#include "sim/core/task.hpp"

namespace via::sim {

/// The spawned tasks of a simulation that have not ended. Each owns, down the calls, every task it
/// is waiting in, so to destroy these is to destroy all.
class ProcessList {
  public:
    ProcessList() = default;
    ProcessList(const ProcessList&) = delete;
    ProcessList& operator=(const ProcessList&) = delete;
    ~ProcessList() { destroy_all(); }

    /// What is returned wants to be resumed, once.
    [[nodiscard]] std::coroutine_handle<> add(Task<> task);
    [[nodiscard]] std::size_t size() const noexcept { return processes_.size(); }
    void destroy_all() noexcept;

    /// Throws what ended a process; each exception once.
    void rethrow_failure() {
        if (failure_) throw_failure();
    }

  private:
    struct Process;

    static Process run(Task<> task);
    [[noreturn]] void throw_failure();

    struct Place {
        std::coroutine_handle<> coroutine;
        std::size_t* index;  // in the coroutine's promise: where this place is
    };
    std::vector<Place> processes_;
    std::exception_ptr failure_;
};

}  // namespace via::sim
