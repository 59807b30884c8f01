// SPDX-License-Identifier: BSD-3-Clause
#include "protocol_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "size_list.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

using mvich::Protocol;

constexpr std::uint64_t head_bytes = sizeof(mvich::PacketHead);
/// Inside a host, of a message whose remote data fit into the note: its tag.
constexpr std::uint64_t word_before_payload = sizeof(std::uint64_t);
constexpr std::uint64_t largest_size = std::uint64_t{16} << 20;

[[nodiscard]] std::uint64_t portions(std::uint64_t bytes, std::uint64_t portion) {
    return portion == 0 ? 0 : (bytes + portion - 1) / portion;
}

[[nodiscard]] mvich::LaneAbilities abilities_of(const mvich::MessageSettings& settings,
                                                const Ground& ground) {
    mvich::LaneAbilities abilities =
        settings.abilities(ground.in_place, ground.in_place && ground.cma, ground.longest_packet,
                           std::uint64_t{1} << 31);
    // As both ends agree when they meet.
    abilities.eager_bytes = std::min<std::uint32_t>(
        abilities.eager_bytes,
        abilities.packet_bytes - static_cast<std::uint32_t>(mvich::max_packet_head_bytes));
    return abilities;
}

/// Bytes of an R3 message in one Data packet.
[[nodiscard]] std::uint64_t data_portion(const mvich::LaneAbilities& abilities) {
    return abilities.packet_bytes - head_bytes - sizeof(mvich::Packet::offset);
}

void describe_in_place(const Ground& ground, std::uint64_t packet_bytes, bool shared,
                       ProtocolRow& row) {
    switch (row.protocol) {
        case Protocol::Eager:
            row.path = packet_bytes <= ground.inline_bytes ? "inline frame" : "byte ring";
            row.copies = row.bytes == 0 ? "none" : "in, out";
            row.copy_count = row.bytes == 0 ? 0 : 2;
            return;
        case Protocol::R3:
            row.path = "byte ring";
            row.copies = row.bytes == 0 ? "none" : "in, out; they overlap";
            row.copy_count = row.bytes == 0 ? 0 : 2;
            return;
        case Protocol::Rget:
        case Protocol::Rput:
            break;
    }
    if (ground.cma) {
        row.path = "CMA; kmem if both ends' memory is";
        row.copies = shared                           ? "a half by each end"
                     : row.protocol == Protocol::Rget ? "by the receiver"
                                                      : "by the sender";
        row.copy_count = 1;
    } else {
        row.path = "byte ring; kmem if both ends' memory is";
        row.copies = "in, out; they overlap";
        row.copy_count = 2;
    }
}

void describe_between_hosts(ProtocolRow& row) {
    if (row.bytes == 0) {
        row.copies = "none";
    } else if (row.protocol == Protocol::Eager || row.protocol == Protocol::R3) {
        row.copies = "into a vbuf, into a vbuf there, out";
        row.copy_count = 3;
    } else {
        row.copies = "by the receiver, out of the socket's buffer";
        row.copy_count = 1;
    }
    row.path = row.datagrams == 1 ? "UDP packet" : "UDP packets, in trains (GSO)";
}

}  // namespace

ProtocolRow protocol_row(const mvich::MessageSettings& settings, const Ground& ground,
                         std::uint64_t bytes) {
    const mvich::LaneAbilities abilities = abilities_of(settings, ground);
    const mvich::ProtocolChoice choice =
        mvich::choose_protocol(settings.protocol, abilities, {bytes, true, false});
    ProtocolRow row;
    row.bytes = bytes;
    row.protocol = choice.protocol;
    row.reason = choice.reason;
    std::uint64_t data_packets = 0;
    const bool shared = abilities.one_copy && !settings.protocol.forced;
    switch (row.protocol) {
        case Protocol::Eager:
            row.credits = 1;
            row.datagrams =
                std::max<std::uint64_t>(1, portions(head_bytes + bytes, ground.datagram_bytes));
            break;
        case Protocol::R3:
            // Nothing to move: the Request is answered by Finish.
            data_packets = portions(bytes, data_portion(abilities));
            row.credits = 1 + data_packets;
            row.answer_credits = 1;
            row.datagrams =
                2 + portions(bytes + data_packets * (head_bytes + 8), ground.datagram_bytes);
            break;
        case Protocol::Rget:
            row.credits = shared ? 2 : 1;  // the sender has something to finish, too
            row.answer_credits = row.credits;
            row.datagrams = 3 + portions(bytes, ground.datagram_bytes);  // one asks for the data
            break;
        case Protocol::Rput:
            row.credits = 2;
            row.answer_credits = 1;
            row.datagrams = 3 + portions(bytes, ground.datagram_bytes);
            break;
    }
    row.packets = row.credits + row.answer_credits;
    if (ground.in_place) {
        row.datagrams = 0;
        describe_in_place(ground, word_before_payload + bytes, shared, row);
    } else {
        describe_between_hosts(row);
    }
    return row;
}

