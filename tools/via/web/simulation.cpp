// SPDX-License-Identifier: BSD-3-Clause
#include "web/simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "reproduction_report.hpp"
#include "sim/experiment/figures.hpp"
#include "sim/experiment/via_experiment.hpp"
#include "sim/firmware/rhinet.hpp"
#include "sim/firmware/send_study.hpp"
#include "sim/parameters/catalogue.hpp"
#include "timeline.hpp"

namespace via::tool::web {
namespace {

using base::Code;
using base::Error;
using base::Result;
using nlohmann::json;

constexpr auto patience = std::chrono::seconds(20);
/// Enough for a stream to be in its stride, and for the page to be drawn at once.
constexpr std::uint64_t stream_messages = 400;
constexpr std::uint64_t stream_bytes = 32U << 20;
constexpr std::uint64_t round_trips = 10;
constexpr std::size_t most_answers = 200;

// ---- what there is ------------------------------------------------------------------------------

enum class Kind : std::uint8_t { Stream, Study, Rhinet };

struct Firmware {
    const char* name;
    const char* title;
    const char* meaning;
    Kind kind = Kind::Stream;
    double rhinet_clock = 0;
    sim::Bursts bursts = sim::Bursts::Short;
};

constexpr Firmware myvia{"myvia", "MyVIA",
                         "The host translates addresses and writes finished descriptors into the "
                         "NIC; stages that need different parts of the NIC overlap."};
constexpr Firmware bvia{"bvia", "Berkeley VIA",
                        "The NIC is told of a descriptor by a doorbell, fetches it, translates "
                        "addresses itself, and moves data page by page."};
constexpr Firmware gm{"gm", "GM",
                      "Myricom's own firmware: four machines that share the NIC's processor, "
                      "packets of 4 KB."};

constexpr std::array<Firmware, 9> on_lanai4{
    {myvia,
     bvia,
     {"User", "Study: User", "One send: the program gives the NIC an address; the NIC fetches all.",
      Kind::Study},
     {"User:ST", "Study: User:ST", "One send: the program writes the instruction into the NIC.",
      Kind::Study},
     {"User:ST,DT", "Study: User:ST,DT",
      "One send: the program writes instruction and data into the NIC.", Kind::Study},
     {"Syscall", "Study: Syscall", "As User, through a system call.", Kind::Study},
     {"Syscall:ST", "Study: Syscall:ST", "As User:ST, through a system call.", Kind::Study},
     {"Syscall:ST,DT", "Study: Syscall:ST,DT", "As User:ST,DT, through a system call.",
      Kind::Study},
     {"cpu", "Study: CPU only", "One send without DMA: the NIC's processor moves every word.",
      Kind::Study}}};
constexpr std::array<Firmware, 3> on_lanai9{{myvia, bvia, gm}};
constexpr std::array<Firmware, 3> on_rhinet1{
    {{"16MHz", "RHiNET-1, 16 MHz", "Hardware does all; it reads memory in bursts of 16 bytes.",
      Kind::Rhinet, 16, sim::Bursts::Short},
     {"33MHz", "RHiNET-1, 33 MHz", "The same with a faster clock.", Kind::Rhinet, 33,
      sim::Bursts::Short},
     {"33MHz-long", "RHiNET-1, 33 MHz, long bursts",
      "As it was planned: faster, and memory is read without breaks.", Kind::Rhinet, 33,
      sim::Bursts::Unbroken}}};

struct NicChoice {
    const char* name;
    const char* paper_machine;
    std::span<const Firmware> firmware;
};
constexpr std::array<NicChoice, 3> nics{{{"lanai9", "athlon-1400", on_lanai9},
                                         {"lanai4", "p3-733", on_lanai4},
                                         {"rhinet1", "p2-300", on_rhinet1}}};

/// What a catalogued file says of itself: the words before its first empty line.
std::string first_words(std::string_view text) {
    std::string words;
    while (text.starts_with('#')) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(1, end - 1);
        while (line.starts_with(' '))
            line.remove_prefix(1);
        (words += words.empty() ? "" : " ") += line;
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return words;
}

std::vector<std::string> machine_names() {
    std::vector<std::string> names;
    for (const sim::CataloguedFile& file : sim::catalogue())
        if (file.name.ends_with(".machine"))
            names.emplace_back(file.name.substr(0, file.name.size() - 8));
    return names;
}

std::string title_of(std::string_view file_name) {
    for (const sim::CataloguedFile& file : sim::catalogue())
        if (file.name == file_name) return first_words(file.text);
    return {};
}

template <class Range, class Name>
std::string list_names(const Range& range, const Name& name) {
    std::string text;
    for (const auto& each : range)
        (text += text.empty() ? "" : ", ") += name(each);
    return text;
}

// ---- what is asked ------------------------------------------------------------------------------

struct Choice {
    std::string machine;
    const NicChoice* nic = nullptr;
    const Firmware* firmware = nullptr;
    std::optional<double> clock;
    std::uint64_t bytes = 4096;
    std::uint64_t messages = 4;
};

/// For a sentence: short, and nothing that a terminal or a page could take amiss.
std::string in_quotes(std::string_view text) {
    constexpr std::size_t most = 40;
    std::string result;
    for (const char character : text.substr(0, most))
        result += character >= 0x20 && character < 0x7F ? character : '?';
    return "'" + result + (text.size() > most ? "...'" : "'");
}

Result<std::uint64_t> whole_number(std::string_view name, std::string_view text,
                                   std::uint64_t most) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > most)
        return {Code::InvalidArgument, fmt::format("{} is {}; it must be a whole number from 1 to "
                                                   "{}.",
                                                   name, in_quotes(text), most)};
    return value;
}

