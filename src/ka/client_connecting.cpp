// SPDX-License-Identifier: BSD-3-Clause
#include "ka/client_attachment.hpp"

#include <fcntl.h>

#include <algorithm>

#include "base/message_socket.hpp"
#include "ka/limits.hpp"

namespace via::ka::attachment {

namespace {

/// A deadline for the agent's answer to a question that has a deadline itself: the agent keeps
/// that one, and answers soon after it.
Deadline with_grace(Deadline deadline, Nanoseconds grace) {
    if (deadline.is_never()) return deadline;
    const Nanoseconds from = std::max(deadline.moment(), base::monotonic_now());
    if (from > Deadline::never().moment() - grace) return Deadline::never();
    return Deadline::at(from + grace);
}

}  // namespace

Result<std::uint32_t> Client::create_vi() {
    auto created = expect<ViCreatedReply>(call_plain(CreateViRequest{}, [&](AgentMessage& message) {
        if (const auto* reply = std::get_if<ViCreatedReply>(&message.reply.body))
            holdings_.vis.insert(reply->vi);
    }));
    if (!created) return std::move(created).error();
    return created.value().vi;
}

void Client::destroy_vi(std::uint32_t vi) noexcept {
    if (forked()) return;
    try {
        Lock lock(mutex_);
        // An attachment that is being made would tell the new agent of it.
        while (attaching_)
            attaching_changed_.wait(lock);
        if (holdings_.vis.erase(vi) == 0) return;
        for (auto held = holdings_.connections.begin(); held != holdings_.connections.end();) {
            const std::uint64_t connection = held->first;
            const bool of_vi = held->second.record.vi == vi;
            ++held;
            if (of_vi) (void)forget_connection(connection);
        }
    } catch (...) {
        return;
    }
    notify(DestroyViNotice{vi, 0});
}

void Client::disconnected(std::uint64_t connection) noexcept {
    if (forked()) return;
    try {
        Lock lock(mutex_);
        while (attaching_)
            attaching_changed_.wait(lock);
        if (!forget_connection(connection)) return;
    } catch (...) {
        return;
    }
    notify(DisconnectedNotice{connection});
}

Result<ConnectOffer> Client::canonical_offer(const ConnectOffer& offer) {
    ConnectOffer result = offer;
    auto local = canonical(offer.local);
    if (!local) return std::move(local).error();
    auto remote = canonical(offer.remote);
    if (!remote) return std::move(remote).error();
    result.local = local.value();
    result.remote = remote.value();
    return result;
}

std::function<void(AgentMessage&)> Client::connection_recorder(
    const ConnectOffer& offer, std::shared_ptr<std::optional<Error>> failure) {
    return [this, offer, failure = std::move(failure)](AgentMessage& message) {
        const auto* reply = std::get_if<EstablishedReply>(&message.reply.body);
        if (reply == nullptr) return;
        if (message.fds.size() != reply->descriptor_count()) {
            // The other end must learn that nobody is here.
            *failure = lost_descriptors();
            undo_unwanted(message);
            return;
        }
        std::uint32_t flags = offer.attributes.flags;
        if ((reply->descriptors & established_process) == 0) flags |= connection_remote;
        holdings_.connections[reply->connection].record = ConnectionRecord{
            reply->connection, reply->secret,       offer.vi, offer.attributes.tag, flags,
            reply->peer_uid,   reply->peer_instance};
    };
}

Result<Established> Client::established(const Result<AgentMessage>& answer, base::FdList fds) {
    auto reply = expect<EstablishedReply>(answer);
    if (!reply) return std::move(reply).error();
    const EstablishedReply& body = reply.value();
    base::Undo unusable([&] { disconnected(body.connection); });
    Established result;
    result.connection = body.connection;
    result.secret = body.secret;
    result.requester = body.requester == 1;
    result.channel_bytes = body.channel_bytes;
    result.session_key = body.session_key;
    result.remote_attributes = body.remote_attributes;
    result.remote_address = body.remote_address;
    result.remote_parameters = body.remote_parameters;
    result.peer.process = body.peer_process;
    result.peer.agent_epoch = body.agent_epoch;
    result.peer.pid = body.peer_pid;
    result.peer.uid = body.peer_uid;
    result.peer.rmmt_epoch = body.peer_rmmt_epoch;
    std::size_t next = 0;
    if ((body.descriptors & established_channel) != 0) result.channel = std::move(fds[next++]);
    if ((body.descriptors & established_process) != 0) {
        result.peer.pidfd = std::move(fds[next++]);
        result.peer.rmmt = std::move(fds[next++]);
    }
    if ((body.descriptors & established_doorbell_memory) != 0)
        result.peer.doorbell_memory = std::move(fds[next++]);
    if ((body.descriptors & established_doorbell_event) != 0)
        result.peer.doorbell_event = std::move(fds[next++]);
    bool alone = false;
    {
        Lock lock(mutex_);
        read_what_is_there(lock);
        alone = is_alone(body.connection);
    }
    if (alone)
        return Result<Established>(Code::ConnectionLost,
                                   "the process at the other end has left the new connection");
    // Both ends do this, so neither depends on the other's having done it.
    if (result.channel.valid())
        if (auto allocated = base::allocate_range(result.channel, 0, body.channel_bytes);
            !allocated)
            return std::move(allocated).error();
    unusable.keep();
    return result;
}

Result<IncomingRequest> Client::connect_wait(const NetAddress& local, Deadline deadline,
                                             const void* owner, std::uint32_t fabrics) {
    if (fabrics == 0 || (fabrics & ~all_fabrics) != 0)
        return Result<IncomingRequest>(Code::InvalidArgument, "a wait for unknown fabrics");
    auto place = canonical(local);
    if (!place) return std::move(place).error();
    auto incoming = expect<IncomingReply>(call(
        [&](bool) {
            ConnectWaitRequest request;
            request.timeout_ns = timeout_of(deadline);
            request.local = place.value();
            request.fabrics = fabrics;
            return request;
        },
        with_grace(deadline, answer_time_), true,
        [&](AgentMessage& message) {
            if (const auto* reply = std::get_if<IncomingReply>(&message.reply.body))
                incoming_[reply->request] = attachment_;
        },
        owner));
    if (!incoming) return std::move(incoming).error();
    const IncomingReply& body = incoming.value();
    return IncomingRequest{body.request,           body.remote,        body.remote_attributes,
                           body.remote_parameters, body.channel_bytes, body.fabric};
}

void Client::cancel_waits(const void* owner) noexcept {
    if (forked() || owner == nullptr) return;
    std::vector<std::uint64_t> cancelled;
    try {
        const Lock lock(mutex_);
        // Also those that are just being asked again at a new agent.
        const auto [first, last] = waits_.equal_range(owner);
        for (auto wait = first; wait != last; ++wait)
            wait->second = true;
        for (auto& [id, slot] : slots_) {
            if (slot->owner != owner || slot->state != Slot::State::Waiting) continue;
            slot->state = Slot::State::Cancelled;
            slot->changed.notify_all();
            cancelled.push_back(id);
        }
        for (const std::uint64_t id : cancelled)
            slots_.erase(id);
        interrupt();
    } catch (...) {
        return;
    }
    for (const std::uint64_t id : cancelled)
        notify(CancelNotice{id});
}

/// Whoever reads the socket looks again whether what it waits for is still wanted.
void Client::interrupt() noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(interrupt_.get(), &one, sizeof one);
}

