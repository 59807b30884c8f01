// SPDX-License-Identifier: BSD-3-Clause
#include "links/policy.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace via::links {
namespace {

constexpr std::uint32_t train = 64'000;
using Chosen = std::optional<std::size_t>;

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
            EXPECT_EQ(policy->choose(links, train), Chosen(2));
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
            EXPECT_EQ(policy->choose(links, train), Chosen(connection % 3));
            EXPECT_EQ(policy->choose_short(links), Chosen(connection % 3));
        }
    }
    const auto policy = make_policy(PolicyKind::Static, {1, true});
    links[1].room = 0;
    EXPECT_FALSE(policy->choose(links, train)) << "it waits for its link";
    links[1].up = false;
    EXPECT_EQ(policy->choose(links, train), Chosen(2)) << "it moves when its link is dead";
    links[1].up = true;
    links[1].room = train;
    EXPECT_EQ(policy->choose(links, train), Chosen(1)) << "and back";
}

TEST(OneWayPolicy, EachEndSendsOnItsHalf) {
    auto links = links_of(4);
    const auto requester = make_policy(PolicyKind::OneWay, {0, true});
    const auto acceptor = make_policy(PolicyKind::OneWay, {0, false});
    for (const std::size_t expected : {0U, 2U, 0U, 2U})
        EXPECT_EQ(requester->choose(links, train), Chosen(expected));
    for (const std::size_t expected : {1U, 3U, 1U, 3U})
        EXPECT_EQ(acceptor->choose(links, train), Chosen(expected));
    links[0].room = links[2].room = 0;
    EXPECT_FALSE(requester->choose(links, train)) << "the other half is the peer's";
    links[0].up = links[2].up = false;
    EXPECT_TRUE(requester->choose(links, train)) << "with its half dead it takes what there is";
}

TEST(DynamicPolicy, TakesFreeLinksInTurnAndThenBusyOnesInTurn) {
    auto links = links_of(3);
    const auto policy = make_policy(PolicyKind::Dynamic, {0, true});
    for (const std::size_t expected : {0U, 1U, 2U, 0U})
        EXPECT_EQ(policy->choose(links, train), Chosen(expected));
    links[1].in_flight = 1000;  // sending here
    links[2].peer_busy = true;  // receiving there
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(policy->choose(links, train), Chosen(0)) << "the only free one";
    links[0].in_flight = 1000;
    for (const std::size_t expected : {1U, 2U, 0U, 1U})
        EXPECT_EQ(policy->choose(links, train), Chosen(expected)) << "none is free";
    links[2].room = 0;
    EXPECT_EQ(policy->choose(links, train), Chosen(0));
}

TEST(AdaptivePolicy, PrefersTheEarliestCompletion) {
    auto links = links_of(2);
    const auto policy = make_policy(PolicyKind::Adaptive, {0, true});
    links[0].rate = 125e6;
    links[1].rate = 31e6;
    EXPECT_EQ(policy->choose(links, train), Chosen(0));
    links[0].in_flight = 100'000;  // 1.3 ms against 2.06 ms
    EXPECT_EQ(policy->choose(links, train), Chosen(0)) << "still faster with its queue";
    links[0].in_flight = 300'000;  // 2.9 ms
    EXPECT_EQ(policy->choose(links, train), Chosen(1));
    links[1].least_round_trip = 10'000'000;
    EXPECT_EQ(policy->choose(links, train), Chosen(0)) << "the way counts, too";
}

TEST(AdaptivePolicy, WaitsForAFastLinkRatherThanUsingASlowOne) {
    auto links = links_of(2);
    const auto policy = make_policy(PolicyKind::Adaptive, {0, true});
    links[0].rate = 125e6;
    links[0].in_flight = 128'000;
    links[0].room = 0;
    links[1].rate = 1e6;
    EXPECT_FALSE(policy->choose(links, train));
    links[1].rate = 25e6;  // 2.6 ms against 1.5 ms
    EXPECT_EQ(policy->choose(links, train), Chosen(1)) << "not worth twice the time";
    links[1].rate = 125e6;
    EXPECT_EQ(policy->choose(links, train), Chosen(1));
}

TEST(AdaptivePolicy, DoesNotLetALinkRunDryBehindOneWithAShortWindow) {
    auto links = links_of(2);
    const auto policy = make_policy(PolicyKind::Adaptive, {0, true});
    links[0].rate = links[1].rate = 125e6;
    links[0].in_flight = 20'000;
    links[0].room = 0;
    links[1].in_flight = 60'000;  // 0.3 ms later
    EXPECT_EQ(policy->choose(links, train), Chosen(1));
    links[1].in_flight = 200'000;  // 1.4 ms later: it has enough
    EXPECT_FALSE(policy->choose(links, train));
}

TEST(AdaptivePolicy, TriesALinkThatWasNeverMeasured) {
    auto links = links_of(2);
    links[0].rate = 1e9;
    EXPECT_EQ(make_policy(PolicyKind::Adaptive, {0, true})->choose(links, train), Chosen(1));
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
