// SPDX-License-Identifier: BSD-3-Clause
#include "base/event_loop.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <string>
#include <thread>

using namespace via::base;

namespace {

constexpr Nanoseconds millisecond = 1'000'000;

/// Counts, and lets others wait for a count.
class Tally {
  public:
    int add() {
        const std::lock_guard guard(mutex_);
        ++count_;
        changed_.notify_all();
        return count_;
    }
    bool reaches(int wanted) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return count_ >= wanted; });
    }
    int now() {
        const std::lock_guard guard(mutex_);
        return count_;
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int count_ = 0;
};

std::unique_ptr<EventLoop> make_loop(EventLoop::Tick tick = [] { return false; }) {
    auto loop = EventLoop::create(std::move(tick), millisecond);
    EXPECT_TRUE(loop) << loop.error().sentence;
    return std::move(loop).value();
}

/// Everything that was asked for before has been done when this returns.
void settle(EventLoop& loop) {
    Tally done;
    loop.post([&] { done.add(); });
    ASSERT_TRUE(done.reaches(1));
}

struct Bell {
    UniqueFd fd{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    void ring() const {
        const std::uint64_t one = 1;
        EXPECT_EQ(write(fd.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
    }
    void silence() const {
        std::uint64_t value = 0;
        [[maybe_unused]] const ssize_t taken = read(fd.get(), &value, sizeof value);
    }
};

TEST(EventLoop, RunsWhatIsPostedInOrderOnItsThread) {
    const auto loop = make_loop();
    EXPECT_FALSE(loop->on_loop_thread());
    std::string order;
    bool inside = false;
    loop->post([&] { order += 'a'; });
    loop->post([&] {
        order += 'b';
        inside = loop->on_loop_thread();
        loop->post([&] { order += 'c'; });
    });
    settle(*loop);
    settle(*loop);
    EXPECT_EQ(order, "abc");
    EXPECT_TRUE(inside);
}

TEST(EventLoop, RunsItsErrandBeforeWhatIsPostedLater) {
    std::atomic<int> runs{0};
    auto loop = EventLoop::create([] { return false; }, millisecond, [&runs] { ++runs; }).value();
    settle(*loop);
    EXPECT_EQ(runs, 0);
    for (int round = 1; round <= 200; ++round) {
        int seen = 0;
        loop->request_errand();
        loop->post([&] { seen = runs.load(); });
        settle(*loop);
        EXPECT_EQ(seen, round);
    }
    // Many wishes may be granted at once, but the last one is.
    std::atomic<bool> go_on{false};
    Tally blocked;
    loop->post([&] {
        blocked.add();
        while (!go_on)
            std::this_thread::yield();
    });
    ASSERT_TRUE(blocked.reaches(1));
    for (int i = 0; i < 100; ++i)
        loop->request_errand();
    go_on = true;
    settle(*loop);
    EXPECT_EQ(runs, 201);
}

TEST(EventLoop, RepeatsAnErrandThatFoundNoMemory) {
    Tally runs;
    std::atomic<int> failures{3};
    auto loop = EventLoop::create([] { return false; }, millisecond,
                                  [&] {
                                      if (failures > 0) {
                                          --failures;
                                          throw std::bad_alloc();
                                      }
                                      runs.add();
                                  })
                    .value();
    loop->request_errand();
    EXPECT_TRUE(runs.reaches(1));
    EXPECT_EQ(failures, 0);
}

TEST(EventLoop, CallsBackForReadableDescriptors) {
    const auto loop = make_loop();
    const Bell first, second;
    Tally firsts, seconds;
    ASSERT_TRUE(loop->watch(first.fd.get(), [&] {
        first.silence();
        firsts.add();
    }));
    ASSERT_TRUE(loop->watch(second.fd.get(), [&] {
        second.silence();
        seconds.add();
    }));
    first.ring();
    EXPECT_TRUE(firsts.reaches(1));
    EXPECT_EQ(seconds.now(), 0);
    second.ring();
    EXPECT_TRUE(seconds.reaches(1));
    first.ring();
    EXPECT_TRUE(firsts.reaches(2));
    loop->unwatch(first.fd.get());
    loop->unwatch(second.fd.get());
}

TEST(EventLoop, AfterUnwatchNothingIsCalled) {
    const auto loop = make_loop();
    const Bell bell;
    auto calls = std::make_unique<Tally>();
    // The bell is never silenced, so the callback runs again and again until the very end.
    ASSERT_TRUE(loop->watch(bell.fd.get(), [raw = calls.get()] { raw->add(); }));
    bell.ring();
    ASSERT_TRUE(calls->reaches(100));
    loop->unwatch(bell.fd.get());
    calls.reset();  // a call after this would be seen by the sanitizers
    settle(*loop);
    loop->unwatch(bell.fd.get());  // again: harmless
}

TEST(EventLoop, ACallbackMayEndItsOwnWatch) {
    const auto loop = make_loop();
    const Bell bell;
    Tally calls;
    ASSERT_TRUE(loop->watch(bell.fd.get(), [&] {
        calls.add();
        loop->unwatch(bell.fd.get());
    }));
    bell.ring();
    ASSERT_TRUE(calls.reaches(1));
    settle(*loop);
    EXPECT_EQ(calls.now(), 1);
    // And the descriptor may be watched anew.
    ASSERT_TRUE(loop->watch(bell.fd.get(), [&] {
        bell.silence();
        calls.add();
    }));
    ASSERT_TRUE(calls.reaches(2));
    loop->unwatch(bell.fd.get());
}

TEST(EventLoop, FinishRunningWaitsForWhatRuns) {
    auto loop = EventLoop::create([] { return false; }, 1'000'000).value();
    loop->finish_running();  // nothing does
    std::atomic<bool> begun{false};
    std::atomic<bool> go_on{false};
    std::atomic<bool> ended{false};
    const Deadline deadline = Deadline::after_milliseconds(60000);
    loop->post([&] {
        loop->finish_running();  // by itself: does not wait for itself
        begun = true;
        while (!go_on && !deadline.expired())
            std::this_thread::yield();
        ended = true;
    });
    while (!begun && !deadline.expired())
        std::this_thread::yield();
    std::thread helper([&] { go_on = true; });
    loop->finish_running();
    EXPECT_TRUE(ended);
    helper.join();
}

TEST(EventLoop, TicksUntilTheTickSaysEnough) {
    Tally ticks;
    const auto loop = make_loop([&] { return ticks.add() % 3 != 0; });
    settle(*loop);
    EXPECT_EQ(ticks.now(), 0);  // nobody has asked
    loop->start_ticking();
    ASSERT_TRUE(ticks.reaches(3));
    settle(*loop);
    EXPECT_EQ(ticks.now(), 3);
    loop->start_ticking();
    ASSERT_TRUE(ticks.reaches(6));
}

TEST(EventLoop, TicksAlsoWhileDescriptorsKeepItBusy) {
    Tally ticks;
    const auto loop = make_loop([&] {
        ticks.add();
        return true;
    });
    const Bell bell;
    ASSERT_TRUE(loop->watch(bell.fd.get(), [] {}));
    bell.ring();
    loop->start_ticking();
    EXPECT_TRUE(ticks.reaches(3));
    loop->unwatch(bell.fd.get());
}

TEST(EventLoop, RefusesWhatCanNotBeWatched) {
    const auto loop = make_loop();
    EXPECT_FALSE(loop->watch(-1, [] {}));
    const Bell bell;
    ASSERT_TRUE(loop->watch(bell.fd.get(), [] {}));
    EXPECT_FALSE(loop->watch(bell.fd.get(), [] {}));
    loop->unwatch(bell.fd.get());
}

TEST(EventLoop, LeavesTheProgramsSignalsAlone) {
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, nullptr, &before);
    const auto loop = make_loop();
    pthread_sigmask(SIG_SETMASK, nullptr, &after);
    EXPECT_EQ(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
    bool blocked = false;
    loop->post([&] {
        sigset_t mask;
        pthread_sigmask(SIG_SETMASK, nullptr, &mask);
        blocked = sigismember(&mask, SIGTERM) == 1;
    });
    settle(*loop);
    EXPECT_TRUE(blocked);
}

TEST(EventLoop, EndsWithWatchesAndTicksUnderWay) {
    const Bell bell;
    bell.ring();
    for (int round = 0; round < 50; ++round) {
        const auto loop = make_loop([] { return true; });
        ASSERT_TRUE(loop->watch(bell.fd.get(), [] {}));
        loop->start_ticking();
    }
}

}  // namespace
