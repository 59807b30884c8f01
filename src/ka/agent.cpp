// SPDX-License-Identifier: BSD-3-Clause
#include "ka/agent.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/log.hpp"
#include "base/memory_file.hpp"
#include "base/message_socket.hpp"
#include "ka/agent_socket.hpp"
#include "ka/cluster_key.hpp"
#include "ka/connections.hpp"
#include "ka/descriptors.hpp"
#include "ka/established.hpp"
#include "ka/local_host.hpp"
#include "ka/net_socket.hpp"
#include "ka/process.hpp"
#include "ka/protocol.hpp"
#include "ka/remote_setup.hpp"
#include "ka/shared_fd.hpp"

namespace via::ka {
namespace {

using base::Code;
using base::Deadline;
using base::Error;
using base::LogLevel;
using base::Nanoseconds;
using base::Result;
using base::UniqueFd;

/// While the agent is out of descriptors it looks for new processes only so often.
constexpr Nanoseconds accept_pause = 50'000'000;
constexpr std::size_t accepts_per_turn = 64;
constexpr std::size_t datagrams_per_turn = 64;
/// A port that is taken may become free: the agent before this one may just be ending.
constexpr Nanoseconds port_pause = 1'000'000'000;
/// Descriptors that an attached process costs at most, besides arenas.
constexpr std::size_t process_descriptors = 6;

template <class T>
T random_number() {
    T value{};
    // With these sizes and an initialised pool, getrandom neither fails nor blocks.
    [[maybe_unused]] const ssize_t filled = getrandom(&value, sizeof value, 0);
    return value;
}

struct OutgoingMessage {
    std::uint64_t id = 0;
    std::vector<std::byte> bytes;
    std::vector<SharedFd> fds;
    std::uint64_t connection = 0;  // an Established: the connection that it tells of
};

/// A socket and who is at its other end.
struct Client {
    std::uint64_t number = 0;
    UniqueFd socket;
    base::PeerCredentials credentials{};
    std::unique_ptr<Process> process;  // attached, and not an observer
    bool observer = false;
    Deadline introduction = Deadline::never();  // by when a stranger must attach
    std::deque<OutgoingMessage> output;
    std::vector<std::uint64_t> gone;          // connections to be reported as gone
    std::map<std::uint64_t, Ticket> tickets;  // by request id: what waits for an outcome
    std::uint32_t interest = 0;               // what epoll watches
    bool closing = false;

    [[nodiscard]] bool stranger() const noexcept { return !process && !observer; }
    [[nodiscard]] std::size_t descriptors() const noexcept {
        std::size_t count = 1;
        if (process) count += process_descriptors + process->kmem().arenas();
        for (const OutgoingMessage& message : output)
            count += message.fds.size();
        return count;
    }
};

/// Lets a bounded number of lines per second through, so that nobody can flood the log.
class LogGate {
  public:
    void log(LogLevel level, const std::string& sentence, Nanoseconds now) {
        if (now - second_ >= 1'000'000'000) {
            if (suppressed_ > 0)
                base::log(LogLevel::Warning,
                          std::to_string(suppressed_) + " more lines were left out");
            second_ = now;
            lines_ = 0;
            suppressed_ = 0;
        }
        if (++lines_ <= 10)
            base::log(level, sentence);
        else
            ++suppressed_;
    }