Result<double> clock_of(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !(value >= 1) ||
        !(value <= 1000))
        return {Code::InvalidArgument,
                fmt::format("clock is {}; it must be from 1 to 1000 MHz.", in_quotes(text))};
    return value;
}

/// Names first: what the others mean depends on them.
Result<Choice> understand(const Query& query, bool with_sizes) {
    const auto given = [&](const char* name) -> std::optional<std::string> {
        const auto found = query.find(name);
        if (found == query.end() || found->second.empty()) return std::nullopt;
        return found->second;
    };
    for (const auto& [name, value] : query) {
        const bool known = name == "machine" || name == "nic" || name == "firmware" ||
                           name == "clock" ||
                           (with_sizes && (name == "bytes" || name == "messages"));
        if (!known)
            return {Code::InvalidArgument, in_quotes(name) + " is nothing that can be chosen."};
        if (query.count(name) > 1) return {Code::InvalidArgument, name + " is given twice."};
    }
    Choice choice;
    const std::string nic = given("nic").value_or(nics.front().name);
    choice.nic = std::find_if(nics.begin(), nics.end(),
                              [&](const NicChoice& each) { return each.name == nic; });
    if (choice.nic == nics.end())
        return {Code::InvalidArgument,
                fmt::format("There is no NIC {}; there are {}.", in_quotes(nic),
                            list_names(nics, [](const NicChoice& each) { return each.name; }))};
    choice.machine = given("machine").value_or(choice.nic->paper_machine);
    const std::vector<std::string> machines = machine_names();
    if (std::find(machines.begin(), machines.end(), choice.machine) == machines.end())
        return {Code::InvalidArgument,
                fmt::format("There is no machine {}; there are {}.", in_quotes(choice.machine),
                            list_names(machines, [](const std::string& each) { return each; }))};
    const auto& all = choice.nic->firmware;
    const std::string firmware = given("firmware").value_or(all.front().name);
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const Firmware& each) { return each.name == firmware; });
    if (found == all.end())
        return {Code::InvalidArgument,
                fmt::format("{} has no firmware {}; it has {}.", nic, in_quotes(firmware),
                            list_names(all, [](const Firmware& each) { return each.name; }))};
    choice.firmware = &*found;
    if (const auto text = given("clock")) {
        if (choice.firmware->kind != Kind::Stream)
            return {Code::InvalidArgument, "The clock can be chosen for streams only."};
        const auto clock = clock_of(*text);
        if (!clock) return clock.error();
        choice.clock = clock.value();
    }
    if (const auto text = given("bytes")) {
        const auto bytes = whole_number("bytes", *text, Simulator::most_bytes);
        if (!bytes) return bytes.error();
        choice.bytes = bytes.value();
    }
    if (const auto text = given("messages")) {
        const auto messages = whole_number("messages", *text, Simulator::most_messages);
        if (!messages) return messages.error();
        choice.messages = messages.value();
    }
    // A send of the study and of RHiNET is one.
    if (choice.firmware->kind != Kind::Stream) choice.messages = 1;
    return choice;
}

