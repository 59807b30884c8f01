// SPDX-License-Identifier: BSD-3-Clause
#include "network_information.hpp"

#include <dlfcn.h>
#include <errno.h>
#include <fmt/format.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "base/settings.hpp"
#include "ka/host_address.hpp"
#include "na/net/interfaces.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

nlohmann::json as_json(const na::net::InterfaceRow& row) {
    const na::net::Interface& interface = row.interface;
    nlohmann::json addresses = nlohmann::json::array();
    for (const na::net::InterfaceAddress& address : interface.addresses)
        addresses.push_back(fmt::format("{}/{}", na::net::to_text(address.family, address.address),
                                        static_cast<unsigned>(address.prefix)));
    return {{"name", interface.name},       {"used", row.used},
            {"reason", row.reason},         {"kind", interface.kind},
            {"mtu", interface.mtu},         {"up", interface.up},
            {"carrier", interface.running}, {"ethernet", interface.ethernet},
            {"addresses", addresses}};
}

nlohmann::json finding(const char* name, bool works, std::string detail) {
    return {{"name", name}, {"works", works}, {"detail", std::move(detail)}};
}

/// A socket of the kind shows the rights; nothing is attached to any interface.
std::string socket_problem(int family) {
    const base::UniqueFd socket(::socket(family, SOCK_RAW | SOCK_CLOEXEC, 0));
    if (socket.valid()) return {};
    return base::system_error(errno, "opening a socket (it needs CAP_NET_RAW)").sentence;
}

nlohmann::json packet_ring() {
    const std::string problem = socket_problem(AF_PACKET);
    return finding("ring", problem.empty(),
                   problem.empty() ? "a packet socket with a ring in memory" : problem);
}

nlohmann::json xdp() {
    if (!VIA_BUILT_WITH_XDP)
        return finding("xdp", false,
                       "Viaduct was built without it (install libxdp-dev and libbpf-dev)");
    if (std::string problem = socket_problem(AF_XDP); !problem.empty())
        return finding("xdp", false, std::move(problem));
    void* const library = ::dlopen("libxdp.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr)
        return finding("xdp", false, "libxdp.so.1 can not be loaded (Debian: libxdp1)");
    ::dlclose(library);
    // Whether an interface takes the program shows only when it gets it, which would be felt.
    return finding("xdp", true, "AF_XDP, where the interface takes its program");
}

}  // namespace

nlohmann::json network_information(const nlohmann::json& agent) {
    const base::Settings& settings = base::Settings::get();
    nlohmann::json network{{"interfaces", nlohmann::json::array()},
                           {"warnings", nlohmann::json::array()},
                           {"raw", nlohmann::json::array({packet_ring(), xdp()})},
                           {"raw_setting", settings.text("VIA_NET_RAW")},
                           {"policy", settings.text("VIA_NET_POLICY")},
                           {"secure", settings.flag("VIA_NET_SECURE")}};
    if (agent.contains("net_port")) {
        network["agent_port"] = agent["net_port"];
        network["cluster_key"] = agent["net_key"];
        if (!agent["net_problem"].get<std::string>().empty())
            network["problem"] = agent["net_problem"];
    } else {
        // As it will be when one is started from here.
        const auto port = settings.number("VIA_NET_PORT");
        network["agent_port"] = port != 0 ? port : ka::usual_net_port(geteuid());
        network["cluster_key"] =
            !settings.text("VIA_NET_KEY_FILE").empty() || !settings.text("VIA_NET_KEY").empty();
    }
    const auto choice = na::net::host_interfaces();
    if (!choice) {
        network["problem"] = choice.error().sentence;
        return network;
    }
    for (const na::net::InterfaceRow& row : choice.value().rows)
        network["interfaces"].push_back(as_json(row));
    network["warnings"] = choice.value().warnings;
    return network;
}

std::string describe_network(const nlohmann::json& network) {
    std::string text = fmt::format(
        "  the agent's UDP port is {}; {}; packets are {}; links are chosen by the policy {}\n",
        network["agent_port"].get<unsigned>(),
        network["cluster_key"].get<bool>()
            ? "the cluster has a key"
            : "there is no cluster key, so every host that reaches it may connect",
        network["secure"].get<bool>() ? "encrypted" : "not encrypted",
        network["policy"].get<std::string>());
    TextTable interfaces;
    for (const char* title : {"interface", "used", "addresses"})
        interfaces.add_column(title, Align::Left);
    interfaces.add_column("mtu");
    interfaces.add_column("how or why not", Align::Left);
    for (const nlohmann::json& one : network["interfaces"]) {
        std::string addresses;
        for (const nlohmann::json& address : one["addresses"])
            addresses += (addresses.empty() ? "" : " ") + address.get<std::string>();
        interfaces.add_row({printable(one["name"].get<std::string>()),
                            one["used"].get<bool>() ? "yes" : "no", addresses,
                            fmt::format("{}", one["mtu"].get<unsigned>()),
                            one["reason"].get<std::string>()});
    }
    text += interfaces.draw("  ");
    for (const nlohmann::json& raw : network["raw"])
        text += fmt::format("  raw path, VIA_NET_RAW={}: {}, {}\n", raw["name"].get<std::string>(),
                            raw["works"].get<bool>() ? "possible" : "not possible",
                            raw["detail"].get<std::string>());
    text += fmt::format("  VIA_NET_RAW is {}\n", network["raw_setting"].get<std::string>());
    for (const nlohmann::json& warning : network["warnings"])
        text += fmt::format("  warning: {}\n", warning.get<std::string>());
    if (network.contains("problem"))
        text += fmt::format("  problem: {}\n", network["problem"].get<std::string>());
    return text;
}

}  // namespace via::tool
