// SPDX-License-Identifier: BSD-3-Clause
#include "timeline.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace via::tool {
namespace {

/// Where a resource stands: the experiments name them after their host, "a" or "b".
struct Place {
    int number;  ///< on a message's way
    const char* name;
};

constexpr int first_place = 1;
constexpr int last_place = 3;

Place place_of(std::string_view lane) {
    if (lane.starts_with("link") || lane.starts_with("switch")) return {2, "network"};
    if (lane.starts_with("b ")) return {3, "host b"};
    return {1, "host a"};
}

}  // namespace

sim::Time Timeline::end() const {
    sim::Time last = 0;
    for (const TimelineBar& bar : bars)
        last = std::max(last, bar.end);
    return last;
}

sim::Time Timeline::busy(std::size_t lane) const {
    sim::Time time = 0;
    for (const TimelineBar& bar : bars)
        if (bar.lane == lane) time += bar.end - bar.begin;
    return time;
}

Timeline timeline_of(const sim::Trace& trace) {
    std::vector<const sim::Span*> spans;
    for (const sim::Span& span : trace.spans())
        if (!span.label.empty() && span.end > span.begin) spans.push_back(&span);
    // Equal ones in the order in which they were recorded.
    std::sort(spans.begin(), spans.end(), [](const sim::Span* a, const sim::Span* b) {
        return std::tie(a->begin, a->end, a) < std::tie(b->begin, b->end, b);
    });

    Timeline timeline;
    std::vector<std::string_view> names;
    for (const sim::Span* span : spans)
        if (std::find(names.begin(), names.end(), span->lane) == names.end())
            names.push_back(span->lane);
    // Within a host in the order in which they are first used.
    std::map<std::string_view, std::size_t> lanes;
    for (int place = first_place; place <= last_place; ++place) {
        for (const std::string_view name : names) {
            if (place_of(name).number != place) continue;
            lanes[name] = timeline.lanes.size();
            timeline.lanes.push_back({std::string(name), place_of(name).name});
        }
    }

    std::map<std::size_t, std::size_t> last_of_lane;
    for (const sim::Span* span : spans) {
        const std::size_t lane = lanes[span->lane];
        const auto last = last_of_lane.find(lane);
        if (last != last_of_lane.end()) {
            TimelineBar& before = timeline.bars[last->second];
            if (before.end == span->begin && before.label == span->label &&
                before.message == span->message) {
                before.end = span->end;
                continue;
            }
        }
        last_of_lane[lane] = timeline.bars.size();
        timeline.bars.push_back(
            {lane, std::string(span->label), span->message, span->begin, span->end});
    }
    return timeline;
}

nlohmann::json timeline_json(const Timeline& timeline) {
    auto resources = nlohmann::json::array();
    for (std::size_t lane = 0; lane < timeline.lanes.size(); ++lane)
        resources.push_back({{"resource", timeline.lanes[lane].name},
                             {"host", timeline.lanes[lane].host},
                             {"busy_us", sim::in_microseconds(timeline.busy(lane))}});
    auto stages = nlohmann::json::array();
    for (const TimelineBar& bar : timeline.bars)
        stages.push_back({{"resource", timeline.lanes[bar.lane].name},
                          {"stage", bar.label},
                          {"message", bar.message},
                          {"begin_us", sim::in_microseconds(bar.begin)},
                          {"us", sim::in_microseconds(bar.end - bar.begin)}});
    return {{"total_us", sim::in_microseconds(timeline.end())},
            {"resources", std::move(resources)},
            {"stages", std::move(stages)}};
}

nlohmann::json trace_events(const Timeline& timeline) {
    auto events = nlohmann::json::array();
    std::map<std::string, int> processes;
    for (std::size_t lane = 0; lane < timeline.lanes.size(); ++lane) {
        const auto& [name, host] = timeline.lanes[lane];
        const auto [process, fresh] =
            processes.emplace(host, static_cast<int>(processes.size()) + 1);
        if (fresh)
            events.push_back({{"name", "process_name"},
                              {"ph", "M"},
                              {"pid", process->second},
                              {"args", {{"name", host}}}});
        events.push_back({{"name", "thread_name"},
                          {"ph", "M"},
                          {"pid", process->second},
                          {"tid", lane + 1},
                          {"args", {{"name", name}}}});
        events.push_back({{"name", "thread_sort_index"},
                          {"ph", "M"},
                          {"pid", process->second},
                          {"tid", lane + 1},
                          {"args", {{"sort_index", lane + 1}}}});
    }
    for (const TimelineBar& bar : timeline.bars)
        events.push_back({{"name", bar.label},
                          {"ph", "X"},
                          {"ts", sim::in_microseconds(bar.begin)},
                          {"dur", sim::in_microseconds(bar.end - bar.begin)},
                          {"pid", processes[timeline.lanes[bar.lane].host]},
                          {"tid", bar.lane + 1},
                          {"args", {{"message", bar.message}}}});
    return {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}};
}

}  // namespace via::tool
