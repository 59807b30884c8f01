// SPDX-License-Identifier: BSD-3-Clause
#include "na/shm/copy_paths.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "na/seeded.hpp"
#include "na/shm/child_process.hpp"
#include "na/shm/guarded_memory.hpp"

using namespace via::na::shm;
using namespace via::test;
using via::base::Deadline;

namespace {

std::uint64_t address_of(const void* pointer) {
    return reinterpret_cast<std::uint64_t>(pointer);
}

TEST(LastWord, BeginsAtTheLastAlignedWord) {
    for (std::uint64_t address = 4096; address < 4096 + 16; ++address)
        for (std::size_t bytes = 1; bytes <= 64; ++bytes) {
            const std::size_t offset = last_word_offset(address, bytes);
            ASSERT_LT(offset, bytes);
            // What follows is one word or less, and lies in one aligned word.
            ASSERT_LE(bytes - offset, 8U);
            ASSERT_EQ((address + offset) / 8, (address + bytes - 1) / 8);
            if (offset != 0) {
                ASSERT_EQ((address + offset) % 8, 0U);
            }
        }
    EXPECT_EQ(last_word_offset(4096, 0), 0U);
    EXPECT_EQ(last_word_offset(4097, 0), 0U);
}

TEST(CopyOrdered, CopiesJustThat) {
    alignas(64) std::array<std::byte, 192> from;
    alignas(64) std::array<std::byte, 192> to;
    fill_pattern(from, 1);
    for (std::size_t bytes = 0; bytes <= 64; ++bytes)
        for (std::size_t source = 0; source < 16; ++source)
            for (std::size_t target = 32; target < 48; ++target) {
                fill_pattern(to, 2);
                copy_ordered(to.data() + target, from.data() + source, bytes);
                ASSERT_EQ(matching_bytes(std::span(to).first(target), 2), target);
                ASSERT_EQ(matching_bytes(std::span(to).subspan(target, bytes), 1, source), bytes);
                const std::size_t behind = target + bytes;
                ASSERT_EQ(matching_bytes(std::span(to).subspan(behind), 2, behind),
                          to.size() - behind);
            }
}

TEST(CopyOrdered, TouchesNothingOutside) {
    for (const auto edge : {GuardedMemory::Edge::Front, GuardedMemory::Edge::Back})
        for (std::size_t bytes = 1; bytes <= 64; ++bytes) {
            const GuardedMemory from(64, edge);
            const GuardedMemory to(64, edge);
            const std::size_t offset = edge == GuardedMemory::Edge::Front ? 0 : 64 - bytes;
            copy_ordered(to.data() + offset, from.data() + offset, bytes);
        }
}

/// A flag that watches for copies: when the last word is new, so is everything before it.
struct Observed {
    std::size_t offset;  ///< from a cache line
    std::size_t bytes;
};

class CopyOrderedObserved : public testing::TestWithParam<Observed> {};

TEST_P(CopyOrderedObserved, ShowsTheLastWordLast) {
    const auto [offset, bytes] = GetParam();
    const std::size_t last = last_word_offset(offset + 64, bytes);
    const std::size_t flag_bytes = bytes - last;
    ASSERT_TRUE(flag_bytes == 8 || flag_bytes == 4);
    std::vector<std::byte> memory(bytes + 256);
    auto* line = reinterpret_cast<std::byte*>((address_of(memory.data()) + 63) / 64 * 64);
    std::byte* target = line + offset;
    const std::uint32_t rounds = repeated(bytes > 5000 ? 200 : 2000);
    const Deadline deadline = Deadline::after_milliseconds(60000);
    std::atomic<std::uint32_t> seen{0};
    const auto flag = [&]() -> std::uint64_t {
        if (flag_bytes == 8)
            return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(target + last))
                .load(std::memory_order_acquire);
        return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(target + last))
            .load(std::memory_order_acquire);
    };
    std::thread observer([&] {
        for (std::uint32_t round = 1; round <= rounds; ++round) {
            while (flag() != round) {
                if (deadline.expired()) return;
                sched_yield();
            }
            if (matching_bytes({target, last}, round) != last) {
                ADD_FAILURE() << "old bytes in round " << round;
                return;
            }
            seen.store(round, std::memory_order_release);
        }
    });
    std::vector<std::byte> source(bytes);
    for (std::uint32_t round = 1; round <= rounds; ++round) {
        fill_pattern(std::span(source).first(last), round);
        const std::uint64_t word = round;
        std::memcpy(source.data() + last, &word, flag_bytes);
        copy_ordered(target, source.data(), bytes);
        while (seen.load(std::memory_order_acquire) != round && !deadline.expired())
            sched_yield();
        if (deadline.expired()) break;
    }
    observer.join();
    EXPECT_EQ(seen.load(), rounds);
}

INSTANTIATE_TEST_SUITE_P(Places, CopyOrderedObserved,
                         testing::Values(Observed{0, 16}, Observed{0, 64}, Observed{0, 12},
                                         Observed{3, 29}, Observed{1, 4095}, Observed{8, 4096},
                                         Observed{4, 8}, Observed{5, 4091 + 16},
                                         Observed{0, 65536}),
                         [](const auto& shape) {
                             return "At" + std::to_string(shape.param.offset) + "Bytes" +
                                    std::to_string(shape.param.bytes);
                         });

