// SPDX-License-Identifier: BSD-3-Clause
// A hostile peer connects: the format and the geometry that it offers are checked. The levels at
// which every test of hostile peers runs are named here, too.
#include <bit>
#include <cstring>

#include "na/shm/shm_hostile.hpp"
#include "na/shm/shm_pair.hpp"

using namespace via;
using namespace via::test;

namespace {

TEST_P(ShmHostile, GeometryIsChecked) {
    const auto attempt = [&](std::uint32_t lines, std::uint32_t bytes) {
        TestVi other(process, GetParam());
        RawPeer liar(host, other);
        liar.client.tweak = [&](ka::DeviceParameters& parameters) {
            std::memcpy(parameters.data() + 4, &lines, 4);
            std::memcpy(parameters.data() + 8, &bytes, 4);
        };
        const auto outcome = liar.connect(true);
        EXPECT_FALSE(other.poll());
        return outcome.ok();
    };
    const na::shm::Geometry real = process.nic->settings().geometry;
    EXPECT_TRUE(attempt(real.frame_lines, real.direction_bytes));
    EXPECT_FALSE(attempt(0, real.direction_bytes));
    EXPECT_FALSE(attempt(real.frame_lines + 1, real.direction_bytes));
    EXPECT_FALSE(attempt(1U << 31, real.direction_bytes));
    EXPECT_FALSE(attempt(real.frame_lines, real.direction_bytes + 64)) << "beyond the channel";
    EXPECT_FALSE(attempt(real.frame_lines, 0));
    EXPECT_FALSE(attempt(real.frame_lines, 0xFFFFFFC0U));
    EXPECT_FALSE(attempt(std::bit_ceil(real.direction_bytes) / 64, real.direction_bytes));
}

TEST_P(ShmHostile, AnotherFormatIsRefused) {
    TestVi other(process, GetParam());
    RawPeer stranger(host, other);
    stranger.client.tweak = [](ka::DeviceParameters& parameters) { parameters[0] ^= 1; };
    const auto outcome = stranger.connect();
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, base::Code::NotSupported);
}

INSTANTIATE_TEST_SUITE_P(Levels, ShmHostile,
                         testing::Values(na::unreliable, na::reliable_delivery,
                                         na::reliable_reception),
                         level_name);

}  // namespace