  private:
    Nanoseconds second_ = 0;
    std::size_t lines_ = 0;
    std::size_t suppressed_ = 0;
};

class Server final : public Agent {
  public:
    Server(const AgentOptions& options, AgentSocket socket, UniqueFd epoll, UniqueFd stop_event)
        : options_(options),
          socket_(std::move(socket)),
          epoll_(std::move(epoll)),
          stop_event_(std::move(stop_event)),
          reserve_(open("/dev/null", O_RDONLY | O_CLOEXEC)),
          epoch_(random_number<std::uint64_t>()),
          started_(base::monotonic_now()),
          idle_since_(started_),
          host_(options.net_port != 0 ? options.net_port : usual_net_port(geteuid())),
          broker_(options.limits, random_number<std::uint64_t>() >> 2, Reach::OneHost,
                  [this](const NetAddress& address) { return host_.canonical(address, now_); }),
          key_(read_cluster_key(options.net_key_file, options.net_key)),
          remote_(
              key_ ? key_.value() : random_number<wire::Key>(), epoch_, host_.port(),
              [](std::span<std::uint8_t> bytes) {
                  [[maybe_unused]] const ssize_t filled = getrandom(bytes.data(), bytes.size(), 0);
              },
              [this] { return host_.addresses(now_); }) {}

    [[nodiscard]] Result<void> prepare();
    Result<void> run() override;
    void stop() noexcept override;

  private:
    // What epoll reports: which client, and whether it is its socket or its pidfd.
    static constexpr std::uint64_t listener_key = 0;
    static constexpr std::uint64_t stop_key = 1;
    static constexpr std::uint64_t socket_key = 2;
    static constexpr std::uint64_t pidfd_key = 3;
    static constexpr std::uint64_t net_key = socket_key;  // of client 0, which there is not
    [[nodiscard]] static std::uint64_t key(const Client& client, std::uint64_t what) {
        return client.number << 2 | what;
    }

    [[nodiscard]] Deadline next_deadline() const;
    void watch_listener(bool on);
    void accept_clients();
    bool accept_one();
    void turn_away(UniqueFd socket, const Error& error);
    [[nodiscard]] std::optional<Error> objection(const base::PeerCredentials& credentials) const;
    [[nodiscard]] std::size_t descriptors_of(uid_t uid) const;
    [[nodiscard]] bool may_use_descriptors(uid_t uid, std::size_t count) const;

    void read_from(Client& client);
    void serve(Client& client, std::span<const std::byte> message, base::FdList fds, bool fds_lost);
    void violate(Client& client, const std::string& why);
    void close_client(Client& client) { client.closing = true; }
    void reap();
    void release(Client& client);

    template <class Body>
    void reply(Client& client, std::uint64_t id, const Body& body, std::vector<SharedFd> fds = {}) {
        send(client, OutgoingMessage{id, encode(id, body), std::move(fds), 0});
    }
    void reply_error(Client& client, std::uint64_t id, Error error) {
        if (error.code == Code::OutOfResources)
            error = name_descriptor_limit(std::move(error), "the kernel agent's");
        reply(client, id, failed(error));
    }
    void reply_result(Client& client, std::uint64_t id, const Result<void>& result) {
        if (result)
            reply(client, id, DoneReply{});
        else
            reply_error(client, id, result.error());
    }
    void send(Client& client, OutgoingMessage message);
    /// False: the socket's buffer is full.
    bool transmit(Client& client, OutgoingMessage& message);
    void flush(Client& client);
    void update_interest(Client& client);

    void attach(Client& client, std::uint64_t id, const AttachRequest& request, base::FdList fds);
    /// Requests that anybody attached may send.
    bool handle_common(Client& client, std::uint64_t id, const RequestBody& body);
    void handle(Client& client, std::uint64_t id, const RequestBody& body, base::FdList fds);

