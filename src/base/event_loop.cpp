// SPDX-License-Identifier: BSD-3-Clause
#include "base/event_loop.hpp"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <new>
#include <system_error>

#include "base/biased_lock.hpp"

namespace via::base {

/// This thread is the library's: that it finds no memory must not end the program. What is still to
/// be done is asked for again (a descriptor stays readable), after a pause.
template <class Work>
bool EventLoop::survive(Work&& work) {
    bool done = true;
    try {
        work();
    } catch (const std::bad_alloc&) {
        const timespec pause{0, 1'000'000};
        nanosleep(&pause, nullptr);
        done = false;
    }
    end_turn();
    return done;
}

Result<std::unique_ptr<EventLoop>> EventLoop::create(Tick tick, Nanoseconds period,
                                                     Callback errand) {
    std::unique_ptr<EventLoop> loop(new EventLoop);
    loop->tick_ = std::move(tick);
    loop->period_ = period;
    loop->errand_ = std::move(errand);
    loop->epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
    if (!loop->epoll_.valid()) return system_error(errno, "cannot create an epoll descriptor");
    loop->wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!loop->wake_.valid()) return system_error(errno, "cannot create an eventfd");
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = loop->wake_.get();
    if (epoll_ctl(loop->epoll_.get(), EPOLL_CTL_ADD, loop->wake_.get(), &event) != 0)
        return system_error(errno, "cannot watch an eventfd");
    // The program's signals are not for this thread.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    std::error_code failure;
    try {
        loop->thread_ = std::thread([raw = loop.get()] { raw->run(); });
    } catch (const std::system_error& error) {
        failure = error.code();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (failure) {
        Error error = system_error(failure.value(), "cannot start the service thread");
        // Its stack is memory, too.
        if (failure.value() == EAGAIN) error.sentence += MemoryLimits().text();
        return error;
    }
    pthread_setname_np(loop->thread_.native_handle(), "viaduct");
    return loop;
}

EventLoop::~EventLoop() {
    {
        const std::lock_guard guard(mutex_);
        stopping_ = true;
    }
    wake();
    if (thread_.joinable()) thread_.join();
}

Result<void> EventLoop::watch(int fd, Callback callback) {
    const std::lock_guard guard(mutex_);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
        return system_error(errno, "cannot watch a descriptor");
    watches_[fd] = std::make_shared<Callback>(std::move(callback));
    return {};
}

void EventLoop::unwatch(int fd) {
    std::unique_lock lock(mutex_);
    if (watches_.erase(fd) != 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    if (!on_loop_thread()) idle_.wait(lock, [&] { return running_fd_ != fd; });
}

void EventLoop::post(Callback callback) {
    {
        const std::lock_guard guard(mutex_);
        posted_.push_back(std::move(callback));
    }
    wake();
}

void EventLoop::request_errand() noexcept {
    if (!errand_wanted_.exchange(true)) wake();
}

void EventLoop::start_ticking() {
    if (ticking_.load(std::memory_order_relaxed)) return;
    if (!ticking_.exchange(true)) wake();
}

void EventLoop::wake() noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void EventLoop::finish_running() {
    if (on_loop_thread()) return;
    std::unique_lock lock(mutex_);
    const std::uint64_t turn = turns_;
    idle_.wait(lock, [&] { return !running_ || turns_ != turn; });
}

void EventLoop::end_turn() noexcept {
    {
        const std::lock_guard guard(mutex_);
        running_fd_ = -1;
        running_ = false;
        ++turns_;
    }
    idle_.notify_all();
}

void EventLoop::run() {
    this_thread_owns_no_locks = true;
    Nanoseconds next_tick = 0;
    for (;;) {
        int timeout = -1;
        if (ticking_.load()) {
            const Nanoseconds now = monotonic_now();
            if (next_tick == 0) next_tick = now + period_;
            timeout = Deadline::at(next_tick).poll_milliseconds();
        }
        std::array<epoll_event, 32> events;
        const int count =
            epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
        for (int i = 0; i < count; ++i) {
            const int fd = events[static_cast<std::size_t>(i)].data.fd;
            if (fd == wake_.get()) {
                std::uint64_t value;
                [[maybe_unused]] const ssize_t taken = ::read(fd, &value, sizeof value);
                continue;
            }
            std::shared_ptr<Callback> callback;
            {
                const std::lock_guard guard(mutex_);
                const auto found = watches_.find(fd);
                if (found == watches_.end()) continue;
                callback = found->second;
                running_fd_ = fd;
                running_ = true;
            }
            survive(*callback);
        }
        for (;;) {
            Callback next;
            bool errand = false;
            {
                const std::lock_guard guard(mutex_);
                if (stopping_) return;
                errand = errand_wanted_.exchange(false);
                if (!errand && posted_.empty()) break;
                if (!errand) {
                    next = std::move(posted_.front());
                    posted_.pop_front();
                }
                running_ = true;
            }
            if (!survive(errand ? errand_ : next) && errand) request_errand();
        }
        if (ticking_.load() && next_tick != 0 && monotonic_now() >= next_tick) {
            // Cleared first: a request made while the tick runs is not lost.
            ticking_.store(false);
            next_tick = 0;
            {
                const std::lock_guard guard(mutex_);
                running_ = true;
            }
            bool again = true;
            survive([&] { again = tick_(); });
            if (again) ticking_.store(true);
        }
    }
}

}  // namespace via::base
