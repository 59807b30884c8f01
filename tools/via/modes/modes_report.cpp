// SPDX-License-Identifier: BSD-3-Clause
#include "modes/modes_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "crossing.hpp"
#include "modes/way.hpp"
#include "result_files.hpp"
#include "sim/parameters/catalogue.hpp"
#include "size_list.hpp"
#include "statistics.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

using base::Result;

constexpr std::array<std::string_view, 6> types{"User",    "User:ST",    "User:ST,DT",
                                                "Syscall", "Syscall:ST", "Syscall:ST,DT"};

using Values = std::vector<double> WayResult::*;

/// The way of that type whose data is fetched so, or copied if the type copies it.
std::optional<std::size_t> find_way(std::string_view type, Fetch fetch) {
    const auto ways = all_ways();
    for (std::size_t i = 0; i < ways.size(); ++i)
        if (ways[i].type == type && (ways[i].fetch == fetch || ways[i].copies_data())) return i;
    return std::nullopt;
}

const WayResult* find_result(const ModesReport& report, std::size_t way, std::uint64_t bytes) {
    for (const WayResult& result : report.measured.ways)
        if (result.way == way && result.bytes == bytes) return &result;
    return nullptr;
}

/// The median over the rounds; 0: not measured.
double typical(const ModesReport& report, std::size_t way, std::uint64_t bytes, Values values) {
    const WayResult* result = find_result(report, way, bytes);
    return result != nullptr ? median(result->*values) : 0;
}

double mb_per_s(std::uint64_t bytes, double microseconds) {
    return microseconds > 0 ? static_cast<double>(bytes) / microseconds : 0;
}

/// One table: a row a size, a column a type.
template <class Value>
std::string draw_table(const ModesReport& report, Fetch fetch, bool less_is_better, int digits,
                       Value value) {
    TextTable table;
    table.add_column("bytes");
    for (const std::string_view type : types)
        table.add_column(std::string(type) + " ");
    for (const std::uint64_t bytes : report.sizes) {
        std::vector<double> row;
        for (const std::string_view type : types)
            row.push_back(value(*find_way(type, fetch), bytes));
        double best = 0;
        for (const double one : row)
            if (one > 0 && (best == 0 || (less_is_better ? one < best : one > best))) best = one;
        std::vector<std::string> cells{format_size(bytes)};
        for (const double one : row)
            cells.push_back(one > 0 ? fmt::format("{:.{}f}{}", one, digits, one == best ? "*" : " ")
                                    : "- ");
        table.add_row(std::move(cells));
    }
    return table.draw();
}

std::vector<CostPair> pair_up(const ModesReport& report, std::size_t first, std::size_t second,
                              Values values, double allowance = 1) {
    std::vector<CostPair> pairs;
    for (const std::uint64_t bytes : report.sizes)
        pairs.push_back({bytes, allowance * typical(report, first, bytes, values),
                         typical(report, second, bytes, values)});
    return pairs;
}

std::string from_text(const ModesReport& report, const Crossing& crossing) {
    switch (crossing.kind) {
        case Crossing::Kind::Never:
            return fmt::format("never up to {} bytes", format_size(report.sizes.back()));
        case Crossing::Kind::Always:
            return "at every size";
        case Crossing::Kind::From:
            return fmt::format("from {} bytes on", format_size(crossing.bytes));
    }
    return {};
}

/// "A beats B: from 4k bytes on one-way, from 8k bytes on until the send is complete."
std::string beats(const ModesReport& report, std::size_t first, std::size_t second) {
    const auto text = [&](Values values) {
        return from_text(report, find_crossing(pair_up(report, first, second, values)));
    };
    const std::string one_way = text(&WayResult::one_way_us);
    const std::string complete = text(&WayResult::complete_us);
    const std::string what =
        fmt::format("{} beats {}: ", describe(all_ways()[second]), describe(all_ways()[first]));
    if (one_way == complete) return what + one_way + ", one-way and until the send is complete.";
    return what + fmt::format("{} one-way, {} until the send is complete.", one_way, complete);
}

