// SPDX-License-Identifier: BSD-3-Clause
// A peer that guesses: handles that are nearly right, ranges that end one byte too late, memory of
// another tag or without the right. It reaches what it may reach, nothing else, and learns nothing
// from the refusals.
#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "vipl/harness.hpp"

namespace via::test {
namespace {

struct Guess {
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;
    VIP_MEM_HANDLE handle = 0;
    bool write_allowed = false;
    bool read_allowed = false;
};

/// One piece of memory with regions of all kinds in it, and gaps between them.
class Targets {
  public:
    static constexpr std::size_t region_bytes = 512;

    Targets(Pair& pair, std::uint32_t seed) : random_(seed), memory_(32 * 1024) {
        Nic& nic = pair.server.nic;
        const bool reads = nic.attributes().RDMAReadSupport != 0;
        const VIP_PROTECTION_HANDLE other = make_tag(nic);
        add(nic, pair.server.tag, true, reads, true);
        add(nic, pair.server.tag, true, false, true);
        add(nic, pair.server.tag, false, reads, true);
        add(nic, pair.server.tag, false, false, true);
        add(nic, other, true, reads, false);
        add(nic, pair.server.tag, true, reads, true);
        EXPECT_VIP(VIP_SUCCESS,
                   VipDeregisterMem(nic, regions_.back().first, regions_.back().handle));
        regions_.back().write = regions_.back().read = false;
        for (std::size_t i = 0; i < memory_.size(); ++i)
            memory_[i] = static_cast<std::byte>(random_());
        expected_ = memory_;
    }

    /// Mostly nearly right.
    [[nodiscard]] Guess guess() {
        const Region& region = regions_[random_() % regions_.size()];
        Guess made;
        made.handle = region.handle;
        switch (random_() % 8) {
            case 0:
                made.handle ^= 1U << (random_() % 32);
                break;
            case 1:
                made.handle += random_() % 2 == 0 ? 0x10000U : 0xFFFF0000U;
                break;
            case 2:
                made.handle = static_cast<VIP_MEM_HANDLE>(random_());
                break;
            case 3:
                made.handle = random_() % 2 == 0 ? 0U : ~0U;
                break;
            default:
                break;
        }
        const auto begin = reinterpret_cast<std::uint64_t>(region.first);
        made.bytes = 1 + static_cast<std::uint32_t>(random_() % (region_bytes + 2));
        switch (random_() % 6) {
            case 0:  // around the start
                made.address = begin + random_() % 5 - 2;
                break;
            case 1:  // around the end
                made.address = begin + region_bytes - made.bytes + random_() % 5 - 2;
                break;
            case 2:  // beyond the end of the address space and round again
                made.address = std::numeric_limits<std::uint64_t>::max() - random_() % 512;
                break;
            case 3:
                made.address = begin + random_() % region_bytes;
                break;
            default:
                made.bytes = 1 + static_cast<std::uint32_t>(random_() % 64);
                made.address = begin + random_() % (region_bytes - 64);
                break;
        }
        for (const Region& one : regions_) {
            const auto first = reinterpret_cast<std::uint64_t>(one.first);
            if (one.handle != made.handle || made.address < first ||
                made.address - first > region_bytes ||
                made.bytes > region_bytes - (made.address - first))
                continue;
            made.write_allowed = one.write;
            made.read_allowed = one.read;
        }
        return made;
    }
    void written(const Guess& guess, const std::byte* data) {
        std::copy_n(data, guess.bytes,
                    expected_.begin() +
                        static_cast<std::ptrdiff_t>(
                            guess.address - reinterpret_cast<std::uint64_t>(memory_.data())));
    }
    [[nodiscard]] bool as_expected() const { return memory_ == expected_; }

  private:
    struct Region {
        std::byte* first = nullptr;
        VIP_MEM_HANDLE handle = 0;
        bool write = false;
        bool read = false;
    };
    void add(Nic& nic, VIP_PROTECTION_HANDLE tag, bool write, bool read, bool own_tag) {
        Region region;
        region.first = memory_.data() + 1024 + regions_.size() * 4096;
        VIP_MEM_ATTRIBUTES attributes{tag, write ? VIP_TRUE : VIP_FALSE,
                                      read ? VIP_TRUE : VIP_FALSE};
        EXPECT_VIP(VIP_SUCCESS,
                   VipRegisterMem(nic, region.first, region_bytes, &attributes, &region.handle));
        region.write = write && own_tag;
        region.read = read && own_tag;
        regions_.push_back(region);
    }

