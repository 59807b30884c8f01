// SPDX-License-Identifier: BSD-3-Clause
#include "web/live.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "agent_report.hpp"
#include "connection_links.hpp"

namespace via::tool::web {
namespace {

/// All VIs of a process on one device.
struct OnDevice {
    std::uint64_t vis = 0;
    ViSnapshot counters;
    std::optional<Rates> rates;
};

void add_rates(std::optional<Rates>& sum, const Rates& more) {
    if (!sum) sum.emplace();
    sum->seconds = more.seconds;
    sum->sent_messages += more.sent_messages;
    sum->received_messages += more.received_messages;
    sum->sent_bytes += more.sent_bytes;
    sum->received_bytes += more.received_bytes;
    sum->rdma_operations += more.rdma_operations;
    sum->rdma_bytes += more.rdma_bytes;
    sum->sleeps += more.sleeps;
    sum->stalls += more.stalls;
    for (std::size_t path = 0; path < base::data_paths; ++path) {
        sum->sent_by_path[path] += more.sent_by_path[path];
        sum->received_by_path[path] += more.received_by_path[path];
    }
}

nlohmann::json by_device(const ReportedProcess& process) {
    std::map<std::string, OnDevice> devices;
    for (const ViSnapshot& vi : process.counters.vis) {
        OnDevice& device = devices[vi.device];
        ++device.vis;
        device.counters.add(vi);
        if (const auto rates = process.vi_rates.find(vi.slot); rates != process.vi_rates.end())
            add_rates(device.rates, rates->second);
    }
    auto all = nlohmann::json::object();
    for (const auto& [name, device] : devices) {
        nlohmann::json one = counters_json(device.counters);
        one["vis"] = device.vis;
        if (device.rates) one["rates"] = rates_json(*device.rates);
        all[name] = std::move(one);
    }
    return all;
}

nlohmann::json process_view(const ReportedProcess& process) {
    nlohmann::json object = process_json(process, most_vis_shown);
    if (!process.problem.empty()) return object;
    object["devices"] = by_device(process);
    object.update(links_json(process.counters, process.before));
    return object;
}

}  // namespace

nlohmann::json live_json(const std::vector<HostView>& hosts, std::int64_t unix_ms) {
    auto list = nlohmann::json::array();
    for (const HostView& host : hosts) {
        auto processes = nlohmann::json::array();
        for (const ReportedProcess& process : host.processes)
            processes.push_back(process_view(process));
        nlohmann::json one{
            {"name", host.name},
            {"agent", host.agent ? agent_json(*host.agent) : nlohmann::json{{"running", false}}},
            {"processes", std::move(processes)}};
        if (!host.problem.empty()) one["problem"] = host.problem;
        list.push_back(std::move(one));
    }
    return {{"unix_ms", unix_ms}, {"hosts", std::move(list)}};
}

}  // namespace via::tool::web
