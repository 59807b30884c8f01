// SPDX-License-Identifier: BSD-3-Clause
// Setting up a connection to another host: other hosts ask, and cookies keep strangers out.
#include "ka/remote_setup.hpp"

#include <algorithm>

#include "ka/protocol.hpp"
#include "ka/setup_times.hpp"

namespace via::ka {
namespace {

using base::Code;
using base::Error;
using base::Nanoseconds;
using wire::ByteReader;
using wire::ByteWriter;
using wire::Cookie;
using wire::SetupExchange;
using wire::SetupKind;
using wire::SetupMessage;

/// The tickets of arrivals, apart from those that the agent gives.
constexpr Ticket arrival_tickets = Ticket{1} << 63;

std::uint64_t slot_of(Nanoseconds now) {
    return static_cast<std::uint64_t>(now / setup_times::cookie_slot);
}

Nanoseconds end_of(const Cookie& cookie) {
    return static_cast<Nanoseconds>(cookie.slot + 2) * setup_times::cookie_slot;
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
                             setup_times::in_milliseconds(setup_times::requester_patience)});
}

}  // namespace

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
        arrival.alarm = arrival.live->last_heard + setup_times::requester_patience;
        // The deadline of the others is kept by who was told of them.
        if (arrival.live->purpose == SetupPurpose::Peer)
            arrival.alarm = std::min(arrival.alarm, arrival.live->deadline.moment());
    } else {
        arrival.alarm = arrival.live->settled + (arrival.stage == Arrival::Stage::Offered
                                                     ? setup_times::confirm_patience
                                                     : setup_times::failure_time);
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
            const Error error{Code::Timeout,
                              readable(arrival.live->peer) +
                                  " has asked for the connection and then not taken "
                                  "it within " +
                                  setup_times::in_milliseconds(setup_times::confirm_patience)};
            withdraw_offer(arrival, error, now, output);
            return fail_arrival(arrival, error, now, output);
        }
        default:
            drop_live(arrival);
            return set_alarm(arrival);
    }
}

}  // namespace via::ka
