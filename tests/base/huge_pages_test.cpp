// SPDX-License-Identifier: BSD-3-Clause
#include "base/huge_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/clock.hpp"
#include "base/kernel_version.hpp"
#include "base/smaps.hpp"

using namespace via::base;
using via::test::huge_bytes_at;
using via::test::mapping_field;

namespace {

struct HugePagesTest : testing::Test {
    void SetUp() override {
        block = huge_page_bytes();
        if (block == 0) GTEST_SKIP() << "this system has no huge pages for everybody";
        // Apart from other mappings, whose page they might share.
        reserved_bytes = 8 * block;
        reserved = ::mmap(nullptr, reserved_bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        ASSERT_NE(reserved, MAP_FAILED);
        const auto address = reinterpret_cast<std::uintptr_t>(reserved);
        memory = reinterpret_cast<unsigned char*>((address / block + 1) * block);
    }
    void TearDown() override {
        if (block != 0) ::munmap(reserved, reserved_bytes);
    }

    /// Some of the memory, counted in bytes from its beginning; ordinary pages as yet.
    void open(std::size_t from, std::size_t to) const {
        void* wanted = memory + from;
        ASSERT_EQ(::mmap(wanted, to - from, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                  wanted);
        // The system may make pages huge of its own accord.
        ASSERT_EQ(::madvise(wanted, to - from, MADV_NOHUGEPAGE), 0);
    }
    static unsigned char value(std::size_t at) {
        return static_cast<unsigned char>(at * 2654435761U >> 13);
    }
    void write(std::size_t from, std::size_t to) const {
        for (std::size_t at = from; at < to; ++at)
            memory[at] = value(at);
    }
    /// As the program would have it from the start.
    void allow(std::size_t from, std::size_t to) const {
        ASSERT_EQ(::madvise(memory + from, to - from, MADV_HUGEPAGE), 0);
    }
    void expect_written(std::size_t from, std::size_t to) const {
        for (std::size_t at = from; at < to; ++at)
            ASSERT_EQ(memory[at], value(at)) << "at " << at;
    }

    [[nodiscard]] std::size_t huge_bytes(std::size_t at) const {
        return huge_bytes_at(memory + at);
    }

    std::size_t block = 0;
    void* reserved = nullptr;
    std::size_t reserved_bytes = 0;
    unsigned char* memory = nullptr;
};

}  // namespace

TEST_F(HugePagesTest, MemoryInUseBecomesHugeAndKeepsItsContents) {
    if (!kernel_is_at_least(6, 1)) GTEST_SKIP() << "this kernel moves nothing when asked to";
    open(0, 3 * block);
    write(0, 3 * block);
    ASSERT_EQ(huge_bytes(0), 0U);
    allow(0, 3 * block);
    // The kernel may be at these pages itself for a moment.
    const Deadline deadline = Deadline::after(30'000'000'000);
    while (use_huge_pages(memory + block / 2, 2 * block) < 3 * block && !deadline.expired()) {
    }
    EXPECT_EQ(huge_bytes(0), 3 * block);
    expect_written(0, 3 * block);
}

TEST_F(HugePagesTest, ABlockOfWhichLittleIsInUseStays) {
    open(0, block);
    write(0, block / 4);
    allow(0, block);
    EXPECT_EQ(use_huge_pages(memory, block / 4), 0U);
    EXPECT_EQ(huge_bytes(0), 0U);
    expect_written(0, block / 4);
}

TEST_F(HugePagesTest, ShortRangesAreLeftAlone) {
    open(0, block);
    write(0, block);
    allow(0, block);
    EXPECT_EQ(use_huge_pages(memory, block / 16), 0U);
    EXPECT_EQ(huge_bytes(0), 0U);
}

TEST_F(HugePagesTest, WhatNobodyHasTouchedBecomesHugeWhenItIs) {
    open(0, 2 * block);
    ASSERT_EQ(::mmap(memory, 2 * block, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              memory);
    EXPECT_EQ(use_huge_pages(memory, 2 * block), 0U);
    const std::string flags = mapping_field(memory, "VmFlags");
    EXPECT_NE(flags.find(" hg"), std::string::npos) << flags;
    EXPECT_EQ(huge_bytes(0), 0U);
}

TEST_F(HugePagesTest, WhatCanNotBeMovedStaysAsItIs) {
    // The first block has a hole, the second may not be huge, the third may.
    open(0, block / 4 * 3);
    open(block, 3 * block);
    write(0, block / 4 * 3);
    write(block, 3 * block);
    EXPECT_EQ(use_huge_pages(memory, 2 * block), 0U);
    EXPECT_EQ(use_huge_pages(nullptr, block), 0U);
    EXPECT_EQ(huge_bytes(0), 0U);
    EXPECT_EQ(huge_bytes(block), 0U);
    expect_written(0, block / 4 * 3);
    expect_written(block, 3 * block);
}

TEST(HugePages, NobodyWhoDoesNotWantThemGetsThem) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto ask = [] {
        ::setenv("VIA_HUGE_PAGES", "never", 1);
        std::_Exit(huge_page_bytes() == 0 ? 7 : 1);
    };
    EXPECT_EXIT(ask(), testing::ExitedWithCode(7), "");
}
