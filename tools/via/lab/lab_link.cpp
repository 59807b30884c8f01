// SPDX-License-Identifier: BSD-3-Clause
#include "lab_link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "host_space.hpp"
#include "link_rules.hpp"
#include "names.hpp"
#include "relay.hpp"
#include "system_programs.hpp"

namespace via::lab {
namespace {

using base::Result;
using Json = nlohmann::json;

constexpr unsigned least_mtu = 1280;  // less is no IPv6
constexpr unsigned most_mtu = 65535;
constexpr std::uint64_t link_patience_milliseconds = 5000;

/// A bucket that holds two trains of 64 KB, and 5 ms of queue behind it.
std::string rate_limit(const std::string& device, std::uint64_t rate) {
    if (rate == 0) return fmt::format("qdisc replace dev {} root noqueue\n", device);
    return fmt::format("qdisc replace dev {} root tbf rate {}bit burst 128kb latency 5ms\n", device,
                       rate);
}

Result<void> run_tc(const std::string& space, const std::string& commands) {
    auto done = run_program({"tc", "-batch", "-"}, {space, commands});
    if (!done) return std::move(done).error();
    return {};
}

/// Interfaces of a namespace by name.
Result<Json> read_interfaces(const std::string& space) {
    auto text = run_program({"ip", "-json", "-details", "link", "show"}, {space, {}});
    if (!text) return std::move(text).error();
    const Json list = Json::parse(text.value(), nullptr, false);
    Json by_name = Json::object();
    if (list.is_array())
        for (const Json& one : list)
            if (one.is_object() && one.contains("ifname"))
                by_name[one.value("ifname", std::string())] = one;
    return by_name;
}

}  // namespace

std::string LabLink::space_of(unsigned host) const {
    return space_name(lab_.name, host_name(host));
}

LabLink::Place LabLink::far_end(unsigned host) const {
    if (lab_.hosts == 2) return {space_of(1 - host), device_name(number_)};
    return {space_name(lab_.name, wire), port_name(number_, host)};
}

Result<std::vector<unsigned>> LabLink::hosts_meant(std::string_view name) const {
    std::vector<unsigned> hosts;
    if (name.empty()) {
        for (unsigned host = 0; host < lab_.hosts; ++host)
            hosts.push_back(host);
        return hosts;
    }
    const auto host = host_number(name);
    if (!host || *host >= lab_.hosts)
        return {base::Code::NotFound,
                fmt::format("the lab '{}' has no host '{}'; its hosts are a to {}", lab_.name, name,
                            host_name(lab_.hosts - 1))};
    hosts.push_back(*host);
    return hosts;
}

Result<void> LabLink::switch_to(const char* state, std::string_view side) const {
    auto hosts = hosts_meant(side);
    if (!hosts) return std::move(hosts).error();
    for (const unsigned host : hosts.value())
        if (auto done = run_ip(space_of(host),
                               fmt::format("link set dev {} {}\n", device_name(number_), state));
            !done)
            return done;
    return {};
}

Result<void> LabLink::down(std::string_view side) const {
    return switch_to("down", side);
}

Result<void> LabLink::up(std::string_view side) const {
    return switch_to("up", side);
}

Result<void> LabLink::mtu(unsigned bytes) const {
    if (bytes < least_mtu || bytes > most_mtu)
        return {base::Code::InvalidArgument,
                fmt::format("an MTU of {} bytes: it must be from {} to {}", bytes, least_mtu,
                            most_mtu)};
    // The devices of relays and ports too: a packet must pass all of them.
    std::vector<std::string> spaces;
    for (unsigned host = 0; host < lab_.hosts; ++host)
        spaces.push_back(space_of(host));
    if (lab_.hosts > 2) spaces.push_back(space_name(lab_.name, wire));
    for (const std::string& space : spaces) {
        auto interfaces = read_interfaces(space);
        if (!interfaces) return std::move(interfaces).error();
        std::vector<std::string> devices{device_name(number_), relay_device_name(number_)};
        for (unsigned host = 0; host < lab_.hosts; ++host) {
            devices.push_back(inject_device_name(number_, host));
            devices.push_back(port_name(number_, host));
        }
        devices.push_back(bridge_name(number_));
        std::string commands;
        for (const std::string& device : devices)
            if (interfaces.value().contains(device))
                commands += fmt::format("link set dev {} mtu {}\n", device, bytes);
        if (auto done = run_ip(space, commands); !done) return done;
    }
    return {};
}

Result<void> LabLink::rate(std::uint64_t bits, std::string_view from) const {
    return change([&](LinkState& state) { state.rate = bits; }, from);
}
Result<void> LabLink::loss(PartsPerMillion share, std::string_view from) const {
    return change([&](LinkState& state) { state.loss = share; }, from);
}
Result<void> LabLink::duplicate(PartsPerMillion share, std::string_view from) const {
    return change([&](LinkState& state) { state.duplicate = share; }, from);
}
Result<void> LabLink::reorder(PartsPerMillion share, std::string_view from) const {
    return change([&](LinkState& state) { state.reorder = share; }, from);
}
Result<void> LabLink::corrupt(PartsPerMillion share, std::string_view from) const {
    return change([&](LinkState& state) { state.corrupt = share; }, from);
}
Result<void> LabLink::delay(base::Nanoseconds delay, std::string_view from) const {
    return change([&](LinkState& state) { state.delay = delay; }, from);
}
Result<void> LabLink::silent(bool on, std::string_view from) const {
    return change([&](LinkState& state) { state.silent = on; }, from);
}
Result<void> LabLink::offload(bool on, std::string_view from) const {
    return change([&](LinkState& state) { state.offload = on; }, from);
}

Result<void> LabLink::change(const std::function<void(LinkState&)>& how,
                             std::string_view from) const {
    auto hosts = hosts_meant(from);
    if (!hosts) return std::move(hosts).error();
    for (const unsigned host : hosts.value()) {
        auto now = end(host);
        if (!now) return std::move(now).error();
        LinkState wanted = now.value().sends;
        how(wanted);
        if (wanted.corrupt + wanted.reorder > all_parts)
            return {base::Code::InvalidArgument,
                    fmt::format("{} reordered and {} corrupted: together more than all packets",
                                share_text(wanted.reorder), share_text(wanted.corrupt))};
        if (auto done = apply(host, now.value(), wanted); !done) return done;
    }
    return {};
}

Result<void> LabLink::end_relay_of(unsigned host) const {
    if (auto done = end_processes_in(space_of(host), relay_process_name(number_)); !done)
        return done;
    // Its devices go when the kernel has cleaned up after it, a moment later.
    const base::Deadline deadline = base::Deadline::after_milliseconds(link_patience_milliseconds);
    const Place far = far_end(host);
    for (;;) {
        auto here = read_interfaces(space_of(host));
        if (!here) return std::move(here).error();
        auto there = read_interfaces(far.space);
        if (!there) return std::move(there).error();
        if (!here.value().contains(relay_device_name(number_)) &&
            !there.value().contains(inject_device_name(number_, host)))
            return {};
        if (deadline.expired())
            return {base::Code::Timeout,
                    fmt::format("the relay of link {} in host {} has ended, but its devices stay",
                                number_, host_name(host))};
    }
}

Result<void> LabLink::start_relay_of(unsigned host, const LinkEnd& end,
                                     const LinkState& wanted) const {
    const Place far = far_end(host);
    const std::string taking = relay_device_name(number_);
    const std::string putting = inject_device_name(number_, host);
    const RelayPlan plan{
        relay_process_name(number_), space_of(host), taking, far.space, putting, wanted};
    if (auto started = start_relay(plan); !started) return started;
    auto interfaces = read_interfaces(far.space);
    if (!interfaces) return std::move(interfaces).error();
    const std::string hardware =
        interfaces.value().value(far.device, Json::object()).value("address", std::string());
    // With the address of the link's end the kernel takes what arrives for that end's own.
    if (auto done =
            run_ip(far.space, fmt::format("link set dev {0} addrgenmode none\n"
                                          "link set dev {0} address {1} mtu {2} arp off up\n",
                                          putting, hardware, end.mtu));
        !done)
        return done;
    if (auto done = run_tc(far.space,
                           fmt::format("qdisc add dev {0} ingress\n"
                                       "filter add dev {0} ingress protocol all u32 match u32 0 0 "
                                       "action mirred ingress redirect dev {1}\n",
                                       putting, far.device));
        !done)
        return done;
    return run_ip(plan.from_space,
                  fmt::format("link set dev {0} addrgenmode none\n"
                              "link set dev {0} mtu {1} txqueuelen 10000 arp off up\n",
                              taking, end.mtu));
}

Result<void> LabLink::apply(unsigned host, const LinkEnd& end, const LinkState& wanted) const {
    const std::string space = space_of(host);
    const std::string device = device_name(number_);
    const Place far = far_end(host);
    if (auto done = run_nft(far.space, arrival_rules(far.device, wanted)); !done) return done;

    const LinkState& now = end.sends;
    const bool new_relay =
        wanted.relayed() &&
        (end.relay_missing || !now.relayed() || now.delay != wanted.delay ||
         now.reorder != wanted.reorder || now.corrupt != wanted.corrupt || now.seed != wanted.seed);
    if (new_relay) {
        if (end.relay)
            if (auto done = end_relay_of(host); !done) return done;
        if (auto done = start_relay_of(host, end, wanted); !done) return done;
    }
    if (auto done = run_nft(space, sending_rules(number_, wanted)); !done) return done;
    if (!wanted.relayed() && end.relay)
        if (auto done = end_relay_of(host); !done) return done;

    if (wanted.rate != now.rate)
        if (auto done = run_tc(space, rate_limit(device, wanted.rate)); !done) return done;
    // What all packets go through has the link's rate; a few that go another way need none.
    if (wanted.delay != 0 && (new_relay ? wanted.rate != 0 : wanted.rate != now.rate))
        if (auto done = run_tc(space, rate_limit(relay_device_name(number_), wanted.rate)); !done)
            return done;

    if (wanted.offload != now.offload) {
        const char* word = wanted.offload ? "on" : "off";
        auto done = run_program(
            {"ethtool", "-K", device, "tso", word, "gso", word, "tx-udp-segmentation", word},
            {space, {}});
        if (!done) return std::move(done).error();
    }
    auto done =
        run_program({"ip", "link", "set", "dev", device, "alias", to_alias(wanted)}, {space, {}});
    if (!done) return std::move(done).error();
    return {};
}

Result<LinkEnd> LabLink::end(unsigned host) const {
    const std::string space = space_of(host);
    const std::string device = device_name(number_);
    auto interfaces = read_interfaces(space);
    if (!interfaces) return std::move(interfaces).error();
    if (!interfaces.value().contains(device))
        return {base::Code::NotFound, fmt::format("the host '{}' of the lab '{}' has no {}",
                                                  host_name(host), lab_.name, device)};
    const Json& found = interfaces.value()[device];
    LinkEnd end;
    end.host = host_name(host);
    end.device = device;
    end.ipv4 = ipv4_address(number_, host);
    if (lab_.ipv6) end.ipv6 = ipv6_address(number_, host);
    end.hardware = found.value("address", std::string());
    const Json flags = found.value("flags", Json::array());
    const auto has = [&](const char* flag) {
        return std::find(flags.begin(), flags.end(), flag) != flags.end();
    };
    end.up = has("UP");
    end.carrier = has("LOWER_UP");
    end.mtu = found.value("mtu", 0U);
    end.sends = from_alias(found.value("ifalias", std::string()));
    end.relay = interfaces.value().contains(relay_device_name(number_));
    end.relay_missing = end.sends.relayed() && !end.relay;
    return end;
}

Result<std::vector<LinkEnd>> LabLink::ends() const {
    std::vector<LinkEnd> ends;
    for (unsigned host = 0; host < lab_.hosts; ++host) {
        auto one = end(host);
        if (!one) return std::move(one).error();
        ends.push_back(std::move(one).value());
    }
    return ends;
}

}  // namespace via::lab
