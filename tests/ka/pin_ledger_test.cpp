// SPDX-License-Identifier: BSD-3-Clause
#include "ka/pin_ledger.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace via::ka {
namespace {

using Ranges = std::vector<PageRange>;

TEST(PageCounts, OverlapsAreCounted) {
    PageCounts counts;
    EXPECT_EQ(counts.add({100, 50}), (Ranges{{100, 50}}));
    EXPECT_EQ(counts.add({120, 50}), (Ranges{{150, 20}}));
    EXPECT_EQ(counts.add({100, 70}), Ranges{});
    EXPECT_EQ(counts.remove({100, 50}), Ranges{});
    EXPECT_EQ(counts.remove({100, 70}), (Ranges{{100, 20}}));
    EXPECT_EQ(counts.remove({120, 50}), (Ranges{{120, 50}}));
    EXPECT_TRUE(counts.empty());
}

TEST(PageCounts, AgreesWithCountingEachPage) {
    for (std::uint32_t seed = 1; seed <= 50; ++seed) {
        std::mt19937 random(seed);
        PageCounts counts;
        std::map<std::uint64_t, int> model;
        std::vector<PageRange> held;
        for (int step = 0; step < 300; ++step) {
            const bool adding = held.empty() || random() % 2 == 0;
            PageRange range{random() % 40, 1 + random() % 20};
            if (!adding) {
                const std::size_t chosen = random() % held.size();
                range = held[chosen];
                held.erase(held.begin() + static_cast<std::ptrdiff_t>(chosen));
            } else {
                held.push_back(range);
            }
            const Ranges changed = adding ? counts.add(range) : counts.remove(range);
            std::map<std::uint64_t, bool> told;
            for (const PageRange& part : changed)
                for (std::uint64_t i = 0; i < part.bytes; ++i)
                    told[part.first + i] = true;
            for (std::uint64_t i = range.first; i < range.first + range.bytes; ++i) {
                const bool expected = adding ? model[i]++ == 0 : --model[i] == 0;
                ASSERT_EQ(told.contains(i), expected) << "seed " << seed;
                told.erase(i);
            }
            ASSERT_TRUE(told.empty());
        }
    }
}

std::uint64_t locked_kilobytes() {
    std::FILE* file = std::fopen("/proc/self/status", "r");
    char line[256];
    unsigned long long value = 0;
    while (std::fgets(line, sizeof line, file) != nullptr)
        if (std::sscanf(line, "VmLck: %llu kB", &value) == 1) break;
    std::fclose(file);
    return value;
}

TEST(PinLedger, PagesStayLockedUntilTheLastRegionGoes) {
    const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    void* memory =
        mmap(nullptr, 4 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    const std::uint64_t before = locked_kilobytes();
    PinLedger ledger;
    ASSERT_TRUE(ledger.pin(address + 10, page_bytes).ok());  // two pages
    ASSERT_TRUE(ledger.pin(address + page_bytes, 10).ok());  // the second again
    EXPECT_EQ(locked_kilobytes() - before, 2 * page_bytes / 1024);
    ledger.unpin(address + 10, page_bytes);
    EXPECT_EQ(locked_kilobytes() - before, page_bytes / 1024);
    ledger.unpin(address + page_bytes, 10);
    EXPECT_EQ(locked_kilobytes(), before);
    munmap(memory, 4 * page_bytes);
}

TEST(PinLedger, TheLimitIsNamedWithItsValue) {
    const pid_t child = fork();
    if (child == 0) {
        const rlimit small{16384, 16384};
        setrlimit(RLIMIT_MEMLOCK, &small);
        // Root may lock more than its limit.
        if (geteuid() == 0 && setuid(65534) != 0) _exit(9);
        static char memory[1 << 20];
        PinLedger ledger;
        const auto address = reinterpret_cast<std::uintptr_t>(memory);
        auto pinned = ledger.pin(address, sizeof memory);
        if (pinned.ok()) _exit(1);
        if (pinned.error().code != base::Code::OutOfResources) _exit(2);
        if (pinned.error().sentence.find("RLIMIT_MEMLOCK is 16384") == std::string::npos) _exit(3);
        if (!ledger.pin(address, 4096).ok()) _exit(4);  // within it, it goes on
        _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace via::ka
