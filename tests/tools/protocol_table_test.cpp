// SPDX-License-Identifier: BSD-3-Clause
#include "protocol_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace via::tool {
namespace {

using mvich::MessageSettings;
using mvich::Protocol;

Ground in_host() {
    Ground ground;
    ground.longest_packet = 32768;
    ground.inline_bytes = 53;
    return ground;
}

Ground between_hosts() {
    Ground ground;
    ground.in_place = false;
    ground.datagram_bytes = 1420;
    return ground;
}

TEST(ProtocolTable, InsideAHost) {
    const MessageSettings settings;
    ProtocolRow row = protocol_row(settings, in_host(), 45);
    EXPECT_EQ(row.protocol, Protocol::Eager);
    EXPECT_EQ(row.path, "inline frame");
    EXPECT_EQ(row.packets, 1U);
    EXPECT_EQ(row.credits, 1U);
    EXPECT_EQ(row.copy_count, 2U);
    row = protocol_row(settings, in_host(), 46);
    EXPECT_EQ(row.path, "byte ring");
    row = protocol_row(settings, in_host(), 4097);
    EXPECT_EQ(row.protocol, Protocol::R3);
    EXPECT_EQ(row.credits, 2U);  // a Request, and one packet of data
    EXPECT_EQ(row.answer_credits, 1U);
    // 16384 + 192 bytes in a packet, 24 of them its head.
    EXPECT_EQ(protocol_row(settings, in_host(), 16552).credits, 2U);
    EXPECT_EQ(protocol_row(settings, in_host(), 16553).credits, 3U);
    EXPECT_EQ(protocol_row(settings, in_host(), (256 << 10) - 1).protocol, Protocol::R3);
    row = protocol_row(settings, in_host(), 256 << 10);
    EXPECT_EQ(row.protocol, Protocol::Rget);
    EXPECT_EQ(row.copies, "a half by each end");
    EXPECT_EQ(row.copy_count, 1U);
    EXPECT_EQ(row.credits, 2U);         // Request and Finish
    EXPECT_EQ(row.answer_credits, 2U);  // OkToSend and Finish
    EXPECT_FALSE(row.reason.empty());
    EXPECT_EQ(row.datagrams, 0U);
}

TEST(ProtocolTable, WithoutCmaEverythingGoesThroughTheRing) {
    Ground ground = in_host();
    ground.cma = false;
    EXPECT_EQ(protocol_row({}, ground, 64 << 20).protocol, Protocol::R3);
    MessageSettings settings;
    settings.protocol.forced = Protocol::Rget;
    const ProtocolRow row = protocol_row(settings, ground, 64 << 20);
    EXPECT_EQ(row.protocol, Protocol::Rget);
    EXPECT_EQ(row.path.find("byte ring"), 0U);
    EXPECT_EQ(row.copy_count, 2U);
}

TEST(ProtocolTable, WithoutInlineFramesEverythingGoesThroughTheRing) {
    Ground ground = in_host();
    ground.inline_bytes = 0;
    EXPECT_EQ(protocol_row({}, ground, 1).path, "byte ring");
}

TEST(ProtocolTable, BetweenHosts) {
    const MessageSettings settings;
    ProtocolRow row = protocol_row(settings, between_hosts(), 8);
    EXPECT_EQ(row.protocol, Protocol::Eager);
    EXPECT_EQ(row.datagrams, 1U);
    EXPECT_EQ(row.path, "UDP packet");
    EXPECT_EQ(protocol_row(settings, between_hosts(), 1404).datagrams, 1U);
    EXPECT_EQ(protocol_row(settings, between_hosts(), 1405).datagrams, 2U);
    row = protocol_row(settings, between_hosts(), 1 << 20);
    EXPECT_EQ(row.protocol, Protocol::Rput);
    EXPECT_EQ(row.credits, 2U);
    EXPECT_EQ(row.datagrams, 3U + (1048576 + 1419) / 1420);
    EXPECT_EQ(row.copy_count, 1U);
    row = protocol_row(settings, between_hosts(), 10'000);
    EXPECT_EQ(row.protocol, Protocol::R3);
    EXPECT_EQ(row.credits, 3U);  // 8168 bytes of it in a vbuf
}

TEST(ProtocolTable, FollowsTheSettings) {
    MessageSettings settings;
    settings.protocol.forced = Protocol::Rput;
    EXPECT_EQ(protocol_row(settings, in_host(), 8).protocol, Protocol::Rput);
    EXPECT_EQ(protocol_row(settings, in_host(), 0).protocol, Protocol::R3);
    settings.protocol.forced = Protocol::Eager;
    EXPECT_EQ(protocol_row(settings, in_host(), 8000).protocol, Protocol::Eager);
    EXPECT_EQ(protocol_row(settings, in_host(), 8001).protocol, Protocol::R3);
    settings.protocol.forced.reset();
    settings.protocol.eager_bytes = 100;
    EXPECT_EQ(protocol_row(settings, in_host(), 100).protocol, Protocol::Eager);
    EXPECT_EQ(protocol_row(settings, in_host(), 101).protocol, Protocol::R3);
}

TEST(ProtocolTable, HasBothSidesOfEveryChange) {
    MessageSettings settings;
    settings.protocol.eager_bytes = 3000;
    settings.protocol.rdma_bytes = settings.protocol.one_copy_bytes = 100'000;
    for (const Ground& ground : {in_host(), between_hosts()}) {
        const auto rows = protocol_table(settings, ground);
        const auto has = [&](std::uint64_t bytes) {
            return std::any_of(rows.begin(), rows.end(),
                               [&](const ProtocolRow& row) { return row.bytes == bytes; });
        };
        for (const std::uint64_t bytes : std::initializer_list<std::uint64_t>{
                 0, 1, 2, 4096, 3000, 3001, 99'999, 100'000, 16 << 20})
            EXPECT_TRUE(has(bytes)) << bytes;
        // Nothing changes between two neighbours of the table that the table does not show.
        for (std::size_t i = 1; i < rows.size(); ++i) {
            ASSERT_LT(rows[i - 1].bytes, rows[i].bytes);
            if (rows[i - 1].protocol == rows[i].protocol) continue;
            EXPECT_EQ(rows[i - 1].bytes + 1, rows[i].bytes);
        }
        const std::string text = draw_protocols(rows, ground);
        EXPECT_NE(text.find("it fits into a packet"), std::string::npos);
        EXPECT_EQ(text.find("UDP") != std::string::npos, !ground.in_place);
        const nlohmann::json json = protocols_json(rows, ground);
        ASSERT_EQ(json.size(), rows.size());
        EXPECT_EQ(json.back()["bytes"], 16 << 20);
        EXPECT_EQ(json[0].contains("udp_packets"), !ground.in_place);
    }
}

}  // namespace
}  // namespace via::tool
