// SPDX-License-Identifier: BSD-3-Clause
// The parts of `via modes`: what carries, what fetches, what measures and what is said of it.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "modes/kernel_carrier.hpp"
#include "modes/measure_ways.hpp"
#include "modes/modes_report.hpp"
#include "modes/ring_carrier.hpp"
#include "modes/way.hpp"
#include "modes/way_memory.hpp"
#include "pattern.hpp"

namespace via::tool {
namespace {

const Patience brief(20'000'000, 64);

/// Both ends of a channel in one process: what one sends the other takes out.
struct RingPair {
    RingPair() {
        for (std::size_t i = 0; i < 2; ++i)
            directions[i] = na::shm::Direction::at(memory.get() + i * direction_bytes,
                                                   {frame_lines, direction_bytes});
    }
    RingCarrier make(std::size_t side) {
        return {directions[side], directions[1 - side], 4096, brief};
    }
    static constexpr std::uint32_t frame_lines = 32;
    static constexpr std::uint32_t direction_bytes = 128 << 10;
    struct Free {
        void operator()(std::byte* made) const { free(made); }
    };
    std::unique_ptr<std::byte, Free> memory{[] {
        auto* made = static_cast<std::byte*>(aligned_alloc(4096, 2 * direction_bytes));
        std::fill_n(made, 2 * direction_bytes, std::byte{0});
        return made;
    }()};
    std::array<na::shm::Direction, 2> directions;
};

Instruction instruction(std::uint64_t number, std::uint64_t bytes) {
    Instruction structure;
    structure.number = number;
    structure.bytes = bytes;
    structure.further[3] = ~number;
    return structure;
}

template <class Carrier>
void expect_all_kinds_to_arrive(Carrier& sender, Carrier& receiver) {
    std::vector<std::byte> data(20000);
    std::vector<std::byte> place(20000);
    for (std::uint64_t number = 1; number < 200; ++number) {
        Reference word = 0;
        ASSERT_TRUE(sender.send_word(number * 1000));
        ASSERT_TRUE(receiver.receive_word(word));
        EXPECT_EQ(word, number * 1000);

        Instruction came;
        ASSERT_TRUE(sender.send_structure(instruction(number, 0)));
        ASSERT_TRUE(receiver.receive_structure(came));
        EXPECT_EQ(came.number, number);
        EXPECT_EQ(came.further[3], ~number);

        const std::uint64_t bytes = number * 97 % 20000 + 1;
        fill_pattern(data.data(), bytes, number);
        ASSERT_TRUE(sender.send_all(instruction(number, bytes), data.data()));
        ASSERT_TRUE(receiver.receive_all(came, place));
        EXPECT_EQ(came.bytes, bytes);
        EXPECT_FALSE(find_wrong_byte(place.data(), bytes, number)) << bytes;
    }
}

TEST(RingCarrier, CarriesAllKinds) {
    RingPair pair;
    RingCarrier sender = pair.make(0);
    RingCarrier receiver = pair.make(1);
    expect_all_kinds_to_arrive(sender, receiver);
}

TEST(RingCarrier, GivesUpAndRefusesWhatItDidNotExpect) {
    RingPair pair;
    RingCarrier sender = pair.make(0);
    RingCarrier receiver = pair.make(1);
    Reference word = 0;
    EXPECT_FALSE(receiver.receive_word(word));  // nothing came
    ASSERT_TRUE(sender.send_structure(instruction(1, 0)));
    EXPECT_FALSE(receiver.receive_word(word));  // something else came
    // More than the place can take.
    RingPair other;
    RingCarrier from = other.make(0);
    RingCarrier to = other.make(1);
    std::vector<std::byte> data(3000);
    std::vector<std::byte> place(2999);
    Instruction came;
    ASSERT_TRUE(from.send_all(instruction(1, 3000), data.data()));
    EXPECT_FALSE(to.receive_all(came, place));
}

TEST(KernelCarrier, CarriesAllKinds) {
    auto ends = KernelCarrier::make_ends(most_mode_bytes);
    ASSERT_TRUE(ends) << ends.error().sentence;
    KernelCarrier sender(ends.value().first.get(), brief);
    KernelCarrier receiver(ends.value().second.get(), brief);
    expect_all_kinds_to_arrive(sender, receiver);
}

TEST(KernelCarrier, GivesUpAndRefusesWhatItDidNotExpect) {
    auto ends = KernelCarrier::make_ends(most_mode_bytes);
    ASSERT_TRUE(ends) << ends.error().sentence;
    KernelCarrier sender(ends.value().first.get(), brief);
    KernelCarrier receiver(ends.value().second.get(), brief);
    Reference word = 0;
    EXPECT_FALSE(receiver.receive_word(word));
    ASSERT_TRUE(sender.send_structure(instruction(1, 0)));
    EXPECT_FALSE(receiver.receive_word(word));
    std::vector<std::byte> data(3000);
    std::vector<std::byte> place(2999);
    Instruction came;
    ASSERT_TRUE(sender.send_all(instruction(1, 3000), data.data()));
    EXPECT_FALSE(receiver.receive_all(came, place));
    ends.value().first.reset();  // the other side is gone
    EXPECT_FALSE(receiver.receive_word(word));
}

TEST(IncomingMemory, FetchesWhatIsReferredToAndNothingOutside) {
    auto shared = std::make_unique<MessageSlots>();
    OutgoingMemory outgoing(*shared);
    const IncomingMemory incoming(*shared, getpid());
    for (const Fetch fetch : {Fetch::Mapping, Fetch::Cma}) {
        MessageSlot& slot = outgoing.slot(fetch, 1);
        EXPECT_NE(&slot, &outgoing.slot(fetch, 2));
        fill_pattern(slot.data.data(), 5000, 7);
        std::vector<std::byte> place(5000);
        ASSERT_TRUE(incoming.fetch(fetch, outgoing.refer_to(fetch, slot.data.data()), place.data(),
                                   place.size()));
        EXPECT_FALSE(find_wrong_byte(place.data(), place.size(), 7));
    }
    std::byte one{};
    EXPECT_TRUE(incoming.fetch(Fetch::Mapping, sizeof(MessageSlots) - 1, &one, 1));
    EXPECT_FALSE(incoming.fetch(Fetch::Mapping, sizeof(MessageSlots), &one, 1));
    EXPECT_FALSE(incoming.fetch(Fetch::Mapping, ~std::uint64_t{0}, &one, 1));
    EXPECT_FALSE(incoming.fetch(Fetch::Cma, 0, &one, 1));
}

TEST(AllWays, AreTheSimulatorsTypes) {
    std::set<std::string_view> types;
    for (const Way& way : all_ways()) {
        types.insert(way.type);
        const auto type = sim::send_type(way.type);
        ASSERT_TRUE(type) << way.type;
        EXPECT_EQ(type->given, way.sends.given) << way.type;
        EXPECT_EQ(type->by_system_call, way.sends.by_system_call) << way.type;
        EXPECT_EQ(way.copies_data(), type->given == sim::Given::StructureAndData) << way.type;
    }
    EXPECT_EQ(types.size(), 6u);
    EXPECT_EQ(all_ways().size(), 10u);
}

TEST(MeasureWays, OnOneCoreToo) {
    ModesPlan plan;
    plan.sizes = {1, 100, 65536};
    plan.rounds = 2;
    plan.messages = 3;
    plan.show_progress = false;
    const int core = usable_processors().front().number;
    plan.cpus = {core, core};
    const auto measured = measure_ways(plan);
    ASSERT_TRUE(measured) << measured.error().sentence;
    EXPECT_EQ(measured.value().ways.size(), 3 * (measured.value().cma ? 10u : 6u));
    for (const WayResult& result : measured.value().ways) {
        EXPECT_EQ(result.one_way_us.size(), 2u);
        for (const double value : result.one_way_us)
            EXPECT_GT(value, 0);
        EXPECT_EQ(result.complete_us.size(), 2u);
        EXPECT_EQ(result.free_us.size(), 2u);
    }
    EXPECT_GT(measured.value().checked, 0u);
}

/// A machine on which by reference costs 1 µs and by copy a nanosecond a byte; a system call 2 µs.
ModesReport made_up(bool cma) {
    ModesReport report;
    report.measured.cma = cma;
    for (std::uint64_t bytes = 4; bytes <= 65536; bytes *= 2) {
        report.sizes.push_back(bytes);
        for (std::size_t way = 0; way < all_ways().size(); ++way) {
            const Way& one = all_ways()[way];
            if (one.fetch == Fetch::Cma && !cma) continue;
            double time = one.copies_data() ? 0.1 + static_cast<double>(bytes) / 1000 : 1;
            if (one.fetch == Fetch::Cma) time += 3;
            if (one.sends.by_system_call) time += 2;
            report.measured.ways.push_back({way, bytes, {time}, {time}, {time}});
        }
    }
    report.simulated = simulate_ways(report.sizes).value();
    return report;
}

TEST(ModesReport, SaysWhereTheWaysCross) {
    const auto sentences = crossover_sentences(made_up(true));
    const auto said = [&](const std::string& text) {
        return std::any_of(sentences.begin(), sentences.end(), [&](const std::string& sentence) {
            return sentence.find(text) != std::string::npos;
        });
    };
    EXPECT_TRUE(said("User by mapping beats User:ST,DT: from 1k bytes on"));
    EXPECT_TRUE(said("User by CMA beats User:ST,DT: from 4k bytes on"));
    EXPECT_TRUE(said("User:ST by mapping beats User by mapping: never up to 64k bytes"));
    EXPECT_TRUE(said("adds to User by mapping one-way 2.00 µs at 4 bytes (3.0 times as long)"));
    EXPECT_TRUE(said("On the simulated Pentium II User beats User:ST,DT: from"));
}

TEST(ModesReport, MarksTheBestAndLeavesOutWhatIsMissing) {
    const std::string with = draw_tables(made_up(true));
    EXPECT_NE(with.find("0.104*"), std::string::npos) << with;
    EXPECT_NE(with.find("CMA"), std::string::npos);
    const std::string without = draw_tables(made_up(false));
    EXPECT_NE(without.find("CMA is refused here"), std::string::npos) << without;
    EXPECT_EQ(without.find("ordinary memory, fetched"), std::string::npos);
    for (const std::string& sentence : crossover_sentences(made_up(false)))
        EXPECT_EQ(sentence.find("CMA"), std::string::npos) << sentence;
}

TEST(ModesReport, LeavesNumbersAndPicturesBehind) {
    char name[] = "/tmp/via-modes-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    const std::filesystem::path folder = std::filesystem::path(name) / "results";
    const auto written = write_files(made_up(true), {{"kernel", "k"}}, folder.string());
    EXPECT_GT(std::filesystem::file_size(folder / "modes.json"), 1000u);
    if (written) {
        EXPECT_GT(std::filesystem::file_size(folder / "modes.svg"), 1000u);
        EXPECT_GT(std::filesystem::file_size(folder / "modes.png"), 1000u);
    } else {
        EXPECT_EQ(written.error().code, base::Code::NotFound) << written.error().sentence;
    }
    std::filesystem::remove_all(name);
}

}  // namespace
}  // namespace via::tool
