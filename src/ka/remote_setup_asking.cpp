// SPDX-License-Identifier: BSD-3-Clause
// Setting up a connection to another host: this host asks.
#include "ka/remote_setup.hpp"

#include <algorithm>

#include "ka/protocol.hpp"
#include "ka/setup_times.hpp"

namespace via::ka {
namespace {

using base::Code;
using base::Deadline;
using base::Error;
using base::Nanoseconds;
using wire::ByteWriter;
using wire::SetupExchange;
using wire::SetupKind;
using wire::SetupMessage;

}  // namespace

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
    outgoing.pause = setup_times::first_pause;
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
    outgoing.pause = std::min(2 * outgoing.pause, setup_times::last_pause);
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
                                        setup_times::in_milliseconds(now - outgoing.begun) +
                                        ": is viad running there, is UDP port " +
                                        std::to_string(outgoing.target.port) + " open?"};
    if (now - outgoing.last_heard >= setup_times::answer_patience)
        return Error{Code::Timeout, where + " has not answered any more for " +
                                        setup_times::in_milliseconds(now - outgoing.last_heard)};
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
        farewells_.emplace(
            now + setup_times::farewell_pause,
            Farewell{target, exchange, setup_times::farewell_repeats, setup_times::farewell_pause});
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
    outgoing.pause = setup_times::first_pause;
    if (first) {
        outgoing.stage = Outgoing::Stage::Asking;
        speak(number, outgoing, now, output);
        return;
    }
    // The cookie has grown old, or there is a new agent, to which the server may yet have to come
    // back. Not at once: whoever made that up would have us send as fast as he does.
    outgoing.patience_ns = std::max(outgoing.patience_ns, max_patience_ns);
    outgoing.next_send = std::min(outgoing.next_send, now + setup_times::first_pause);
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
    outgoing.pause = setup_times::first_pause;
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

}  // namespace via::ka