json about(const Choice& choice) {
    json object{{"machine", choice.machine},
                {"nic", choice.nic->name},
                {"firmware", choice.firmware->name},
                {"title", choice.firmware->title},
                {"meaning", choice.firmware->meaning}};
    if (choice.clock) object["clock_mhz"] = *choice.clock;
    return object;
}

// ---- the simulations ----------------------------------------------------------------------------

Result<sim::ViaSystem> system_of(const Choice& choice, const Firmware& firmware) {
    sim::SystemFiles files;
    files.machine = choice.machine;
    files.nic = choice.nic->name;
    files.firmware = firmware.name;
    files.clock = choice.clock;
    return sim::load_system(files);
}

Result<sim::SendBreakdown> send_of(const Choice& choice, const Firmware& firmware,
                                   std::uint64_t bytes, sim::Trace* trace) {
    auto machine = sim::load_parameters(choice.machine, "machine", sim::machine_parameters());
    if (!machine) return std::move(machine).error();
    auto nic = sim::load_parameters(choice.nic->name, "nic", sim::nic_parameters());
    if (!nic) return std::move(nic).error();
    auto study = sim::load_parameters("study", "firmware", sim::study_firmware_parameters());
    if (!study) return std::move(study).error();
    const auto type = sim::send_type(firmware.name);
    if (!type) return {Code::System, std::string("there is no send type ") + firmware.name};
    return sim::simulate_send(machine.value(), nic.value(), study.value(), *type, bytes, trace);
}

Result<sim::RhinetSend> rhinet_of(const Choice& choice, const Firmware& firmware,
                                  std::uint64_t bytes) {
    auto machine = sim::load_parameters(choice.machine, "machine", sim::machine_parameters());
    if (!machine) return std::move(machine).error();
    auto nic = sim::load_parameters(choice.nic->name, "nic", sim::rhinet_parameters());
    if (!nic) return std::move(nic).error();
    nic.value().clock = firmware.rhinet_clock;
    return sim::simulate_rhinet_send(machine.value(), nic.value(), firmware.bursts, bytes);
}

double rate(std::uint64_t bytes, sim::Time time) {
    return static_cast<double>(bytes) / sim::in_microseconds(time);
}

/// What can be drawn; a question that can not is refused before more is simulated for it.
Result<json> drawable(const sim::Trace& trace) {
    const Timeline timeline = timeline_of(trace);
    if (timeline.bars.size() > Simulator::most_stages)
        return {Code::InvalidArgument,
                fmt::format("That would draw {} bars; at most {} can be told apart. Choose fewer "
                            "messages or fewer bytes.",
                            timeline.bars.size(), Simulator::most_stages)};
    return timeline_json(timeline);
}

Result<json> run_stream(const Choice& choice) {
    const auto system = system_of(choice, *choice.firmware);
    if (!system) return system.error();
    sim::Trace trace;
    const auto streamed =
        sim::simulate_window(system.value(), choice.bytes, choice.messages, &trace);
    if (!streamed) return streamed.error();
    auto result = drawable(trace);
    if (!result) return result;
    const auto one_way = sim::simulate_pingpong(system.value(), choice.bytes, round_trips);
    if (!one_way) return one_way.error();
    result.value()["mb_per_s"] = streamed.value();
    result.value()["one_way_us"] = one_way.value();
    return result;
}

Result<json> run_study(const Choice& choice) {
    sim::Trace trace;
    const auto sent = send_of(choice, *choice.firmware, choice.bytes, &trace);
    if (!sent) return sent.error();
    const sim::SendBreakdown& parts = sent.value();
    auto result = drawable(trace);
    if (!result) return result;
    result.value()["mb_per_s"] = rate(choice.bytes, parts.total());
    result.value()["host"] = {{"copy_structure_us", sim::in_microseconds(parts.copy_structure)},
                              {"copy_data_us", sim::in_microseconds(parts.copy_data)},
                              {"start_us", sim::in_microseconds(parts.start)},
                              {"wait_us", sim::in_microseconds(parts.wait)}};
    return result;
}

