// SPDX-License-Identifier: BSD-3-Clause
// The kernel agent's server: its books, and what it does with each message. One thread has it.
// agent.cpp has the loop; who comes, speaks and goes is in agent_clients.cpp, requests for memory
// and of people in agent_requests.cpp, connections in agent_connecting.cpp, other hosts in
// agent_net.cpp, what an earlier agent knew in agent_restoring.cpp.
#pragma once

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/log.hpp"
#include "base/message_socket.hpp"
#include "base/result.hpp"
#include "ka/agent.hpp"
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

namespace via::ka::server {

using base::Code;
using base::Deadline;
using base::Error;
using base::LogLevel;
using base::Nanoseconds;
using base::Result;
using base::UniqueFd;

/// Descriptors that an attached process costs at most, besides arenas.
inline constexpr std::size_t process_descriptors = 6;

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
    /// To which agent an offer goes that can be made; nullopt: it is for this host.
    [[nodiscard]] Result<std::optional<AgentAddress>> way_of(Process& process,
                                                             const ConnectOffer& offer);
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

}  // namespace via::ka::server