// ---- CMA against a child -------------------------------------------------------------------

struct Dialogue {
    std::atomic<std::uint32_t> child{0};
    std::atomic<std::uint32_t> parent{0};
};

/// False: the deadline passed.
bool await(const std::atomic<std::uint32_t>& word, std::uint32_t value, Deadline deadline) {
    while (word.load(std::memory_order_acquire) != value) {
        if (deadline.expired()) return false;
        sched_yield();
    }
    return true;
}

class Cma : public testing::Test {
  protected:
    void SetUp() override {
        ChildProcess child([this] { return await(dialogue->parent, 1, deadline) ? 0 : 1; });
        std::uint64_t word = 0;
        const bool works = cma_read(child.pid(), reinterpret_cast<std::byte*>(&word),
                                    address_of(&own_word_), sizeof word);
        const int error = errno;
        dialogue->parent = 1;
        ASSERT_EQ(child.wait(), 0);
        if (!works) GTEST_SKIP() << "the kernel refuses CMA here: " << std::strerror(error);
        dialogue->parent = 0;
    }
    const Deadline deadline = Deadline::after_milliseconds(60000);
    Shared<Dialogue> dialogue;

  private:
    const std::uint64_t own_word_ = 1;
};

TEST_F(Cma, ReadsAndWritesAnotherProcess) {
    // Parent and child have different contents at the same addresses.
    std::vector<std::byte> memory(3 << 20);
    fill_pattern(memory, 1);
    ChildProcess child([&] {
        fill_pattern(memory, 2);
        dialogue->child = 1;
        if (!await(dialogue->parent, 1, deadline)) return 1;
        if (matching_bytes(std::span(memory).first(7), 2) != 7) return 2;
        const std::size_t written = memory.size() - 10;
        if (matching_bytes(std::span(memory).subspan(7, written), 3) != written) return 3;
        if (matching_bytes(std::span(memory).last(3), 2, memory.size() - 3) != 3) return 4;
        return 0;
    });
    ASSERT_TRUE(await(dialogue->child, 1, deadline));
    std::vector<std::byte> copy(memory.size() - 10);
    ASSERT_TRUE(cma_read(child.pid(), copy.data(), address_of(memory.data()) + 5, copy.size()));
    EXPECT_EQ(matching_bytes(copy, 2, 5), copy.size());
    EXPECT_EQ(matching_bytes(memory, 1), memory.size()) << "it was read from the wrong process";
    fill_pattern(copy, 3);
    ASSERT_TRUE(cma_write(child.pid(), copy.data(), address_of(memory.data()) + 7, copy.size()));
    EXPECT_EQ(matching_bytes(memory, 1), memory.size()) << "it was written to the wrong process";
    EXPECT_TRUE(cma_read(child.pid(), nullptr, 0, 0));
    EXPECT_TRUE(cma_write(child.pid(), nullptr, 0, 0));
    dialogue->parent = 1;
    EXPECT_EQ(child.wait(), 0);
}

TEST_F(Cma, CopiesJustThatAtAllAlignments) {
    alignas(64) static std::array<std::byte, 192> target;
    ChildProcess child([&] { return await(dialogue->parent, 1, deadline) ? 0 : 1; });
    std::array<std::byte, 64> from;
    fill_pattern(from, 1);
    for (std::size_t bytes = 0; bytes <= 40; ++bytes)
        for (std::size_t offset = 32; offset < 41; ++offset) {
            std::array<std::byte, 192> clean;
            fill_pattern(clean, 2);
            for (const LastWord last_word : {LastWord::Last, LastWord::Whenever}) {
                ASSERT_TRUE(
                    cma_write(child.pid(), clean.data(), address_of(&target), clean.size()));
                ASSERT_TRUE(cma_write(child.pid(), from.data(), address_of(target.data()) + offset,
                                      bytes, last_word));
                std::array<std::byte, 192> back{};
                ASSERT_TRUE(cma_read(child.pid(), back.data(), address_of(&target), back.size()));
                ASSERT_EQ(matching_bytes(std::span(back).first(offset), 2), offset);
                ASSERT_EQ(matching_bytes(std::span(back).subspan(offset, bytes), 1), bytes);
                const std::size_t behind = offset + bytes;
                ASSERT_EQ(matching_bytes(std::span(back).subspan(behind), 2, behind),
                          back.size() - behind);
            }
        }
    dialogue->parent = 1;
    EXPECT_EQ(child.wait(), 0);
}

