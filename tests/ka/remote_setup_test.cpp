// SPDX-License-Identifier: BSD-3-Clause
// Connections between hosts, over a network that does what it likes.
#include "ka/remote_setup.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "ka/setup_world.hpp"

namespace via::ka::test {
namespace {

using base::Code;
using base::Deadline;

const wire::Key open_key = wire::cluster_key("");

wire::SetupKind kind_of(const Flight& flight) {
    return static_cast<wire::SetupKind>(flight.bytes.at(5));
}

std::size_t sent(const World& world, wire::SetupKind kind) {
    return static_cast<std::size_t>(
        std::count_if(world.history.begin(), world.history.end(),
                      [&](const Flight& flight) { return kind_of(flight) == kind; }));
}

/// Two hosts; a server on the second one answers at once.
struct Two {
    World world{1};
    Host& a = world.add(1, open_key);
    Host& b = world.add(2, open_key);
    Ticket accepted = 0;
    std::uint64_t told = 0;

    [[nodiscard]] ConnectOffer asked() const {
        return net_offer(host_number(1), 6, host_number(2), 5);
    }
    [[nodiscard]] ConnectOffer answered() const {
        return net_offer(host_number(2), 5, host_number(1), 6);
    }
    void serve(bool accepting = true) {
        b.on_incoming = [this, accepting](const outcome::Incoming& incoming) {
            told = incoming.request;
            accepted = accepting ? b.accept(told, answered()) : b.reject(told);
        };
        b.wait(5, 1000 * second);
    }
    /// A server that is told and thinks about it.
    void listen() {
        b.on_incoming = [this](const outcome::Incoming& incoming) { told = incoming.request; };
        b.wait(5, 1000 * second);
    }
    Ticket connect(Nanoseconds time = 5 * second) { return a.connect(asked(), b.address(), time); }
    /// Nothing is left, after everything that could come has come.
    void expect_clean() {
        world.network = nullptr;
        world.run_for(100 * second);
        EXPECT_EQ(world.complaint, "");
        for (Host* host : {&a, &b}) {
            EXPECT_EQ(host->setup().outgoing(), 0U);
            EXPECT_EQ(host->setup().arrivals(), 0U);
            EXPECT_EQ(host->setup().remembered(), 0U);
            EXPECT_TRUE(host->setup().next_deadline().is_never());
        }
    }
};

void expect_failure(const Host& host, Ticket ticket, Code code, std::string_view words) {
    const Ending* ending = host.ending(ticket);
    ASSERT_NE(ending, nullptr);
    ASSERT_TRUE(ending->failure);
    EXPECT_EQ(ending->failure->code, code) << ending->failure->sentence;
    EXPECT_NE(ending->failure->sentence.find(words), std::string::npos)
        << ending->failure->sentence;
}

const setup::Established* established(const Host& host, Ticket ticket) {
    const Ending* ending = host.ending(ticket);
    return ending != nullptr && ending->established ? &*ending->established : nullptr;
}

TEST(RemoteSetup, ARequestMeetsAWaitOnAnotherHost) {
    Two two;
    two.serve();
    const Ticket ticket = two.connect();
    two.world.run_for(second);
    const auto* at_a = established(two.a, ticket);
    const auto* at_b = established(two.b, two.accepted);
    ASSERT_NE(at_a, nullptr);
    ASSERT_NE(at_b, nullptr);
    EXPECT_TRUE(at_a->requester);
    EXPECT_FALSE(at_b->requester);
    EXPECT_EQ(at_a->session_key, at_b->session_key);
    EXPECT_NE(at_a->session_key, SessionKey{});
    EXPECT_EQ(at_a->connection, at_b->connection);
    EXPECT_EQ(at_a->remote.local, two.answered().local);
    EXPECT_EQ(at_a->remote.parameters, two.answered().parameters);
    EXPECT_EQ(at_b->remote.local, two.asked().local);
    EXPECT_EQ(at_b->remote.parameters, two.asked().parameters);
    EXPECT_EQ(at_b->remote.attributes.max_transfer_bytes, 4096U);
    EXPECT_EQ(at_b->offer.vi, 1U);
    // Three questions and their answers are enough where nothing is lost.
    EXPECT_EQ(two.world.history.size(), 6U);
    two.expect_clean();
}

TEST(RemoteSetup, NothingIsAnsweredLongerThanItWasAskedBeforeTheAddressIsProved) {
    Two two;
    two.serve();
    two.connect();
    two.world.run_for(second);
    ASSERT_GE(two.world.history.size(), 2U);
    EXPECT_EQ(kind_of(two.world.history[0]), wire::SetupKind::Hello);
    EXPECT_EQ(kind_of(two.world.history[1]), wire::SetupKind::Challenge);
    EXPECT_LE(two.world.history[1].bytes.size(), two.world.history[0].bytes.size());
    for (const Flight& flight : two.world.history)
        EXPECT_LE(flight.bytes.size(), wire::max_setup_bytes);
}

TEST(RemoteSetup, TheLargestRequestFitsADatagram) {
    SetupRequest request;
    request.offer = net_offer(host_number(1), 1, host_number(2), 2);
    request.offer.local.host_bytes = request.offer.remote.host_bytes = max_host_address_bytes;
    request.offer.local.discriminator_bytes = request.offer.remote.discriminator_bytes =
        max_discriminator_bytes;
    request.offer.parameters.fill(1);
    AgentAddress six;
    six.family = 6;
    six.ip.fill(1);
    request.addresses.assign(40, six);
    EXPECT_LE(encode(request).size(), wire::max_sealed_body_bytes);
    const auto decoded = decode_setup_request(encode(request));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->addresses.size(), SetupRequest::max_addresses);
    SetupOutcome outcome;
    outcome.state = SetupOutcome::State::Established;
    outcome.offer = request.offer;
    outcome.connection = 1;
    EXPECT_LE(encode(outcome).size(), wire::max_sealed_body_bytes);
    outcome.state = SetupOutcome::State::Failed;
    outcome.error.sentence.assign(5000, 'x');
    EXPECT_LE(encode(outcome).size(), wire::max_sealed_body_bytes);
    EXPECT_EQ(decode_setup_outcome(encode(outcome))->error.sentence.size(), 399U);
}

TEST(RemoteSetup, FailuresComeWithTheirReason) {
    Two two;
    const Ticket nobody = two.connect();
    two.world.run_for(second);
    expect_failure(two.a, nobody, Code::NoMatch, "nobody waits");
    two.serve(false);
    const Ticket rejected = two.connect();
    two.world.run_for(second);
    expect_failure(two.a, rejected, Code::Rejected, "");
    EXPECT_TRUE(two.b.ending(two.accepted)->done);
    two.expect_clean();
}

TEST(RemoteSetup, AConflictOfAttributesIsTheAcceptors) {
    Two two;
    two.listen();
    two.connect();
    two.world.run_for(second);
    ConnectOffer other = two.answered();
    other.attributes.reliability = 4;
    const Ticket conflict = two.b.accept(two.told, other);
    expect_failure(two.b, conflict, Code::ReliabilityMismatch, "");
    const Ticket again = two.b.accept(two.told, two.answered());
    two.world.run_for(second);
    EXPECT_NE(established(two.b, again), nullptr);
    two.expect_clean();
}

TEST(RemoteSetup, ItTimesOutWhereNobodyAnswersTheRequest) {
    Two two;
    two.listen();
    const Ticket ticket = two.connect(700 * millisecond);
    two.world.run_for(2 * second);
    expect_failure(two.a, ticket, Code::Timeout, "");
    // The accept that comes later finds that out.
    const Ticket late = two.b.accept(two.told, two.answered());
    two.world.run_for(second);
    expect_failure(two.b, late, Code::Timeout, "");
    two.expect_clean();
}

TEST(RemoteSetup, SilenceIsToldWithTheAddressAndThePort) {
    Two two;
    const Ticket ticket = two.a.connect(two.asked(), host_number(9), 700 * millisecond);
    two.world.run_for(second);
    expect_failure(two.a, ticket, Code::Timeout,
                   "no answer from 10.0.0.9:7471 within 700 ms: is viad running there, is UDP "
                   "port 7471 open?");
    // However long the process would wait.
    const Ticket patient = two.a.connect(two.asked(), host_number(9), 1000 * second);
    two.world.run_for(11 * second);
    expect_failure(two.a, patient, Code::NotReachable, "no answer from 10.0.0.9:7471");
    two.expect_clean();
}

TEST(RemoteSetup, ARefusedPortIsNoKernelAgent) {
    Two two;
    const Ticket ticket = two.a.connect(two.asked(), host_number(9), 10 * second);
    const Ticket peer = two.a.peer(two.asked(), host_number(9), 10 * second);
    two.a.refused(host_number(9));
    expect_failure(two.a, ticket, Code::NotReachable, "no kernel agent runs at 10.0.0.9:7471");
    // A peer's agent may come with it.
    EXPECT_EQ(two.a.ending(peer), nullptr);
    two.world.run_for(11 * second);
    expect_failure(two.a, peer, Code::Timeout, "no kernel agent runs at 10.0.0.9:7471");
    // Who has been heard of is there, whatever the network says.
    two.listen();
    const Ticket heard = two.connect(3 * second);
    two.world.run_for(second);
    two.a.refused(two.b.address());
    EXPECT_EQ(two.a.ending(heard), nullptr);
    two.expect_clean();
}

TEST(RemoteSetup, AnotherKeyIsToldAsThat) {
    Two two;
    two.b.set_key(wire::cluster_key("secret"));
    two.b.restart();
    const Ticket ticket = two.connect();
    two.world.run_for(second);
    expect_failure(two.a, ticket, Code::NotReachable,
                   "10.0.0.2:7471 belongs to a cluster with another key");
    expect_failure(two.a, ticket, Code::NotReachable, "no key here");
    EXPECT_LE(two.world.history.at(1).bytes.size(), two.world.history.at(0).bytes.size());
    // The key changes while a request is under way.
    two.b.set_key(open_key);
    two.b.restart();
    two.listen();
    const Ticket later = two.connect();
    two.world.run_for(second);
    two.b.set_key(wire::cluster_key("secret"));
    two.b.restart();
    two.world.run_for(second);
    expect_failure(two.a, later, Code::NotReachable, "another key");
    two.expect_clean();
}

TEST(RemoteSetup, AnotherVersionIsToldAsThat) {
    Two two;
    two.world.network = [](World& world, Flight flight) {
        if (kind_of(flight) == wire::SetupKind::Hello) flight.bytes[4] = 7;
        // The answer as that version would give it.
        if (kind_of(flight) == wire::SetupKind::Refusal) flight.bytes[4] = 7;
        world.post(world.now + 1000, std::move(flight));
    };
    const Ticket ticket = two.connect();
    two.world.run_for(second);
    expect_failure(two.a, ticket, Code::NotReachable,
                   "10.0.0.2:7471 speaks version 7 of the set-up protocol and this host version 2");
    two.expect_clean();
}

TEST(RemoteSetup, StrangersLeaveNothing) {
    Two two;
    two.serve();
    two.connect();
    two.world.run_for(second);
    const std::size_t before = two.b.setup().remembered();
    const std::vector<Flight> seen = two.world.history;
    const std::size_t endings = two.b.endings().size();
    for (int i = 0; i < 3000; ++i) {
        // Greetings, and everything that was ever sent, from wherever.
        const auto number = static_cast<std::uint8_t>(20 + two.world.random() % 200);
        const Flight& flight = seen[two.world.random() % seen.size()];
        SetupOutput output;
        two.b.setup().receive(host_number(number), two.b.address(), flight.bytes, two.world.now,
                              output);
        EXPECT_TRUE(output.events.empty());
        for (const Datagram& datagram : output.datagrams)
            EXPECT_LE(datagram.bytes.size(), flight.bytes.size());
    }
    EXPECT_EQ(two.b.setup().remembered(), before);
    EXPECT_EQ(two.b.setup().arrivals(), 0U);
    EXPECT_EQ(two.b.endings().size(), endings);
}

TEST(RemoteSetup, AKnownRequestIsNotTakenForANewOne) {
    Two two;
    two.serve();
    two.connect();
    two.world.run_for(second);
    const std::vector<Flight> seen = two.world.history;
    two.serve();  // somebody waits again
    const std::uint64_t told = two.told;
    for (int round = 0; round < 60; ++round) {
        for (const Flight& flight : seen)
            if (flight.to == two.b.address() && kind_of(flight) != wire::SetupKind::Cancel)
                two.b.receive(flight.from, flight.bytes);
        two.world.run_for(second / 2);
    }
    EXPECT_EQ(two.told, told);
    EXPECT_EQ(two.b.setup().arrivals(), 0U);
    two.expect_clean();
}

TEST(RemoteSetup, WhatIsChangedOnTheWayDoesNothing) {
    Two two;
    two.serve();
    const Ticket ticket = two.connect();
    two.world.run_for(second);
    ASSERT_NE(established(two.a, ticket), nullptr);
    const std::vector<Flight> seen = two.world.history;
    for (const Flight& flight : seen) {
        if (!wire::is_sealed(kind_of(flight))) continue;
        Host& target = flight.to == two.a.address() ? two.a : two.b;
        for (std::size_t i = 0; i < flight.bytes.size(); ++i) {
            wire::Bytes changed = flight.bytes;
            changed[i] ^= 1;
            SetupOutput output;
            target.setup().receive(flight.from, target.address(), changed, two.world.now, output);
            EXPECT_TRUE(output.events.empty()) << i;
            SetupOutput shorter;
            target.setup().receive(flight.from, target.address(),
                                   wire::ByteView(flight.bytes).first(i), two.world.now, shorter);
            EXPECT_TRUE(shorter.events.empty() && shorter.datagrams.empty()) << i;
        }
    }
}

TEST(RemoteSetup, TheTableOfRequestsIsBounded) {
    World world(3);
    SetupLimits limits;
    limits.arrivals = 20;
    limits.arrivals_per_host = 8;
    limits.remembered = 40;
    limits.remembered_per_host = 12;
    Host& server = world.add(1, open_key, limits);
    for (int i = 0; i < 100; ++i)
        server.wait(5, 1000 * second);
    std::vector<std::pair<Host*, Ticket>> asked;
    for (std::uint8_t number = 2; number <= 6; ++number) {
        Host& client = world.add(number, open_key);
        for (int i = 0; i < 10; ++i)
            asked.emplace_back(&client,
                               client.connect(net_offer(client.address(), 6, server.address(), 5),
                                              server.address(), 2 * second));
    }
    world.run_for(second);
    EXPECT_LE(server.setup().arrivals(), 20U);
    std::size_t refused = 0;
    for (const auto& [client, ticket] : asked) {
        if (client->ending(ticket) == nullptr) continue;
        expect_failure(*client, ticket, Code::OutOfResources, "limit");
        ++refused;
    }
    EXPECT_EQ(refused, 50U - server.setup().arrivals());
    EXPECT_LE(server.setup().remembered(), 40U);
    world.run_for(60 * second);
    EXPECT_EQ(server.setup().remembered(), 0U);
    EXPECT_EQ(world.complaint, "");
}

TEST(RemoteSetup, ARequesterThatGivesUpIsATimeoutForTheAcceptor) {
    Two two;
    two.listen();
    const Ticket ticket = two.connect();
    two.world.run_for(second);
    two.a.cancel(ticket);
    two.world.run_for(second);
    const Ticket late = two.b.accept(two.told, two.answered());
    expect_failure(two.b, late, Code::Timeout, "given up");
    // In the moment between the acceptance and its being heard of.
    two.listen();
    const Ticket second_try = two.connect();
    two.world.run_for(second);
    two.world.network = [](World&, const Flight&) {};  // nothing comes through
    const Ticket accepted = two.b.accept(two.told, two.answered());
    two.world.run_for(10 * millisecond);
    EXPECT_EQ(two.b.ending(accepted), nullptr);
    two.world.network = nullptr;
    two.a.cancel(second_try);
    two.world.run_for(second);
    expect_failure(two.b, accepted, Code::Timeout, "given up");
    two.expect_clean();
}

TEST(RemoteSetup, AHostThatVanishesIsATimeoutForTheAcceptor) {
    Two two;
    two.listen();
    two.connect();
    two.world.run_for(second);
    two.world.network = [](World&, const Flight&) {};
    const Ticket accepted = two.b.accept(two.told, two.answered());
    two.world.run_for(3 * second);
    expect_failure(two.b, accepted, Code::Timeout, "10.0.0.1:7471");
    // And one that is gone before it is answered: nobody is there any more.
    two.world.network = nullptr;
    two.world.run_for(100 * second);
    two.listen();
    two.connect();
    two.world.run_for(second);
    two.world.network = [](World&, const Flight&) {};
    two.world.run_for(4 * second);
    expect_failure(two.b, two.b.accept(two.told, two.answered()), Code::Timeout, "given up");
    two.expect_clean();
}

TEST(RemoteSetup, AnAcceptorThatDiesIsNoMatch) {
    Two two;
    two.listen();
    const Ticket ticket = two.connect();
    two.world.run_for(second);
    two.world.network = [](World&, const Flight&) {};
    const Ticket accepted = two.b.accept(two.told, two.answered());
    two.b.cancel(accepted);
    two.world.network = nullptr;
    two.world.run_for(second);
    expect_failure(two.a, ticket, Code::NoMatch, "ended");
    EXPECT_EQ(two.b.ending(accepted), nullptr);
    two.expect_clean();
}

TEST(RemoteSetup, WhoWasToldTooEarlyIsToldAgain) {
    Two two;
    two.serve();
    // The requester never learns that it was confirmed.
    two.world.network = [](World& world, Flight flight) {
        if (kind_of(flight) != wire::SetupKind::Confirmed)
            world.post(world.now + 1000, std::move(flight));
    };
    const Ticket ticket = two.connect(second);
    two.world.run_for(500 * millisecond);
    const auto* at_b = established(two.b, two.accepted);
    ASSERT_NE(at_b, nullptr);
    EXPECT_EQ(two.a.ending(ticket), nullptr);
    EXPECT_TRUE(two.b.gone().empty());
    two.world.run_for(second);
    expect_failure(two.a, ticket, Code::Timeout, "");
    EXPECT_EQ(two.b.gone(), std::vector{at_b->connection});
    two.expect_clean();
}

TEST(RemoteSetup, ANewAgentOfTheServerIsAskedAgain) {
    Two two;
    two.listen();
    const Ticket ticket = two.connect(20 * second);
    two.world.run_for(second);
    two.b.restart();
    two.world.run_for(400 * millisecond);
    // The server comes back a little later.
    two.serve();
    two.world.run_for(second);
    EXPECT_NE(established(two.a, ticket), nullptr);
    // A cookie grows old while a server thinks.
    two.listen();
    const Ticket patient = two.connect(200 * second);
    two.world.run_for(60 * second);
    EXPECT_GT(sent(two.world, wire::SetupKind::Challenge), 3U);
    const Ticket accepted = two.b.accept(two.told, two.answered());
    two.world.run_for(second);
    EXPECT_NE(established(two.a, patient), nullptr);
    EXPECT_NE(established(two.b, accepted), nullptr);
    // Between acceptance and confirmation.
    two.listen();
    const Ticket unlucky = two.connect(5 * second);
    two.world.run_for(second);
    two.world.network = [&](World& world, Flight flight) {
        if (kind_of(flight) == wire::SetupKind::Confirm) two.b.restart();
        world.post(world.now + 1000, std::move(flight));
    };
    two.b.accept(two.told, two.answered());
    two.world.run_for(10 * millisecond);
    two.world.network = nullptr;
    two.world.run_for(second);
    expect_failure(two.a, unlucky, Code::NoMatch, "replaced");
    two.expect_clean();
}

TEST(RemoteSetup, AnAddressThatLeadsBackIsToldAsThat) {
    Two two;
    // As behind a router that sends it back.
    two.world.network = [&](World& world, Flight flight) {
        flight.to = two.a.address();
        flight.from = host_number(9);
        world.post(world.now + 1000, std::move(flight));
    };
    const Ticket ticket = two.a.connect(two.asked(), host_number(9), 5 * second);
    two.world.run_for(second);
    expect_failure(two.a, ticket, Code::NotReachable, "leads back");
}

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

// ---- a hostile network, by seeds

/// Programs on three hosts that wait, connect, accept, reject, give up and die, while the network
/// drops, repeats, delays, cuts and changes datagrams, and somebody sends old ones anew.
class Story {
  public:
    explicit Story(std::uint64_t seed) : seed_(seed), world_(seed) {
        loss_ = seed % 5 == 0 ? 0 : pick(40);
        faults_ = seed % 5 == 0 ? 0 : pick(15);
        restarts_ = seed % 3 == 1;
        for (std::uint8_t number = 1; number <= hosts; ++number)
            hosts_.push_back(&world_.add(number, wire::cluster_key("a")));
        world_.network = [this](World&, Flight flight) { carry(std::move(flight)); };
        for (Host* host : hosts_)
            host->on_incoming = [this, host](const outcome::Incoming& incoming) {
                told_.push_back({host, incoming.request, incoming.offer});
            };
    }

