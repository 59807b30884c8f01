// SPDX-License-Identifier: BSD-3-Clause
#include "ka/agent_server.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace via::ka::server {

namespace {

/// While the agent is out of descriptors it looks for new processes only so often.
constexpr Nanoseconds accept_pause = 50'000'000;
constexpr std::size_t accepts_per_turn = 64;

}  // namespace

// ---- who comes

void Server::watch_listener(bool on) {
    accept_again_ = Deadline::never();
    if (on == listening_) return;
    epoll_event event{};
    event.events = on ? static_cast<std::uint32_t>(EPOLLIN) : 0U;
    event.data.u64 = listener_key;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_.listener().get(), &event) == 0)
        listening_ = on;
}

void Server::accept_clients() {
    for (std::size_t i = 0; i < accepts_per_turn; ++i)
        if (!accept_one()) return;
}

bool Server::accept_one() {
    const int flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
    UniqueFd socket(accept4(socket_.listener().get(), nullptr, nullptr, flags));
    if (!socket.valid()) {
        const int failure = errno;
        if (failure == EINTR || failure == ECONNABORTED) return true;
        if (failure != EMFILE && failure != ENFILE && failure != ENOBUFS && failure != ENOMEM)
            return false;
        // Give up the reserve to tell one process why it is not served, then pause.
        log(LogLevel::Error,
            "the kernel agent can take no more processes: " +
                name_descriptor_limit(base::system_error(failure, "accepting a connection"), "its")
                    .sentence);
        if (reserve_.valid()) {
            reserve_.reset();
            UniqueFd unlucky(accept4(socket_.listener().get(), nullptr, nullptr, flags));
            if (unlucky.valid())
                turn_away(
                    std::move(unlucky),
                    Error{Code::OutOfResources,
                          "the kernel agent is out of file descriptors: its RLIMIT_NOFILE is " +
                              std::to_string(descriptor_limit())});
            reserve_.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
        }
        watch_listener(false);
        accept_again_ = Deadline::at(now_ + accept_pause);
        return false;
    }
    auto credentials = base::peer_credentials(socket);
    if (!credentials) return true;
    if (auto error = objection(credentials.value())) {
        turn_away(std::move(socket), *error);
        return true;
    }
    auto client = std::make_unique<Client>();
    client->number = ++last_client_;
    client->socket = std::move(socket);
    client->credentials = credentials.value();
    client->introduction =
        Deadline::at(now_ + static_cast<Nanoseconds>(introduction_milliseconds) * 1'000'000);
    epoll_event event{};
    event.events = client->interest = EPOLLIN;
    event.data.u64 = key(*client, socket_key);
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, client->socket.get(), &event) != 0) {
        turn_away(std::move(client->socket),
                  base::system_error(errno, "the kernel agent cannot watch the process"));
        return true;
    }
    strangers_.insert(client->number);
    clients_.emplace(client->number, std::move(client));
    return true;
}

void Server::turn_away(UniqueFd socket, const Error& error) {
    log(LogLevel::Warning, "a process was turned away: " + error.sentence);
    // The socket is new, so there is room; and if not, the process sees a closed socket.
    [[maybe_unused]] const auto sent =
        base::send_message(socket, encode(0, failed(error)), {}, Deadline::at(0));
}