    void on(Client& client, std::uint64_t id, const RegisterRequest& request);
    void on(Client& client, std::uint64_t id, const DeregisterRequest& request);
    void on(Client& client, std::uint64_t id, const ChangeMemoryRequest& request);
    void on(Client& client, std::uint64_t id, const AllocateKmemRequest& request);
    void on(Client& client, std::uint64_t id, const FreeKmemRequest& request);
    void on(Client& client, std::uint64_t id, const CreateViRequest& request);
    void on(Client& client, std::uint64_t id, const DestroyViNotice& notice);
    void on(Client& client, std::uint64_t id, const DisconnectedNotice& notice);
    void on(Client& client, std::uint64_t id, const ConnectWaitRequest& request);
    void on(Client& client, std::uint64_t id, const ConnectAcceptRequest& request);
    void on(Client& client, std::uint64_t id, const ConnectRejectRequest& request);
    void on(Client& client, std::uint64_t id, const ConnectRequestRequest& request);
    void on(Client& client, std::uint64_t id, const PeerRequestRequest& request);
    void on(Client& client, std::uint64_t id, const CancelNotice& notice);
    void on(Client& client, std::uint64_t id, const PeerArenaRequest& request);
    void on(Client& client, std::uint64_t id, const PeerRmmtRequest& request);
    void on(Client& client, std::uint64_t id, const TranslateRequest& request);
    void on(Client& client, std::uint64_t id, const RestoreBlocksRequest& request);
    void on(Client& client, std::uint64_t id, const RestoreRegionsRequest& request);
    void on(Client& client, std::uint64_t id, const RestoreVisRequest& request);
    void on(Client& client, std::uint64_t id, const RestoreConnectionsRequest& request);
    void on(Client& client, std::uint64_t id, const RestoreDoneRequest& request);
    void restore_arena(Client& client, std::uint64_t id, const RestoreArenaRequest& request,
                       UniqueFd file);
    void status(Client& client, std::uint64_t id, const StatusRequest& request);
    void counters_of(Client& client, std::uint64_t id, const CountersOfRequest& request);
    void set_link_policy(Client& client, std::uint64_t id, const SetLinkPolicyRequest& request);
    void stop_by(Client& client, std::uint64_t id);

    // Questions that get their answer later.
    Ticket take_ticket(Client& client, std::uint64_t id, std::uint32_t vi);
    /// The VI must be there, and neither connected nor connecting.
    [[nodiscard]] Result<void> free_vi(Process& process, const ConnectOffer& offer) const;
    [[nodiscard]] Result<void> acceptable(const ConnectOffer& offer) const;
    void deliver(Outcomes outcomes);
    void deliver(const outcome::Failed& failure);
    void deliver(const outcome::Done& done);
    void deliver(const outcome::Incoming& incoming);
    void deliver(const outcome::Connected& connected);
    [[nodiscard]] std::uint64_t new_connection(ProcessNumber process) const;

    // Other hosts.
    void open_net();
    void serve_net();
    /// Refuses with the reason if other hosts can not be reached now.
    [[nodiscard]] Result<void> net_usable();
    void deliver(const SetupOutput& output);
    void deliver(const setup::Arrived& arrived);
    void deliver(const setup::Withdrawn& withdrawn);
    void deliver(const setup::Failed& failure);
    void deliver(const setup::Established& established);
    void deliver(const setup::Gone& gone);
    /// Wherever the ticket is: it gets no outcome any more.
    void cancel_ticket(ProcessNumber process, Ticket ticket);
    void leave(Client& client, std::uint64_t connection);
    void tell_gone(const EstablishedConnections::End& end);

    [[nodiscard]] Client* client_of(ProcessNumber process);
    /// What stands for a secret in the books: how long it takes to look for one that a process
    /// shows tells nothing about the secrets of others.
    [[nodiscard]] Secret masked(const Secret& secret) const {
        return wire::keyed_hash(mask_key_, secret);
    }
    /// Of one's own processes; root of all.
    [[nodiscard]] static bool may_ask(const Client& client, const Client& other);
    [[nodiscard]] Nanoseconds now() const noexcept { return now_; }
    void log(LogLevel level, const std::string& sentence) { log_gate_.log(level, sentence, now_); }

    struct TicketOwner {
        std::uint64_t client = 0;
        std::uint64_t id = 0;
        std::uint32_t vi = 0;
    };
    /// Takes a ticket out of the books: its outcome is there. Empty: nobody waits for it any more.
    [[nodiscard]] std::optional<std::pair<Client*, std::uint64_t>> redeem(Ticket ticket);

