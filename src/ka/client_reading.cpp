// SPDX-License-Identifier: BSD-3-Clause
#include "ka/client_attachment.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/message_socket.hpp"

namespace via::ka::attachment {

namespace {

constexpr std::size_t most_wishes = 64;

}  // namespace

std::chrono::steady_clock::time_point time_point(Deadline deadline) {
    // steady_clock is CLOCK_MONOTONIC; far moments are cut so that the sum does not overflow.
    const Nanoseconds far = base::monotonic_now() + 3600'000'000'000;
    return std::chrono::steady_clock::time_point(
        std::chrono::nanoseconds(std::min(deadline.moment(), far)));
}

void Client::update_watch() noexcept {
    epoll_event event{};
    event.events = EPOLLRDHUP;
    // While somebody reads, the service thread need not wake for every answer.
    if (!leader_) event.events |= EPOLLIN;
    // Somebody else has read what the service thread must hear: a socket can be written to, so this
    // wakes it at once.
    if (untold_ != 0 || !wishes_.empty()) event.events |= EPOLLOUT;
    epoll_ctl(watch_.get(), EPOLL_CTL_MOD, socket_.get(), &event);
}

void Client::read_as_leader(Lock& lock, Deadline deadline) {
    leader_ = true;
    update_watch();
    lock.unlock();
    std::array<pollfd, 2> watched{pollfd{socket_.get(), POLLIN, 0},
                                  pollfd{interrupt_.get(), POLLIN, 0}};
    poll(watched.data(), watched.size(), deadline.poll_milliseconds());
    std::uint64_t interrupts;
    [[maybe_unused]] const ssize_t taken = ::read(interrupt_.get(), &interrupts, sizeof interrupts);
    auto message = [&] {
        base::Undo led([&] {
            lock.lock();
            leader_ = false;
            pass_leadership();
        });
        auto read = read_agent_message(socket_);
        led.keep();
        return read;
    }();
    lock.lock();
    leader_ = false;
    take(std::move(message));
    if (attached_) update_watch();
}

void Client::read_what_is_there(Lock&) {
    while (attached_ && !leader_) {
        auto message = read_agent_message(socket_);
        const bool nothing = !message && message.error().code == Code::Timeout;
        if (nothing) return;
        take(std::move(message));
    }
}

void Client::take(Result<AgentMessage> message) {
    if (message) return dispatch(std::move(message).value());
    if (message.error().code == Code::Timeout) return;
    if (message.error().code != Code::ConnectionLost)
        base::log(LogLevel::Error, message.error().sentence);
    lose_attachment();
}

void Client::lose_attachment() {
    attached_ = false;
    // Whatever it was, it is over; the watch stays readable until there is a new attachment.
    shutdown(socket_.get(), SHUT_RDWR);
    auto slots = std::move(slots_);
    slots_.clear();
    for (auto& [id, slot] : slots) {
        slot->state = Slot::State::Lost;
        slot->changed.notify_all();
    }
    attaching_changed_.notify_all();
}

void Client::dispatch(AgentMessage message) {
    if (const auto* gone = std::get_if<ConnectionsGoneEvent>(&message.reply.body)) {
        for (std::uint32_t i = 0; i < gone->count; ++i) {
            const auto held = holdings_.connections.find(gone->connections[i]);
            if (held == holdings_.connections.end() || held->second.alone) continue;
            held->second.alone = true;
            ++untold_;
        }
        update_watch();
        return;
    }
    if (const auto* wanted = std::get_if<LinkPolicyEvent>(&message.reply.body)) {
        // Nobody takes them in a process without a service thread; the last ones count.
        if (wishes_.size() == most_wishes) wishes_.erase(wishes_.begin());
        wishes_.push_back({wanted->policy.text(), wanted->vi_slot});
        update_watch();
        return;
    }
    // Whether somebody waits for it or not, and before a later answer can give the block away.
    if (const auto* freed = std::get_if<KmemFreedReply>(&message.reply.body))
        holdings_.remove_block(freed->arena, freed->offset, freed->arena_released == 1);
    const auto found = slots_.find(message.reply.id);
    if (found == slots_.end()) return undo_unwanted(message);
    const std::shared_ptr<Slot> slot = std::move(found->second);
    slots_.erase(found);
    slot->message = std::move(message);
    slot->state = Slot::State::Answered;
    try {
        if (slot->on_answer) slot->on_answer(*slot->message);
    } catch (const std::bad_alloc&) {
        // No room in the books for what the agent gave.
        undo_unwanted(*slot->message);
        slot->message.reset();
        slot->state = Slot::State::NoMemory;
    }
    slot->changed.notify_all();
}

bool Client::forget_connection(std::uint64_t connection) noexcept {
    const auto held = holdings_.connections.find(connection);
    if (held == holdings_.connections.end()) return false;
    if (held->second.alone && !held->second.told) --untold_;
    holdings_.connections.erase(held);
    return true;
}

/// The answer came after its caller had given up, or can not be used: neither the agent nor the
/// books keep anything of it.
void Client::undo_unwanted(const AgentMessage& message) noexcept {
    const ReplyBody& body = message.reply.body;
    if (const auto* established = std::get_if<EstablishedReply>(&body)) {
        (void)forget_connection(established->connection);
        send_now(encode_in_place(0, DisconnectedNotice{established->connection}));
    } else if (const auto* incoming = std::get_if<IncomingReply>(&body))
        send_now(encode_in_place(++last_id_, ConnectRejectRequest{incoming->request}));
    else if (const auto* registered = std::get_if<RegisteredReply>(&body))
        send_now(encode_in_place(++last_id_, DeregisterRequest{registered->handle, 0}));
    else if (const auto* allocated = std::get_if<KmemAllocatedReply>(&body))
        send_now(
            encode_in_place(++last_id_, FreeKmemRequest{allocated->offset, allocated->arena, 0}));
    else if (const auto* created = std::get_if<ViCreatedReply>(&body))
        send_now(encode_in_place(0, DestroyViNotice{created->vi, 0}));
}

void Client::pass_leadership() {
    attaching_changed_.notify_all();
    for (const auto& [id, slot] : slots_)
        slot->changed.notify_all();
}

bool Client::wait_for(Lock& lock, Slot& slot, Deadline deadline) {
    while (slot.state == Slot::State::Waiting && !deadline.expired()) {
        if (!leader_ && attached_)
            read_as_leader(lock, deadline);
        else
            slot.changed.wait_until(lock, time_point(deadline));
    }
    // Another waiter must read from now on.
    if (!leader_) pass_leadership();
    return slot.state != Slot::State::Waiting;
}

// ---- sending

void Client::send_now(std::span<const std::byte> message) noexcept {
    if (!attached_) return;
    try {
        if (base::send_message(socket_, message, {}, Deadline::at(0))) return;
        base::log(LogLevel::Warning,
                  "the kernel agent could not be told to undo what it gave; it keeps it until this "
                  "process ends");
    } catch (const std::bad_alloc&) {
        // Not even memory to say so.
    }
}

Result<void> Client::send(Lock& lock, std::span<const std::byte> message, Deadline deadline) {
    const std::uint64_t attachment = attachment_;
    for (;;) {
        if (!attached_ || attachment_ != attachment) return {};  // its slot is lost
        auto sent = base::send_message(socket_, message, {}, Deadline::at(0));
        // A lost connection shows when the socket is read to its end, in order.
        if (sent || sent.error().code == Code::ConnectionLost) return {};
        if (sent.error().code != Code::Timeout) return sent;
        if (deadline.expired())
            return Result<void>(Code::Timeout, "the kernel agent does not read its socket");
        // It may be waiting for us to read; and room comes without a notice to us.
        read_what_is_there(lock);
        lock.unlock();
        const timespec breath{0, 200'000};
        nanosleep(&breath, nullptr);
        lock.lock();
    }
}

}  // namespace via::ka::attachment
