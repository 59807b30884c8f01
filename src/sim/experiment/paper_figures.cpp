// SPDX-License-Identifier: BSD-3-Clause
// The list itself. A role is what the parameter files say: a figure that a value was chosen on is
// fitted, however well it comes out.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/experiment/figures.hpp"
#include "sim/model/pci_bus.hpp"

namespace via::sim {
namespace {

constexpr auto fitted = FigureRole::Fitted;
constexpr auto predicted = FigureRole::Predicted;
constexpr double no_end = Figure::no_end;

// How far off is good enough, in percent.
constexpr double of_tables = 2;
constexpr double of_user = 3;
constexpr double of_predictions = 5;
constexpr double of_about = 10;

constexpr SystemName myvia4{"p3-733", "lanai4", "myvia"};
constexpr SystemName bvia4{"p3-733", "lanai4", "bvia"};
constexpr SystemName myvia9{"athlon-1400", "lanai9", "myvia"};
constexpr SystemName bvia9{"athlon-1400", "lanai9", "bvia"};
constexpr SystemName gm9{"athlon-1400", "lanai9", "gm"};
constexpr SystemName gm_of_mnc{"xeon-700", "lanai9", "gm"};
constexpr SystemName gm_of_myricom{"xeon-2000", "lanai9", "gm", 133};

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t peak_bytes = 65536;
constexpr std::uint64_t much = 1U << 20;
/// Long enough for MNC and GM to be in their stride.
constexpr std::uint64_t long_message = 65536;

constexpr std::array<std::uint64_t, 6> short_sizes{4, 8, 16, 32, 48, 64};
constexpr std::array<std::uint64_t, 6> latency_sizes{4, 64, 256, 1024, 2048, 4096};

SystemName with_poor_locality(SystemName name) {
    name.locality = Locality::Poor;
    return name;
}

struct Extremes {
    double least = no_end;
    double most = -no_end;
    void add(double value) {
        least = std::min(least, value);
        most = std::max(most, value);
    }
};

/// The least size at which `holds`, which then holds for all above; 0: at none.
template <class Holds>
std::uint64_t first_size(std::uint64_t below, std::uint64_t above, const Holds& holds) {
    constexpr std::uint64_t step = 4;
    if (!holds(above)) return 0;
    while (above - below > step) {
        const std::uint64_t middle = (below + (above - below) / 2) / step * step;
        (holds(middle) ? above : below) = middle;
    }
    return above;
}

Extremes stream_ratios(Laboratory& laboratory, const SystemName& over, const SystemName& under,
                       std::uint64_t from, std::uint64_t to) {
    Extremes ratios;
    for (std::uint64_t bytes = from; bytes <= to; bytes *= 2)
        ratios.add(laboratory.window(over, bytes) / laboratory.window(under, bytes));
    return ratios;
}

double lost_by_poor_locality(Laboratory& laboratory, const SystemName& name) {
    return 1 - laboratory.window(with_poor_locality(name), page) / laboratory.window(name, page);
}

/// Of the time until the end is seen, what passes after the start: the network's part.
double net_rate(Laboratory& laboratory, std::string_view type) {
    return static_cast<double>(much) / in_microseconds(laboratory.send(type, much).wait);
}

double bus_rate(Laboratory& laboratory, std::string_view machine, Toward toward) {
    Simulation simulation;
    return PciBus(simulation, laboratory.machine(machine)).rate(toward) / 1e6;
}

double stage_time(const RhinetSend& sent, std::string_view stage) {
    for (const RhinetStage& each : sent.stages)
        if (each.name == stage) return in_microseconds(each.end - each.begin);
    return 0;
}

class List {
  public:
    using Question = std::function<double(Laboratory&)>;

    List(std::vector<Figure>& figures, std::string_view paper) : figures_(figures), paper_(paper) {}

