// SPDX-License-Identifier: BSD-3-Clause
#include "na/sim/ring_experiment.hpp"

#include <bit>
#include <memory>
#include <string>
#include <utility>

#include "sim/core/signal.hpp"

namespace via::na::sim {
namespace {

class RingPrograms {
  public:
    RingPrograms(const model::ViaSystem& system, const RingPlan& plan)
        : plan_(plan),
          cluster_(system, 2),
          ring_(std::make_shared<DescriptorRing>(cluster_, cluster_.host(0), plan.small_entries,
                                                 plan.low_water)),
          sent_(cluster_.simulation()) {}

    [[nodiscard]] base::Result<RingResult> run() {
        model::Simulation& simulation = cluster_.simulation();
        simulation.spawn(post_all());
        if (auto done = simulation.run(); !done) return std::move(done).error();
        const double moved = static_cast<double>(plan_.bytes * received_count_);
        return RingResult{moved / model::in_microseconds(ended_), ring_->statistics()};
    }

  private:
    /// A message whose data nobody looks at; its descriptor comes out of the ring.
    class Load final : public model::Transfer {
      public:
        explicit Load(RingPrograms& programs) : programs_(programs) {}
        [[nodiscard]] std::uint64_t begin() override {
            return programs_.ring_->take().front().length;
        }
        void fetched(std::uint64_t, std::uint64_t) override {}
        void sent() override {
            ++programs_.sent_count_;
            programs_.sent_.pulse();
        }
        [[nodiscard]] bool match() override { return true; }
        void stored(std::uint64_t, std::uint64_t) override {}
        void received() override {
            ++programs_.received_count_;
            programs_.ended_ = programs_.cluster_.simulation().now();
        }

      private:
        RingPrograms& programs_;
    };

    model::Task<> post_all() {
        for (std::uint64_t i = 0; i < plan_.messages; ++i) {
            while (plan_.outstanding != 0 && i - sent_count_ >= plan_.outstanding)
                co_await sent_.wait();
            std::vector<PhysicalDescriptor> chain;
            chain.push_back({0, static_cast<std::uint32_t>(plan_.bytes), 0});
            model::Message message;
            message.to = 1;
            message.transfer = std::make_shared<Load>(*this);
            co_await ring_->post(std::move(chain), std::move(message));
        }
    }

    const RingPlan& plan_;
    model::Cluster cluster_;
    std::shared_ptr<DescriptorRing> ring_;
    model::Signal sent_;
    std::uint64_t sent_count_ = 0;
    std::uint64_t received_count_ = 0;
    model::Time ended_ = 0;
};

}  // namespace

base::Result<RingResult> simulate_ring(const model::ViaSystem& system, const RingPlan& plan) {
    using Answer = base::Result<RingResult>;
    if (!std::has_single_bit(plan.small_entries) || plan.small_entries < 2 ||
        plan.small_entries > 65536)
        return Answer(base::Code::InvalidArgument,
                      "a small ring of " + std::to_string(plan.small_entries) +
                          " descriptors; it must be a power of two from 2 to 65536");
    if (plan.low_water >= plan.small_entries)
        return Answer(base::Code::InvalidArgument,
                      "a low-water mark of " + std::to_string(plan.low_water) + " in a ring of " +
                          std::to_string(plan.small_entries) +
                          " descriptors; it must be below the ring's size");
    return RingPrograms(system, plan).run();
}

}  // namespace via::na::sim
