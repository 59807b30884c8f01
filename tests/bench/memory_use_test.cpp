// SPDX-License-Identifier: BSD-3-Clause
#include "memory_use.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.hpp"

namespace via::bench {
namespace {

TEST(KilobyteLine, FindsTheWholeName) {
    const char* text = "Rss:   100 kB\nPss_Anon:      7 kB\nPss:    12 kB\n";
    EXPECT_EQ(kilobyte_line(text, "Pss"), 12 * 1024);
    EXPECT_EQ(kilobyte_line(text, "Pss_Anon"), 7 * 1024);
    EXPECT_EQ(kilobyte_line(text, "Swap"), -1);
    EXPECT_EQ(kilobyte_line("Pss: much", "Pss"), -1);
    EXPECT_EQ(kilobyte_line("", "Pss"), -1);
}

TEST(MemoryOf, CountsSharedMemoryOnceAndUntouched) {
    constexpr std::size_t bytes = 8 << 20;
    const pid_t self = ::getpid();
    auto before = memory_of({self});
    ASSERT_TRUE(before.ok()) << before.error().sentence;

    base::UniqueFd file(::memfd_create("bench-memory-test", MFD_CLOEXEC));
    ASSERT_TRUE(file.valid());
    ASSERT_EQ(::posix_fallocate(file.get(), 0, bytes), 0);
    auto with_file = memory_of({self});
    ASSERT_TRUE(with_file.ok());
    EXPECT_EQ(with_file.value().shared_bytes - before.value().shared_bytes, bytes);

    // Mapped twice, seen through two processes' eyes: still the same pages.
    void* first = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    void* second = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
    ASSERT_NE(first, MAP_FAILED);
    ASSERT_NE(second, MAP_FAILED);
    file.reset();
    auto mapped = memory_of({self, self});
    ASSERT_TRUE(mapped.ok());
    EXPECT_EQ(mapped.value().shared_bytes - before.value().shared_bytes, bytes);
    ::munmap(first, bytes);
    ::munmap(second, bytes);
    auto after = memory_of({self});
    ASSERT_TRUE(after.ok());
    EXPECT_EQ(after.value().shared_bytes, before.value().shared_bytes);
}

TEST(MemoryOf, UnknownProcessIsAnError) {
    EXPECT_FALSE(memory_of({0x7fffffff}).ok());
}

}  // namespace
}  // namespace via::bench