void Client::forget_incoming(std::uint64_t request) {
    const Lock lock(mutex_);
    incoming_.erase(request);
}

Result<Established> Client::connect_accept(std::uint64_t request, const ConnectOffer& offer,
                                           Deadline deadline) {
    if (forked()) return fork_error();
    auto own = canonical_offer(offer);
    if (!own) return std::move(own).error();
    {
        Lock lock(mutex_);
        read_what_is_there(lock);
        const auto found = incoming_.find(request);
        if (found == incoming_.end())
            return Result<Established>(Code::InvalidArgument,
                                       "there is no such connection request to accept");
        if (!attached_ || found->second != attachment_) {
            incoming_.erase(found);
            return Result<Established>(Code::Timeout,
                                       "the kernel agent that brought the connection request is "
                                       "gone; the requester asks again");
        }
    }
    const auto failure = std::make_shared<std::optional<Error>>();
    auto answer = call(
        [&](bool) {
            return ConnectAcceptRequest{request, own.value()};
        },
        with_grace(deadline, answer_time_).earlier(answer_deadline()), false,
        connection_recorder(own.value(), failure));
    if (*failure) {
        forget_incoming(request);
        return **failure;
    }
    if (!answer && answer.error().code == Code::ConnectionLost) {
        forget_incoming(request);
        return Result<Established>(Code::Timeout,
                                   "the kernel agent ended while the connection was accepted");
    }
    base::FdList fds;
    if (answer) fds = std::move(answer.value().fds);
    auto result = established(answer, std::move(fds));
    const bool stays = !result && (result.error().code == Code::InvalidArgument ||
                                   result.error().code == Code::InvalidState ||
                                   result.error().code == Code::ReliabilityMismatch ||
                                   result.error().code == Code::TransferSizeMismatch ||
                                   result.error().code == Code::QosMismatch);
    if (!stays) forget_incoming(request);
    return result;
}

