// SPDX-License-Identifier: BSD-3-Clause
// How connections to other hosts come about: a pure state machine. Datagrams, the time and random
// numbers go in, datagrams and events come out. The agent drives it with its socket, tests drive it
// with seeds. docs/wire.md shows the messages.
//
// The requester's agent drives: it repeats its question until it has an outcome. The acceptor's
// agent keeps nothing for a stranger: an entry is made only when a cookie has shown that the
// requester is where it says, and its request opens with the cluster's key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "ka/client.hpp"
#include "ka/connections.hpp"
#include "ka/host_address.hpp"
#include "ka/setup_body.hpp"
#include "wire/setup_message.hpp"

namespace via::ka {

struct Datagram {
    AgentAddress peer;
    AgentAddress local;  ///< of this host, to which the question came; family 0: any will do
    wire::Bytes bytes;
};

namespace setup {
/// A host asks for a connection; accept() or fail() answers. Its ticket is the machine's own.
struct Arrived {
    Ticket ticket = 0;
    ConnectOffer offer;
    base::Deadline deadline = base::Deadline::never();
    base::Deadline patience = base::Deadline::never();
};
/// It does not ask any more.
struct Withdrawn {
    Ticket ticket = 0;
};
struct Failed {
    Ticket ticket = 0;
    base::Error error;
};
struct Established {
    Ticket ticket = 0;
    ConnectOffer offer;   ///< of this end …
    ConnectOffer remote;  ///< … and of the other
    SessionKey session_key{};
    std::uint64_t connection = 0;  ///< made by the acceptor's agent: not 0, but maybe not new here
    bool requester = false;
};
/// The requester gave up before it knew of the connection that was told here.
struct Gone {
    ProcessNumber process = 0;
    std::uint64_t connection = 0;
};
}  // namespace setup

using SetupEvent =
    std::variant<setup::Arrived, setup::Withdrawn, setup::Failed, setup::Established, setup::Gone>;

struct SetupOutput {
    std::vector<Datagram> datagrams;
    std::vector<SetupEvent> events;
};

struct SetupLimits {
    std::size_t arrivals = 8192;  ///< requests of other hosts under way
    std::size_t arrivals_per_host = 2048;
    std::size_t remembered = 65536;  ///< requests that must not come again
    std::size_t remembered_per_host = 32768;
    std::size_t farewells = 1024;
};

class RemoteSetup {
  public:
    using Random = std::function<void(std::span<std::uint8_t>)>;
    /// Internet addresses of this host, with its agent's port.
    using OwnAddresses = std::function<std::vector<AgentAddress>()>;

    /// `instance`: of this agent, random.
    RemoteSetup(const wire::Key& cluster, std::uint64_t instance, std::uint16_t port, Random random,
                OwnAddresses own_addresses, const SetupLimits& limits = {});

    // This host asks. The ticket gets one outcome, Failed or Established, unless it is cancelled.
    void request(ProcessNumber process, Ticket ticket, const ConnectOffer& offer,
                 const AgentAddress& target, base::Deadline deadline, std::uint64_t patience_ns,
                 base::Nanoseconds now, SetupOutput& output);
    void peer_request(ProcessNumber process, Ticket ticket, const ConnectOffer& offer,
                      const AgentAddress& target, base::Deadline deadline, base::Nanoseconds now,
                      SetupOutput& output);

    // Other hosts ask. From accept() on the acceptor's ticket is kept here and gets one outcome.
    void accept(Ticket arrival, ProcessNumber process, Ticket acceptor, const ConnectOffer& offer,
                base::Nanoseconds now, SetupOutput& output);
    void fail(Ticket arrival, const base::Error& error, base::Nanoseconds now, SetupOutput& output);

    /// Of a ticket of this host; it gets no outcome then. False: there is none.
    bool cancel(Ticket ticket, base::Nanoseconds now, SetupOutput& output);

    void receive(const AgentAddress& peer, const AgentAddress& local, wire::ByteView datagram,
                 base::Nanoseconds now, SetupOutput& output);
    /// The network says that datagrams do not get there. `refused`: the host has no such port.
    void undeliverable(const AgentAddress& peer, bool refused, const std::string& why,
                       base::Nanoseconds now, SetupOutput& output);

    void expire(base::Nanoseconds now, SetupOutput& output);
    [[nodiscard]] base::Deadline next_deadline() const;

