// SPDX-License-Identifier: BSD-3-Clause
// The small ring in NIC memory with the big ring behind it: nothing is lost or overtaken, the host
// is interrupted at the low-water mark, and the experiment about both.
#include "na/sim/descriptor_ring.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "na/seeded.hpp"
#include "na/sim/ring_experiment.hpp"
#include "sim/parameters/catalogue.hpp"

namespace via::na::sim {
namespace {

template <class T>
T must(base::Result<T> result) {
    if (!result) throw std::runtime_error(result.error().sentence);
    return std::move(result).value();
}

model::ViaSystem system(const std::string& machine, const std::string& nic) {
    return {
        must(model::load_parameters(machine, "machine", model::machine_parameters())),
        must(model::load_parameters(nic, "nic", model::nic_parameters())),
        must(model::load_parameters("myvia-" + nic, "firmware", model::via_firmware_parameters())),
        model::Locality::Good};
}
model::ViaSystem lanai4() {
    return system("p3-733", "lanai4");
}

/// Takes its PDs when its turn comes and says which they were.
class Probe final : public model::Transfer {
  public:
    Probe(DescriptorRing& ring, std::vector<std::uint64_t>& taken, const bool* closed)
        : ring_(ring), taken_(taken), closed_(closed) {}
    [[nodiscard]] std::uint64_t begin() override {
        if (closed_ != nullptr && *closed_) return 0;
        for (const PhysicalDescriptor& pd : ring_.take())
            taken_.push_back(pd.address);
        return 16;
    }
    void fetched(std::uint64_t, std::uint64_t) override {}
    void sent() override {}
    [[nodiscard]] bool match() override { return true; }
    void stored(std::uint64_t, std::uint64_t) override {}
    void received() override {}

  private:
    DescriptorRing& ring_;
    std::vector<std::uint64_t>& taken_;
    const bool* closed_;  ///< a message of a closed VI takes nothing
};

model::Task<> post_chains(DescriptorRing& ring, std::vector<std::uint32_t> lengths,
                          std::vector<std::uint64_t>& taken, const bool* closed) {
    std::uint64_t number = 0;
    for (const std::uint32_t length : lengths) {
        if (closed != nullptr && *closed) co_return;
        std::vector<PhysicalDescriptor> chain;
        for (std::uint32_t i = 0; i < length; ++i)
            chain.push_back({number++, 1, 0});
        model::Message message;
        message.to = 1;
        message.transfer = std::make_shared<Probe>(ring, taken, closed);
        co_await ring.post(std::move(chain), std::move(message));
    }
}

TEST(DescriptorRing, KeepsTheOrderWhateverSpills) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        test::Random random(seed);
        const std::uint32_t small = 2U << random.below(5);
        model::Cluster cluster(lanai4(), 2);
        const auto ring =
            std::make_shared<DescriptorRing>(cluster, cluster.host(0), small, random.below(small));
        std::vector<std::uint32_t> lengths;
        std::uint64_t total = 0;
        for (int i = 0; i < 60; ++i) {
            // Now and then one that is longer than the ring.
            lengths.push_back(random.one_in(10) ? random.between(1, 3 * small)
                                                : random.between(1, 3));
            total += lengths.back();
        }
        std::vector<std::uint64_t> taken;
        cluster.simulation().spawn(post_chains(*ring, lengths, taken, nullptr));
        ASSERT_TRUE(cluster.simulation().run());
        ASSERT_EQ(taken.size(), total);
        for (std::uint64_t i = 0; i < total; ++i)
            ASSERT_EQ(taken[i], i);
    }
}

/// A ring that was closed forgets everything: what was posted, a post that is under way, and the
/// answer to an interrupt. What is posted afterwards is found whole and in its order.
TEST(DescriptorRing, ClosedAtAnyMomentItBeginsAnew) {
    int interrupted = 0;
    bool over = false;
    for (int events = 1; !over; ++events) {
        SCOPED_TRACE("after " + std::to_string(events) + " events");
        model::Cluster cluster(lanai4(), 2);
        const auto ring = std::make_shared<DescriptorRing>(cluster, cluster.host(0), 4, 3);
        std::vector<std::uint64_t> before;
        std::vector<std::uint64_t> after;
        bool closed = false;
        cluster.simulation().spawn(
            post_chains(*ring, std::vector<std::uint32_t>(20, 1), before, &closed));
        for (int i = 0; i < events && !over; ++i)
            over = !cluster.simulation().step();
        if (ring->statistics().interrupts != 0) ++interrupted;
        ring->clear();
        closed = true;
        const std::size_t taken = before.size();
        cluster.simulation().spawn(
            post_chains(*ring, std::vector<std::uint32_t>(20, 2), after, nullptr));
        ASSERT_TRUE(cluster.simulation().run());
        EXPECT_EQ(before.size(), taken);
        ASSERT_EQ(after.size(), 40U);
        for (std::uint64_t i = 0; i < after.size(); ++i)
            ASSERT_EQ(after[i], i);
    }
    EXPECT_GT(interrupted, 0);
}

RingResult ring_of(std::uint32_t small, std::uint32_t low_water, std::uint64_t outstanding = 0,
                   const model::ViaSystem& on = lanai4()) {
    RingPlan plan;
    plan.small_entries = small;
    plan.low_water = low_water;
    plan.messages = 500;
    plan.outstanding = outstanding;
    return must(simulate_ring(on, plan));
}

TEST(RingExperiment, ALargeEnoughRingNeverInterrupts) {
    const RingResult result = ring_of(1024, 16);
    EXPECT_EQ(result.ring.interrupts, 0U);
    EXPECT_EQ(result.ring.spilled, 0U);
    EXPECT_EQ(result.ring.stalls, 0U);
    // Nor does a program that does not run ahead.
    EXPECT_EQ(ring_of(64, 16, 32).ring.interrupts, 0U);
}

TEST(RingExperiment, AHighMarkInterruptsOftenALowOneLetsTheNicRunDry) {
    const RingResult low = ring_of(32, 0);
    const RingResult middle = ring_of(32, 8);
    const RingResult high = ring_of(32, 30);
    EXPECT_GT(high.ring.interrupts, 3 * middle.ring.interrupts);
    EXPECT_GE(middle.ring.interrupts, low.ring.interrupts);
    EXPECT_GT(low.ring.stalls, 0U);
    EXPECT_GT(low.ring.stalled, 0);
    EXPECT_EQ(middle.ring.stalls, 0U);
    // A slow NIC has enough to do meanwhile; a fast one has not.
    const model::ViaSystem fast = system("athlon-1400", "lanai9");
    EXPECT_LT(ring_of(32, 0, 0, fast).mb_per_s, ring_of(32, 8, 0, fast).mb_per_s);
}

TEST(RingExperiment, NonsenseIsNamed) {
    RingPlan plan;
    plan.small_entries = 12;
    EXPECT_NE(simulate_ring(lanai4(), plan).error().sentence.find("12"), std::string::npos);
    plan.small_entries = 16;
    plan.low_water = 16;
    EXPECT_NE(simulate_ring(lanai4(), plan).error().sentence.find("16"), std::string::npos);
}

}  // namespace
}  // namespace via::na::sim