    void run() {
        for (int step = 0; step < 60 && world_.complaint.empty(); ++step) {
            act();
            world_.run_for(static_cast<Nanoseconds>(pick(120)) * millisecond);
        }
        // Everything comes to its end where time has passed and nobody disturbs.
        loss_ = faults_ = 0;
        world_.run_for(200 * second);
        ASSERT_EQ(world_.complaint, "") << "seed " << seed_;
        check();
    }

  private:
    static constexpr std::uint8_t hosts = 3;
    struct Told {
        Host* host;
        std::uint64_t request;
        ConnectOffer offer;
    };

    std::uint64_t pick(std::uint64_t bound) { return world_.random() % bound; }
    Host& some_host() { return *hosts_[pick(hosts)]; }
    Host& another(const Host& one) {
        for (;;)
            if (Host& other = some_host(); &other != &one) return other;
    }

    void carry(Flight flight) {
        const auto delay = [&] {
            const std::uint64_t most = pick(10) == 0 ? 80'000 : 900;
            return static_cast<Nanoseconds>(50 + pick(most)) * 1000;
        };
        if (pick(100) < loss_) return;
        if (pick(100) < faults_) world_.post(world_.now + delay(), flight);  // twice
        if (pick(100) < faults_) {
            Flight bad = flight;
            if (pick(2) == 0)
                bad.bytes.resize(pick(bad.bytes.size()));
            else
                bad.bytes[pick(bad.bytes.size())] ^= static_cast<std::uint8_t>(1 + pick(255));
            world_.post(world_.now + delay(), std::move(bad));
        }
        if (pick(100) < faults_ && !world_.history.empty()) {
            // Somebody has listened and says it again: as it was, from elsewhere or to another.
            Flight old = world_.history[pick(world_.history.size())];
            if (pick(3) == 0) old.from = host_number(static_cast<std::uint8_t>(1 + pick(9)));
            if (pick(3) == 0) old.to = host_number(static_cast<std::uint8_t>(1 + pick(hosts)));
            world_.post(world_.now + delay(), std::move(old));
        }
        world_.post(world_.now + delay(), std::move(flight));
    }