std::vector<std::uint64_t> interesting_sizes(const mvich::MessageSettings& settings,
                                             const Ground& ground) {
    std::vector<std::uint64_t> sizes{0};
    for (std::uint64_t bytes = 1; bytes <= largest_size; bytes *= 2)
        sizes.push_back(bytes);
    const auto add_edge = [&](std::uint64_t last_of_one) {
        sizes.push_back(last_of_one);
        sizes.push_back(last_of_one + 1);
    };
    const mvich::LaneAbilities abilities = abilities_of(settings, ground);
    add_edge(mvich::eager_limit(settings.protocol, abilities));
    for (const bool in_stream : {false, true}) {
        const std::uint64_t least_rdma = settings.protocol.least_rdma(ground.in_place, in_stream);
        if (least_rdma != 0 && !settings.protocol.forced) add_edge(least_rdma - 1);
    }
    if (ground.in_place && ground.inline_bytes > word_before_payload)
        add_edge(ground.inline_bytes - word_before_payload);
    if (!ground.in_place && ground.datagram_bytes > head_bytes)
        add_edge(ground.datagram_bytes - head_bytes);
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
}

std::vector<ProtocolRow> protocol_table(const mvich::MessageSettings& settings,
                                        const Ground& ground) {
    std::vector<ProtocolRow> rows;
    for (const std::uint64_t bytes : interesting_sizes(settings, ground))
        rows.push_back(protocol_row(settings, ground, bytes));
    return rows;
}

std::string draw_protocols(const std::vector<ProtocolRow>& rows, const Ground& ground) {
    TextTable table;
    table.add_column("bytes");
    table.add_column("protocol", Align::Left);
    table.add_column("path", Align::Left);
    table.add_column("copies", Align::Left);
    table.add_column("packets");
    if (!ground.in_place) table.add_column("UDP");
    table.add_column("credits");
    table.add_column("back");
    table.add_column("why", Align::Left);
    const ProtocolRow* before = nullptr;
    for (const ProtocolRow& row : rows) {
        // What is as in the line above is said once.
        const auto anew = [&](const std::string& text, std::string ProtocolRow::*member) {
            const bool same = before != nullptr && before->protocol == row.protocol &&
                              before->*member == row.*member;
            return same ? std::string("\"") : text;
        };
        std::vector<std::string> cells{
            format_size(row.bytes), std::string(mvich::protocol_name(row.protocol)),
            anew(row.path, &ProtocolRow::path), anew(row.copies, &ProtocolRow::copies),
            fmt::format("{}", row.packets)};
        if (!ground.in_place) cells.push_back(fmt::format("{}", row.datagrams));
        cells.push_back(fmt::format("{}", row.credits));
        cells.push_back(fmt::format("{}", row.answer_credits));
        cells.push_back(anew(row.reason, &ProtocolRow::reason));
        table.add_row(std::move(cells));
        before = &row;
    }
    return table.draw("  ");
}

nlohmann::json protocols_json(const std::vector<ProtocolRow>& rows, const Ground& ground) {
    auto list = nlohmann::json::array();
    for (const ProtocolRow& row : rows) {
        nlohmann::json entry{
            {"bytes", row.bytes},      {"protocol", mvich::protocol_name(row.protocol)},
            {"path", row.path},        {"copies", row.copy_count},
            {"copies_by", row.copies}, {"packets", row.packets},
            {"credits", row.credits},  {"answer_credits", row.answer_credits},
            {"reason", row.reason}};
        if (!ground.in_place) entry["udp_packets"] = row.datagrams;
        list.push_back(std::move(entry));
    }
    return list;
}

}  // namespace via::tool
