// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <concepts>
#include <coroutine>
#include <utility>
#include <vector>

#include "sim/core/task.hpp"

namespace via::sim {

/// Runs tasks side by side: co_await all(...) starts them in order and continues when the last has
/// ended. Of those that failed, the first in order gives its exception, also only then.
class [[nodiscard]] All {
  public:
    explicit All(std::vector<Task<>> tasks) noexcept
        : tasks_(std::move(tasks)), meeting_{tasks_.size() + 1} {}
    All(const All&) = delete;
    All& operator=(const All&) = delete;
    ~All() = default;

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    [[nodiscard]] bool await_suspend(std::coroutine_handle<> awaiting) noexcept {
        meeting_.awaiting = awaiting;
        for (Task<>& task : tasks_)
            task.start(meeting_);
        return !meeting_.arrive();
    }
    void await_resume() {
        for (Task<>& task : tasks_)
            task.result();
    }

  private:
    std::vector<Task<>> tasks_;
    Meeting meeting_;
};

[[nodiscard]] inline All all(std::vector<Task<>> tasks) noexcept {
    return All(std::move(tasks));
}

template <std::same_as<Task<>>... Tasks>
[[nodiscard]] All all(Tasks... tasks) {
    std::vector<Task<>> list;
    list.reserve(sizeof...(tasks));
    (list.push_back(std::move(tasks)), ...);
    return All(std::move(list));
}

}  // namespace via::sim
