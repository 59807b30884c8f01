// SPDX-License-Identifier: BSD-3-Clause
// The state machine of connection set-up, with time as an argument.
#include "ka/connections.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>

namespace via::ka {
namespace {

using base::Code;
using base::Deadline;
using base::Nanoseconds;

NetAddress place(std::uint8_t discriminator, std::uint8_t host = 1) {
    NetAddress address;
    address.host_bytes = 1;
    address.host[0] = host;
    address.discriminator_bytes = 1;
    address.discriminator[0] = discriminator;
    return address;
}

ConnectOffer offer_of(std::uint8_t local, std::uint8_t remote) {
    ConnectOffer offer;
    offer.local = place(local);
    offer.remote = place(remote);
    offer.channel_bytes = 100;
    return offer;
}

const Deadline now_deadline = Deadline::at(0);

struct Machine {
    Limits limits;
    Connections connections{limits};
    Nanoseconds now = 1000;

    Outcomes wait(ProcessNumber process, Ticket ticket, std::uint8_t where,
                  Deadline deadline = Deadline::never()) {
        Outcomes outcomes;
        connections.wait(process, ticket, place(where), fabric_shm, deadline, now, outcomes);
        return outcomes;
    }
    Outcomes request(ProcessNumber process, Ticket ticket, const ConnectOffer& offer,
                     Deadline deadline = Deadline::never(), Deadline patience = now_deadline) {
        Outcomes outcomes;
        connections.request(process, ticket, offer, deadline, patience, now, outcomes);
        return outcomes;
    }
    Outcomes accept(ProcessNumber process, Ticket ticket, std::uint64_t request,
                    const ConnectOffer& offer) {
        Outcomes outcomes;
        connections.accept(process, ticket, request, offer, now, outcomes);
        return outcomes;
    }
    Outcomes reject(ProcessNumber process, Ticket ticket, std::uint64_t request) {
        Outcomes outcomes;
        connections.reject(process, ticket, request, outcomes);
        return outcomes;
    }
    Outcomes peer(ProcessNumber process, Ticket ticket, const ConnectOffer& offer,
                  Deadline deadline = Deadline::never()) {
        Outcomes outcomes;
        connections.peer_request(process, ticket, offer, deadline, now, outcomes);
        return outcomes;
    }
    Outcomes expire(Nanoseconds moment) {
        now = moment;
        Outcomes outcomes;
        connections.expire(now, outcomes);
        return outcomes;
    }
    Outcomes gone(ProcessNumber process) {
        Outcomes outcomes;
        connections.process_gone(process, outcomes);
        return outcomes;
    }
};

const outcome::Failed* failure(const Outcome& one) {
    return std::get_if<outcome::Failed>(&one);
}
const outcome::Incoming* incoming(const Outcome& one) {
    return std::get_if<outcome::Incoming>(&one);
}
const outcome::Connected* connected(const Outcome& one) {
    return std::get_if<outcome::Connected>(&one);
}

void expect_failure(const Outcomes& outcomes, Ticket ticket, Code code) {
    ASSERT_EQ(outcomes.size(), 1U);
    ASSERT_NE(failure(outcomes[0]), nullptr);
    EXPECT_EQ(failure(outcomes[0])->ticket, ticket);
    EXPECT_EQ(failure(outcomes[0])->error.code, code);
    EXPECT_FALSE(failure(outcomes[0])->error.sentence.empty());
}

TEST(Connections, ARequestMeetsTheWaitAndTheAccept) {
    Machine machine;
    EXPECT_TRUE(machine.wait(1, 10, 5).empty());
    const Outcomes met = machine.request(2, 20, offer_of(6, 5));
    ASSERT_EQ(met.size(), 1U);
    ASSERT_NE(incoming(met[0]), nullptr);
    EXPECT_EQ(incoming(met[0])->process, 1U);
    EXPECT_EQ(incoming(met[0])->ticket, 10U);
    EXPECT_EQ(incoming(met[0])->offer.local, place(6));
    const Outcomes done = machine.accept(1, 11, incoming(met[0])->request, offer_of(5, 6));
    ASSERT_EQ(done.size(), 1U);
    ASSERT_NE(connected(done[0]), nullptr);
    EXPECT_EQ(connected(done[0])->requester.ticket, 20U);
    EXPECT_EQ(connected(done[0])->acceptor.ticket, 11U);
    EXPECT_EQ(connected(done[0])->channel_bytes, 100U);
    EXPECT_EQ(machine.connections.tickets(), 0U);
    EXPECT_EQ(machine.connections.unanswered(), 0U);
}

TEST(Connections, ThereIsNoBacklog) {
    Machine machine;
    expect_failure(machine.request(2, 20, offer_of(6, 5)), 20, Code::NoMatch);
    machine.wait(1, 10, 5);
    machine.request(2, 21, offer_of(6, 5));
    // The wait is used up.
    expect_failure(machine.request(2, 22, offer_of(6, 5)), 22, Code::NoMatch);
}

TEST(Connections, AnotherHostIsNotReachable) {
    Machine machine;
    ConnectOffer far = offer_of(6, 5);
    far.remote = place(5, 9);
    expect_failure(machine.request(2, 20, far), 20, Code::NotReachable);
    expect_failure(machine.peer(2, 21, far), 21, Code::NotReachable);
    // Who does not say where he is can not be told that.
    far.local.host_bytes = 0;
    far.local.host[0] = 0;
    expect_failure(machine.request(2, 22, far), 22, Code::NoMatch);
    // And a name under which somebody waits here is of this host.
    Outcomes outcomes;
    machine.connections.wait(1, 10, place(5, 9), fabric_shm, Deadline::never(), machine.now,
                             outcomes);
    EXPECT_TRUE(outcomes.empty());
    far = offer_of(6, 5);
    far.remote = place(5, 9);
    EXPECT_NE(incoming(machine.request(2, 23, far).at(0)), nullptr);
}

TEST(Connections, LengthAndBytesOfAnAddressCount) {
    Machine machine;
    NetAddress longer = place(5);
    longer.discriminator_bytes = 2;  // the same byte and a zero
    Outcomes outcomes;
    machine.connections.wait(1, 10, longer, fabric_shm, Deadline::never(), 0, outcomes);
    expect_failure(machine.request(2, 20, offer_of(6, 5)), 20, Code::NoMatch);
}

TEST(Connections, AWaitTakesItsFabricsOnly) {
    Machine machine;
    ConnectOffer net = offer_of(6, 5);
    net.fabric = fabric_net;
    machine.wait(1, 10, 5);
    expect_failure(machine.request(2, 20, net), 20, Code::NoMatch);
    Outcomes outcomes;
    machine.connections.wait(1, 11, place(5), all_fabrics, Deadline::never(), machine.now,
                             outcomes);
    // The first that fits, not the first.
    const Outcomes met = machine.request(2, 21, net);
    ASSERT_NE(incoming(met.at(0)), nullptr);
    EXPECT_EQ(incoming(met[0])->ticket, 11U);
    EXPECT_EQ(incoming(met[0])->offer.fabric, fabric_net);
    EXPECT_EQ(incoming(machine.request(2, 22, offer_of(6, 5)).at(0))->ticket, 10U);
    // The same with a seeker.
    EXPECT_TRUE(machine.request(2, 23, net, Deadline::never(), Deadline::at(5000)).empty());
    EXPECT_TRUE(machine.wait(1, 12, 5).empty());
    machine.connections.wait(1, 13, place(5), fabric_net, Deadline::never(), machine.now, outcomes);
    ASSERT_EQ(outcomes.size(), 1U);
    EXPECT_EQ(incoming(outcomes[0])->ticket, 13U);
    // It is accepted on the fabric that it was made for.
    const std::uint64_t request = incoming(met[0])->request;
    expect_failure(machine.accept(1, 14, request, offer_of(5, 6)), 14, Code::InvalidArgument);
    ConnectOffer answer = offer_of(5, 6);
    answer.fabric = fabric_net;
    EXPECT_NE(connected(machine.accept(1, 15, request, answer).at(0)), nullptr);
}

TEST(Connections, PeersMeetOnOneFabric) {
    Machine machine;
    ConnectOffer net = offer_of(5, 6);
    net.fabric = fabric_net;
    EXPECT_TRUE(machine.peer(1, 10, net).empty());
    EXPECT_TRUE(machine.peer(2, 20, offer_of(6, 5)).empty());
    ConnectOffer other = offer_of(6, 5);
    other.fabric = fabric_net;
    const Outcomes met = machine.peer(2, 21, other);
    ASSERT_EQ(met.size(), 1U);
    EXPECT_EQ(connected(met[0])->requester.ticket, 10U);
}

TEST(Connections, SeveralAddressesMayMeanOneHost) {
    NetAddress alias = place(5, 9);
    bool is_alias = true;
    Connections connections(Limits{}, 0, Reach::OneHost, [&](const NetAddress& address) {
        NetAddress result = address;
        if (is_alias && address.host[0] == 9) result.host[0] = 1;
        return result;
    });
    Outcomes outcomes;
    connections.wait(1, 10, alias, fabric_shm, Deadline::never(), 0, outcomes);
    connections.request(2, 20, offer_of(6, 5), Deadline::never(), now_deadline, 0, outcomes);
    ASSERT_EQ(outcomes.size(), 1U);
    EXPECT_EQ(incoming(outcomes[0])->ticket, 10U);
    outcomes.clear();
    // A wait goes even if its host has another name meanwhile.
    connections.wait(1, 11, alias, fabric_shm, Deadline::never(), 0, outcomes);
    is_alias = false;
    EXPECT_TRUE(connections.cancel(1, 11));
    is_alias = true;
    connections.request(2, 21, offer_of(6, 5), Deadline::never(), now_deadline, 0, outcomes);
    expect_failure(outcomes, 21, Code::NoMatch);
}

TEST(Connections, ARequestFromAnotherHostMeetsAWait) {
    Machine machine;
    ConnectOffer far = offer_of(6, 5);
    far.local = place(6, 9);
    machine.wait(1, 10, 5);
    const Outcomes met = machine.request(remote_requesters, 20, far);
    ASSERT_NE(incoming(met.at(0)), nullptr);
    EXPECT_EQ(incoming(met[0])->offer.local, place(6, 9));
    expect_failure(machine.request(remote_requesters, 21, far), 21, Code::NoMatch);
}

TEST(Connections, WaitsAreServedInOrderOfArrival) {
    Machine machine;
    machine.wait(1, 10, 5);
    machine.wait(3, 11, 5);
    machine.wait(1, 12, 5);
    EXPECT_EQ(incoming(machine.request(2, 20, offer_of(6, 5)).at(0))->ticket, 10U);
    EXPECT_EQ(incoming(machine.request(2, 21, offer_of(6, 5)).at(0))->ticket, 11U);
    EXPECT_EQ(incoming(machine.request(2, 22, offer_of(6, 5)).at(0))->ticket, 12U);
}

TEST(Connections, WaitsAndRequestsTimeOut) {
    Machine machine;
    machine.wait(1, 10, 5, Deadline::at(2000));
    EXPECT_EQ(machine.connections.next_deadline().moment(), 2000);
    EXPECT_TRUE(machine.expire(1999).empty());
    expect_failure(machine.expire(2000), 10, Code::Timeout);
    EXPECT_TRUE(machine.connections.next_deadline().is_never());
    expect_failure(machine.wait(1, 11, 5, Deadline::at(2000)), 11, Code::Timeout);
    machine.wait(1, 12, 5);
    const Outcomes met = machine.request(2, 20, offer_of(6, 5), Deadline::at(3000));
    expect_failure(machine.expire(3000), 20, Code::Timeout);
    // The accept that comes later finds that out, once.
    const std::uint64_t request = incoming(met.at(0))->request;
    expect_failure(machine.accept(1, 13, request, offer_of(5, 6)), 13, Code::Timeout);
    expect_failure(machine.accept(1, 14, request, offer_of(5, 6)), 14, Code::InvalidArgument);
    EXPECT_EQ(machine.connections.unanswered(), 0U);
}

TEST(Connections, AnAcceptAtTheVeryMomentOfTheDeadlineIsTooLate) {
    Machine machine;
    machine.wait(1, 10, 5);
    const Outcomes met = machine.request(2, 20, offer_of(6, 5), Deadline::at(3000));
    machine.now = 3000;  // nobody called expire yet
    const Outcomes late = machine.accept(1, 11, incoming(met.at(0))->request, offer_of(5, 6));
    ASSERT_EQ(late.size(), 2U);
    EXPECT_EQ(failure(late[0])->ticket, 20U);
    EXPECT_EQ(failure(late[1])->ticket, 11U);
    EXPECT_EQ(failure(late[1])->error.code, Code::Timeout);
}

TEST(Connections, OnlyTheServerThatWasToldMayAnswerAndOnce) {
    Machine machine;
    machine.wait(1, 10, 5);
    const Outcomes met = machine.request(2, 20, offer_of(6, 5));
    const std::uint64_t request = incoming(met.at(0))->request;
    expect_failure(machine.accept(3, 30, request, offer_of(5, 6)), 30, Code::InvalidArgument);
    expect_failure(machine.reject(3, 31, request), 31, Code::InvalidArgument);
    const Outcomes rejected = machine.reject(1, 11, request);
    ASSERT_EQ(rejected.size(), 2U);
    EXPECT_EQ(failure(rejected[0])->ticket, 20U);
    EXPECT_EQ(failure(rejected[0])->error.code, Code::Rejected);
    EXPECT_EQ(std::get<outcome::Done>(rejected[1]).ticket, 11U);
    expect_failure(machine.reject(1, 12, request), 12, Code::InvalidArgument);
}

TEST(Connections, AConflictOfAttributesLeavesTheRequest) {
    Machine machine;
    machine.wait(1, 10, 5);
    const Outcomes met = machine.request(2, 20, offer_of(6, 5));
    const std::uint64_t request = incoming(met.at(0))->request;
    ConnectOffer other = offer_of(5, 6);
    other.attributes.reliability = 1;
    expect_failure(machine.accept(1, 11, request, other), 11, Code::ReliabilityMismatch);
    other = offer_of(5, 6);
    other.attributes.max_transfer_bytes = 1;
    expect_failure(machine.accept(1, 12, request, other), 12, Code::TransferSizeMismatch);
    other = offer_of(5, 6);
    other.attributes.quality_of_service = 1;
    expect_failure(machine.accept(1, 13, request, other), 13, Code::QosMismatch);
    EXPECT_NE(connected(machine.accept(1, 14, request, offer_of(5, 6)).at(0)), nullptr);
}

TEST(Connections, PeersMeetCrosswise) {
    Machine machine;
    EXPECT_TRUE(machine.peer(1, 10, offer_of(5, 6)).empty());
    EXPECT_TRUE(machine.peer(2, 20, offer_of(5, 6)).empty());  // not crosswise
    const Outcomes met = machine.peer(3, 30, offer_of(6, 5));
    ASSERT_EQ(met.size(), 1U);
    ASSERT_NE(connected(met[0]), nullptr);
    EXPECT_EQ(connected(met[0])->requester.ticket, 10U);  // the earlier one
    EXPECT_EQ(connected(met[0])->acceptor.ticket, 30U);
    EXPECT_EQ(connected(machine.peer(3, 31, offer_of(6, 5)).at(0))->requester.ticket, 20U);
}

TEST(Connections, APeerRequestDoesNotMeetItself) {
    Machine machine;
    EXPECT_TRUE(machine.peer(1, 10, offer_of(5, 5)).empty());
    EXPECT_NE(connected(machine.peer(1, 11, offer_of(5, 5)).at(0)), nullptr);
}

TEST(Connections, PeersWithAConflictBothLearnIt) {
    Machine machine;
    ConnectOffer other = offer_of(6, 5);
    other.attributes.reliability = 4;
    machine.peer(1, 10, offer_of(5, 6));
    const Outcomes met = machine.peer(2, 20, other);
    ASSERT_EQ(met.size(), 2U);
    for (const Outcome& one : met)
        EXPECT_EQ(failure(one)->error.code, Code::ReliabilityMismatch);
    EXPECT_EQ(machine.connections.tickets(), 0U);
}

TEST(Connections, PeersAndServersDoNotMeet) {
    Machine machine;
    machine.wait(1, 10, 5);
    EXPECT_TRUE(machine.peer(2, 20, offer_of(6, 5)).empty());
    EXPECT_EQ(machine.connections.waiting(1), 1U);
    EXPECT_EQ(machine.connections.waiting(2), 1U);
}

TEST(Connections, WithPatienceARequestWaitsForItsServer) {
    Machine machine;
    EXPECT_TRUE(
        machine.request(2, 20, offer_of(6, 5), Deadline::at(9000), Deadline::at(5000)).empty());
    const Outcomes met = machine.wait(1, 10, 5);
    ASSERT_EQ(met.size(), 1U);
    ASSERT_NE(incoming(met[0]), nullptr);
    EXPECT_EQ(incoming(met[0])->ticket, 10U);
    // From here on its own deadline counts.
    EXPECT_TRUE(machine.expire(5000).empty());
    EXPECT_EQ(machine.connections.next_deadline().moment(), 9000);
    EXPECT_NE(connected(machine.accept(1, 11, incoming(met[0])->request, offer_of(5, 6)).at(0)),
              nullptr);
    // And if nobody comes, nobody waits there.
    EXPECT_TRUE(
        machine.request(2, 21, offer_of(6, 5), Deadline::at(9000), Deadline::at(8000)).empty());
    expect_failure(machine.expire(8000), 21, Code::NoMatch);
}

TEST(Connections, CancelledTicketsGetNoOutcome) {
    Machine machine;
    machine.wait(1, 10, 5, Deadline::at(2000));
    EXPECT_FALSE(machine.connections.cancel(2, 10));  // not his
    EXPECT_TRUE(machine.connections.cancel(1, 10));
    EXPECT_FALSE(machine.connections.cancel(1, 10));
    EXPECT_TRUE(machine.expire(2000).empty());
    expect_failure(machine.request(2, 20, offer_of(6, 5)), 20, Code::NoMatch);
    // A request that its requester cancels while the server thinks.
    machine.wait(1, 11, 5);
    const Outcomes met = machine.request(2, 21, offer_of(6, 5));
    EXPECT_TRUE(machine.connections.cancel(2, 21));
    expect_failure(machine.accept(1, 12, incoming(met.at(0))->request, offer_of(5, 6)), 12,
                   Code::Timeout);
}

TEST(Connections, TheDeathOfAServerEndsWhatItWasToldOf) {
    Machine machine;
    machine.wait(1, 10, 5);
    machine.wait(1, 11, 7);
    machine.request(2, 20, offer_of(6, 5));
    const Outcomes ended = machine.gone(1);
    expect_failure(ended, 20, Code::NoMatch);
    expect_failure(machine.request(2, 21, offer_of(6, 7)), 21, Code::NoMatch);
    EXPECT_EQ(machine.connections.tickets(), 0U);
    EXPECT_EQ(machine.connections.unanswered(), 0U);
}

TEST(Connections, TheDeathOfARequesterIsATimeoutForTheServer) {
    Machine machine;
    machine.wait(1, 10, 5);
    const Outcomes met = machine.request(2, 20, offer_of(6, 5));
    machine.peer(2, 21, offer_of(8, 9));
    EXPECT_TRUE(machine.gone(2).empty());
    expect_failure(machine.accept(1, 11, incoming(met.at(0))->request, offer_of(5, 6)), 11,
                   Code::Timeout);
    EXPECT_TRUE(machine.peer(1, 12, offer_of(9, 8)).empty());
}

TEST(Connections, AProcessMayConnectToItself) {
    Machine machine;
    machine.wait(1, 10, 5);
    const Outcomes met = machine.request(1, 11, offer_of(6, 5));
    const Outcomes done = machine.accept(1, 12, incoming(met.at(0))->request, offer_of(5, 6));
    EXPECT_EQ(connected(done.at(0))->requester.process, 1U);
    EXPECT_EQ(connected(done.at(0))->acceptor.process, 1U);
    machine.wait(1, 13, 5);
    machine.request(1, 14, offer_of(6, 5));
    EXPECT_TRUE(machine.gone(1).empty());
    EXPECT_EQ(machine.connections.tickets(), 0U);
}

TEST(Connections, LimitsAreKeptAndNamed) {
    Limits limits;
    limits.waits = 3;
    limits.requests = 2;
    limits.unanswered = 2;
    Machine machine{limits, Connections(limits)};
    for (Ticket ticket = 1; ticket <= 3; ++ticket)
        EXPECT_TRUE(machine.wait(1, ticket, 5).empty());
    expect_failure(machine.wait(1, 4, 5), 4, Code::OutOfResources);
    EXPECT_TRUE(machine.wait(2, 5, 7).empty());  // another process has its own
    machine.request(3, 10, offer_of(6, 5));
    machine.request(3, 11, offer_of(6, 5));
    expect_failure(machine.request(3, 12, offer_of(6, 5)), 12, Code::OutOfResources);
    expect_failure(machine.peer(3, 13, offer_of(6, 5)), 13, Code::OutOfResources);
    // Two unanswered: no further wait.
    expect_failure(machine.wait(1, 20, 8), 20, Code::OutOfResources);
    EXPECT_NE(failure(machine.wait(1, 21, 8).at(0))->error.sentence.find("2"), std::string::npos);
}

/// Random histories against a plain model: every ticket gets exactly one outcome, the right one.
class History {
  public:
    explicit History(std::uint32_t seed) : random_(seed) {}

