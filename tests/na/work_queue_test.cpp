// SPDX-License-Identifier: BSD-3-Clause
#include "na/work_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "na/seeded.hpp"

using namespace via::na;
using via::test::Random;
using via::test::repeated;

namespace {

void post_chain(WorkQueue& queue, std::uint64_t cookie, std::uint16_t segments) {
    const ChainHead head{Operation::Send, 0, segments, segments,
                         static_cast<std::uint32_t>(cookie)};
    queue.post(cookie, static_cast<std::uint32_t>(cookie ^ 0x55), head.chain_pds(), status_op_send);
    queue.pds.push(encode_head(head));
    for (std::uint16_t i = 0; i < segments; ++i)
        queue.pds.push({cookie, i, 0});
}

void post_failed(WorkQueue& queue, std::uint64_t cookie) {
    queue.post(cookie, 0, 0, status_op_send);
    queue.complete(queue.posted() - 1, status_format, 0);
}

TEST(WorkQueue, IsFullAtItsLimitOnly) {
    WorkQueue queue(8, 2, 20);
    for (std::uint64_t i = 0; i < 20; ++i) {
        EXPECT_FALSE(queue.full());
        post_chain(queue, i, 1);
    }
    EXPECT_TRUE(queue.full());
    queue.complete(queue.start(), 0, 1);
    EXPECT_TRUE(queue.full()) << "done, but not taken back";
    queue.harvest();
    EXPECT_TRUE(queue.full());
    EXPECT_EQ(queue.reap().cookie, 0U);
    EXPECT_FALSE(queue.full());
}

TEST(WorkQueue, IsSeenToCompleteInPostOrder) {
    WorkQueue queue(8, 2, 100);
    for (std::uint64_t i = 0; i < 3; ++i)
        post_chain(queue, 100 + i, 0);
    for (int i = 0; i < 3; ++i)
        [[maybe_unused]] const std::uint64_t number = queue.start();
    queue.complete(2, 0, 22);
    queue.complete(1, status_transport, 11);
    EXPECT_FALSE(queue.harvestable());
    queue.complete(0, 0, 10, 77);
    for (std::uint64_t i = 0; i < 3; ++i) {
        ASSERT_TRUE(queue.harvestable());
        EXPECT_FALSE(queue.reapable());
        const WorkEntry& entry = queue.harvest();
        EXPECT_EQ(entry.cookie, 100 + i);
        ASSERT_TRUE(queue.reapable());
        EXPECT_EQ(&queue.reap(), &entry);
    }
    EXPECT_TRUE(queue.empty());
    EXPECT_FALSE(queue.harvestable());
}

TEST(WorkQueue, CompletionCarriesOperationAndDone) {
    WorkQueue queue(8, 2, 100);
    queue.post(1, 2, 1, status_op_rdma_read);
    queue.complete(0, status_transport | status_immediate, 5, 6);
    const WorkEntry& entry = queue.harvest();
    EXPECT_EQ(entry.status,
              status_done | status_transport | status_immediate | status_op_rdma_read);
    EXPECT_EQ(entry.length, 5U);
    EXPECT_EQ(entry.immediate, 6U);
    EXPECT_EQ(entry.cookie_handle, 2U);
}

TEST(WorkQueue, PassesOverEntriesThatFailedAtPost) {
    WorkQueue queue(8, 2, 100);
    post_failed(queue, 1);
    EXPECT_FALSE(queue.has_work());
    post_failed(queue, 2);
    post_chain(queue, 3, 2);
    post_failed(queue, 4);
    EXPECT_TRUE(queue.has_work());
    EXPECT_EQ(queue.start(), 2U);
    EXPECT_TRUE(queue.pds.empty());
    EXPECT_FALSE(queue.has_work());
}

// Entries that failed at post may be taken back before the NIC agent ever looked; their places in
// the ring belong to others by then.
TEST(WorkQueue, KnowsTheNextEntryAfterManyThatFailedAtPost) {
    for (std::uint64_t failed = 0; failed < 40; ++failed) {
        SCOPED_TRACE(failed);
        WorkQueue queue(8, 2, 100);
        for (std::uint64_t i = 0; i < failed; ++i) {
            post_failed(queue, i);
            queue.harvest();
            queue.reap();
        }
        post_chain(queue, 1000, 1);
        ASSERT_TRUE(queue.has_work());
        EXPECT_EQ(queue.start(), failed);
        EXPECT_FALSE(queue.has_work()) << "it was started already";
        // While it is under way the queue grows.
        for (std::uint64_t i = 0; i < 50; ++i)
            post_chain(queue, 2000 + i, 0);
        queue.complete(failed, 0, 1);
        ASSERT_TRUE(queue.harvestable());
        EXPECT_EQ(queue.harvest().cookie, 1000U);
    }
}

TEST(WorkQueue, FlushCompletesWhatIsNotDone) {
    WorkQueue queue(8, 2, 100);
    for (std::uint64_t i = 0; i < 30; ++i)
        post_chain(queue, i, 3);
    for (int i = 0; i < 5; ++i)
        [[maybe_unused]] const std::uint64_t number = queue.start();
    queue.complete(1, 0, 3);
    queue.complete(3, status_length, 3);
    EXPECT_TRUE(queue.pending());
    queue.flush();
    EXPECT_FALSE(queue.pending());
    EXPECT_FALSE(queue.has_work());
    EXPECT_FALSE(queue.has_unstarted());
    for (std::uint64_t i = 0; i < 30; ++i) {
        ASSERT_TRUE(queue.harvestable());
        const WorkEntry& entry = queue.harvest();
        EXPECT_EQ(entry.cookie, i);
        const std::uint32_t expected = i == 1 ? 0 : i == 3 ? status_length : status_flushed;
        EXPECT_EQ(entry.status & status_error_mask, expected) << i;
        queue.reap();
    }
    // And it goes on as new.
    post_chain(queue, 99, 1);
    EXPECT_TRUE(queue.has_work());
    EXPECT_EQ(queue.start(), 30U);
    EXPECT_FALSE(queue.has_unstarted());
}

TEST(WorkQueue, AnEntryThatWasTakenAtPostIsNoWorkAndCompletesInItsTurn) {
    WorkQueue queue(8, 2, 100);
    post_failed(queue, 1);
    EXPECT_EQ(queue.post_taken(2, 7, status_op_send), 1U);
    EXPECT_FALSE(queue.has_work());
    EXPECT_FALSE(queue.has_unstarted());
    EXPECT_TRUE(queue.pending());
    post_chain(queue, 3, 1);
    ASSERT_TRUE(queue.has_work());
    EXPECT_EQ(queue.start(), 2U);
    queue.complete(2, 0, 30);
    queue.complete(1, 0, 20);
    for (const std::uint64_t cookie : {1U, 2U, 3U}) {
        ASSERT_TRUE(queue.harvestable());
        EXPECT_EQ(queue.harvest().cookie, cookie);
        queue.reap();
    }
    EXPECT_TRUE(queue.empty());
}

TEST(WorkQueue, AnEntryThatWasTakenBackWasNeverThere) {
    WorkQueue queue(8, 2, 100);
    post_failed(queue, 1);
    EXPECT_EQ(queue.post_taken(2, 7, status_op_send), 1U);
    queue.take_back();
    EXPECT_EQ(queue.posted(), 1U);
    post_chain(queue, 3, 1);
    ASSERT_TRUE(queue.has_work());
    EXPECT_EQ(queue.start(), 1U);
    EXPECT_EQ(queue.harvest().cookie, 1U);
    queue.complete(1, 0, 30);
    EXPECT_EQ(queue.harvest().cookie, 3U);
}

struct ModelEntry {
    std::uint64_t cookie = 0;
    std::uint16_t segments = 0;
    bool failed_at_post = false;
    bool started = false;
    std::uint32_t status = 0;
    std::uint32_t length = 0;
};

/// The queue against a plain list: everything in any order that user agent and NIC agent may do.
TEST(WorkQueue, BehavesAsAListWhateverTheOrder) {
    for (std::uint64_t seed = 1; seed <= repeated(200); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const std::uint32_t limit = random.between(1, 70);
        WorkQueue queue(random.one_in(2) ? 8 : 64, 4, limit);
        std::deque<ModelEntry> model;  // from reaped on
        std::uint64_t reaped = 0;
        std::size_t harvested = 0;  // of the model
        for (int step = 0; step < 600; ++step) {
            switch (random.below(7)) {
                case 0:
                case 1: {  // post
                    ASSERT_EQ(queue.full(), model.size() >= limit);
                    if (queue.full()) break;
                    ModelEntry entry;
                    entry.cookie = random.next();
                    entry.failed_at_post = random.one_in(3);
                    if (entry.failed_at_post) {
                        post_failed(queue, entry.cookie);
                        entry.status = status_done | status_format;
                    } else if (!queue.has_unstarted() && random.one_in(2)) {
                        const std::uint64_t number =
                            queue.post_taken(entry.cookie, 0, status_op_send);
                        ASSERT_EQ(number, reaped + model.size());
                        if (random.one_in(4)) {
                            queue.take_back();
                            break;
                        }
                        entry.started = true;
                    } else {
                        entry.segments = static_cast<std::uint16_t>(random.below(12));
                        post_chain(queue, entry.cookie, entry.segments);
                    }
                    model.push_back(entry);
                    break;
                }
                case 2: {  // start
                    const auto next = std::find_if(model.begin(), model.end(), [](auto& entry) {
                        return entry.status == 0 && !entry.started;
                    });
                    ASSERT_EQ(queue.has_work(), next != model.end());
                    if (next == model.end()) break;
                    const ChainHead head = decode_head(queue.pds.at(0));
                    ASSERT_EQ(head.segments, next->segments);
                    ASSERT_EQ(head.immediate, static_cast<std::uint32_t>(next->cookie));
                    for (std::uint16_t i = 0; i < head.segments; ++i)
                        ASSERT_EQ(queue.pds.at(1U + i).address, next->cookie);
                    ASSERT_EQ(queue.start(),
                              reaped + static_cast<std::size_t>(next - model.begin()));
                    next->started = true;
                    break;
                }
                case 3: {  // complete one of those under way, whichever
                    std::vector<std::size_t> candidates;
                    for (std::size_t i = 0; i < model.size(); ++i)
                        if (model[i].started && model[i].status == 0) candidates.push_back(i);
                    if (candidates.empty()) break;
                    const std::size_t chosen =
                        candidates[random.below(static_cast<std::uint32_t>(candidates.size()))];
                    const std::uint32_t error = random.one_in(4) ? status_transport : 0;
                    model[chosen].status = status_done | error;
                    model[chosen].length = random.below(1000);
                    queue.complete(reaped + chosen, error, model[chosen].length);
                    break;
                }
                case 4: {  // harvest
                    const bool some = harvested < model.size() && model[harvested].status != 0;
                    ASSERT_EQ(queue.harvestable(), some);
                    if (!some) break;
                    const WorkEntry& entry = queue.harvest();
                    ASSERT_EQ(entry.cookie, model[harvested].cookie);
                    ASSERT_EQ(entry.status, model[harvested].status);
                    ASSERT_EQ(entry.length, model[harvested].length);
                    ++harvested;
                    break;
                }
                case 5: {  // reap
                    ASSERT_EQ(queue.reapable(), harvested != 0);
                    if (harvested == 0) break;
                    ASSERT_EQ(queue.reap().cookie, model.front().cookie);
                    model.pop_front();
                    ++reaped;
                    --harvested;
                    break;
                }
                case 6: {
                    if (!random.one_in(20)) break;
                    queue.flush();
                    for (ModelEntry& entry : model)
                        if (entry.status == 0) {
                            entry.status = status_done | status_flushed;
                            entry.length = 0;
                        }
                    ASSERT_FALSE(queue.has_unstarted());
                    break;
                }
            }
            ASSERT_EQ(queue.empty(), model.empty());
            ASSERT_EQ(queue.posted() - queue.reaped(), model.size());
            ASSERT_EQ(queue.harvested() - queue.reaped(), harvested);
            ASSERT_EQ(queue.pending(), std::any_of(model.begin(), model.end(),
                                                   [](auto& entry) { return entry.status == 0; }));
        }
    }
}

}  // namespace