TEST_F(Cma, SaysWhenMemoryOrProcessIsNotThere) {
    const GuardedMemory memory(4096);
    std::vector<std::byte> own(8192);
    ChildProcess child([&] { return await(dialogue->parent, 1, deadline) ? 0 : 1; });
    const pid_t pid = child.pid();
    EXPECT_TRUE(cma_read(pid, own.data(), address_of(memory.data()), 4096));
    EXPECT_FALSE(cma_read(pid, own.data(), address_of(memory.data()), 4097));
    EXPECT_FALSE(cma_write(pid, own.data(), address_of(memory.data()), 4097));
    EXPECT_FALSE(cma_read(pid, own.data(), address_of(memory.data()) + 4096, 1));
    EXPECT_FALSE(cma_write(pid, own.data(), 0, 1));
    EXPECT_FALSE(cma_read(pid, own.data(), ~std::uint64_t{0} - 100, 1000));
    dialogue->parent = 1;
    EXPECT_EQ(child.wait(), 0);
    EXPECT_FALSE(cma_read(pid, own.data(), address_of(memory.data()), 1));
    EXPECT_FALSE(cma_write(pid, own.data(), address_of(memory.data()), 1));
}

// What a target relies on that polls a flag behind the data of the same RDMA write.
TEST_F(Cma, ShowsTheLastWordLast) {
    constexpr std::uint32_t rounds = repeated(1500);
    constexpr std::size_t bytes = 3 * 4096 + 200;
    constexpr std::size_t last = bytes - 8;
    alignas(64) static std::array<std::byte, bytes> memory;
    ChildProcess child([&] {
        auto& flag = *reinterpret_cast<std::uint64_t*>(memory.data() + last);
        for (std::uint32_t round = 1; round <= rounds; ++round) {
            while (std::atomic_ref(flag).load(std::memory_order_acquire) != round) {
                if (deadline.expired()) return 1;
                sched_yield();
            }
            if (matching_bytes(std::span(memory).first(last), round) != last) return 2;
            dialogue->child.store(round, std::memory_order_release);
        }
        return 0;
    });
    std::vector<std::byte> source(bytes);
    for (std::uint32_t round = 1; round <= rounds; ++round) {
        fill_pattern(std::span(source).first(last), round);
        const std::uint64_t word = round;
        std::memcpy(source.data() + last, &word, 8);
        ASSERT_TRUE(cma_write(child.pid(), source.data(), address_of(&memory), bytes));
        ASSERT_TRUE(await(dialogue->child, round, deadline)) << "round " << round;
    }
    EXPECT_EQ(child.wait(), 0);
}

TEST_F(Cma, ProbeFindsTheRightProcess) {
    const ProbeTarget target = own_probe_target();
    const auto& scratch =
        *reinterpret_cast<const std::atomic<std::uint8_t>*>(target.scratch_address);
    ChildProcess child([&] {
        if (!await(dialogue->parent, 1, deadline)) return 1;
        return scratch.load() == 1 ? 0 : 2;
    });
    const ProbeResult result = probe_cma(child.pid(), target);
    EXPECT_TRUE(result.read);
    EXPECT_TRUE(result.write);
    EXPECT_EQ(scratch.load(), 0) << "it was written to this process";
    dialogue->parent = 1;
    EXPECT_EQ(child.wait(), 0);
}

TEST_F(Cma, ProbeNoticesTheWrongProcess) {
    const ProbeTarget target = own_probe_target();
    ChildProcess child([&] { return await(dialogue->parent, 1, deadline) ? 0 : 1; });
    const pid_t pid = child.pid();
    ProbeTarget other_value = target;
    ++other_value.value;
    EXPECT_FALSE(probe_cma(pid, other_value).read);
    EXPECT_FALSE(probe_cma(pid, other_value).write);
    ProbeTarget other_address = target;
    other_address.value_address = 16;
    EXPECT_FALSE(probe_cma(pid, other_address).read);
    ProbeTarget other_scratch = target;
    other_scratch.scratch_address = 16;
    EXPECT_TRUE(probe_cma(pid, other_scratch).read);
    EXPECT_FALSE(probe_cma(pid, other_scratch).write);
    dialogue->parent = 1;
    EXPECT_EQ(child.wait(), 0);
    EXPECT_FALSE(probe_cma(pid, target).read) << "it is gone";
}

TEST(ProbeTarget, IsTheSameForAllPeers) {
    const ProbeTarget first = own_probe_target();
    const ProbeTarget second = own_probe_target();
    EXPECT_EQ(first.value, second.value);
    EXPECT_EQ(first.value_address, second.value_address);
    EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(first.value_address), first.value);
}

TEST(AllowedPaths, FollowTheSetting) {
    const struct {
        const char* setting;
        bool kmem, cma;
    } cases[] = {
        {"auto", true, true}, {"kmem", true, false}, {"cma", false, true}, {"ring", false, false}};
    for (const auto& expected : cases) {
        // Settings are read once per process.
        ChildProcess child([&] {
            setenv("VIA_SHM_PATH", expected.setting, 1);
            const AllowedPaths allowed = allowed_paths();
            return (allowed.kmem ? 1 : 0) | (allowed.cma ? 2 : 0);
        });
        EXPECT_EQ(child.wait(), (expected.kmem ? 1 : 0) | (expected.cma ? 2 : 0))
            << expected.setting;
    }
}

}  // namespace
