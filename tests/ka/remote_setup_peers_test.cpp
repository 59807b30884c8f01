// SPDX-License-Identifier: BSD-3-Clause
// Two programs on different hosts ask for each other (VipConnectPeerRequest).
#include <gtest/gtest.h>

#include <utility>

#include "ka/two_hosts.hpp"

namespace via::ka::test {
namespace {

using base::Code;

class PeerOrder : public testing::TestWithParam<std::pair<bool, bool>> {};

TEST_P(PeerOrder, PeersMeetInAnyOrder) {
    const auto [larger_first, a_is_larger] = GetParam();
    Two two;
    two.a.set_instance(a_is_larger ? 20 : 10);
    two.b.set_instance(a_is_larger ? 10 : 20);
    two.a.restart();
    two.b.restart();
    Ticket at_a = 0;
    Ticket at_b = 0;
    const auto ask = [&](bool a) {
        if (a)
            at_a = two.a.peer(two.asked(), two.b.address(), 10 * second);
        else
            at_b = two.b.peer(two.answered(), two.a.address(), 10 * second);
    };
    const bool a_first = larger_first == a_is_larger;
    ask(a_first);
    two.world.run_for(second);
    EXPECT_EQ(two.a.ending(at_a), nullptr);
    EXPECT_EQ(two.b.ending(at_b), nullptr);
    ask(!a_first);
    two.world.run_for(second);
    const auto* one = established(two.a, at_a);
    const auto* other = established(two.b, at_b);
    ASSERT_NE(one, nullptr);
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(one->session_key, other->session_key);
    EXPECT_EQ(one->connection, other->connection);
    EXPECT_NE(one->requester, other->requester);
    EXPECT_EQ(one->remote.parameters, two.answered().parameters);
    EXPECT_EQ(other->remote.parameters, two.asked().parameters);
    EXPECT_EQ(two.a.setup().waiting(1), 0U);
    two.expect_clean();
}
INSTANTIATE_TEST_SUITE_P(RemoteSetup, PeerOrder,
                         testing::Values(std::pair{true, true}, std::pair{true, false},
                                         std::pair{false, true}, std::pair{false, false}));

TEST(RemoteSetup, PeersThatAskInTheSameMomentMeetOnce) {
    Two two;
    const Ticket at_a = two.a.peer(two.asked(), two.b.address(), 10 * second);
    const Ticket at_b = two.b.peer(two.answered(), two.a.address(), 10 * second);
    two.world.run_for(10 * millisecond);
    const auto* one = established(two.a, at_a);
    const auto* other = established(two.b, at_b);
    ASSERT_NE(one, nullptr);
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(one->session_key, other->session_key);
    // One agent concludes, the other one only says that it has heard.
    two.world.run_for(second);
    EXPECT_EQ(sent(two.world, wire::SetupKind::Confirmed), 1U);
    two.expect_clean();
}

TEST(RemoteSetup, PeersThatDoNotFitLearnItBoth) {
    Two two;
    ConnectOffer other = two.answered();
    other.attributes.max_transfer_bytes = 1;
    const Ticket at_a = two.a.peer(two.asked(), two.b.address(), 10 * second);
    const Ticket at_b = two.b.peer(other, two.a.address(), 10 * second);
    two.world.run_for(second);
    expect_failure(two.a, at_a, Code::TransferSizeMismatch, "");
    expect_failure(two.b, at_b, Code::TransferSizeMismatch, "");
    // Other discriminators or another host never meet.
    other = two.answered();
    other.local.discriminator[0] = 9;
    const Ticket again = two.a.peer(two.asked(), two.b.address(), second);
    const Ticket stranger = two.b.peer(other, two.a.address(), second);
    const Ticket elsewhere = two.b.peer(two.answered(), host_number(9), second);
    two.world.run_for(2 * second);
    expect_failure(two.a, again, Code::Timeout, "no peer");
    expect_failure(two.b, stranger, Code::Timeout, "no peer");
    expect_failure(two.b, elsewhere, Code::Timeout, "no answer");
    two.expect_clean();
}

TEST(RemoteSetup, APeerThatLeavesAtTheLastMomentLeavesTheOtherWaiting) {
    Two two;
    two.a.set_instance(10);  // b concludes
    two.b.set_instance(20);
    two.a.restart();
    two.b.restart();
    const Ticket at_b = two.b.peer(two.answered(), two.a.address(), 30 * second);
    two.world.run_for(second);
    // What b concludes does not come through.
    two.world.network = [&](World& world, Flight flight) {
        if (flight.from == two.b.address() && kind_of(flight) == wire::SetupKind::Outcome) return;
        world.post(world.now + 1000, std::move(flight));
    };
    const Ticket first = two.a.peer(two.asked(), two.b.address(), 30 * second);
    two.world.run_for(300 * millisecond);
    two.a.cancel(first);
    two.world.network = nullptr;
    two.world.run_for(second);
    EXPECT_EQ(two.b.ending(at_b), nullptr);
    EXPECT_EQ(two.b.setup().waiting(1), 1U);
    const Ticket again = two.a.peer(two.asked(), two.b.address(), 30 * second);
    two.world.run_for(second);
    EXPECT_NE(established(two.a, again), nullptr);
    EXPECT_NE(established(two.b, at_b), nullptr);
    two.expect_clean();
}

}  // namespace
}  // namespace via::ka::test
