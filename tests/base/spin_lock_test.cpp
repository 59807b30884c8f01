// SPDX-License-Identifier: BSD-3-Clause
#include "base/spin_lock.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

using namespace via::base;

namespace {

TEST(SpinLock, IsTakenOnce) {
    SpinLock lock;
    EXPECT_TRUE(lock.try_lock());
    EXPECT_FALSE(lock.try_lock());
    lock.unlock();
    EXPECT_TRUE(lock.try_lock());
    lock.unlock();
}

TEST(SpinLock, KeepsThreadsApart) {
    SpinLock lock;
    // Plain words on purpose: only the lock orders them, also for ThreadSanitizer.
    long first = 0;
    long second = 0;
    bool torn = false;
    constexpr int rounds = 20000;
    const auto work = [&] {
        for (int i = 0; i < rounds; ++i) {
            const std::lock_guard guard(lock);
            if (first != second) torn = true;
            ++first;
            ++second;
        }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back(work);
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_FALSE(torn);
    EXPECT_EQ(first, 4 * rounds);
    EXPECT_EQ(second, 4 * rounds);
}

TEST(SpinLock, TryLockNeverLetsTwoIn) {
    SpinLock lock;
    long inside = 0;
    long taken = 0;
    const auto work = [&] {
        for (int i = 0; i < 20000; ++i) {
            if (!lock.try_lock()) continue;
            if (++inside != 1) ADD_FAILURE();
            ++taken;
            --inside;
            lock.unlock();
        }
    };
    std::thread other(work);
    work();
    other.join();
    EXPECT_GT(taken, 0);
    EXPECT_LE(taken, 40000);
}

}  // namespace
