// SPDX-License-Identifier: BSD-3-Clause
// What a conversation does with its ports: two of them, joined by queues in memory.
#include "na/net/conversation.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <deque>

#include "base/clock.hpp"
#include "na/net/simulated_network.hpp"

namespace via::na::net {
namespace {

using Packets = std::deque<std::vector<std::byte>>;

/// Hands over one packet at a time, as a socket does when they did not come as a train.
class MemoryPort final : public Port {
  public:
    MemoryPort(Packets& to, Packets& from) : to_(to), from_(from) {}
    SendOutcome send(std::span<const iovec> parts, std::uint32_t packet_bytes) override {
        std::size_t bytes = 0;
        for (const iovec& part : parts)
            bytes += part.iov_len;
        std::vector<std::byte> train(bytes);
        gather(parts, train.data());
        for (std::span<const std::byte> rest = train; !rest.empty();) {
            const auto packet = rest.first(std::min<std::size_t>(packet_bytes, rest.size()));
            to_.emplace_back(packet.begin(), packet.end());
            rest = rest.subspan(packet.size());
        }
        return SendOutcome::Sent;
    }
    bool receive(PacketTaker& taker) override {
        if (from_.empty()) return false;
        const std::vector<std::byte> packet = std::move(from_.front());
        from_.pop_front();
        taker.take(packet);
        return true;
    }
    int descriptor() const noexcept override { return -1; }
    std::uint32_t max_packet_bytes() const noexcept override { return 1400; }
    std::uint32_t max_train_bytes() const noexcept override { return 14'000; }

  private:
    Packets& to_;
    Packets& from_;
};

constexpr std::size_t link_count = 2;
constexpr std::uint32_t polls_between_looks_at_all = 16;

struct Side {
    Side(bool first, std::array<Packets, link_count>& out, std::array<Packets, link_count>& in,
         base::Nanoseconds cork = 0)
        : queues(64, 16, 4096) {
        queues.counters = &counters;
        queues.local.reliability = reliable_delivery;
        queues.local.tag = 1;
        links::TransportTerms terms;
        terms.local_token = first ? 1 : 2;
        terms.remote_token = first ? 2 : 1;
        terms.requester = first;
        std::vector<LinkEnd> ends;
        for (std::size_t i = 0; i < link_count; ++i)
            ends.push_back({std::make_unique<MemoryPort>(out[i], in[i]), "link" + std::to_string(i),
                            0, 1400, 1U << 20, false});
        conversation.emplace(queues, test::SimulatedNetwork::rmmt(), terms, std::move(ends), cork,
                             base::monotonic_now());
    }
    void poll() {
        ++polls;
        conversation->poll(true);
    }
    /// A message without data.
    void post(WorkQueue& queue, Operation operation, std::uint32_t bits) {
        const ChainHead head{operation, 0, 0, 0, 0};
        queue.make_room(1);
        queue.post(1, 0, head.chain_pds(), bits);
        queue.pds.push(encode_head(head));
    }
    [[nodiscard]] const links::Link& link(std::size_t index) {
        return conversation->transport().link(index);
    }
    [[nodiscard]] bool is_up() {
        return link(0).state() == links::LinkState::Up && link(1).state() == links::LinkState::Up;
    }

