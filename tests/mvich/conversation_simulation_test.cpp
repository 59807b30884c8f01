// SPDX-License-Identifier: BSD-3-Clause
// Messages of all kinds between two ends, by seed: every one arrives once, whole and in order,
// whatever the protocol, however few credits and vbufs there are. A failure prints its seed.
#include <cstdlib>
#include <optional>
#include <string>

#include "simulated_traffic.hpp"

namespace via::mvich::test {
namespace {

[[nodiscard]] PairOptions random_options(std::uint64_t seed) {
    Random random(seed * 7919 + 1);
    PairOptions options;
    MessageSettings& settings = options.settings;
    constexpr std::uint32_t credits[] = {1, 2, 3, 8, 32};
    settings.credits = credits[below(random, 5)];
    settings.credit_preserve = 1 + static_cast<std::uint32_t>(below(random, settings.credits));
    settings.vbuf_bytes = 8192;
    settings.vbufs_per_region = 8;
    options.in_place = below(random, 2) == 0;
    // Few vbufs are enough where packets are seen in place; else those that are posted must exist.
    settings.vbuf_regions = options.in_place && below(random, 3) == 0 ? 1 : 64;
    settings.cache_entries = static_cast<std::uint32_t>(below(random, 3));
    settings.protocol.eager_bytes = below(random, 2) == 0 ? 4096 : 200;
    settings.protocol.rdma_bytes = below(random, 2) == 0 ? 16'384 : 300;
    settings.protocol.one_copy_bytes = settings.protocol.rdma_bytes;
    switch (below(random, 6)) {
        case 0:
            settings.protocol.forced = Protocol::Eager;
            break;
        case 1:
            settings.protocol.forced = Protocol::R3;
            break;
        case 2:
            settings.protocol.forced = Protocol::Rget;
            break;
        case 3:
            settings.protocol.forced = Protocol::Rput;
            break;
        default:
            break;
    }
    settings.piggyback = below(random, 4) != 0;
    options.packet_bytes = options.in_place && below(random, 2) == 0 ? 16'576 : 8192;
    options.room = 1 + static_cast<std::uint32_t>(below(random, 8));
    options.refusals_percent = below(random, 3) == 0 ? 30 : 0;
    options.one_copy = below(random, 4) != 0;
    if (below(random, 3) == 0)
        options.widest_window = 2 + static_cast<std::uint32_t>(below(random, 60));
    return options;
}

[[nodiscard]] TrafficOptions random_traffic(std::uint64_t seed, const PairOptions& options) {
    Random random(seed * 104'729 + 3);
    TrafficOptions traffic;
    // With few vbufs a message that nobody asked for may keep others from being seen.
    traffic.picky = options.settings.vbuf_regions > 1 && below(random, 2) == 0;
    traffic.lose_peer = below(random, 4) == 0;
    const auto& forced = options.settings.protocol.forced;
    traffic.small_order = !forced || *forced == Protocol::Eager;
    return traffic;
}

void simulate(std::uint64_t seed) {
    SCOPED_TRACE("VIA_TEST_SEED=" + std::to_string(seed));
    const PairOptions options = random_options(seed);
    Traffic traffic(seed, options, random_traffic(seed, options));
    traffic.run();
}

/// Those of the test, or as many as VIA_TEST_SEEDS says; VIA_TEST_SEED=n does exactly one again.
constexpr std::uint64_t tests = 20;
#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t usual_seeds = 100;  // it has one thread
#elif defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t usual_seeds = 300;
#else
constexpr std::uint64_t usual_seeds = 1000;
#endif

[[nodiscard]] std::optional<std::uint64_t> number_from(const char* variable) {
    const char* text = std::getenv(variable);
    if (text == nullptr) return std::nullopt;
    return std::strtoull(text, nullptr, 10);
}

class ConversationSimulation : public testing::TestWithParam<std::uint64_t> {};

TEST_P(ConversationSimulation, EveryOrderEndsOnceAndEveryMessageArrivesInOrder) {
    if (const auto one = number_from("VIA_TEST_SEED")) {
        simulate(*one);
        return;
    }
    const std::uint64_t seeds = number_from("VIA_TEST_SEEDS").value_or(usual_seeds);
    for (std::uint64_t seed = GetParam(); seed < seeds; seed += tests) {
        simulate(seed);
        if (testing::Test::HasFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ConversationSimulation, testing::Range<std::uint64_t>(0, tests));

}  // namespace
}  // namespace via::mvich::test