    std::mt19937 random_;
    std::vector<std::byte> memory_;
    std::vector<std::byte> expected_;
    std::vector<Region> regions_;
};

Remote remote_of(const Guess& guess) {
    // NOLINTNEXTLINE: an address of the peer, which is no pointer here
    return {reinterpret_cast<const void*>(guess.address), guess.handle};
}

/// Errors do not end an unreliable connection, so one connection can guess for long.
TEST(RdmaGuess, WritesReachOnlyWhatTheyMayReach) {
    Pair pair({.level = unreliable, .arena_bytes = 4U << 20});
    Targets targets(pair, 7);
    constexpr unsigned in_a_row = 20;
    std::byte* const source = pair.client.arena.take(1024);
    VIP_DESCRIPTOR* const write = pair.client.arena.descriptor();
    VIP_DESCRIPTOR* const send = pair.client.arena.descriptor();
    VIP_DESCRIPTOR* const receive = pair.server.arena.descriptor();
    unsigned allowed = 0;
    unsigned refused = 0;
    for (unsigned i = 0; i < rounds(4000); ++i) {
        const Guess guess = targets.guess();
        fill_pattern(source, guess.bytes, i);
        const Segment from = pair.client.arena.segment(source, guess.bytes);
        fill_rdma(write, remote_of(guess), {&from, 1}, VIP_CONTROL_OP_RDMAWRITE);
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(write));
        const Completion done = pair.client.vi.await_send();
        ASSERT_EQ(done.descriptor, write);
        ASSERT_VIP(VIP_SUCCESS, done.code) << "the sender learns nothing at this level";
        if (guess.write_allowed) targets.written(guess, source);
        ++(guess.write_allowed ? allowed : refused);
        if (i % in_a_row != in_a_row - 1) continue;
        // What was written before a send is there when the send is.
        fill(receive, {});
        fill(send, {});
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
        ASSERT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
        ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
        ASSERT_TRUE(targets.as_expected()) << "after guess " << i;
    }
    EXPECT_GT(allowed, 0U) << "guesses that are all wrong show nothing";
    EXPECT_GT(refused, allowed);
    EXPECT_TRUE(pair.both_connected());
}

class RdmaGuessed : public EachLevel {};
INSTANTIATE_EACH_LEVEL(RdmaGuessed);

/// Whatever was wrong, the answer is the same.
TEST_P(RdmaGuessed, ARefusalSaysNothingButNo) {
    if (!breaks_on_error()) GTEST_SKIP() << "nothing is refused aloud at this level";
    const bool reads = Nic().reads_at(level());
    std::set<std::uint32_t> write_answers;
    std::set<std::uint32_t> read_answers;
    std::mt19937 random(11);
    for (unsigned connection = 0; connection < rounds(40); ++connection) {
        Pair pair(level());
        Targets targets(pair, 100 + connection);
        const bool read = reads && random() % 2 == 0;
        Guess guess = targets.guess();
        while (read ? guess.read_allowed : guess.write_allowed)
            guess = targets.guess();
        std::byte* const data = pair.client.arena.take(1024);
        std::memset(data, 0x31, 1024);
        VIP_DESCRIPTOR* const posted =
            read ? pair.client.arena.rdma_read(data, guess.bytes, remote_of(guess))
                 : pair.client.arena.rdma_write(data, guess.bytes, remote_of(guess));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(posted));
        const Completion done = pair.client.vi.await_send();
        ASSERT_EQ(done.descriptor, posted);
        (read ? read_answers : write_answers).insert(done.status());
        EXPECT_TRUE(pair.server.raises(read ? VIP_ERROR_RDMAR_PROT : VIP_ERROR_RDMAW_PROT));
        EXPECT_TRUE(pair.both_break());
        EXPECT_TRUE(targets.as_expected()) << "connection " << connection;
        EXPECT_TRUE(all_bytes_are(data, 1024, std::byte{0x31}));
    }
    EXPECT_LE(write_answers.size(), 1U);
    EXPECT_LE(read_answers.size(), 1U);
    EXPECT_FALSE(write_answers.empty() && read_answers.empty());
}

}  // namespace
}  // namespace via::test
