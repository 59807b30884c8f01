// SPDX-License-Identifier: BSD-3-Clause
// Hosts with kernel agents that set connections up over a network out of memory: the two state
// machines of an agent put together as agent.cpp does, with the time in the test's hand.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ka/connections.hpp"
#include "ka/remote_setup.hpp"

namespace via::ka::test {

using base::Nanoseconds;

inline constexpr Nanoseconds millisecond = 1'000'000;
inline constexpr Nanoseconds second = 1'000'000'000;

inline AgentAddress host_number(std::uint8_t number) {
    AgentAddress address;
    address.family = 4;
    address.port = 7471;
    address.ip = {10, 0, 0, number};
    return address;
}

inline NetAddress place_of(const AgentAddress& host, std::uint8_t discriminator) {
    NetAddress address;
    set_host(address, host);
    address.discriminator_bytes = 1;
    address.discriminator[0] = discriminator;
    return address;
}

inline ConnectOffer net_offer(const AgentAddress& from, std::uint8_t local, const AgentAddress& to,
                              std::uint8_t remote) {
    ConnectOffer offer;
    offer.vi = 1;
    offer.local = place_of(from, local);
    offer.remote = place_of(to, remote);
    offer.attributes.reliability = 2;
    offer.attributes.max_transfer_bytes = 4096;
    offer.parameters[0] = from.ip[3];
    offer.parameters[1] = local;
    offer.fabric = fabric_net;
    return offer;
}

class World;

/// What became of a ticket.
struct Ending {
    std::optional<base::Error> failure;
    std::optional<setup::Established> established;
    std::optional<outcome::Incoming> incoming;
    bool done = false;
};

class Host {
  public:
    Host(World& world, const AgentAddress& address, const wire::Key& key,
         const SetupLimits& limits = {});

    [[nodiscard]] const AgentAddress& address() const { return address_; }
    /// A new agent: everything that was under way is forgotten.
    void restart();
    void set_key(const wire::Key& key) { key_ = key; }
    void set_instance(std::uint64_t instance) { next_instance_ = instance; }

    Ticket wait(std::uint8_t where, Nanoseconds time);
    Ticket connect(const ConnectOffer& offer, const AgentAddress& target, Nanoseconds time);
    Ticket peer(const ConnectOffer& offer, const AgentAddress& target, Nanoseconds time);
    Ticket accept(std::uint64_t request, const ConnectOffer& offer);
    Ticket reject(std::uint64_t request);
    void cancel(Ticket ticket);
    void receive(const AgentAddress& from, wire::ByteView bytes);
    void refused(const AgentAddress& peer);
    void expire();
    [[nodiscard]] base::Deadline next_deadline() const {
        return broker_->next_deadline().earlier(setup_->next_deadline());
    }

    [[nodiscard]] RemoteSetup& setup() { return *setup_; }
    [[nodiscard]] Connections& broker() { return *broker_; }
    /// Empty: it waits still, or was cancelled or forgotten.
    [[nodiscard]] const Ending* ending(Ticket ticket) const {
        const auto found = endings_.find(ticket);
        return found == endings_.end() ? nullptr : &found->second;
    }
    [[nodiscard]] const std::map<Ticket, Ending>& endings() const { return endings_; }
    [[nodiscard]] const std::vector<std::uint64_t>& gone() const { return gone_; }
    /// Called when a wait has met a request.
    std::function<void(const outcome::Incoming&)> on_incoming;

  private:
    static constexpr ProcessNumber process = 1;
    void carry_out(SetupOutput output);
    void carry_out(const Outcomes& outcomes);
    Ending& end(Ticket ticket);

    World& world_;
    AgentAddress address_;
    wire::Key key_;
    SetupLimits limits_;
    std::optional<std::uint64_t> next_instance_;
    std::unique_ptr<Connections> broker_;
    std::unique_ptr<RemoteSetup> setup_;
    Ticket last_ticket_ = 0;
    std::map<Ticket, Ending> endings_;
    std::map<Ticket, bool> open_;
    std::vector<std::uint64_t> gone_;
};

/// Who sent what to whom, and when it comes.
struct Flight {
    AgentAddress from;
    AgentAddress to;
    wire::Bytes bytes;
};

class World {
  public:
    explicit World(std::uint64_t seed) : random(seed) {}

    Host& add(std::uint8_t number, const wire::Key& key, const SetupLimits& limits = {});
    void send(const AgentAddress& from, const Datagram& datagram);
    void post(Nanoseconds when, Flight flight) { flights_.emplace(when, std::move(flight)); }
    /// Lets the time pass until there is nothing to do, at most until then.
    void run_until(Nanoseconds end);
    void run_for(Nanoseconds time) { run_until(now + time); }

    Nanoseconds now = 1000 * second;
    std::mt19937_64 random;
    /// What the network does with a datagram; by default it comes after 100 us.
    std::function<void(World&, Flight)> network;
    /// Everything that was ever sent.
    std::vector<Flight> history;
    /// Tells what is wrong with what the machines did; empty: nothing.
    std::string complaint;

  private:
    std::multimap<Nanoseconds, Flight> flights_;
    std::map<AgentAddress, std::unique_ptr<Host>> hosts_;
};

}  // namespace via::ka::test
