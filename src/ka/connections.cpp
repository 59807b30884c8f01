// SPDX-License-Identifier: BSD-3-Clause
#include "ka/connections.hpp"

#include <algorithm>
#include <cctype>

namespace via::ka {
namespace {

using base::Code;
using base::Deadline;
using base::Error;
using base::Nanoseconds;
using base::Result;

void append(std::string& key, const NetAddress& address) {
    key += static_cast<char>(address.host_bytes);
    key += static_cast<char>(address.discriminator_bytes);
    for (std::size_t i = 0; i < address.host_bytes; ++i)
        key += static_cast<char>(address.host[i]);
    for (std::size_t i = 0; i < address.discriminator_bytes; ++i)
        key += static_cast<char>(address.discriminator[i]);
}

/// For sentences: text as text, anything else as hexadecimal digits.
std::string readable(const std::uint8_t* bytes, std::size_t count) {
    const bool text = count > 0 && std::all_of(bytes, bytes + count, [](std::uint8_t byte) {
                          return std::isprint(byte) != 0;
                      });
    if (text) return "'" + std::string(reinterpret_cast<const char*>(bytes), count) + "'";
    constexpr char digits[] = "0123456789abcdef";
    std::string result;
    for (std::size_t i = 0; i < count; ++i) {
        result += digits[bytes[i] >> 4];
        result += digits[bytes[i] & 15];
    }
    return result.empty() ? "(empty)" : result;
}

std::string readable(const NetAddress& address) {
    return "host " + readable(address.host.data(), address.host_bytes) + " discriminator " +
           readable(address.discriminator.data(), address.discriminator_bytes);
}

bool same_host(const NetAddress& one, const NetAddress& other) {
    return one.host_bytes == other.host_bytes && one.host == other.host;
}

void erase_ticket(std::map<std::string, std::deque<Ticket>>& queues, const std::string& key,
                  Ticket ticket) {
    const auto found = queues.find(key);
    if (found == queues.end()) return;
    std::erase(found->second, ticket);
    if (found->second.empty()) queues.erase(found);
}

}  // namespace

Result<void> compatible(const EndpointAttributes& one, const EndpointAttributes& other) {
    if (one.reliability != other.reliability)
        return Result<void>(
            Code::ReliabilityMismatch,
            "the reliability levels of the two VIs differ: " + std::to_string(one.reliability) +
                " and " + std::to_string(other.reliability));
    if (one.max_transfer_bytes != other.max_transfer_bytes)
        return Result<void>(Code::TransferSizeMismatch,
                            "the maximal transfer sizes of the two VIs differ: " +
                                std::to_string(one.max_transfer_bytes) + " and " +
                                std::to_string(other.max_transfer_bytes));
    if (one.quality_of_service != other.quality_of_service)
        return Result<void>(Code::QosMismatch, "the qualities of service of the two VIs differ: " +
                                                   std::to_string(one.quality_of_service) +
                                                   " and " +
                                                   std::to_string(other.quality_of_service));
    return {};
}

Connections::Key Connections::key_of(const NetAddress& address) const {
    Key key;
    append(key, canonical(address));
    return key;
}

Connections::Key Connections::key_of(const NetAddress& from, const NetAddress& to,
                                     std::uint32_t fabric) const {
    Key key;
    append(key, canonical(from));
    append(key, canonical(to));
    key += static_cast<char>(fabric);
    return key;
}

Ticket Connections::first(const Queues& queues, const Key& key, std::uint32_t fabrics) const {
    const auto queue = queues.find(key);
    if (queue == queues.end()) return 0;
    for (const Ticket ticket : queue->second) {
        const Pending& pending = tickets_.at(ticket);
        const std::uint32_t own =
            pending.stage == Stage::Waiting ? pending.fabrics : pending.offer.fabric;
        if ((own & fabrics) != 0) return ticket;
    }
    return 0;
}

Connections::Pending& Connections::add(Ticket ticket, Pending pending) {
    ProcessCounts& counts = processes_[pending.process];
    counts.tickets.insert(ticket);
    if (!pending.alarm.is_never()) alarms_.emplace(pending.alarm.moment(), ticket);
    switch (pending.stage) {
        case Stage::Waiting:
            ++counts.waits;
            pending.key = key_of(pending.address);
            waits_[pending.key].push_back(ticket);
            break;
        case Stage::Seeking:
            ++counts.requests;
            pending.key = key_of(pending.offer.remote);
            seekers_[pending.key].push_back(ticket);
            break;
        case Stage::Presented:
            ++counts.requests;
            break;
        case Stage::Peer:
            ++counts.requests;
            ++counts.peers;
            pending.key = key_of(pending.offer.local, pending.offer.remote, pending.offer.fabric);
            peers_[pending.key].push_back(ticket);
            break;
    }
    return tickets_.insert_or_assign(ticket, std::move(pending)).first->second;
}

void Connections::remove(Ticket ticket) {
    const auto found = tickets_.find(ticket);
    if (found == tickets_.end()) return;
    const Pending& pending = found->second;
    ProcessCounts& counts = processes_[pending.process];
    counts.tickets.erase(ticket);
    if (!pending.alarm.is_never()) alarms_.erase({pending.alarm.moment(), ticket});
    switch (pending.stage) {
        case Stage::Waiting:
            --counts.waits;
            erase_ticket(waits_, pending.key, ticket);
            break;
        case Stage::Seeking:
            --counts.requests;
            erase_ticket(seekers_, pending.key, ticket);
            break;
        case Stage::Presented: {
            --counts.requests;
            // The server may still answer; it will learn that nobody is there any more.
            const auto request = requests_.find(pending.request);
            if (request != requests_.end()) request->second.requester = 0;
            break;
        }
        case Stage::Peer:
            --counts.requests;
            --counts.peers;
            erase_ticket(peers_, pending.key, ticket);
            break;
    }
    tickets_.erase(found);
}

void Connections::forget_request(std::uint64_t request) {
    const auto found = requests_.find(request);
    if (found == requests_.end()) return;
    if (const auto server = processes_.find(found->second.server); server != processes_.end()) {
        --server->second.unanswered;
        server->second.presented.erase(request);
    }
    requests_.erase(found);
}

void Connections::fail(Ticket ticket, Code code, std::string sentence, Outcomes& outcomes) {
    const ProcessNumber process = tickets_.at(ticket).process;
    remove(ticket);
    outcomes.push_back(outcome::Failed{process, ticket, Error{code, std::move(sentence)}});
}

/// The host part that a device of this host has is what its users give as their own.
bool Connections::elsewhere(ProcessNumber process, const ConnectOffer& offer) const {
    return reach_ == Reach::OneHost && process != remote_requesters &&
           offer.local.host_bytes != 0 &&
           !same_host(canonical(offer.local), canonical(offer.remote));
}

Error Connections::nobody_waits(ProcessNumber process, const ConnectOffer& offer) const {
    if (elsewhere(process, offer))
        return Error{Code::NotReachable,
                     "no device of this host leads to " + readable(offer.remote) +
                         "; this host is " +
                         readable(offer.local.host.data(), offer.local.host_bytes)};
    return Error{Code::NoMatch, "nobody waits for a connection at " + readable(offer.remote)};
}

void Connections::present(Ticket wait_ticket, Ticket request_ticket, Outcomes& outcomes) {
    const ProcessNumber server = tickets_.at(wait_ticket).process;
    remove(wait_ticket);
    Pending pending = tickets_.at(request_ticket);
    remove(request_ticket);
    pending.stage = Stage::Presented;
    pending.alarm = pending.deadline;
    pending.request = ++last_request_;
    requests_[pending.request] = Presented{server, request_ticket};
    ProcessCounts& counts = processes_[server];
    ++counts.unanswered;
    counts.presented.insert(pending.request);
    outcomes.push_back(outcome::Incoming{server, wait_ticket, pending.request, pending.offer});
    add(request_ticket, std::move(pending));
}

void Connections::wait(ProcessNumber process, Ticket ticket, const NetAddress& local,
                       std::uint32_t fabrics, Deadline deadline, Nanoseconds now,
                       Outcomes& outcomes) {
    const ProcessCounts& counts = processes_[process];
    const auto refuse = [&](Code code, std::string sentence) {
        outcomes.push_back(outcome::Failed{process, ticket, Error{code, std::move(sentence)}});
    };
    if (counts.waits >= limits_.waits)
        return refuse(Code::OutOfResources, "the process waits for connections in " +
                                                std::to_string(limits_.waits) +
                                                " places already (limit of the kernel agent)");
    if (counts.unanswered >= limits_.unanswered)
        return refuse(Code::OutOfResources, "the process has neither accepted nor rejected " +
                                                std::to_string(limits_.unanswered) +
                                                " connection requests (limit of the kernel agent)");
    const Ticket seeker = first(seekers_, key_of(local), fabrics);
    if (seeker == 0 && deadline.expired(now))
        return refuse(Code::Timeout, "no connection request came for " + readable(local));
    Pending pending;
    pending.process = process;
    pending.stage = Stage::Waiting;
    pending.address = local;
    pending.fabrics = fabrics;
    pending.deadline = deadline;
    pending.alarm = deadline;
    add(ticket, std::move(pending));
    if (seeker != 0) present(ticket, seeker, outcomes);
}

void Connections::request(ProcessNumber process, Ticket ticket, const ConnectOffer& offer,
                          Deadline deadline, Deadline patience, Nanoseconds now,
                          Outcomes& outcomes) {
    const auto refuse = [&](Error error) {
        outcomes.push_back(outcome::Failed{process, ticket, std::move(error)});
    };
    if (processes_[process].requests >= limits_.requests)
        return refuse(Error{Code::OutOfResources, "the process has " +
                                                      std::to_string(limits_.requests) +
                                                      " connection requests under way already "
                                                      "(limit of the kernel agent)"});
    if (deadline.expired(now))
        return refuse(Error{Code::Timeout, "the request to connect to " + readable(offer.remote) +
                                               " came with no time left"});
    const Ticket server = first(waits_, key_of(offer.remote), offer.fabric);
    if (server == 0 && (patience.expired(now) || elsewhere(process, offer)))
        return refuse(nobody_waits(process, offer));
    Pending pending;
    pending.process = process;
    pending.stage = Stage::Seeking;
    pending.offer = offer;
    pending.deadline = deadline;
    pending.alarm = deadline.earlier(patience);
    add(ticket, std::move(pending));
    if (server != 0) present(server, ticket, outcomes);
}

void Connections::accept(ProcessNumber process, Ticket ticket, std::uint64_t request,
                         const ConnectOffer& offer, Nanoseconds now, Outcomes& outcomes) {
    const auto refuse = [&](Code code, std::string sentence) {
        outcomes.push_back(outcome::Failed{process, ticket, Error{code, std::move(sentence)}});
    };
    const auto found = requests_.find(request);
    if (found == requests_.end() || found->second.server != process)
        return refuse(Code::InvalidArgument,
                      "there is no such connection request: it was answered before, or it came "
                      "to a kernel agent that is gone");
    const Ticket requester = found->second.requester;
    if (requester != 0 && tickets_.at(requester).deadline.expired(now)) {
        fail(requester, Code::Timeout, "nobody answered the connection request in time", outcomes);
    }
    if (found->second.requester == 0) {
        forget_request(request);
        return refuse(Code::Timeout, "the process that asked for the connection has given up");
    }
    const ConnectOffer asked = tickets_.at(requester).offer;
    const ProcessNumber requester_process = tickets_.at(requester).process;
    if (asked.fabric != offer.fabric)
        return refuse(Code::InvalidArgument,
                      "the request was made for another fabric than it is accepted on");
    if (auto match = compatible(asked.attributes, offer.attributes); !match)
        return refuse(match.error().code, match.error().sentence);
    forget_request(request);
    remove(requester);
    outcomes.push_back(outcome::Connected{
        {requester_process, requester, asked}, {process, ticket, offer}, asked.channel_bytes});
}

void Connections::reject(ProcessNumber process, Ticket ticket, std::uint64_t request,
                         Outcomes& outcomes) {
    const auto found = requests_.find(request);
    if (found == requests_.end() || found->second.server != process) {
        outcomes.push_back(outcome::Failed{
            process, ticket,
            Error{Code::InvalidArgument,
                  "there is no such connection request: it was answered before, or it came to a "
                  "kernel agent that is gone"}});
        return;
    }
    const Ticket requester = found->second.requester;
    forget_request(request);
    if (requester != 0) {
        const std::string where = readable(tickets_.at(requester).offer.remote);
        fail(requester, Code::Rejected, "the process at " + where + " rejected the connection",
             outcomes);
    }
    outcomes.push_back(outcome::Done{process, ticket});
}

void Connections::peer_request(ProcessNumber process, Ticket ticket, const ConnectOffer& offer,
                               Deadline deadline, Nanoseconds now, Outcomes& outcomes) {
    const auto refuse = [&](Error error) {
        outcomes.push_back(outcome::Failed{process, ticket, std::move(error)});
    };
    if (processes_[process].requests >= limits_.requests)
        return refuse(Error{Code::OutOfResources, "the process has " +
                                                      std::to_string(limits_.requests) +
                                                      " connection requests under way already "
                                                      "(limit of the kernel agent)"});
    const Ticket mate =
        first(peers_, key_of(offer.remote, offer.local, offer.fabric), offer.fabric);
    if (mate == 0) {
        if (elsewhere(process, offer)) return refuse(nobody_waits(process, offer));
        if (deadline.expired(now))
            return refuse(Error{Code::Timeout, "no peer asked for a connection between " +
                                                   readable(offer.local) + " and " +
                                                   readable(offer.remote) + " in time"});
        Pending pending;
        pending.process = process;
        pending.stage = Stage::Peer;
        pending.offer = offer;
        pending.deadline = deadline;
        pending.alarm = deadline;
        add(ticket, std::move(pending));
        return;
    }
    const Pending& other = tickets_.at(mate);
    const ConnectionEnd first{other.process, mate, other.offer};
    remove(mate);
    if (auto match = compatible(first.offer.attributes, offer.attributes); !match) {
        outcomes.push_back(outcome::Failed{first.process, mate, match.error()});
        outcomes.push_back(outcome::Failed{process, ticket, match.error()});
        return;
    }
    // The earlier request plays the requester.
    outcomes.push_back(outcome::Connected{
        first, {process, ticket, offer}, std::max(first.offer.channel_bytes, offer.channel_bytes)});
}

bool Connections::cancel(ProcessNumber process, Ticket ticket) {
    const auto found = tickets_.find(ticket);
    if (found == tickets_.end() || found->second.process != process) return false;
    remove(ticket);
    return true;
}

void Connections::process_gone(ProcessNumber process, Outcomes& outcomes) {
    const auto found = processes_.find(process);
    if (found == processes_.end()) return;
    while (!found->second.tickets.empty())
        remove(*found->second.tickets.begin());
    while (!found->second.presented.empty()) {
        const std::uint64_t request = *found->second.presented.begin();
        const Ticket requester = requests_.at(request).requester;
        forget_request(request);
        if (requester == 0) continue;
        const std::string where = readable(tickets_.at(requester).offer.remote);
        fail(requester, Code::NoMatch,
             "the process at " + where + " ended before it answered the connection request",
             outcomes);
    }
    processes_.erase(found);
}

void Connections::expire(Nanoseconds now, Outcomes& outcomes) {
    while (!alarms_.empty() && alarms_.begin()->first <= now) {
        const Ticket ticket = alarms_.begin()->second;
        const Pending& pending = tickets_.at(ticket);
        switch (pending.stage) {
            case Stage::Waiting:
                fail(ticket, Code::Timeout,
                     "no connection request came for " + readable(pending.address) + " in time",
                     outcomes);
                break;
            case Stage::Seeking: {
                Error error = nobody_waits(pending.process, pending.offer);
                fail(ticket, error.code, std::move(error.sentence), outcomes);
                break;
            }
            case Stage::Presented:
                fail(ticket, Code::Timeout,
                     "the process at " + readable(pending.offer.remote) +
                         " neither accepted nor rejected the connection in time",
                     outcomes);
                break;
            case Stage::Peer:
                fail(ticket, Code::Timeout,
                     "no peer asked for a connection between " + readable(pending.offer.local) +
                         " and " + readable(pending.offer.remote) + " in time",
                     outcomes);
                break;
        }
    }
}

Deadline Connections::next_deadline() const {
    return alarms_.empty() ? Deadline::never() : Deadline::at(alarms_.begin()->first);
}

std::size_t Connections::waiting(ProcessNumber process) const {
    const auto found = processes_.find(process);
    return found == processes_.end() ? 0 : found->second.waits + found->second.peers;
}

}  // namespace via::ka