    Figure& printed(std::string what, std::string_view unit, double value, double tolerance,
                    FigureRole role, std::string_view basis, Question question) {
        return add(FigureKind::Printed, std::move(what), unit, value, value, tolerance, role, basis,
                   std::move(question));
    }
    Figure& about(std::string what, std::string_view unit, double value, FigureRole role,
                  std::string_view basis, Question question) {
        return add(FigureKind::About, std::move(what), unit, value, value, of_about, role, basis,
                   std::move(question));
    }
    Figure& at_least(std::string what, std::string_view unit, double value, FigureRole role,
                     std::string_view basis, Question question) {
        return add(FigureKind::AtLeast, std::move(what), unit, value, no_end, 0, role, basis,
                   std::move(question));
    }
    Figure& between(std::string what, std::string_view unit, double low, double high,
                    FigureRole role, std::string_view basis, Question question) {
        return add(FigureKind::Between, std::move(what), unit, low, high, 0, role, basis,
                   std::move(question));
    }
    Figure& order(std::string what, double low, double high, FigureRole role,
                  std::string_view basis, Question question) {
        return add(FigureKind::Order, std::move(what), "", low, high, 0, role, basis,
                   std::move(question));
    }
    Figure& unprinted(std::string what, std::string_view unit, std::string_view basis,
                      Question question) {
        return add(FigureKind::Unprinted, std::move(what), unit, 0, 0, 0, predicted, basis,
                   std::move(question));
    }

  private:
    Figure& add(FigureKind kind, std::string what, std::string_view unit, double low, double high,
                double tolerance, FigureRole role, std::string_view basis, Question question) {
        Figure figure;
        figure.paper = paper_;
        figure.what = std::move(what);
        figure.unit = unit;
        figure.kind = kind;
        figure.low = low;
        figure.high = high;
        figure.tolerance = tolerance;
        figure.role = role;
        figure.basis = basis;
        figure.question = std::move(question);
        return figures_.emplace_back(std::move(figure));
    }

