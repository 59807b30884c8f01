// SPDX-License-Identifier: BSD-3-Clause
#include "ablation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "statistics.hpp"

namespace via::tool {
namespace {

/// The cells of a line between blanks.
std::vector<std::string_view> words_of(std::string_view line) {
    std::vector<std::string_view> words;
    while (!line.empty()) {
        const std::size_t begin = line.find_first_not_of(" \t\r");
        if (begin == std::string_view::npos) break;
        line.remove_prefix(begin);
        const std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
        words.push_back(line.substr(0, end));
        line.remove_prefix(end);
    }
    return words;
}

/// fi_pingpong prints a head with names and a line with values.
base::Result<double> fabric_figure(std::string_view output) {
    constexpr std::string_view column = "usec/xfer";
    std::vector<std::string_view> head;
    while (!output.empty()) {
        const std::size_t end = std::min(output.find('\n'), output.size());
        const auto words = words_of(output.substr(0, end));
        output.remove_prefix(std::min(end + 1, output.size()));
        if (std::find(words.begin(), words.end(), column) != words.end()) {
            head = words;
            continue;
        }
        if (head.empty() || words.size() != head.size()) continue;
        const auto place = std::find(head.begin(), head.end(), column) - head.begin();
        const std::string_view word = words[static_cast<std::size_t>(place)];
        double value = 0;
        const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
        if (read.ec == std::errc() && value > 0) return value;
    }
    return {base::Code::ProtocolViolation, "fi_pingpong printed no time of a transfer"};
}

base::Result<double> json_figure(std::string_view output, const char* member) {
    const auto parsed = nlohmann::json::parse(output, nullptr, false);
    if (parsed.is_object() && parsed.contains(member) && parsed[member].is_number() &&
        parsed[member].get<double>() > 0)
        return parsed[member].get<double>();
    return {base::Code::ProtocolViolation,
            fmt::format("a measurement printed no usable \"{}\"", member)};
}

}  // namespace

const std::vector<MechanismSwitch>& mechanism_switches() {
    const AblationPlace here;
    const AblationPlace one_link{{"off"}};
    const AblationPlace unequal_links{{"1gbit", "250mbit"}};
    static const std::vector<MechanismSwitch> all{
        {"inline",
         "MyVIA",
         "data in the descriptor's own frame",
         "8 B, one way, shm0",
         Yardstick::OneWay,
         here,
         {"--device", "shm0", "--bytes", "8"},
         {},
         {},
         {"VIA_SHM_INLINE=0"}},
        {"utlb",
         "MyVIA",
         "addresses translated in user space",
         "8 B, one way, shm0",
         Yardstick::OneWay,
         here,
         {"--device", "shm0", "--bytes", "8"},
         {},
         {},
         {"VIA_UTLB=0"}},
        // Without it no more can be posted than the device holds.
        {"big-ring",
         "MyVIA",
         "big ring behind a small one",
         "64 B stream, net0",
         Yardstick::Stream,
         one_link,
         {"--device", "net0", "--bytes", "64"},
         {"--window", "1024"},
         {"--window", "16"},
         {"VIA_MAX_DESCRIPTORS=16", "VIA_PD_SMALL_RING=16", "VIA_PD_LOW_WATER=4"}},
        {"kmem",
         "MyVIA",
         "memory that peers can map",
         "1 MB stream, shm0",
         Yardstick::Stream,
         here,
         {"--device", "shm0", "--bytes", "1m"},
         {},
         {},
         {"VIA_SHM_PATH=cma"}},
        {"trains",
         "MNC",
         "many packets to a system call",
         "64 KB stream, net0",
         Yardstick::Stream,
         one_link,
         {"--device", "net0", "--bytes", "64k"},
         {},
         {},
         {"VIA_NET_TRAINS=0"}},
        {"adaptive",
         "MNC",
         "links chosen by what was measured",
         "1 MB stream, 1 Gbit/s and 250 Mbit/s",
         Yardstick::Stream,
         unequal_links,
         {"--device", "net0", "--bytes", "1m"},
         {},
         {},
         {"VIA_NET_POLICY=static"}},
        {"eager",
         "MVICH",
         "short messages sent at once",
         "64 B, one way, libfabric",
         Yardstick::FabricOneWay,
         here,
         {"-S", "64", "-I", "20000"},
         {},
         {},
         {"VIA_MPI_EAGER_BYTES=0"}},
        {"piggyback",
         "MVICH",
         "credits ride on messages",
         "64 B, one way, libfabric, 4 credits",
         Yardstick::FabricOneWay,
         here,
         {"-S", "64", "-I", "20000"},
         {},
         {},
         {"VIA_MPI_PIGGYBACK=0"},
         {"VIA_MPI_CREDITS=4"}},
        {"lazy",
         "MVICH",
         "registrations that are kept",
         "1 MB, one way, libfabric",
         Yardstick::FabricOneWay,
         here,
         {"-S", "1048576", "-I", "300"},
         {},
         {},
         {"VIA_MPI_CACHE_ENTRIES=0"}},
    };
    return all;
}

base::Result<double> measured_figure(Yardstick yardstick, std::string_view output) {
    switch (yardstick) {
        case Yardstick::OneWay:
            return json_figure(output, "one_way_us");
        case Yardstick::Stream:
            return json_figure(output, "mb_per_s");
        case Yardstick::FabricOneWay:
            break;
    }
    return fabric_figure(output);
}

std::string_view figure_unit(Yardstick yardstick) noexcept {
    return yardstick == Yardstick::Stream ? "MB/s" : "µs";
}

AblationVerdict judge(Yardstick yardstick, const AblationValues& values) {
    const auto worth = [&](double with, double without) {
        return yardstick == Yardstick::Stream ? with / without : without / with;
    };
    AblationVerdict verdict;
    verdict.with = median(values.with);
    verdict.without = median(values.without);
    verdict.worth = worth(verdict.with, verdict.without);
    verdict.lowest = verdict.highest = worth(values.with[0], values.without[0]);
    for (std::size_t i = 1; i < values.with.size(); ++i) {
        const double pair = worth(values.with[i], values.without[i]);
        verdict.lowest = std::min(verdict.lowest, pair);
        verdict.highest = std::max(verdict.highest, pair);
    }
    verdict.clear = verdict.lowest > 1 || verdict.highest < 1;
    return verdict;
}

nlohmann::json to_json(const MechanismSwitch& mechanism, const AblationValues& values) {
    const AblationVerdict verdict = judge(mechanism.yardstick, values);
    return {{"name", mechanism.name},
            {"paper", mechanism.paper},
            {"mechanism", mechanism.mechanism},
            {"measure", mechanism.measure},
            {"switched_off_by", mechanism.without_settings},
            {"unit", figure_unit(mechanism.yardstick)},
            {"with", values.with},
            {"without", values.without},
            {"worth", verdict.worth},
            {"lowest", verdict.lowest},
            {"highest", verdict.highest}};
}

}  // namespace via::tool
