// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/receive_queue.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "mvich/count_allocations.hpp"
#include "na/seeded.hpp"

using namespace via::mvich;
using via::test::Random;
using via::test::repeated;

namespace {

void* context(std::uintptr_t number) {
    return reinterpret_cast<void*>(number);
}

ReceiveOrder receive_of(std::uint64_t tag, Peer from = any_peer, std::uint64_t ignore = 0) {
    ReceiveOrder order;
    order.tag = tag;
    order.from = from;
    order.ignore = ignore;
    return order;
}

UnexpectedMessage message_of(Source& source, std::uint64_t tag, Space space = Space::Tagged) {
    UnexpectedMessage message;
    message.source = &source;
    message.tag = tag;
    message.space = space;
    return message;
}

}  // namespace

TEST(PieceList, ScattersAndGathersAtAnyOffset) {
    for (std::uint64_t seed = 1; seed <= repeated(300); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        std::vector<std::vector<std::byte>> memory(random.below(6));
        std::vector<iovec> pieces;
        std::size_t total = 0;
        for (auto& each : memory) {
            each.resize(random.below(40));
            total += each.size();
            pieces.push_back({each.empty() ? nullptr : each.data(), each.size()});
        }
        const PieceList list(pieces);
        ASSERT_EQ(list.bytes(), total);
        ASSERT_EQ(list.pieces().size(), pieces.size());
        std::vector<std::byte> expected(total, std::byte{0});
        for (int i = 0; i < 20; ++i) {
            const std::size_t offset = random.below(static_cast<std::uint32_t>(total) + 20);
            std::vector<std::byte> bytes(random.below(60));
            via::test::fill_pattern(bytes, random.next());
            const std::size_t fitting =
                offset >= total ? 0 : std::min(bytes.size(), total - offset);
            ASSERT_EQ(list.scatter(offset, bytes), fitting);
            std::copy_n(bytes.begin(), fitting,
                        expected.begin() + static_cast<long>(fitting == 0 ? 0 : offset));
            std::vector<std::byte> there(total + 5);
            ASSERT_EQ(list.gather(0, there), total);
            there.resize(total);
            ASSERT_EQ(there, expected);
            std::vector<std::byte> part(bytes.size());
            ASSERT_EQ(list.gather(offset, part), fitting);
            ASSERT_TRUE(
                std::equal(part.begin(), part.begin() + static_cast<long>(fitting), bytes.begin()));
        }
    }
}

TEST(PieceList, MayBeUsedAgainWithMoreOrFewerPieces) {
    std::array<std::byte, 4> memory{};
    const std::array<iovec, 4> pieces{
        {{memory.data(), 1}, {memory.data(), 2}, {memory.data(), 3}, {memory.data(), 4}}};
    PieceList list;
    for (const std::size_t count : {4U, 1U, 3U, 2U, 0U, 4U, 1U}) {
        list.assign(std::span(pieces).first(count));
        ASSERT_EQ(list.pieces().size(), count);
        std::uint64_t bytes = 0;
        for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(list.pieces()[i].iov_len, pieces[i].iov_len);
            bytes += pieces[i].iov_len;
        }
        EXPECT_EQ(list.bytes(), bytes);
    }
}

TEST(ReceiveQueue, TheOldestReceiveThatFitsTakesTheMessage) {
    ReceiveQueue queue;
    PostedReceive& other_tag = queue.post(receive_of(7));
    PostedReceive& other_peer = queue.post(receive_of(8, 2));
    PostedReceive& first = queue.post(receive_of(8, 1));
    PostedReceive& second = queue.post(receive_of(0, any_peer, ~std::uint64_t{0}));
    EXPECT_EQ(queue.match(Space::Tagged, 8, 1), &first);
    EXPECT_EQ(queue.match(Space::Tagged, 8, 1), &second);
    EXPECT_EQ(queue.match(Space::Tagged, 8, 1), nullptr);
    EXPECT_EQ(queue.match(Space::Message, 7, 1), nullptr);
    EXPECT_EQ(queue.posted_count(), 2U);
    EXPECT_EQ(queue.match(Space::Tagged, 8, 2), &other_peer);
    EXPECT_EQ(queue.match(Space::Tagged, 7, unknown_peer), &other_tag);
    EXPECT_EQ(queue.posted_count(), 0U);
    EXPECT_EQ(queue.first_posted(Space::Tagged), nullptr);
}