    void act() {
        Host& host = some_host();
        Host& other = another(host);
        const auto here = static_cast<std::uint8_t>(pick(3));
        const auto there = static_cast<std::uint8_t>(pick(3));
        ConnectOffer offer = net_offer(host.address(), here, other.address(), there);
        if (pick(10) == 0) offer.attributes.reliability = 4;
        const auto time = static_cast<Nanoseconds>(pick(4000)) * millisecond;
        switch (pick(10)) {
            case 0:
            case 1:
                tickets_.emplace_back(&host, host.wait(here, time));
                break;
            case 2:
            case 3:
                tickets_.emplace_back(&host, host.connect(offer, other.address(), time));
                break;
            case 4:
            case 5:
                tickets_.emplace_back(&host, host.peer(offer, other.address(), time));
                break;
            case 6:
            case 7:
            case 8:
                answer();
                break;
            default:
                if (restarts_ && pick(4) == 0) {
                    host.restart();
                    restarted_ = true;
                } else if (!tickets_.empty()) {
                    const auto [owner, ticket] = tickets_[pick(tickets_.size())];
                    if (owner->ending(ticket) == nullptr) owner->cancel(ticket);
                }
        }
    }

    void answer() {
        if (told_.empty()) return;
        const Told told = told_.back();
        told_.pop_back();
        ConnectOffer offer;
        offer = net_offer(told.host->address(), told.offer.remote.discriminator[0],
                          host_number(told.offer.local.host[6]), told.offer.local.discriminator[0]);
        if (pick(4) == 0)
            tickets_.emplace_back(told.host, told.host->reject(told.request));
        else
            tickets_.emplace_back(told.host, told.host->accept(told.request, offer));
    }

