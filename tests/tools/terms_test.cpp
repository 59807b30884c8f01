// SPDX-License-Identifier: BSD-3-Clause
#include "terms.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace via::tool {
namespace {

TEST(Terms, SurviveTheWayThroughJson) {
    SessionTerms session;
    session.reliability = Reliability::Reception;
    session.wait = WaitKind::Block;
    session.operation = Operation::RdmaRead;
    session.completion_queue = true;
    session.check = true;
    session.fresh = true;
    session.idle_vis = 256;
    const auto same = session_terms_from(nlohmann::json::parse(to_json(session).dump()));
    ASSERT_TRUE(same);
    EXPECT_EQ(to_json(same.value()), to_json(session));
    EXPECT_EQ(same.value().idle_vis, 256u);

    TestTerms test{Program::Window, MemoryKind::Kmem, 1 << 20, 64, 3};
    const auto again = test_terms_from(nlohmann::json::parse(to_json(test).dump()));
    ASSERT_TRUE(again);
    EXPECT_EQ(to_json(again.value()), to_json(test));
    EXPECT_EQ(again.value().buffers, 3u);
}

TEST(Terms, NothingStrangeFromTheOtherSideGetsThrough) {
    const nlohmann::json good_session = to_json(SessionTerms{});
    for (const auto& [member, value] : good_session.items()) {
        nlohmann::json bad = good_session;
        bad.erase(member);
        EXPECT_FALSE(session_terms_from(bad)) << member;
        bad[member] = "nonsense";
        EXPECT_FALSE(session_terms_from(bad)) << member;
        bad[member] = -1;
        EXPECT_FALSE(session_terms_from(bad)) << member;
        bad[member] = nullptr;
        EXPECT_FALSE(session_terms_from(bad)) << member;
    }
    const nlohmann::json good_test = to_json(TestTerms{});
    for (const auto& [member, value] : good_test.items()) {
        nlohmann::json bad = good_test;
        bad[member] = nlohmann::json::array();
        const auto refused = test_terms_from(bad);
        ASSERT_FALSE(refused) << member;
        EXPECT_NE(refused.error().sentence.find(member), std::string::npos);
    }
    nlohmann::json large = good_test;
    large["bytes"] = std::uint64_t{1} << 60;
    EXPECT_FALSE(test_terms_from(large));
    large = good_test;
    large["window"] = 0;
    EXPECT_FALSE(test_terms_from(large));
    large["window"] = most_window + 1;
    EXPECT_FALSE(test_terms_from(large));
    EXPECT_FALSE(test_terms_from(nlohmann::json()));
    EXPECT_FALSE(session_terms_from(nlohmann::json::array({1, 2})));
}

TEST(DefaultWindow, IsDeepForSmallMessagesAndBoundedForLargeOnes) {
    EXPECT_EQ(default_window(0), 128u);
    EXPECT_EQ(default_window(8), 128u);
    EXPECT_EQ(default_window(4096), 128u);
    EXPECT_EQ(default_window(65536), 64u);
    EXPECT_EQ(default_window(4 << 20), 4u);
    EXPECT_EQ(default_window(std::uint64_t{1} << 31), 4u);
}

TEST(DefaultBuffers, AreNeverMoreThanTheWindow) {
    for (std::uint64_t bytes = 1; bytes <= 64 << 20; bytes *= 2) {
        const std::uint32_t window = default_window(bytes);
        const std::uint32_t buffers = default_buffers(bytes, window);
        EXPECT_GE(buffers, 1u);
        EXPECT_LE(buffers, window);
        EXPECT_TRUE(buffers == 1 || buffers * bytes <= 256u << 10) << bytes;
    }
    EXPECT_EQ(default_buffers(1 << 20, 4), 1u);
}

TEST(BufferStride, KeepsBuffersApartAndAligned) {
    EXPECT_EQ(buffer_stride(0), 64u);
    EXPECT_EQ(buffer_stride(8), 64u);
    EXPECT_EQ(buffer_stride(64), 64u);
    EXPECT_EQ(buffer_stride(65), 128u);
    EXPECT_EQ(buffer_stride(4096), 4096u);
    EXPECT_EQ(buffer_stride(4097), 8192u);
}

}  // namespace
}  // namespace via::tool
