// SPDX-License-Identifier: BSD-3-Clause
// MyVIA and Berkeley VIA on the machines of the paper: what it prints comes out of the model.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>

#include "sim/experiment/mnc_experiment.hpp"
#include "sim/experiment/via_experiment.hpp"
#include "sim/parameters/catalogue.hpp"

namespace via::sim {
namespace {

template <class T>
T must(base::Result<T> result) {
    if (!result) throw std::runtime_error(result.error().sentence);
    return std::move(result).value();
}

ViaSystem system(const std::string& machine, const std::string& nic, const std::string& firmware) {
    return {must(load_parameters(machine, "machine", machine_parameters())),
            must(load_parameters(nic, "nic", nic_parameters())),
            must(load_parameters(firmware + "-" + nic, "firmware", via_firmware_parameters())),
            Locality::Good};
}
ViaSystem on_lanai4(const char* firmware) {
    return system("p3-733", "lanai4", firmware);
}
ViaSystem on_lanai9(const char* firmware) {
    return system("athlon-1400", "lanai9", firmware);
}
double window(const ViaSystem& each, std::uint64_t bytes) {
    return must(simulate_window(each, bytes, 200));
}
double pingpong(const ViaSystem& each, std::uint64_t bytes) {
    return must(simulate_pingpong(each, bytes, 10));
}

TEST(Lanai4, PeakOfMyvia) {
    EXPECT_NEAR(window(on_lanai4("myvia"), 65536), 76.2, 76.2 * 0.02);
}

TEST(Lanai4, BerkeleyViaIsWellBelowButAheadForShortMessages) {
    const ViaSystem myvia = on_lanai4("myvia");
    const ViaSystem bvia = on_lanai4("bvia");
    EXPECT_LT(window(bvia, 65536), 0.75 * window(myvia, 65536));
    EXPECT_GT(window(bvia, 1500), window(myvia, 1500));
    EXPECT_LT(window(bvia, 2500), window(myvia, 2500));
}

TEST(Lanai4, LatenciesNearlyCoincide) {
    for (const std::uint64_t bytes : {4U, 256U, 1024U, 4096U})
        EXPECT_NEAR(pingpong(on_lanai4("myvia"), bytes) / pingpong(on_lanai4("bvia"), bytes), 1,
                    0.05)
            << bytes;
}

TEST(Lanai9, MyviaFillsTheLinkAt4Kilobytes) {
    EXPECT_GE(window(on_lanai9("myvia"), 4096), 240);
    EXPECT_LE(window(on_lanai9("myvia"), 65536), 250);
    EXPECT_NEAR(pingpong(on_lanai9("myvia"), 4), 8.46, 8.46 * 0.02);
}

TEST(Lanai9, MyviaIsUpToNearlyTwiceAsFast) {
    double best = 0;
    for (std::uint64_t bytes = 512; bytes <= 4096; bytes += 512) {
        const double ratio = window(on_lanai9("myvia"), bytes) / window(on_lanai9("bvia"), bytes);
        EXPECT_GT(ratio, 1) << bytes;
        best = std::max(best, ratio);
    }
    EXPECT_GE(best, 1.7);
    EXPECT_LE(best, 2.2);
    EXPECT_NEAR(window(on_lanai9("bvia"), 65536), 250, 25);
}

TEST(Locality, OnlyMattersToANicThatTranslates) {
    for (const auto& on : {on_lanai4, on_lanai9}) {
        ViaSystem bvia = on("bvia");
        const double good = window(bvia, 4096);
        bvia.locality = Locality::Poor;
        const double lost = 1 - window(bvia, 4096) / good;
        EXPECT_GT(lost, 0.10);
        EXPECT_LT(lost, 0.40);
        ViaSystem myvia = on("myvia");
        const double utlb = window(myvia, 4096);
        myvia.locality = Locality::Poor;
        EXPECT_EQ(window(myvia, 4096), utlb);
    }
}

// ---- GM -----------------------------------------------------------------------------------------

TEST(Gm, OneLink) {
    const ViaSystem on_xeon = system("xeon-700", "lanai9", "gm");
    EXPECT_NEAR(window(on_xeon, 16384), 202, 202 * 0.02);
    ViaSystem fast = system("xeon-2000", "lanai9", "gm");
    fast.nic.clock = 133;
    EXPECT_NEAR(window(fast, 16384), 240, 240 * 0.02);
    EXPECT_NEAR(pingpong(fast, 4), 8.5, 8.5 * 0.02);
    EXPECT_GE(window(on_lanai9("gm"), 4096), window(on_lanai9("myvia"), 4096) * 0.99);
    EXPECT_GT(window(on_lanai9("gm"), 1024), window(on_lanai9("myvia"), 1024));
}

TEST(Gm, TwoFlowsShareALinkOrABus) {
    const ViaSystem on_xeon = system("xeon-700", "lanai9", "gm");
    const double single = window(on_xeon, 16384);
    const auto same = must(simulate_flows(on_xeon, Flows::Same, 16384, 200));
    EXPECT_NEAR(same[0] / single, 0.5, 0.02);
    EXPECT_NEAR(same[1] / single, 0.5, 0.02);
    // Opposite ones meet on the bus, whose two directions have different rates.
    const auto opposite = must(simulate_flows(on_xeon, Flows::Opposite, 16384, 200));
    const double bound = 1 / (1 / 315.0 + 1 / 372.0);
    for (const double rate : opposite) {
        EXPECT_LT(rate, bound);
        EXPECT_GT(rate, 0.9 * bound);
    }
}

// ---- MNC ----------------------------------------------------------------------------------------

TEST(Mnc, TwoLinksBeatOneByLessThanTwo) {
    const ViaSystem gm = system("xeon-700", "lanai9", "gm");
    const double one = must(simulate_mnc_window({gm, 1, LinkPolicy::Dynamic}, 65536, 100));
    EXPECT_NEAR(one, window(gm, 65536), one * 0.01);
    const double two = must(simulate_mnc_window({gm, 2, LinkPolicy::Dynamic}, 65536, 100));
    EXPECT_GT(two, 1.4 * one);
    EXPECT_LT(two, 315);  // the bus
    // One process, one direction: the other policies leave a link idle.
    for (const LinkPolicy policy : {LinkPolicy::Static, LinkPolicy::OneWay})
        EXPECT_NEAR(must(simulate_mnc_window({gm, 2, policy}, 65536, 100)), one, one * 0.01);
    // A long message takes both links.
    EXPECT_LT(must(simulate_mnc_pingpong({gm, 2, LinkPolicy::Dynamic}, 65536, 5)),
              0.8 * must(simulate_mnc_pingpong({gm, 1, LinkPolicy::Dynamic}, 65536, 5)));
}

TEST(LinkChoice, FollowsItsPolicy) {
    const std::vector<bool> free{false, false};
    const std::vector<bool> first_busy{true, false};
    const std::vector<bool> busy{true, true};
    LinkChoice bound(LinkPolicy::Static, 2);
    EXPECT_EQ(bound.for_short(1, busy), 1U);
    EXPECT_EQ(bound.for_long(3, free, free), std::vector<std::size_t>{1});
    LinkChoice dynamic(LinkPolicy::Dynamic, 2);
    EXPECT_EQ(dynamic.for_short(0, first_busy), 1U);
    EXPECT_EQ(dynamic.for_long(0, free, free), (std::vector<std::size_t>{0, 1}));
    EXPECT_EQ(dynamic.for_long(0, free, first_busy), std::vector<std::size_t>{1});
    // All busy: in turn.
    EXPECT_EQ(dynamic.for_short(0, busy), 0U);
    EXPECT_EQ(dynamic.for_long(0, busy, free), std::vector<std::size_t>{1});
    LinkChoice one_way(LinkPolicy::OneWay, 2);
    EXPECT_EQ(one_way.for_short(0, first_busy), 0U);
    EXPECT_EQ(LinkChoice(LinkPolicy::OneWay, 1).for_short(0, busy), 0U);
}

TEST(Ablation, WithoutTheBusOppositeFlowsKeepTheirRate) {
    ViaSystem wide = system("xeon-700", "lanai9", "gm");
    wide.machine.bus_width = 64;
    wide.machine.fetch_overhead = 0;
    wide.machine.store_overhead = 0;
    const double single = window(wide, 16384);
    const auto opposite = must(simulate_flows(wide, Flows::Opposite, 16384, 200));
    EXPECT_NEAR(opposite[0] / single, 1, 0.05);
}

// What the mechanisms are worth: without them the figures do not come out.

TEST(Ablation, PipelinedBerkeleyViaComesCloseToMyvia) {
    ViaSystem pipelined = on_lanai9("bvia");
    pipelined.firmware.overlaps_messages = 1;
    EXPECT_GT(window(pipelined, 2048), 0.85 * window(on_lanai9("myvia"), 2048));
}

TEST(Ablation, MyviaWithOneBufferFallsToAboutBerkeleyVia) {
    ViaSystem single = on_lanai4("myvia");
    single.firmware.buffers = 1;
    single.firmware.overlaps_messages = 0;
    EXPECT_NEAR(window(single, 65536) / window(on_lanai4("bvia"), 65536), 1, 0.15);
}

TEST(Ablation, AFasterClockHelpsShortMessagesOnly) {
    ViaSystem slow = on_lanai9("myvia");
    slow.nic.clock = 133;
    const ViaSystem fast = on_lanai9("myvia");
    EXPECT_GT(pingpong(slow, 4), 1.2 * pingpong(fast, 4));
    EXPECT_NEAR(window(slow, 65536) / window(fast, 65536), 1, 0.02);
}

}  // namespace
}  // namespace via::sim