/// Its stages are known without resources: those that the message waits for, and the others.
Result<json> run_rhinet(const Choice& choice) {
    const auto sent = rhinet_of(choice, *choice.firmware, choice.bytes);
    if (!sent) return sent.error();
    Timeline timeline;
    timeline.lanes = {{"on the message's path", "host a"}, {"beside it", "host a"}};
    for (const sim::RhinetStage& stage : sent.value().stages)
        timeline.bars.push_back(
            {stage.on_the_path ? 0U : 1U, stage.name, 1, stage.begin, stage.end});
    json result = timeline_json(timeline);
    result["mb_per_s"] = rate(choice.bytes, sent.value().total);
    return result;
}

// ---- curves -------------------------------------------------------------------------------------

/// A number that a paper prints, as a point of a curve. The figures have the number.
struct PaperPoint {
    const char* machine;
    const char* nic;
    const char* firmware;
    double clock;  ///< 0: as the NIC's file says
    const char* chart;
    double bytes;
    const char* figure;
};
constexpr std::array<PaperPoint, 23> paper_points{{
    {"p3-733", "lanai4", "myvia", 0, "bandwidth", 65536, "LANai 4: peak bandwidth of MyVIA"},
    {"athlon-1400", "lanai9", "myvia", 0, "bandwidth", 4096,
     "LANai 9: bandwidth of MyVIA at 4 KB (printed 250, over 96 % of the link)"},
    {"athlon-1400", "lanai9", "myvia", 0, "bandwidth", 32768,
     "LANai 9: bandwidth of MyVIA at 32 KB"},
    {"athlon-1400", "lanai9", "bvia", 0, "bandwidth", 32768, "LANai 9: bandwidth of BVIA at 32 KB"},
    {"athlon-1400", "lanai9", "gm", 0, "bandwidth", 32768, "LANai 9: bandwidth of GM at 32 KB"},
    {"athlon-1400", "lanai9", "myvia", 0, "latency", 4, "LANai 9: least one-way time of MyVIA"},
    {"xeon-700", "lanai9", "gm", 0, "bandwidth", 65536, "one link, point to point"},
    {"xeon-2000", "lanai9", "gm", 133, "bandwidth", 65536, "GM 1.6.4, 133 MHz: one way"},
    {"xeon-2000", "lanai9", "gm", 133, "latency", 4, "GM 1.6.4, 133 MHz: one-way time"},
    {"p2-300", "lanai4", "cpu", 0, "bandwidth", 4, "CPU only, 4 bytes"},
    {"p2-300", "lanai4", "cpu", 0, "bandwidth", 8, "CPU only, 8 bytes"},
    {"p2-300", "lanai4", "cpu", 0, "bandwidth", 16, "CPU only, 16 bytes"},
    {"p2-300", "lanai4", "cpu", 0, "bandwidth", 4096, "CPU only, 4096 bytes"},
    {"p2-300", "lanai4", "User", 0, "bandwidth", 4, "User, 4 bytes"},
    {"p2-300", "lanai4", "User", 0, "bandwidth", 8, "User, 8 bytes"},
    {"p2-300", "lanai4", "User", 0, "bandwidth", 16, "User, 16 bytes"},
    {"p2-300", "lanai4", "User", 0, "bandwidth", 4096, "User, 4096 bytes"},
    {"p2-300", "lanai4", "User:ST,DT", 0, "bandwidth", 4, "User:ST,DT, 4 bytes"},
    {"p2-300", "lanai4", "User:ST,DT", 0, "bandwidth", 8, "User:ST,DT, 8 bytes"},
    {"p2-300", "lanai4", "User:ST,DT", 0, "bandwidth", 16, "User:ST,DT, 16 bytes"},
    {"p2-300", "lanai4", "User:ST,DT", 0, "bandwidth", 4096, "User:ST,DT, 4096 bytes"},
    {"p2-300", "rhinet1", "16MHz", 0, "latency", 4096, "RHiNET-1 at 4096 bytes: total"},
    {"p2-300", "rhinet1", "16MHz", 0, "bandwidth", 1048576, "RHiNET-1: from host memory, 1 MB"},
}};

