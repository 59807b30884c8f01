// SPDX-License-Identifier: BSD-3-Clause
#include "process_report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "message_report.hpp"

namespace via::tool {
namespace {

void add_rates(ReportedProcess& process) {
    if (!process.before) return;
    const CountersSnapshot& before = *process.before;
    const std::int64_t span = process.counters.taken_monotonic_ns - before.taken_monotonic_ns;
    process.total_rates = rates_between(before.totals, process.counters.totals, span);
    process.message_rates = rates_between(before.messages, process.counters.messages, span);
    for (const ViSnapshot& vi : process.counters.vis) {
        // Both are in the order of their slots.
        const auto same = std::lower_bound(
            before.vis.begin(), before.vis.end(), vi.slot,
            [](const ViSnapshot& other, std::size_t slot) { return other.slot < slot; });
        if (same != before.vis.end() && same->slot == vi.slot)
            process.vi_rates[vi.slot] = rates_between(*same, vi, span);
    }
}

template <class Numbers>
nlohmann::json path_json(const Numbers& numbers) {
    nlohmann::json object;
    for (std::size_t path = 0; path < base::data_paths; ++path)
        object[std::string(base::data_path_name(static_cast<base::DataPath>(path)))] =
            numbers[path];
    return object;
}

}  // namespace

nlohmann::json counters_json(const ViSnapshot& vi) {
    return {{"sent_messages", vi.all_sent()},
            {"received_messages", vi.all_received()},
            {"sent_by_path", path_json(vi.sent_messages)},
            {"received_by_path", path_json(vi.received_messages)},
            {"sent_bytes", vi.sent_bytes},
            {"received_bytes", vi.received_bytes},
            {"rdma_writes", vi.rdma_writes},
            {"rdma_reads", vi.rdma_reads},
            {"rdma_bytes", vi.rdma_bytes},
            {"send_stalls", vi.send_stalls},
            {"big_ring_posts", vi.big_ring_posts},
            {"big_ring_refills", vi.big_ring_refills},
            {"completed_in_error", vi.completed_in_error},
            {"sleeps", vi.sleeps},
            {"wakes_sent", vi.wakes_sent}};
}

nlohmann::json rates_json(const Rates& rates) {
    return {{"seconds", rates.seconds},
            {"sent_messages_per_s", rates.sent_messages},
            {"received_messages_per_s", rates.received_messages},
            {"sent_by_path_per_s", path_json(rates.sent_by_path)},
            {"received_by_path_per_s", path_json(rates.received_by_path)},
            {"sent_mb_per_s", rates.sent_bytes / 1e6},
            {"received_mb_per_s", rates.received_bytes / 1e6},
            {"rdma_operations_per_s", rates.rdma_operations},
            {"rdma_mb_per_s", rates.rdma_bytes / 1e6},
            {"sleeps_per_s", rates.sleeps},
            {"stalls_per_s", rates.stalls}};
}

ReportedProcess with_rates(WatchedProcess watched) {
    ReportedProcess process{std::move(watched), {}, {}, {}};
    add_rates(process);
    return process;
}

nlohmann::json process_json(const ReportedProcess& process, std::size_t most_vis) {
    nlohmann::json object{{"pid", process.agent.pid},
                          {"program", process.agent.program},
                          {"uid", process.agent.uid},
                          {"attached_seconds", process.agent.attached_seconds},
                          {"regions", process.agent.regions},
                          {"registered_bytes", process.agent.registered_bytes},
                          {"kmem_bytes", process.agent.kmem_bytes}};
    if (!process.problem.empty()) {
        object["problem"] = process.problem;
        return object;
    }
    object["started_unix_s"] = process.counters.started_wall_ns / 1'000'000'000;
    object["totals"] = counters_json(process.counters.totals);
    if (process.total_rates) object["rates"] = rates_json(*process.total_rates);
    if (process.counters.messages.present())
        object["messages"] = messages_json(process.counters.messages, process.message_rates);
    object["vis"] = nlohmann::json::array();
    for (const ViSnapshot& vi : process.counters.vis) {
        if (object["vis"].size() == most_vis) {
            object["vis_left_out"] = process.counters.vis.size() - most_vis;
            break;
        }
        nlohmann::json entry = counters_json(vi);
        entry["slot"] = vi.slot;
        entry["device"] = vi.device;
        entry["state"] = vi_state_name(vi.state);
        entry["reliability"] = reliability_name(vi.reliability);
        entry["peer_pid"] = vi.peer_pid;
        if (const auto found = process.vi_rates.find(vi.slot); found != process.vi_rates.end())
            entry["rates"] = rates_json(found->second);
        object["vis"].push_back(entry);
    }
    object["errors"] = nlohmann::json::array();
    for (const ErrorSnapshot& error : process.counters.errors)
        object["errors"].push_back({{"count", error.count},
                                    {"first_unix_ns", error.first_wall_ns},
                                    {"last_unix_ns", error.last_wall_ns},
                                    {"text", error.text}});
    return object;
}

}  // namespace via::tool