    void run() {
        for (int step = 0; step < 1500 && !testing::Test::HasFatalFailure(); ++step) {
            now_ += pick(40);
            if (pick(4) == 0) expire();
            act();
        }
        now_ += 1'000'000;
        expire();
        for (ProcessNumber process = 1; process <= processes; ++process)
            gone(process);
        EXPECT_EQ(connections_.tickets(), 0U);
        EXPECT_EQ(connections_.unanswered(), 0U);
        EXPECT_TRUE(connections_.next_deadline().is_never());
        for (const auto& [ticket, state] : tickets_)
            EXPECT_FALSE(state.pending) << "ticket " << ticket << " was forgotten";
    }

  private:
    static constexpr ProcessNumber processes = 5;
    enum class Kind { Wait, Request, Peer, Answer };
    struct State {
        Kind kind = Kind::Wait;
        ProcessNumber process = 0;
        std::uint8_t where = 0;  // Wait
        ConnectOffer offer;
        Nanoseconds deadline = 0;
        bool pending = true;
        bool presented = false;
    };
    struct Told {
        ProcessNumber server = 0;
        Ticket requester = 0;
    };

    std::uint32_t pick(std::uint32_t count) {
        return static_cast<std::uint32_t>(random_() % count);
    }
    Deadline some_deadline() { return Deadline::at(now_ + 1 + pick(400)); }
    ConnectOffer some_offer() {
        ConnectOffer offer =
            offer_of(static_cast<std::uint8_t>(pick(3)), static_cast<std::uint8_t>(pick(3)));
        if (pick(10) == 0) offer.attributes.reliability = 1;
        return offer;
    }
    State& open(Ticket ticket, Kind kind, ProcessNumber process, Deadline deadline) {
        State& state = tickets_[ticket];
        state.kind = kind;
        state.process = process;
        state.deadline = deadline.moment();
        return state;
    }
    void close(Ticket ticket, ProcessNumber process) {
        const auto found = tickets_.find(ticket);
        ASSERT_NE(found, tickets_.end());
        ASSERT_TRUE(found->second.pending) << "ticket " << ticket << " has two outcomes";
        ASSERT_EQ(found->second.process, process);
        found->second.pending = false;
        std::erase(waits_, ticket);
        std::erase(peers_, ticket);
    }

