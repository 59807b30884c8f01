// SPDX-License-Identifier: BSD-3-Clause
#include "sim/core/resource.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "na/seeded.hpp"
#include "sim/core/mailbox.hpp"

using namespace via::sim;
using via::test::Random;

namespace {

struct Grant {
    char who;
    Time when;
    bool operator==(const Grant&) const = default;
};
using Grants = std::vector<Grant>;

std::ostream& operator<<(std::ostream& out, const Grant& grant) {
    return out << grant.who << " at " << grant.when;
}

/// Comes at a time, wants some units, keeps them for a while.
Task<> visit(Simulation& simulation, Requester requester, char who, Time come, std::uint32_t units,
             Time stay, Grants& grants) {
    co_await simulation.until(come);
    const Hold hold = co_await requester.acquire(units);
    grants.push_back({who, simulation.now()});
    co_await simulation.delay(stay);
}

TEST(Resource, ServesInTheOrderOfArrival) {
    Simulation simulation;
    Resource resource(simulation, "bus");
    const Requester all = resource.add_requester("all");
    Grants grants;
    for (const char who : {'a', 'b', 'c', 'd'})
        simulation.spawn(visit(simulation, all, who, who == 'd' ? 5 : 0, 1, 10, grants));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(grants, (Grants{{'a', 0}, {'b', 10}, {'c', 20}, {'d', 30}}));
}

TEST(Resource, GivesOutSeveralUnits) {
    Simulation simulation;
    Resource resource(simulation, "buffers", 2);
    const Requester all = resource.add_requester("all");
    Grants grants;
    simulation.spawn(visit(simulation, all, 'a', 0, 1, 10, grants));
    simulation.spawn(visit(simulation, all, 'b', 0, 1, 15, grants));
    simulation.spawn(visit(simulation, all, 'c', 1, 1, 10, grants));
    simulation.spawn(visit(simulation, all, 'd', 2, 1, 10, grants));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(grants, (Grants{{'a', 0}, {'b', 0}, {'c', 10}, {'d', 15}}));
    EXPECT_EQ(resource.free(), 2U);
}

TEST(Resource, SmallRequestsDoNotOvertakeLargeOnes) {
    Simulation simulation;
    Resource resource(simulation, "memory", 4);
    const Requester all = resource.add_requester("all");
    Grants grants;
    simulation.spawn(visit(simulation, all, 'a', 0, 3, 10, grants));
    simulation.spawn(visit(simulation, all, 'b', 1, 4, 10, grants));
    simulation.spawn(
        visit(simulation, all, 'c', 2, 1, 10, grants));  // there is one, but b was first
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(grants, (Grants{{'a', 0}, {'b', 10}, {'c', 20}}));
}

TEST(Resource, WhoComesAtTheMomentOfTheReleaseIsBehindWhoWaited) {
    Simulation simulation;
    Resource resource(simulation, "bus");
    const Requester all = resource.add_requester("all");
    Grants grants;
    simulation.spawn(visit(simulation, all, 'a', 0, 1, 10, grants));
    simulation.spawn(visit(simulation, all, 'b', 1, 1, 10, grants));
    // Runs after a's end at 10 but before b, who was woken by it.
    simulation.spawn(visit(simulation, all, 'c', 10, 1, 10, grants));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(grants, (Grants{{'a', 0}, {'b', 10}, {'c', 20}}));
}

TEST(Resource, TakesTurnsAmongRequesters) {
    Simulation simulation;
    Resource bus(simulation, "bus");
    const Requester host = bus.add_requester("host");
    const Requester dma = bus.add_requester("dma");
    const Requester nic = bus.add_requester("nic");
    Grants grants;
    for (int i = 0; i < 4; ++i)
        simulation.spawn(visit(simulation, host, 'h', 0, 1, 10, grants));
    for (int i = 0; i < 2; ++i)
        simulation.spawn(visit(simulation, dma, 'd', 1, 1, 10, grants));
    simulation.spawn(visit(simulation, nic, 'n', 25, 1, 10, grants));
    ASSERT_TRUE(simulation.run().ok());
    // The one at 30 is the NIC's: it comes after dma, and the host has had its turn.
    EXPECT_EQ(grants,
              (Grants{{'h', 0}, {'d', 10}, {'h', 20}, {'d', 30}, {'n', 40}, {'h', 50}, {'h', 60}}));
    EXPECT_EQ(host.statistics().acquisitions, 4U);
    EXPECT_EQ(host.statistics().waits, 3U);
    EXPECT_EQ(host.statistics().waited, 20 + 50 + 60);
    EXPECT_EQ(host.statistics().longest_wait, 60);
    EXPECT_EQ(nic.statistics().waited, 15);
    EXPECT_EQ(dma.name(), "dma");
    EXPECT_EQ(bus.statistics().acquisitions, 7U);
    EXPECT_EQ(bus.statistics().waits, 6U);
}

TEST(Resource, ATurnThatNobodyContestsCountsToo) {
    Simulation simulation;
    Resource bus(simulation, "bus");
    const Requester first = bus.add_requester("first");
    const Requester second = bus.add_requester("second");
    Grants grants;
    simulation.spawn(visit(simulation, first, 'a', 0, 1, 10, grants));
    simulation.spawn(visit(simulation, first, 'b', 1, 1, 10, grants));
    simulation.spawn(visit(simulation, second, 'c', 2, 1, 10, grants));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(grants, (Grants{{'a', 0}, {'c', 10}, {'b', 20}}));
}

Task<> hold_in_many_ways(Simulation& simulation, Resource& resource,
                         std::vector<std::uint32_t>& free) {
    const auto look = [&] { free.push_back(resource.free()); };
    {
        Hold hold = co_await resource.acquire(3);
        look();
        hold.release();
        look();
        hold.release();
        look();
    }
    Hold outer;
    {
        Hold inner = co_await resource.acquire(2);
        outer = std::move(inner);
    }
    look();
    outer = co_await resource.acquire(1);
    look();
    EXPECT_TRUE(outer);
    const Hold moved = std::move(outer);
    look();
    EXPECT_TRUE(moved);
    co_await simulation.delay(1);
}

TEST(Hold, GivesBackOnceAndCanBeMoved) {
    Simulation simulation;
    Resource resource(simulation, "buffers", 4);
    std::vector<std::uint32_t> free;
    simulation.spawn(hold_in_many_ways(simulation, resource, free));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(free, (std::vector<std::uint32_t>{1, 4, 4, 2, 3, 3}));
    EXPECT_EQ(resource.free(), 4U);
}

struct Packet {
    Hold buffer;
    int number;
};

Task<> send_packets(Resource& buffers, Mailbox<Packet>& wire) {
    for (int number = 0; number < 5; ++number) {
        Hold buffer = co_await buffers.acquire();
        Packet packet{std::move(buffer), number};
        co_await wire.put(std::move(packet));
    }
}

Task<> receive_packets(Simulation& simulation, Mailbox<Packet>& wire, std::vector<Time>& times) {
    for (int number = 0; number < 5; ++number) {
        const Packet packet = co_await wire.take();
        EXPECT_EQ(packet.number, number);
        co_await simulation.delay(10);
        times.push_back(simulation.now());
    }
}

TEST(Hold, GoesThroughAMailboxToAnotherProcess) {
    Simulation simulation;
    Resource buffers(simulation, "buffers", 2);
    Mailbox<Packet> wire(simulation);
    std::vector<Time> times;
    simulation.spawn(send_packets(buffers, wire));
    simulation.spawn(receive_packets(simulation, wire, times));
    ASSERT_TRUE(simulation.run_until(15).ok());
    EXPECT_EQ(buffers.free(), 0U);
    EXPECT_EQ(buffers.waiting(), 1U);
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(times, (std::vector<Time>{10, 20, 30, 40, 50}));
    EXPECT_EQ(buffers.free(), 2U);
    EXPECT_EQ(buffers.statistics().busy, 50);
}

Task<> fail_while_holding(Simulation& simulation, Resource& resource) {
    const Hold hold = co_await resource.acquire();
    co_await simulation.delay(5);
    throw std::runtime_error("lost");
}

TEST(Hold, IsReleasedByAnException) {
    Simulation simulation;
    Resource resource(simulation, "bus");
    Grants grants;
    simulation.spawn(fail_while_holding(simulation, resource));
    simulation.spawn(visit(simulation, resource.add_requester("other"), 'a', 0, 1, 1, grants));
    EXPECT_THROW(static_cast<void>(simulation.run()), std::runtime_error);
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(grants, (Grants{{'a', 5}}));
}

Task<> acquire_badly(Resource& resource, std::uint32_t units) {
    const Hold hold = co_await resource.acquire(units);
}

TEST(Resource, RefusesWhatItCanNeverGive) {
    Simulation simulation;
    Resource resource(simulation, "bus", 2);
    for (const std::uint32_t units : {0U, 3U}) {
        simulation.spawn(acquire_badly(resource, units));
        try {
            static_cast<void>(simulation.run());
            FAIL() << "nothing was thrown";
        } catch (const std::invalid_argument& error) {
            EXPECT_EQ(std::string(error.what()),
                      std::to_string(units) +
                          " units of 'bus', which has 2: ask for at least one "
                          "and no more than there are");
        }
    }
    EXPECT_EQ(resource.free(), 2U);
    EXPECT_THROW(Resource(simulation, "nothing", 0), std::invalid_argument);
}

TEST(Resource, CountsWhatItDid) {
    Simulation simulation;
    Resource resource(simulation, "buffers", 4);
    const Requester all = resource.add_requester("all");
    Grants grants;
    simulation.spawn(visit(simulation, all, 'a', 10, 2, 20, grants));  // 10 to 30
    simulation.spawn(visit(simulation, all, 'b', 15, 4, 10, grants));  // waits to 30, ends at 40
    simulation.spawn(visit(simulation, all, 'c', 20, 1, 20, grants));  // waits to 40, ends at 60
    ASSERT_TRUE(simulation.run_until(50).ok());
    ResourceStatistics seen = resource.statistics();
    EXPECT_EQ(seen.observed, 50);
    EXPECT_EQ(seen.busy, 40) << "until now";
    EXPECT_DOUBLE_EQ(seen.utilisation, (2 * 20 + 4 * 10 + 1 * 10) / (4 * 50.0));
    EXPECT_EQ(seen.acquisitions, 3U);
    EXPECT_EQ(seen.waits, 2U);
    EXPECT_EQ(seen.waited, 15 + 20);
    EXPECT_EQ(seen.longest_wait, 20);
    EXPECT_EQ(seen.longest_queue, 2U);

    resource.reset_statistics();
    ASSERT_TRUE(simulation.run_until(100).ok());
    seen = resource.statistics();
    EXPECT_EQ(seen.observed, 50);
    EXPECT_EQ(seen.busy, 10);
    EXPECT_DOUBLE_EQ(seen.utilisation, 10 / (4 * 50.0));
    EXPECT_EQ(seen.acquisitions, 0U);
    EXPECT_EQ(seen.longest_queue, 0U);
}

Task<> use_by_temporary(Simulation& simulation, Resource& resource, Time& end) {
    Task<> use = resource.add_requester("brief").use(7);
    co_await std::move(use);
    co_await resource.use(5);
    end = simulation.now();
}

TEST(Resource, IsUsedForATime) {
    Simulation simulation;
    Resource resource(simulation, "processor");
    Time end = 0;
    simulation.spawn(use_by_temporary(simulation, resource, end));
    simulation.spawn(resource.use(3));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(end, 15);
    EXPECT_EQ(resource.statistics().busy, 15);
}

// Resources that are declared after the simulation are gone when the waiting processes go.
TEST(Resource, MayGoBeforeTheProcessesThatHoldItOrWaitForIt) {
    Simulation simulation;
    {
        Resource resource(simulation, "bus");
        Mailbox<Packet> wire(simulation);
        const Requester all = resource.add_requester("all");
        Grants grants;
        for (const char who : {'a', 'b', 'c'})
            simulation.spawn(visit(simulation, all, who, 0, 1, 1000, grants));
        ASSERT_TRUE(simulation.run_until(500).ok());
        EXPECT_EQ(resource.waiting(), 2U);
    }
    EXPECT_EQ(simulation.processes(), 3U);
}

/// What must hold whatever happens, checked from outside.
struct Watch {
    std::uint64_t used = 0;
    std::uint64_t capacity = 0;
    Time unit_time = 0;
    /// For each requester: the numbers of its requests that have not been served, in order.
    std::vector<std::deque<std::uint64_t>> open;
    /// For each requester: how often it was served.
    std::vector<std::uint64_t> served;
    std::string wrong;
};

Task<> visit_at_random(Simulation& simulation, Requester requester, std::size_t index,
                       std::uint64_t seed, Watch& watch) {
    Random random(seed);
    for (std::uint64_t i = 0; i < 50; ++i) {
        co_await simulation.delay(random.below(60));
        const std::uint32_t units = random.between(1, static_cast<std::uint32_t>(watch.capacity));
        const Time stay = random.below(20);
        const std::uint64_t number = seed * 1000 + i;
        const std::size_t before_me = watch.open[index].size();
        const std::vector<std::uint64_t> served_before = watch.served;
        watch.open[index].push_back(number);

        const Hold hold = co_await requester.acquire(units);

        if (watch.open[index].front() != number) watch.wrong += "not in order; ";
        watch.open[index].pop_front();
        ++watch.served[index];
        for (std::size_t other = 0; other < watch.served.size(); ++other) {
            // Everybody else has one turn for each of mine, and one may just have been due; some
            // may have got theirs before I came and run only now.
            const std::uint64_t turns = watch.served[other] - served_before[other];
            const std::uint64_t most = before_me + 1 + watch.capacity;
            if (other != index && turns > most) watch.wrong += "not in turn; ";
        }
        watch.used += units;
        if (watch.used > watch.capacity) watch.wrong += "too many; ";
        co_await simulation.delay(stay);
        watch.used -= units;
        watch.unit_time += units * stay;
    }
}

class ResourceProperty : public testing::TestWithParam<std::uint64_t> {};

TEST_P(ResourceProperty, IsFairAndNeverGivesMoreThanItHas) {
    Random random(GetParam());
    Simulation simulation;
    Resource resource(simulation, "resource", random.between(1, 5));
    Watch watch;
    watch.capacity = resource.capacity();
    const std::uint32_t requesters = random.between(1, 4);
    for (std::uint32_t index = 0; index < requesters; ++index) {
        const Requester requester = resource.add_requester("requester");
        watch.open.emplace_back();
        watch.served.push_back(0);
        const std::uint32_t processes = random.between(1, 15);
        for (std::uint32_t i = 0; i < processes; ++i) {
            simulation.spawn(
                visit_at_random(simulation, requester, index, random.next() % 1000000, watch));
        }
    }
    const std::size_t processes = simulation.processes();
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(watch.wrong, "");
    EXPECT_EQ(resource.free(), resource.capacity());
    const ResourceStatistics seen = resource.statistics();
    EXPECT_EQ(seen.acquisitions, 50 * processes);
    EXPECT_NEAR(seen.utilisation,
                static_cast<double>(watch.unit_time) /
                    static_cast<double>(resource.capacity() * simulation.now()),
                1e-12);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ResourceProperty, testing::Range<std::uint64_t>(1, 51));

}  // namespace