/// Two ends that a paper gives for a size.
constexpr std::array<PaperPoint, 1> paper_bands{
    {{"p3-733", "lanai4", "", 0, "bandwidth", 0, "LANai 4: size where MyVIA overtakes BVIA"}}};

const sim::Figure* figure_named(std::string_view what) {
    for (const sim::Figure& figure : sim::paper_figures())
        if (figure.what == what) return &figure;
    return nullptr;
}

bool is_of(const PaperPoint& point, const Choice& choice, std::string_view chart) {
    return choice.machine == point.machine && choice.nic->name == std::string_view(point.nic) &&
           chart == point.chart && choice.clock.value_or(0) == point.clock;
}

json paper_side(const Choice& choice, std::string_view chart) {
    auto points = json::array();
    for (const PaperPoint& point : paper_points) {
        if (!is_of(point, choice, chart)) continue;
        const sim::Figure* const figure = figure_named(point.figure);
        const auto firmware = std::find_if(
            choice.nic->firmware.begin(), choice.nic->firmware.end(),
            [&](const Firmware& each) { return each.name == std::string_view(point.firmware); });
        if (figure == nullptr || firmware == choice.nic->firmware.end() ||
            firmware->kind != choice.firmware->kind)
            continue;
        points.push_back({{"firmware", firmware->name},
                          {"title", firmware->title},
                          {"bytes", point.bytes},
                          {"value", figure->low},
                          {"text", paper_value(*figure)},
                          {"kind", sim::kind_name(figure->kind)},
                          {"paper", figure->paper},
                          {"figure", figure->what}});
    }
    return points;
}

json bands_of(const Choice& choice, std::string_view chart) {
    auto bands = json::array();
    for (const PaperPoint& band : paper_bands) {
        const sim::Figure* const figure = figure_named(band.figure);
        if (choice.firmware->kind == Kind::Stream && is_of(band, choice, chart) &&
            figure != nullptr)
            bands.push_back({{"from", figure->low},
                             {"to", figure->high},
                             {"paper", figure->paper},
                             {"figure", figure->what}});
    }
    return bands;
}

/// The chosen firmware beside the others of its kind, over doubling sizes.
using Ask = std::function<Result<double>(const Firmware&, std::uint64_t)>;
Result<json> chart_of(const Choice& choice, const char* name, const char* title, const char* unit,
                      std::uint64_t most, const Ask& ask) {
    auto curves = json::array();
    for (const Firmware& firmware : choice.nic->firmware) {
        if (firmware.kind != choice.firmware->kind) continue;
        auto points = json::array();
        for (std::uint64_t bytes = 4; bytes <= most; bytes *= 2) {
            const auto value = ask(firmware, bytes);
            if (!value) return value.error();
            points.push_back({bytes, value.value()});
        }
        curves.push_back(
            {{"firmware", firmware.name}, {"title", firmware.title}, {"points", points}});
    }
    return json{{"chart", name},
                {"title", title},
                {"unit", unit},
                {"curves", std::move(curves)},
                {"paper", paper_side(choice, name)},
                {"bands", bands_of(choice, name)}};
}

