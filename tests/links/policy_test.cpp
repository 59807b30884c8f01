// SPDX-License-Identifier: BSD-3-Clause
#include "links/policy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace via::links {
namespace {

constexpr std::uint32_t train = 64'000;
using Chosen = std::optional<std::size_t>;

Chosen link_of(const std::optional<Choice>& choice) {
    return choice ? Chosen(choice->link) : std::nullopt;
}

std::vector<LinkView> links_of(std::size_t count) {
    std::vector<LinkView> links(count);
    for (std::size_t i = 0; i < count; ++i) {
        links[i].index = i;
        links[i].up = true;
        links[i].room = 128'000;
        links[i].round_trip = links[i].least_round_trip = 100'000;
    }
    return links;
}

TEST(Policy, HasANameForEachKind) {
    for (const PolicyKind kind :
         {PolicyKind::Static, PolicyKind::OneWay, PolicyKind::Dynamic, PolicyKind::Adaptive})
        EXPECT_EQ(policy_named(name_of(kind)), kind);
    EXPECT_FALSE(policy_named("fastest"));
}

TEST(Policy, NoneChoosesALinkThatIsDownOrNothingOfNothing) {
    for (const PolicyKind kind :
         {PolicyKind::Static, PolicyKind::OneWay, PolicyKind::Dynamic, PolicyKind::Adaptive}) {
        SCOPED_TRACE(name_of(kind));
        const auto policy = make_policy(kind, {1, true});
        EXPECT_FALSE(policy->choose({}, train));
        EXPECT_FALSE(policy->choose_short({}));
        auto links = links_of(3);
        links[0].up = links[1].up = false;
        for (int i = 0; i < 4; ++i) {
            EXPECT_EQ(link_of(policy->choose(links, train)), Chosen(2));
            EXPECT_EQ(policy->choose_short(links), Chosen(2));
        }
        links[2].up = false;
        EXPECT_FALSE(policy->choose(links, train));
        EXPECT_FALSE(policy->choose_short(links));
        links[2].up = true;
        links[2].room = 0;
        EXPECT_FALSE(policy->choose(links, train)) << "no room";
        links[2].room = 1000;
        links[2].short_only = true;
        EXPECT_FALSE(policy->choose(links, train)) << "not for bulk";
    }
}

TEST(StaticPolicy, IsBoundByTheConnectionsNumber) {
    auto links = links_of(3);
    for (std::uint64_t connection = 0; connection < 6; ++connection) {
        const auto policy = make_policy(PolicyKind::Static, {connection, true});
        for (int i = 0; i < 5; ++i) {
            EXPECT_EQ(link_of(policy->choose(links, train)), Chosen(connection % 3));
            EXPECT_EQ(policy->choose_short(links), Chosen(connection % 3));
        }
    }
    const auto policy = make_policy(PolicyKind::Static, {1, true});
    links[1].room = 0;
    EXPECT_FALSE(policy->choose(links, train)) << "it waits for its link";
    links[1].up = false;
    EXPECT_EQ(link_of(policy->choose(links, train)), Chosen(2)) << "it moves when its link is dead";
    links[1].up = true;
    links[1].room = train;
    EXPECT_EQ(link_of(policy->choose(links, train)), Chosen(1)) << "and back";
}

TEST(OneWayPolicy, EachEndSendsOnItsHalf) {
    auto links = links_of(4);
    const auto requester = make_policy(PolicyKind::OneWay, {0, true});
    const auto acceptor = make_policy(PolicyKind::OneWay, {0, false});
    for (const std::size_t expected : {0U, 2U, 0U, 2U})
        EXPECT_EQ(link_of(requester->choose(links, train)), Chosen(expected));
    for (const std::size_t expected : {1U, 3U, 1U, 3U})
        EXPECT_EQ(link_of(acceptor->choose(links, train)), Chosen(expected));
    links[0].room = links[2].room = 0;
    EXPECT_FALSE(requester->choose(links, train)) << "the other half is the peer's";
    links[0].up = links[2].up = false;
    EXPECT_TRUE(requester->choose(links, train)) << "with its half dead it takes what there is";
}

TEST(DynamicPolicy, TakesFreeLinksInTurnAndThenBusyOnesInTurn) {
    auto links = links_of(3);
    const auto policy = make_policy(PolicyKind::Dynamic, {0, true});
    for (const std::size_t expected : {0U, 1U, 2U, 0U})
        EXPECT_EQ(link_of(policy->choose(links, train)), Chosen(expected));
    links[1].in_flight = 1000;  // sending here
    links[2].peer_busy = true;  // receiving there
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(link_of(policy->choose(links, train)), Chosen(0)) << "the only free one";
    links[0].in_flight = 1000;
    for (const std::size_t expected : {1U, 2U, 0U, 1U})
        EXPECT_EQ(link_of(policy->choose(links, train)), Chosen(expected)) << "none is free";
    links[2].room = 0;
    EXPECT_EQ(link_of(policy->choose(links, train)), Chosen(0));
}

TEST(AdaptivePolicy, PrefersTheEarliestCompletion) {
    auto links = links_of(2);
    const auto policy = make_policy(PolicyKind::Adaptive, {0, true});
    links[0].rate = 125e6;
    links[1].rate = 31e6;
    EXPECT_EQ(link_of(policy->choose(links, train)), Chosen(0));
    links[0].in_flight = 100'000;  // 1.3 ms against 2.06 ms
    EXPECT_EQ(link_of(policy->choose(links, train)), Chosen(0)) << "still faster with its queue";
    links[0].in_flight = 300'000;  // 2.9 ms
    EXPECT_EQ(link_of(policy->choose(links, train)), Chosen(1));
    links[1].least_round_trip = 10'000'000;
    EXPECT_EQ(link_of(policy->choose(links, train)), Chosen(0)) << "the way counts, too";
}

TEST(AdaptivePolicy, GivesALinkNothingThatTheOthersWouldFinishBefore) {
    auto links = links_of(2);
    const auto policy = make_policy(PolicyKind::Adaptive, {0, true});
    links[0].rate = 125e6;
    links[0].room = 0;
    links[1].rate = 31e6;
    links[1].in_flight = 62'000;  // 2 ms
    EXPECT_FALSE(policy->choose(links, 125'000)) << "1 ms of the fast one";
    EXPECT_EQ(link_of(policy->choose(links, 500'000)), Chosen(1)) << "4 ms of it";
    links[0].in_flight = 200'000;  // 1.6 ms
    EXPECT_EQ(link_of(policy->choose(links, 125'000)), Chosen(1));
    links[0].up = false;
    EXPECT_EQ(link_of(policy->choose(links, 1)), Chosen(1)) << "there is no other";
}

TEST(AdaptivePolicy, WaitsForNoMomentTooShortToMatter) {
    auto links = links_of(2);
    const auto policy = make_policy(PolicyKind::Adaptive, {0, true});
    links[0].rate = links[1].rate = 125e6;
    links[0].room = 0;
    links[1].in_flight = 72'000;  // 0.06 ms more than the other needs for all
    EXPECT_EQ(link_of(policy->choose(links, train)), Chosen(1));
    links[1].in_flight = 92'000;
    EXPECT_FALSE(policy->choose(links, train));
}

/// Sends all that is pending, with room for everything.
std::vector<std::uint64_t> spread(std::vector<LinkView> links, std::uint64_t pending) {
    const auto policy = make_policy(PolicyKind::Adaptive, {0, true});
    std::vector<std::uint64_t> sent(links.size());
    for (int pieces = 0; pending != 0 && pieces < 1000; ++pieces) {
        const auto choice = policy->choose(links, pending);
        EXPECT_TRUE(choice);
        if (!choice) break;
        const auto bytes = std::min<std::uint64_t>({pending, choice->bytes, train});
        EXPECT_NE(bytes, 0U);
        sent[choice->link] += bytes;
        links[choice->link].in_flight += static_cast<std::uint32_t>(bytes);
        pending -= bytes;
    }
    EXPECT_EQ(pending, 0U);
    return sent;
}

TEST(AdaptivePolicy, EndsAsSoonAsAllLinksTogetherCould) {
    for (const std::uint64_t pending : {20'000ULL, 64'000ULL, 1'000'000ULL, 30'000'000ULL}) {
        for (const std::vector<double>& rates :
             {std::vector<double>{125e6, 125e6}, {125e6, 31e6}, {31e6, 125e6, 62e6, 12e6}}) {
            SCOPED_TRACE(testing::Message() << pending << " bytes, " << rates.size() << " links");
            auto links = links_of(rates.size());
            double together = 0;
            for (std::size_t i = 0; i < rates.size(); ++i)
                together += links[i].rate = rates[i];
            const auto sent = spread(links, pending);
            double last = 0;
            for (std::size_t i = 0; i < rates.size(); ++i)
                last = std::max(last, static_cast<double>(sent[i]) / rates[i]);
            EXPECT_LE(last, static_cast<double>(pending) / together + 0.2e-3);
        }
    }
}

TEST(AdaptivePolicy, DoesNotCutWhatTakesNoTime) {
    auto links = links_of(2);
    links[0].rate = links[1].rate = 5e9;
    const auto choice = make_policy(PolicyKind::Adaptive, {0, true})->choose(links, train);
    ASSERT_TRUE(choice);
    EXPECT_GE(choice->bytes, train);
}

TEST(AdaptivePolicy, TrustsALinkThatWasNeverMeasuredWithItsRoomOnly) {
    auto links = links_of(2);
    const auto policy = make_policy(PolicyKind::Adaptive, {0, true});
    links[0].rate = 125e6;
    links[0].in_flight = 125'000;  // 1 ms
    EXPECT_EQ(link_of(policy->choose(links, 1'000'000)), Chosen(1));
    links[1].room = 0;
    EXPECT_EQ(link_of(policy->choose(links, 1'000'000)), Chosen(0));
}

TEST(AdaptivePolicy, TriesALinkThatWasNeverMeasured) {
    auto links = links_of(2);
    links[0].rate = 1e9;
    EXPECT_EQ(link_of(make_policy(PolicyKind::Adaptive, {0, true})->choose(links, train)),
              Chosen(1));
}

TEST(Policy, ShortOnesStayWhereTheyAreUnlessAnotherIsClearlyFaster) {
    auto links = links_of(2);
    const auto policy = make_policy(PolicyKind::Adaptive, {0, true});
    links[1].round_trip = 90'000;
    EXPECT_EQ(policy->choose_short(links), Chosen(1));
    links[0].round_trip = 80'000;
    EXPECT_EQ(policy->choose_short(links), Chosen(1)) << "a little faster is not worth it";
    links[0].round_trip = 40'000;
    EXPECT_EQ(policy->choose_short(links), Chosen(0));
    links[0].room = 0;
    EXPECT_EQ(policy->choose_short(links), Chosen(1)) << "no room";
    links = links_of(3);
    links[2].short_only = true;
    EXPECT_EQ(policy->choose_short(links), Chosen(2)) << "the raw path is there for them";
}

}  // namespace
}  // namespace via::links
