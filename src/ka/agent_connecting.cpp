// SPDX-License-Identifier: BSD-3-Clause
#include "ka/agent_server.hpp"

#include <algorithm>

#include "base/memory_file.hpp"

namespace via::ka::server {

void Server::on(Client& client, std::uint64_t, const DestroyViNotice& notice) {
    Vi* vi = client.process->find_vi(notice.vi);
    if (vi == nullptr) return;
    if (vi->pending != 0) {
        const Ticket ticket = vi->pending;
        cancel_ticket(client.process->number(), ticket);
        (void)redeem(ticket);
    }
    if (vi->connection != 0) leave(client, vi->connection);
    client.process->destroy_vi(notice.vi);
}

void Server::on(Client& client, std::uint64_t, const DisconnectedNotice& notice) {
    leave(client, notice.connection);
}

void Server::leave(Client& client, std::uint64_t connection) {
    const ProcessNumber number = client.process->number();
    const EstablishedConnections::End* end = established_.find(number, connection);
    if (end == nullptr) return;
    if (Vi* vi = client.process->find_vi(end->vi); vi != nullptr && vi->connection == connection)
        vi->connection = 0;
    if (const auto other = established_.leave(number, connection)) tell_gone(*other);
}

void Server::tell_gone(const EstablishedConnections::End& end) {
    Client* client = client_of(end.process);
    if (client == nullptr) return;
    client->gone.push_back(end.connection);
    flush(*client);
}

Ticket Server::take_ticket(Client& client, std::uint64_t id, std::uint32_t vi) {
    const Ticket ticket = ++last_ticket_;
    tickets_[ticket] = TicketOwner{client.number, id, vi};
    client.tickets[id] = ticket;
    if (Vi* found = vi == 0 ? nullptr : client.process->find_vi(vi)) found->pending = ticket;
    return ticket;
}

std::optional<std::pair<Client*, std::uint64_t>> Server::redeem(Ticket ticket) {
    const auto found = tickets_.find(ticket);
    if (found == tickets_.end()) return {};
    const TicketOwner owner = found->second;
    tickets_.erase(found);
    const auto client = clients_.find(owner.client);
    if (client == clients_.end()) return {};
    client->second->tickets.erase(owner.id);
    if (Vi* vi = owner.vi == 0 ? nullptr : client->second->process->find_vi(owner.vi);
        vi != nullptr && vi->pending == ticket)
        vi->pending = 0;
    return std::pair{client->second.get(), owner.id};
}

Result<void> Server::free_vi(Process& process, const ConnectOffer& offer) const {
    const Vi* vi = process.find_vi(offer.vi);
    if (vi == nullptr)
        return Result<void>(Code::InvalidArgument,
                            "the process has no VI " + std::to_string(offer.vi));
    if (vi->connection != 0 || vi->pending != 0)
        return Result<void>(Code::InvalidState, "the VI is connected or connecting already");
    return {};
}

Result<void> Server::acceptable(const ConnectOffer& offer) const {
    // The net fabric has sockets instead.
    const bool fits =
        offer.fabric == fabric_net
            ? offer.channel_bytes == 0
            : offer.channel_bytes != 0 && offer.channel_bytes <= options_.limits.channel_bytes;
    if (!fits)
        return Result<void>(Code::InvalidArgument,
                            "a channel of " + std::to_string(offer.channel_bytes) +
                                " bytes was asked for; the limit is " +
                                std::to_string(options_.limits.channel_bytes));
    return {};
}

Result<std::optional<AgentAddress>> Server::way_of(Process& process, const ConnectOffer& offer) {
    if (auto usable = free_vi(process, offer); !usable) return std::move(usable).error();
    if (auto usable = acceptable(offer); !usable) return std::move(usable).error();
    std::optional<AgentAddress> target;
    if (offer.fabric == fabric_net) target = host_.elsewhere(offer.remote, now_);
    if (!target) return target;
    if (auto usable = net_usable(); !usable) return std::move(usable).error();
    return target;
}

void Server::on(Client& client, std::uint64_t id, const ConnectWaitRequest& request) {
    if (client.tickets.contains(id)) return violate(client, "a request under a used number");
    const Ticket ticket = take_ticket(client, id, 0);
    Outcomes outcomes;
    broker_.wait(client.process->number(), ticket, request.local, request.fabrics,
                 deadline_of(request.timeout_ns, now_), now_, outcomes);
    deliver(std::move(outcomes));
}

void Server::on(Client& client, std::uint64_t id, const ConnectRequestRequest& request) {
    if (client.tickets.contains(id)) return violate(client, "a request under a used number");
    const auto way = way_of(*client.process, request.offer);
    if (!way) return reply_error(client, id, way.error());
    const std::optional<AgentAddress>& target = way.value();
    const Ticket ticket = take_ticket(client, id, request.offer.vi);
    const std::uint64_t patience = std::min(request.patience_ns, max_patience_ns);
    if (target) {
        SetupOutput output;
        remote_.request(client.process->number(), ticket, request.offer, *target,
                        deadline_of(request.timeout_ns, now_), patience, now_, output);
        return deliver(output);
    }
    Outcomes outcomes;
    broker_.request(client.process->number(), ticket, request.offer,
                    deadline_of(request.timeout_ns, now_), deadline_of(patience, now_), now_,
                    outcomes);
    deliver(std::move(outcomes));
}

void Server::on(Client& client, std::uint64_t id, const ConnectAcceptRequest& request) {
    if (client.tickets.contains(id)) return violate(client, "a request under a used number");
    if (auto usable = free_vi(*client.process, request.offer); !usable)
        return reply_error(client, id, usable.error());
    const Ticket ticket = take_ticket(client, id, request.offer.vi);
    Outcomes outcomes;
    broker_.accept(client.process->number(), ticket, request.request, request.offer, now_,
                   outcomes);
    deliver(std::move(outcomes));
}

void Server::on(Client& client, std::uint64_t id, const ConnectRejectRequest& request) {
    if (client.tickets.contains(id)) return violate(client, "a request under a used number");
    const Ticket ticket = take_ticket(client, id, 0);
    Outcomes outcomes;
    broker_.reject(client.process->number(), ticket, request.request, outcomes);
    deliver(std::move(outcomes));
}

void Server::on(Client& client, std::uint64_t id, const PeerRequestRequest& request) {
    if (client.tickets.contains(id)) return violate(client, "a request under a used number");
    const auto way = way_of(*client.process, request.offer);
    if (!way) return reply_error(client, id, way.error());
    const std::optional<AgentAddress>& target = way.value();
    const Ticket ticket = take_ticket(client, id, request.offer.vi);
    if (target) {
        SetupOutput output;
        remote_.peer_request(client.process->number(), ticket, request.offer, *target,
                             deadline_of(request.timeout_ns, now_), now_, output);
        return deliver(output);
    }
    Outcomes outcomes;
    broker_.peer_request(client.process->number(), ticket, request.offer,
                         deadline_of(request.timeout_ns, now_), now_, outcomes);
    deliver(std::move(outcomes));
}

void Server::on(Client& client, std::uint64_t, const CancelNotice& notice) {
    const auto found = client.tickets.find(notice.request_id);
    if (found == client.tickets.end()) return;
    const Ticket ticket = found->second;
    cancel_ticket(client.process->number(), ticket);
    (void)redeem(ticket);
}

void Server::cancel_ticket(ProcessNumber process, Ticket ticket) {
    if (broker_.cancel(process, ticket)) return;
    SetupOutput output;
    if (remote_.cancel(ticket, now_, output)) deliver(output);
}

// ---- outcomes

void Server::deliver(Outcomes outcomes) {
    for (const Outcome& one : outcomes)
        std::visit([&](const auto& kind) { deliver(kind); }, one);
}

void Server::deliver(const outcome::Failed& failure) {
    if (failure.process == remote_requesters) {
        SetupOutput output;
        remote_.fail(failure.ticket, failure.error, now_, output);
        return deliver(output);
    }
    if (const auto owner = redeem(failure.ticket))
        reply_error(*owner->first, owner->second, failure.error);
}

void Server::deliver(const outcome::Done& done) {
    if (const auto owner = redeem(done.ticket)) reply(*owner->first, owner->second, DoneReply{});
}

void Server::deliver(const outcome::Incoming& incoming) {
    const auto owner = redeem(incoming.ticket);
    if (!owner) return;
    IncomingReply answer;
    answer.request = incoming.request;
    answer.channel_bytes = incoming.offer.channel_bytes;
    answer.remote_attributes = incoming.offer.attributes;
    answer.remote_parameters = incoming.offer.parameters;
    answer.remote = incoming.offer.local;
    answer.fabric = incoming.offer.fabric;
    reply(*owner->first, owner->second, answer);
}

void Server::deliver(const outcome::Connected& connected) {
    if (connected.requester.process == remote_requesters) {
        // The acceptor hears of it when the requester has taken it.
        SetupOutput output;
        remote_.accept(connected.requester.ticket, connected.acceptor.process,
                       connected.acceptor.ticket, connected.acceptor.offer, now_, output);
        return deliver(output);
    }
    const std::array ends{&connected.requester, &connected.acceptor};
    std::array<std::optional<std::pair<Client*, std::uint64_t>>, 2> owners;
    for (std::size_t i = 0; i < 2; ++i)
        owners[i] = redeem(ends[i]->ticket);
    const auto fail_both = [&](const Error& error) {
        for (const auto& owner : owners)
            if (owner) reply_error(*owner->first, owner->second, error);
    };
    if (!owners[0] || !owners[1])
        return fail_both(Error{Code::NoMatch, "the process at the other end has just ended"});
    SharedFd channel_file;
    if (connected.channel_bytes != 0) {
        // Sparse: the ends allocate its pages, in their own account.
        auto channel = base::create_memory_file("viaduct-channel", connected.channel_bytes,
                                                base::Backing::Sparse);
        if (!channel) return fail_both(channel.error());
        channel_file = share(std::move(channel).value());
    }
    const auto secret = random_number<Secret>();
    const auto session_key = random_number<SessionKey>();
    std::array<std::uint64_t, 2> numbers{};
    for (std::size_t i = 0; i < 2; ++i) {
        do {
            numbers[i] = new_connection(ends[i]->process);
        } while (i == 1 && numbers[1] == numbers[0]);
    }
    const auto end_of = [&](std::size_t i) {
        const ConnectOffer& offer = ends[i]->offer;
        return EstablishedConnections::End{ends[i]->process, numbers[i], offer.vi,
                                           offer.attributes.tag, offer.attributes.flags};
    };
    established_.add(masked(secret), end_of(0), end_of(1));
    for (std::size_t i = 0; i < 2; ++i)
        if (Vi* vi = owners[i]->first->process->find_vi(ends[i]->offer.vi))
            vi->connection = numbers[i];
    for (std::size_t i = 0; i < 2; ++i) {
        const Client& peer = *owners[1 - i]->first;
        const ConnectOffer& offer = ends[1 - i]->offer;
        EstablishedReply answer;
        answer.connection = numbers[i];
        answer.secret = secret;
        answer.channel_bytes = connected.channel_bytes;
        answer.peer_process = peer.process->number();
        answer.agent_epoch = epoch_;
        answer.peer_instance = peer.process->instance();
        answer.peer_pid = peer.credentials.pid;
        answer.peer_uid = peer.credentials.uid;
        answer.peer_rmmt_epoch = peer.process->rmmt_epoch();
        answer.session_key = session_key;
        answer.remote_attributes = offer.attributes;
        answer.remote_parameters = offer.parameters;
        answer.remote_address = offer.local;
        answer.requester = i == 0 ? 1 : 0;
        std::vector<SharedFd> fds;
        if (channel_file) {
            answer.descriptors |= established_channel;
            fds.push_back(channel_file);
        }
        answer.descriptors |= established_process;
        fds.push_back(peer.process->pidfd);
        fds.push_back(peer.process->rmmt());
        if (peer.process->doorbell_memory) {
            answer.descriptors |= established_doorbell_memory;
            fds.push_back(peer.process->doorbell_memory);
        }
        if (peer.process->doorbell_event) {
            answer.descriptors |= established_doorbell_event;
            fds.push_back(peer.process->doorbell_event);
        }
        const std::uint64_t id = owners[i]->second;
        send(*owners[i]->first,
             OutgoingMessage{id, encode(id, answer), std::move(fds), numbers[i]});
    }
}

std::uint64_t Server::new_connection(ProcessNumber process) const {
    for (;;) {
        const auto number = random_number<std::uint64_t>();
        if (number != 0 && established_.find(process, number) == nullptr) return number;
    }
}

}  // namespace via::ka::server
