// SPDX-License-Identifier: BSD-3-Clause
// Coroutines of a simulation. A Task does nothing until it is awaited or spawned; its result, or
// the exception that ended it, goes to whoever awaits it.
#pragma once

#include <cassert>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "sim/core/frame_pool.hpp"

namespace via::sim {

template <class T = void>
class Task;

/// Brings one or several running tasks and the coroutine that awaits them together: the last to
/// arrive lets it continue, at once and not as an event, just as a function returns to its caller.
///
/// Coroutines are resumed by plain calls, not by symmetric transfer: g++ makes jumps of those only
/// when it optimizes, and without, a loop over tasks that never wait would use up the stack.
struct Meeting {
    std::size_t expected;
    std::coroutine_handle<> awaiting = nullptr;

    [[nodiscard]] bool arrive() noexcept { return --expected == 0; }
};

class TaskPromiseBase : public PooledFrame {
  public:
    struct Finish {
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        template <class Promise>
        void await_suspend(std::coroutine_handle<Promise> finished) const noexcept {
            Meeting& meeting = *finished.promise().meeting_;
            // This frame may be gone when the call returns.
            if (meeting.arrive()) meeting.awaiting.resume();
        }
        void await_resume() const noexcept {}
    };

    [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
    [[nodiscard]] Finish final_suspend() const noexcept { return {}; }
    void unhandled_exception() noexcept { failure_ = std::current_exception(); }

  protected:
    void rethrow_failure() const {
        if (failure_) std::rethrow_exception(failure_);
    }

  private:
    template <class T>
    friend class Task;

    Meeting* meeting_ = nullptr;
    std::exception_ptr failure_;
};

template <class T>
class TaskPromise : public TaskPromiseBase {
  public:
    Task<T> get_return_object() noexcept;
    void return_value(T value) { value_.emplace(std::move(value)); }
    [[nodiscard]] T result() {
        rethrow_failure();
        return std::move(*value_);
    }

  private:
    std::optional<T> value_;
};

template <>
class TaskPromise<void> : public TaskPromiseBase {
  public:
    Task<void> get_return_object() noexcept;
    void return_void() const noexcept {}
    void result() const { rethrow_failure(); }
};

template <class T>
class [[nodiscard]] Task {
    static_assert(!std::is_reference_v<T>, "a task gives a value: use a pointer");

  public:
    using promise_type = TaskPromise<T>;  // NOLINT: the language's name

    Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
    Task& operator=(Task&& other) noexcept {
        std::swap(coroutine_, other.coroutine_);
        return *this;
    }
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;
    ~Task() {
        if (coroutine_) coroutine_.destroy();
    }

    class Awaiter {
      public:
        explicit Awaiter(Task& task) noexcept : task_(task) {}
        Awaiter(const Awaiter&) = delete;
        Awaiter& operator=(const Awaiter&) = delete;
        ~Awaiter() = default;
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        [[nodiscard]] bool await_suspend(std::coroutine_handle<> awaiting) noexcept {
            meeting_.awaiting = awaiting;
            task_.start(meeting_);
            return !meeting_.arrive();
        }
        T await_resume() { return task_.result(); }

      private:
        Task& task_;
        Meeting meeting_{2};  // the task, and this side that starts it
    };

    /// Once: co_await make_task(), or co_await std::move(task).
    [[nodiscard]] Awaiter operator co_await() && noexcept { return Awaiter(*this); }

    /// Runs until the task waits for the first time or ends. For who writes a new way to await.
    void start(Meeting& meeting) noexcept {
        assert(coroutine_ && "this task was moved away");
        assert(coroutine_.promise().meeting_ == nullptr && "a task runs only once");
        coroutine_.promise().meeting_ = &meeting;
        coroutine_.resume();
    }
    /// Of a task that has ended.
    T result() { return coroutine_.promise().result(); }

  private:
    friend promise_type;
    explicit Task(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}

    std::coroutine_handle<promise_type> coroutine_;
};

template <class T>
Task<T> TaskPromise<T>::get_return_object() noexcept {
    return Task<T>(std::coroutine_handle<TaskPromise<T>>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() noexcept {
    return Task<void>(std::coroutine_handle<TaskPromise<void>>::from_promise(*this));
}

}  // namespace via::sim