    AgentOptions options_;
    AgentSocket socket_;
    UniqueFd epoll_;
    UniqueFd stop_event_;
    UniqueFd reserve_;  // given up for a moment to turn somebody away when there is no other
    std::uint64_t epoch_;
    Nanoseconds started_;
    bool idle_ = true;
    Nanoseconds idle_since_;  // while it is
    Nanoseconds now_ = 0;
    LocalHost host_;
    Connections broker_;
    Result<wire::Key> key_;
    RemoteSetup remote_;
    std::optional<NetSocket> net_;
    std::string net_problem_;
    Deadline net_again_ = Deadline::never();
    const wire::Key mask_key_ = random_number<wire::Key>();
    EstablishedConnections established_;
    std::map<std::uint64_t, std::unique_ptr<Client>> clients_;
    std::map<ProcessNumber, Client*> processes_;
    std::unordered_map<Ticket, TicketOwner> tickets_;
    std::set<std::uint64_t> strangers_;  // clients that have not attached
    std::set<std::uint64_t> dirty_;      // clients that may have to be closed
    std::uint64_t last_client_ = 0;
    std::uint64_t last_process_ = 0;
    Ticket last_ticket_ = 0;
    bool listening_ = false;
    Deadline accept_again_ = Deadline::never();
    bool stopping_ = false;
    Disposal disposal_;
    LogGate log_gate_;
};

// ---- the loop

Result<void> Server::prepare() {
    now_ = base::monotonic_now();
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = stop_key;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_event_.get(), &event) != 0)
        return base::system_error(errno, "cannot watch a descriptor");
    event.data.u64 = listener_key;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket_.listener().get(), &event) != 0)
        return base::system_error(errno, "cannot watch the agent's socket");
    listening_ = true;
    return {};
}

void Server::stop() noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(stop_event_.get(), &one, sizeof one);
}

