// SPDX-License-Identifier: BSD-3-Clause
#include "base/biased_lock.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

using namespace via::base;

namespace {

// Plain words on purpose: only the lock orders them, also for ThreadSanitizer.
struct Guarded {
    BiasedLock lock;
    long first = 0;
    long second = 0;
    bool torn = false;

    void step() {
        const BiasedGuard guard(lock);
        if (first != second) torn = true;
        ++first;
        ++second;
    }
};

TEST(BiasedLock, IsOwnedByTheThreadThatUsesIt) {
    BiasedLock lock;
    bool as_owner = false;
    for (int i = 0; i < 1000; ++i) {
        as_owner = lock.lock();
        lock.unlock(as_owner);
    }
#if !defined(__SANITIZE_THREAD__)
    EXPECT_EQ(as_owner, has_process_barrier());
#endif
    // Somebody else takes it in between; the owner must earn it again.
    std::thread([&] {
        const bool stranger = lock.lock();
        EXPECT_FALSE(stranger);
        lock.unlock(stranger);
    }).join();
    as_owner = lock.lock();
    EXPECT_FALSE(as_owner);
    lock.unlock(as_owner);
}

TEST(BiasedLock, OneThatIsMarkedNeverOwnsIt) {
    BiasedLock lock;
    std::thread([&] {
        this_thread_owns_no_locks = true;
        for (int i = 0; i < 1000; ++i) {
            const bool as_owner = lock.lock();
            EXPECT_FALSE(as_owner);
            lock.unlock(as_owner);
        }
    }).join();
}

TEST(BiasedLock, TryLockFailsWhileItIsHeld) {
    BiasedLock lock;
    const bool held = lock.lock();
    std::thread([&] {
        bool as_owner = false;
        EXPECT_FALSE(lock.try_lock(as_owner));
    }).join();
    lock.unlock(held);
    bool as_owner = false;
    EXPECT_TRUE(lock.try_lock(as_owner));
    lock.unlock(as_owner);
}

/// One thread uses it nearly all the time, as a program that polls; others come now and then.
TEST(BiasedLock, KeepsVisitorsApartFromTheOwner) {
    Guarded guarded;
    std::atomic<bool> stop{false};
    std::atomic<long> steps{0};
    std::thread owner([&] {
        while (!stop.load(std::memory_order_relaxed)) {
            guarded.step();
            steps.fetch_add(1, std::memory_order_relaxed);
        }
    });
    constexpr int visits = 300;
    const auto visit = [&] {
        for (int i = 0; i < visits; ++i) {
            // Long enough apart for the owner to own it again.
            const long until = steps.load(std::memory_order_relaxed) + 2 * 256;
            while (steps.load(std::memory_order_relaxed) < until)
                sched_yield();
            guarded.step();
        }
    };
    std::thread first(visit);
    std::thread second(visit);
    first.join();
    second.join();
    stop = true;
    owner.join();
    EXPECT_FALSE(guarded.torn);
    EXPECT_EQ(guarded.first, steps.load() + 2 * visits);
    EXPECT_EQ(guarded.second, guarded.first);
}

TEST(BiasedLock, KeepsEqualThreadsApart) {
    Guarded guarded;
    constexpr int rounds = 20000;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (int n = 0; n < rounds; ++n)
                guarded.step();
        });
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_FALSE(guarded.torn);
    EXPECT_EQ(guarded.first, 4 * rounds);
}

}  // namespace
