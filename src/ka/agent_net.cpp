// SPDX-License-Identifier: BSD-3-Clause
#include "ka/agent_server.hpp"

#include <sys/epoll.h>

#include <cerrno>

namespace via::ka::server {

namespace {

constexpr std::size_t datagrams_per_turn = 64;
/// A port that is taken may become free: the agent before this one may just be ending.
constexpr Nanoseconds port_pause = 1'000'000'000;

}  // namespace

void Server::open_net() {
    net_again_ = Deadline::never();
    if (!key_) {
        // Never without a key that somebody wanted.
        net_problem_ = key_.error().sentence;
        return base::log(LogLevel::Warning, "no connections to other hosts: " + net_problem_);
    }
    const std::string port = "UDP port " + std::to_string(host_.port());
    auto bound = NetSocket::bind(host_.port());
    if (bound) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = net_key;
        if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, bound.value().descriptor(), &event) != 0)
            bound = base::system_error(errno, "watching " + port);
    }
    if (!bound) {
        if (net_problem_.empty())
            base::log(LogLevel::Info,
                      "no connections to other hosts for now: " + bound.error().sentence);
        net_problem_ =
            bound.error().sentence + "; end who has it, or set VIA_NET_PORT on all hosts";
        net_again_ = Deadline::at(now_ + port_pause);
        return;
    }
    net_.emplace(std::move(bound).value());
    net_problem_.clear();
}

Result<void> Server::net_usable() {
    if (!net_) open_net();
    if (net_) return {};
    return Result<void>(Code::NotReachable,
                        "this host's kernel agent can not talk to other hosts: " + net_problem_);
}

void Server::serve_net() {
    for (std::size_t i = 0; i < datagrams_per_turn; ++i) {
        const auto complaint = net_->complaint();
        if (!complaint) break;
        SetupOutput output;
        remote_.undeliverable(complaint->peer, complaint->refused, complaint->why, now_, output);
        deliver(output);
    }
    std::array<std::uint8_t, wire::max_setup_bytes + 1> buffer;
    for (std::size_t i = 0; i < datagrams_per_turn; ++i) {
        const auto received = net_->receive(buffer);
        if (!received) break;
        SetupOutput output;
        remote_.receive(received->peer, received->local, std::span(buffer).first(received->bytes),
                        now_, output);
        deliver(output);
    }
}

void Server::deliver(const SetupOutput& output) {
    for (const Datagram& datagram : output.datagrams) {
        if (!net_) break;
        const auto complaint = net_->send(datagram);
        if (!complaint) continue;
        SetupOutput failures;
        remote_.undeliverable(complaint->peer, complaint->refused, complaint->why, now_, failures);
        deliver(failures);
    }
    for (const SetupEvent& one : output.events)
        std::visit([&](const auto& kind) { deliver(kind); }, one);
}

void Server::deliver(const setup::Arrived& arrived) {
    // Whatever the requester calls this host: the request has come here.
    ConnectOffer offer = arrived.offer;
    set_host(offer.remote, host_.own());
    Outcomes outcomes;
    broker_.request(remote_requesters, arrived.ticket, offer, arrived.deadline, arrived.patience,
                    now_, outcomes);
    deliver(std::move(outcomes));
}

void Server::deliver(const setup::Withdrawn& withdrawn) {
    broker_.cancel(remote_requesters, withdrawn.ticket);
}

void Server::deliver(const setup::Failed& failure) {
    if (const auto owner = redeem(failure.ticket))
        reply_error(*owner->first, owner->second, failure.error);
}

void Server::deliver(const setup::Established& made) {
    const auto owner = redeem(made.ticket);
    if (!owner) return;
    const auto [client, id] = *owner;
    const ProcessNumber process = client->process->number();
    // Both ends know it by the number that the acceptor's agent gave, if nothing is in the way.
    std::uint64_t number = made.connection;
    if (established_.find(process, number) != nullptr) number = new_connection(process);
    const auto secret = random_number<Secret>();
    established_.add_remote(
        masked(secret),
        {process, number, made.offer.vi, made.offer.attributes.tag, made.offer.attributes.flags});
    if (Vi* vi = client->process->find_vi(made.offer.vi)) vi->connection = number;
    EstablishedReply answer;
    answer.connection = number;
    answer.secret = secret;
    answer.agent_epoch = epoch_;
    answer.session_key = made.session_key;
    answer.remote_attributes = made.remote.attributes;
    answer.remote_parameters = made.remote.parameters;
    answer.remote_address = made.remote.local;
    answer.requester = made.requester ? 1 : 0;
    send(*client, OutgoingMessage{id, encode(id, answer), {}, number});
}

void Server::deliver(const setup::Gone& gone) {
    if (const auto* end = established_.find(gone.process, gone.connection)) tell_gone(*end);
}

}  // namespace via::ka::server
