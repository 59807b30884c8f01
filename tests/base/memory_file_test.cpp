// SPDX-License-Identifier: BSD-3-Clause
#include "base/memory_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>

using namespace via::base;

namespace {

constexpr std::size_t size = 64 * 1024;

blkcnt_t blocks_of(const UniqueFd& file) {
    struct stat status {};
    EXPECT_EQ(fstat(file.get(), &status), 0);
    return status.st_blocks;
}

UniqueFd make(Backing backing, Sharing sharing = Sharing::Shared) {
    auto file = create_memory_file("viaduct-test", size, backing, sharing);
    EXPECT_TRUE(file) << file.error().sentence;
    return file ? std::move(file).value() : UniqueFd();
}

TEST(MemoryFile, IsZeroAndSharedBetweenMappings) {
    const UniqueFd file = make(Backing::Allocated);
    auto first = Mapping::map(file, size, Access::ReadWrite);
    auto second = Mapping::map(file, size, Access::ReadOnly);
    ASSERT_TRUE(first && second);
    for (std::size_t i = 0; i < size; ++i)
        ASSERT_EQ(second.value().data()[i], std::byte{0});
    std::memcpy(first.value().data() + 100, "viaduct", 7);
    EXPECT_EQ(std::memcmp(second.value().data() + 100, "viaduct", 7), 0);
}

TEST(MemoryFile, CanNeitherShrinkNorGrow) {
    const UniqueFd file = make(Backing::Sparse);
    EXPECT_EQ(ftruncate(file.get(), size / 2), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(ftruncate(file.get(), size * 2), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_TRUE(verify_memory_file(file, size));
}

TEST(MemoryFile, ASharedOneTakesNoFurtherSeals) {
    const UniqueFd file = make(Backing::Sparse);
    EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
    EXPECT_EQ(errno, EPERM);
}

TEST(MemoryFile, AllocatedHasItsPagesSparseHasNone) {
    EXPECT_GE(blocks_of(make(Backing::Allocated)) * 512, static_cast<blkcnt_t>(size));
    const UniqueFd sparse = make(Backing::Sparse);
    EXPECT_EQ(blocks_of(sparse), 0);
    ASSERT_TRUE(allocate_range(sparse, 0, 1));
    const blkcnt_t one_page = blocks_of(sparse);
    EXPECT_GT(one_page, 0);
    ASSERT_TRUE(allocate_range(sparse, 0, size));
    EXPECT_GT(blocks_of(sparse), one_page);
}

TEST(MemoryFile, ReleasedPagesAreGivenBackAndReadAsZero) {
    const UniqueFd file = make(Backing::Allocated);
    auto mapping = Mapping::map(file, size, Access::ReadWrite);
    ASSERT_TRUE(mapping);
    std::memset(mapping.value().data(), 7, size);
    ASSERT_TRUE(release_range(file, 0, size));
    EXPECT_EQ(blocks_of(file), 0);
    ASSERT_TRUE(allocate_range(file, 0, size));
    EXPECT_EQ(mapping.value().data()[0], std::byte{0});
    EXPECT_EQ(mapping.value().data()[size - 1], std::byte{0});
}

TEST(MemoryFile, FutureWriteSealForbidsEveryWayToWrite) {
    const UniqueFd file = make(Backing::Allocated, Sharing::OwnerWrites);
    auto owner = Mapping::map(file, size, Access::ReadWrite);
    ASSERT_TRUE(owner);
    ASSERT_TRUE(seal_future_writes(file));

    // A new writable mapping, also through a descriptor that was opened anew.
    EXPECT_FALSE(Mapping::map(file, size, Access::ReadWrite));
    const std::string path = "/proc/self/fd/" + std::to_string(file.get());
    const UniqueFd reopened(open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (reopened.valid()) {
        const auto mapped = Mapping::map(reopened, size, Access::ReadWrite);
        ASSERT_FALSE(mapped);
        EXPECT_EQ(mapped.error().code, Code::PermissionDenied);
    }
    // A read-only mapping that is made writable later.
    auto reader = Mapping::map(file, size, Access::ReadOnly);
    ASSERT_TRUE(reader);
    EXPECT_EQ(mprotect(reader.value().data(), size, PROT_READ | PROT_WRITE), -1);
    // write(), and punching holes.
    EXPECT_EQ(pwrite(file.get(), "x", 1, 0), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_FALSE(release_range(file, 0, size));

    // The owner still writes, and the reader sees it.
    owner.value().data()[5] = std::byte{42};
    EXPECT_EQ(reader.value().data()[5], std::byte{42});
    // And the seal can not be followed by others that would take that away.
    EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW), -1);
}

TEST(MemoryFile, ASealedOneMayStillBeAllocatedByItsOwner) {
    // What the counters page relies on: pages come later, when a slot is taken.
    const UniqueFd file = make(Backing::Sparse, Sharing::OwnerWrites);
    ASSERT_TRUE(seal_future_writes(file));
    EXPECT_TRUE(allocate_range(file, 0, size));
    EXPECT_GE(blocks_of(file) * 512, static_cast<blkcnt_t>(size));
}

TEST(VerifyMemoryFile, RefusesWhatAPeerMustNotSend) {
    const UniqueFd file = make(Backing::Sparse);
    EXPECT_TRUE(verify_memory_file(file, 1));
    const auto too_small = verify_memory_file(file, size + 1);
    ASSERT_FALSE(too_small);
    EXPECT_EQ(too_small.error().code, Code::ProtocolViolation);
    EXPECT_NE(too_small.error().sentence.find("65537"), std::string::npos);

    const UniqueFd unsealed(memfd_create("viaduct-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(unsealed.get(), size), 0);
    EXPECT_FALSE(verify_memory_file(unsealed, size));

    const UniqueFd no_memfd(open("/dev/null", O_RDWR | O_CLOEXEC));
    const auto refused = verify_memory_file(no_memfd, size);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::ProtocolViolation);
    EXPECT_FALSE(verify_memory_file(UniqueFd(), size));
}

TEST(MemoryFile, RunningOutOfDescriptorsIsAClearError) {
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{0, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const auto file = create_memory_file("viaduct-test", size, Backing::Sparse);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, Code::OutOfResources);
    EXPECT_NE(file.error().sentence.find("Too many open files"), std::string::npos);
}

TEST(MemoryFile, ImpossibleSizesAreRefused) {
    EXPECT_FALSE(create_memory_file("viaduct-test", ~std::size_t{0}, Backing::Sparse));
    const UniqueFd file = make(Backing::Sparse);
    EXPECT_FALSE(allocate_range(file, size, size));
    EXPECT_FALSE(Mapping::map(file, 0, Access::ReadOnly));
}

TEST(Mapping, MovesAndUnmaps) {
    const UniqueFd file = make(Backing::Allocated);
    auto made = Mapping::map(file, size, Access::ReadWrite);
    ASSERT_TRUE(made);
    Mapping first = std::move(made).value();
    std::byte* const address = first.data();
    Mapping second = std::move(first);
    EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): that is what is tested
    EXPECT_EQ(second.data(), address);
    EXPECT_EQ(second.size(), size);
    second.unmap();
    EXPECT_FALSE(second.valid());
    unsigned char resident = 0;
    EXPECT_EQ(mincore(address, 1, &resident), -1);
    EXPECT_EQ(errno, ENOMEM);  // nothing is mapped there any more
}

TEST(IsMapped, KnowsEveryPageOfARange) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    // Many pages with a hole, so that the answer depends on more than the ends.
    const std::size_t pages = 5000;
    void* const reserved =
        mmap(nullptr, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(reserved, MAP_FAILED);
    auto* const start = static_cast<std::byte*>(reserved);
    EXPECT_TRUE(is_mapped(start, pages * page));
    EXPECT_TRUE(is_mapped(start + page - 1, 2));
    ASSERT_EQ(munmap(start + 4500 * page, page), 0);
    EXPECT_FALSE(is_mapped(start, pages * page));
    EXPECT_TRUE(is_mapped(start, 4500 * page));
    EXPECT_FALSE(is_mapped(start, 4500 * page + 1));
    EXPECT_TRUE(is_mapped(start + 4501 * page, 499 * page));
    EXPECT_FALSE(is_mapped(start + 4501 * page - 1, 1));
    munmap(start, pages * page);
    EXPECT_FALSE(is_mapped(nullptr, 1));
    const int local = 0;
    EXPECT_TRUE(is_mapped(&local, sizeof local));
}

TEST(UniqueFd, ClosesOnceAndMoves) {
    int raw = -1;
    {
        UniqueFd file = make(Backing::Sparse);
        raw = file.get();
        UniqueFd moved = std::move(file);
        EXPECT_FALSE(file.valid());  // NOLINT(bugprone-use-after-move): that is what is tested
        EXPECT_EQ(moved.get(), raw);
        EXPECT_NE(fcntl(raw, F_GETFD), -1);
    }
    EXPECT_EQ(fcntl(raw, F_GETFD), -1);
    UniqueFd kept = make(Backing::Sparse);
    const int released = kept.release();
    kept.reset();
    EXPECT_NE(fcntl(released, F_GETFD), -1);
    close(released);
}

}  // namespace
