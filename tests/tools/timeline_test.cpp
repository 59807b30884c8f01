// SPDX-License-Identifier: BSD-3-Clause
// Traces of the simulated NICs as people and Perfetto see them.
#include "timeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "gantt.hpp"
#include "sim/experiment/laboratory.hpp"
#include "xml_check.hpp"

namespace via::tool {
namespace {

Timeline stream(std::string_view firmware, std::uint64_t bytes, std::uint64_t messages) {
    sim::Laboratory laboratory;
    sim::Trace trace;
    const auto system = laboratory.system({"p3-733", "lanai4", firmware});
    const auto rate = sim::simulate_window(system, bytes, messages, &trace);
    if (!rate) throw std::runtime_error(rate.error().sentence);
    return timeline_of(trace);
}

/// Do two messages use resources of the sending host at the same time?
bool messages_overlap(const Timeline& timeline) {
    for (const TimelineBar& one : timeline.bars)
        for (const TimelineBar& other : timeline.bars) {
            const bool sender = timeline.lanes[one.lane].name.starts_with("a NIC") &&
                                timeline.lanes[other.lane].name.starts_with("a NIC");
            if (sender && one.message != 0 && other.message > one.message &&
                one.begin < other.end && other.begin < one.end)
                return true;
        }
    return false;
}

TEST(Timeline, AResourceDoesOneThingAtATime) {
    for (const char* firmware : {"myvia", "bvia"}) {
        const Timeline timeline = stream(firmware, 3000, 6);
        std::map<std::size_t, sim::Time> free_from;
        ASSERT_FALSE(timeline.bars.empty());
        for (const TimelineBar& bar : timeline.bars) {
            EXPECT_LT(bar.begin, bar.end);
            EXPECT_GE(bar.begin, free_from[bar.lane])
                << firmware << ": " << timeline.lanes[bar.lane].name << ", " << bar.label;
            free_from[bar.lane] = bar.end;
        }
    }
}

TEST(Timeline, MessagesOverlapInMyviaAndNotInBerkeleyVia) {
    EXPECT_TRUE(messages_overlap(stream("myvia", 4096, 4)));
    EXPECT_FALSE(messages_overlap(stream("bvia", 4096, 4)));
}

/// Descriptor, start of the fetch, fetch, header, send, status and its way to the host.
TEST(Timeline, ShowsTheSevenStagesOfASend) {
    const Timeline timeline = stream("myvia", 1024, 1);
    std::vector<std::string> stages;
    for (const TimelineBar& bar : timeline.bars) {
        const std::string& lane = timeline.lanes[bar.lane].name;
        if (lane.starts_with("a NIC")) stages.push_back(lane.substr(6) + ": " + bar.label);
    }
    EXPECT_EQ(stages,
              (std::vector<std::string>{"processor: descriptor", "processor: start fetch",
                                        "host DMA: fetch", "processor: header", "send DMA: send",
                                        "processor: status", "host DMA: write status"}));
}

TEST(Timeline, LanesGoFromOneHostToTheOther) {
    const Timeline timeline = stream("myvia", 1024, 2);
    std::vector<std::string> hosts;
    for (const Timeline::Lane& lane : timeline.lanes)
        if (hosts.empty() || hosts.back() != lane.host) hosts.push_back(lane.host);
    EXPECT_EQ(hosts, (std::vector<std::string>{"host a", "network", "host b"}));
}

TEST(Timeline, BurstsWithoutAGapAreOneBarAndNamelessSpansAreNone) {
    sim::Trace trace;
    trace.record({0, 10, "a bus", "fetch", 1});
    trace.record({10, 20, "a bus", "fetch", 1});
    trace.record({20, 30, "a bus", "fetch", 2});
    trace.record({31, 40, "a bus", "fetch", 2});
    trace.record({0, 40, "buffers", "", 0});
    trace.record({40, 40, "a bus", "nothing", 0});
    const Timeline timeline = timeline_of(trace);
    ASSERT_EQ(timeline.lanes.size(), 1U);
    ASSERT_EQ(timeline.bars.size(), 3U);
    EXPECT_EQ(timeline.bars[0].end, 20);
    EXPECT_EQ(timeline.busy(0), 39);
    EXPECT_EQ(timeline.end(), 40);
}

TEST(TraceEvents, AreWhatPerfettoOpens) {
    const Timeline timeline = stream("myvia", 4096, 3);
    // Through text, as a reader gets them.
    const auto file = nlohmann::json::parse(trace_events(timeline).dump());
    std::map<int, std::string> processes;
    std::map<std::pair<int, int>, std::string> threads;
    std::size_t bars = 0;
    for (const auto& event : file.at("traceEvents")) {
        const int process = event.at("pid").get<int>();
        if (event.at("ph") == "M") {
            const std::string what = event.at("name").get<std::string>();
            if (what == "process_name") processes[process] = event["args"]["name"];
            if (what == "thread_name")
                threads[{process, event.at("tid").get<int>()}] = event["args"]["name"];
            continue;
        }
        ASSERT_EQ(event.at("ph"), "X");
        ++bars;
        EXPECT_GE(event.at("ts").get<double>(), 0);
        EXPECT_GE(event.at("dur").get<double>(), 0);
        EXPECT_FALSE(event.at("name").get<std::string>().empty());
        EXPECT_TRUE(processes.contains(process));
        EXPECT_TRUE(threads.contains({process, event.at("tid").get<int>()}));
    }
    EXPECT_EQ(bars, timeline.bars.size());
    EXPECT_EQ(processes.size(), 3U);
    EXPECT_EQ(threads.size(), timeline.lanes.size());
}

TEST(Gantt, IsWellFormedAndHasABoxForEachBar) {
    const Timeline timeline = stream("myvia", 4096, 4);
    const std::string svg = draw_gantt(timeline, "a < b & \"c\"").svg();
    EXPECT_EQ(test::xml_fault(svg), "");
    EXPECT_NE(svg.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
    std::size_t boxes = 0;
    for (std::size_t at = svg.find("<rect x="); at != std::string::npos;
         at = svg.find("<rect x=", at + 1))
        ++boxes;
    EXPECT_GE(boxes, timeline.bars.size());
    // Nothing lies outside of the picture, and nothing is turned inside out.
    EXPECT_EQ(svg.find("width=\"-"), std::string::npos);
    EXPECT_EQ(svg.find("x=\"-"), std::string::npos);
}

TEST(Gantt, OfNothingIsAPictureToo) {
    EXPECT_EQ(test::xml_fault(draw_gantt(Timeline{}, "nothing").svg()), "");
}

TEST(XmlCheck, FindsWhatIsWrong) {
    EXPECT_EQ(test::xml_fault(
                  "<?xml version=\"1.0\"?>\n<a b=\"1\"><c d='2'/><!-- < -->text &amp; more</a>\n"),
              "");
    for (const char* wrong : {"<a>", "<a></b>", "<a b=1/>", "<a b=\"1/>", "<a>&</a>", "<a/><b/>",
                              "text", "<a>1 < 2</a>", ""})
        EXPECT_NE(test::xml_fault(wrong), "") << wrong;
}

}  // namespace
}  // namespace via::tool
