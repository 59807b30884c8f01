// SPDX-License-Identifier: BSD-3-Clause
// A peer that writes what it likes into the channel. Whatever it does, the endpoint neither reads
// nor writes outside what was granted, ends what it can not understand, and keeps its own state.
// The tests of it are in several files, by what it lies about.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "na/shm/test_host.hpp"

namespace via::test {

inline constexpr std::uint32_t violation =
    static_cast<std::uint32_t>(na::EndpointEvent::ProtocolViolation);

class ShmHostile : public testing::TestWithParam<std::uint32_t> {
  protected:
    void SetUp() override { ASSERT_TRUE(peer.connect()); }
    [[nodiscard]] bool reception() const { return GetParam() == na::reliable_reception; }
    void poll(int times = 100) {
        for (int i = 0; i < times; ++i)
            vi.poll();
    }
    /// The victim has seen it, and nothing that comes later is handled.
    void expect_violation() {
        poll();
        EXPECT_EQ(vi.take_events() & violation, violation);
        const TestMemory target(process, 100);
        vi.post_receive({target.pd()});
        peer.send(na::shm::FrameKind::Inline, {});
        poll();
        EXPECT_FALSE(vi.receive_done());
    }
    [[nodiscard]] na::shm::RingChunk put_in_ring(std::uint32_t bytes) {
        const std::vector<std::byte> data(bytes);
        return peer.put_in_ring(data).value();
    }
    [[nodiscard]] const na::shm::Geometry& geometry() { return process.nic->settings().geometry; }
    /// One line behind the byte ring.
    [[nodiscard]] std::uint16_t line_behind() {
        return static_cast<std::uint16_t>(geometry().ring_bytes() / 64);
    }

    TestHost host;
    TestProcess process{host};
    TestVi vi{process, GetParam()};
    RawPeer peer{host, vi};
};

}  // namespace via::test