    void act() {
        const ProcessNumber process = 1 + pick(processes);
        const Ticket ticket = ++last_ticket_;
        Outcomes outcomes;
        switch (pick(12)) {
            case 0:
            case 1:
            case 2: {
                const auto where = static_cast<std::uint8_t>(pick(3));
                const Deadline deadline = some_deadline();
                State& state = open(ticket, Kind::Wait, process, deadline);
                state.where = where;
                waits_.push_back(ticket);
                connections_.wait(process, ticket, place(where), fabric_shm, deadline, now_,
                                  outcomes);
                ASSERT_TRUE(outcomes.empty());
                break;
            }
            case 3:
            case 4:
            case 5: {
                const Deadline deadline = some_deadline();
                State& state = open(ticket, Kind::Request, process, deadline);
                state.offer = some_offer();
                const auto first = std::find_if(waits_.begin(), waits_.end(), [&](Ticket wait) {
                    return tickets_[wait].where == state.offer.remote.discriminator[0];
                });
                const std::optional<Ticket> expected =
                    first == waits_.end() ? std::nullopt : std::optional(*first);
                connections_.request(process, ticket, state.offer, deadline, now_deadline, now_,
                                     outcomes);
                ASSERT_EQ(outcomes.size(), 1U);
                if (expected) {
                    const auto* told = incoming(outcomes[0]);
                    ASSERT_NE(told, nullptr);
                    ASSERT_EQ(told->ticket, *expected);
                    ASSERT_EQ(told->offer.local, state.offer.local);
                    close(*expected, told->process);
                    state.presented = true;
                    told_[told->request] = Told{told->process, ticket};
                } else {
                    ASSERT_EQ(failure(outcomes[0])->error.code, Code::NoMatch);
                    close(ticket, process);
                }
                break;
            }
            case 6:
            case 7:
            case 8: {
                // Mostly what one was told of, sometimes anything.
                std::uint64_t request = pick(40);
                ProcessNumber server = process;
                if (!told_.empty() && pick(8) != 0) {
                    auto chosen = told_.begin();
                    std::advance(chosen, pick(static_cast<std::uint32_t>(told_.size())));
                    request = chosen->first;
                    if (pick(8) != 0) server = chosen->second.server;
                }
                answer(server, ticket, request);
                break;
            }
            case 9:
            case 10: {
                const Deadline deadline = some_deadline();
                State& state = open(ticket, Kind::Peer, process, deadline);
                state.offer = some_offer();
                const auto mate = std::find_if(peers_.begin(), peers_.end(), [&](Ticket other) {
                    return tickets_[other].offer.local == state.offer.remote &&
                           tickets_[other].offer.remote == state.offer.local;
                });
                const std::optional<Ticket> expected =
                    mate == peers_.end() ? std::nullopt : std::optional(*mate);
                connections_.peer_request(process, ticket, state.offer, deadline, now_, outcomes);
                if (!expected) {
                    ASSERT_TRUE(outcomes.empty());
                    peers_.push_back(ticket);
                    break;
                }
                const State& other = tickets_[*expected];
                if (compatible(other.offer.attributes, state.offer.attributes)) {
                    ASSERT_EQ(outcomes.size(), 1U);
                    ASSERT_NE(connected(outcomes[0]), nullptr);
                    ASSERT_EQ(connected(outcomes[0])->requester.ticket, *expected);
                    ASSERT_EQ(connected(outcomes[0])->acceptor.ticket, ticket);
                } else {
                    ASSERT_EQ(outcomes.size(), 2U);
                }
                close(*expected, other.process);
                close(ticket, process);
                break;
            }
            default:
                if (pick(5) == 0) {
                    gone(process);
                } else if (pick(2) == 0 && !tickets_.empty()) {
                    auto chosen = tickets_.begin();
                    std::advance(chosen, pick(static_cast<std::uint32_t>(tickets_.size())));
                    const Ticket target = chosen->first;
                    const bool was_pending = chosen->second.pending;
                    const ProcessNumber owner = chosen->second.process;
                    ASSERT_EQ(connections_.cancel(owner, target), was_pending);
                    if (was_pending) close(target, owner);
                    forget_requester(target);
                }
        }
    }

