// SPDX-License-Identifier: BSD-3-Clause
#include "sim/core/process_list.hpp"

#include <utility>

#include "sim/core/frame_pool.hpp"

namespace via::sim {

/// The coroutine around a spawned task. Its frame goes, and with it its place in the list, when the
/// task ends or when it is destroyed.
struct ProcessList::Process {
    struct Promise : PooledFrame {
        Promise() = default;
        Promise(const Promise&) = delete;
        Promise& operator=(const Promise&) = delete;
        ~Promise() {
            if (list == nullptr) return;
            list->processes_[index] = list->processes_.back();
            *list->processes_[index].index = index;
            list->processes_.pop_back();
        }
        Process get_return_object() noexcept {
            return {std::coroutine_handle<Promise>::from_promise(*this)};
        }
        [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
        [[nodiscard]] std::suspend_never final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() noexcept {
            if (!list->failure_) list->failure_ = std::current_exception();
        }

        ProcessList* list = nullptr;
        std::size_t index = 0;
    };

    using promise_type = Promise;  // NOLINT: the language's name

    std::coroutine_handle<Promise> coroutine;
};

ProcessList::Process ProcessList::run(Task<> task) {
    co_await std::move(task);
}

std::coroutine_handle<> ProcessList::add(Task<> task) {
    const std::coroutine_handle<Process::Promise> coroutine = run(std::move(task)).coroutine;
    Process::Promise& promise = coroutine.promise();
    promise.index = processes_.size();
    processes_.push_back({coroutine, &promise.index});
    promise.list = this;
    return coroutine;
}

void ProcessList::destroy_all() noexcept {
    while (!processes_.empty())
        processes_.back().coroutine.destroy();
}

void ProcessList::throw_failure() {
    std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace via::sim
