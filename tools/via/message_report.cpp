// SPDX-License-Identifier: BSD-3-Clause
#include "message_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "readable.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

constexpr std::size_t protocols = base::message_protocols;
constexpr std::size_t classes = base::message_size_classes;

/// ", 12/s" behind a number, where rates are known.
std::string per_second(const std::optional<MessageRates>& rates, double MessageRates::*member) {
    return rates ? fmt::format(", {}/s", short_number((*rates).*member)) : "";
}

/// Protocols that carried something, by the size of the messages; each with its rate, if known.
std::string table_of_sent(const MessageSnapshot& messages,
                          const std::optional<MessageRates>& rates) {
    TextTable table;
    table.add_column("sent by", Align::Left);
    for (std::size_t size = 0; size < classes; ++size)
        table.add_column(std::string(message_size_class_name(size)));
    bool any = false;
    const auto add_row = [&](std::string title, const auto& numbers) {
        std::vector<std::string> cells{std::move(title)};
        for (const auto number : numbers)
            cells.push_back(number > 0 ? short_number(number) : "");
        table.add_row(std::move(cells));
        any = true;
    };
    for (std::size_t protocol = 0; protocol < protocols; ++protocol) {
        const auto& sent = messages.sent[protocol];
        if (std::all_of(sent.begin(), sent.end(), [](std::uint64_t count) { return count == 0; }))
            continue;
        const std::string name(message_protocol_name(protocol));
        add_row(name, sent);
        if (rates) add_row(name + "/s", rates->sent[protocol]);
    }
    return any ? table.draw("    ") : std::string();
}

}  // namespace

std::string describe_messages(const MessageSnapshot& messages,
                              const std::optional<MessageRates>& rates) {
    if (!messages.present()) return {};
    std::string text = fmt::format(
        "  messages: {} sent{}; {} received{}; {} came before their receive{}, {} wait now\n",
        short_number(messages.all_sent()),
        rates ? fmt::format(", {}/s", short_number(rates->all_sent())) : "",
        short_number(messages.received), per_second(rates, &MessageRates::received),
        short_number(messages.unexpected), per_second(rates, &MessageRates::unexpected),
        short_number(messages.unexpected_now));
    text += table_of_sent(messages, rates);
    const std::uint64_t connections =
        messages.connections_in_host + messages.connections_between_hosts;
    text += fmt::format("    connections: {} inside the host, {} to other hosts, of {} {}\n",
                        messages.connections_in_host, messages.connections_between_hosts,
                        messages.devices, messages.devices == 1 ? "device" : "devices");
    text += fmt::format(
        "    credits: least {}; noops sent {}{}, received {}{}; waited for credits {}{}; windows "
        "full of messages nobody asked for {}\n",
        connections == 0 ? "-" : short_number(messages.least_credits),
        short_number(messages.noops_sent), per_second(rates, &MessageRates::noops_sent),
        short_number(messages.noops_received), per_second(rates, &MessageRates::noops_received),
        short_number(messages.credit_stalls), per_second(rates, &MessageRates::credit_stalls),
        short_number(messages.starvations));
    text += fmt::format(
        "    copies out of packets: {}, {} bytes{}; RDMA that became r3: {}; operations of peers "
        "on windows: {}{}\n",
        short_number(messages.copies), short_number(messages.copied_bytes),
        per_second(rates, &MessageRates::copied_bytes), short_number(messages.fallbacks),
        short_number(messages.remote_operations),
        per_second(rates, &MessageRates::remote_operations));
    text += fmt::format(
        "    vbufs in use: {}, in {} regions; registered buffers: {} bytes, {} hits, {} misses, "
        "{} refused, {} given back\n",
        short_number(messages.vbufs_in_use), short_number(messages.vbuf_regions),
        short_number(messages.registered_bytes), short_number(messages.registration_hits),
        short_number(messages.registration_misses), short_number(messages.registration_refused),
        short_number(messages.registration_evicted));
    return text;
}

nlohmann::json messages_json(const MessageSnapshot& messages,
                             const std::optional<MessageRates>& rates) {
    if (!messages.present()) return nullptr;
    const auto by_protocol = [](const auto& numbers) {
        nlohmann::json object;
        for (std::size_t protocol = 0; protocol < protocols; ++protocol)
            for (std::size_t size = 0; size < classes; ++size)
                object[std::string(message_protocol_name(protocol))]
                      [std::string(message_size_class_name(size))] = numbers[protocol][size];
        return object;
    };
    nlohmann::json object{{"sent", messages.all_sent()},
                          {"sent_by_protocol_and_size", by_protocol(messages.sent)},
                          {"received", messages.received},
                          {"unexpected", messages.unexpected},
                          {"unexpected_now", messages.unexpected_now},
                          {"noops_sent", messages.noops_sent},
                          {"noops_received", messages.noops_received},
                          {"credit_stalls", messages.credit_stalls},
                          {"starvations", messages.starvations},
                          {"fallbacks", messages.fallbacks},
                          {"copies", messages.copies},
                          {"copied_bytes", messages.copied_bytes},
                          {"remote_operations", messages.remote_operations},
                          {"devices", messages.devices},
                          {"connections",
                           {{"in_host", messages.connections_in_host},
                            {"between_hosts", messages.connections_between_hosts}}},
                          {"vbufs_in_use", messages.vbufs_in_use},
                          {"vbuf_regions", messages.vbuf_regions},
                          {"registration_cache",
                           {{"bytes", messages.registered_bytes},
                            {"hits", messages.registration_hits},
                            {"misses", messages.registration_misses},
                            {"refused", messages.registration_refused},
                            {"evicted", messages.registration_evicted}}}};
    const bool connected = messages.connections_in_host + messages.connections_between_hosts != 0;
    object["least_credits"] = connected ? nlohmann::json(messages.least_credits) : nlohmann::json();
    if (rates)
        object["rates"] = {{"seconds", rates->seconds},
                           {"sent_per_s", rates->all_sent()},
                           {"sent_by_protocol_and_size_per_s", by_protocol(rates->sent)},
                           {"received_per_s", rates->received},
                           {"unexpected_per_s", rates->unexpected},
                           {"noops_sent_per_s", rates->noops_sent},
                           {"noops_received_per_s", rates->noops_received},
                           {"credit_stalls_per_s", rates->credit_stalls},
                           {"copied_mb_per_s", rates->copied_bytes / 1e6},
                           {"remote_operations_per_s", rates->remote_operations}};
    return object;
}

}  // namespace via::tool
