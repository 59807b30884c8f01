// SPDX-License-Identifier: BSD-3-Clause
// Messages of all kinds between two ends, by seed: every one arrives once, whole and in order,
// whatever the protocol, however few credits and vbufs there are. A failure prints its seed.
#include <algorithm>
#include <numeric>
#include <string>

#include "simulated_pair.hpp"

namespace via::mvich::test {
namespace {

/// Sizes around the limits of packets and RDMA, and everything between.
[[nodiscard]] std::size_t random_size(Random& random) {
    switch (below(random, 6)) {
        case 0:
            return 0;
        case 1:
            return below(random, 64);
        case 2:
            return 4000 + below(random, 200);
        case 3:
            return below(random, 9000);
        case 4:
            return below(random, 70'000);
        default:
            return below(random, 1000);
    }
}

[[nodiscard]] std::byte content(std::uint64_t message, std::size_t at) {
    return static_cast<std::byte>(message * 131 + at * 7 + (at >> 8));
}

struct Sent {
    std::uint64_t tag;
    std::vector<std::byte> bytes;
    std::vector<iovec> pieces;
    int done = 0;
    bool silent = false;
};

struct Waiting {
    std::uint64_t tag;
    std::uint64_t ignore;
    std::vector<std::byte> buffer;
    std::int64_t got = -1;  ///< number of the message
};

constexpr std::uint64_t tag_count = 3;

class Traffic {
  public:
    Traffic(std::uint64_t seed, const PairOptions& options, std::size_t messages)
        : pair_(seed, options), messages_(messages) {
        for (int end = 0; end < 2; ++end) {
            sent_[end].reserve(messages);
            posted_[end].reserve(messages);
        }
    }

    void run() {
        std::size_t steps = 0;
        while (!finished() && steps++ < 4'000'000) {
            for (int end = 0; end < 2; ++end) {
                if (below(pair_.random, 4) == 0) send(end);
                if (below(pair_.random, 4) == 0) receive(end);
            }
            const std::uint64_t rounds = below(pair_.random, 6);
            for (std::uint64_t i = 0; i < rounds; ++i)
                pair_.step();
            take_completions();
        }
        ASSERT_TRUE(finished()) << "stuck";
        pair_.settle();
        take_completions();
        check();
    }

  private:
    [[nodiscard]] bool finished() const {
        for (int end = 0; end < 2; ++end) {
            if (posted_[end].size() < messages_ || received_[end] < messages_) return false;
            for (const Sent& sent : sent_[end])
                if (sent.done == 0 && !sent.silent) return false;
        }
        return true;
    }

    void send(int end) {
        auto& sent = sent_[end];
        if (sent.size() == messages_) return;
        const std::uint64_t number = sent.size();
        Sent message;
        message.tag = below(pair_.random, tag_count);
        message.bytes.resize(random_size(pair_.random));
        for (std::size_t i = 0; i < message.bytes.size(); ++i)
            message.bytes[i] = content(number, i);
        SendOrder order;
        order.to = 0;
        order.tag = message.tag;
        order.data = number;
        order.flags = order_has_data;
        if (below(pair_.random, 5) == 0) order.flags |= order_delivered;
        if (below(pair_.random, 20) == 0) order.flags |= order_fence;
        const bool inject = message.bytes.size() <= 4096 && below(pair_.random, 4) == 0;
        if (inject) order.flags |= order_inject;
        const std::size_t cut = below(pair_.random, 3) == 0 ? below(pair_.random, message.bytes.size() + 1) : 0;
        if (cut != 0) message.pieces.push_back({message.bytes.data(), cut});
        message.pieces.push_back({message.bytes.data() + cut, message.bytes.size() - cut});
        order.pieces = message.pieces;
        order.cookie.context = reinterpret_cast<void*>(number + 1);
        const Posted posted = pair_.ends[end].conversation->send(order);
        if (posted == Posted::Again) return;
        ASSERT_TRUE(posted == Posted::Done || posted == Posted::UnderWay);
        message.done = posted == Posted::Done ? 1 : 0;
        message.silent = inject;
        sent.push_back(std::move(message));
        if (inject) std::ranges::fill(sent.back().bytes, std::byte{0xEE});
        if (below(pair_.random, 2) == 0) pair_.ends[end].conversation->flush();
    }

    void receive(int end) {
        auto& posted = posted_[end];
        // The last receives take anything, so that all messages find one.
        if (posted.size() == messages_) return;
        Waiting receive;
        receive.tag = below(pair_.random, tag_count);
        receive.ignore = 3;
        if (posted.size() < messages_ / 2 && below(pair_.random, 2) == 0) {
            // One tag may have fewer messages than receives, so only as many as were sent.
            const auto has_tag = [&](const auto& each) { return each.tag == receive.tag; };
            const auto wanted = [&](const Waiting& each) {
                return each.tag == receive.tag && each.ignore == 0;
            };
            const auto there = std::ranges::count_if(sent_[1 - end], has_tag);
            const auto asked = std::ranges::count_if(posted, wanted);
            std::int64_t taken_by_any = 0;
            for (const Waiting& each : posted)
                taken_by_any += each.ignore != 0;
            if (asked + taken_by_any < there) receive.ignore = 0;
        }
        receive.buffer.assign(75'000, std::byte{0});
        posted.push_back(std::move(receive));
        ReceiveOrder order;
        order.tag = posted.back().tag;
        order.ignore = posted.back().ignore;
        const iovec piece{posted.back().buffer.data(), posted.back().buffer.size()};
        order.pieces = {&piece, 1};
        order.cookie.context = reinterpret_cast<void*>(posted.size());
        SimulatedEnd& own = pair_.ends[end];
        UnexpectedMessage* message = own.receives.find(order);
        if (message == nullptr) {
            own.receives.post(order);
            return;
        }
        const UnexpectedMessage taken = *message;
        own.receives.remove(*message);
        own.conversation->receive(taken, *own.receives.make(order));
    }

    void take_completions() {
        for (int end = 0; end < 2; ++end) {
            for (const Completion& completion : pair_.ends[end].completions) {
                ASSERT_EQ(completion.status, Status::Ok);
                const auto number = reinterpret_cast<std::uint64_t>(completion.cookie.context) - 1;
                if (completion.what == Happened::Sent) {
                    ASSERT_LT(number, sent_[end].size());
                    ++sent_[end][number].done;
                    continue;
                }
                ASSERT_EQ(completion.what, Happened::Received);
                Waiting& receive = posted_[end][number];
                ASSERT_EQ(receive.got, -1) << "a receive is done twice";
                ASSERT_TRUE(completion.has_data);
                receive.got = static_cast<std::int64_t>(completion.data);
                ++received_[end];
                const Sent& sent = sent_[1 - end][completion.data];
                ASSERT_EQ(completion.tag, sent.tag);
                ASSERT_EQ(completion.length, sent.bytes.size());
                for (std::size_t i = 0; i < sent.bytes.size(); ++i)
                    ASSERT_EQ(receive.buffer[i], content(completion.data, i)) << "byte " << i;
                receive.buffer = {};
            }
            pair_.ends[end].completions.clear();
        }
    }

    void check() {
        for (int end = 0; end < 2; ++end) {
            for (const Sent& sent : sent_[end])
                ASSERT_EQ(sent.done, 1);
            // Nobody overtakes: of two receives that fit two messages of one tag, the earlier one
            // has the earlier message.
            const auto& posted = posted_[end];
            for (std::size_t early = 0; early < posted.size(); ++early)
                for (std::size_t late = early + 1; late < posted.size(); ++late) {
                    const auto a = static_cast<std::size_t>(posted[early].got);
                    const auto b = static_cast<std::size_t>(posted[late].got);
                    const std::uint64_t tag = sent_[1 - end][a].tag;
                    const bool both_fit = tag == sent_[1 - end][b].tag;
                    if (both_fit) {
                        ASSERT_LT(a, b);
                    }
                }
            SimulatedEnd& own = pair_.ends[end];
            EXPECT_EQ(own.conversation->under_way(), 0U);
            EXPECT_EQ(own.conversation->credits().in_use(), 0U);
            EXPECT_EQ(own.vbufs->in_use(), 0U);
            EXPECT_EQ(own.receives.posted_count(), 0U);
            EXPECT_EQ(own.receives.unexpected_count(), 0U);
        }
    }

    SimulatedPair pair_;
    const std::size_t messages_;
    std::vector<Sent> sent_[2];
    std::vector<Waiting> posted_[2];
    std::size_t received_[2] = {0, 0};
};

[[nodiscard]] PairOptions random_options(std::uint64_t seed) {
    Random random(seed * 7919 + 1);
    PairOptions options;
    MessageSettings& settings = options.settings;
    constexpr std::uint32_t credits[] = {1, 2, 3, 8, 32};
    settings.credits = credits[below(random, 5)];
    settings.credit_preserve = 1 + static_cast<std::uint32_t>(below(random, settings.credits));
    settings.vbuf_bytes = 8192;
    settings.vbufs_per_region = 8;
    options.in_place = below(random, 2) == 0;
    // Few vbufs are enough where packets are seen in place; else those that are posted must exist.
    settings.vbuf_regions = options.in_place && below(random, 3) == 0 ? 1 : 64;
    settings.cache_entries = static_cast<std::uint32_t>(below(random, 3));
    settings.protocol.eager_bytes = below(random, 2) == 0 ? 4096 : 200;
    settings.protocol.rdma_bytes = below(random, 2) == 0 ? 16'384 : 300;
    switch (below(random, 6)) {
        case 0:
            settings.protocol.forced = Protocol::Eager;
            break;
        case 1:
            settings.protocol.forced = Protocol::R3;
            break;
        case 2:
            settings.protocol.forced = Protocol::Rget;
            break;
        case 3:
            settings.protocol.forced = Protocol::Rput;
            break;
        default:
            break;
    }
    options.packet_bytes = options.in_place && below(random, 2) == 0 ? 16'576 : 8192;
    options.room = 1 + static_cast<std::uint32_t>(below(random, 8));
    options.refusals_percent = below(random, 3) == 0 ? 30 : 0;
    return options;
}

class ConversationSimulation : public testing::TestWithParam<int> {};

TEST_P(ConversationSimulation, EveryMessageArrivesOnceWholeAndInOrder) {
    constexpr std::uint64_t seeds_per_test = 50;
    for (std::uint64_t i = 0; i < seeds_per_test; ++i) {
        const std::uint64_t seed = static_cast<std::uint64_t>(GetParam()) * seeds_per_test + i;
        SCOPED_TRACE("seed " + std::to_string(seed));
        Traffic traffic(seed, random_options(seed), 40);
        traffic.run();
        if (testing::Test::HasFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ConversationSimulation, testing::Range(0, 20));

}  // namespace
}  // namespace via::mvich::test