std::optional<Error> Server::objection(const base::PeerCredentials& credentials) const {
    const uid_t own = geteuid();
    if (own != 0 && credentials.uid != own && credentials.uid != 0)
        return Error{Code::PermissionDenied, "this kernel agent serves user " +
                                                 std::to_string(own) + " only, not user " +
                                                 std::to_string(credentials.uid)};
    const auto strangers = static_cast<std::size_t>(
        std::count_if(strangers_.begin(), strangers_.end(), [&](std::uint64_t number) {
            return clients_.at(number)->credentials.uid == credentials.uid;
        }));
    if (strangers >= max_strangers_per_user)
        return Error{Code::OutOfResources,
                     "user " + std::to_string(credentials.uid) + " has " +
                         std::to_string(strangers) +
                         " connections to the kernel agent that have not attached"};
    if (disposal_.pending(credentials.uid) >= descriptor_limit() / 4)
        return Error{Code::OutOfResources, "user " + std::to_string(credentials.uid) +
                                               " has sent descriptors that can not be closed"};
    if (!may_use_descriptors(credentials.uid, process_descriptors + 1))
        return Error{Code::OutOfResources,
                     "user " + std::to_string(credentials.uid) +
                         " has its share of the kernel agent's descriptors; the agent's "
                         "RLIMIT_NOFILE is " +
                         std::to_string(descriptor_limit())};
    return {};
}

std::size_t Server::descriptors_of(uid_t uid) const {
    std::size_t count = disposal_.pending(uid);
    for (const auto& [number, client] : clients_)
        if (client->credentials.uid == uid) count += client->descriptors();
    return count;
}

bool Server::may_use_descriptors(uid_t uid, std::size_t count) const {
    // An agent of one user has nobody to protect from that user.
    if (uid == geteuid()) return true;
    return descriptors_of(uid) + count <= descriptor_limit() / 4 * 3;
}

// ---- input

void Server::read_from(Client& client) {
    std::array<std::byte, max_message_bytes + 1> buffer;
    for (std::size_t i = 0; i < messages_per_turn && !client.closing; ++i) {
        // Who does not read is not read from.
        if (!client.output.empty() || !client.gone.empty()) break;
        auto received = base::receive_message(client.socket, buffer);
        if (!received) {
            if (received.error().code != Code::Timeout) close_client(client);
            break;
        }
        base::ReceivedMessage& message = received.value();
        if (message.bytes == 0) {
            for (UniqueFd& fd : message.fds)
                disposal_.dispose(client.credentials.uid, std::move(fd));
            close_client(client);
            break;
        }
        if (message.bytes > max_message_bytes) {
            for (UniqueFd& fd : message.fds)
                disposal_.dispose(client.credentials.uid, std::move(fd));
            violate(client,
                    "a message longer than " + std::to_string(max_message_bytes) + " bytes");
            break;
        }
        serve(client, std::span(buffer).first(message.bytes), std::move(message.fds),
              message.truncated);
    }
    update_interest(client);
}

void Server::violate(Client& client, const std::string& why) {
    log(LogLevel::Warning, "process " + std::to_string(client.credentials.pid) + " of user " +
                               std::to_string(client.credentials.uid) +
                               " is cut off, because it sent " + why);
    close_client(client);
}

void Server::serve(Client& client, std::span<const std::byte> message, base::FdList fds,
                   bool fds_lost) {
    // Whatever is not taken over below is closed where it can do no harm.
    struct Rest {
        Server& server;
        uid_t uid;
        base::FdList& fds;
        ~Rest() {
            for (UniqueFd& fd : fds)
                server.disposal_.dispose(uid, std::move(fd));
        }
    } rest{*this, client.credentials.uid, fds};

    auto decoded = decode_request(message);
    if (!decoded) {
        if (decoded.error().code == Code::NotSupported) {
            // Another version: it at least learns why.
            const auto header = decode_header(message);
            reply_error(client, header.value().id,
                        Error{Code::NotSupported,
                              "the kernel agent (pid " + std::to_string(getpid()) +
                                  ") speaks version " + std::to_string(protocol_version) +
                                  " of its protocol; stop it and start the one that belongs to "
                                  "this program"});
        }
        return violate(client, decoded.error().sentence);
    }
    Request& request = decoded.value();
    const auto* arena = std::get_if<RestoreArenaRequest>(&request.body);
    const auto* attaching = std::get_if<AttachRequest>(&request.body);
    std::size_t expected = arena != nullptr ? 1 : 0;
    if (attaching != nullptr)
        expected = static_cast<std::size_t>(__builtin_popcount(attaching->descriptors));
    if (fds_lost && fds.size() < expected)
        return reply_error(client, request.id,
                           Error{Code::OutOfResources,
                                 "the kernel agent could not take the descriptors of the process: "
                                 "its RLIMIT_NOFILE is " +
                                     std::to_string(descriptor_limit())});
    if (fds.size() != expected)
        return violate(client, std::to_string(fds.size()) + " descriptors where " +
                                   std::to_string(expected) + " belong");
    if (attaching != nullptr) return attach(client, request.id, *attaching, std::move(fds));
    if (client.stranger()) return violate(client, "a request before it attached");
    if (handle_common(client, request.id, request.body)) return;
    if (client.observer)
        return reply_error(client, request.id,
                           Error{Code::InvalidState,
                                 "an observer can ask for status, counters and link "
                                 "policies only"});
    handle(client, request.id, request.body, std::move(fds));
}