    std::vector<Figure>& figures_;
    std::string_view paper_;
};

// ---- A: MyVIA -----------------------------------------------------------------------------------

void add_lanai4(List& list) {
    const auto latency_ratios = [](Laboratory& laboratory) {
        Extremes ratios;
        for (const std::uint64_t bytes : latency_sizes)
            ratios.add(laboratory.pingpong(myvia4, bytes) / laboratory.pingpong(bvia4, bytes));
        return ratios;
    };
    list.about("LANai 4: one-way time, MyVIA / BVIA, least of 4 to 4096 bytes", "", 1, fitted,
               "stage of myvia-lanai4",
               [=](Laboratory& laboratory) { return latency_ratios(laboratory).least; });
    list.about("LANai 4: one-way time, MyVIA / BVIA, most of 4 to 4096 bytes", "", 1, fitted,
               "stage of myvia-lanai4",
               [=](Laboratory& laboratory) { return latency_ratios(laboratory).most; });
    // The text does not say how far the paper's curves go.
    for (const std::uint64_t bytes : {8192U, 32768U})
        list.about("LANai 4: one-way time, MyVIA / BVIA, " + std::to_string(bytes / 1024) + " KB",
                   "", 1, predicted, "MyVIA moves a message whole, BVIA page by page",
                   [=](Laboratory& laboratory) {
                       return laboratory.pingpong(myvia4, bytes) /
                              laboratory.pingpong(bvia4, bytes);
                   });
    list.printed("LANai 4: peak bandwidth of MyVIA", "MB/s", 76.2, of_tables, fitted,
                 "fetch_overhead of p3-733",
                 [](Laboratory& laboratory) { return laboratory.window(myvia4, peak_bytes); })
        .headline = true;
    list.order("LANai 4: peak bandwidth, BVIA / MyVIA: well below", 0, 0.8, predicted,
               "nothing overlaps in BVIA",
               [](Laboratory& laboratory) {
                   return laboratory.window(bvia4, peak_bytes) /
                          laboratory.window(myvia4, peak_bytes);
               })
        .headline = true;
    list.between("LANai 4: size where MyVIA overtakes BVIA", "bytes", 1500, 2500, fitted,
                 "engine_lock of myvia-lanai4",
                 [](Laboratory& laboratory) {
                     return static_cast<double>(first_size(64, 8192, [&](std::uint64_t bytes) {
                         return laboratory.window(myvia4, bytes) >= laboratory.window(bvia4, bytes);
                     }));
                 })
        .headline = true;
    for (const std::uint64_t bytes : {256U, 512U, 1024U})
        list.order("LANai 4: bandwidth at " + std::to_string(bytes) +
                       " bytes, BVIA / MyVIA: slightly ahead",
                   1, 1.5, predicted, "locks of MyVIA, fitted on the crossing",
                   [=](Laboratory& laboratory) {
                       return laboratory.window(bvia4, bytes) / laboratory.window(myvia4, bytes);
                   });
    list.unprinted("LANai 4: peak bandwidth of BVIA", "MB/s", "guessed stage costs",
                   [](Laboratory& laboratory) { return laboratory.window(bvia4, peak_bytes); })
        .headline = true;
    list.unprinted("LANai 4: one-way time of MyVIA, 4 bytes", "µs", "guessed stage costs",
                   [](Laboratory& laboratory) { return laboratory.pingpong(myvia4, 4); })
        .headline = true;
}

void add_lanai9(List& list) {
    list.at_least("LANai 9: bandwidth of MyVIA at 4 KB (printed 250, over 96 % of the link)",
                  "MB/s", 240, predicted, "data and status in one chain, two buffers",
                  [](Laboratory& laboratory) { return laboratory.window(myvia9, page); })
        .headline = true;
    list.printed("LANai 9: least one-way time of MyVIA", "µs", 8.46, of_tables, fitted,
                 "descriptor, receive_packet, receive_descriptor of myvia-lanai9",
                 [](Laboratory& laboratory) { return laboratory.pingpong(myvia9, 4); })
        .headline = true;
    for (const auto& [name, system] : {std::pair{"GM", gm9}, {"BVIA", bvia9}, {"MyVIA", myvia9}})
        list.about(
            std::string("LANai 9: bandwidth of ") + name + " at 32 KB", "MB/s", 250, predicted,
            "the link; BVIA's pages overlap",
            [which = system](Laboratory& laboratory) { return laboratory.window(which, 32768); });
    list.between("LANai 9: bandwidth, MyVIA / BVIA, most of 512 bytes to 4 KB: nearly twice", "",
                 1.7, 2.2, fitted, "descriptor of bvia-lanai9; messages overlap in MyVIA only",
                 [](Laboratory& laboratory) {
                     return stream_ratios(laboratory, myvia9, bvia9, 512, 4096).most;
                 })
        .headline = true;
    list.order("LANai 9: bandwidth, MyVIA / BVIA, least of 64 bytes to 8 KB: ahead", 1, no_end,
               predicted, "the same", [](Laboratory& laboratory) {
                   return stream_ratios(laboratory, myvia9, bvia9, 64, 8192).least;
               });
    list.order("LANai 9: bandwidth, GM / MyVIA, least of 512 bytes to 4 KB: slightly ahead", 0.99,
               1.25, fitted, "bookkeeping of gm-lanai9", [](Laboratory& laboratory) {
                   return stream_ratios(laboratory, gm9, myvia9, 512, 4096).least;
               });
    list.order("LANai 9: bandwidth, GM / MyVIA, most of 512 bytes to 4 KB: slightly ahead", 0.99,
               1.25, predicted, "costs of GM fitted on its latency and on 512 bytes",
               [](Laboratory& laboratory) {
                   return stream_ratios(laboratory, gm9, myvia9, 512, 4096).most;
               });
    list.unprinted("LANai 9: one-way time of BVIA, 4 bytes", "µs", "guessed stage costs",
                   [](Laboratory& laboratory) { return laboratory.pingpong(bvia9, 4); })
        .headline = true;
}

void add_locality(List& list) {
    list.between("LANai 4: bandwidth that BVIA loses by poor locality, 4 KB", "", 0.10, 0.40,
                 fitted, "interrupt of p3-733",
                 [](Laboratory& laboratory) { return lost_by_poor_locality(laboratory, bvia4); });
    list.between("LANai 9: bandwidth that BVIA loses by poor locality, 4 KB", "", 0.10, 0.40,
                 predicted, "interrupt of athlon-1400, guessed",
                 [](Laboratory& laboratory) { return lost_by_poor_locality(laboratory, bvia9); });
    for (const auto& [name, system] : {std::pair{"LANai 4", myvia4}, {"LANai 9", myvia9}})
        list.printed(std::string(name) + ": bandwidth that MyVIA loses by poor locality, 4 KB", "",
                     0, 0, predicted, "the host translates", [which = system](auto& laboratory) {
                         return lost_by_poor_locality(laboratory, which);
                     });
}

// ---- C: who should do the work ------------------------------------------------------------------

struct HostTime {
    const char* type;
    const char* part;
    Time SendBreakdown::*member;
    double microseconds;
    FigureRole role;
    std::string_view basis;
};

void add_host_times(List& list) {
    constexpr auto structure = &SendBreakdown::copy_structure;
    constexpr auto data = &SendBreakdown::copy_data;
    constexpr auto start = &SendBreakdown::start;
    constexpr auto wait = &SendBreakdown::wait;
    static constexpr std::array rows{
        HostTime{"User", "start", start, 1.787, fitted, "is a parameter"},
        HostTime{"User", "wait", wait, 44.693, fitted, "header and chunk of the study's firmware"},
        HostTime{"User:ST", "copy structure", structure, 1.693, fitted, "structure_bytes"},
        HostTime{"User:ST", "start", start, 1.550, fitted, "is a parameter"},
        HostTime{"User:ST", "wait", wait, 42.587, fitted, "transfer_latency and translate"},
        HostTime{"User:ST,DT", "copy structure", structure, 1.697, fitted, "as for User:ST"},
        HostTime{"User:ST,DT", "copy data", data, 108.437, fitted, "pio_per_byte"},
        HostTime{"User:ST,DT", "start", start, 1.403, fitted, "is a parameter"},
        HostTime{"User:ST,DT", "wait", wait, 38.150, predicted,
                 "4 bytes give the constant, the memory's clock the slope"},
    };
    for (const HostTime& row : rows) {
        const bool user = std::string_view(row.type) == "User";
        list.printed(std::string(row.type) + " at 4096 bytes: " + row.part, "µs", row.microseconds,
                     user ? of_user : of_tables, row.role, row.basis,
                     [&row](Laboratory& laboratory) {
                         return in_microseconds(laboratory.send(row.type, page).*row.member);
                     })
            .headline = row.role == predicted;
    }
}

struct SendRate {
    const char* type;
    std::uint64_t bytes;
    double rate;
    FigureRole role;
    std::string_view basis;
};

void add_send_rates(List& list) {
    static constexpr std::array rows{
        SendRate{"cpu", 4, 0.414, fitted, "cpu_only"},
        SendRate{"User", 4, 0.340, predicted, "as short as 16 bytes"},
        SendRate{"User:ST,DT", 4, 0.355, fitted, "notice and completion"},
        SendRate{"cpu", 8, 0.762, predicted, "between two fitted points"},
        SendRate{"User", 8, 0.671, predicted, "as short as 16 bytes"},
        SendRate{"User:ST,DT", 8, 0.711, fitted, "pio_unit and send_unit"},
        SendRate{"cpu", 16, 1.324, predicted, "between two fitted points"},
        SendRate{"User", 16, 1.340, fitted, "start_transfer"},
        SendRate{"User:ST,DT", 16, 1.419, fitted, "pio_unit and send_unit"},
        SendRate{"cpu", 4096, 4.713, fitted, "cpu_only_word"},
        SendRate{"User", 4096, 89.661, fitted, "header and chunk"},
        SendRate{"User:ST,DT", 4096, 27.474, fitted, "mostly the copied data: pio_per_byte"},
    };
    for (const SendRate& row : rows) {
        const bool user = std::string_view(row.type) == "User";
        list.printed(
            std::string(row.type == std::string_view("cpu") ? "CPU only" : row.type) + ", " +
                std::to_string(row.bytes) + " bytes",
            "MB/s", row.rate, user ? of_user : of_tables, row.role, row.basis,
            [&row](Laboratory& laboratory) { return laboratory.send_rate(row.type, row.bytes); });
    }
}

void add_study_statements(List& list) {
    list.printed("User:ST,DT: time for a byte sent, besides its copy (derived from the tables)",
                 "ns", 7.43, of_predictions, predicted, "one access of 4 bytes a clock",
                 [](Laboratory& laboratory) {
                     const Time longer = laboratory.send("User:ST,DT", page).wait -
                                         laboratory.send("User:ST,DT", 16).wait;
                     // The first 32 bytes take the same time, however few are sent.
                     return static_cast<double>(longer) / static_cast<double>(nanosecond) /
                            static_cast<double>(page - 32);
                 });
    list.order("User:ST,DT / User, least of 4 to 64 bytes: wins or ties", 0.95, no_end, predicted,
               "copying against two DMAs", [](Laboratory& laboratory) {
                   Extremes ratios;
                   for (const std::uint64_t bytes : short_sizes)
                       ratios.add(laboratory.send_rate("User:ST,DT", bytes) /
                                  laboratory.send_rate("User", bytes));
                   return ratios.least;
               });
    list.order("User:ST,DT / User at 128 bytes: no longer", 0, 1, predicted,
               "copying against two DMAs", [](Laboratory& laboratory) {
                   return laboratory.send_rate("User:ST,DT", 128) /
                          laboratory.send_rate("User", 128);
               });
    list.about("User / User:ST,DT at 10 KB", "", 4, predicted, "slopes of copying and of DMA",
               [](Laboratory& laboratory) {
                   return laboratory.send_rate("User", 10240) /
                          laboratory.send_rate("User:ST,DT", 10240);
               })
        .headline = true;
    for (const char* type :
         {"User", "User:ST", "User:ST,DT", "Syscall", "Syscall:ST", "Syscall:ST,DT"})
        list.between(std::string(type) + ": net bandwidth of 1 MB", "MB/s", 130, 133.4, predicted,
                     "each DMA engine one access a clock",
                     [type](Laboratory& laboratory) { return net_rate(laboratory, type); });
    for (const char* way : {"", ":ST", ":ST,DT"}) {
        const std::string user = std::string("User") + way;
        const std::string system_call = std::string("Syscall") + way;
        list.order(user + " / " + system_call + " at 4096 bytes: slightly ahead", 1, 1.15,
                   predicted, "system_call of p2-300, guessed",
                   [=](Laboratory& laboratory) {
                       return laboratory.send_rate(user, page) /
                              laboratory.send_rate(system_call, page);
                   })
            .headline = way[0] == '\0';
        list.order(user + " / " + system_call + ", least of 4 bytes to 64 KB: ahead", 1, no_end,
                   predicted, "system_call of p2-300, guessed", [=](Laboratory& laboratory) {
                       Extremes ratios;
                       for (std::uint64_t bytes = 4; bytes <= 65536; bytes *= 2)
                           ratios.add(laboratory.send_rate(user, bytes) /
                                      laboratory.send_rate(system_call, bytes));
                       return ratios.least;
                   });
    }
    list.order("Syscall:ST,DT at 4096 bytes: the data's copy / the greatest other part: dominates",
               1, no_end, predicted, "pio_per_byte", [](Laboratory& laboratory) {
                   const SendBreakdown sent = laboratory.send("Syscall:ST,DT", page);
                   const Time other = std::max({sent.copy_structure, sent.start, sent.wait});
                   return in_microseconds(sent.copy_data) / in_microseconds(other);
               });
    for (const char* way : {"", ":ST"}) {
        const std::string user = std::string("User") + way;
        const std::string system_call = std::string("Syscall") + way;
        list.order(system_call +
                       " at 4096 bytes: the kernel / the greatest other part before the host "
                       "waits: dominates",
                   1, no_end, predicted, "system_call of p2-300, guessed",
                   [=](Laboratory& laboratory) {
                       const SendBreakdown sent = laboratory.send(system_call, page);
                       const Time start = laboratory.send(user, page).start;
                       return in_microseconds(sent.start - start) /
                              in_microseconds(std::max(sent.copy_structure, start));
                   });
    }
}

struct RhinetRow {
    const char* stage;
    double microseconds;
};

void add_rhinet(List& list) {
    static constexpr std::array rows{
        RhinetRow{"read SAR", 0.452},       RhinetRow{"set up DMA", 1.048},
        RhinetRow{"DMA delay", 1.062},      RhinetRow{"read structure", 0.690},
        RhinetRow{"delay", 0.200},          RhinetRow{"read data", 95.940},
        RhinetRow{"set up FIFO", 0.464},    RhinetRow{"write end of packet", 0.680},
        RhinetRow{"set up sending", 1.216}, RhinetRow{"send header", 0.528},
        RhinetRow{"send delay", 0.216},
    };
    for (const RhinetRow& row : rows)
        list.printed(
            std::string("RHiNET-1 at 4096 bytes: ") + row.stage, "µs", row.microseconds, of_tables,
            fitted,
            std::string_view(row.stage) == "read data" ? "whole clocks a burst" : "is a parameter",
            [&row](Laboratory& laboratory) {
                return stage_time(laboratory.rhinet(16, Bursts::Short, page), row.stage);
            });
    list.printed("RHiNET-1 at 4096 bytes: delay of the data's DMA", "µs", 0.936, of_tables, fitted,
                 "is a parameter", [](Laboratory& laboratory) {
                     const RhinetSend sent = laboratory.rhinet(16, Bursts::Short, page);
                     // The second of that name.
                     const auto last = std::find_if(
                         sent.stages.rbegin(), sent.stages.rend(),
                         [](const RhinetStage& stage) { return stage.name == "DMA delay"; });
                     return in_microseconds(last->end - last->begin);
                 });
    list.printed("RHiNET-1 at 4096 bytes: total", "µs", 102.056, of_tables, fitted,
                 "which stages overlap was read off it", [](Laboratory& laboratory) {
                     return in_microseconds(laboratory.rhinet(16, Bursts::Short, page).total);
                 });
    list.printed("RHiNET-1: from host memory, 1 MB", "MB/s", 44, of_predictions, predicted,
                 "whole clocks a burst", [](Laboratory& laboratory) {
                     return static_cast<double>(much) /
                            in_microseconds(laboratory.rhinet(16, Bursts::Short, much).total);
                 });
    list.unprinted("RHiNET-1 as planned, 33 MHz and long bursts, 4096 bytes: total", "µs",
                   "logic scales with the clock, bus and memory do not",
                   [](Laboratory& laboratory) {
                       return in_microseconds(laboratory.rhinet(33, Bursts::Unbroken, page).total);
                   });
}

// ---- D: MNC -------------------------------------------------------------------------------------

void add_mnc(List& list) {
    list.printed(
        "bus, host to NIC", "MB/s", 315, of_tables, fitted, "fetch_overhead of xeon-700",
        [](Laboratory& laboratory) { return bus_rate(laboratory, "xeon-700", Toward::Nic); });
    list.printed(
        "bus, NIC to host", "MB/s", 372, of_tables, fitted, "store_overhead of xeon-700",
        [](Laboratory& laboratory) { return bus_rate(laboratory, "xeon-700", Toward::Host); });
    list.printed("one link, point to point", "MB/s", 202, of_tables, fitted, "send_gap of xeon-700",
                 [](Laboratory& laboratory) { return laboratory.window(gm_of_mnc, long_message); })
        .headline = true;
    for (const std::size_t flow : {0U, 1U})
        list.about("two flows the same way, flow " + std::to_string(flow + 1) +
                       ": share of a single one's rate",
                   "", 0.5, predicted, "they take turns at the NIC",
                   [flow](Laboratory& laboratory) {
                       return laboratory.flows(gm_of_mnc, Flows::Same, long_message)[flow] /
                              laboratory.window(gm_of_mnc, long_message);
                   });
    list.order("two flows opposite ways: share of a single one's rate: less than all of it", 0.5,
               0.99, predicted, "one bus, one DMA engine",
               [](Laboratory& laboratory) {
                   return laboratory.flows(gm_of_mnc, Flows::Opposite, long_message)[0] /
                          laboratory.window(gm_of_mnc, long_message);
               })
        .headline = true;
    list.order("two flows opposite ways: rate over the bound that 315 and 372 MB/s give", 0, 1,
               predicted, "one bus, one DMA engine", [](Laboratory& laboratory) {
                   const auto rates = laboratory.flows(gm_of_mnc, Flows::Opposite, long_message);
                   return std::max(rates[0], rates[1]) * (1 / 315.0 + 1 / 372.0);
               });
    list.order("two links / one link, dynamic policy: more, but less than twice", 1.01, 1.99,
               predicted, "the bus, and asking for free links",
               [](Laboratory& laboratory) {
                   return laboratory.mnc_window(gm_of_mnc, 2, LinkPolicy::Dynamic, long_message) /
                          laboratory.mnc_window(gm_of_mnc, 1, LinkPolicy::Dynamic, long_message);
               })
        .headline = true;
    list.unprinted("two links, dynamic policy", "MB/s", "the bus", [](Laboratory& laboratory) {
        return laboratory.mnc_window(gm_of_mnc, 2, LinkPolicy::Dynamic, long_message);
    });
}

// ---- Myricom's figures for GM -------------------------------------------------------------------

void add_gm(List& list) {
    list.printed("GM 1.6.4, 133 MHz: one-way time", "µs", 8.5, of_tables, fitted,
                 "descriptor, receive_packet, receive_descriptor of gm-lanai9",
                 [](Laboratory& laboratory) { return laboratory.pingpong(gm_of_myricom, 4); })
        .headline = true;
    list.printed(
        "GM 1.6.4, 133 MHz: one way", "MB/s", 240, of_tables, fitted, "send_gap of xeon-2000",
        [](Laboratory& laboratory) { return laboratory.window(gm_of_myricom, long_message); });
    list.printed("GM 1.6.4, 133 MHz: both ways together", "MB/s", 340, of_tables, fitted,
                 "fetch_overhead and store_overhead of xeon-2000", [](Laboratory& laboratory) {
                     const auto rates =
                         laboratory.flows(gm_of_myricom, Flows::Opposite, long_message);
                     return rates[0] + rates[1];
                 });
    list.about("GM 1.6.4, 133 MHz: size of half the rate", "bytes", 1300, predicted,
               "costs of GM fitted on its latency",
               [](Laboratory& laboratory) {
                   const double half = laboratory.window(gm_of_myricom, long_message) / 2;
                   return static_cast<double>(first_size(4, 16384, [&](std::uint64_t bytes) {
                       return laboratory.window(gm_of_myricom, bytes) >= half;
                   }));
               })
        .headline = true;
    list.printed("GM 1.6.4: host's time for a message, send and receive", "µs", 0.54, of_tables,
                 fitted, "host_post of gm-lanai9", [](Laboratory& laboratory) {
                     const ViaSystem system = laboratory.system(gm_of_myricom);
                     return system.firmware.host_post +
                            system.machine.pio_per_byte * system.firmware.host_writes / 1000 +
                            system.machine.poll;
                 });
    list.unprinted("GM, 200 MHz: one-way time", "µs", "every cost is cycles of the clock",
                   [](Laboratory& laboratory) {
                       return laboratory.pingpong({"xeon-2000", "lanai9", "gm", 200}, 4);
                   })
        .headline = true;
    list.unprinted("GM, 200 MHz: one way", "MB/s", "send_gap of xeon-2000",
                   [](Laboratory& laboratory) {
                       return laboratory.window({"xeon-2000", "lanai9", "gm", 200}, long_message);
                   });
}

}  // namespace

const std::vector<Figure>& paper_figures() {
    static const std::vector<Figure> figures = [] {
        std::vector<Figure> all;
        List myvia(all, "A");
        add_lanai4(myvia);
        add_lanai9(myvia);
        add_locality(myvia);
        List study(all, "C");
        add_host_times(study);
        add_send_rates(study);
        add_study_statements(study);
        add_rhinet(study);
        List mnc(all, "D");
        add_mnc(mnc);
        List gm(all, "GM");
        add_gm(gm);
        return all;
    }();
    return figures;
}

const std::vector<UnmodelledFigure>& unmodelled_figures() {
    static const std::vector<UnmodelledFigure> figures{
        {"A", "M-VIA on Intel Pro/100", "11.6 MB/s, 22 µs", "Ethernet cards are not modelled"},
        {"A", "M-VIA on GNIC-II", "59.7 MB/s", "Ethernet cards are not modelled"},
        {"A", "message sizes in LANs", "over 80 % of 128 to 4096 bytes, 8 % above 8192",
         "a property of programs, not of NICs"},
        {"A", "refill interrupt of the small ring on LANai 9", "practically never",
         "the small ring is not part of these experiments"},
        {"A", "longest DMA of MyVIA", "120 KB", "goes into the model as a parameter"},
        {"A", "longest DMA of BVIA", "64 KB",
         "BVIA moves a page at a time here, as its translation asks for"},
        {"B", "MVICH on TH-net VIA", "83 MB/s", "neither the NIC nor the MPI above it is modelled"},
        {"C", "LANai 4.1: link and memory", "160 and 264 MB/s", "go into the model as parameters"},
        {"D", "a link's latency", "about 3 µs",
         "it is not said from where to where; Myricom gives 0.5 µs for the hardware"},
        {"GM", "another host's bursts of 256 bytes", "147 MB/s",
         "this host is not one of the machines"},
        {"GM", "BIP, VMMC, GigaNet cLAN, M-VIA on gigabit Ethernet", "5 to 14.2 µs, 57 to 125 MB/s",
         "other systems, given for orientation"},
    };
    return figures;
}

}  // namespace via::sim
