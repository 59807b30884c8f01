// SPDX-License-Identifier: BSD-3-Clause
// The message layer on real devices: endpoints of one process and of two, inside a host.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <thread>

#include "base/counters.hpp"
#include "mvich/place.hpp"

namespace via::mvich {
namespace {

class DeviceTest : public testing::Test {
  protected:
    void SetUp() override {
        device_ = open_device();
        ASSERT_NE(device_, nullptr);
    }
    std::shared_ptr<Device> device_;
};

TEST_F(DeviceTest, MessagesOfAllSizesBetweenTwoEndpoints) {
    Place one(device_);
    Place two(device_);
    const Peer to_two = one.book->insert(two.endpoint->name());
    const Peer to_one = two.book->insert(one.endpoint->name());
    for (const std::size_t bytes : {0UL, 1UL, 8UL, 29UL, 53UL, 54UL, 1000UL, 4096UL, 4097UL, 8000UL,
                                    16384UL, 65536UL, 262144UL, 1000001UL, 5000000UL}) {
        SCOPED_TRACE(bytes);
        const auto sent = pattern(bytes, static_cast<unsigned>(bytes));
        std::vector<std::byte> received(bytes + 1);
        ASSERT_EQ(two.receive(to_one, received.data(), received.size(), 7), Posted::UnderWay);
        const Posted posted = one.send(to_two, sent.data(), bytes, 7);
        ASSERT_TRUE(posted == Posted::Done || posted == Posted::UnderWay);
        const Completion completion = two.wait_for(Happened::Received);
        EXPECT_EQ(completion.status, Status::Ok);
        EXPECT_EQ(completion.length, bytes);
        EXPECT_EQ(completion.source, to_one);
        ASSERT_EQ(std::memcmp(received.data(), sent.data(), bytes), 0);
        if (posted == Posted::UnderWay) {
            EXPECT_EQ(one.wait_for(Happened::Sent).status, Status::Ok);
        }
    }
}

/// Numbers that mean the same endpoint: its address once more, and this host by another address.
class PeerWithTwoNumbers : public DeviceTest, public testing::WithParamInterface<bool> {
  protected:
    void SetUp() override {
        DeviceTest::SetUp();
        one.emplace(device_);
        two.emplace(device_);
        to_one = two->book->insert(one->endpoint->name());
        HostPort name = two->endpoint->name();
        first = one->book->insert(name);
        if (GetParam()) name.host[3] = 2;  // as good as any of 127.0.0.0/8
        second = one->book->insert(name);
        ASSERT_NE(first, second);
    }
    void sends(std::uint64_t tag) {
        ASSERT_TRUE(posted_well(two->send(to_one, &word, sizeof word, tag)));
    }
    static bool posted_well(Posted posted) {
        return posted == Posted::Done || posted == Posted::UnderWay;
    }
    void receives(Peer from, std::uint64_t tag) {
        ASSERT_EQ(one->receive(from, &received, sizeof received, tag), Posted::UnderWay);
    }
    void expect_received_from(Peer source) {
        const Completion completion = one->wait_for(Happened::Received);
        ASSERT_EQ(completion.status, Status::Ok);
        EXPECT_EQ(completion.source, source);
    }

