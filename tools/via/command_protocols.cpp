// SPDX-License-Identifier: BSD-3-Clause
// `via protocols`: how MPI and libfabric messages of each size travel here, and why.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/settings.hpp"
#include "command.hpp"
#include "na/net/interfaces.hpp"
#include "na/shm/channel.hpp"
#include "probes.hpp"
#include "protocol_table.hpp"
#include "text_table.hpp"
#include "wire/packet.hpp"

namespace via::tool {
namespace {

using base::Result;

/// One kind of peer: how it is reached, or why it is not.
struct Reach {
    std::string who;
    std::string how;
    bool possible = true;
    Ground ground;
};

constexpr std::uint32_t usual_mtu = 1500;

/// The smallest of the interfaces that connections use; nothing: there is none.
std::optional<std::uint32_t> least_mtu() {
    const auto choice = na::net::host_interfaces();
    if (!choice) return std::nullopt;
    std::optional<std::uint32_t> least;
    for (const na::net::InterfaceRow& row : choice.value().rows)
        if (row.used) least = std::min(least.value_or(row.interface.mtu), row.interface.mtu);
    return least;
}

Reach by_net(std::string who) {
    Reach reach{std::move(who), {}, true, {}};
    const std::optional<std::uint32_t> mtu = least_mtu();
    reach.ground.in_place = false;
    // IPv4 and UDP headers, the packet's own, and a frame that says where its bytes belong.
    constexpr std::uint32_t headers =
        28 + wire::PacketHeader::bytes + wire::longest_data_frame_header;
    reach.ground.datagram_bytes = mtu.value_or(usual_mtu) - headers;
    reach.how = mtu ? fmt::format("net0, MTU {}", *mtu)
                    : fmt::format(
                          "net0; no interface leads to other hosts now, so the MTU is "
                          "taken to be {}",
                          usual_mtu);
    return reach;
}

Reach by_shm() {
    const base::Settings& settings = base::Settings::get();
    Reach reach{"inside this host", "shm0", true, {}};
    Ground& ground = reach.ground;
    ground.longest_packet = std::min<std::uint32_t>(
        static_cast<std::uint32_t>(settings.number("VIA_SHM_RING_BYTES")) / 4,
        na::shm::max_chunk_bytes);
    ground.inline_bytes = settings.flag("VIA_SHM_INLINE") ? na::shm::max_inline_bytes : 0;
    const std::string& forced = settings.text("VIA_SHM_PATH");
    const Finding cma = probe_cma();
    ground.cma = cma.works && (forced == "auto" || forced == "cma");
    if (!cma.works)
        reach.how += "; CMA does not work: " + cma.detail;
    else if (!ground.cma)
        reach.how += "; no CMA, because VIA_SHM_PATH is " + forced;
    if (const Finding memory = probe_memory_file(); !memory.works) {
        reach.possible = false;
        reach.how = memory.detail;
    }
    return reach;
}

/// Both kinds of peer, as VIA_MPI_DEVICE lets them be reached.
Result<std::vector<Reach>> ways() {
    const std::string& device = base::Settings::get().text("VIA_MPI_DEVICE");
    if (device == "auto") return std::vector{by_shm(), by_net("on another host")};
    if (device == "net0") return std::vector{by_net("inside this host"), by_net("on another host")};
    if (device == "shm0")
        return std::vector{
            by_shm(),
            Reach{"on another host", "not reached, because VIA_MPI_DEVICE is shm0", false, {}}};
    return {base::Code::InvalidArgument,
            fmt::format("VIA_MPI_DEVICE can not be '{}': auto, shm0 or net0", printable(device))};
}

std::string describe_settings(const mvich::MessageSettings& settings) {
    return fmt::format(
        "VIA_MPI_PROTOCOL {}, VIA_MPI_EAGER_BYTES {}, VIA_MPI_ONE_COPY_BYTES {}, "
        "VIA_MPI_RDMA_BYTES {}, VIA_MPI_VBUF_BYTES {}\n",
        settings.protocol.forced ? mvich::protocol_name(*settings.protocol.forced) : "auto",
        settings.protocol.eager_bytes, settings.protocol.one_copy_bytes,
        settings.protocol.rdma_bytes, settings.vbuf_bytes);
}

int run(bool json) {
    const auto settings = mvich::MessageSettings::read();
    if (!settings) return report_failure(settings.error());
    const auto reaches = ways();
    if (!reaches) return report_failure(reaches.error());
    nlohmann::json object{
        {"settings",
         {{"protocol", settings.value().protocol.forced
                           ? mvich::protocol_name(*settings.value().protocol.forced)
                           : "auto"},
          {"eager_bytes", settings.value().protocol.eager_bytes},
          {"one_copy_bytes", settings.value().protocol.one_copy_bytes},
          {"rdma_bytes", settings.value().protocol.rdma_bytes},
          {"vbuf_bytes", settings.value().vbuf_bytes},
          {"credits", settings.value().credits},
          {"credit_preserve", settings.value().credit_preserve}}},
        {"peers", nlohmann::json::array()}};
    std::string text = describe_settings(settings.value());
    for (const Reach& reach : reaches.value()) {
        nlohmann::json peer{{"where", reach.who}, {"how", reach.how}, {"reached", reach.possible}};
        text += fmt::format("\nTo a peer {}: {}\n", reach.who, reach.how);
        if (reach.possible) {
            const std::uint32_t window = settings.value().window(reach.ground.in_place);
            const auto rows = protocol_table(settings.value(), reach.ground);
            peer["window"] = window;
            peer["sizes"] = protocols_json(rows, reach.ground);
            text += fmt::format("a window of {} packets, the last {} of them for control\n", window,
                                std::min(settings.value().credit_preserve, window - 1));
            text += draw_protocols(rows, reach.ground);
        }
        object["peers"].push_back(std::move(peer));
    }
    text +=
        "\nFor a message in one piece whose receiver waits for it. In several pieces there is no "
        "RDMA: r3.\nA peer whose window is full of messages that nobody asked for gets r3 instead "
        "of eager.\n";
    if (json)
        print_json(object);
    else
        fmt::print("{}", text);
    return status_good;
}

}  // namespace

void add_protocols_command(CLI::App& app, int& status) {
    auto json = std::make_shared<bool>(false);
    CLI::App* command = app.add_subcommand(
        "protocols",
        "Show how MPI and libfabric messages of each size travel on this machine, and why");
    command->add_flag("--json", *json, "Print JSON");
    command->callback([json, &status] { status = run(*json); });
}

}  // namespace via::tool