Result<void> Client::connect_reject(std::uint64_t request) {
    if (forked()) return fork_error();
    {
        Lock lock(mutex_);
        read_what_is_there(lock);
        const auto found = incoming_.find(request);
        if (found == incoming_.end())
            return Result<void>(Code::InvalidArgument,
                                "there is no such connection request to reject");
        const bool stale = !attached_ || found->second != attachment_;
        incoming_.erase(found);
        // With its agent the request is gone; the requester asks again at the next one.
        if (stale) return {};
    }
    auto done = expect_done<DoneReply>(
        call([&](bool) { return ConnectRejectRequest{request}; }, answer_deadline(), false));
    if (!done && done.error().code == Code::ConnectionLost) return {};
    return done;
}

Result<Established> Client::connect_request(const ConnectOffer& offer, Deadline deadline) {
    auto own = canonical_offer(offer);
    if (!own) return std::move(own).error();
    const auto failure = std::make_shared<std::optional<Error>>();
    auto answer = call(
        [&](bool again) {
            // After a change of agent the server may not have come back yet.
            const std::uint64_t patience = again ? max_patience_ns : 0;
            return ConnectRequestRequest{timeout_of(deadline), patience, own.value()};
        },
        with_grace(deadline, answer_time_), true, connection_recorder(own.value(), failure));
    if (*failure) return **failure;
    base::FdList fds;
    if (answer) fds = std::move(answer.value().fds);
    return established(answer, std::move(fds));
}

// ---- peers

Result<std::uint64_t> Client::peer_request(const ConnectOffer& offer, Deadline deadline) {
    if (forked()) return fork_error();
    auto own = canonical_offer(offer);
    if (!own) return std::move(own).error();
    Lock lock(mutex_);
    if (auto attached = ensure_attached(lock, may_start_, answer_deadline()); !attached)
        return std::move(attached).error();
    // So that many requests in a row do not fill the socket with answers that nobody reads.
    read_what_is_there(lock);
    const std::uint64_t id = ++last_id_;
    auto slot = std::make_shared<Slot>();
    slot->offer = own.value();
    slot->deadline = deadline;
    const auto failure = std::make_shared<std::optional<Error>>();
    std::weak_ptr<Slot> weak = slot;
    slot->on_answer = [this, record = connection_recorder(own.value(), failure), failure,
                       weak](AgentMessage& message) {
        record(message);
        const auto strong = weak.lock();
        if (!strong) return;
        strong->failure = *failure;
        if (!strong->failure) share_peer_descriptors(*strong);
    };
    slots_[id] = slot;
    peers_[id] = slot;
    const PeerRequestRequest request{timeout_of(deadline), own.value()};
    base::Undo pending([&] {
        slots_.erase(id);
        peers_.erase(id);
    });
    if (auto sent = send(lock, encode_in_place(id, request), answer_deadline()); !sent)
        return std::move(sent).error();
    pending.keep();
    return id;
}

