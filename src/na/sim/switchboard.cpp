// SPDX-License-Identifier: BSD-3-Clause
#include "na/sim/switchboard.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace via::na::sim {

std::uint64_t Switchboard::ask(std::uint32_t host, std::shared_ptr<NicVi> vi, const void* owner) {
    const std::uint64_t ticket = ++last_ticket_;
    Question& question = questions_[ticket];
    question.host = host;
    question.vi = std::move(vi);
    question.owner = owner;
    return ticket;
}

void Switchboard::deliver(const ka::Outcomes& outcomes) {
    for (const ka::Outcome& each : outcomes) {
        if (const auto* failed = std::get_if<ka::outcome::Failed>(&each)) {
            questions_[failed->ticket].failed = failed->error;
        } else if (const auto* done = std::get_if<ka::outcome::Done>(&each)) {
            questions_[done->ticket].done = true;
        } else if (const auto* incoming = std::get_if<ka::outcome::Incoming>(&each)) {
            questions_[incoming->ticket].incoming = ka::IncomingRequest{incoming->request,
                                                                        incoming->offer.local,
                                                                        incoming->offer.attributes,
                                                                        incoming->offer.parameters,
                                                                        0,
                                                                        incoming->offer.fabric};
        } else if (const auto* made = std::get_if<ka::outcome::Connected>(&each)) {
            Question& requester = questions_[made->requester.ticket];
            Question& acceptor = questions_[made->acceptor.ticket];
            NicVi::connect(*requester.vi, *acceptor.vi, made->requester.offer.attributes,
                           made->acceptor.offer.attributes);
            requester.connected = made->acceptor.offer.attributes;
            acceptor.connected = made->requester.offer.attributes;
        }
    }
    for (const auto& [ticket, question] : questions_)
        if (question.answered()) world_.tell(question.host);
}

void Switchboard::expire() {
    ka::Outcomes outcomes;
    connections_.expire(base::monotonic_now(), outcomes);
    deliver(outcomes);
}

void Switchboard::await(World::Lock& lock, std::uint64_t ticket) {
    for (;;) {
        expire();
        const Question& question = questions_[ticket];
        if (question.answered()) return;
        if (base::thread_clock != nullptr) {
            world_.poll_in_vain(lock, question.host);
        } else {
            // Somebody else's call will answer it, or its deadline.
            world_.changed().wait_for(lock, std::chrono::milliseconds(1));
        }
    }
}

Switchboard::Answer Switchboard::take_answer(std::uint64_t ticket) {
    auto node = questions_.extract(ticket);
    Question& question = node.mapped();
    if (question.connected) return *question.connected;
    return std::move(*question.failed);
}

base::Result<void> Switchboard::reachable(const ka::NetAddress& remote) const {
    for (std::uint32_t host = 0; host < world_.hosts(); ++host) {
        const World::HostAddress address = World::address_of(host);
        if (remote.host_bytes == address.size() &&
            std::equal(address.begin(), address.end(), remote.host.begin()))
            return {};
    }
    return base::Result<void>(base::Code::NotReachable,
                              "no simulated host has this address; there are " +
                                  std::to_string(world_.hosts()) +
                                  ", and the name service knows them as a, b and so on");
}

void Switchboard::pay_system_call(World::Lock& lock) {
    world_.spend(lock, model::microseconds(world_.cluster().system().machine.system_call));
}

base::Result<ka::IncomingRequest> Switchboard::wait(std::uint32_t host, const ka::NetAddress& local,
                                                    base::Deadline deadline, const void* owner) {
    World::Lock lock = world_.lock();
    pay_system_call(lock);
    const std::uint64_t ticket = ask(host, nullptr, owner);
    ka::Outcomes outcomes;
    connections_.wait(process_of(host), ticket, local, ka::fabric_shm, deadline,
                      base::monotonic_now(), outcomes);
    deliver(outcomes);
    await(lock, ticket);
    auto node = questions_.extract(ticket);
    if (node.mapped().failed) return std::move(*node.mapped().failed);
    return *node.mapped().incoming;
}

