// SPDX-License-Identifier: BSD-3-Clause
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
using wire::ByteReader;
using wire::ByteView;
using wire::ByteWriter;
using wire::SetupExchange;
using wire::SetupKind;

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

// ---- peers: both ask

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

// ---- whoever asked

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
                   now - outgoing.last_heard >= setup_times::answer_patience) {
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