    base::ViCounters counters;
    QueuePair queues;
    std::optional<Conversation> conversation;
    std::uint32_t polls = 0;
};

bool come_up(Side& a, Side& b, const base::Deadline& deadline) {
    while ((!a.is_up() || !b.is_up()) && !deadline.expired()) {
        a.poll();
        b.poll();
    }
    return a.is_up() && b.is_up();
}

/// A process that stood still finds the answers in its sockets. It must not have given up a link
/// before it has read them, though it reads one socket more often than the others. False: this
/// process itself stood still where it matters, so that nothing can be said.
bool reads_before_it_judges(const base::Deadline& deadline) {
    std::array<Packets, link_count> to_a;
    std::array<Packets, link_count> to_b;
    Side a(true, to_b, to_a);
    Side b(false, to_a, to_b);
    if (!come_up(a, b, deadline)) return false;
    b.post(b.queues.receive, Operation::Receive, status_op_receive);
    while (a.polls % polls_between_looks_at_all != 0 || !to_a[0].empty() || !to_a[1].empty() ||
           !to_b[0].empty() || !to_b[1].empty()) {
        if (deadline.expired()) return false;
        b.poll();
        a.poll();
    }

    a.post(a.queues.send, Operation::Send, status_op_send);
    a.conversation->post();
    if (to_b[0].empty() == to_b[1].empty()) return false;
    const std::size_t used = to_b[0].empty() ? 1 : 0;
    const std::size_t other = 1 - used;
    // Something came by the other link last, so that is the one that every poll reads.
    const std::vector<std::byte> nonsense(40);
    to_a[other].push_back(nonsense);
    for (std::uint32_t i = 0; i < polls_between_looks_at_all; ++i)
        a.poll();
    const links::LinkCounters before = a.link(used).counters();
    // Sent again already: the polls took longer than the link waits.
    if (a.link(used).in_flight() == 0 || before.lost_packets != 0) return false;
    EXPECT_TRUE(to_a[other].empty());

    to_a[other].push_back(nonsense);
    while (to_a[used].empty() && to_a[other].size() == 1) {
        if (deadline.expired()) return false;
        b.conversation->poll(false);  // answers at once, if it reads the link at all this time
    }
    while (base::monotonic_now() <= a.link(used).probe_time()) {
        if (deadline.expired()) return false;
        ::poll(nullptr, 0, 1);
    }
    a.poll();
    EXPECT_EQ(a.link(used).counters().timeouts, before.timeouts);
    EXPECT_EQ(a.link(used).counters().lost_packets, before.lost_packets);
    EXPECT_TRUE(a.queues.send.harvestable());
    return true;
}

TEST(Conversation, WhatHasComeIsReadBeforeSilenceCounts) {
    const auto deadline = base::Deadline::after_milliseconds(20'000);
    while (!reads_before_it_judges(deadline))
        ASSERT_FALSE(deadline.expired());
}

/// Both ends of two links, and a program at one of them that posts.
class ConversationThatPosts {
  public:
    explicit ConversationThatPosts(base::Nanoseconds cork)
        : a(true, to_b, to_a, cork),
          b(false, to_a, to_b),
          is_up(come_up(a, b, base::Deadline::after_milliseconds(20'000))) {}
    void post() {
        a.post(a.queues.send, Operation::Send, status_op_send);
        a.conversation->post();
    }

    std::array<Packets, link_count> to_a;
    std::array<Packets, link_count> to_b;
    Side a;
    Side b;
    const bool is_up;
};

/// As long as it posts on, and only then.
TEST(Conversation, AProgramThatPostsOnIsNotMadeToLookAtItsSockets) {
    constexpr base::Nanoseconds for_ever = 3'600'000'000'000;
    ConversationThatPosts ends(for_ever);
    ASSERT_TRUE(ends.is_up);
    const std::vector<std::byte> nonsense(40);
    for (Packets& packets : ends.to_a)
        packets.assign(100, nonsense);
    const auto waiting = [&] { return ends.to_a[0].size() + ends.to_a[1].size(); };
    const auto looks_of_a_poll = [&] {
        const std::size_t before = waiting();
        ends.a.poll();
        return before - waiting();
    };
    ends.post();  // is not answered, so what follows gathers
    ends.post();
    EXPECT_GT(looks_of_a_poll(), 0U) << "the first look after what was sent";
    ends.post();
    for (int quick = 0; quick < 3; ++quick)
        EXPECT_EQ(looks_of_a_poll(), 0U);
    EXPECT_GT(looks_of_a_poll(), 0U) << "it does not post, it waits";
    EXPECT_GT(looks_of_a_poll(), 0U);
    ends.post();
    EXPECT_EQ(looks_of_a_poll(), 0U);
}

/// Reading the clock takes time, so not every post does. What gathers leaves all the same, soon
/// after its time, though nobody polls.
TEST(Conversation, WhatGathersLeavesWithOneOfTheNextPosts) {
    constexpr base::Nanoseconds cork = 1'000'000;
    ConversationThatPosts ends(cork);
    ASSERT_TRUE(ends.is_up);
    ends.post();  // is not answered, so what follows gathers
    ends.post();
    const auto sent = [&] { return ends.to_b[0].size() + ends.to_b[1].size(); };
    const std::size_t before = sent();
    const base::Nanoseconds posted = base::monotonic_now();
    while (base::monotonic_now() <= posted + 2 * cork)
        ::poll(nullptr, 0, 1);
    for (int i = 0; i < 4; ++i)
        ends.post();
    EXPECT_GT(sent(), before);
}

/// What lies in its sockets are acknowledgements, and only the last of them says how far the peer
/// is.
TEST(Conversation, WhoSendsAStreamTakesSeveralPacketsInAPoll) {
    ConversationThatPosts ends(0);
    ASSERT_TRUE(ends.is_up);
    for (Packets& packets : ends.to_a)
        packets.assign(20, std::vector<std::byte>(40));
    const auto taken_by_a_poll = [&] {
        const std::size_t before = ends.to_a[0].size() + ends.to_a[1].size();
        ends.a.conversation->poll(true);
        return before - ends.to_a[0].size() - ends.to_a[1].size();
    };
    EXPECT_LE(taken_by_a_poll(), link_count) << "one of each link, at most";
    // More than may be on the way before the peer has answered.
    std::vector<std::byte> memory(4U << 20U);
    const std::uint32_t handle =
        test::SimulatedNetwork::register_memory(memory.data(), memory.size(), 0);
    const auto bytes = static_cast<std::uint32_t>(memory.size());
    const ChainHead head{Operation::Send, 0, 1, bytes, 0};
    WorkQueue& queue = ends.a.queues.send;
    queue.make_room(2);
    queue.post(1, 0, head.chain_pds(), status_op_send);
    queue.pds.push(encode_head(head));
    queue.pds.push({reinterpret_cast<std::uintptr_t>(memory.data()), bytes, handle});
    ends.a.conversation->post();
    EXPECT_GT(taken_by_a_poll(), 2 * link_count);
    test::SimulatedNetwork::deregister_memory(handle);
}

}  // namespace
}  // namespace via::na::net