Deadline Server::next_deadline() const {
    Deadline next = broker_.next_deadline().earlier(accept_again_);
    next = next.earlier(remote_.next_deadline()).earlier(net_again_);
    // Who came first must introduce himself first.
    if (!strangers_.empty()) next = next.earlier(clients_.at(*strangers_.begin())->introduction);
    if (options_.on_demand && processes_.empty() && strangers_.empty())
        next = next.earlier(Deadline::at(
            idle_since_ + static_cast<Nanoseconds>(options_.idle_seconds) * 1'000'000'000));
    return next;
}

Result<void> Server::run() {
    open_net();
    std::array<epoll_event, 64> events{};
    while (!stopping_) {
        const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                     next_deadline().poll_milliseconds());
        if (count < 0 && errno != EINTR)
            return base::system_error(errno, "the kernel agent cannot wait for events");
        now_ = base::monotonic_now();
        for (int i = 0; i < count; ++i) {
            const epoll_event& event = events[static_cast<std::size_t>(i)];
            const std::uint64_t what = event.data.u64 & 3;
            if (event.data.u64 == listener_key) {
                accept_clients();
                continue;
            }
            if (event.data.u64 == stop_key) {
                stopping_ = true;
                continue;
            }
            if (event.data.u64 == net_key) {
                serve_net();
                continue;
            }
            const auto found = clients_.find(event.data.u64 >> 2);
            if (found == clients_.end() || found->second->closing) continue;
            Client& client = *found->second;
            if (what == pidfd_key) {
                close_client(client);
                dirty_.insert(client.number);
                continue;
            }
            if ((event.events & EPOLLOUT) != 0) flush(client);
            // Also on a hang-up: what was sent before it counts.
            if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_from(client);
            dirty_.insert(client.number);
        }
        Outcomes outcomes;
        broker_.expire(now_, outcomes);
        deliver(std::move(outcomes));
        SetupOutput output;
        remote_.expire(now_, output);
        deliver(output);
        if (net_again_.expired(now_)) open_net();
        if (accept_again_.expired(now_)) watch_listener(true);
        for (const std::uint64_t number : strangers_) {
            Client& client = *clients_.at(number);
            if (!client.introduction.expired(now_)) break;
            close_client(client);
            dirty_.insert(number);
        }
        reap();
        const bool idle = processes_.empty() && strangers_.empty();
        if (idle != idle_) idle_since_ = now_;
        idle_ = idle;
        if (idle && options_.on_demand &&
            now_ - idle_since_ >= static_cast<Nanoseconds>(options_.idle_seconds) * 1'000'000'000) {
            base::log(LogLevel::Info, "the kernel agent ends: nobody has needed it for " +
                                          std::to_string(options_.idle_seconds) + " s");
            stopping_ = true;
        }
    }
    return {};
}

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

// ---- requests

bool Server::handle_common(Client& client, std::uint64_t id, const RequestBody& body) {
    if (const auto* request = std::get_if<StatusRequest>(&body)) {
        status(client, id, *request);
        return true;
    }
    if (const auto* request = std::get_if<CountersOfRequest>(&body)) {
        counters_of(client, id, *request);
        return true;
    }
    if (const auto* request = std::get_if<SetLinkPolicyRequest>(&body)) {
        set_link_policy(client, id, *request);
        return true;
    }
    if (std::holds_alternative<StopRequest>(body)) {
        stop_by(client, id);
        return true;
    }
    return false;
}

void Server::handle(Client& client, std::uint64_t id, const RequestBody& body, base::FdList fds) {
    if (const auto* arena = std::get_if<RestoreArenaRequest>(&body))
        return restore_arena(client, id, *arena, std::move(fds.front()));
    std::visit(
        [&](const auto& request) {
            using Body = std::decay_t<decltype(request)>;
            if constexpr (requires { on(client, id, request); }) {
                constexpr bool restores = std::is_same_v<Body, RestoreBlocksRequest> ||
                                          std::is_same_v<Body, RestoreRegionsRequest> ||
                                          std::is_same_v<Body, RestoreVisRequest> ||
                                          std::is_same_v<Body, RestoreConnectionsRequest> ||
                                          std::is_same_v<Body, RestoreDoneRequest>;
                if (restores != client.process->restoring)
                    return violate(client, restores ? "something to restore at the wrong time"
                                                    : "a request before it had restored all");
                on(client, id, request);
            }
        },
        body);
}

void Server::on(Client& client, std::uint64_t id, const RegisterRequest& request) {
    auto handle = client.process->register_memory(request);
    if (!handle) return reply_error(client, id, handle.error());
    reply(client, id, RegisteredReply{handle.value(), 0});
}

void Server::on(Client& client, std::uint64_t id, const DeregisterRequest& request) {
    reply_result(client, id, client.process->deregister_memory(request.handle));
}

void Server::on(Client& client, std::uint64_t id, const ChangeMemoryRequest& request) {
    reply_result(client, id, client.process->change_memory(request));
}

void Server::on(Client& client, std::uint64_t id, const TranslateRequest& request) {
    auto region = client.process->region(request.handle);
    if (!region) return reply_error(client, id, std::move(region).error());
    const Region& found = region.value();
    reply(client, id,
          TranslatedReply{found.address, found.length, found.arena_offset, found.tag, found.rights,
                          found.arena, 0});
}

void Server::on(Client& client, std::uint64_t id, const AllocateKmemRequest& request) {
    Kmem& kmem = client.process->kmem();
    if (!may_use_descriptors(client.credentials.uid, 1))
        return reply_error(client, id,
                           Error{Code::OutOfResources,
                                 "the user has its share of the kernel agent's descriptors; the "
                                 "agent's RLIMIT_NOFILE is " +
                                     std::to_string(descriptor_limit())});
    auto allocation = kmem.allocate(request.bytes, request.tag, request.ordinary_pages == 0);
    if (!allocation) return reply_error(client, id, allocation.error());
    const auto& [number, block, new_arena] = allocation.value();
    const Kmem::Arena* arena = kmem.find(number);
    KmemAllocatedReply answer;
    answer.offset = block.offset;
    answer.bytes = block.bytes;
    answer.arena_bytes = arena->bytes;
    answer.arena = number;
    answer.tag = arena->tag;
    answer.new_arena = new_arena ? 1 : 0;
    answer.huge_pages = arena->huge_pages ? 1 : 0;
    answer.dedicated = arena->dedicated ? 1 : 0;
    std::vector<SharedFd> fds;
    if (new_arena) fds.push_back(arena->file);
    reply(client, id, answer, std::move(fds));
}

void Server::on(Client& client, std::uint64_t id, const FreeKmemRequest& request) {
    auto freed = client.process->kmem().free(request.arena, request.offset);
    if (!freed) return reply_error(client, id, freed.error());
    reply(client, id,
          KmemFreedReply{request.offset, request.arena,
                         freed.value() == Kmem::Freed::ReleasedArena ? 1U : 0U});
}

void Server::on(Client& client, std::uint64_t id, const CreateViRequest&) {
    auto vi = client.process->create_vi();
    if (!vi) return reply_error(client, id, vi.error());
    reply(client, id, ViCreatedReply{vi.value(), 0});
}

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
    auto usable = free_vi(*client.process, request.offer);
    if (usable) usable = acceptable(request.offer);
    if (!usable) return reply_error(client, id, usable.error());
    const auto target = request.offer.fabric == fabric_net
                            ? host_.elsewhere(request.offer.remote, now_)
                            : std::nullopt;
    if (target) usable = net_usable();
    if (!usable) return reply_error(client, id, usable.error());
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
    auto usable = free_vi(*client.process, request.offer);
    if (usable) usable = acceptable(request.offer);
    if (!usable) return reply_error(client, id, usable.error());
    const auto target = request.offer.fabric == fabric_net
                            ? host_.elsewhere(request.offer.remote, now_)
                            : std::nullopt;
    if (target) usable = net_usable();
    if (!usable) return reply_error(client, id, usable.error());
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

// ---- other hosts

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

// ---- grants

void Server::on(Client& client, std::uint64_t id, const PeerArenaRequest& request) {
    const ProcessNumber number = client.process->number();
    const auto refuse = [&](Code code, std::string sentence) {
        reply_error(client, id, Error{code, std::move(sentence)});
    };
    if (established_.find(number, request.connection) == nullptr)
        return refuse(Code::InvalidArgument, "there is no such connection");
    const EstablishedConnections::End* peer = established_.other(number, request.connection);
    Client* owner = peer == nullptr ? nullptr : client_of(peer->process);
    if (owner == nullptr)
        return refuse(Code::InvalidState,
                      "the process at the other end is not attached to this kernel agent");
    const Kmem::Arena* arena = owner->process->kmem().find(request.arena);
    // The same answer for "there is none" and "not for you": it tells nothing about the peer.
    const bool granted =
        arena != nullptr && (arena->tag == peer->tag || (peer->flags & endpoint_any_tag) != 0);
    if (!granted)
        return refuse(Code::PermissionDenied, "the connection gives no right to kmem arena " +
                                                  std::to_string(request.arena) + " of the peer");
    if (arena->huge_pages && owner->credentials.uid != client.credentials.uid)
        return refuse(Code::NotSupported,
                      "memory of huge pages is not shared between different users");
    reply(client, id, ArenaGrantedReply{arena->bytes}, {arena->file});
}

void Server::on(Client& client, std::uint64_t id, const PeerRmmtRequest& request) {
    const ProcessNumber number = client.process->number();
    if (established_.find(number, request.connection) == nullptr)
        return reply_error(client, id, Error{Code::InvalidArgument, "there is no such connection"});
    const EstablishedConnections::End* peer = established_.other(number, request.connection);
    const Client* owner = peer == nullptr ? nullptr : client_of(peer->process);
    if (owner == nullptr)
        return reply_error(
            client, id,
            Error{Code::InvalidState,
                  "the process at the other end is not attached to this kernel agent"});
    reply(client, id, RmmtGrantedReply{owner->process->rmmt_epoch(), 0}, {owner->process->rmmt()});
}

// ---- what an earlier agent knew

void Server::restore_arena(Client& client, std::uint64_t id, const RestoreArenaRequest& request,
                           UniqueFd file) {
    if (!client.process->restoring) {
        disposal_.dispose(client.credentials.uid, std::move(file));
        return violate(client, "something to restore at the wrong time");
    }
    if (auto known = base::verify_memory_file(file, request.bytes); !known) {
        disposal_.dispose(client.credentials.uid, std::move(file));
        return reply_error(client, id, known.error());
    }
    if (!may_use_descriptors(client.credentials.uid, 1))
        return reply_error(client, id,
                           Error{Code::OutOfResources,
                                 "the user has its share of the kernel agent's descriptors"});
    reply_result(client, id,
                 client.process->kmem().restore_arena(request.arena, std::move(file), request.bytes,
                                                      request.tag, request.dedicated == 1));
}

void Server::on(Client& client, std::uint64_t id, const RestoreBlocksRequest& request) {
    Result<void> result;
    for (std::uint32_t i = 0; i < request.count && result; ++i)
        result = client.process->kmem().restore_block(
            request.arena, {request.blocks[i].offset, request.blocks[i].bytes});
    reply_result(client, id, result);
}

void Server::on(Client& client, std::uint64_t id, const RestoreRegionsRequest& request) {
    Result<void> result;
    for (std::uint32_t i = 0; i < request.count && result; ++i)
        result = client.process->restore_region(request.regions[i]);
    reply_result(client, id, result);
}

void Server::on(Client& client, std::uint64_t id, const RestoreVisRequest& request) {
    Result<void> result;
    for (std::uint32_t i = 0; i < request.count && result; ++i)
        result = client.process->restore_vi(request.vis[i]);
    reply_result(client, id, result);
}

void Server::on(Client& client, std::uint64_t id, const RestoreConnectionsRequest& request) {
    for (std::uint32_t i = 0; i < request.count; ++i) {
        ConnectionRecord record = request.connections[i];
        record.secret = masked(record.secret);
        Vi* vi = client.process->find_vi(record.vi);
        if (vi == nullptr || vi->connection != 0)
            return reply_error(client, id,
                               Error{Code::InvalidArgument,
                                     "a connection to restore names no free VI of the process"});
        if (auto restored = established_.restore(client.process->number(), record); !restored)
            return reply_error(client, id, restored.error());
        vi->connection = record.connection;
    }
    reply(client, id, DoneReply{});
}

void Server::on(Client& client, std::uint64_t id, const RestoreDoneRequest&) {
    Process& process = *client.process;
    if (process.restoring) {
        process.restoring = false;
        reply(client, id, DoneReply{});
    }
    for (const EstablishedConnections::End& end :
         established_.restored(process.number(), client.credentials.uid, process.instance()))
        tell_gone(end);
}

// ---- for people

void Server::status(Client& client, std::uint64_t id, const StatusRequest& request) {
    StatusPageReply page;
    page.uptime_seconds = static_cast<std::uint64_t>((now_ - started_) / 1'000'000'000);
    page.idle_seconds_limit = options_.idle_seconds;
    page.pid = getpid();
    page.uid = geteuid();
    page.on_demand = options_.on_demand ? 1 : 0;
    page.huge_pages = options_.kmem.huge_pages && Kmem::huge_pages_free(1) ? 1 : 0;
    page.version = FixedText<32>(options_.version);
    page.socket = FixedText<112>(options_.socket);
    page.net_port = host_.port();
    page.net_key = key_ && key_.value() != wire::cluster_key("") ? 1 : 0;
    page.net_problem = FixedText<200>(net_problem_);
    for (auto next = processes_.upper_bound(request.after_process); next != processes_.end();
         ++next) {
        const Client* other = next->second;
        if (!may_ask(client, *other)) continue;
        if (page.count == page.capacity) {
            page.more = 1;
            break;
        }
        const Process& process = *other->process;
        ProcessRecord& record = page.processes[page.count++];
        record.process = process.number();
        record.attached_seconds =
            static_cast<std::uint64_t>((now_ - process.since()) / 1'000'000'000);
        record.registered_bytes = process.registered_bytes();
        record.kmem_bytes = process.kmem().allocated_bytes();
        record.pid = other->credentials.pid;
        record.uid = other->credentials.uid;
        record.vis = static_cast<std::uint32_t>(process.vis());
        record.connections = static_cast<std::uint32_t>(established_.count(process.number()));
        record.waiting = static_cast<std::uint32_t>(broker_.waiting(process.number()) +
                                                    remote_.waiting(process.number()));
        record.regions = static_cast<std::uint32_t>(process.regions());
        record.program = FixedText<64>(process.program());
    }
    reply(client, id, page);
}

bool Server::may_ask(const Client& client, const Client& other) {
    return client.credentials.uid == 0 || client.credentials.uid == other.credentials.uid;
}

void Server::counters_of(Client& client, std::uint64_t id, const CountersOfRequest& request) {
    for (const auto& [number, other] : processes_)
        if (other->credentials.pid == request.pid && other->process->counters &&
            may_ask(client, *other))
            return reply(client, id, CountersGrantedReply{}, {other->process->counters});
    reply_error(client, id,
                Error{Code::NotFound, "process " + std::to_string(request.pid) +
                                          " is not attached, has no counters, or belongs to "
                                          "another user"});
}

void Server::set_link_policy(Client& client, std::uint64_t id,
                             const SetLinkPolicyRequest& request) {
    bool told = false;
    for (const auto& [number, other] : processes_) {
        if (other->credentials.pid != request.pid || !may_ask(client, *other)) continue;
        // A process that stands still is not cut off for the wishes of its user.
        if (other->output.size() >= options_.limits.owed_messages / 2)
            return reply_error(
                client, id,
                Error{Code::OutOfResources, "process " + std::to_string(request.pid) +
                                                " does not read what its kernel agent says"});
        reply(*other, 0, LinkPolicyEvent{request.vi_slot, 0, request.policy});
        told = true;
    }
    if (told) return reply(client, id, DoneReply{});
    reply_error(client, id,
                Error{Code::NotFound, "process " + std::to_string(request.pid) +
                                          " is not attached, or belongs to another user"});
}

void Server::stop_by(Client& client, std::uint64_t id) {
    const uid_t uid = client.credentials.uid;
    if (uid != 0 && uid != geteuid())
        return reply_error(
            client, id,
            Error{Code::PermissionDenied, "only user " + std::to_string(geteuid()) +
                                              " and root can stop this kernel agent"});
    log(LogLevel::Info, "the kernel agent ends: process " + std::to_string(client.credentials.pid) +
                            " asked for it");
    reply(client, id, DoneReply{});
    stopping_ = true;
}

}  // namespace

Result<std::unique_ptr<Agent>> Agent::create(const AgentOptions& options) {
    auto socket = AgentSocket::bind(options.socket);
    if (!socket) return std::move(socket).error();
    UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll.valid()) return base::system_error(errno, "cannot create an epoll descriptor");
    UniqueFd stop_event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stop_event.valid()) return base::system_error(errno, "cannot create an eventfd");
    auto server = std::make_unique<Server>(options, std::move(socket).value(), std::move(epoll),
                                           std::move(stop_event));
    if (auto prepared = server->prepare(); !prepared) return std::move(prepared).error();
    return std::unique_ptr<Agent>(std::move(server));
}

}  // namespace via::ka
