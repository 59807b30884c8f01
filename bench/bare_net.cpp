// SPDX-License-Identifier: BSD-3-Clause
// What plain sockets do between two hosts of a lab on this machine, as a table.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "net/net_peers.hpp"
#include "net/net_probes.hpp"
#include "via/text_table.hpp"

namespace via::bench {

namespace {

using base::Result;

struct Line {
    std::string title;
    Probe probe;
    std::vector<double> values;
};

Result<void> measure(unsigned repetitions, unsigned mtu, const std::string& rate) {
    auto bits = lab::parse_rate(rate);
    if (!bits) return std::move(bits).error();
    auto cores = bare::two_cores();
    if (!cores) return std::move(cores).error();
    auto lab = lab::Lab::up({.name = {}, .links = 1, .mtu = mtu});
    if (!lab) return std::move(lab).error();
    if (auto set = lab.value().link(0).rate(bits.value()); !set) return set;
    NetPlace place;
    place.lab = &lab.value();
    place.cores = cores.value();

    std::vector<Line> lines;
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}}) {
        lines.push_back({show_bytes(bytes) + " latency", bare_udp_latency(place, bytes), {}});
        lines.push_back({show_bytes(bytes) + " latency", bare_tcp_latency(place, bytes), {}});
    }
    for (const std::size_t bytes : {std::size_t{4096}, std::size_t{65536}, std::size_t{1} << 20}) {
        for (const char* congestion : {"cubic", "bbr"}) {
            lines.push_back(
                {show_bytes(bytes) + " stream", bare_tcp_stream(place, bytes, 1, congestion), {}});
        }
    }
    lines.push_back({"4 KB stream, 16 a call", bare_tcp_stream(place, 4096, 16, "cubic"), {}});
    for (const bool spins : {false, true})
        lines.push_back({"64 B rate", bare_udp_rate(place, 64, spins), {}});
    // All in turn, so that what disturbs one disturbs all.
    for (unsigned repetition = 0; repetition < repetitions; ++repetition) {
        for (Line& line : lines) {
            auto value = line.probe.take();
            if (!value) return {value.error().code, line.title + ": " + value.error().sentence};
            line.values.push_back(value.value());
        }
    }
    tool::TextTable table;
    table.add_column("measure", tool::Align::Left);
    table.add_column("how", tool::Align::Left);
    for (const char* title : {"median", "least", "most"})
        table.add_column(title);
    for (const Line& line : lines) {
        const auto [least, most] = std::minmax_element(line.values.begin(), line.values.end());
        const Quantity quantity = line.probe.quantity;
        table.add_row({line.title, line.probe.label, show(bare::median(line.values), quantity),
                       show(*least, quantity), show(*most, quantity)});
    }
    fmt::print("{}", table.draw());
    return {};
}

}  // namespace

}  // namespace via::bench

int main(int argc, char** argv) {
    CLI::App app("Plain sockets between two hosts of a lab on this machine (root)", "bare_net");
    unsigned repetitions = 7;
    unsigned mtu = 1500;
    std::string rate = "off";
    app.add_option("--repetitions", repetitions, "How often to take each")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    app.add_option("--mtu", mtu, "Of the link")->capture_default_str();
    app.add_option("--rate", rate, "Of the link, such as 1gbit")->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    if (const auto done = via::bench::measure(repetitions, mtu, rate); !done) {
        fmt::print(stderr, "bare_net: {}\n", done.error().sentence);
        return 1;
    }
    return 0;
}