Result<json> charts_of(const Choice& choice) {
    constexpr std::uint64_t most_bandwidth = 65536;
    constexpr std::uint64_t most_latency = 4096;
    auto charts = json::array();
    const auto add = [&](Result<json> chart) -> std::optional<Error> {
        if (!chart) return chart.error();
        charts.push_back(std::move(chart).value());
        return std::nullopt;
    };
    std::optional<Error> failed;
    switch (choice.firmware->kind) {
        case Kind::Stream: {
            const auto stream = [&](const Firmware& firmware, std::uint64_t bytes) {
                const auto system = system_of(choice, firmware);
                if (!system) return Result<double>(system.error());
                const auto messages =
                    std::clamp<std::uint64_t>(stream_bytes / bytes, 20, stream_messages);
                return sim::simulate_window(system.value(), bytes, messages);
            };
            const auto there = [&](const Firmware& firmware, std::uint64_t bytes) {
                const auto system = system_of(choice, firmware);
                if (!system) return Result<double>(system.error());
                return sim::simulate_pingpong(system.value(), bytes, round_trips);
            };
            failed = add(chart_of(choice, "bandwidth", "Bandwidth of a stream", "MB/s",
                                  most_bandwidth, stream));
            if (!failed)
                failed =
                    add(chart_of(choice, "latency", "One-way time", "µs", most_latency, there));
            break;
        }
        case Kind::Study:
            failed =
                add(chart_of(choice, "bandwidth", "Bandwidth of one send", "MB/s", most_bandwidth,
                             [&](const Firmware& firmware, std::uint64_t bytes) {
                                 const auto sent = send_of(choice, firmware, bytes, nullptr);
                                 if (!sent) return Result<double>(sent.error());
                                 return Result<double>(rate(bytes, sent.value().total()));
                             }));
            break;
        case Kind::Rhinet: {
            const auto bandwidth = [&](const Firmware& firmware, std::uint64_t bytes) {
                const auto sent = rhinet_of(choice, firmware, bytes);
                if (!sent) return Result<double>(sent.error());
                return Result<double>(rate(bytes, sent.value().total));
            };
            const auto time = [&](const Firmware& firmware, std::uint64_t bytes) {
                const auto sent = rhinet_of(choice, firmware, bytes);
                if (!sent) return Result<double>(sent.error());
                return Result<double>(sim::in_microseconds(sent.value().total));
            };
            failed = add(chart_of(choice, "bandwidth", "Bandwidth of one send", "MB/s",
                                  Simulator::most_bytes, bandwidth));
            if (!failed)
                failed =
                    add(chart_of(choice, "latency", "Time of one send", "µs", most_latency, time));
            break;
        }
    }
    if (failed) return *failed;
    return charts;
}

Error busy() {
    return {Code::Timeout, "Other simulations are running; please try again in a moment."};
}

}  // namespace

json Simulator::catalogue() const {
    auto machines = json::array();
    for (const std::string& name : machine_names())
        machines.push_back({{"name", name}, {"title", title_of(name + ".machine")}});
    auto choices = json::array();
    for (const NicChoice& nic : nics) {
        auto all = json::array();
        for (const Firmware& firmware : nic.firmware)
            all.push_back(
                {{"name", firmware.name},
                 {"title", firmware.title},
                 {"meaning", firmware.meaning},
                 {"stream", firmware.kind == Kind::Stream},
                 // The study had a machine of its own.
                 {"machine", firmware.kind == Kind::Study ? "p2-300" : nic.paper_machine}});
        choices.push_back({{"name", nic.name},
                           {"title", title_of(std::string(nic.name) + ".nic")},
                           {"firmware", std::move(all)}});
    }
    return {{"machines", std::move(machines)},
            {"nics", std::move(choices)},
            {"most_bytes", most_bytes},
            {"most_messages", most_messages}};
}

Result<json> Simulator::run(const Query& query) {
    const auto choice = understand(query, true);
    if (!choice) return choice.error();
    const std::unique_lock turn(turn_, patience);
    if (!turn.owns_lock()) return busy();
    Result<json> result = choice.value().firmware->kind == Kind::Stream ? run_stream(choice.value())
                          : choice.value().firmware->kind == Kind::Study
                              ? run_study(choice.value())
                              : run_rhinet(choice.value());
    if (!result) return result;
    json& report = result.value();
    report.update(about(choice.value()));
    report["bytes"] = choice.value().bytes;
    report["messages"] = choice.value().messages;
    return result;
}

Result<json> Simulator::curves(const Query& query) {
    const auto choice = understand(query, false);
    if (!choice) return choice.error();
    const std::unique_lock turn(turn_, patience);
    if (!turn.owns_lock()) return busy();
    // The curves are of all firmware of the kind, whichever of them is the chosen one.
    const std::string question = fmt::format(
        "{} {} {} {}", choice.value().machine, choice.value().nic->name,
        static_cast<int>(choice.value().firmware->kind), choice.value().clock.value_or(0));
    auto found = answered_.find(question);
    if (found == answered_.end()) {
        auto charts = charts_of(choice.value());
        if (!charts) return charts;
        if (answered_.size() == most_answers) answered_.clear();
        found = answered_.emplace(question, std::move(charts).value()).first;
    }
    json report = about(choice.value());
    report["charts"] = found->second;
    return report;
}

}  // namespace via::tool::web