void Server::attach(Client& client, std::uint64_t id, const AttachRequest& request,
                    base::FdList fds) {
    if (!client.stranger()) return violate(client, "a second Attach");
    const uid_t uid = client.credentials.uid;
    const auto refuse = [&](Error error) {
        for (UniqueFd& fd : fds)
            disposal_.dispose(uid, std::move(fd));
        reply_error(client, id, std::move(error));
    };
    if (request.descriptors == 0) {
        client.observer = true;
        strangers_.erase(client.number);
        return reply(client, id, AttachedReply{epoch_, 0, host_.port(), 0});
    }
    std::size_t next = 0;
    SharedFd doorbell_memory;
    SharedFd doorbell_event;
    SharedFd counters;
    const auto take_over = [&](std::uint32_t bit, SharedFd& target, auto verify) -> Result<void> {
        if ((request.descriptors & bit) == 0) return {};
        if (auto verified = verify(fds[next]); !verified) return verified;
        target = share(std::move(fds[next++]));
        return {};
    };
    const auto is_memory = [](const UniqueFd& fd) { return verify_plain_memory(fd, 4096); };
    auto taken = take_over(attach_doorbell_memory, doorbell_memory, is_memory);
    if (taken) taken = take_over(attach_doorbell_event, doorbell_event, verify_eventfd);
    if (taken) taken = take_over(attach_counters, counters, is_memory);
    if (!taken)
        return refuse(Error{Code::InvalidArgument,
                            "the descriptors of the process are not what "
                            "they should be: " +
                                taken.error().sentence});
    auto pidfd = base::peer_pidfd(client.socket);
    if (!pidfd) return refuse(pidfd.error());
    auto process = Process::create(++last_process_, request, options_.kmem, options_.limits,
                                   &random_number<std::uint32_t>, now_);
    if (!process) return refuse(process.error());
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = key(client, pidfd_key);
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, pidfd.value().get(), &event) != 0)
        return refuse(base::system_error(errno, "the kernel agent cannot watch the process"));
    client.process = std::move(process).value();
    client.process->pidfd = share(std::move(pidfd).value());
    client.process->doorbell_memory = std::move(doorbell_memory);
    client.process->doorbell_event = std::move(doorbell_event);
    client.process->counters = std::move(counters);
    processes_[client.process->number()] = &client;
    strangers_.erase(client.number);
    reply(client, id, AttachedReply{epoch_, client.process->number(), host_.port(), 0},
          {client.process->rmmt()});
    if (!client.process->restoring) on(client, 0, RestoreDoneRequest{});
    log(LogLevel::Info, "process " + std::to_string(client.credentials.pid) + " (" +
                            client.process->program() + ") of user " + std::to_string(uid) +
                            " attached");
}

// ---- output

