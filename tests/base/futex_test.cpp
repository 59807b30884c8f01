// SPDX-License-Identifier: BSD-3-Clause
#include "base/futex.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "base/memory_file.hpp"

using namespace via::base;

namespace {

/// Waits as all callers do: again and again until the word has changed or the deadline is over.
bool wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t from, Deadline deadline,
                     FutexScope scope) {
    while (word.load() == from) {
        if (deadline.expired()) return false;
        futex_wait(word, from, deadline, scope);
    }
    return true;
}

TEST(Futex, ReturnsAtOnceWhenTheWordIsAnotherOne) {
    const std::atomic<std::uint32_t> word{1};
    futex_wait(word, 0, Deadline::never(), FutexScope::Process);
    futex_wait(word, 0, Deadline::never(), FutexScope::Shared);
}

TEST(Futex, ReturnsAtTheDeadline) {
    const std::atomic<std::uint32_t> word{0};
    const Deadline deadline = Deadline::after_milliseconds(5);
    EXPECT_FALSE(wait_for_change(word, 0, deadline, FutexScope::Process));
    EXPECT_TRUE(deadline.expired());
    futex_wait(word, 0, Deadline::after(0), FutexScope::Process);
}

TEST(Futex, WakesAllThreads) {
    std::atomic<std::uint32_t> word{0};
    std::atomic<int> woken{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            if (wait_for_change(word, 0, Deadline::after_milliseconds(30000), FutexScope::Process))
                ++woken;
        });
    word = 1;
    futex_wake_all(word, FutexScope::Process);
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(woken, 4);
}

TEST(Futex, PassesABatonBetweenProcesses) {
    auto file = create_memory_file("viaduct-test", 4096, Backing::Allocated);
    ASSERT_TRUE(file);
    auto mapping = Mapping::map(file.value(), 4096, Access::ReadWrite);
    ASSERT_TRUE(mapping);
    auto& word = *new (mapping.value().data()) std::atomic<std::uint32_t>(0);
    constexpr std::uint32_t turns = 200;
    const Deadline deadline = Deadline::after_milliseconds(30000);
    // One side makes odd numbers of even ones, the other even numbers of odd ones.
    const auto play = [&](std::uint32_t mine) {
        for (std::uint32_t turn = mine; turn < turns; turn += 2) {
            for (std::uint32_t seen = word.load(); seen != turn; seen = word.load())
                if (!wait_for_change(word, seen, deadline, FutexScope::Shared)) return false;
            word.store(turn + 1);
            futex_wake_all(word, FutexScope::Shared);
        }
        return true;
    };
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(play(1) ? 0 : 1);
    EXPECT_TRUE(play(0));
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(word, turns);
}

}  // namespace
