// SPDX-License-Identifier: BSD-3-Clause
#include "ka/setup_world.hpp"

#include <algorithm>

namespace via::ka::test {

using base::Deadline;

Host::Host(World& world, const AgentAddress& address, const wire::Key& key,
           const SetupLimits& limits)
    : world_(world), address_(address), key_(key), limits_(limits) {
    restart();
}

void Host::restart() {
    open_.clear();
    broker_ = std::make_unique<Connections>(Limits{}, world_.random() >> 2);
    const std::uint64_t instance = next_instance_ ? *next_instance_ : world_.random();
    setup_ = std::make_unique<RemoteSetup>(
        key_, instance, address_.port,
        [this](std::span<std::uint8_t> bytes) {
            for (std::uint8_t& byte : bytes)
                byte = static_cast<std::uint8_t>(world_.random());
        },
        [this] { return std::vector{address_}; }, limits_);
}

Ending& Host::end(Ticket ticket) {
    if (open_.erase(ticket) == 0)
        world_.complaint =
            "an outcome for ticket " + std::to_string(ticket) + ", which had one or was given up";
    return endings_[ticket];
}

void Host::carry_out(SetupOutput output) {
    for (const Datagram& datagram : output.datagrams)
        world_.send(address_, datagram);
    for (const SetupEvent& event : output.events) {
        if (const auto* arrived = std::get_if<setup::Arrived>(&event)) {
            ConnectOffer offer = arrived->offer;
            set_host(offer.remote, address_);
            Outcomes outcomes;
            broker_->request(remote_requesters, arrived->ticket, offer, arrived->deadline,
                             arrived->patience, world_.now, outcomes);
            carry_out(outcomes);
        } else if (const auto* withdrawn = std::get_if<setup::Withdrawn>(&event)) {
            broker_->cancel(remote_requesters, withdrawn->ticket);
        } else if (const auto* failed = std::get_if<setup::Failed>(&event)) {
            end(failed->ticket).failure = failed->error;
        } else if (const auto* made = std::get_if<setup::Established>(&event)) {
            end(made->ticket).established = *made;
        } else if (const auto* left = std::get_if<setup::Gone>(&event)) {
            gone_.push_back(left->connection);
        }
    }
}

void Host::carry_out(const Outcomes& outcomes) {
    for (const Outcome& one : outcomes) {
        SetupOutput output;
        if (const auto* failed = std::get_if<outcome::Failed>(&one)) {
            if (failed->process == remote_requesters)
                setup_->fail(failed->ticket, failed->error, world_.now, output);
            else
                end(failed->ticket).failure = failed->error;
        } else if (const auto* done = std::get_if<outcome::Done>(&one)) {
            end(done->ticket).done = true;
        } else if (const auto* incoming = std::get_if<outcome::Incoming>(&one)) {
            end(incoming->ticket).incoming = *incoming;
            if (on_incoming) on_incoming(*incoming);
        } else if (const auto* connected = std::get_if<outcome::Connected>(&one)) {
            setup_->accept(connected->requester.ticket, connected->acceptor.process,
                           connected->acceptor.ticket, connected->acceptor.offer, world_.now,
                           output);
        }
        carry_out(std::move(output));
    }
}

Ticket Host::wait(std::uint8_t where, Nanoseconds time) {
    const Ticket ticket = ++last_ticket_;
    open_[ticket] = true;
    Outcomes outcomes;
    broker_->wait(process, ticket, place_of(address_, where), fabric_net,
                  Deadline::at(world_.now + time), world_.now, outcomes);
    carry_out(outcomes);
    return ticket;
}

Ticket Host::connect(const ConnectOffer& offer, const AgentAddress& target, Nanoseconds time) {
    const Ticket ticket = ++last_ticket_;
    open_[ticket] = true;
    SetupOutput output;
    setup_->request(process, ticket, offer, target, Deadline::at(world_.now + time), 0, world_.now,
                    output);
    carry_out(std::move(output));
    return ticket;
}

Ticket Host::peer(const ConnectOffer& offer, const AgentAddress& target, Nanoseconds time) {
    const Ticket ticket = ++last_ticket_;
    open_[ticket] = true;
    SetupOutput output;
    setup_->peer_request(process, ticket, offer, target, Deadline::at(world_.now + time),
                         world_.now, output);
    carry_out(std::move(output));
    return ticket;
}

Ticket Host::accept(std::uint64_t request, const ConnectOffer& offer) {
    const Ticket ticket = ++last_ticket_;
    open_[ticket] = true;
    Outcomes outcomes;
    broker_->accept(process, ticket, request, offer, world_.now, outcomes);
    carry_out(outcomes);
    return ticket;
}

Ticket Host::reject(std::uint64_t request) {
    const Ticket ticket = ++last_ticket_;
    open_[ticket] = true;
    Outcomes outcomes;
    broker_->reject(process, ticket, request, outcomes);
    carry_out(outcomes);
    return ticket;
}

void Host::cancel(Ticket ticket) {
    open_.erase(ticket);
    if (broker_->cancel(process, ticket)) return;
    SetupOutput output;
    setup_->cancel(ticket, world_.now, output);
    carry_out(std::move(output));
}

void Host::receive(const AgentAddress& from, wire::ByteView bytes) {
    SetupOutput output;
    setup_->receive(from, address_, bytes, world_.now, output);
    carry_out(std::move(output));
}

void Host::refused(const AgentAddress& peer) {
    SetupOutput output;
    setup_->undeliverable(peer, true, "refused", world_.now, output);
    carry_out(std::move(output));
}

void Host::expire() {
    Outcomes outcomes;
    broker_->expire(world_.now, outcomes);
    carry_out(outcomes);
    SetupOutput output;
    setup_->expire(world_.now, output);
    carry_out(std::move(output));
    if (next_deadline().expired(world_.now)) world_.complaint = "an alarm that never ends";
}

Host& World::add(std::uint8_t number, const wire::Key& key, const SetupLimits& limits) {
    const AgentAddress address = host_number(number);
    auto host = std::make_unique<Host>(*this, address, key, limits);
    return *hosts_.insert_or_assign(address, std::move(host)).first->second;
}

void World::send(const AgentAddress& from, const Datagram& datagram) {
    Flight flight{from, datagram.peer, datagram.bytes};
    history.push_back(flight);
    if (network)
        network(*this, std::move(flight));
    else
        post(now + 100'000, std::move(flight));
}

void World::run_until(Nanoseconds end) {
    while (complaint.empty()) {
        Nanoseconds next = end;
        if (!flights_.empty()) next = std::min(next, flights_.begin()->first);
        for (const auto& [address, host] : hosts_)
            next = std::min(next, host->next_deadline().moment());
        if (next >= end) break;
        now = std::max(now, next);
        while (!flights_.empty() && flights_.begin()->first <= now) {
            const Flight flight = std::move(flights_.extract(flights_.begin()).mapped());
            if (const auto found = hosts_.find(flight.to); found != hosts_.end())
                found->second->receive(flight.from, flight.bytes);
        }
        for (const auto& [address, host] : hosts_)
            host->expire();
    }
    now = std::max(now, end);
}

}  // namespace via::ka::test
