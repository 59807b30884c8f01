// SPDX-License-Identifier: BSD-3-Clause
// Programs that sleep, and programs that make no calls: what comes is served all the same.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "base/device_copy.hpp"
#include "mvich/atomic_operation.hpp"
#include "mvich/place.hpp"
#include "mvich/process_state.hpp"
#include "vipl/harness.hpp"

namespace via::mvich {
namespace {

using test::PeerProcess;

constexpr std::uint64_t window_key = 7;

base::Nanoseconds cpu_time() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto in = [](const timeval& time) {
        return static_cast<base::Nanoseconds>(time.tv_sec) * 1'000'000'000 + time.tv_usec * 1000;
    };
    return in(usage.ru_utime) + in(usage.ru_stime);
}

/// Two processes: `role` and this one's own endpoint would share settings, so both are roles.
struct TwoRoles {
    TwoRoles(const char* role_of_one, const char* role_of_two,
             const PeerProcess::Environment& environment)
        : one(role_of_one, environment), two(role_of_two, environment) {
        const auto name_of_one = one.link.get<HostPort>();
        two.link.put(name_of_one);
        one.link.put(two.link.get<HostPort>());
    }
    void expect_good_end() {
        EXPECT_EQ(one.wait(), 0);
        EXPECT_EQ(two.wait(), 0);
    }
    PeerProcess one;
    PeerProcess two;
};

PEER(sleeps_until_a_message) {
    Place here;
    ASSERT_NE(here.endpoint, nullptr);
    link.put(here.endpoint->name());
    const Peer peer = here.book->insert(link.get<HostPort>());
    const bool by_progress = link.get<bool>();
    std::uint64_t word = 0;
    for (std::uint64_t round = 0; round < 3; ++round) {
        ASSERT_EQ(here.receive(peer, &word, sizeof word, round), Posted::UnderWay);
        link.put<std::uint8_t>(1);
        const base::Nanoseconds cpu = cpu_time();
        const base::Nanoseconds began = base::monotonic_now();
        std::optional<Completion> found;
        const base::Deadline deadline = base::Deadline::after(patience);
        while (!deadline.expired()) {
            const std::uint64_t seen = here.device->tidings();
            if ((found = here.notes.take(Happened::Received))) break;
            if (by_progress || here.device->progress())
                here.device->progress();
            else
                here.device->wait(deadline, seen);
        }
        ASSERT_TRUE(found.has_value());
        EXPECT_EQ(found->status, Status::Ok);
        EXPECT_EQ(word, round + 100);
        const base::Nanoseconds slept = base::monotonic_now() - began;
        // Spinning would be all of it.
        EXPECT_LT(cpu_time() - cpu, slept / 2) << "of " << slept << " ns";
    }
}

constexpr int messages_left = 400;
constexpr std::size_t bytes_left = 3000;

/// Sends more than there is room for, and then leaves it to itself, or sleeps.
PEER(leaves_messages) {
    Place here;
    ASSERT_NE(here.endpoint, nullptr);
    link.put(here.endpoint->name());
    const Peer peer = here.book->insert(link.get<HostPort>());
    const bool sleeps = link.get<bool>();
    const auto sent = pattern(bytes_left, 5);
    std::uint64_t word = 0;
    ASSERT_EQ(here.receive(peer, &word, sizeof word, 2), Posted::UnderWay);
    ASSERT_EQ(here.wait_for(Happened::Received).status, Status::Ok);
    static_cast<void>(link.get<std::uint8_t>());  // the peer is stopped
    int under_way = 0;
    for (int i = 0; i < messages_left; ++i)
        if (here.send(peer, sent.data(), sent.size(), 1) == Posted::UnderWay) ++under_way;
    EXPECT_GT(under_way, 0) << "there was room for all";
    for (int i = 0; i < 100; ++i)
        here.device->progress();
    link.put<std::uint8_t>(1);
    if (!sleeps) {
        static_cast<void>(link.get<std::uint8_t>());  // all is there
    } else {
        ASSERT_EQ(here.receive(peer, &word, sizeof word, 3), Posted::UnderWay);
        const base::Deadline deadline = base::Deadline::after(patience);
        std::optional<Completion> found;
        while (!deadline.expired()) {
            const std::uint64_t seen = here.device->tidings();
            if ((found = here.notes.take(Happened::Received))) break;
            here.device->wait(deadline, seen);
        }
        ASSERT_TRUE(found.has_value());
    }
    for (; under_way > 0; --under_way)
        ASSERT_EQ(here.wait_for(Happened::Sent).status, Status::Ok);
}

PEER(stops_before_messages) {
    Place here;
    ASSERT_NE(here.endpoint, nullptr);
    const Peer peer = here.book->insert(link.get<HostPort>());
    link.put(here.endpoint->name());
    const std::uint64_t word = 1;
    ASSERT_NE(here.send(peer, &word, sizeof word, 2, order_delivered), Posted::Again);
    ASSERT_EQ(here.wait_for(Happened::Sent).status, Status::Ok);
    raise(SIGSTOP);
    std::vector<std::byte> received(bytes_left);
    for (int i = 0; i < messages_left; ++i) {
        SCOPED_TRACE(i);
        ASSERT_EQ(here.receive(peer, received.data(), received.size(), 1), Posted::UnderWay);
        ASSERT_EQ(here.wait_for(Happened::Received).status, Status::Ok);
        ASSERT_EQ(received, pattern(bytes_left, 5));
    }
    ASSERT_NE(here.send(peer, &word, sizeof word, 3, order_delivered), Posted::Again);
    link.put<std::uint8_t>(1);
    ASSERT_EQ(here.wait_for(Happened::Sent).status, Status::Ok);
}

void messages_are_left(bool sleeps, const PeerProcess::Environment& environment) {
    TwoRoles roles("leaves_messages", "stops_before_messages", environment);
    roles.one.link.put(sleeps);
    ASSERT_TRUE(test::eventually([&] { return is_stopped(roles.two.pid()); }));
    roles.one.link.put<std::uint8_t>(1);
    static_cast<void>(roles.one.link.get<std::uint8_t>());
    ASSERT_EQ(kill(roles.two.pid(), SIGCONT), 0);
    static_cast<void>(roles.two.link.get<std::uint8_t>());
    if (!sleeps) roles.one.link.put<std::uint8_t>(1);
    roles.expect_good_end();
}

TEST(MessagesLeft, ByAProgramThatMakesNoCalls) {
    messages_are_left(false, {});
}
TEST(MessagesLeft, ByAProgramThatMakesNoCallsOnTheNetworkDevice) {
    messages_are_left(false, {{"VIA_MPI_DEVICE", "net0"}, {"VIA_NET_LOST_MS", "60000"}});
}
TEST(MessagesLeft, ByAProgramThatSleeps) {
    messages_are_left(true, {});
}
TEST(MessagesLeft, ByAProgramThatSleepsOnTheNetworkDevice) {
    messages_are_left(true, {{"VIA_MPI_DEVICE", "net0"}, {"VIA_NET_LOST_MS", "60000"}});
}

PEER(sends_when_told) {
    Place here;
    ASSERT_NE(here.endpoint, nullptr);
    link.put(here.endpoint->name());
    const Peer peer = here.book->insert(link.get<HostPort>());
    for (std::uint64_t round = 0; round < 3; ++round) {
        static_cast<void>(link.get<std::uint8_t>());
        const std::uint64_t word = round + 100;
        const Posted posted = here.send(peer, &word, sizeof word, round);
        ASSERT_TRUE(posted == Posted::Done || posted == Posted::UnderWay);
        if (posted == Posted::UnderWay) {
            ASSERT_EQ(here.wait_for(Happened::Sent).status, Status::Ok);
        }
    }
    static_cast<void>(link.get<std::uint8_t>());
}

void run_sleepers(bool by_progress, const PeerProcess::Environment& environment) {
    TwoRoles roles("sleeps_until_a_message", "sends_when_told", environment);
    roles.one.link.put(by_progress);
    for (int round = 0; round < 3; ++round) {
        static_cast<void>(roles.one.link.get<std::uint8_t>());
        // Long enough that sleeping and spinning differ.
        usleep(400'000);
        roles.two.link.put<std::uint8_t>(1);
    }
    EXPECT_EQ(roles.one.wait(), 0);
    roles.two.link.put<std::uint8_t>(1);
    EXPECT_EQ(roles.two.wait(), 0);
}

TEST(MessageSleep, AWaiterUsesNoProcessorAndIsWoken) {
    run_sleepers(false, {});
}
TEST(MessageSleep, AProgramThatPollsSleepsIfItShall) {
    run_sleepers(true, {{"VIA_PROGRESS", "sleep"}});
}
TEST(MessageSleep, AWaiterOnTheNetworkDevice) {
    run_sleepers(false, {{"VIA_MPI_DEVICE", "net0"}});
}

/// Sleeps on a file descriptor that its listener signals.
PEER(sleeps_on_a_descriptor) {
    const int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    Place here;
    ASSERT_NE(here.endpoint, nullptr);
    here.notes.also = [&](const Completion&) {
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t written = write(bell, &one, sizeof one);
    };
    link.put(here.endpoint->name());
    const Peer peer = here.book->insert(link.get<HostPort>());
    static_cast<void>(link.get<bool>());
    std::uint64_t word = 0;
    for (std::uint64_t round = 0; round < 3; ++round) {
        ASSERT_EQ(here.receive(peer, &word, sizeof word, round), Posted::UnderWay);
        here.device->arm();
        here.device->progress();
        link.put<std::uint8_t>(1);
        pollfd entry{bell, POLLIN, 0};
        ASSERT_EQ(poll(&entry, 1, static_cast<int>(patience / 1'000'000)), 1);
        std::uint64_t rung = 0;
        ASSERT_EQ(read(bell, &rung, sizeof rung), static_cast<ssize_t>(sizeof rung));
        const auto found = here.notes.take(Happened::Received);
        ASSERT_TRUE(found.has_value());
        EXPECT_EQ(found->status, Status::Ok);
        EXPECT_EQ(word, round + 100);
    }
}

void run_armed(const PeerProcess::Environment& environment) {
    TwoRoles roles("sleeps_on_a_descriptor", "sends_when_told", environment);
    roles.one.link.put(false);
    for (int round = 0; round < 3; ++round) {
        static_cast<void>(roles.one.link.get<std::uint8_t>());
        roles.two.link.put<std::uint8_t>(1);
    }
    EXPECT_EQ(roles.one.wait(), 0);
    roles.two.link.put<std::uint8_t>(1);
    EXPECT_EQ(roles.two.wait(), 0);
}

TEST(MessageArm, TheServiceThreadSignals) {
    run_armed({});
}
TEST(MessageArm, TheServiceThreadSignalsOnTheNetworkDevice) {
    run_armed({{"VIA_MPI_DEVICE", "net0"}});
}

/// Has a window and makes no calls.
PEER(makes_no_calls) {
    Place here;
    ASSERT_NE(here.endpoint, nullptr);
    static std::byte memory[1'000'000];
    const iovec piece{memory, sizeof memory};
    ASSERT_TRUE(here.device->windows().add(window_key, {{piece}, 0, window_read | window_write}));
    link.put(here.endpoint->name());
    static_cast<void>(here.book->insert(link.get<HostPort>()));
    static_cast<void>(link.get<std::uint8_t>());  // as long as the other works
    // The service thread has written it, on behalf of a peer of which ThreadSanitizer knows
    // nothing.
    std::vector<std::byte> seen(sizeof memory);
    base::device_copy(seen.data(), memory, sizeof memory);
    ASSERT_EQ(std::memcmp(seen.data(), pattern(sizeof memory, 5).data(), sizeof memory), 0);
}

PEER(works_on_a_window) {
    Place here;
    ASSERT_NE(here.endpoint, nullptr);
    link.put(here.endpoint->name());
    const Peer peer = here.book->insert(link.get<HostPort>());
    auto memory = pattern(1'000'000, 5);
    const auto order = [&](Remote what, std::size_t bytes) {
        const iovec local{memory.data(), bytes};
        const RemotePiece there{0, bytes, window_key};
        RemoteOrder remote;
        remote.to = peer;
        remote.what = what;
        remote.pieces = {&local, 1};
        remote.remote = {&there, 1};
        ASSERT_EQ(here.endpoint->remote(remote), Posted::UnderWay);
        EXPECT_EQ(here.wait_for(what == Remote::Write ? Happened::Wrote : Happened::Read).status,
                  Status::Ok);
    };
    for (const std::size_t bytes : {8UL, 3000UL, 100'000UL, 1'000'000UL}) {
        order(Remote::Write, bytes);
        order(Remote::Read, bytes);
        EXPECT_EQ(memory, pattern(1'000'000, 5));
    }
    std::uint64_t one = 0;
    std::uint64_t before = 0;
    const iovec operand{&one, sizeof one};
    const iovec result{&before, sizeof before};
    const RemotePiece there{64, sizeof one, window_key};
    RemoteOrder remote;
    remote.to = peer;
    remote.what = Remote::FetchAtomic;
    remote.pieces = {&operand, 1};
    remote.results = {&result, 1};
    remote.remote = {&there, 1};
    remote.operation = static_cast<std::uint8_t>(AtomicOperation::Sum);
    remote.datatype = static_cast<std::uint8_t>(AtomicType::Uint64);
    for (int i = 0; i < 50; ++i) {
        ASSERT_EQ(here.endpoint->remote(remote), Posted::UnderWay);
        ASSERT_EQ(here.wait_for(Happened::AtomicDone).status, Status::Ok);
        ASSERT_EQ(std::memcmp(&before, memory.data() + 64, sizeof before), 0);
    }
}

void run_windows(const PeerProcess::Environment& environment) {
    TwoRoles roles("makes_no_calls", "works_on_a_window", environment);
    EXPECT_EQ(roles.two.wait(), 0);
    roles.one.link.put<std::uint8_t>(1);
    EXPECT_EQ(roles.one.wait(), 0);
}

TEST(MessageWindow, OfAProgramThatMakesNoCalls) {
    run_windows({});
}
TEST(MessageWindow, OfAProgramThatMakesNoCallsWithoutCma) {
    run_windows({{"VIA_SHM_PATH", "ring"}});
}
TEST(MessageWindow, OfAProgramThatMakesNoCallsOnTheNetworkDevice) {
    run_windows({{"VIA_MPI_DEVICE", "net0"}});
}

}  // namespace
}  // namespace via::mvich