void Switchboard::cancel_waits(const void* owner) {
    const World::Lock lock = world_.lock();
    for (auto& [ticket, question] : questions_) {
        if (question.owner != owner || question.answered()) continue;
        connections_.cancel(process_of(question.host), ticket);
        question.failed = base::Error{base::Code::InvalidArgument, "the NIC was closed"};
        world_.tell(question.host);
    }
}

Switchboard::Answer Switchboard::accept(std::uint64_t request, const std::shared_ptr<NicVi>& vi,
                                        const ka::ConnectOffer& offer) {
    World::Lock lock = world_.lock();
    pay_system_call(lock);
    const std::uint64_t ticket = ask(vi->host(), vi);
    ka::Outcomes outcomes;
    connections_.accept(process_of(vi->host()), ticket, request, offer, base::monotonic_now(),
                        outcomes);
    deliver(outcomes);
    await(lock, ticket);
    return take_answer(ticket);
}

base::Result<void> Switchboard::reject(std::uint32_t host, std::uint64_t request) {
    World::Lock lock = world_.lock();
    pay_system_call(lock);
    const std::uint64_t ticket = ask(host, nullptr);
    ka::Outcomes outcomes;
    connections_.reject(process_of(host), ticket, request, outcomes);
    deliver(outcomes);
    await(lock, ticket);
    auto node = questions_.extract(ticket);
    if (node.mapped().failed) return std::move(*node.mapped().failed);
    return {};
}

Switchboard::Answer Switchboard::request(const std::shared_ptr<NicVi>& vi,
                                         const ka::ConnectOffer& offer, base::Deadline deadline) {
    World::Lock lock = world_.lock();
    pay_system_call(lock);
    if (auto found = reachable(offer.remote); !found) return std::move(found).error();
    const std::uint64_t ticket = ask(vi->host(), vi);
    const base::Nanoseconds now = base::monotonic_now();
    ka::Outcomes outcomes;
    connections_.request(process_of(vi->host()), ticket, offer, deadline, base::Deadline::at(now),
                         now, outcomes);
    deliver(outcomes);
    await(lock, ticket);
    return take_answer(ticket);
}

base::Result<std::uint64_t> Switchboard::peer_request(const std::shared_ptr<NicVi>& vi,
                                                      const ka::ConnectOffer& offer,
                                                      base::Deadline deadline) {
    World::Lock lock = world_.lock();
    pay_system_call(lock);
    if (auto found = reachable(offer.remote); !found) return std::move(found).error();
    const std::uint64_t ticket = ask(vi->host(), vi);
    ka::Outcomes outcomes;
    connections_.peer_request(process_of(vi->host()), ticket, offer, deadline,
                              base::monotonic_now(), outcomes);
    deliver(outcomes);
    return ticket;
}

std::optional<Switchboard::Answer> Switchboard::peer_poll(std::uint64_t ticket) {
    World::Lock lock = world_.lock();
    const auto found = questions_.find(ticket);
    if (found == questions_.end())
        return Answer(base::Code::InvalidArgument, "there is no such connection request");
    expire();
    if (!found->second.answered()) world_.poll_in_vain(lock, found->second.host);
    expire();
    if (!found->second.answered()) return std::nullopt;
    return take_answer(ticket);
}

Switchboard::Answer Switchboard::peer_wait(std::uint64_t ticket) {
    World::Lock lock = world_.lock();
    if (!questions_.contains(ticket))
        return Answer(base::Code::InvalidArgument, "there is no such connection request");
    await(lock, ticket);
    return take_answer(ticket);
}

void Switchboard::peer_cancel(std::uint64_t ticket) {
    const World::Lock lock = world_.lock();
    const auto found = questions_.find(ticket);
    if (found == questions_.end()) return;
    Question& question = found->second;
    if (question.answered()) return;
    connections_.cancel(process_of(question.host), ticket);
    question.failed = base::Error{base::Code::InvalidState, "the connection request was cancelled"};
    world_.tell(question.host);
}

}  // namespace via::na::sim