    void check() {
        struct Ends {
            const setup::Established* requester = nullptr;
            const setup::Established* acceptor = nullptr;
            bool gone = false;
        };
        std::map<SessionKey, Ends> connections;
        std::set<std::uint64_t> gone;
        for (const Host* host : hosts_) {
            gone.insert(host->gone().begin(), host->gone().end());
            for (const auto& [ticket, ending] : host->endings()) {
                EXPECT_EQ((ending.failure ? 1 : 0) + (ending.established ? 1 : 0) +
                              (ending.incoming ? 1 : 0) + (ending.done ? 1 : 0),
                          1)
                    << "seed " << seed_;
                if (!ending.established) continue;
                const setup::Established& own = *ending.established;
                Ends& ends = connections[own.session_key];
                auto& end = own.requester ? ends.requester : ends.acceptor;
                EXPECT_EQ(end, nullptr) << "two ends on one side, seed " << seed_;
                end = &own;
            }
        }
        for (const auto& [key, ends] : connections) {
            // A requester that has a connection has an acceptor who has it.
            ASSERT_NE(ends.acceptor, nullptr) << "seed " << seed_;
            if (ends.requester == nullptr) {
                if (loss_never_ && !restarted_) {
                    EXPECT_TRUE(gone.contains(ends.acceptor->connection)) << "seed " << seed_;
                }
                continue;
            }
            EXPECT_EQ(ends.requester->connection, ends.acceptor->connection);
            EXPECT_FALSE(gone.contains(ends.acceptor->connection)) << "seed " << seed_;
            EXPECT_EQ(ends.requester->remote.parameters, ends.acceptor->offer.parameters);
            EXPECT_EQ(ends.acceptor->remote.parameters, ends.requester->offer.parameters);
            EXPECT_EQ(ends.requester->remote.local, ends.acceptor->offer.local);
            EXPECT_EQ(ends.acceptor->remote.local, ends.requester->offer.local);
            EXPECT_TRUE(
                compatible(ends.requester->offer.attributes, ends.acceptor->offer.attributes).ok());
            ++made;
        }
        for (Host* host : hosts_) {
            EXPECT_EQ(host->setup().outgoing(), 0U) << "seed " << seed_;
            EXPECT_EQ(host->setup().arrivals(), 0U) << "seed " << seed_;
            EXPECT_EQ(host->setup().remembered(), 0U) << "seed " << seed_;
            EXPECT_EQ(host->setup().waiting(1), 0U) << "seed " << seed_;
            EXPECT_TRUE(host->setup().next_deadline().is_never()) << "seed " << seed_;
        }
    }

