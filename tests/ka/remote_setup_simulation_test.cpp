// SPDX-License-Identifier: BSD-3-Clause
// Connections between hosts over a hostile network, by seeds.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ka/two_hosts.hpp"

namespace via::ka::test {
namespace {

/// Programs on three hosts that wait, connect, accept, reject, give up and die, while the network
/// drops, repeats, delays, cuts and changes datagrams, and somebody sends old ones anew.
class Story {
  public:
    explicit Story(std::uint64_t seed) : seed_(seed), world_(seed) {
        loss_ = seed % 5 == 0 ? 0 : pick(40);
        faults_ = seed % 5 == 0 ? 0 : pick(15);
        restarts_ = seed % 3 == 1;
        for (std::uint8_t number = 1; number <= hosts; ++number)
            hosts_.push_back(&world_.add(number, wire::cluster_key("a")));
        world_.network = [this](World&, Flight flight) { carry(std::move(flight)); };
        for (Host* host : hosts_)
            host->on_incoming = [this, host](const outcome::Incoming& incoming) {
                told_.push_back({host, incoming.request, incoming.offer});
            };
    }

    void run() {
        for (int step = 0; step < 60 && world_.complaint.empty(); ++step) {
            act();
            world_.run_for(static_cast<Nanoseconds>(pick(120)) * millisecond);
        }
        // Everything comes to its end where time has passed and nobody disturbs.
        loss_ = faults_ = 0;
        world_.run_for(200 * second);
        ASSERT_EQ(world_.complaint, "") << "seed " << seed_;
        check();
    }

  private:
    static constexpr std::uint8_t hosts = 3;
    struct Told {
        Host* host;
        std::uint64_t request;
        ConnectOffer offer;
    };

    std::uint64_t pick(std::uint64_t bound) { return world_.random() % bound; }
    Host& some_host() { return *hosts_[pick(hosts)]; }
    Host& another(const Host& one) {
        for (;;)
            if (Host& other = some_host(); &other != &one) return other;
    }

    void carry(Flight flight) {
        const auto delay = [&] {
            const std::uint64_t most = pick(10) == 0 ? 80'000 : 900;
            return static_cast<Nanoseconds>(50 + pick(most)) * 1000;
        };
        if (pick(100) < loss_) return;
        if (pick(100) < faults_) world_.post(world_.now + delay(), flight);  // twice
        if (pick(100) < faults_) {
            Flight bad = flight;
            if (pick(2) == 0)
                bad.bytes.resize(pick(bad.bytes.size()));
            else
                bad.bytes[pick(bad.bytes.size())] ^= static_cast<std::uint8_t>(1 + pick(255));
            world_.post(world_.now + delay(), std::move(bad));
        }
        if (pick(100) < faults_ && !world_.history.empty()) {
            // Somebody has listened and says it again: as it was, from elsewhere or to another.
            Flight old = world_.history[pick(world_.history.size())];
            if (pick(3) == 0) old.from = host_number(static_cast<std::uint8_t>(1 + pick(9)));
            if (pick(3) == 0) old.to = host_number(static_cast<std::uint8_t>(1 + pick(hosts)));
            world_.post(world_.now + delay(), std::move(old));
        }
        world_.post(world_.now + delay(), std::move(flight));
    }

    void act() {
        Host& host = some_host();
        Host& other = another(host);
        const auto here = static_cast<std::uint8_t>(pick(3));
        const auto there = static_cast<std::uint8_t>(pick(3));
        ConnectOffer offer = net_offer(host.address(), here, other.address(), there);
        if (pick(10) == 0) offer.attributes.reliability = 4;
        const auto time = static_cast<Nanoseconds>(pick(4000)) * millisecond;
        switch (pick(10)) {
            case 0:
            case 1:
                tickets_.emplace_back(&host, host.wait(here, time));
                break;
            case 2:
            case 3:
                tickets_.emplace_back(&host, host.connect(offer, other.address(), time));
                break;
            case 4:
            case 5:
                tickets_.emplace_back(&host, host.peer(offer, other.address(), time));
                break;
            case 6:
            case 7:
            case 8:
                answer();
                break;
            default:
                if (restarts_ && pick(4) == 0) {
                    host.restart();
                    restarted_ = true;
                } else if (!tickets_.empty()) {
                    const auto [owner, ticket] = tickets_[pick(tickets_.size())];
                    if (owner->ending(ticket) == nullptr) owner->cancel(ticket);
                }
        }
    }