TEST(ReceiveQueue, ASourceThatBecomesKnownIsFoundByItsNumber) {
    ReceiveQueue queue;
    Source source;
    UnexpectedMessage& message = queue.add(message_of(source, 5));
    EXPECT_EQ(queue.find(receive_of(5, 3)), nullptr);
    EXPECT_EQ(queue.find(receive_of(5)), &message);
    source.peer = 3;
    EXPECT_EQ(queue.find(receive_of(5, 3)), &message);
}

TEST(ReceiveQueue, AClaimedMessageIsForItsClaimantOnly) {
    ReceiveQueue queue;
    Source source{1};
    UnexpectedMessage& first = queue.add(message_of(source, 5));
    UnexpectedMessage& second = queue.add(message_of(source, 5));
    int claimant = 0;
    EXPECT_EQ(queue.find_claimed(&claimant), nullptr);
    first.claimed_by = &claimant;
    EXPECT_EQ(queue.find(receive_of(5)), &second);
    EXPECT_EQ(queue.find_claimed(&claimant), &first);
    EXPECT_EQ(queue.find_claimed(nullptr), nullptr);
    queue.remove(first);
    EXPECT_EQ(queue.find_claimed(&claimant), nullptr);
    EXPECT_EQ(queue.unexpected_count(), 1U);
}

TEST(ReceiveQueue, AMultiReceiveStaysUntilTooLittleIsLeft) {
    ReceiveQueue queue;
    std::array<std::byte, 100> buffer{};
    const iovec piece{buffer.data(), buffer.size()};
    ReceiveOrder order;
    order.space = Space::Message;
    order.flags = order_multi_receive;
    order.pieces = {&piece, 1};
    order.least_free = 30;
    PostedReceive& receive = queue.post(order);
    EXPECT_EQ(queue.match(Space::Message, 0, 1), &receive);
    EXPECT_EQ(queue.use_of(receive, 40), 0U);
    EXPECT_EQ(queue.match(Space::Message, 0, 2), &receive);
    EXPECT_EQ(queue.use_of(receive, 30), 40U);
    EXPECT_FALSE(receive.spent);  // exactly least_free is left
    EXPECT_EQ(queue.use_of(receive, 1), 70U);
    EXPECT_TRUE(receive.spent);
    EXPECT_EQ(receive.used, 71U);
    EXPECT_EQ(queue.match(Space::Message, 0, 1), nullptr);
    EXPECT_EQ(queue.posted_count(), 0U);
    queue.destroy(&receive);

    order.least_free = 0;
    PostedReceive& whole = queue.post(order);
    EXPECT_FALSE(whole.spent);
    EXPECT_EQ(queue.use_of(whole, 1000), 0U);  // it will be truncated
    EXPECT_EQ(whole.used, 100U);
    EXPECT_TRUE(whole.spent);
    EXPECT_EQ(queue.posted_count(), 0U);
}

TEST(ReceiveQueue, AReceiveForOneMessageIsLeftAloneWhenItIsFilled) {
    ReceiveQueue queue;
    std::array<std::byte, 8> buffer{};
    const iovec piece{buffer.data(), buffer.size()};
    ReceiveOrder order = receive_of(1);
    order.pieces = {&piece, 1};
    PostedReceive& waits = queue.post(order);
    // It is in no queue, so it must not be taken out of one.
    PostedReceive* alone = queue.make(order);
    EXPECT_EQ(queue.use_of(*alone, buffer.size()), 0U);
    EXPECT_EQ(queue.posted_count(), 1U);
    EXPECT_EQ(queue.first_posted(Space::Tagged), &waits);
    EXPECT_EQ(queue.match(Space::Tagged, 1, 0), &waits);
    EXPECT_EQ(queue.use_of(waits, buffer.size()), 0U);
    EXPECT_EQ(queue.posted_count(), 0U);
    queue.destroy(alone);
    queue.destroy(&waits);
}

