// SPDX-License-Identifier: BSD-3-Clause
// The service thread of a process: waits for descriptors, runs posted functions, and ticks while
// somebody asked for it. It sleeps when there is nothing to do.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"

namespace via::base {

class EventLoop {
  public:
    using Callback = std::function<void()>;
    /// Called every `period` while it returns true; ask again with start_ticking().
    using Tick = std::function<bool()>;

    [[nodiscard]] static Result<std::unique_ptr<EventLoop>> create(Tick tick, Nanoseconds period,
                                                                   Callback errand = {});
    EventLoop(const EventLoop&) = delete;
    EventLoop& operator=(const EventLoop&) = delete;
    ~EventLoop();

    /// Calls back, on the loop's thread, each time `fd` is readable.
    [[nodiscard]] Result<void> watch(int fd, Callback callback);
    /// After it returns the callback does not run and will not run again (a callback may end its
    /// own watch).
    void unwatch(int fd);
    void post(Callback callback);
    /// Runs the errand that the loop was made with, before what is posted later; many requests may
    /// make one run. Unlike post() it needs no memory, so any thread may ask, whatever it holds.
    void request_errand() noexcept;
    void start_ticking();
    /// What the loop's thread is doing when this is called has ended when it returns: what the
    /// caller has forbidden before does not go on. Inside a callback it returns at once.
    void finish_running();
    [[nodiscard]] bool on_loop_thread() const noexcept {
        return std::this_thread::get_id() == thread_.get_id();
    }

  private:
    EventLoop() = default;
    void run();
    void wake() noexcept;
    void end_turn() noexcept;
    template <class Work>
    bool survive(Work&& work);

    UniqueFd epoll_;
    UniqueFd wake_;
    Tick tick_;
    Nanoseconds period_ = 0;
    Callback errand_;
    std::atomic<bool> errand_wanted_{false};
    std::mutex mutex_;
    std::condition_variable idle_;
    std::map<int, std::shared_ptr<Callback>> watches_;
    std::deque<Callback> posted_;
    int running_fd_ = -1;
    bool running_ = false;     ///< any callback
    std::uint64_t turns_ = 0;  ///< callbacks that have ended
    bool stopping_ = false;
    std::atomic<bool> ticking_{false};
    std::thread thread_;
};

}  // namespace via::base