    std::optional<Place> one;
    std::optional<Place> two;
    Peer to_one = any_peer;
    Peer first = any_peer;
    Peer second = any_peer;
    const std::uint64_t word = 5;
    std::uint64_t received = 0;
};

TEST_P(PeerWithTwoNumbers, IsReceivedFromByEither) {
    for (const Peer from : {first, second}) {
        SCOPED_TRACE(from);
        receives(from, 1);
        sends(1);
        expect_received_from(first);
        // The message first.
        sends(2);
        ReceiveOrder look;
        look.from = from;
        look.tag = 2;
        ASSERT_TRUE(one->until([&] { return one->endpoint->peek(look, Peek::Look).has_value(); }));
        receives(from, 2);
        expect_received_from(first);
    }
}

TEST_P(PeerWithTwoNumbers, TheOldestReceiveIsTheNext) {
    std::uint64_t other = 0;
    receives(second, 1);
    ASSERT_EQ(one->receive(first, &other, sizeof other, 1), Posted::UnderWay);
    sends(1);
    EXPECT_EQ(one->wait_for(Happened::Received).cookie.context, &received);
    sends(1);
    EXPECT_EQ(one->wait_for(Happened::Received).cookie.context, &other);
}

TEST_P(PeerWithTwoNumbers, OneOfThemMayGo) {
    receives(second, 1);
    ASSERT_TRUE(one->book->remove(first));
    ASSERT_TRUE(posted_well(one->send(second, &word, sizeof word, 9)));  // it has looked
    sends(1);
    expect_received_from(second);
    EXPECT_EQ(one->book->insert(two->endpoint->name()), first);
    receives(second, 2);
    sends(2);
    expect_received_from(first);
}

TEST_P(PeerWithTwoNumbers, IsLostByBoth) {
    receives(second, 1);
    sends(2);
    receives(first, 2);
    expect_received_from(first);
    two.reset();
    EXPECT_EQ(one->wait_for(Happened::Received).status, Status::PeerLost);
}

INSTANTIATE_TEST_SUITE_P(Addresses, PeerWithTwoNumbers, testing::Bool(), [](const auto& each) {
    return std::string(each.param ? "two_addresses" : "the_same");
});

TEST_F(DeviceTest, ASendThatIsToBeMatchedIsDoneWhenItIsReceived) {
    Place one(device_);
    Place two(device_);
    const Peer to_two = one.book->insert(two.endpoint->name());
    const Peer to_one = two.book->insert(one.endpoint->name());
    for (const std::size_t bytes : {0UL, 8UL, 5000UL, 1'000'000UL}) {
        SCOPED_TRACE(bytes);
        const auto sent = pattern(bytes, 5);
        ASSERT_EQ(one.send(to_two, sent.data(), bytes, 1, order_matched), Posted::UnderWay);
        ReceiveOrder look;
        look.from = to_one;
        look.tag = 1;
        std::optional<Envelope> seen;
        ASSERT_TRUE(
            one.until([&] { return (seen = two.endpoint->peek(look, Peek::Look)).has_value(); }));
        EXPECT_EQ(seen->length, bytes);
        for (int i = 0; i < 1000; ++i)
            device_->progress();
        EXPECT_FALSE(one.notes.take(Happened::Sent)) << "nobody has received it yet";
        std::vector<std::byte> received(bytes + 1);
        ASSERT_EQ(two.receive(to_one, received.data(), received.size(), 1), Posted::UnderWay);
        EXPECT_EQ(two.wait_for(Happened::Received).length, bytes);
        EXPECT_EQ(one.wait_for(Happened::Sent).status, Status::Ok);
        EXPECT_EQ(std::memcmp(received.data(), sent.data(), bytes), 0);
    }
}

TEST_F(DeviceTest, AListenerCanTellWhetherTheProgramTellsIt) {
    Place one(device_);
    Place two(device_);
    const Peer to_two = one.book->insert(two.endpoint->name());
    const Peer to_one = two.book->insert(one.endpoint->name());
    std::atomic<int> by_program{0};
    std::atomic<int> by_own_thread{0};
    two.notes.also = [&](const Completion&) {
        ++(device_->is_told_by_own_thread() ? by_own_thread : by_program);
    };
    const std::uint64_t word = 7;
    std::uint64_t received = 0;
    // Threads of the layer's own make the connection, and help a program that gets no processor.
    for (int i = 0; i < 100; ++i) {
        ASSERT_EQ(two.receive(to_one, &received, sizeof received, 1), Posted::UnderWay);
        ASSERT_NE(one.send(to_two, &word, sizeof word, 1), Posted::Again);
        two.wait_for(Happened::Received);
    }
    EXPECT_GT(by_program.load(), 0);
    const int before = by_program.load();
    // From now on the program makes no progress: the service thread does.
    ASSERT_EQ(two.receive(to_one, &received, sizeof received, 2), Posted::UnderWay);
    device_->arm();
    ASSERT_NE(one.send(to_two, &word, sizeof word, 2), Posted::Again);
    const base::Deadline deadline = base::Deadline::after(patience);
    while (by_program.load() + by_own_thread.load() <= 100 && !deadline.expired())
        std::this_thread::yield();
    EXPECT_EQ(by_program.load(), before);
    EXPECT_EQ(by_own_thread.load(), 101 - before);
}

TEST_F(DeviceTest, AnEndpointSpeaksToItself) {
    Place one(device_);
    const Peer self = one.book->insert(one.endpoint->name());
    for (const std::size_t bytes : {8UL, 100'000UL, 1'000'000UL}) {
        const auto sent = pattern(bytes, 3);
        std::vector<std::byte> received(bytes);
        const Posted posted = one.send(self, sent.data(), bytes, 1);
        ASSERT_EQ(one.receive(self, received.data(), bytes, 1), Posted::UnderWay);
        EXPECT_EQ(one.wait_for(Happened::Received).length, bytes);
        if (posted == Posted::UnderWay) one.wait_for(Happened::Sent);
        EXPECT_EQ(received, sent);
    }
}

TEST_F(DeviceTest, WindowsAreWrittenAndRead) {
    Place one(device_);
    Place two(device_);
    const Peer to_two = one.book->insert(two.endpoint->name());
    for (const std::size_t bytes : {8UL, 5000UL, 1'000'000UL}) {
        SCOPED_TRACE(bytes);
        auto window = pattern(bytes, 9);
        const iovec memory{window.data(), bytes};
        ASSERT_TRUE(device_->windows().add(77, {{memory}, 0, window_read | window_write}));
        std::vector<std::byte> copy(bytes);
        const iovec local{copy.data(), bytes};
        const RemotePiece there{0, bytes, 77};
        RemoteOrder order;
        order.to = to_two;
        order.what = Remote::Read;
        order.pieces = {&local, 1};
        order.remote = {&there, 1};
        ASSERT_EQ(one.endpoint->remote(order), Posted::UnderWay);
        EXPECT_EQ(one.wait_for(Happened::Read).status, Status::Ok);
        EXPECT_EQ(copy, window);
        std::ranges::copy(pattern(bytes, 200), copy.begin());
        order.what = Remote::Write;
        ASSERT_EQ(one.endpoint->remote(order), Posted::UnderWay);
        EXPECT_EQ(one.wait_for(Happened::Wrote).status, Status::Ok);
        EXPECT_EQ(copy, window);
        device_->windows().remove(77);
        ASSERT_EQ(one.endpoint->remote(order), Posted::UnderWay);
        EXPECT_EQ(one.wait_for(Happened::Wrote).status, Status::Refused);
    }
}

TEST_F(DeviceTest, AMessageThatFillsItsReceiveTakesNoOtherReceiveAlong) {
    Place one(device_);
    Place two(device_);
    const Peer to_two = one.book->insert(two.endpoint->name());
    const Peer to_one = two.book->insert(one.endpoint->name());
    const std::uint64_t sent[2] = {11, 22};
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    ASSERT_EQ(two.receive(to_one, &first, sizeof first, 1), Posted::UnderWay);
    // The one that nobody has asked for is here before it is asked for.
    ASSERT_NE(one.send(to_two, &sent[1], sizeof sent[1], 2), Posted::Invalid);
    ReceiveOrder look;
    look.tag = 2;
    const base::Deadline deadline = base::Deadline::after(patience);
    while (!two.endpoint->peek(look, Peek::Look)) {
        ASSERT_FALSE(deadline.expired());
        device_->progress();
    }
    ASSERT_EQ(two.receive(to_one, &second, sizeof second, 2), Posted::UnderWay);
    EXPECT_EQ(two.wait_for(Happened::Received).tag, 2U);
    ASSERT_NE(one.send(to_two, &sent[0], sizeof sent[0], 1), Posted::Invalid);
    EXPECT_EQ(two.wait_for(Happened::Received).tag, 1U);
    EXPECT_EQ(first, 11U);
    EXPECT_EQ(second, 22U);
}

TEST_F(DeviceTest, WhatIsHeldStandsInTheCountersPage) {
    const base::MessageCounters& page = base::Counters::get().page().messages;
    EXPECT_EQ(page.devices.get(), 1U);
    const auto second = open_device();
    EXPECT_EQ(page.devices.get(), 2U);
    const std::uint64_t hits = page.registration_hits.get();
    {
        Place one(device_);
        Place two(device_);
        const Peer to_two = one.book->insert(two.endpoint->name());
        (void)two.book->insert(one.endpoint->name());
        std::vector<std::byte> received(1'000'000);
        const auto sent = pattern(received.size(), 1);
        // The same buffers twice: registered once.
        for (int i = 0; i < 2; ++i) {
            ASSERT_EQ(two.receive(any_peer, received.data(), received.size(), 1), Posted::UnderWay);
            ASSERT_EQ(one.send(to_two, sent.data(), sent.size(), 1), Posted::UnderWay);
            EXPECT_EQ(two.wait_for(Happened::Received).status, Status::Ok);
            EXPECT_EQ(one.wait_for(Happened::Sent).status, Status::Ok);
        }
        // Three that nobody asks for; the fourth tells that they are here.
        const int word = 5;
        for (int i = 0; i < 4; ++i)
            ASSERT_NE(one.send(to_two, &word, sizeof word, i < 3 ? 9 : 1), Posted::Again);
        int got = 0;
        ASSERT_EQ(two.receive(any_peer, &got, sizeof got, 1), Posted::UnderWay);
        EXPECT_EQ(two.wait_for(Happened::Received).length, sizeof got);
        // A program that polls in vain.
        const base::Deadline deadline = base::Deadline::after(patience);
        while (page.unexpected_now.get() != 3 && !deadline.expired())
            device_->progress();
        EXPECT_EQ(page.unexpected_now.get(), 3U);
        EXPECT_GE(page.vbufs_in_use.get(), 3U);
        EXPECT_GE(page.vbuf_regions.get(), 1U);
        EXPECT_EQ(page.connections_in_host.get(), 2U);  // both ends are in this process
        EXPECT_EQ(page.connections_between_hosts.get(), 0U);
        EXPECT_GE(page.registered_bytes.get(), received.size());
        EXPECT_GE(page.registration_hits.get(), hits + 1);
        EXPECT_GT(page.least_credits.get(), 0U);
        EXPECT_LT(page.least_credits.get(), 1000U);
    }
    EXPECT_EQ(page.connections_in_host.get(), 0U);
    EXPECT_EQ(page.unexpected_now.get(), 0U);
    EXPECT_EQ(page.least_credits.get(), 0U);
}

TEST_F(DeviceTest, AMultiReceiveTellsOfItsLastMessage) {
    Place one(device_);
    Place two(device_);
    const Peer to_two = one.book->insert(two.endpoint->name());
    (void)two.book->insert(one.endpoint->name());
    std::vector<std::byte> buffer(10'000);
    const iovec piece{buffer.data(), buffer.size()};
    ReceiveOrder order;
    order.space = Space::Message;
    order.flags = order_multi_receive;
    order.pieces = {&piece, 1};
    order.least_free = 2000;
    order.cookie.context = &buffer;
    const auto sent = pattern(3000, 7);
    for (int round = 0; round < 2; ++round) {
        // First into a buffer that waits, then into one that comes later.
        if (round == 0) {
            ASSERT_EQ(two.endpoint->receive(order), Posted::UnderWay);
        }
        for (int i = 0; i < 3; ++i) {
            const iovec message{const_cast<std::byte*>(sent.data()), sent.size()};
            SendOrder send;
            send.to = to_two;
            send.space = Space::Message;
            send.pieces = {&message, 1};
            send.cookie.context = &two;
            ASSERT_NE(one.endpoint->send(send), Posted::Again);
        }
        if (round == 1) {
            const int word = 5;
            int got = 0;
            ASSERT_EQ(two.receive(any_peer, &got, sizeof got, 1), Posted::UnderWay);
            ASSERT_NE(one.send(to_two, &word, sizeof word, 1), Posted::Again);
            EXPECT_EQ(two.wait_for(Happened::Received).length, sizeof got);
            ASSERT_EQ(two.endpoint->receive(order), Posted::UnderWay);
        }
        for (std::size_t i = 0; i < 3; ++i) {
            const Completion completion = two.wait_for(Happened::Received);
            EXPECT_EQ(completion.length, sent.size());
            EXPECT_EQ(completion.buffer, buffer.data() + i * sent.size());
            EXPECT_EQ(completion.last_of_buffer, i == 2);
        }
    }
}

TEST_F(DeviceTest, APeerMayGetItsNumberAfterItConnected) {
    Place one(device_);
    Place two(device_);
    const Peer to_two = one.book->insert(two.endpoint->name());
    const std::uint64_t sent = 42;
    ASSERT_NE(one.send(to_two, &sent, sizeof sent, 1), Posted::Invalid);
    ASSERT_TRUE(two.until([&] {
        ReceiveOrder look;
        look.tag = 1;
        return two.endpoint->peek(look, Peek::Look).has_value();
    }));
    const Peer to_one = two.book->insert(one.endpoint->name());
    std::uint64_t received = 0;
    ASSERT_EQ(two.receive(to_one, &received, sizeof received, 1), Posted::UnderWay);
    const Completion completion = two.wait_for(Happened::Received);
    EXPECT_EQ(completion.source, to_one);
    EXPECT_EQ(received, sent);
}

TEST_F(DeviceTest, NobodyThereIsToldWithinTheTimeout) {
    Place one(device_);
    HostPort nobody = Place::loopback();
    nobody.port = 1;
    const Peer peer = one.book->insert(nobody);
    const int word = 5;
    ASSERT_EQ(one.send(peer, &word, sizeof word, 1), Posted::UnderWay);
    EXPECT_EQ(one.wait_for(Happened::Sent).status, Status::PeerLost);
}

TEST_F(DeviceTest, ATakenPortIsRefusedWithItsNumber) {
    Place one(device_);
    Device::EndpointOptions options;
    options.name = one.endpoint->name();
    const auto second = device_->create_endpoint(options);
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().sentence.find(std::to_string(options.name.port)), std::string::npos);
}

}  // namespace
}  // namespace via::mvich
