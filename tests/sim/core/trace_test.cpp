// SPDX-License-Identifier: BSD-3-Clause
#include "sim/core/trace.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "sim/core/resource.hpp"

using namespace via::sim;

namespace via::sim {

std::ostream& operator<<(std::ostream& out, const Span& span) {
    return out << span.begin << "-" << span.end << " " << span.lane << " " << span.label << " "
               << span.message;
}

}  // namespace via::sim

namespace {

using Spans = std::vector<Span>;

Task<> send(Simulation& simulation, Resource& bus, Resource& link, std::uint64_t message) {
    const Time begin = simulation.now();
    co_await bus.use(10, "fetch", message);
    {
        Hold hold = co_await link.acquire("header", message);
        co_await simulation.delay(3);
        hold.describe("send", message);
        co_await simulation.delay(2);
    }
    const std::string label = "message " + std::to_string(message);  // gone before it is looked at
    simulation.record(begin, "host", label, message);
}

TEST(Trace, RecordsHoldsAndSpansInTheOrderOfTheirEnds) {
    Simulation simulation;
    Resource bus(simulation, "bus");
    Resource link(simulation, "link");
    Trace trace;
    simulation.attach(&trace);
    simulation.spawn(send(simulation, bus, link, 1));
    simulation.spawn(send(simulation, bus, link, 2));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(trace.spans(), (Spans{{0, 10, "bus", "fetch", 1},
                                    {10, 15, "link", "send", 1},
                                    {0, 15, "host", "message 1", 1},
                                    {10, 20, "bus", "fetch", 2},
                                    {20, 25, "link", "send", 2},
                                    {0, 25, "host", "message 2", 2}}));
    EXPECT_EQ(trace.spans()[0].lane.data(), trace.spans()[3].lane.data()) << "one copy of a name";
    trace.clear();
    EXPECT_TRUE(trace.spans().empty());
}

TEST(Trace, RecordsOnlyWhileItIsAttached) {
    Simulation simulation;
    Resource bus(simulation, "bus");
    Resource link(simulation, "link");
    Trace trace;
    simulation.spawn(send(simulation, bus, link, 1));
    ASSERT_TRUE(simulation.run_until(12).ok());
    simulation.attach(&trace);
    ASSERT_TRUE(simulation.run_until(15).ok());
    simulation.attach(nullptr);
    simulation.spawn(send(simulation, bus, link, 2));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(trace.spans(), (Spans{{10, 15, "link", "send", 1}, {0, 15, "host", "message 1", 1}}));
}

TEST(Trace, DoesNotHearOfHoldsThatTheEndOfTheSimulationBreaks) {
    Trace trace;
    {
        Simulation simulation;
        Resource bus(simulation, "bus");
        simulation.attach(&trace);
        simulation.spawn(bus.use(100));
        ASSERT_TRUE(simulation.run_until(50).ok());
    }
    EXPECT_TRUE(trace.spans().empty());
}

}  // namespace
