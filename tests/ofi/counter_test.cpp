// SPDX-License-Identifier: BSD-3-Clause
// Counters, with and without a queue.
#include <array>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

Open<fid_cntr> open_counter(Node& node) {
    fi_cntr_attr attributes{};
    attributes.events = FI_CNTR_EVENTS_COMP;
    attributes.wait_obj = node.wish.counter_wait;
    fid_cntr* opened = nullptr;
    check(fi_cntr_open(node.domain.get(), &attributes, &opened, nullptr), "fi_cntr_open");
    return Open<fid_cntr>(opened);
}

void expect_value(fid_cntr* counter, std::uint64_t value, Node& other) {
    const auto deadline = via::base::Deadline::after_milliseconds(20'000);
    while (fi_cntr_read(counter) < value && !deadline.expired())
        other.progress();
    EXPECT_EQ(fi_cntr_read(counter), value);
}

}  // namespace

TEST(Counter, CountsWhatItIsBoundTo) {
    Pair pair;
    const auto sends = open_counter(pair.a);
    const auto writes = open_counter(pair.a);
    const auto receives = open_counter(pair.b);
    check(fi_ep_bind(pair.a.ep.get(), &sends->fid, FI_SEND), "bind");
    check(fi_ep_bind(pair.a.ep.get(), &writes->fid, FI_WRITE | FI_READ), "bind");
    check(fi_ep_bind(pair.b.ep.get(), &receives->fid, FI_RECV), "bind");
    std::array<char, 64> memory{};
    const auto region = pair.b.expose(memory.data(), memory.size(), 1);
    char byte = 1;
    char got = 0;
    for (int i = 0; i < 3; ++i) {
        check(fi_recv(pair.b.ep.get(), &got, 1, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
        until_taken(
            pair.a, &pair.b, [&] { return fi_inject(pair.a.ep.get(), &byte, 1, 0); }, "fi_inject");
    }
    until_taken(
        pair.a, &pair.b, [&] { return fi_inject_write(pair.a.ep.get(), &byte, 1, 0, 0, 1); },
        "fi_inject_write");
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_read(pair.a.ep.get(), &got, 1, nullptr, 0, 0, 1, nullptr); }, "fi_read");
    expect_value(receives.get(), 3, pair.a);
    expect_value(sends.get(), 3, pair.b);
    expect_value(writes.get(), 2, pair.b);
    EXPECT_EQ(fi_cntr_readerr(writes.get()), 0U);
    // They are in use as long as the endpoint is.
    EXPECT_EQ(fi_close(&sends->fid), -FI_EBUSY);
    pair.a.ep.reset();
    pair.b.ep.reset();
}

TEST(Counter, ErrorsAreCountedApart) {
    Pair pair;
    const auto writes = open_counter(pair.a);
    check(fi_ep_bind(pair.a.ep.get(), &writes->fid, FI_WRITE), "bind");
    char byte = 1;
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_write(pair.a.ep.get(), &byte, 1, nullptr, 0, 0, 12345, nullptr); },
        "fi_write");
    EXPECT_TRUE(pair.a.next(&pair.b).is_error);
    EXPECT_EQ(fi_cntr_readerr(writes.get()), 1U);
    EXPECT_EQ(fi_cntr_read(writes.get()), 0U);
    pair.a.ep.reset();
}

TEST(Counter, IsSetAndAddedToByTheProgram) {
    Node node;
    const auto counter = open_counter(node);
    check(fi_cntr_set(counter.get(), 10), "set");
    check(fi_cntr_add(counter.get(), 5), "add");
    EXPECT_EQ(fi_cntr_read(counter.get()), 15U);
    check(fi_cntr_seterr(counter.get(), 2), "seterr");
    check(fi_cntr_adderr(counter.get(), 1), "adderr");
    EXPECT_EQ(fi_cntr_readerr(counter.get()), 3U);
    EXPECT_EQ(fi_cntr_wait(counter.get(), 15, 1000), 0);
    EXPECT_EQ(fi_cntr_wait(counter.get(), 16, 1), -FI_ETIMEDOUT);
}

TEST(Counter, AWaitEndsWhenItIsReached) {
    Pair pair;
    const auto receives = open_counter(pair.b);
    check(fi_ep_bind(pair.b.ep.get(), &receives->fid, FI_RECV), "bind");
    char byte = 1;
    char got = 0;
    check(fi_recv(pair.b.ep.get(), &got, 1, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    until_taken(
        pair.a, &pair.b, [&] { return fi_inject(pair.a.ep.get(), &byte, 1, 0); }, "fi_inject");
    EXPECT_EQ(fi_cntr_wait(receives.get(), 1, 20'000), 0);
    pair.b.ep.reset();
}

TEST(Counter, AnEndpointNeedsNoQueueIfItHasCounters) {
    Wish wish;
    wish.caps = FI_RMA;
    Node node(wish, Node::NoEndpoint{});
    const auto counter = open_counter(node);
    node.open_endpoint();
    check(fi_ep_bind(node.ep.get(), &counter->fid, FI_READ | FI_WRITE), "bind");
    check(fi_ep_bind(node.ep.get(), &node.av->fid, 0), "bind");
    check(fi_enable(node.ep.get()), "fi_enable");
    const fi_addr_t self = node.insert(node);
    std::array<char, 8> memory{};
    const auto region = node.expose(memory.data(), memory.size(), 1);
    until_taken(
        node, nullptr,
        [&] { return fi_write(node.ep.get(), "counted", 8, nullptr, self, 0, 1, nullptr); },
        "fi_write");
    EXPECT_EQ(fi_cntr_wait(counter.get(), 1, 20'000), 0);
    EXPECT_STREQ(memory.data(), "counted");
    node.ep.reset();
}