TEST(ReceiveQueue, AMultiReceiveCountsWhatIsUnderWayInIt) {
    ReceiveQueue queue;
    std::array<std::byte, 100> buffer{};
    const iovec piece{buffer.data(), buffer.size()};
    ReceiveOrder order;
    order.space = Space::Message;
    order.flags = order_multi_receive;
    order.pieces = {&piece, 1};
    order.cookie.context = &queue;
    PostedReceive& receive = queue.post(order);
    EXPECT_EQ(queue.use_of(receive, 40), 0U);
    EXPECT_EQ(queue.use_of(receive, 10), 40U);
    EXPECT_EQ(receive.messages, 2U);
    EXPECT_EQ(queue.cancel(&queue), nullptr);
    receive.messages = 0;
    EXPECT_EQ(queue.cancel(&queue), &receive);
}

TEST(ReceiveQueue, CancelTakesTheOldestThatHoldsNoMessages) {
    ReceiveQueue queue;
    ReceiveOrder order = receive_of(1);
    order.cookie.context = &queue;
    order.flags = order_multi_receive;
    PostedReceive& busy = queue.post(order);
    order.flags = 0;
    PostedReceive& first = queue.post(order);
    PostedReceive& second = queue.post(order);
    busy.messages = 1;
    EXPECT_EQ(queue.cancel(nullptr), nullptr);
    EXPECT_EQ(queue.cancel(&queue), &first);
    EXPECT_EQ(queue.cancel(&queue), &second);
    EXPECT_EQ(queue.cancel(&queue), nullptr);
    EXPECT_EQ(queue.posted_count(), 1U);
    EXPECT_EQ(queue.first_posted(Space::Tagged), &busy);
}

TEST(ReceiveQueue, MessagesOfOneSourceCanBeRemovedWhileVisited) {
    ReceiveQueue queue;
    Source lost{1};
    Source alive{2};
    for (std::uint64_t i = 0; i < 10; ++i) {
        queue.add(message_of(lost, i, i % 2 == 0 ? Space::Tagged : Space::Message));
        queue.add(message_of(alive, i, i % 2 == 0 ? Space::Tagged : Space::Message));
    }
    int visited = 0;
    queue.visit_unexpected_of(lost, [&](UnexpectedMessage& message) {
        ++visited;
        queue.remove(message);
    });
    EXPECT_EQ(visited, 10);
    EXPECT_EQ(queue.unexpected_count(), 10U);
    queue.visit_unexpected_of(lost, [&](UnexpectedMessage&) { ADD_FAILURE(); });
}

TEST(ReceiveQueue, AllocatesNothingAfterItHasGrown) {
    ReceiveQueue queue;
    Source source{1};
    std::array<std::byte, 8> memory{};
    const std::array<iovec, 3> pieces{{{memory.data(), 1}, {memory.data(), 2}, {memory.data(), 3}}};
    std::vector<PostedReceive*> taken;
    taken.reserve(100);
    const auto round = [&] {
        for (std::uint64_t i = 0; i < 100; ++i) {
            ReceiveOrder order = receive_of(i);
            order.pieces = pieces;
            queue.post(order);
            queue.add(message_of(source, i));
        }
        for (std::uint64_t i = 0; i < 100; ++i) {
            taken.push_back(queue.match(Space::Tagged, 99 - i, 1));
            queue.remove(*queue.find(receive_of(i)));
        }
        // Last in, first out: the same nodes serve the next round.
        while (!taken.empty()) {
            queue.destroy(taken.back());
            taken.pop_back();
        }
    };
    round();
    round();
    // Which node has room for three pieces depends on the round; all have after these two.
    round();
    const std::uint64_t before = via::test::allocations();
    round();
    EXPECT_EQ(via::test::allocations(), before);
}