    /// For people and tests.
    [[nodiscard]] std::size_t waiting(ProcessNumber process) const;
    [[nodiscard]] std::size_t outgoing() const noexcept { return outgoing_.size(); }
    [[nodiscard]] std::size_t arrivals() const noexcept { return live_; }
    [[nodiscard]] std::size_t remembered() const noexcept { return arrivals_.size(); }

  private:
    using RequestNumber = std::uint64_t;
    /// A request of this host.
    struct Outgoing {
        enum class Stage {
            Greeting,    // it has no cookie yet
            Asking,      // … and now it has
            Confirming,  // it was accepted
            Matched,     // a peer request that meets one of the other host: that one goes on
        };
        ProcessNumber process = 0;
        Ticket ticket = 0;
        SetupPurpose purpose = SetupPurpose::Connect;
        Stage stage = Stage::Greeting;
        ConnectOffer offer;
        AgentAddress target;
        base::Deadline deadline = base::Deadline::never();
        std::uint64_t patience_ns = 0;
        wire::SetupNonce nonce{};
        std::optional<wire::Cookie> cookie;
        base::Nanoseconds begun = 0;
        base::Nanoseconds last_heard = 0;
        bool heard = false;
        std::string obstacle;  // what the network said about the target
        SetupOutcome outcome;  // Confirming
        Ticket arrival = 0;    // Matched: with which
        base::Nanoseconds pause = 0;
        base::Nanoseconds next_send = 0;
        base::Nanoseconds alarm = 0;
    };
    /// A request of another host that is under way: what is only needed then.
    struct Live {
        SetupPurpose purpose = SetupPurpose::Connect;
        ConnectOffer offer;
        std::vector<AgentAddress> addresses;
        AgentAddress peer;
        AgentAddress local;
        wire::SetupExchange exchange;
        base::Deadline deadline = base::Deadline::never();
        base::Nanoseconds last_heard = 0;
        SetupOutcome outcome;
        ConnectOffer own_offer;
        Ticket own = 0;                 // Offered: the acceptor's, or of the peer request here
        RequestNumber mate = 0;         // Offered, for peers: that request
        base::Nanoseconds settled = 0;  // Offered or Failed: since when
    };
    struct Arrival {
        enum class Stage { Pending, Offered, Confirmed, Failed, Cancelled };
        Ticket ticket = 0;
        Stage stage = Stage::Pending;
        AgentAddress host;  // without port
        base::Nanoseconds keep_until = 0;
        ProcessNumber process = 0;  // Confirmed: whose connection, and its number
        std::uint64_t connection = 0;
        std::unique_ptr<Live> live;
        base::Nanoseconds alarm = 0;
    };
    using ArrivalKey = std::pair<std::uint64_t, RequestNumber>;  // the agent's instance, its number
    /// Cancels that are repeated a few times, because nobody answers them.
    struct Farewell {
        AgentAddress target;
        wire::SetupExchange exchange;
        int left = 0;
        base::Nanoseconds pause = 0;
    };
    struct HostCounts {
        std::size_t live = 0;
        std::size_t remembered = 0;
    };
    using PeerKey = std::string;

    template <std::size_t n>
    [[nodiscard]] std::array<std::uint8_t, n> random_bytes() {
        std::array<std::uint8_t, n> bytes{};
        random_(bytes);
        return bytes;
    }
    [[nodiscard]] std::uint64_t random_number();

    // Of this host's requests.
    void begin(Outgoing outgoing, base::Nanoseconds now, SetupOutput& output);
    void greet_again(RequestNumber number, base::Nanoseconds now, SetupOutput& output);
    void speak(RequestNumber number, Outgoing& outgoing, base::Nanoseconds now,
               SetupOutput& output);
    void set_alarm(RequestNumber number, Outgoing& outgoing);
    void end(RequestNumber number, bool tell, base::Nanoseconds now, SetupOutput& output);
    void fail_outgoing(RequestNumber number, base::Error error, bool tell, base::Nanoseconds now,
                       SetupOutput& output);
    void out_of_time(RequestNumber number, base::Nanoseconds now, SetupOutput& output);
    void on_challenge(const wire::SetupMessage& message, base::Nanoseconds now,
                      SetupOutput& output);
    void on_refusal(const wire::SetupMessage& message, base::Nanoseconds now, SetupOutput& output);
    void on_answer(const wire::SetupMessage& message, base::Nanoseconds now, SetupOutput& output);
    void say_farewell(const AgentAddress& target, const wire::SetupExchange& exchange,
                      base::Nanoseconds now, SetupOutput& output);
    [[nodiscard]] base::Error silence(const Outgoing& outgoing, base::Nanoseconds now) const;

