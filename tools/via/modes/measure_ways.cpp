// SPDX-License-Identifier: BSD-3-Clause
#include "modes/measure_ways.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.hpp"
#include "base/memory_file.hpp"
#include "modes/way_side.hpp"
#include "na/shm/copy_paths.hpp"
#include "na/shm/shm_endpoint.hpp"
#include "statistics.hpp"
#include "supervisor.hpp"

namespace via::tool {
namespace {

using base::Result;

constexpr base::Nanoseconds patience_limit = 10'000'000'000;
// Messages before the timed ones: the sides have just met.
constexpr std::uint32_t untimed_lead = 16;
constexpr std::uint32_t checks = 4;

/// What the two processes share besides the channel.
struct SharedPage {
    std::array<EndSignal, 2> ends;  ///< about the messages of each side
    struct alignas(base::cache_line) Meeting {
        std::atomic<std::uint64_t> count{0};
    };
    std::array<Meeting, 2> meetings;
    std::array<std::atomic<pid_t>, 2> processes;
    std::array<na::shm::ProbeTarget, 2> probes;
    std::array<std::atomic<bool>, 2> cma_works;
    alignas(4096) std::array<MessageSlots, 2> slots;
};

/// Made before the sides are started, so both have it.
struct CommonGround {
    base::UniqueFd file;
    base::Mapping mapping;
    SharedPage* page = nullptr;
    na::shm::ShmSettings settings;
    std::array<na::shm::Direction, 2> directions;  ///< of the messages of each side
    std::array<base::UniqueFd, 2> sockets;

    static Result<CommonGround> make() {
        CommonGround ground;
        ground.settings = na::shm::ShmSettings::read();
        const na::shm::Geometry& geometry = ground.settings.geometry;
        const std::size_t bytes = sizeof(SharedPage) + geometry.channel_bytes();
        auto file = base::create_memory_file("via-modes", bytes, base::Backing::Allocated);
        if (!file) return std::move(file).error();
        ground.file = std::move(file).value();
        auto mapping = base::Mapping::map(ground.file, bytes, base::Access::ReadWrite);
        if (!mapping) return std::move(mapping).error();
        ground.mapping = std::move(mapping).value();
        std::byte* memory = ground.mapping.data();
        ground.page = new (memory) SharedPage;
        for (std::size_t side = 0; side < 2; ++side)
            ground.directions[side] = na::shm::Direction::at(
                memory + sizeof(SharedPage) + side * geometry.direction_bytes, geometry);
        auto ends = KernelCarrier::make_ends(most_mode_bytes);
        if (!ends) return std::move(ends).error();
        ground.sockets = {std::move(ends.value().first), std::move(ends.value().second)};
        return ground;
    }
};

/// Both sides go through the same list of blocks, so they need no words about what comes next.
enum class Block { Check, Pingpong, Send };

struct Samples {
    std::vector<double> whole_us;
    std::vector<double> free_us;
};

/// The median of two looks at the clock right after one another.
double clock_cost_ns() {
    std::vector<double> costs(1001);
    for (double& cost : costs) {
        const base::Nanoseconds before = base::monotonic_now();
        cost = static_cast<double>(base::monotonic_now() - before);
    }
    return median(std::move(costs));
}

class Runner {
  public:
    Runner(const ModesPlan& plan, CommonGround& ground, std::size_t side, SideReporter& reporter)
        : plan_(plan),
          ground_(ground),
          reporter_(reporter),
          side_number_(side),
          patience_(patience_limit, shares_core(plan.cpus) ? 32 : 4096) {}

    Result<void> run() {
        reporter_.stage("meeting the other side");
        if (auto met = meet_with_probe(); !met) return met;
        const std::size_t other = 1 - side_number_;
        SharedPage& page = *ground_.page;
        const std::uint32_t chunk =
            std::min({ground_.settings.chunk_bytes, ground_.settings.geometry.ring_bytes() / 4,
                      na::shm::max_chunk_bytes});
        side_.emplace(WaySide::Parts{
            ground_.directions[side_number_], ground_.directions[other], chunk,
            ground_.sockets[side_number_].get(), page.slots[side_number_], page.slots[other],
            page.processes[other].load(), page.ends[side_number_], page.ends[other], patience_});
        clock_us_ = clock_cost_ns() / 1000;
        for (std::size_t way = 0; way < all_ways().size(); ++way)
            if (all_ways()[way].fetch != Fetch::Cma || cma_) ways_.push_back(way);
        const std::uint64_t blocks = ways_.size() * plan_.sizes.size();
        reporter_.expect(client() ? blocks * (1 + 2 * std::uint64_t{plan_.rounds}) : 0);

        reporter_.stage("checking every byte in every way");
        if (auto checked = check_all(); !checked) return checked;
        reporter_.stage("measuring all ways");
        if (auto measured = measure_all(); !measured) return measured;
        if (client()) report();
        return {};
    }