    void forget_requester(Ticket ticket) {
        for (auto& [request, told] : told_)
            if (told.requester == ticket) told.requester = 0;
    }

    void answer(ProcessNumber server, Ticket ticket, std::uint64_t request) {
        Outcomes outcomes;
        const auto found = told_.find(request);
        const bool valid = found != told_.end() && found->second.server == server;
        open(ticket, Kind::Answer, server, Deadline::never());
        const bool accepting = pick(3) != 0;
        const ConnectOffer offer = some_offer();
        if (accepting)
            connections_.accept(server, ticket, request, offer, now_, outcomes);
        else
            connections_.reject(server, ticket, request, outcomes);
        if (!valid) {
            expect_failure(outcomes, ticket, Code::InvalidArgument);
            close(ticket, server);
            return;
        }
        const Ticket requester = found->second.requester;
        const bool late = requester == 0 || tickets_[requester].deadline <= now_;
        if (accepting && late) {
            ASSERT_EQ(failure(outcomes.back())->error.code, Code::Timeout);
            ASSERT_EQ(failure(outcomes.back())->ticket, ticket);
            if (requester != 0) close(requester, tickets_[requester].process);
            told_.erase(found);
        } else if (accepting &&
                   !compatible(tickets_[requester].offer.attributes, offer.attributes)) {
            expect_failure(outcomes, ticket, Code::ReliabilityMismatch);
        } else if (accepting) {
            ASSERT_EQ(outcomes.size(), 1U);
            ASSERT_NE(connected(outcomes[0]), nullptr);
            ASSERT_EQ(connected(outcomes[0])->requester.ticket, requester);
            close(requester, tickets_[requester].process);
            told_.erase(found);
        } else {
            if (requester != 0) {
                ASSERT_EQ(outcomes.size(), 2U);
                ASSERT_EQ(failure(outcomes[0])->error.code, Code::Rejected);
                close(requester, tickets_[requester].process);
            }
            ASSERT_EQ(std::get<outcome::Done>(outcomes.back()).ticket, ticket);
            told_.erase(found);
        }
        close(ticket, server);
    }