std::string price_of_the_kernel(const ModesReport& report, std::size_t user, std::size_t kernel) {
    const auto at = [&](std::uint64_t bytes) {
        const double without = typical(report, user, bytes, &WayResult::one_way_us);
        const double with = typical(report, kernel, bytes, &WayResult::one_way_us);
        return fmt::format("{:.2f} µs at {} bytes ({:.1f} times as long)", with - without,
                           format_size(bytes), without > 0 ? with / without : 0);
    };
    std::string text = fmt::format("The system call adds to {} one-way {}",
                                   describe(all_ways()[user]), at(report.sizes.front()));
    if (report.sizes.size() > 1) text += " and " + at(report.sizes.back());
    for (const int percent : {100, 10}) {
        const Crossing crossing = find_crossing(
            pair_up(report, user, kernel, &WayResult::one_way_us, 1 + percent / 100.0));
        text += fmt::format("; less than {} %: {}", percent, from_text(report, crossing));
    }
    return text + ".";
}

std::string simulated_crossing(const ModesReport& report, std::string_view first,
                               std::string_view second) {
    const auto time = [&](std::string_view type, std::uint64_t bytes) {
        for (const SimulatedSend& send : report.simulated)
            if (send.type == type && send.bytes == bytes) return send.complete_us;
        return 0.0;
    };
    std::vector<CostPair> pairs;
    for (const std::uint64_t bytes : report.sizes)
        pairs.push_back({bytes, time(first, bytes), time(second, bytes)});
    return fmt::format("On the simulated Pentium II {} beats {}: {}.", second, first,
                       from_text(report, find_crossing(pairs)));
}

/// How far the rounds lie apart: the widest and the typical middle half, in percent.
std::string spread_sentence(const ModesReport& report) {
    std::vector<double> widths;
    for (const WayResult& result : report.measured.ways) {
        std::vector<double> sorted = result.one_way_us;
        std::sort(sorted.begin(), sorted.end());
        const double centre = percentile_of_sorted(sorted, 0.5);
        if (centre <= 0) continue;
        widths.push_back(100 *
                         (percentile_of_sorted(sorted, 0.75) - percentile_of_sorted(sorted, 0.25)) /
                         centre);
    }
    std::sort(widths.begin(), widths.end());
    return fmt::format(
        "Values are medians of the rounds, whose middle half is {:.1f} % (typical) to {:.1f} %\n"
        "(widest) of the value wide.\n",
        percentile_of_sorted(widths, 0.5), percentile_of_sorted(widths, 1));
}

nlohmann::json spread_json(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return {{"median", percentile_of_sorted(values, 0.5)},
            {"p25", percentile_of_sorted(values, 0.25)},
            {"p75", percentile_of_sorted(values, 0.75)},
            {"min", percentile_of_sorted(values, 0)},
            {"max", percentile_of_sorted(values, 1)}};
}

std::string data_file(const ModesReport& report) {
    std::string text = "# bytes, then MB/s: ";
    for (const Way& way : all_ways())
        text += describe(way) + ", ";
    for (const std::string_view type : types)
        text += fmt::format("simulated {}, ", type);
    text += "\n";
    const auto column = [](double value) {
        return value > 0 ? fmt::format("\t{:.6g}", value) : std::string("\t?");
    };
    for (const std::uint64_t bytes : report.sizes) {
        text += std::to_string(bytes);
        for (std::size_t way = 0; way < all_ways().size(); ++way)
            text += column(mb_per_s(bytes, typical(report, way, bytes, &WayResult::complete_us)));
        for (const std::string_view type : types) {
            double simulated = 0;
            for (const SimulatedSend& send : report.simulated)
                if (send.type == type && send.bytes == bytes)
                    simulated = mb_per_s(bytes, send.complete_us);
            text += column(simulated);
        }
        text += "\n";
    }
    return text;
}

std::string_view colour_of(std::string_view type) {
    constexpr std::array<std::string_view, 6> colours{"#1b6ca8", "#17a398", "#2e933c",
                                                      "#c1292e", "#f18f01", "#7b2d8b"};
    const auto place = std::find(types.begin(), types.end(), type) - types.begin();
    return colours[static_cast<std::size_t>(place) % colours.size()];
}