  private:
    static bool shares_core(const CpuPair& cpus) {
        return !cpus.first || !cpus.second || *cpus.first == *cpus.second;
    }
    [[nodiscard]] bool client() const { return side_number_ == 0; }

    Result<void> meet() {
        SharedPage& page = *ground_.page;
        const std::uint64_t number = page.meetings[side_number_].count.fetch_add(1) + 1;
        const bool came =
            patience_.wait([&] { return page.meetings[1 - side_number_].count.load() >= number; });
        if (!came) return {base::Code::Timeout, "the other side did not come to the next block"};
        return {};
    }

    /// Tells who this is, and tries whether each can read the other's memory.
    Result<void> meet_with_probe() {
        SharedPage& page = *ground_.page;
        const std::size_t other = 1 - side_number_;
        // With Yama's scope 1 a process must say that others may come.
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        page.processes[side_number_].store(getpid());
        page.probes[side_number_] = na::shm::own_probe_target();
        if (auto met = meet(); !met) return met;
        page.cma_works[side_number_].store(
            ground_.settings.allowed.cma &&
            na::shm::probe_cma(page.processes[other].load(), page.probes[other]).read);
        if (auto met = meet(); !met) return met;
        cma_ = page.cma_works[0].load() && page.cma_works[1].load();
        return {};
    }

    Result<void> check_all() {
        for (const std::uint64_t bytes : plan_.sizes) {
            for (const std::size_t way : ways_) {
                Samples none;
                if (auto done = run_block(Block::Check, all_ways()[way], bytes, checks, none);
                    !done)
                    return done;
                checked_ += 2 * checks;
            }
        }
        return {};
    }

    Result<void> measure_all() {
        results_.resize(ways_.size() * plan_.sizes.size());
        for (std::uint32_t round = 0; round < plan_.rounds; ++round) {
            for (std::size_t size = 0; size < plan_.sizes.size(); ++size) {
                for (std::size_t turn = 0; turn < ways_.size(); ++turn) {
                    // Another order in each round, so that none always follows the same one.
                    const std::size_t index = (turn * 3 + round) % ways_.size();
                    WayResult& result = results_[size * ways_.size() + index];
                    result.way = ways_[index];
                    result.bytes = plan_.sizes[size];
                    if (auto done = measure_one(result); !done) return done;
                }
            }
        }
        return {};
    }

    Result<void> measure_one(WayResult& result) {
        const Way& way = all_ways()[result.way];
        Samples pingpong;
        if (auto done = run_block(Block::Pingpong, way, result.bytes, plan_.messages, pingpong);
            !done)
            return done;
        Samples sends;
        if (auto done = run_block(Block::Send, way, result.bytes, plan_.messages, sends); !done)
            return done;
        timed_ += 3 * std::uint64_t{plan_.messages};
        if (!client()) return {};
        result.one_way_us.push_back(median(std::move(pingpong.whole_us)) / 2);
        result.complete_us.push_back(median(std::move(sends.whole_us)));
        result.free_us.push_back(way.copies_data() ? median(std::move(sends.free_us))
                                                   : result.complete_us.back());
        return {};
    }

    Result<void> run_block(Block block, const Way& way, std::uint64_t bytes, std::uint32_t count,
                           Samples& samples) {
        if (auto met = meet(); !met) return met;
        const bool good = client() ? run_client(block, way, bytes, count, samples)
                                   : run_server(block, way, bytes, count);
        if (!good) return {base::Code::System, side_->problem()};
        reporter_.alive();
        return {};
    }

    bool run_client(Block block, const Way& way, std::uint64_t bytes, std::uint32_t count,
                    Samples& samples) {
        const auto contents = block == Block::Check ? Contents::Checked : Contents::Fresh;
        const std::uint32_t untimed = block == Block::Check ? 0 : untimed_lead;
        for (std::uint32_t i = 0; i < untimed + count; ++i) {
            const std::uint64_t number = ++number_;
            side_->prepare(way, number, bytes, contents);
            const bool good = block == Block::Send
                                  ? timed_send(way, number, samples)
                                  : timed_round_trip(way, number, bytes, contents, samples);
            if (!good) return false;
            if (i < untimed) samples = {};
        }
        return true;
    }

    double since(base::Nanoseconds begin) const {
        return static_cast<double>(base::monotonic_now() - begin) / 1000;
    }

