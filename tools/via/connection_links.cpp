// SPDX-License-Identifier: BSD-3-Clause
#include "connection_links.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace via::tool {
namespace {

/// The same link at the last look: slots are used again, but then for less than before.
const LinkSnapshot* same_link(const LinkSnapshot& link,
                              const std::optional<CountersSnapshot>& before) {
    if (!before) return nullptr;
    const auto found =
        std::find_if(before->links.begin(), before->links.end(), [&](const LinkSnapshot& other) {
            return other.slot == link.slot && other.vi_slot == link.vi_slot &&
                   other.text == link.text && other.sent_bytes <= link.sent_bytes &&
                   other.received_bytes <= link.received_bytes &&
                   other.sent_packets <= link.sent_packets;
        });
    return found == before->links.end() ? nullptr : &*found;
}

/// What is in the page may be anything, so the sums are made of floating-point numbers.
double all_bytes(const LinkSnapshot& link) {
    return static_cast<double>(link.sent_bytes) + static_cast<double>(link.received_bytes);
}

double part(double some, double all) {
    return all > 0 ? std::clamp(some / all, 0.0, 1.0) : 0;
}

double difference(std::uint64_t after, std::uint64_t before) {
    return static_cast<double>(after) - static_cast<double>(before);
}

nlohmann::json link_json(const LinkReport& link) {
    nlohmann::json object{
        {"link", link.now.text},
        {"state", link_state_name(link.now.state)},
        {"share", link.share},
        {"lost_share", link.lost},
        {"sent_packets", link.now.sent_packets},
        {"sent_bytes", link.now.sent_bytes},
        {"received_packets", link.now.received_packets},
        {"received_bytes", link.now.received_bytes},
        {"lost_packets", link.now.lost_packets},
        {"duplicate_packets", link.now.duplicate_packets},
        {"timeouts", link.now.timeouts},
        {"round_trip_us", static_cast<double>(link.now.round_trip_ns) / 1e3},
        {"least_round_trip_us", static_cast<double>(link.now.least_round_trip_ns) / 1e3},
        {"window_bytes", link.now.window_bytes},
        {"bytes_in_flight", link.now.bytes_in_flight},
        {"measured_bytes_per_s", link.now.bytes_per_second},
        {"changes", link.now.changes}};
    if (link.sent_bytes_per_s) object["sent_bytes_per_s"] = *link.sent_bytes_per_s;
    if (link.received_bytes_per_s) object["received_bytes_per_s"] = *link.received_bytes_per_s;
    return object;
}

}  // namespace

std::vector<ConnectionLinks> links_of_connections(const CountersSnapshot& now,
                                                  const std::optional<CountersSnapshot>& before) {
    std::map<std::uint64_t, ConnectionLinks> connections;
    const double seconds =
        before ? difference(static_cast<std::uint64_t>(now.taken_monotonic_ns),
                            static_cast<std::uint64_t>(before->taken_monotonic_ns)) /
                     1e9
               : 0;
    std::map<std::uint64_t, double> moved;  // between the looks, by connection
    std::map<std::uint64_t, double> total;
    for (const LinkSnapshot& link : now.links) {
        total[link.vi_slot] += all_bytes(link);
        if (const LinkSnapshot* last = same_link(link, before))
            moved[link.vi_slot] += all_bytes(link) - all_bytes(*last);
    }
    for (const LinkSnapshot& link : now.links) {
        ConnectionLinks& connection = connections[link.vi_slot];
        connection.vi_slot = link.vi_slot;
        LinkReport report;
        report.now = link;
        report.lost =
            part(static_cast<double>(link.lost_packets), static_cast<double>(link.sent_packets));
        report.share = part(all_bytes(link), total[link.vi_slot]);
        const LinkSnapshot* const last = same_link(link, before);
        if (last != nullptr && seconds > 0) {
            report.sent_bytes_per_s = difference(link.sent_bytes, last->sent_bytes) / seconds;
            report.received_bytes_per_s =
                difference(link.received_bytes, last->received_bytes) / seconds;
        }
        if (moved[link.vi_slot] > 0) {
            const double bytes = last != nullptr ? all_bytes(link) - all_bytes(*last) : 0;
            report.share = part(bytes, moved[link.vi_slot]);
            if (last != nullptr)
                report.lost = part(difference(link.lost_packets, last->lost_packets),
                                   difference(link.sent_packets, last->sent_packets));
        }
        connection.links.push_back(std::move(report));
    }
    std::vector<ConnectionLinks> list;
    for (auto& [slot, connection] : connections) {
        const auto vi =
            std::find_if(now.vis.begin(), now.vis.end(),
                         [wanted = slot](const auto& one) { return one.slot == wanted; });
        if (vi != now.vis.end()) {
            connection.device = vi->device;
            connection.policy = link_policy_name(vi->link_policy);
        }
        list.push_back(std::move(connection));
    }
    return list;
}

nlohmann::json links_json(const CountersSnapshot& now,
                          const std::optional<CountersSnapshot>& before) {
    auto connections = nlohmann::json::array();
    for (const ConnectionLinks& connection : links_of_connections(now, before)) {
        auto links = nlohmann::json::array();
        for (const LinkReport& link : connection.links)
            links.push_back(link_json(link));
        connections.push_back({{"vi", connection.vi_slot},
                               {"device", connection.device},
                               {"policy", connection.policy},
                               {"links", std::move(links)}});
    }
    auto changes = nlohmann::json::array();
    for (const LinkChangeSnapshot& change : now.link_changes)
        changes.push_back({{"unix_ns", change.wall_ns},
                           {"vi", change.vi_slot},
                           {"link", change.text},
                           {"from", link_state_name(change.from)},
                           {"to", link_state_name(change.to)}});
    return {{"connections", std::move(connections)}, {"changes", std::move(changes)}};
}

}  // namespace via::tool
