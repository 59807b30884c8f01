// SPDX-License-Identifier: BSD-3-Clause
// Any order of waits, requests, answers, cancellations, deaths and time: every ticket has at most
// one outcome, and in the end nothing is left.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <variant>

#include "ka/connections.hpp"

namespace {

using namespace via::ka;
using via::base::Deadline;

class Input {
  public:
    Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
    [[nodiscard]] bool empty() const { return left_ == 0; }
    std::uint8_t byte() {
        if (left_ == 0) return 0;
        --left_;
        return *data_++;
    }

  private:
    const std::uint8_t* data_;
    std::size_t left_;
};

NetAddress place(std::uint8_t number) {
    NetAddress address;
    address.host_bytes = 1;
    address.host[0] = number >> 7;
    address.discriminator_bytes = 1;
    address.discriminator[0] = number & 3;
    return address;
}

void require(bool condition) {
    if (!condition) std::abort();
}

/// Tickets under way and whose they are.
std::map<Ticket, ProcessNumber> open_tickets;

void close(ProcessNumber process, Ticket ticket) {
    const auto found = open_tickets.find(ticket);
    require(found != open_tickets.end() && found->second == process);
    open_tickets.erase(found);
}

void settle(const Outcomes& outcomes) {
    for (const Outcome& one : outcomes) {
        if (const auto* connected = std::get_if<outcome::Connected>(&one)) {
            close(connected->requester.process, connected->requester.ticket);
            close(connected->acceptor.process, connected->acceptor.ticket);
            require(compatible(connected->requester.offer.attributes,
                               connected->acceptor.offer.attributes)
                        .ok());
        } else if (const auto* failed = std::get_if<outcome::Failed>(&one)) {
            require(!failed->error.sentence.empty());
            close(failed->process, failed->ticket);
        } else if (const auto* done = std::get_if<outcome::Done>(&one)) {
            close(done->process, done->ticket);
        } else if (const auto* incoming = std::get_if<outcome::Incoming>(&one)) {
            close(incoming->process, incoming->ticket);
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input(data, size);
    Limits limits;
    limits.waits = 4;
    limits.requests = 4;
    limits.unanswered = 3;
    Connections connections(limits);
    open_tickets.clear();
    via::base::Nanoseconds now = 1;
    Ticket last = 0;
    while (!input.empty()) {
        const std::uint8_t action = input.byte();
        const ProcessNumber process = 1 + (action >> 4) % 4;
        const std::uint8_t argument = input.byte();
        ConnectOffer offer;
        offer.local = place(argument & 3);
        offer.remote = place(argument >> 2 & 0x83);
        offer.attributes.reliability = argument >> 6 & 1;
        offer.fabric = (argument & 0x10) != 0 ? fabric_net : fabric_shm;
        const Deadline deadline =
            (argument & 0x20) != 0 ? Deadline::never() : Deadline::at(now + argument % 16);
        Outcomes outcomes;
        const Ticket ticket = ++last;
        switch (action % 9) {
            case 0:
                open_tickets[ticket] = process;
                connections.wait(process, ticket, place(argument), 1 + argument % 3, deadline, now,
                                 outcomes);
                break;
            case 1:
                open_tickets[ticket] = process;
                connections.request(process, ticket, offer, deadline,
                                    Deadline::at(now + (argument & 7)), now, outcomes);
                break;
            case 2:
                open_tickets[ticket] = process;
                connections.accept(process, ticket, argument % 16, offer, now, outcomes);
                break;
            case 3:
                open_tickets[ticket] = process;
                connections.reject(process, ticket, argument % 16, outcomes);
                break;
            case 4:
                open_tickets[ticket] = process;
                connections.peer_request(process, ticket, offer, deadline, now, outcomes);
                break;
            case 5: {
                const Ticket target = argument;
                const auto found = open_tickets.find(target);
                const bool own = found != open_tickets.end() && found->second == process;
                require(connections.cancel(process, target) == own);
                if (own) open_tickets.erase(found);
                break;
            }
            case 6:
                std::erase_if(open_tickets,
                              [&](const auto& entry) { return entry.second == process; });
                connections.process_gone(process, outcomes);
                break;
            default:
                now += argument;
                connections.expire(now, outcomes);
                require(connections.next_deadline().moment() > now);
        }
        settle(outcomes);
        require(connections.tickets() == open_tickets.size());
    }
    for (ProcessNumber process = 1; process <= 4; ++process) {
        std::erase_if(open_tickets, [&](const auto& entry) { return entry.second == process; });
        Outcomes outcomes;
        connections.process_gone(process, outcomes);
        settle(outcomes);
    }
    require(connections.tickets() == 0 && connections.unanswered() == 0);
    return 0;
}