    bool timed_round_trip(const Way& way, std::uint64_t number, std::uint64_t bytes,
                          Contents contents, Samples& samples) {
        const base::Nanoseconds begin = base::monotonic_now();
        if (!side_->send(way, number) ||
            !side_->receive(way, number, bytes, signals_end(Block::Pingpong, way)))
            return false;
        // A short message may seem to take no time when the clock's own is taken off.
        samples.whole_us.push_back(std::max(since(begin) - clock_us_, 0.001));
        return side_->verify(number, bytes, contents) &&
               (way.copies_data() || side_->wait_for_end(number));
    }

    bool timed_send(const Way& way, std::uint64_t number, Samples& samples) {
        const base::Nanoseconds begin = base::monotonic_now();
        if (!side_->send(way, number)) return false;
        double looks = 1;
        if (way.copies_data()) {
            samples.free_us.push_back(std::max(since(begin) - clock_us_, 0.001));
            ++looks;
        }
        if (!side_->wait_for_end(number)) return false;
        samples.whole_us.push_back(std::max(since(begin) - looks * clock_us_, 0.001));
        return true;
    }

    bool run_server(Block block, const Way& way, std::uint64_t bytes, std::uint32_t count) {
        const auto contents = block == Block::Check ? Contents::Checked : Contents::Fresh;
        const std::uint64_t end = number_ + count + (block == Block::Check ? 0 : untimed_lead);
        while (number_ < end) {
            const std::uint64_t number = ++number_;
            // The answer is written before it is asked for: nobody's time goes into that.
            if (block != Block::Send) side_->prepare(way, number, bytes, contents);
            if (!side_->receive(way, number, bytes, signals_end(block, way))) return false;
            if (block != Block::Send && !side_->send(way, number)) return false;
            if (!side_->verify(number, bytes, contents)) return false;
        }
        return true;
    }

    /// A sender must know when its buffer has been fetched. Where it was copied it need not, and
    /// the device says nothing; only who measures the whole send wants to know.
    static bool signals_end(Block block, const Way& way) {
        return block == Block::Send || !way.copies_data();
    }

    void report() {
        for (const WayResult& result : results_)
            reporter_.report({{"way", result.way},
                              {"bytes", result.bytes},
                              {"one_way_us", result.one_way_us},
                              {"complete_us", result.complete_us},
                              {"free_us", result.free_us}});
        reporter_.report({{"cma", cma_},
                          {"clock_ns", clock_us_ * 1000},
                          {"timed", timed_},
                          {"checked", checked_}});
    }

    const ModesPlan& plan_;
    CommonGround& ground_;
    SideReporter& reporter_;
    std::size_t side_number_;
    Patience patience_;
    std::optional<WaySide> side_;
    std::vector<std::size_t> ways_;  ///< that work here
    std::vector<WayResult> results_;
    bool cma_ = false;
    double clock_us_ = 0;
    std::uint64_t number_ = 0;  ///< of the last message, the same in both directions
    std::uint64_t timed_ = 0;
    std::uint64_t checked_ = 0;
};

void take(const nlohmann::json& report, ModesResult& result) {
    if (report.contains("way")) {
        WayResult& one = result.ways.emplace_back();
        one.way = report["way"].get<std::size_t>();
        one.bytes = report["bytes"].get<std::uint64_t>();
        one.one_way_us = report["one_way_us"].get<std::vector<double>>();
        one.complete_us = report["complete_us"].get<std::vector<double>>();
        one.free_us = report["free_us"].get<std::vector<double>>();
    } else if (report.contains("cma")) {
        result.cma = report["cma"].get<bool>();
        result.clock_ns = report["clock_ns"].get<double>();
        result.timed = report["timed"].get<std::uint64_t>();
        result.checked = report["checked"].get<std::uint64_t>();
    }
}

}  // namespace

Result<ModesResult> measure_ways(const ModesPlan& plan) {
    auto ground = CommonGround::make();
    if (!ground) return std::move(ground).error();
    ModesResult result;
    SupervisorOptions options;
    options.show_progress = plan.show_progress;
    options.on_report = [&](const nlohmann::json& report) { take(report, result); };
    const auto side = [&](const char* name, std::size_t number, std::optional<int> cpu) {
        return Side{name, cpu, [&plan, &ground, number](SideReporter& reporter) {
                        return Runner(plan, ground.value(), number, reporter).run();
                    }};
    };
    auto outcome = run_sides(
        {side("sender", 0, plan.cpus.first), side("receiver", 1, plan.cpus.second)}, options);
    if (!outcome) return std::move(outcome).error();
    return result;
}

}  // namespace via::tool
