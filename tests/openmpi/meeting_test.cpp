// SPDX-License-Identifier: BSD-3-Clause
#include "openmpi/meeting.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace via::openmpi {
namespace {

constexpr auto yields = Meeting::Patience::Yields;

/// What a rank brings to a turn: all know all of it.
std::vector<std::byte> bytes_of(std::uint32_t rank, std::uint32_t turn, std::size_t count) {
    std::vector<std::byte> bytes(count);
    for (std::size_t i = 0; i < count; ++i)
        bytes[i] = static_cast<std::byte>(rank * 89 + turn * 31 + i * 7);
    return bytes;
}

/// Turns with as many bytes as one seed says. False: something else was brought than should be.
[[nodiscard]] bool takes_part(Meeting& meeting, std::uint32_t rank, std::uint32_t turns) {
    constexpr std::array<std::size_t, 8> counts{0, 1, 7, 8, 9, 64, 500, Meeting::most_bytes};
    std::mt19937 random(7);
    for (std::uint32_t turn = 0; turn < turns; ++turn) {
        const std::size_t count = counts[random() % counts.size()];
        const auto own = bytes_of(rank, turn, count);
        meeting.arrive(own.data(), count);
        if (!meeting.wait([] {})) return false;
        for (std::uint32_t other = 0; other < meeting.ranks(); ++other) {
            const auto expected = bytes_of(other, turn, count);
            if (count != 0 && std::memcmp(meeting.brought_by(other), expected.data(), count) != 0)
                return false;
        }
    }
    return true;
}

Meeting::Made made_for(std::uint32_t ranks, Meeting::Patience patience = yields) {
    auto made = Meeting::make(0, ranks, patience);
    EXPECT_TRUE(made) << made.error().sentence;
    return std::move(made).value();
}

class Ranks : public testing::TestWithParam<std::uint32_t> {};

TEST_P(Ranks, OfOneProcessGetWhatAllBrought) {
    constexpr std::uint32_t turns = 400;
    const Meeting::Made made = made_for(GetParam());
    std::vector<std::unique_ptr<Meeting>> others;
    std::vector<char> good(GetParam(), 0);
    for (std::uint32_t rank = 1; rank < GetParam(); ++rank) {
        auto joined = Meeting::join(made.invitation, rank, GetParam(), yields);
        ASSERT_TRUE(joined) << joined.error().sentence;
        others.push_back(std::move(joined).value());
    }
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 1; rank < GetParam(); ++rank)
        threads.emplace_back(
            [&, rank] { good[rank] = takes_part(*others[rank - 1], rank, turns) ? 1 : 0; });
    good[0] = takes_part(*made.meeting, 0, turns) ? 1 : 0;
    for (auto& thread : threads)
        thread.join();
    for (std::uint32_t rank = 0; rank < GetParam(); ++rank)
        EXPECT_EQ(good[rank], 1) << "rank " << rank;
}

TEST_P(Ranks, OfSeveralProcessesGetWhatAllBrought) {
    constexpr std::uint32_t turns = 400;
    const Meeting::Made made = made_for(GetParam());
    std::vector<pid_t> children;
    for (std::uint32_t rank = 1; rank < GetParam(); ++rank) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            auto joined = Meeting::join(made.invitation, rank, GetParam(), yields);
            ::_exit(joined && takes_part(*joined.value(), rank, turns) ? 0 : 1);
        }
        children.push_back(child);
    }
    EXPECT_TRUE(takes_part(*made.meeting, 0, turns));
    for (const pid_t child : children) {
        int status = -1;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
}

INSTANTIATE_TEST_SUITE_P(Meeting, Ranks, testing::Values(2U, 3U, 5U));

TEST(Meeting, NobodyGoesOnBeforeAllHaveCome) {
    const Meeting::Made made = made_for(2, Meeting::Patience::Spins);
    auto other = Meeting::join(made.invitation, 1, 2, yields);
    ASSERT_TRUE(other);
    made.meeting->arrive(nullptr, 0);
    int called = 0;
    // The other comes while this one waits, and only by its progress.
    EXPECT_TRUE(made.meeting->wait([&] {
        if (++called == 5) other.value()->arrive(nullptr, 0);
    }));
    EXPECT_EQ(called, 5);
    EXPECT_TRUE(other.value()->wait([] {}));
}

TEST(Meeting, OfOneWhoIsOverIsNotWaitedFor) {
    const Meeting::Made made = made_for(2);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        auto joined = Meeting::join(made.invitation, 1, 2, yields);
        ::_exit(joined && takes_part(*joined.value(), 1, 3) ? 0 : 1);
    }
    EXPECT_TRUE(takes_part(*made.meeting, 0, 3));
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    made.meeting->arrive(nullptr, 0);
    EXPECT_FALSE(made.meeting->wait([] {}));
}

TEST(Meeting, WithAWrongInvitationIsNone) {
    const Meeting::Made made = made_for(2);
    const auto can_join = [](const Invitation& invitation, std::uint32_t ranks) {
        return static_cast<bool>(Meeting::join(invitation, 1, ranks, yields));
    };
    EXPECT_TRUE(can_join(made.invitation, 2));
    EXPECT_FALSE(can_join(made.invitation, 32)) << "its memory is for fewer";
    EXPECT_FALSE(can_join(Invitation{}, 2));
    Invitation wrong = made.invitation;
    ++wrong.token;
    EXPECT_FALSE(can_join(wrong, 2));
    wrong = made.invitation;
    ++wrong.pid_namespace;
    EXPECT_FALSE(can_join(wrong, 2));
    wrong = made.invitation;
    wrong.pid = -1;
    EXPECT_FALSE(can_join(wrong, 2));
    const base::UniqueFd other(::open("/dev/null", O_RDWR | O_CLOEXEC));
    wrong = made.invitation;
    wrong.descriptor = other.get();
    EXPECT_FALSE(can_join(wrong, 2));
}

}  // namespace
}  // namespace via::openmpi