    void expire() {
        Outcomes outcomes;
        connections_.expire(now_, outcomes);
        std::set<Ticket> expected;
        for (const auto& [ticket, state] : tickets_)
            if (state.pending && state.deadline <= now_) expected.insert(ticket);
        for (const Outcome& one : outcomes) {
            const auto* failed = failure(one);
            ASSERT_NE(failed, nullptr);
            ASSERT_EQ(failed->error.code, Code::Timeout);
            ASSERT_EQ(expected.erase(failed->ticket), 1U);
            close(failed->ticket, failed->process);
            forget_requester(failed->ticket);
        }
        ASSERT_TRUE(expected.empty());
    }

    void gone(ProcessNumber process) {
        Outcomes outcomes;
        connections_.process_gone(process, outcomes);
        for (auto& [ticket, state] : tickets_) {
            if (!state.pending || state.process != process) continue;
            close(ticket, process);
            forget_requester(ticket);
        }
        std::set<Ticket> expected;
        std::erase_if(told_, [&](const auto& entry) {
            if (entry.second.server != process) return false;
            if (entry.second.requester != 0) expected.insert(entry.second.requester);
            return true;
        });
        for (const Outcome& one : outcomes) {
            const auto* failed = failure(one);
            ASSERT_NE(failed, nullptr);
            ASSERT_EQ(failed->error.code, Code::NoMatch);
            ASSERT_EQ(expected.erase(failed->ticket), 1U);
            close(failed->ticket, failed->process);
        }
        ASSERT_TRUE(expected.empty());
    }

    std::mt19937 random_;
    Connections connections_{Limits{}};
    Nanoseconds now_ = 1000;
    Ticket last_ticket_ = 0;
    std::map<Ticket, State> tickets_;
    std::vector<Ticket> waits_;
    std::vector<Ticket> peers_;
    std::map<std::uint64_t, Told> told_;
};

TEST(Connections, AnyHistoryGivesEveryTicketItsOneOutcome) {
    for (std::uint32_t seed = 1; seed <= 100; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        History(seed).run();
        if (HasFailure()) return;
    }
}

}  // namespace
}  // namespace via::ka