void Server::send(Client& client, OutgoingMessage message) {
    if (client.closing) return;
    if (client.output.empty() && transmit(client, message)) return;
    if (client.closing) return;
    if (client.output.size() >= options_.limits.owed_messages) {
        log(LogLevel::Warning, "process " + std::to_string(client.credentials.pid) +
                                   " is cut off, because it does not read " +
                                   std::to_string(options_.limits.owed_messages) + " messages");
        return close_client(client);
    }
    client.output.push_back(std::move(message));
    update_interest(client);
}

bool Server::transmit(Client& client, OutgoingMessage& message) {
    std::vector<int> fds;
    for (const SharedFd& fd : message.fds)
        fds.push_back(fd->get());
    auto sent = base::send_message(client.socket, message.bytes, fds, Deadline::at(0));
    if (sent) return true;
    if (sent.error().code == Code::Timeout) return false;
    if (!fds.empty() && sent.error().code != Code::ConnectionLost) {
        // The descriptors can not travel (too many are under way); the process learns it.
        message.fds.clear();
        message.bytes = encode(
            message.id,
            failed(Error{Code::OutOfResources,
                         "the kernel agent cannot pass descriptors on: " + sent.error().sentence}));
        if (message.connection != 0) leave(client, message.connection);
        return transmit(client, message);
    }
    close_client(client);
    dirty_.insert(client.number);
    return false;
}

void Server::flush(Client& client) {
    while (!client.output.empty() && !client.closing) {
        if (!transmit(client, client.output.front())) break;
        client.output.pop_front();
    }
    while (client.output.empty() && !client.gone.empty() && !client.closing) {
        ConnectionsGoneEvent event;
        while (event.count < event.capacity && event.count < client.gone.size()) {
            event.connections[event.count] = client.gone[event.count];
            ++event.count;
        }
        OutgoingMessage message{0, encode(0, event), {}, 0};
        if (!transmit(client, message)) break;
        client.gone.erase(client.gone.begin(), client.gone.begin() + event.count);
    }
    update_interest(client);
}

void Server::update_interest(Client& client) {
    if (client.closing) {
        dirty_.insert(client.number);
        return;
    }
    const bool owing = !client.output.empty() || !client.gone.empty();
    const std::uint32_t wanted = owing ? EPOLLOUT : EPOLLIN;
    if (wanted == client.interest) return;
    epoll_event event{};
    event.events = wanted;
    event.data.u64 = key(client, socket_key);
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, client.socket.get(), &event) == 0)
        client.interest = wanted;
}

// ---- who goes

void Server::reap() {
    // Releasing one may close others (they can not be told), so this goes on until nothing is left.
    while (!dirty_.empty()) {
        const std::uint64_t number = *dirty_.begin();
        dirty_.erase(dirty_.begin());
        const auto found = clients_.find(number);
        if (found == clients_.end() || !found->second->closing) continue;
        const std::unique_ptr<Client> client = std::move(found->second);
        clients_.erase(found);
        strangers_.erase(number);
        release(*client);
        // Descriptors have become free: somebody may be waiting for one.
        if (!listening_) watch_listener(true);
    }
}

void Server::release(Client& client) {
    for (const auto& [id, ticket] : client.tickets) {
        tickets_.erase(ticket);
        SetupOutput output;
        if (remote_.cancel(ticket, now_, output)) deliver(output);
    }
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, client.socket.get(), nullptr);
    if (!client.process) return;
    const ProcessNumber number = client.process->number();
    // The pidfd may live on in somebody's queue, so closing it is not enough.
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, client.process->pidfd->get(), nullptr);
    processes_.erase(number);
    established_.process_gone(number, client.credentials.uid, client.process->instance());
    Outcomes outcomes;
    broker_.process_gone(number, outcomes);
    deliver(std::move(outcomes));
    log(LogLevel::Info, "process " + std::to_string(client.credentials.pid) + " (" +
                            client.process->program() + ") is gone");
}

Client* Server::client_of(ProcessNumber process) {
    const auto found = processes_.find(process);
    return found == processes_.end() ? nullptr : found->second;
}

}  // namespace via::ka::server