    // Of other hosts' requests.
    struct Asked {
        const AgentAddress& peer;
        const AgentAddress& local;
        const wire::SetupMessage& message;
    };
    [[nodiscard]] wire::Cookie make_cookie(std::uint64_t slot, const AgentAddress& peer,
                                           const wire::SetupNonce& nonce) const;
    [[nodiscard]] bool is_fresh(const wire::Cookie& cookie, const AgentAddress& peer,
                                const wire::SetupNonce& nonce, base::Nanoseconds now) const;
    void challenge(const Asked& asked, base::Nanoseconds now, SetupOutput& output) const;
    void on_question(const Asked& asked, base::Nanoseconds now, SetupOutput& output);
    void on_request(const Asked& asked, const SetupRequest& request, base::Nanoseconds now,
                    SetupOutput& output);
    void on_confirm(const Asked& asked, Arrival& arrival, base::Nanoseconds now,
                    SetupOutput& output);
    void on_cancel(Arrival& arrival, base::Nanoseconds now, SetupOutput& output);
    void answer(const Live& live, SetupOutput& output);
    void answer(const AgentAddress& peer, const AgentAddress& local,
                const wire::SetupExchange& exchange, wire::SetupKind kind,
                const SetupOutcome& outcome, SetupOutput& output);
    void offer(Arrival& arrival, ProcessNumber process, Ticket own, const ConnectOffer& own_offer,
               base::Nanoseconds now, SetupOutput& output);
    /// What had been offered is off: the ticket of this host fails, or its peer request goes on.
    void withdraw_offer(Arrival& arrival, const base::Error& error, base::Nanoseconds now,
                        SetupOutput& output);
    void fail_arrival(Arrival& arrival, const base::Error& error, base::Nanoseconds now,
                      SetupOutput& output);
    void settle(Arrival& arrival, Arrival::Stage stage);
    void drop_live(Arrival& arrival);
    void set_alarm(Arrival& arrival);
    void expire_arrival(Arrival& arrival, base::Nanoseconds now, SetupOutput& output);

    // Peers.
    [[nodiscard]] static PeerKey peer_key(const ConnectOffer& offer, bool mirrored);
    [[nodiscard]] static bool fits(const Outgoing& outgoing, const Live& live);
    /// Concludes two peer requests that meet, if that is this agent's part.
    void match(Arrival& arrival, base::Nanoseconds now, SetupOutput& output);
    void match(RequestNumber number, base::Nanoseconds now, SetupOutput& output);
    void conclude(Arrival& arrival, RequestNumber number, base::Nanoseconds now,
                  SetupOutput& output);
    void forget_peer(std::multimap<PeerKey, std::uint64_t>& index, const ConnectOffer& offer,
                     std::uint64_t value);

    wire::Key cluster_;
    wire::KeyId key_id_;
    std::uint64_t instance_;
    std::uint16_t port_;
    Random random_;
    OwnAddresses own_addresses_;
    SetupLimits limits_;
    wire::Key cookie_secret_{};
    RequestNumber last_request_ = 0;
    Ticket last_arrival_ = 0;

    std::map<RequestNumber, Outgoing> outgoing_;
    std::map<wire::SetupNonce, RequestNumber> by_nonce_;
    std::map<Ticket, RequestNumber> by_ticket_;
    std::map<ProcessNumber, std::size_t> waiting_;  // peer requests
    std::set<std::pair<base::Nanoseconds, RequestNumber>> outgoing_alarms_;

    std::map<ArrivalKey, Arrival> arrivals_;
    std::map<Ticket, ArrivalKey> by_arrival_;
    std::map<Ticket, Ticket> offered_;  // arrivals by the acceptor's ticket
    std::map<AgentAddress, HostCounts> hosts_;
    std::size_t live_ = 0;
    std::set<std::pair<base::Nanoseconds, Ticket>> arrival_alarms_;

    std::multimap<PeerKey, std::uint64_t> peers_here_;   // request numbers, in order
    std::multimap<PeerKey, std::uint64_t> peers_there_;  // arrivals' tickets, in order

    std::multimap<base::Nanoseconds, Farewell> farewells_;
};

}  // namespace via::ka