// Against the simplest thing that can be right: vectors that are searched from the front.
TEST(ReceiveQueue, MatchesAsAModelDoes) {
    struct ModelReceive {
        std::uintptr_t number;
        ReceiveOrder order;
    };
    struct ModelMessage {
        std::uint64_t number;
        Space space;
        std::uint64_t tag;
        Peer peer;
        void* claimed_by;
    };
    const auto agree = [](const ReceiveOrder& order, std::uint64_t tag, Peer peer) {
        for (unsigned bit = 0; bit < 64; ++bit) {
            const bool counts = (order.ignore >> bit & 1) == 0;
            if (counts && (order.tag >> bit & 1) != (tag >> bit & 1)) return false;
        }
        return order.from == any_peer || order.from == peer;
    };
    for (std::uint64_t seed = 1; seed <= repeated(200); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        ReceiveQueue queue;
        std::array<Source, 4> sources{{{0}, {1}, {2}, {unknown_peer}}};
        std::vector<ModelReceive> receives;
        std::vector<ModelMessage> messages;
        std::uintptr_t number = 0;
        const auto random_tag = [&] {
            return std::uint64_t{random.below(3)} << 60 | random.below(3);
        };
        const auto random_order = [&] {
            ReceiveOrder order;
            order.space = random.one_in(4) ? Space::Message : Space::Tagged;
            order.from = random.one_in(3) ? any_peer : random.below(3);
            order.tag = random_tag();
            order.ignore = random.one_in(2) ? 0 : random_tag();
            return order;
        };
        for (int step = 0; step < 400; ++step) {
            switch (random.below(6)) {
                case 0:
                case 1: {  // a receive
                    ReceiveOrder order = random_order();
                    const auto expected = std::find_if(
                        messages.begin(), messages.end(), [&](const ModelMessage& message) {
                            return message.claimed_by == nullptr && message.space == order.space &&
                                   agree(order, message.tag, message.peer);
                        });
                    UnexpectedMessage* found = queue.find(order);
                    ASSERT_EQ(found != nullptr, expected != messages.end());
                    if (found != nullptr) {
                        ASSERT_EQ(found->id, expected->number);
                        if (random.one_in(3)) {
                            found->claimed_by = expected->claimed_by = context(expected->number);
                        } else {
                            queue.remove(*found);
                            messages.erase(expected);
                        }
                    } else {
                        order.cookie.context = context(++number);
                        queue.post(order);
                        receives.push_back({number, order});
                    }
                    break;
                }
                case 2:
                case 3: {  // a message
                    const ReceiveOrder like = random_order();
                    Source& source = sources[random.below(4)];
                    const auto expected = std::find_if(
                        receives.begin(), receives.end(), [&](const ModelReceive& receive) {
                            return receive.order.space == like.space &&
                                   agree(receive.order, like.tag, source.peer);
                        });
                    PostedReceive* found = queue.match(like.space, like.tag, source.peer);
                    ASSERT_EQ(found != nullptr, expected != receives.end());
                    if (found != nullptr) {
                        ASSERT_EQ(found->cookie.context, context(expected->number));
                        queue.destroy(found);
                        receives.erase(expected);
                    } else {
                        UnexpectedMessage message = message_of(source, like.tag, like.space);
                        message.id = ++number;
                        queue.add(message);
                        messages.push_back({number, like.space, like.tag, source.peer, nullptr});
                    }
                    break;
                }
                case 4: {  // cancel
                    if (receives.empty()) break;
                    const std::size_t victim =
                        random.below(static_cast<std::uint32_t>(receives.size()));
                    PostedReceive* found = queue.cancel(context(receives[victim].number));
                    ASSERT_NE(found, nullptr);
                    queue.destroy(found);
                    receives.erase(receives.begin() + static_cast<long>(victim));
                    break;
                }
                default: {  // take what was claimed
                    const auto claimed = std::find_if(
                        messages.begin(), messages.end(),
                        [](const ModelMessage& message) { return message.claimed_by != nullptr; });
                    if (claimed == messages.end()) break;
                    UnexpectedMessage* found = queue.find_claimed(claimed->claimed_by);
                    ASSERT_NE(found, nullptr);
                    ASSERT_EQ(found->id, claimed->number);
                    queue.remove(*found);
                    messages.erase(claimed);
                    break;
                }
            }
            ASSERT_EQ(queue.posted_count(), receives.size());
            ASSERT_EQ(queue.unexpected_count(), messages.size());
        }
    }
}
