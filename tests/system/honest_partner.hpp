// SPDX-License-Identifier: BSD-3-Clause
// The honest conversation that goes on beside the enemies. Its other end is the role
// "honest_partner" for as long as it is told, and "newcomer" when it is all over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "vipl/harness.hpp"

namespace via::test {

inline constexpr std::uint32_t honest_sizes[] = {1, 8, 56, 100, 1000, 4096, 5000, 20000, 65536};
inline constexpr std::uint32_t longest_honest = 65536;

[[nodiscard]] inline std::uint32_t honest_bytes(std::uint32_t number) {
    return honest_sizes[number % std::size(honest_sizes)];
}

/// One end of the honest conversation: everything it says can be foretold.
struct HonestEnd {
    explicit HonestEnd(End& own_end)
        : end(own_end),
          source(end.arena.take(longest_honest)),
          target(end.arena.take(longest_honest + 64)),
          window(end.arena.take(longest_honest + 64)),
          receive(end.arena.descriptor()),
          send(end.arena.descriptor()),
          write(end.arena.descriptor()) {}
    void post_receive(std::uint32_t number) {
        std::memset(target, 0x33, longest_honest + 64);
        const Segment part = end.arena.segment(target, honest_bytes(number));
        fill(receive, {&part, 1});
        ASSERT_VIP(VIP_SUCCESS, end.post_recv(receive));
    }
    /// An RDMA write into the other's window and a message behind it.
    void speak(std::uint32_t number, std::uint32_t stream, const Remote& remote) {
        const std::uint32_t bytes = honest_bytes(number);
        fill_pattern(source, bytes, stream);
        const Segment part = end.arena.segment(source, bytes);
        fill_rdma(write, remote, {&part, 1}, VIP_CONTROL_OP_RDMAWRITE);
        ASSERT_VIP(VIP_SUCCESS, end.post_send(write));
        fill(send, {&part, 1}, VIP_CONTROL_IMMEDIATE);
        send->CS.ImmediateData = number;
        ASSERT_VIP(VIP_SUCCESS, end.post_send(send));
    }
    void expect_heard(std::uint32_t number, std::uint32_t stream, const Completion& completion) {
        const std::uint32_t bytes = honest_bytes(number);
        ASSERT_VIP(VIP_SUCCESS, completion.code);
        ASSERT_EQ(completion.descriptor, receive);
        EXPECT_EQ(completion.length(), bytes);
        EXPECT_EQ(receive->CS.ImmediateData, number);
        EXPECT_TRUE(has_pattern(target, bytes, stream));
        EXPECT_TRUE(has_pattern(window, bytes, stream));
        EXPECT_TRUE(all_bytes_are(target + bytes, 64, std::byte{0x33}));
    }

    End& end;
    std::byte* source;
    std::byte* target;
    std::byte* window;
    VIP_DESCRIPTOR* receive;
    VIP_DESCRIPTOR* send;
    VIP_DESCRIPTOR* write;
};

inline constexpr PairOptions honest_pair{.level = reliable_delivery};

}  // namespace via::test
