// SPDX-License-Identifier: BSD-3-Clause
#include "sim/experiment/laboratory.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "sim/parameters/catalogue.hpp"

namespace via::sim {
namespace {

std::string text_of(const SystemName& name) {
    std::string text(name.machine);
    for (const std::string_view part : {name.nic, name.firmware})
        (text += " ") += part;
    text += " " + std::to_string(name.clock);
    return name.locality == Locality::Poor ? text + " poor" : text;
}

std::string file_name(std::string_view name, std::string_view kind) {
    return std::string(name) + "." + std::string(kind);
}

}  // namespace

template <class Structure>
void Laboratory::load(Shelf<Structure>& shelf, std::string_view name, std::string_view kind,
                      std::span<const Declaration<Structure>> declarations) {
    const std::string file = file_name(name, kind);
    shelf[file] = note(load_parameters(name, kind, declarations, &known_[file]));
}

template <class Structure>
void Laboratory::scale_in(Shelf<Structure>& shelf, std::string_view file,
                          std::string_view parameter, double factor,
                          std::span<const Declaration<Structure>> declarations) {
    const auto found = shelf.find(file);
    if (found == shelf.end()) return;
    for (const Declaration<Structure>& declared : declarations)
        if (declared.name == parameter) found->second.*declared.place *= factor;
}

template <class Structure>
const Structure& Laboratory::pick(const Shelf<Structure>& shelf, const std::string& file) {
    used_.insert(file);
    const auto found = shelf.find(file);
    // Who asks for a system names it in the source: a wrong name is a wrong program.
    if (found == shelf.end()) throw std::invalid_argument("the laboratory has no " + file);
    return found->second;
}

template <class T>
T Laboratory::note(base::Result<T> result) {
    if (result) return std::move(result).value();
    if (!failure_) failure_ = std::move(result).error();
    return T{};
}

Laboratory::Laboratory(Effort effort) : effort_(effort) {
    for (const CataloguedFile& file : catalogue()) {
        const auto dot = file.name.rfind('.');
        const std::string_view name = file.name.substr(0, dot);
        const std::string_view kind = file.name.substr(dot + 1);
        if (kind == "machine")
            load(machines_, name, kind, machine_parameters());
        else if (kind == "firmware" && name == "study")
            load(study_, name, kind, study_firmware_parameters());
        else if (kind == "firmware")
            load(firmware_, name, kind, via_firmware_parameters());
        else if (name.starts_with("rhinet"))
            load(rhinets_, name, kind, rhinet_parameters());
        else
            load(nics_, name, kind, nic_parameters());
    }
}

void Laboratory::scale(std::string_view file, std::string_view parameter, double factor) {
    scale_in(machines_, file, parameter, factor, machine_parameters());
    scale_in(nics_, file, parameter, factor, nic_parameters());
    scale_in(rhinets_, file, parameter, factor, rhinet_parameters());
    scale_in(study_, file, parameter, factor, study_firmware_parameters());
    scale_in(firmware_, file, parameter, factor, via_firmware_parameters());
    answers_.clear();
}

Laboratory::Answer Laboratory::remember(const std::string& question,
                                        const std::function<Answer()>& simulate) {
    if (failure_) return {};
    const auto found = answers_.find(question);
    if (found != answers_.end()) return found->second;
    return answers_[question] = simulate();
}

std::uint64_t Laboratory::messages_of(std::uint64_t bytes) const {
    constexpr std::uint64_t fewest = 20;
    return std::clamp(effort_.bytes / bytes, std::min(fewest, effort_.messages), effort_.messages);
}

const Machine& Laboratory::machine(std::string_view name) {
    return pick(machines_, file_name(name, "machine"));
}

const Nic& Laboratory::nic(std::string_view name) {
    return pick(nics_, file_name(name, "nic"));
}

SendBreakdown Laboratory::send(const Nic& nic, std::string_view type, std::uint64_t bytes) {
    const auto known = send_type(type);
    if (!known) throw std::invalid_argument("there is no send type " + std::string(type));
    return note(
        simulate_send(machine("p2-300"), nic, pick(study_, "study.firmware"), *known, bytes));
}

SendBreakdown Laboratory::send(std::string_view type, std::uint64_t bytes) {
    return send(nic("lanai4"), type, bytes);
}

double Laboratory::send_rate(std::string_view type, std::uint64_t bytes) {
    return send_rate(nic("lanai4"), type, bytes);
}

double Laboratory::send_rate(const Nic& nic, std::string_view type, std::uint64_t bytes) {
    return static_cast<double>(bytes) / in_microseconds(send(nic, type, bytes).total());
}

RhinetSend Laboratory::rhinet(double clock, Bursts bursts, std::uint64_t bytes) {
    Rhinet nic = pick(rhinets_, "rhinet1.nic");
    nic.clock = clock;
    return note(simulate_rhinet_send(machine("p2-300"), nic, bursts, bytes));
}

ViaSystem Laboratory::system(const SystemName& name) {
    const std::string firmware = std::string(name.firmware) + "-" + std::string(name.nic);
    ViaSystem system{machine(name.machine), nic(name.nic),
                     pick(firmware_, file_name(firmware, "firmware")), name.locality};
    if (name.clock > 0) system.nic.clock = name.clock;
    return system;
}

double Laboratory::window(const ViaSystem& system, std::uint64_t bytes) {
    return note(simulate_window(system, bytes, messages_of(bytes)));
}

double Laboratory::pingpong(const ViaSystem& system, std::uint64_t bytes) {
    return note(simulate_pingpong(system, bytes, effort_.round_trips));
}

std::array<double, 2> Laboratory::flows(const ViaSystem& system, Flows flows, std::uint64_t bytes) {
    return note(simulate_flows(system, flows, bytes, messages_of(bytes)));
}

double Laboratory::mnc_window(const MncSystem& system, std::uint64_t bytes) {
    return note(simulate_mnc_window(system, bytes, messages_of(bytes)));
}

double Laboratory::window(const SystemName& name, std::uint64_t bytes) {
    const ViaSystem asked = system(name);
    return remember("window " + text_of(name) + " " + std::to_string(bytes), [&] {
        return Answer{window(asked, bytes), 0};
    })[0];
}

double Laboratory::pingpong(const SystemName& name, std::uint64_t bytes) {
    const ViaSystem asked = system(name);
    return remember("pingpong " + text_of(name) + " " + std::to_string(bytes), [&] {
        return Answer{pingpong(asked, bytes), 0};
    })[0];
}

std::array<double, 2> Laboratory::flows(const SystemName& name, Flows flows, std::uint64_t bytes) {
    const ViaSystem asked = system(name);
    const char* direction = flows == Flows::Same ? "same " : "opposite ";
    return remember(direction + text_of(name) + " " + std::to_string(bytes),
                    [&] { return this->flows(asked, flows, bytes); });
}

double Laboratory::mnc_window(const SystemName& gm, std::uint32_t links, LinkPolicy policy,
                              std::uint64_t bytes) {
    const MncSystem asked{system(gm), links, policy};
    return remember("mnc window " + text_of(gm) + " " + std::to_string(links) + " " +
                        std::to_string(static_cast<int>(policy)) + " " + std::to_string(bytes),
                    [&] {
                        return Answer{mnc_window(asked, bytes), 0};
                    })[0];
}

double Laboratory::mnc_pingpong(const SystemName& gm, std::uint32_t links, LinkPolicy policy,
                                std::uint64_t bytes) {
    const MncSystem asked{system(gm), links, policy};
    return remember(
        "mnc pingpong " + text_of(gm) + " " + std::to_string(links) + " " +
            std::to_string(static_cast<int>(policy)) + " " + std::to_string(bytes),
        [&] {
            return Answer{note(simulate_mnc_pingpong(asked, bytes, effort_.round_trips)), 0};
        })[0];
}

}  // namespace via::sim
