// SPDX-License-Identifier: BSD-3-Clause
// A program asks for a connection to one that waits on another host.
#include "ka/remote_setup.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "ka/two_hosts.hpp"

namespace via::ka::test {
namespace {

using base::Code;

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

}  // namespace
}  // namespace via::ka::test
