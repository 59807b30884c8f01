// SPDX-License-Identifier: BSD-3-Clause
// Two connected VIs of two processes, at each reliability level.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <numeric>
#include <string>
#include <vector>

#include "na/seeded.hpp"
#include "na/shm/test_host.hpp"

namespace via::test {

inline std::string level_name(const testing::TestParamInfo<std::uint32_t>& level) {
    return level.param == na::unreliable          ? "Unreliable"
           : level.param == na::reliable_delivery ? "Delivery"
                                                  : "Reception";
}

inline constexpr std::uint32_t event_bits(na::EndpointEvent event) noexcept {
    return static_cast<std::uint32_t>(event);
}

using Pieces = std::vector<na::PhysicalDescriptor>;

inline std::uint32_t bytes_of(const Pieces& pieces) {
    return std::accumulate(pieces.begin(), pieces.end(), 0U,
                           [](std::uint32_t sum, const auto& piece) { return sum + piece.length; });
}

inline std::span<std::byte> span_of(const na::PhysicalDescriptor& piece) {
    return {reinterpret_cast<std::byte*>(piece.address), piece.length};
}

inline void fill_pieces(const Pieces& pieces, std::uint64_t stream) {
    std::uint64_t at = 0;
    for (const auto& piece : pieces) {
        fill_pattern(span_of(piece), stream, at);
        at += piece.length;
    }
}

/// Do the first `bytes` of the pieces hold the pattern?
inline bool pieces_match(const Pieces& pieces, std::uint64_t stream, std::uint64_t bytes) {
    std::uint64_t at = 0;
    for (const auto& piece : pieces) {
        const std::uint64_t wanted = std::min<std::uint64_t>(piece.length, bytes - at);
        if (matching_bytes(span_of(piece).first(wanted), stream, at) != wanted) return false;
        at += wanted;
    }
    return at == bytes;
}

/// Cuts the front of a memory into pieces, with gaps between them.
inline Pieces cut(const TestMemory& memory, std::uint32_t bytes, std::uint32_t count,
                  Random& random) {
    Pieces pieces;
    std::size_t at = random.below(8);
    std::uint32_t left = bytes;
    for (std::uint32_t i = 0; i < count && left != 0; ++i) {
        std::uint32_t piece = i + 1 == count ? left : random.between(1, 1 + 2 * (left / count));
        piece = std::min(piece, left);
        pieces.push_back(memory.pd(at, piece));
        at += piece + random.below(5);
        left -= piece;
    }
    if (left != 0) pieces.push_back(memory.pd(at, left));
    return pieces;
}

class ShmPair : public testing::TestWithParam<std::uint32_t> {
  protected:
    void SetUp() override {
        ASSERT_TRUE(connect(a, b));
        cma_works_ = left.nic->settings().allowed.cma &&
                     na::shm::probe_cma(getpid(), na::shm::own_probe_target()).read;
    }

    [[nodiscard]] bool reliable() const { return GetParam() != na::unreliable; }
    [[nodiscard]] bool reception() const { return GetParam() == na::reliable_reception; }
    [[nodiscard]] const na::shm::ShmSettings& settings() { return left.nic->settings(); }
    [[nodiscard]] bool cma_works() const { return cma_works_; }
    /// Does RDMA on such memory need nothing from the target?
    [[nodiscard]] bool direct(TestMemory::Kind kind) {
        return cma_works_ || (kind == TestMemory::Kind::Kmem && settings().allowed.kmem);
    }
    /// The way that a message must take under the settings of this run. The first message from a
    /// kmem arena takes the way of other memory, because the peer has to map the arena first.
    [[nodiscard]] base::DataPath expected_path(std::uint32_t bytes, TestMemory::Kind source) {
        using base::DataPath;
        if (bytes <= na::shm::max_inline_bytes && (settings().inline_frames || bytes == 0))
            return DataPath::Inline;
        if (source == TestMemory::Kind::Kmem && settings().allowed.kmem &&
            bytes >= settings().kmem_bytes)
            return DataPath::Kmem;
        if (bytes < settings().single_copy_bytes) return DataPath::Ring;
        return cma_works_ ? DataPath::Cma : DataPath::Stream;
    }

    /// One message from `from` to `to`, all of it checked.
    void transfer(TestVi& from, TestVi& to, const Pieces& source, const Pieces& target,
                  std::uint64_t stream, const SendOptions& options = {}) {
        const std::uint32_t bytes = bytes_of(source);
        fill_pieces(source, stream);
        fill_pieces(target, ~stream);
        const std::uint64_t receive = to.post_receive(target);
        const std::uint64_t send = from.post_send(source, options);
        ASSERT_TRUE(drive(from, to));
        const auto received = to.receive_done();
        ASSERT_TRUE(received);
        EXPECT_EQ(received->cookie, receive);
        EXPECT_EQ(received->errors(), 0U);
        EXPECT_EQ(received->status & 0x70000, na::status_op_receive);
        EXPECT_EQ(received->length, bytes);
        EXPECT_EQ(received->has_immediate(), options.immediate.has_value());
        if (options.immediate) {
            EXPECT_EQ(received->immediate, *options.immediate);
        }
        EXPECT_TRUE(pieces_match(target, stream, bytes));
        const auto sent = from.send_done();
        ASSERT_TRUE(sent);
        EXPECT_EQ(sent->cookie, send);
        EXPECT_EQ(sent->errors(), 0U);
        EXPECT_EQ(sent->length, bytes);
        EXPECT_EQ(from.take_events() | to.take_events(), 0U);
    }

    TestHost host;
    TestProcess left{host};
    TestProcess right{host};
    TestVi a{left, GetParam()};
    TestVi b{right, GetParam()};

  private:
    bool cma_works_ = false;
};

}  // namespace via::test