    void answer() {
        if (told_.empty()) return;
        const Told told = told_.back();
        told_.pop_back();
        ConnectOffer offer;
        offer = net_offer(told.host->address(), told.offer.remote.discriminator[0],
                          host_number(told.offer.local.host[6]), told.offer.local.discriminator[0]);
        if (pick(4) == 0)
            tickets_.emplace_back(told.host, told.host->reject(told.request));
        else
            tickets_.emplace_back(told.host, told.host->accept(told.request, offer));
    }

    void check() {
        struct Ends {
            const setup::Established* requester = nullptr;
            const setup::Established* acceptor = nullptr;
            bool gone = false;
        };
        std::map<SessionKey, Ends> connections;
        std::set<std::uint64_t> gone;
        for (const Host* host : hosts_) {
            gone.insert(host->gone().begin(), host->gone().end());
            for (const auto& [ticket, ending] : host->endings()) {
                EXPECT_EQ((ending.failure ? 1 : 0) + (ending.established ? 1 : 0) +
                              (ending.incoming ? 1 : 0) + (ending.done ? 1 : 0),
                          1)
                    << "seed " << seed_;
                if (!ending.established) continue;
                const setup::Established& own = *ending.established;
                Ends& ends = connections[own.session_key];
                auto& end = own.requester ? ends.requester : ends.acceptor;
                EXPECT_EQ(end, nullptr) << "two ends on one side, seed " << seed_;
                end = &own;
            }
        }
        for (const auto& [key, ends] : connections) {
            // A requester that has a connection has an acceptor who has it.
            ASSERT_NE(ends.acceptor, nullptr) << "seed " << seed_;
            if (ends.requester == nullptr) {
                if (loss_never_ && !restarted_) {
                    EXPECT_TRUE(gone.contains(ends.acceptor->connection)) << "seed " << seed_;
                }
                continue;
            }
            EXPECT_EQ(ends.requester->connection, ends.acceptor->connection);
            EXPECT_FALSE(gone.contains(ends.acceptor->connection)) << "seed " << seed_;
            EXPECT_EQ(ends.requester->remote.parameters, ends.acceptor->offer.parameters);
            EXPECT_EQ(ends.acceptor->remote.parameters, ends.requester->offer.parameters);
            EXPECT_EQ(ends.requester->remote.local, ends.acceptor->offer.local);
            EXPECT_EQ(ends.acceptor->remote.local, ends.requester->offer.local);
            EXPECT_TRUE(
                compatible(ends.requester->offer.attributes, ends.acceptor->offer.attributes).ok());
            ++made;
        }
        for (Host* host : hosts_) {
            EXPECT_EQ(host->setup().outgoing(), 0U) << "seed " << seed_;
            EXPECT_EQ(host->setup().arrivals(), 0U) << "seed " << seed_;
            EXPECT_EQ(host->setup().remembered(), 0U) << "seed " << seed_;
            EXPECT_EQ(host->setup().waiting(1), 0U) << "seed " << seed_;
            EXPECT_TRUE(host->setup().next_deadline().is_never()) << "seed " << seed_;
        }
    }

    std::uint64_t seed_;
    World world_;
    std::uint64_t loss_ = 0;    // per cent
    std::uint64_t faults_ = 0;  // per cent
    bool restarts_ = false;
    bool restarted_ = false;
    bool loss_never_ = seed_ % 5 == 0;
    std::vector<Host*> hosts_;
    std::vector<Told> told_;
    std::vector<std::pair<Host*, Ticket>> tickets_;

  public:
    std::size_t made = 0;
};

TEST(RemoteSetup, AnyNetworkBySeeds) {
    std::size_t connections = 0;
    for (std::uint64_t seed = 1; seed <= 600 && !HasFailure(); ++seed) {
        Story story(seed);
        story.run();
        connections += story.made;
    }
    // The stories are about something.
    EXPECT_GT(connections, 600U);
}

TEST(RemoteSetup, ALossyNetworkOnlyTakesLonger) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        Two two;
        two.world.random.seed(seed);
        two.world.network = [](World& world, Flight flight) {
            if (world.random() % 100 >= 30) world.post(world.now + 200'000, std::move(flight));
        };
        two.serve();
        const Ticket ticket = two.connect(60 * second);
        two.world.run_for(9 * second);
        EXPECT_NE(established(two.a, ticket), nullptr) << "seed " << seed;
        EXPECT_NE(established(two.b, two.accepted), nullptr) << "seed " << seed;
        two.expect_clean();
    }
}

}  // namespace
}  // namespace via::ka::test