std::optional<Result<Established>> Client::peer_poll(std::uint64_t request) {
    if (forked()) return Result<Established>(fork_error());
    std::shared_ptr<Slot> slot;
    {
        Lock lock(mutex_);
        read_what_is_there(lock);
        const auto found = peers_.find(request);
        if (found == peers_.end())
            return Result<Established>(Code::InvalidArgument, "there is no such peer request");
        slot = found->second;
        // A lost agent is replaced, and the request asked again there.
        Result<void> attached;
        if (slot->state == Slot::State::NoMemory) {
            peers_.erase(found);
            throw std::bad_alloc();
        }
        if (slot->state != Slot::State::Answered)
            attached = ensure_attached(lock, may_start_, answer_deadline());
        if (slot->state != Slot::State::Answered) {
            // The agent keeps the deadline; only if it does not answer at all, we do.
            if (slot->deadline.is_never() ||
                base::monotonic_now() - slot->deadline.moment() < answer_time_)
                return {};
            peers_.erase(request);
            slots_.erase(request);
            if (!attached) return Result<Established>(std::move(attached).error());
            return Result<Established>(Code::Timeout, "the kernel agent does not answer");
        }
        // Somebody else may have taken or cancelled it while the agent was replaced.
        if (peers_.erase(request) == 0)
            return Result<Established>(Code::InvalidArgument, "there is no such peer request");
    }
    if (slot->failure) return Result<Established>(*slot->failure);
    base::Undo unclaimed([&] {
        if (const auto* reply = std::get_if<EstablishedReply>(&slot->message->reply.body))
            disconnected(reply->connection);
    });
    auto fds = claim_descriptors(*slot);
    if (!fds) return Result<Established>(std::move(fds).error());
    unclaimed.keep();
    return established(std::move(*slot->message), std::move(fds).value());
}

/// A program may ask for a thousand peers and look at the outcomes later: those that are the same
/// process then share its descriptors.
void Client::share_peer_descriptors(Slot& slot) {
    const auto* reply = std::get_if<EstablishedReply>(&slot.message->reply.body);
    if (reply == nullptr) return;
    std::erase_if(met_processes_, [](const auto& entry) { return entry.second.expired(); });
    if ((reply->descriptors & established_process) == 0) return;
    const std::size_t own = (reply->descriptors & established_channel) != 0 ? 1 : 0;
    base::FdList& fds = slot.message->fds;
    auto& known = met_processes_[{reply->agent_epoch, reply->peer_process}];
    slot.peer_fds = known.lock();
    if (!slot.peer_fds) {
        slot.peer_fds = std::make_shared<base::FdList>();
        for (std::size_t i = own; i < fds.size(); ++i)
            slot.peer_fds->push_back(std::move(fds[i]));
        known = slot.peer_fds;
    }
    fds.keep_first(own);
}

Result<base::FdList> Client::claim_descriptors(Slot& slot) {
    base::FdList fds = std::move(slot.message->fds);
    if (!slot.peer_fds) return fds;
    for (const UniqueFd& fd : *slot.peer_fds) {
        UniqueFd copy(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
        if (!copy.valid()) return lost_descriptors();
        fds.push_back(std::move(copy));
    }
    const Lock lock(mutex_);
    slot.peer_fds.reset();
    return fds;
}

Result<Established> Client::peer_wait(std::uint64_t request) {
    if (forked()) return fork_error();
    for (;;) {
        if (auto outcome = peer_poll(request)) return std::move(*outcome);
        Lock lock(mutex_);
        const auto found = peers_.find(request);
        if (found == peers_.end()) continue;
        const std::shared_ptr<Slot> slot = found->second;
        // The agent answers at the deadline; if it does not, peer_poll gives up after a grace.
        if (slot->state == Slot::State::Waiting)
            (void)wait_for(lock, *slot, with_grace(slot->deadline, answer_time_));
        else if (slot->state == Slot::State::Lost)  // no agent can be had now
            slot->changed.wait_for(lock, std::chrono::milliseconds(10));
    }
}

void Client::peer_cancel(std::uint64_t request) noexcept {
    if (forked()) return;
    std::optional<std::uint64_t> connection;
    try {
        Lock lock(mutex_);
        while (attaching_)
            attaching_changed_.wait(lock);
        const auto found = peers_.find(request);
        if (found == peers_.end()) return;
        const std::shared_ptr<Slot> slot = found->second;
        peers_.erase(found);
        slots_.erase(request);
        // A thread in peer_wait looks again and finds the request gone.
        slot->state = slot->state == Slot::State::Waiting ? Slot::State::Lost : slot->state;
        slot->changed.notify_all();
        interrupt();
        if (slot->message)
            if (const auto* reply = std::get_if<EstablishedReply>(&slot->message->reply.body))
                connection = reply->connection;
    } catch (...) {
        return;
    }
    if (connection)
        disconnected(*connection);
    else
        notify(CancelNotice{request});
}

}  // namespace via::ka::attachment