std::string gnuplot_script(const ModesReport& report, const std::string& stem) {
    const std::string data = gnuplot_quoted(stem + ".dat");
    std::string today;
    for (std::size_t way = 0; way < all_ways().size(); ++way) {
        const Way& one = all_ways()[way];
        if (one.fetch == Fetch::Cma && !report.measured.cma) continue;
        if (!today.empty()) today += ", \\\n     ";
        today += fmt::format(
            "{} using 1:{} with linespoints lw 2 pt {} dashtype {} lc rgb \"{}\" title {}", data,
            way + 2, one.fetch == Fetch::Cma ? 6 : 7, one.fetch == Fetch::Cma ? 2 : 1,
            colour_of(one.type), gnuplot_quoted(describe(one)));
    }
    std::string then;
    for (std::size_t type = 0; type < types.size(); ++type) {
        if (!then.empty()) then += ", \\\n     ";
        then += fmt::format("{} using 1:{} with linespoints lw 2 pt 7 lc rgb \"{}\" title {}", data,
                            type + 2 + all_ways().size(), colour_of(types[type]),
                            gnuplot_quoted(types[type]));
    }
    std::string text =
        "set datafile missing \"?\"\nset datafile separator \"\\t\"\nset logscale x 2\n"
        "set logscale y 10\nset format x \"%.0b%B\"\nset format y \"%g\"\nset grid\n"
        "set xlabel \"bytes\"\nset ylabel \"MB/s until the send is complete\"\n"
        "set key bottom right noenhanced\n";
    // A multiplot can not be replotted, so each format gets the whole of it.
    for (const auto& [terminal, ending] :
         {std::pair{"svg size 1400,640 font \"sans,12\" background rgb \"white\"", ".svg"},
          std::pair{"pngcairo size 1400,640 font \"sans,11\"", ".png"}})
        text += fmt::format(
            "set terminal {}\nset output {}\nset multiplot layout 1,2\n"
            "set title \"this machine, two processes\"\nplot {}\n"
            "set title \"Pentium II 300 MHz and LANai 4, simulated\"\nplot {}\n"
            "unset multiplot\nunset output\n",
            terminal, gnuplot_quoted(stem + ending), today, then);
    return text;
}

}  // namespace

Result<std::vector<SimulatedSend>> simulate_ways(const std::vector<std::uint64_t>& sizes) {
    auto machine = sim::load_parameters("p2-300", "machine", sim::machine_parameters());
    if (!machine) return std::move(machine).error();
    auto nic = sim::load_parameters("lanai4", "nic", sim::nic_parameters());
    if (!nic) return std::move(nic).error();
    auto firmware = sim::load_parameters("study", "firmware", sim::study_firmware_parameters());
    if (!firmware) return std::move(firmware).error();
    std::vector<SimulatedSend> sends;
    for (const std::string_view type : types) {
        for (const std::uint64_t bytes : sizes) {
            auto sent = sim::simulate_send(machine.value(), nic.value(), firmware.value(),
                                           *sim::send_type(type), bytes);
            if (!sent) return std::move(sent).error();
            sends.push_back({type, bytes, sim::in_microseconds(sent.value().total())});
        }
    }
    return sends;
}

std::string draw_tables(const ModesReport& report) {
    std::string text;
    for (const Fetch fetch : {Fetch::Mapping, Fetch::Cma}) {
        if (fetch == Fetch::Cma && !report.measured.cma) continue;
        const std::string_view memory = fetch == Fetch::Mapping
                                            ? "memory that both sides map (as kmem)"
                                            : "ordinary memory, fetched by process_vm_readv (CMA)";
        text += fmt::format("One-way time, µs; {}:\n\n", memory);
        text += draw_table(report, fetch, true, 3, [&](std::size_t way, std::uint64_t bytes) {
            return typical(report, way, bytes, &WayResult::one_way_us);
        });
        text += fmt::format("\nMB/s until the send is complete; {}:\n\n", memory);
        text += draw_table(report, fetch, false, 1, [&](std::size_t way, std::uint64_t bytes) {
            return mb_per_s(bytes, typical(report, way, bytes, &WayResult::complete_us));
        });
        text += "\n";
    }
    text += "* the best of its row. ";
    text += spread_sentence(report);
    if (!report.measured.cma)
        text += "CMA is refused here (via info says why), so its ways are missing.\n";
    return text;
}

