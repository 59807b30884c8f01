// SPDX-License-Identifier: BSD-3-Clause
// How connections come about: a pure state machine. Requests and the time go in, outcomes come out;
// it does no I/O and knows processes only by number. The agent drives it with sockets, tests drive
// it with seeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "ka/client.hpp"
#include "ka/limits.hpp"

namespace via::ka {

using ProcessNumber = std::uint64_t;
/// A question that waits for its outcome; numbers are the caller's and unique.
using Ticket = std::uint64_t;

/// One end of a connection that has come about.
struct ConnectionEnd {
    ProcessNumber process = 0;
    Ticket ticket = 0;
    ConnectOffer offer;
};

namespace outcome {
struct Failed {
    ProcessNumber process = 0;
    Ticket ticket = 0;
    base::Error error;
};
/// A reject or the like that has been done.
struct Done {
    ProcessNumber process = 0;
    Ticket ticket = 0;
};
/// A wait has met a request.
struct Incoming {
    ProcessNumber process = 0;
    Ticket ticket = 0;
    std::uint64_t request = 0;
    ConnectOffer offer;  ///< the requester's
};
struct Connected {
    ConnectionEnd requester;
    ConnectionEnd acceptor;
    std::uint64_t channel_bytes = 0;
};
}  // namespace outcome

using Outcome = std::variant<outcome::Failed, outcome::Done, outcome::Incoming, outcome::Connected>;
using Outcomes = std::vector<Outcome>;

/// Which hosts' processes one instance serves.
enum class Reach : std::uint8_t { OneHost, AnyHost };

/// The number under which requests from other hosts come: they may come from anywhere.
inline constexpr ProcessNumber remote_requesters = ~ProcessNumber{0};

/// The one form of an address among several that mean the same host.
using Canonical = std::function<NetAddress(const NetAddress&)>;

class Connections {
  public:
    /// Request numbers start after `first_request`; a random one keeps those of an earlier agent
    /// from matching.
    explicit Connections(const Limits& limits, std::uint64_t first_request = 0,
                         Reach reach = Reach::OneHost, Canonical canonical = {})
        : limits_(limits),
          last_request_(first_request),
          reach_(reach),
          canonical_(std::move(canonical)) {}

    /// It takes requests of the `fabrics` only.
    void wait(ProcessNumber process, Ticket ticket, const NetAddress& local, std::uint32_t fabrics,
              base::Deadline deadline, base::Nanoseconds now, Outcomes& outcomes);
    /// `patience`: until when to wait for a server that is not waiting; normally `now`.
    void request(ProcessNumber process, Ticket ticket, const ConnectOffer& offer,
                 base::Deadline deadline, base::Deadline patience, base::Nanoseconds now,
                 Outcomes& outcomes);
    /// On a conflict of attributes, and if it names no request of this process, the request stays.
    void accept(ProcessNumber process, Ticket ticket, std::uint64_t request,
                const ConnectOffer& offer, base::Nanoseconds now, Outcomes& outcomes);
    void reject(ProcessNumber process, Ticket ticket, std::uint64_t request, Outcomes& outcomes);
    void peer_request(ProcessNumber process, Ticket ticket, const ConnectOffer& offer,
                      base::Deadline deadline, base::Nanoseconds now, Outcomes& outcomes);
    /// The ticket gets no outcome any more. False: there is no such ticket of that process.
    bool cancel(ProcessNumber process, Ticket ticket);
    void process_gone(ProcessNumber process, Outcomes& outcomes);

    /// Ends what has run out of time.
    void expire(base::Nanoseconds now, Outcomes& outcomes);
    [[nodiscard]] base::Deadline next_deadline() const;

    /// Waits and peer requests pending, for people who look.
    [[nodiscard]] std::size_t waiting(ProcessNumber process) const;
    [[nodiscard]] std::size_t tickets() const noexcept { return tickets_.size(); }
    [[nodiscard]] std::size_t unanswered() const noexcept { return requests_.size(); }

  private:
    enum class Stage {
        Waiting,    // a VipConnectWait
        Seeking,    // a request that has patience and no server yet
        Presented,  // a request that a server has been told of
        Peer,       // a peer request
    };
    using Key = std::string;
    struct Pending {
        ProcessNumber process = 0;
        Stage stage = Stage::Waiting;
        NetAddress address;         // Waiting: where …
        std::uint32_t fabrics = 0;  // … and of which fabrics
        ConnectOffer offer;         // the others
        Key key;                    // its queue; a host's addresses may change meanwhile
        base::Deadline deadline = base::Deadline::never();
        base::Deadline alarm = base::Deadline::never();  // deadline or end of patience
        std::uint64_t request = 0;                       // Presented
    };
    /// What a server was told of and has not answered.
    struct Presented {
        ProcessNumber server = 0;
        Ticket requester = 0;  // 0: it has given up
    };
    struct ProcessCounts {
        std::size_t waits = 0;
        std::size_t requests = 0;
        std::size_t peers = 0;
        std::size_t unanswered = 0;
        std::set<Ticket> tickets;
        std::set<std::uint64_t> presented;  // requests this server was told of
    };
    using Queues = std::map<Key, std::deque<Ticket>>;

    [[nodiscard]] NetAddress canonical(const NetAddress& address) const {
        return canonical_ ? canonical_(address) : address;
    }
    [[nodiscard]] Key key_of(const NetAddress& address) const;
    [[nodiscard]] Key key_of(const NetAddress& from, const NetAddress& to,
                             std::uint32_t fabric) const;
    /// The first in that queue whose fabrics fit; 0: none.
    [[nodiscard]] Ticket first(const Queues& queues, const Key& key, std::uint32_t fabrics) const;
    Pending& add(Ticket ticket, Pending pending);
    void remove(Ticket ticket);
    void forget_request(std::uint64_t request);
    void present(Ticket wait_ticket, Ticket request_ticket, Outcomes& outcomes);
    void fail(Ticket ticket, base::Code code, std::string sentence, Outcomes& outcomes);
    [[nodiscard]] bool elsewhere(ProcessNumber process, const ConnectOffer& offer) const;
    [[nodiscard]] base::Error nobody_waits(ProcessNumber process, const ConnectOffer& offer) const;

    Limits limits_;
    std::uint64_t last_request_;
    Reach reach_;
    Canonical canonical_;
    std::unordered_map<Ticket, Pending> tickets_;
    std::unordered_map<std::uint64_t, Presented> requests_;
    Queues waits_;    // by address, in order of arrival
    Queues seekers_;  // by remote address
    Queues peers_;    // by local and remote address and fabric
    std::set<std::pair<base::Nanoseconds, Ticket>> alarms_;
    std::unordered_map<ProcessNumber, ProcessCounts> processes_;
};

/// Whether two offers can be one connection; if not, which attribute is in the way.
[[nodiscard]] base::Result<void> compatible(const EndpointAttributes& one,
                                            const EndpointAttributes& other);

}  // namespace via::ka
