// SPDX-License-Identifier: BSD-3-Clause
// Programs on simulated hosts: they run, they run the same way every time, and their clock is the
// one of the simulated machine.
#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <stdexcept>

#include "api/connected_pair.hpp"

namespace via_api_test {
namespace {

using namespace std::chrono_literals;

/// Answers `rounds` messages, on the first host.
void answer(const std::string& device, std::size_t bytes, int rounds) {
    via::Nic nic = need(via::Nic::open(device));
    need(nic.on_error({}));  // peers leave
    via::BufferPool pool = need(nic.create_pool(8, bytes));
    via::Vi vi = need(nic.create_vi());
    need(vi.post_receive(pool.take()));
    need(vi.post_receive(pool.take()));
    need(need(nic.listen(nic.address("test")).wait(10s)).accept(vi));
    for (int i = 0; i < rounds; ++i) {
        via::Completion received = need_ok(vi.wait_receive(10s));
        need(vi.send(std::move(received.buffer)));
        need(vi.post_receive(pool.take()));
        need_ok(vi.wait_send(10s));
    }
}

/// The time of each round trip.
std::vector<std::chrono::nanoseconds> ask(const std::string& device, std::size_t bytes,
                                          int rounds) {
    via::Nic nic = need(via::Nic::open(device));
    need(nic.on_error({}));  // peers leave
    via::BufferPool pool = need(nic.create_pool(8, bytes));
    via::Vi vi = need(nic.create_vi());
    need(vi.connect(need(nic.resolve("a", "test")), 10s));
    std::vector<std::chrono::nanoseconds> times;
    for (int i = 0; i < rounds; ++i) {
        const std::string line(bytes, static_cast<char>('a' + i % 26));
        need(vi.post_receive(pool.take()));
        via::Buffer buffer = pool.take();
        buffer.assign(line);
        const auto begin = via::now();
        need(vi.send(std::move(buffer)));
        const via::Completion answered = need_ok(vi.wait_receive(10s));
        times.push_back(via::now() - begin);
        EXPECT_EQ(answered.buffer.text(), line);
        need_ok(vi.wait_send(10s));
    }
    return times;
}

std::vector<std::chrono::nanoseconds> pingpong(const via::Simulation& simulation, std::size_t bytes,
                                               int rounds) {
    std::vector<std::chrono::nanoseconds> times;
    need(via::simulate(simulation, {[&] { answer(simulation.nic, bytes, rounds); },
                                    [&] { times = ask(simulation.nic, bytes, rounds); }}));
    return times;
}

TEST(ApiSimulation, APingpongTakesWhatThePaperSays) {
    // MyVIA on LANai 9: 8.46 µs.
    auto times = pingpong({.nic = "lanai9"}, 4, 20);
    ASSERT_EQ(times.size(), 20U);
    // The last one meets the server's farewell.
    std::sort(times.begin(), times.end());
    const double one_way = std::chrono::duration<double, std::micro>(times[10]).count() / 2;
    EXPECT_NEAR(one_way, 8.46, 8.46 * 0.02);
}

TEST(ApiSimulation, RunsTheSameWayEveryTime) {
    for (const char* firmware : {"myvia", "bvia"}) {
        const via::Simulation simulation{.nic = "lanai4", .firmware = firmware};
        const auto first = pingpong(simulation, 3000, 10);
        EXPECT_EQ(first, pingpong(simulation, 3000, 10)) << firmware;
    }
}

TEST(ApiSimulation, AFasterClockMakesAFasterNic) {
    const auto slow = pingpong({.nic = "lanai9", .clock_mhz = 133}, 8, 4);
    const auto fast = pingpong({.nic = "lanai9", .clock_mhz = 200}, 8, 4);
    EXPECT_LT(fast.back(), slow.back());
}

TEST(ApiSimulation, TimeoutsAreOfSimulatedTime) {
    std::chrono::nanoseconds waited{};
    need(via::simulate({.nic = "lanai9"}, {[&] {
                           via::Nic nic = need(via::Nic::open("lanai9"));
                           const auto begin = via::now();
                           const auto request = nic.listen(nic.address("nobody")).wait(100s);
                           waited = via::now() - begin;
                           ASSERT_FALSE(request);
                           EXPECT_EQ(request.error().code, VIP_TIMEOUT);
                       }}));
    EXPECT_GE(waited, 100s);
    EXPECT_LT(waited, 101s);
}

TEST(ApiSimulation, ManyHostsTalkToOne) {
    constexpr int clients = 5;
    std::vector<std::function<void()>> hosts;
    std::array<int, clients> heard{};
    hosts.emplace_back([&] {
        via::Nic nic = need(via::Nic::open("lanai9"));
        via::BufferPool pool = need(nic.create_pool(clients * 4, 64));
        via::CompletionQueue queue = need(nic.create_completion_queue(64));
        std::vector<via::Vi> vis;
        via::Listener listener = nic.listen(nic.address("many"));
        for (int i = 0; i < clients; ++i) {
            via::ViOptions options;
            options.receive_queue = &queue;
            vis.push_back(need(nic.create_vi(options)));
            need(vis.back().post_receive(pool.take()));
            need(need(listener.wait(10s)).accept(vis.back()));
        }
        for (int i = 0; i < clients; ++i) {
            const via::Completion received = need_ok(queue.wait(10s));
            ++heard.at(static_cast<std::size_t>(received.buffer.text().at(0) - '0'));
        }
    });
    for (int i = 0; i < clients; ++i) {
        hosts.emplace_back([i] {
            via::Nic nic = need(via::Nic::open("lanai9"));
            via::BufferPool pool = need(nic.create_pool(2, 64));
            via::Vi vi = need(nic.create_vi());
            // While another is being accepted, nobody waits there.
            for (int tries = 0;; ++tries) {
                const auto connected = vi.connect(need(nic.resolve("a", "many")), 10s);
                if (connected) break;
                ASSERT_EQ(connected.error().code, VIP_NO_MATCH) << connected.error().sentence;
                ASSERT_LT(tries, 1000);
            }
            via::Buffer buffer = pool.take();
            buffer.assign(std::to_string(i));
            need(vi.send(std::move(buffer)));
            need_ok(vi.wait_send(10s));
            // The server breaks the connection when it leaves.
            need(nic.on_error({}));
        });
    }
    need(via::simulate({.nic = "lanai9"}, hosts));
    for (const int count : heard)
        EXPECT_EQ(count, 1);
}

TEST(ApiSimulation, NonsenseIsNamed) {
    const auto run = [](const via::Simulation& simulation) {
        const auto ran = via::simulate(simulation, {[] {}});
        EXPECT_FALSE(ran);
        return ran ? std::string() : ran.error().sentence;
    };
    EXPECT_NE(run({.nic = "lanai7"}).find("lanai7"), std::string::npos);
    EXPECT_NE(run({.nic = "lanai9", .machine = "pdp-11"}).find("pdp-11"), std::string::npos);
    EXPECT_NE(run({.nic = "lanai9", .firmware = "hvia"}).find("hvia"), std::string::npos);
    EXPECT_NE(run({.nic = "lanai9", .clock_mhz = -3}).find("-3"), std::string::npos);
    EXPECT_FALSE(via::simulate({.nic = "lanai9"}, {}));
}

TEST(ApiSimulation, AHostHasOneNic) {
    need(via::simulate({.nic = "lanai9"}, {[] {
                           const auto other = via::Nic::open("lanai4");
                           ASSERT_FALSE(other);
                           EXPECT_NE(other.error().sentence.find("lanai9"), std::string::npos);
                           const auto nested = via::simulate({.nic = "lanai9"}, {[] {}});
                           EXPECT_FALSE(nested);
                       }}));
}

/// Each has messages under way when it ends: nothing of it may stay.
TEST(ApiSimulation, ManyRunsOneAfterTheOther) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer keeps freed memory; it finds leaks by itself";
#endif
    const auto resident_pages = [] {
        std::ifstream file("/proc/self/statm");
        std::size_t all = 0;
        std::size_t resident = 0;
        file >> all >> resident;
        return resident;
    };
    const auto run = [] { static_cast<void>(pingpong({.nic = "lanai9"}, 64, 2)); };
    for (int i = 0; i < 5; ++i)
        run();
    const std::size_t before = resident_pages();
    for (int i = 0; i < 200; ++i)
        run();
    // A world has hundreds of kilobytes; what an allocator keeps is less than a tenth of 200.
    EXPECT_LT(resident_pages(), before + 1000);
}

TEST(ApiSimulation, WhatAHostThrowsComesOut) {
    EXPECT_THROW(static_cast<void>(via::simulate(
                     {.nic = "lanai9"}, {[] {}, [] { throw std::runtime_error("no more"); }})),
                 std::runtime_error);
}

}  // namespace
}  // namespace via_api_test
