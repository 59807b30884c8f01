// SPDX-License-Identifier: BSD-3-Clause
// Two kernel agents that set connections up while somebody on the network drops, repeats, changes,
// cuts and makes up datagrams: nothing breaks, every ticket has at most one outcome, nobody gets
// more bytes than he sent before he has proved where he is, and in the end nothing is left.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <vector>

#include "ka/setup_world.hpp"

namespace {

using namespace via::ka;
using namespace via::ka::test;

class Input {
  public:
    Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
    [[nodiscard]] bool empty() const { return left_ == 0; }
    std::uint8_t byte() {
        if (left_ == 0) return 0;
        --left_;
        return *data_++;
    }
    via::wire::Bytes bytes(std::size_t count) {
        via::wire::Bytes result;
        while (count-- > 0 && left_ > 0)
            result.push_back(byte());
        return result;
    }

  private:
    const std::uint8_t* data_;
    std::size_t left_;
};

void require(bool condition) {
    if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const via::wire::Key key = via::wire::cluster_key("");
    Input input(data, size);
    World world(1);
    SetupLimits limits;
    limits.arrivals = 6;
    limits.arrivals_per_host = 4;
    limits.remembered = 12;
    limits.remembered_per_host = 8;
    limits.farewells = 4;
    std::vector<Host*> hosts{&world.add(1, key, limits), &world.add(2, key, limits)};
    // What is under way; the input says what becomes of it.
    std::vector<Flight> flying;
    std::vector<std::pair<Host*, std::uint64_t>> told;
    std::vector<std::pair<Host*, Ticket>> tickets;
    world.network = [&](World&, Flight flight) {
        if (flying.size() < 64) flying.push_back(std::move(flight));
    };
    for (Host* host : hosts)
        host->on_incoming = [&told, host](const outcome::Incoming& incoming) {
            told.emplace_back(host, incoming.request);
        };
    const auto deliver = [&](Flight flight) {  // a copy: more may begin to fly
        for (Host* host : hosts)
            if (host->address() == flight.to) host->receive(flight.from, flight.bytes);
    };
    for (int step = 0; step < 400 && !input.empty(); ++step) {
        const std::uint8_t action = input.byte();
        const std::uint8_t argument = input.byte();
        Host& host = *hosts[action >> 7];
        Host& other = *hosts[1 - (action >> 7)];
        const auto here = static_cast<std::uint8_t>(argument & 1);
        const auto there = static_cast<std::uint8_t>(argument >> 1 & 1);
        ConnectOffer offer = net_offer(host.address(), here, other.address(), there);
        if ((argument & 4) != 0) offer.attributes.reliability = 4;
        const Nanoseconds time = (argument >> 4) * second / 2;
        const std::size_t place = flying.empty() ? 0 : argument % flying.size();
        switch (action & 15) {
            case 0:
                tickets.emplace_back(&host, host.wait(here, time));
                break;
            case 1:
                tickets.emplace_back(&host, host.connect(offer, other.address(), time));
                break;
            case 2:
                tickets.emplace_back(&host, host.peer(offer, other.address(), time));
                break;
            case 3:
                if (!told.empty()) {
                    const auto [server, request] = told.back();
                    told.pop_back();
                    tickets.emplace_back(server, (argument & 8) != 0
                                                     ? server->reject(request)
                                                     : server->accept(request, offer));
                }
                break;
            case 4:
                if (!tickets.empty()) {
                    const auto [owner, ticket] = tickets[argument % tickets.size()];
                    if (owner->ending(ticket) == nullptr) owner->cancel(ticket);
                }
                break;
            case 5:
                if ((argument & 15) == 0) host.restart();
                break;
            case 6:
                host.refused(other.address());
                break;
            case 7:  // lost
                if (!flying.empty())
                    flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(place));
                break;
            case 8:  // again
                if (!flying.empty()) deliver(flying[place]);
                break;
            case 9:  // changed
                if (!flying.empty()) {
                    via::wire::Bytes& bytes = flying[place].bytes;
                    bytes[input.byte() % bytes.size()] ^= input.byte();
                }
                break;
            case 10:  // cut
                if (!flying.empty()) {
                    Flight cut = flying[place];
                    cut.bytes.resize(input.byte() % cut.bytes.size());
                    deliver(cut);
                }
                break;
            case 11: {  // made up
                Flight made{host_number(9), host.address(), input.bytes(argument)};
                const std::size_t before = flying.size();
                deliver(made);
                for (std::size_t i = before; i < flying.size(); ++i)
                    require(flying[i].to != made.from ||
                            flying[i].bytes.size() <= made.bytes.size());
                break;
            }
            case 12:  // from elsewhere
                if (!flying.empty()) {
                    Flight spoofed = flying[place];
                    spoofed.from = host_number(static_cast<std::uint8_t>(1 + argument % 4));
                    deliver(spoofed);
                }
                break;
            case 13:
                world.run_for((argument + 1) * 10 * millisecond);
                break;
            default:  // it arrives
                if (!flying.empty()) {
                    const Flight flight = flying[place];
                    flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(place));
                    deliver(flight);
                }
        }
        require(world.complaint.empty());
        for (Host* each : hosts)
            require(each->setup().arrivals() <= 6 && each->setup().remembered() <= 12);
    }
    world.network = [](World&, const Flight&) {};
    world.run_for(100 * second);
    require(world.complaint.empty());
    for (Host* host : hosts) {
        require(host->setup().outgoing() == 0 && host->setup().remembered() == 0);
        require(host->setup().next_deadline().is_never());
    }
    return 0;
}