std::vector<std::string> crossover_sentences(const ModesReport& report) {
    std::vector<std::string> sentences;
    std::vector<Fetch> fetches{Fetch::Mapping};
    if (report.measured.cma) fetches.push_back(Fetch::Cma);
    for (const Fetch fetch : fetches)
        for (const auto& [copy, reference] :
             {std::pair{"User:ST,DT", "User"}, std::pair{"User:ST,DT", "User:ST"},
              std::pair{"Syscall:ST,DT", "Syscall"}, std::pair{"Syscall:ST,DT", "Syscall:ST"},
              std::pair{"User", "User:ST"}})
            sentences.push_back(beats(report, *find_way(copy, fetch), *find_way(reference, fetch)));
    for (const Fetch fetch : fetches)
        sentences.push_back(
            price_of_the_kernel(report, *find_way("User", fetch), *find_way("Syscall", fetch)));
    sentences.push_back(price_of_the_kernel(report, *find_way("User:ST,DT", Fetch::Nothing),
                                            *find_way("Syscall:ST,DT", Fetch::Nothing)));
    sentences.push_back(simulated_crossing(report, "User:ST,DT", "User"));
    sentences.push_back(simulated_crossing(report, "User:ST,DT", "User:ST"));
    return sentences;
}

nlohmann::json to_json(const ModesReport& report) {
    auto ways = nlohmann::json::array();
    for (const WayResult& result : report.measured.ways) {
        const Way& way = all_ways()[result.way];
        const double complete = median(result.complete_us);
        const double free = median(result.free_us);
        ways.push_back({{"type", way.type},
                        {"data_by", to_text(way.fetch)},
                        {"bytes", result.bytes},
                        {"one_way_us", median(result.one_way_us)},
                        {"complete_us", complete},
                        {"mb_per_s", mb_per_s(result.bytes, complete)},
                        {"free_us", free},
                        {"free_mb_per_s", mb_per_s(result.bytes, free)},
                        {"spread",
                         {{"one_way_us", spread_json(result.one_way_us)},
                          {"complete_us", spread_json(result.complete_us)},
                          {"free_us", spread_json(result.free_us)}}}});
    }
    auto simulated = nlohmann::json::array();
    for (const SimulatedSend& send : report.simulated)
        simulated.push_back({{"type", send.type},
                             {"bytes", send.bytes},
                             {"total_us", send.complete_us},
                             {"mb_per_s", mb_per_s(send.bytes, send.complete_us)}});
    return {{"ways", ways},
            {"simulated", {{"machine", "p2-300"}, {"nic", "lanai4"}, {"sends", simulated}}},
            {"crossovers", crossover_sentences(report)},
            {"cma", report.measured.cma},
            {"clock_ns", report.measured.clock_ns},
            {"verified",
             {{"every_byte_messages", report.measured.checked},
              {"sampled_messages", report.measured.timed}}}};
}

Result<void> write_files(const ModesReport& report, const nlohmann::json& machine,
                         const std::string& folder) {
    if (auto made = create_folder(folder); !made) return made;
    const std::string stem = (std::filesystem::path(folder) / "modes").string();
    nlohmann::json all = to_json(report);
    all["machine"] = machine;
    if (auto written = write_text_file(stem + ".json", all.dump(2) + "\n"); !written)
        return written;
    if (auto written = write_text_file(stem + ".dat", data_file(report)); !written) return written;
    if (auto written = write_text_file(stem + ".gnuplot", gnuplot_script(report, stem)); !written)
        return written;
    return run_gnuplot(stem + ".gnuplot");
}

}  // namespace via::tool