    std::uint64_t seed_;
    World world_;
    std::uint64_t loss_ = 0;    // per cent
    std::uint64_t faults_ = 0;  // per cent
    bool restarts_ = false;
    bool restarted_ = false;
    bool loss_never_ = seed_ % 5 == 0;
    std::vector<Host*> hosts_;
    std::vector<Told> told_;
    std::vector<std::pair<Host*, Ticket>> tickets_;

  public:
    std::size_t made = 0;
};

TEST(RemoteSetup, AnyNetworkBySeeds) {
    std::size_t connections = 0;
    for (std::uint64_t seed = 1; seed <= 600 && !HasFailure(); ++seed) {
        Story story(seed);
        story.run();
        connections += story.made;
    }
    // The stories are about something.
    EXPECT_GT(connections, 600U);
}

TEST(RemoteSetup, ALossyNetworkOnlyTakesLonger) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        Two two;
        two.world.random.seed(seed);
        two.world.network = [](World& world, Flight flight) {
            if (world.random() % 100 >= 30) world.post(world.now + 200'000, std::move(flight));
        };
        two.serve();
        const Ticket ticket = two.connect(60 * second);
        two.world.run_for(9 * second);
        EXPECT_NE(established(two.a, ticket), nullptr) << "seed " << seed;
        EXPECT_NE(established(two.b, two.accepted), nullptr) << "seed " << seed;
        two.expect_clean();
    }
}

}  // namespace
}  // namespace via::ka::test
