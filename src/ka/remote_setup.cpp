// SPDX-License-Identifier: BSD-3-Clause
#include "ka/remote_setup.hpp"

#include <algorithm>
#include <array>

#include "ka/limits.hpp"
#include "ka/protocol.hpp"

namespace via::ka {
namespace {

using base::Code;
using base::Deadline;
using base::Error;
using base::Nanoseconds;
using wire::ByteReader;
using wire::ByteView;
using wire::ByteWriter;
using wire::Cookie;
using wire::SetupExchange;
using wire::SetupKind;
using wire::SetupMessage;

constexpr Nanoseconds millisecond = 1'000'000;
constexpr Nanoseconds second = 1'000'000'000;
/// How soon a question is repeated, and how seldom at last.
constexpr Nanoseconds first_pause = 20 * millisecond;
constexpr Nanoseconds last_pause = 250 * millisecond;
/// A host that says nothing for so long is not there, however long the process would wait.
constexpr Nanoseconds answer_patience = 10 * second;
/// A cookie is good in the time slot in which it was made and in the next.
constexpr Nanoseconds cookie_slot = 8 * second;
/// A requester repeats itself far more often than this.
constexpr Nanoseconds requester_patience = 3 * second;
/// How long an acceptor waits for the requester to take what it asked for.
constexpr Nanoseconds confirm_patience = 2 * second;
/// A failure is kept so long, if the requester does not say that it knows.
constexpr Nanoseconds failure_time = 3 * second;
constexpr int farewell_repeats = 2;
constexpr Nanoseconds farewell_pause = 50 * millisecond;
/// The tickets of arrivals, apart from those that the agent gives.
constexpr Ticket arrival_tickets = Ticket{1} << 63;

std::string milliseconds(Nanoseconds time) {
    return std::to_string(time / millisecond) + " ms";
}

std::uint64_t slot_of(Nanoseconds now) {
    return static_cast<std::uint64_t>(now / cookie_slot);
}

Nanoseconds end_of(const Cookie& cookie) {
    return static_cast<Nanoseconds>(cookie.slot + 2) * cookie_slot;
}

AgentAddress host_of(const AgentAddress& address) {
    AgentAddress host = address;
    host.port = 0;
    return host;
}

SetupOutcome failure(Error error) {
    SetupOutcome outcome;
    outcome.state = SetupOutcome::State::Failed;
    outcome.error = std::move(error);
    return outcome;
}

/// What is left of a request that has been answered and forgotten but for its number.
SetupOutcome stale() {
    return failure(Error{Code::Timeout,
                         "the other host has given the request up, because it heard nothing of it "
                         "for " +
                             milliseconds(requester_patience)});
}

}  // namespace

RemoteSetup::RemoteSetup(const wire::Key& cluster, std::uint64_t instance, std::uint16_t port,
                         Random random, OwnAddresses own_addresses, const SetupLimits& limits)
    : cluster_(cluster),
      key_id_(wire::key_id(cluster)),
      instance_(instance),
      port_(port),
      random_(std::move(random)),
      own_addresses_(std::move(own_addresses)),
      limits_(limits) {
    random_(cookie_secret_);
    last_request_ = random_number() >> 1;
}

std::uint64_t RemoteSetup::random_number() {
    const auto bytes = random_bytes<8>();
    ByteReader reader(bytes);
    return reader.number<std::uint64_t>();
}

// ---- this host asks

void RemoteSetup::request(ProcessNumber process, Ticket ticket, const ConnectOffer& offer,
                          const AgentAddress& target, Deadline deadline, std::uint64_t patience_ns,
                          Nanoseconds now, SetupOutput& output) {
    Outgoing outgoing;
    outgoing.process = process;
    outgoing.ticket = ticket;
    outgoing.offer = offer;
    outgoing.target = target;
    outgoing.deadline = deadline;
    outgoing.patience_ns = patience_ns;
    begin(std::move(outgoing), now, output);
}

void RemoteSetup::peer_request(ProcessNumber process, Ticket ticket, const ConnectOffer& offer,
                               const AgentAddress& target, Deadline deadline, Nanoseconds now,
                               SetupOutput& output) {
    Outgoing outgoing;
    outgoing.process = process;
    outgoing.ticket = ticket;
    outgoing.purpose = SetupPurpose::Peer;
    outgoing.offer = offer;
    outgoing.target = target;
    outgoing.deadline = deadline;
    begin(std::move(outgoing), now, output);
}

void RemoteSetup::begin(Outgoing outgoing, Nanoseconds now, SetupOutput& output) {
    if (outgoing.deadline.expired(now)) {
        output.events.emplace_back(setup::Failed{
            outgoing.ticket,
            Error{Code::Timeout, "the request to connect to " + readable(outgoing.target) +
                                     " came with no time left"}});
        return;
    }
    outgoing.begun = now;
    outgoing.last_heard = now;
    outgoing.pause = first_pause;
    outgoing.nonce = random_bytes<std::tuple_size_v<wire::SetupNonce>>();
    const RequestNumber number = ++last_request_;
    const bool peer = outgoing.purpose == SetupPurpose::Peer;
    by_nonce_[outgoing.nonce] = number;
    by_ticket_[outgoing.ticket] = number;
    if (peer) {
        ++waiting_[outgoing.process];
        peers_here_.emplace(peer_key(outgoing.offer, false), number);
    }
    Outgoing& kept = outgoing_.emplace(number, std::move(outgoing)).first->second;
    set_alarm(number, kept);
    if (peer) match(number, now, output);
    // Also if the other host has asked already: it may be for this agent to wait.
    const auto found = outgoing_.find(number);
    if (found != outgoing_.end() && found->second.stage == Outgoing::Stage::Greeting)
        speak(number, found->second, now, output);
}

/// The peer request that it had met has been given up; another one may come.
void RemoteSetup::greet_again(RequestNumber number, Nanoseconds now, SetupOutput& output) {
    Outgoing outgoing = std::move(outgoing_.at(number));
    const Nanoseconds begun = outgoing.begun;
    outgoing_alarms_.erase({outgoing.alarm, number});
    by_nonce_.erase(outgoing.nonce);
    by_ticket_.erase(outgoing.ticket);
    if (--waiting_[outgoing.process] == 0) waiting_.erase(outgoing.process);
    outgoing_.erase(number);
    outgoing.stage = Outgoing::Stage::Greeting;
    outgoing.cookie.reset();
    outgoing.arrival = 0;
    outgoing.alarm = 0;
    const Ticket ticket = outgoing.ticket;
    begin(std::move(outgoing), now, output);
    if (const auto found = by_ticket_.find(ticket); found != by_ticket_.end())
        outgoing_.at(found->second).begun = begun;
}

void RemoteSetup::speak(RequestNumber number, Outgoing& outgoing, Nanoseconds now,
                        SetupOutput& output) {
    const auto send = [&](wire::Bytes bytes) {
        output.datagrams.push_back(Datagram{outgoing.target, {}, std::move(bytes)});
    };
    const auto send_sealed = [&](SetupKind kind, const wire::Bytes& body) {
        const SetupExchange exchange{outgoing.nonce, *outgoing.cookie, number};
        send(wire::encode_sealed(kind, cluster_, exchange,
                                 random_bytes<std::tuple_size_v<wire::SealNonce>>(), body));
    };
    switch (outgoing.stage) {
        case Outgoing::Stage::Greeting:
            send(wire::encode_hello(key_id_, outgoing.nonce));
            break;
        case Outgoing::Stage::Asking: {
            SetupRequest request;
            request.purpose = outgoing.purpose;
            request.instance = instance_;
            request.remaining_ns = outgoing.deadline.is_never()
                                       ? timeout_never
                                       : static_cast<std::uint64_t>(std::max<Nanoseconds>(
                                             outgoing.deadline.moment() - now, 0));
            request.patience_ns = outgoing.patience_ns;
            request.offer = outgoing.offer;
            request.port = port_;
            request.addresses = own_addresses_();
            send_sealed(SetupKind::Request, encode(request));
            break;
        }
        case Outgoing::Stage::Confirming: {
            ByteWriter body;
            body.number(instance_);
            send_sealed(SetupKind::Confirm, body.written());
            break;
        }
        case Outgoing::Stage::Matched:
            break;
    }
    outgoing.next_send = now + outgoing.pause;
    outgoing.pause = std::min(2 * outgoing.pause, last_pause);
    set_alarm(number, outgoing);
}

void RemoteSetup::set_alarm(RequestNumber number, Outgoing& outgoing) {
    outgoing_alarms_.erase({outgoing.alarm, number});
    outgoing.alarm = outgoing.deadline.moment();
    if (outgoing.stage != Outgoing::Stage::Matched)
        outgoing.alarm = std::min(outgoing.alarm, outgoing.next_send);
    outgoing_alarms_.emplace(outgoing.alarm, number);
}

void RemoteSetup::end(RequestNumber number, bool tell, Nanoseconds now, SetupOutput& output) {
    const auto found = outgoing_.find(number);
    const Outgoing& outgoing = found->second;
    if (tell && outgoing.cookie)
        say_farewell(outgoing.target, SetupExchange{outgoing.nonce, *outgoing.cookie, number}, now,
                     output);
    if (outgoing.purpose == SetupPurpose::Peer) {
        forget_peer(peers_here_, outgoing.offer, number);
        if (--waiting_[outgoing.process] == 0) waiting_.erase(outgoing.process);
    }
    outgoing_alarms_.erase({outgoing.alarm, number});
    by_nonce_.erase(outgoing.nonce);
    by_ticket_.erase(outgoing.ticket);
    outgoing_.erase(found);
}

void RemoteSetup::fail_outgoing(RequestNumber number, Error error, bool tell, Nanoseconds now,
                                SetupOutput& output) {
    output.events.emplace_back(setup::Failed{outgoing_.at(number).ticket, std::move(error)});
    end(number, tell, now, output);
}

Error RemoteSetup::silence(const Outgoing& outgoing, Nanoseconds now) const {
    if (!outgoing.obstacle.empty()) return Error{Code::Timeout, outgoing.obstacle};
    const std::string where = readable(outgoing.target);
    if (!outgoing.heard)
        return Error{Code::Timeout, "no answer from " + where + " within " +
                                        milliseconds(now - outgoing.begun) +
                                        ": is viad running there, is UDP port " +
                                        std::to_string(outgoing.target.port) + " open?"};
    if (now - outgoing.last_heard >= answer_patience)
        return Error{Code::Timeout, where + " has not answered any more for " +
                                        milliseconds(now - outgoing.last_heard)};
    if (outgoing.purpose == SetupPurpose::Peer)
        return Error{Code::Timeout,
                     "no peer at " + where + " asked for the same connection in time"};
    return Error{Code::Timeout, "the process at " + where +
                                    " neither accepted nor rejected the connection in time"};
}

void RemoteSetup::out_of_time(RequestNumber number, Nanoseconds now, SetupOutput& output) {
    const Outgoing& outgoing = outgoing_.at(number);
    Error error = silence(outgoing, now);
    if (outgoing.stage == Outgoing::Stage::Matched)
        fail_arrival(arrivals_.at(by_arrival_.at(outgoing.arrival)), error, now, output);
    fail_outgoing(number, std::move(error), true, now, output);
}

void RemoteSetup::say_farewell(const AgentAddress& target, const SetupExchange& exchange,
                               Nanoseconds now, SetupOutput& output) {
    ByteWriter body;
    body.number(instance_);
    output.datagrams.push_back(Datagram{
        target,
        {},
        wire::encode_sealed(SetupKind::Cancel, cluster_, exchange,
                            random_bytes<std::tuple_size_v<wire::SealNonce>>(), body.written())});
    if (farewells_.size() < limits_.farewells)
        farewells_.emplace(now + farewell_pause,
                           Farewell{target, exchange, farewell_repeats, farewell_pause});
}

void RemoteSetup::on_challenge(const SetupMessage& message, Nanoseconds now, SetupOutput& output) {
    const auto found = by_nonce_.find(message.nonce);
    if (found == by_nonce_.end() || message.key != key_id_) return;
    const RequestNumber number = found->second;
    Outgoing& outgoing = outgoing_.at(number);
    if (outgoing.stage == Outgoing::Stage::Matched || outgoing.cookie == message.cookie) return;
    const bool first = outgoing.stage == Outgoing::Stage::Greeting;
    outgoing.cookie = message.cookie;
    outgoing.heard = true;
    outgoing.obstacle.clear();
    outgoing.last_heard = now;
    outgoing.pause = first_pause;
    if (first) {
        outgoing.stage = Outgoing::Stage::Asking;
        speak(number, outgoing, now, output);
        return;
    }
    // The cookie has grown old, or there is a new agent, to which the server may yet have to come
    // back. Not at once: whoever made that up would have us send as fast as he does.
    outgoing.patience_ns = std::max(outgoing.patience_ns, max_patience_ns);
    outgoing.next_send = std::min(outgoing.next_send, now + first_pause);
    set_alarm(number, outgoing);
}

void RemoteSetup::on_refusal(const SetupMessage& message, Nanoseconds now, SetupOutput& output) {
    const auto found = by_nonce_.find(message.nonce);
    if (found == by_nonce_.end()) return;
    const RequestNumber number = found->second;
    const Outgoing& outgoing = outgoing_.at(number);
    if (outgoing.stage == Outgoing::Stage::Matched) return;
    const std::string where = readable(outgoing.target);
    if (message.reason == wire::RefusalReason::WrongVersion) {
        if (message.version == wire::setup_version) return;
        return fail_outgoing(
            number,
            Error{Code::NotReachable, where + " speaks version " + std::to_string(message.version) +
                                          " of the set-up protocol and this host version " +
                                          std::to_string(wire::setup_version) +
                                          ": install the same Viaduct on both"},
            false, now, output);
    }
    if (message.key == key_id_) return;
    fail_outgoing(number,
                  Error{Code::NotReachable,
                        where + " belongs to a cluster with another key (" +
                            wire::readable(message.key) + " there, " + wire::readable(key_id_) +
                            " here): give both agents the same VIA_NET_KEY_FILE or VIA_NET_KEY"},
                  false, now, output);
}

void RemoteSetup::on_answer(const SetupMessage& message, Nanoseconds now, SetupOutput& output) {
    const auto found = by_nonce_.find(message.nonce);
    if (found == by_nonce_.end() || found->second != message.request) return;
    const RequestNumber number = found->second;
    Outgoing& outgoing = outgoing_.at(number);
    if (outgoing.cookie != message.cookie) return;
    const auto body = wire::open_sealed(cluster_, message);
    if (!body) return;
    outgoing.heard = true;
    outgoing.obstacle.clear();
    outgoing.last_heard = now;
    if (message.kind == SetupKind::Confirmed) {
        if (outgoing.stage != Outgoing::Stage::Confirming) return;
        output.events.emplace_back(
            setup::Established{outgoing.ticket, outgoing.offer, outgoing.outcome.offer,
                               outgoing.outcome.session_key, outgoing.outcome.connection, true});
        return end(number, false, now, output);
    }
    auto outcome = decode_setup_outcome(*body);
    if (!outcome) return;
    if (outcome->state == SetupOutcome::State::Failed)
        return fail_outgoing(number, std::move(outcome->error), true, now, output);
    if (outcome->state != SetupOutcome::State::Established ||
        outgoing.stage != Outgoing::Stage::Asking)
        return;
    if (auto match = compatible(outgoing.offer.attributes, outcome->offer.attributes); !match)
        return fail_outgoing(number, match.error(), true, now, output);
    outgoing.outcome = std::move(*outcome);
    set_scope(outgoing.outcome.offer.local, outgoing.target.scope);
    outgoing.stage = Outgoing::Stage::Confirming;
    outgoing.pause = first_pause;
    speak(number, outgoing, now, output);
}

void RemoteSetup::undeliverable(const AgentAddress& peer, bool refused, const std::string& why,
                                Nanoseconds now, SetupOutput& output) {
    std::vector<RequestNumber> concerned;
    for (const auto& [number, outgoing] : outgoing_)
        // Anybody can say such a thing; who has heard of the other host knows better.
        if (outgoing.target.same_host(peer) && outgoing.target.port == peer.port && !outgoing.heard)
            concerned.push_back(number);
    for (const RequestNumber number : concerned) {
        Outgoing& outgoing = outgoing_.at(number);
        const std::string where = readable(peer);
        outgoing.obstacle =
            refused ? "no kernel agent runs at " + where +
                          " (UDP port unreachable): start viad there, or a program that uses it; a "
                          "firewall that rejects the port says the same"
                    : where + " can not be reached: " + why;
        // A peer may come later, with its agent.
        if (outgoing.purpose == SetupPurpose::Connect)
            fail_outgoing(number, Error{Code::NotReachable, outgoing.obstacle}, false, now, output);
    }
}

// ---- other hosts ask

Cookie RemoteSetup::make_cookie(std::uint64_t slot, const AgentAddress& peer,
                                const wire::SetupNonce& nonce) const {
    ByteWriter writer;
    writer.number(slot);
    writer.number(peer.family);
    writer.number(peer.port);
    writer.bytes(peer.ip);
    writer.bytes(nonce);
    return Cookie{slot, wire::keyed_hash(cookie_secret_, writer.written())};
}

bool RemoteSetup::is_fresh(const Cookie& cookie, const AgentAddress& peer,
                           const wire::SetupNonce& nonce, Nanoseconds now) const {
    const std::uint64_t slot = slot_of(now);
    if (cookie.slot != slot && cookie.slot + 1 != slot) return false;
    return wire::same(make_cookie(cookie.slot, peer, nonce).mac, cookie.mac);
}

void RemoteSetup::challenge(const Asked& asked, Nanoseconds now, SetupOutput& output) const {
    const wire::SetupNonce& nonce = asked.message.nonce;
    const Cookie cookie = make_cookie(slot_of(now), asked.peer, nonce);
    output.datagrams.push_back(
        Datagram{asked.peer, asked.local, wire::encode_challenge(key_id_, nonce, cookie)});
}

void RemoteSetup::receive(const AgentAddress& peer, const AgentAddress& local, ByteView datagram,
                          Nanoseconds now, SetupOutput& output) {
    const auto message = wire::decode_setup(datagram);
    if (!message) return;
    const Asked asked{peer, local, *message};
    const auto refuse = [&](wire::RefusalReason reason) {
        output.datagrams.push_back(
            Datagram{peer, local, wire::encode_refusal(key_id_, message->nonce, reason)});
    };
    switch (message->kind) {
        case SetupKind::Hello:
            if (message->version != wire::setup_version)
                return refuse(wire::RefusalReason::WrongVersion);
            if (message->key != key_id_) return refuse(wire::RefusalReason::WrongKey);
            return challenge(asked, now, output);
        case SetupKind::Challenge:
            return on_challenge(*message, now, output);
        case SetupKind::Refusal:
            return on_refusal(*message, now, output);
        case SetupKind::Outcome:
        case SetupKind::Confirmed:
            if (message->key == key_id_) on_answer(*message, now, output);
            return;
        case SetupKind::Request:
        case SetupKind::Confirm:
        case SetupKind::Cancel:
            if (message->key != key_id_) return refuse(wire::RefusalReason::WrongKey);
            return on_question(asked, now, output);
    }
}

void RemoteSetup::on_question(const Asked& asked, Nanoseconds now, SetupOutput& output) {
    const SetupMessage& message = asked.message;
    if (!is_fresh(message.cookie, asked.peer, message.nonce, now)) {
        if (message.kind != SetupKind::Cancel) challenge(asked, now, output);
        return;
    }
    const auto body = wire::open_sealed(cluster_, message);
    if (!body) return;
    if (message.kind == SetupKind::Request) {
        if (const auto request = decode_setup_request(*body))
            on_request(asked, *request, now, output);
        return;
    }
    ByteReader reader(*body);
    const auto instance = reader.number<std::uint64_t>();
    if (!reader.finished()) return;
    const auto found = arrivals_.find({instance, message.request});
    if (found != arrivals_.end()) {
        Arrival& arrival = found->second;
        arrival.keep_until = std::max(arrival.keep_until, end_of(message.cookie));
        if (message.kind == SetupKind::Confirm) return on_confirm(asked, arrival, now, output);
        return on_cancel(arrival, now, output);
    }
    if (message.kind == SetupKind::Confirm)
        answer(asked.peer, asked.local,
               SetupExchange{message.nonce, message.cookie, message.request}, SetupKind::Outcome,
               failure(Error{Code::NoMatch,
                             "the kernel agent of the other host was replaced while the "
                             "connection was set up"}),
               output);
}

void RemoteSetup::on_request(const Asked& asked, const SetupRequest& request, Nanoseconds now,
                             SetupOutput& output) {
    const SetupExchange exchange{asked.message.nonce, asked.message.cookie, asked.message.request};
    const auto answer_at_once = [&](const SetupOutcome& outcome) {
        answer(asked.peer, asked.local, exchange, SetupKind::Outcome, outcome, output);
    };
    const ArrivalKey key{request.instance, exchange.request};
    if (const auto found = arrivals_.find(key); found != arrivals_.end()) {
        Arrival& arrival = found->second;
        arrival.keep_until = std::max(arrival.keep_until, end_of(exchange.cookie));
        if (arrival.live) {
            Live& live = *arrival.live;
            live.peer = asked.peer;
            live.local = asked.local;
            live.exchange = exchange;
            live.last_heard = now;
            answer(live, output);
        } else if (arrival.stage != Arrival::Stage::Confirmed) {
            answer_at_once(stale());
        }
        return set_alarm(arrival);
    }
    if (request.instance == instance_)
        return answer_at_once(failure(Error{
            Code::NotReachable, readable(asked.peer) + " leads back to the host that asked"}));
    const AgentAddress host = host_of(asked.peer);
    const auto counts = hosts_.find(host);
    const HostCounts here = counts == hosts_.end() ? HostCounts{} : counts->second;
    if (live_ >= limits_.arrivals || here.live >= limits_.arrivals_per_host ||
        arrivals_.size() >= limits_.remembered || here.remembered >= limits_.remembered_per_host)
        return answer_at_once(failure(Error{
            Code::OutOfResources,
            "the kernel agent of the other host has " + std::to_string(live_) +
                " connection requests under way and remembers " + std::to_string(arrivals_.size()) +
                ", which is its limit; try again in a few seconds"}));
    Arrival& arrival = arrivals_[key];
    arrival.ticket = arrival_tickets | ++last_arrival_;
    arrival.host = host;
    arrival.keep_until = end_of(exchange.cookie);
    arrival.live = std::make_unique<Live>();
    by_arrival_[arrival.ticket] = key;
    ++live_;
    ++hosts_[host].live;
    ++hosts_[host].remembered;
    Live& live = *arrival.live;
    live.purpose = request.purpose;
    live.offer = request.offer;
    set_scope(live.offer.local, asked.peer.scope);
    live.addresses = request.addresses;
    live.peer = asked.peer;
    live.local = asked.local;
    live.exchange = exchange;
    live.deadline = deadline_of(request.remaining_ns, now);
    live.last_heard = now;
    set_alarm(arrival);
    if (request.purpose == SetupPurpose::Connect) {
        // The answer may be known in a moment; the requester will ask again if it is not.
        output.events.emplace_back(
            setup::Arrived{arrival.ticket, live.offer, live.deadline,
                           deadline_of(std::min(request.patience_ns, max_patience_ns), now)});
        return;
    }
    peers_there_.emplace(peer_key(live.offer, false), arrival.ticket);
    match(arrival, now, output);
    if (arrival.stage == Arrival::Stage::Pending) answer(live, output);
}

void RemoteSetup::answer(const Live& live, SetupOutput& output) {
    answer(live.peer, live.local, live.exchange, SetupKind::Outcome, live.outcome, output);
}

void RemoteSetup::answer(const AgentAddress& peer, const AgentAddress& local,
                         const SetupExchange& exchange, SetupKind kind, const SetupOutcome& outcome,
                         SetupOutput& output) {
    const wire::Bytes body = kind == SetupKind::Outcome ? encode(outcome) : wire::Bytes{};
    output.datagrams.push_back(
        Datagram{peer, local,
                 wire::encode_sealed(kind, cluster_, exchange,
                                     random_bytes<std::tuple_size_v<wire::SealNonce>>(), body)});
}

void RemoteSetup::accept(Ticket ticket, ProcessNumber process, Ticket acceptor,
                         const ConnectOffer& own_offer, Nanoseconds now, SetupOutput& output) {
    const auto found = by_arrival_.find(ticket);
    if (found == by_arrival_.end() ||
        arrivals_.at(found->second).stage != Arrival::Stage::Pending) {
        output.events.emplace_back(
            setup::Failed{acceptor, Error{Code::Timeout,
                                          "the process that asked for the connection has given "
                                          "up"}});
        return;
    }
    offered_[acceptor] = ticket;
    offer(arrivals_.at(found->second), process, acceptor, own_offer, now, output);
}

void RemoteSetup::offer(Arrival& arrival, ProcessNumber process, Ticket own,
                        const ConnectOffer& own_offer, Nanoseconds now, SetupOutput& output) {
    settle(arrival, Arrival::Stage::Offered);
    Live& live = *arrival.live;
    live.own = own;
    live.own_offer = own_offer;
    live.settled = now;
    live.outcome.state = SetupOutcome::State::Established;
    live.outcome.offer = own_offer;
    live.outcome.session_key = random_bytes<std::tuple_size_v<SessionKey>>();
    do {
        live.outcome.connection = random_number();
    } while (live.outcome.connection == 0);
    arrival.process = process;
    arrival.connection = live.outcome.connection;
    set_alarm(arrival);
    answer(live, output);
}

void RemoteSetup::fail(Ticket ticket, const Error& error, Nanoseconds now, SetupOutput& output) {
    const auto found = by_arrival_.find(ticket);
    if (found == by_arrival_.end()) return;
    Arrival& arrival = arrivals_.at(found->second);
    if (arrival.stage == Arrival::Stage::Pending) fail_arrival(arrival, error, now, output);
}

void RemoteSetup::fail_arrival(Arrival& arrival, const Error& error, Nanoseconds now,
                               SetupOutput& output) {
    settle(arrival, Arrival::Stage::Failed);
    arrival.live->outcome = failure(error);
    arrival.live->settled = now;
    arrival.live->mate = 0;
    set_alarm(arrival);
    answer(*arrival.live, output);
}

void RemoteSetup::on_confirm(const Asked& asked, Arrival& arrival, Nanoseconds now,
                             SetupOutput& output) {
    const SetupExchange exchange{asked.message.nonce, asked.message.cookie, asked.message.request};
    const auto say = [&](SetupKind kind, const SetupOutcome& outcome) {
        answer(asked.peer, asked.local, exchange, kind, outcome, output);
    };
    switch (arrival.stage) {
        case Arrival::Stage::Pending:
            return;
        case Arrival::Stage::Offered: {
            const Live& live = *arrival.live;
            output.events.emplace_back(setup::Established{live.own, live.own_offer, live.offer,
                                                          live.outcome.session_key,
                                                          arrival.connection, false});
            offered_.erase(live.own);
            if (live.mate != 0) end(live.mate, false, now, output);
            settle(arrival, Arrival::Stage::Confirmed);
            return say(SetupKind::Confirmed, {});
        }
        case Arrival::Stage::Confirmed:
            return say(SetupKind::Confirmed, {});
        case Arrival::Stage::Failed:
        case Arrival::Stage::Cancelled:
            return say(SetupKind::Outcome, arrival.live ? arrival.live->outcome : stale());
    }
}

void RemoteSetup::on_cancel(Arrival& arrival, Nanoseconds now, SetupOutput& output) {
    switch (arrival.stage) {
        case Arrival::Stage::Pending:
            if (arrival.live->purpose == SetupPurpose::Connect)
                output.events.emplace_back(setup::Withdrawn{arrival.ticket});
            return settle(arrival, Arrival::Stage::Cancelled);
        case Arrival::Stage::Offered:
            withdraw_offer(
                arrival,
                Error{Code::Timeout, "the process that asked for the connection has given up"}, now,
                output);
            return settle(arrival, Arrival::Stage::Cancelled);
        case Arrival::Stage::Confirmed:
            output.events.emplace_back(setup::Gone{arrival.process, arrival.connection});
            return settle(arrival, Arrival::Stage::Cancelled);
        case Arrival::Stage::Failed:
            drop_live(arrival);
            return set_alarm(arrival);
        case Arrival::Stage::Cancelled:
            return;
    }
}

void RemoteSetup::withdraw_offer(Arrival& arrival, const Error& error, Nanoseconds now,
                                 SetupOutput& output) {
    Live& live = *arrival.live;
    offered_.erase(live.own);
    const RequestNumber mate = std::exchange(live.mate, 0);
    if (mate == 0) {
        output.events.emplace_back(setup::Failed{live.own, error});
        return;
    }
    // It meets this arrival no more, which is Offered still.
    greet_again(mate, now, output);
}

void RemoteSetup::settle(Arrival& arrival, Arrival::Stage stage) {
    if (arrival.stage == Arrival::Stage::Pending && arrival.live->purpose == SetupPurpose::Peer)
        forget_peer(peers_there_, arrival.live->offer, arrival.ticket);
    arrival.stage = stage;
    if (stage == Arrival::Stage::Confirmed || stage == Arrival::Stage::Cancelled)
        drop_live(arrival);
    set_alarm(arrival);
}

void RemoteSetup::drop_live(Arrival& arrival) {
    if (!arrival.live) return;
    arrival.live.reset();
    --live_;
    --hosts_.at(arrival.host).live;
}

void RemoteSetup::set_alarm(Arrival& arrival) {
    arrival_alarms_.erase({arrival.alarm, arrival.ticket});
    if (!arrival.live) {
        arrival.alarm = arrival.keep_until;
    } else if (arrival.stage == Arrival::Stage::Pending) {
        arrival.alarm = arrival.live->last_heard + requester_patience;
        // The deadline of the others is kept by who was told of them.
        if (arrival.live->purpose == SetupPurpose::Peer)
            arrival.alarm = std::min(arrival.alarm, arrival.live->deadline.moment());
    } else {
        arrival.alarm =
            arrival.live->settled +
            (arrival.stage == Arrival::Stage::Offered ? confirm_patience : failure_time);
    }
    arrival_alarms_.emplace(arrival.alarm, arrival.ticket);
}

void RemoteSetup::expire_arrival(Arrival& arrival, Nanoseconds now, SetupOutput& output) {
    if (!arrival.live) {
        arrival_alarms_.erase({arrival.alarm, arrival.ticket});
        const auto counts = hosts_.find(arrival.host);
        if (--counts->second.remembered == 0) hosts_.erase(counts);
        const auto place = by_arrival_.find(arrival.ticket);
        const ArrivalKey key = place->second;
        by_arrival_.erase(place);
        arrivals_.erase(key);
        return;
    }
    switch (arrival.stage) {
        case Arrival::Stage::Pending:
            if (arrival.live->purpose == SetupPurpose::Connect)
                output.events.emplace_back(setup::Withdrawn{arrival.ticket});
            return settle(arrival, Arrival::Stage::Cancelled);
        case Arrival::Stage::Offered: {
            const Error error{Code::Timeout, readable(arrival.live->peer) +
                                                 " has asked for the connection and then not taken "
                                                 "it within " +
                                                 milliseconds(confirm_patience)};
            withdraw_offer(arrival, error, now, output);
            return fail_arrival(arrival, error, now, output);
        }
        default:
            drop_live(arrival);
            return set_alarm(arrival);
    }
}

// ---- peers

RemoteSetup::PeerKey RemoteSetup::peer_key(const ConnectOffer& offer, bool mirrored) {
    PeerKey key(1, static_cast<char>(offer.fabric));
    const auto append = [&](const NetAddress& address) {
        key += static_cast<char>(address.discriminator_bytes);
        for (std::size_t i = 0; i < address.discriminator_bytes; ++i)
            key += static_cast<char>(address.discriminator[i]);
    };
    append(mirrored ? offer.remote : offer.local);
    append(mirrored ? offer.local : offer.remote);
    return key;
}

bool RemoteSetup::fits(const Outgoing& outgoing, const Live& live) {
    if (outgoing.stage != Outgoing::Stage::Greeting && outgoing.stage != Outgoing::Stage::Asking)
        return false;
    return outgoing.target == live.peer || std::find(live.addresses.begin(), live.addresses.end(),
                                                     outgoing.target) != live.addresses.end();
}

void RemoteSetup::match(Arrival& arrival, Nanoseconds now, SetupOutput& output) {
    // Both agents may see that two requests meet; one of them concludes.
    if (by_arrival_.at(arrival.ticket).first >= instance_) return;
    const auto [first, last] = peers_here_.equal_range(peer_key(arrival.live->offer, true));
    for (auto each = first; each != last; ++each)
        if (fits(outgoing_.at(each->second), *arrival.live))
            return conclude(arrival, each->second, now, output);
}

void RemoteSetup::match(RequestNumber number, Nanoseconds now, SetupOutput& output) {
    const Outgoing& outgoing = outgoing_.at(number);
    const auto [first, last] = peers_there_.equal_range(peer_key(outgoing.offer, true));
    for (auto each = first; each != last; ++each) {
        const ArrivalKey& key = by_arrival_.at(each->second);
        Arrival& arrival = arrivals_.at(key);
        if (key.first < instance_ && fits(outgoing, *arrival.live))
            return conclude(arrival, number, now, output);
    }
}

void RemoteSetup::conclude(Arrival& arrival, RequestNumber number, Nanoseconds now,
                           SetupOutput& output) {
    Outgoing& outgoing = outgoing_.at(number);
    if (auto match = compatible(outgoing.offer.attributes, arrival.live->offer.attributes);
        !match) {
        const Error& error = match.error();
        fail_arrival(arrival, error, now, output);
        return fail_outgoing(number, error, true, now, output);
    }
    if (outgoing.cookie)
        say_farewell(outgoing.target, SetupExchange{outgoing.nonce, *outgoing.cookie, number}, now,
                     output);
    outgoing.cookie.reset();
    outgoing.stage = Outgoing::Stage::Matched;
    outgoing.arrival = arrival.ticket;
    outgoing.heard = true;
    outgoing.obstacle.clear();
    outgoing.last_heard = now;
    forget_peer(peers_here_, outgoing.offer, number);
    set_alarm(number, outgoing);
    offer(arrival, outgoing.process, outgoing.ticket, outgoing.offer, now, output);
    arrival.live->mate = number;
}

void RemoteSetup::forget_peer(std::multimap<PeerKey, std::uint64_t>& index,
                              const ConnectOffer& offer, std::uint64_t value) {
    const auto [first, last] = index.equal_range(peer_key(offer, false));
    for (auto each = first; each != last; ++each) {
        if (each->second != value) continue;
        index.erase(each);
        return;
    }
}

// ---- both

bool RemoteSetup::cancel(Ticket ticket, Nanoseconds now, SetupOutput& output) {
    const Error given_up{Code::NoMatch,
                         "the process at the other end ended before the connection was made"};
    if (const auto found = by_ticket_.find(ticket); found != by_ticket_.end()) {
        const RequestNumber number = found->second;
        const Outgoing& outgoing = outgoing_.at(number);
        if (outgoing.stage == Outgoing::Stage::Matched)
            fail_arrival(arrivals_.at(by_arrival_.at(outgoing.arrival)), given_up, now, output);
        end(number, true, now, output);
        return true;
    }
    const auto found = offered_.find(ticket);
    if (found == offered_.end()) return false;
    Arrival& arrival = arrivals_.at(by_arrival_.at(found->second));
    offered_.erase(found);
    fail_arrival(arrival, given_up, now, output);
    return true;
}

void RemoteSetup::expire(Nanoseconds now, SetupOutput& output) {
    while (!outgoing_alarms_.empty() && outgoing_alarms_.begin()->first <= now) {
        const RequestNumber number = outgoing_alarms_.begin()->second;
        Outgoing& outgoing = outgoing_.at(number);
        if (outgoing.deadline.expired(now)) {
            out_of_time(number, now, output);
        } else if (outgoing.purpose == SetupPurpose::Connect &&
                   now - outgoing.last_heard >= answer_patience) {
            Error error = silence(outgoing, now);
            error.code = Code::NotReachable;
            fail_outgoing(number, std::move(error), true, now, output);
        } else {
            speak(number, outgoing, now, output);
        }
    }
    while (!arrival_alarms_.empty() && arrival_alarms_.begin()->first <= now) {
        const Ticket ticket = arrival_alarms_.begin()->second;
        expire_arrival(arrivals_.at(by_arrival_.at(ticket)), now, output);
    }
    while (!farewells_.empty() && farewells_.begin()->first <= now) {
        Farewell farewell = std::move(farewells_.extract(farewells_.begin()).mapped());
        ByteWriter body;
        body.number(instance_);
        output.datagrams.push_back(
            Datagram{farewell.target,
                     {},
                     wire::encode_sealed(SetupKind::Cancel, cluster_, farewell.exchange,
                                         random_bytes<std::tuple_size_v<wire::SealNonce>>(),
                                         body.written())});
        if (--farewell.left == 0) continue;
        farewell.pause *= 2;
        farewells_.emplace(now + farewell.pause, std::move(farewell));
    }
}

Deadline RemoteSetup::next_deadline() const {
    Nanoseconds next = Deadline::never().moment();
    if (!outgoing_alarms_.empty()) next = std::min(next, outgoing_alarms_.begin()->first);
    if (!arrival_alarms_.empty()) next = std::min(next, arrival_alarms_.begin()->first);
    if (!farewells_.empty()) next = std::min(next, farewells_.begin()->first);
    return next == Deadline::never().moment() ? Deadline::never() : Deadline::at(next);
}

std::size_t RemoteSetup::waiting(ProcessNumber process) const {
    const auto found = waiting_.find(process);
    return found == waiting_.end() ? 0 : found->second;
}

}  // namespace via::ka
