// SPDX-License-Identifier: BSD-3-Clause
#include "ka/kmem.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/memory_file.hpp"

namespace via::ka {
namespace {

using base::Code;

constexpr std::uint64_t mega = 1 << 20;

Kmem make_kmem(Limits limits = {}) {
    return Kmem(KmemSettings{mega, false}, limits);
}

TEST(Kmem, ArenasBelongToOneTag) {
    Kmem kmem = make_kmem();
    auto one = kmem.allocate(4096, 1);
    auto two = kmem.allocate(4096, 1);
    auto other = kmem.allocate(4096, 2);
    ASSERT_TRUE(one.ok() && two.ok() && other.ok());
    EXPECT_TRUE(one.value().new_arena);
    EXPECT_FALSE(two.value().new_arena);
    EXPECT_EQ(one.value().arena, two.value().arena);
    EXPECT_NE(one.value().arena, other.value().arena);
    EXPECT_EQ(kmem.find(other.value().arena)->tag, 2U);
    EXPECT_EQ(kmem.allocated_bytes(), 3U * 4096);
}

TEST(Kmem, AFullArenaIsFollowedByAnother) {
    Kmem kmem = make_kmem();
    auto one = kmem.allocate(mega, 1);
    auto two = kmem.allocate(4096, 1);
    ASSERT_TRUE(one.ok() && two.ok());
    EXPECT_NE(one.value().arena, two.value().arena);
    EXPECT_EQ(kmem.arenas(), 2U);
    ASSERT_TRUE(kmem.free(one.value().arena, 0).ok());
    EXPECT_EQ(kmem.arenas(), 1U);
    EXPECT_EQ(kmem.find(one.value().arena), nullptr);
}

TEST(Kmem, LargeRequestsHaveTheirOwnArenaOfTheirSize) {
    Kmem kmem = make_kmem();
    auto large = kmem.allocate(mega + 1, 1);
    ASSERT_TRUE(large.ok());
    EXPECT_EQ(large.value().block.bytes, mega + 4096);
    EXPECT_TRUE(kmem.find(large.value().arena)->dedicated);
    // Nobody else gets into it.
    auto small = kmem.allocate(4096, 1);
    EXPECT_NE(small.value().arena, large.value().arena);
    EXPECT_EQ(kmem.free(large.value().arena, 4096).error().code, Code::InvalidArgument);
    EXPECT_EQ(kmem.free(large.value().arena, 0).value(), Kmem::Freed::ReleasedArena);
    EXPECT_EQ(kmem.free(large.value().arena, 0).error().code, Code::InvalidArgument);
}

TEST(Kmem, NumbersOfArenasAreNeverUsedAgain) {
    Kmem kmem = make_kmem();
    kmem.set_floor(41);
    auto one = kmem.allocate(4096, 1);
    EXPECT_EQ(one.value().arena, 42U);
    ASSERT_TRUE(kmem.free(42, one.value().block.offset).ok());
    EXPECT_EQ(kmem.allocate(4096, 1).value().arena, 43U);
    kmem.set_floor(0xFFFFFFFF);
    EXPECT_EQ(kmem.allocate(4096, 9).error().code, Code::OutOfResources);
}

TEST(Kmem, ABlockWithRegionsInItStays) {
    Kmem kmem = make_kmem();
    auto block = kmem.allocate(8192, 1);
    const std::uint32_t arena = block.value().arena;
    const std::uint64_t offset = block.value().block.offset;
    EXPECT_TRUE(kmem.add_region(arena, offset + 100, 8092));
    EXPECT_TRUE(kmem.add_region(arena, offset, 1));
    EXPECT_FALSE(kmem.add_region(arena, offset + 100, 8093));
    EXPECT_FALSE(kmem.add_region(arena + 1, offset, 1));
    EXPECT_EQ(kmem.free(arena, offset).error().code, Code::InvalidState);
    kmem.remove_region(arena, offset + 100, 8092);
    EXPECT_EQ(kmem.free(arena, offset).error().code, Code::InvalidState);
    kmem.remove_region(arena, offset, 1);
    EXPECT_TRUE(kmem.free(arena, offset).ok());
}

TEST(Kmem, LimitsAreNamed) {
    Limits limits;
    limits.kmem_bytes = 3 * mega;
    limits.arenas = 2;
    Kmem kmem = make_kmem(limits);
    auto too_much = kmem.allocate(4 * mega, 1);
    ASSERT_FALSE(too_much.ok());
    EXPECT_EQ(too_much.error().code, Code::OutOfResources);
    EXPECT_NE(too_much.error().sentence.find(std::to_string(3 * mega)), std::string::npos);
    ASSERT_TRUE(kmem.allocate(4096, 1).ok());
    ASSERT_TRUE(kmem.allocate(4096, 2).ok());
    auto too_many = kmem.allocate(4096, 3);
    ASSERT_FALSE(too_many.ok());
    EXPECT_EQ(too_many.error().code, Code::OutOfResources);
    EXPECT_TRUE(kmem.allocate(4096, 1).ok());
}

TEST(Kmem, RestoresArenasAndBlocks) {
    Kmem kmem = make_kmem();
    auto file = base::create_memory_file("arena", mega, base::Backing::Sparse);
    ASSERT_TRUE(kmem.restore_arena(7, std::move(file).value(), mega, 3, false).ok());
    ASSERT_TRUE(kmem.restore_block(7, {8192, 8192}).ok());
    EXPECT_FALSE(kmem.restore_block(7, {8192, 4096}).ok());
    EXPECT_FALSE(kmem.restore_block(7, {4096, 8192}).ok());
    EXPECT_FALSE(kmem.restore_block(8, {8192, 8192}).ok());
    EXPECT_EQ(kmem.allocated_bytes(), 8192U);
    // It is an arena like any other.
    auto next = kmem.allocate(8192, 3);
    EXPECT_EQ(next.value().arena, 7U);
    EXPECT_EQ(next.value().block.offset, 0U);
    EXPECT_EQ(kmem.allocate(4096, 4).value().arena, 8U);
    auto large = base::create_memory_file("arena", mega + 4096, base::Backing::Sparse);
    ASSERT_TRUE(kmem.restore_arena(9, std::move(large).value(), mega + 4096, 3, true).ok());
    EXPECT_FALSE(kmem.restore_block(9, {0, 4096}).ok());
    EXPECT_TRUE(kmem.restore_block(9, {0, mega + 4096}).ok());
    EXPECT_FALSE(kmem.restore_block(9, {0, mega + 4096}).ok());
}

TEST(Kmem, WhatIsNoArenaIsNotRestored) {
    Kmem kmem = make_kmem();
    const auto memory = [](std::uint64_t bytes) {
        return base::create_memory_file("arena", bytes, base::Backing::Sparse).value().release();
    };
    // Smaller than it says.
    EXPECT_FALSE(kmem.restore_arena(1, base::UniqueFd(memory(4096)), mega, 1, false).ok());
    // Not a power of two.
    EXPECT_FALSE(kmem.restore_arena(1, base::UniqueFd(memory(3 * 4096)), 3 * 4096, 1, false).ok());
    // Not whole pages.
    EXPECT_FALSE(kmem.restore_arena(1, base::UniqueFd(memory(8192)), 5000, 1, true).ok());
    // Can shrink.
    base::UniqueFd soft(memfd_create("soft", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(soft.get(), mega), 0);
    EXPECT_FALSE(kmem.restore_arena(1, std::move(soft), mega, 1, false).ok());
    // Something else.
    base::UniqueFd null(open("/dev/zero", O_RDWR | O_CLOEXEC));
    EXPECT_FALSE(kmem.restore_arena(1, std::move(null), mega, 1, false).ok());
    EXPECT_FALSE(kmem.restore_arena(no_arena, base::UniqueFd(memory(mega)), mega, 1, false).ok());
    EXPECT_EQ(kmem.arenas(), 0U);
    EXPECT_TRUE(kmem.restore_arena(1, base::UniqueFd(memory(mega)), mega, 1, false).ok());
    EXPECT_FALSE(kmem.restore_arena(1, base::UniqueFd(memory(mega)), mega, 1, false).ok());
}

TEST(Kmem, UsesHugePagesWhereThereAreFreeOnes) {
    Kmem kmem(KmemSettings{2 * mega, true}, Limits{});
    if (!Kmem::huge_pages_free(4 * mega)) {
        // Without them it works with ordinary pages.
        auto block = kmem.allocate(4096, 1);
        ASSERT_TRUE(block.ok());
        EXPECT_FALSE(kmem.find(block.value().arena)->huge_pages);
        return;
    }
    auto block = kmem.allocate(4096, 1);
    ASSERT_TRUE(block.ok());
    const Kmem::Arena* arena = kmem.find(block.value().arena);
    ASSERT_TRUE(arena->huge_pages);
    struct stat status {};
    ASSERT_EQ(fstat(arena->file->get(), &status), 0);
    EXPECT_EQ(status.st_blksize, static_cast<blksize_t>(2 * mega));
    auto plain = kmem.allocate(4096, 2, false);
    EXPECT_FALSE(kmem.find(plain.value().arena)->huge_pages);
    auto large = kmem.allocate(2 * mega + 1, 1);
    EXPECT_EQ(large.value().block.bytes, 4 * mega);
}

}  // namespace
}  // namespace via::ka
