// SPDX-License-Identifier: BSD-3-Clause
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "base/log.hpp"
#include "mvich/conversation_hot_path.hpp"
#include "mvich/device_parts.hpp"
#include "mvich/endpoint_address.hpp"
#include "mvich/endpoint_parts.hpp"

namespace via::mvich {
namespace {

/// How long a closing endpoint waits until what it was given has gone.
constexpr std::uint64_t drain_milliseconds = 2000;
constexpr std::uint64_t accept_milliseconds = 5000;
/// When the agent can not be asked, which passes.
constexpr auto between_waits = std::chrono::milliseconds(5);

/// Reserves the port on this host, for all of its addresses.
base::Result<base::UniqueFd> reserve_port(std::uint16_t& port) {
    base::UniqueFd reserved(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (reserved.get() < 0)
        return base::system_error(errno, "cannot reserve a port for an endpoint");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    if (bind(reserved.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
        const int error = errno;
        if (error == EADDRINUSE)
            return base::Result<base::UniqueFd>(
                base::Code::OutOfResources, "port " + std::to_string(port) +
                                                " is in use on this host: take another, or 0 for "
                                                "any that is free");
        return base::system_error(error, "cannot reserve port " + std::to_string(port));
    }
    socklen_t length = sizeof address;
    getsockname(reserved.get(), reinterpret_cast<sockaddr*>(&address), &length);
    port = ntohs(address.sin_port);
    return reserved;
}

}  // namespace

EndpointParts::EndpointParts(DeviceParts& device, const Device::EndpointOptions& options)
    : device_(device),
      book_(options.book ? options.book : std::make_shared<AddressBook>()),
      receives_(options.receives ? options.receives
                                 : std::make_shared<ReceiveQueue>(options.listener)) {
    surroundings_.receives = receives_.get();
    surroundings_.vbufs = &device.vbufs();
    surroundings_.registrations = &device.registrations();
    surroundings_.windows = &device.windows();
    surroundings_.listener = options.listener;
    surroundings_.settings = &device.settings();
    surroundings_.counters = &device.counters();
}

EndpointParts::~EndpointParts() {
    close();
}

base::Result<void> EndpointParts::start(const HostPort& wanted) {
    name_ = wanted;
    const bool no_host = std::all_of(name_.host.begin(), name_.host.begin() + name_.host_bytes,
                                     [](std::uint8_t byte) { return byte == 0; });
    if (no_host) {
        const std::uint16_t port = name_.port;
        name_ = device_.own_host();
        name_.port = port;
    }
    auto reserved = reserve_port(name_.port);
    if (!reserved) return std::move(reserved).error();
    reservation_ = std::move(reserved).value();
    {
        const base::BiasedGuard guard(device_.lock());
        device_.add(*this);
    }
    auto thread = quiet_thread([this] { listen(); });
    if (!thread) {
        const base::BiasedGuard guard(device_.lock());
        device_.remove(*this);
        return std::move(thread).error();
    }
    listener_ = std::move(thread).value();
    return {};
}

/// Accepts those who ask for a connection.
void EndpointParts::listen() {
    na::NicAgent& agent = device_.nic().device();
    const ka::NetAddress local = listener_address(device_, name_);
    while (!closing_.load()) {
        auto request = agent.connect_wait(local, base::Deadline::never(), this);
        if (!request) {
            if (closing_.load()) break;
            base::log(base::LogLevel::Warning,
                      "waiting for connections: " + request.error().sentence);
            std::this_thread::sleep_for(between_waits);
            continue;
        }
        const auto name = requester_name(request.value().remote);
        bool wanted = name.has_value();
        // Nobody listened for a moment when it asked inside the host, so it took the other way,
        // which is slow: it asks again.
        if (wanted && request.value().fabric == ka::fabric_net && device_.chooses_ways() &&
            requester_chooses(request.value().remote) && device_.is_here(*name))
            wanted = false;
        if (wanted) {
            const DeviceParts::SeldomGuard guard(device_);
            wanted = !closing_.load() && may_accept(*name);
        }
        if (wanted)
            accept(request.value(), *name);
        else [[maybe_unused]]
            auto rejected = agent.connect_reject(request.value().request);
    }
    listener_ended_.store(true);
}

void EndpointParts::accept(const ka::IncomingRequest& request, const HostPort& name) {
    auto lane = std::make_unique<ViLane>(device_);
    auto done = lane->create();
    if (done)
        done = lane->vi().connect_accept(lane->handle(), request,
                                         base::Deadline::after_milliseconds(accept_milliseconds));
    else [[maybe_unused]]
        auto rejected = device_.nic().device().connect_reject(request.request);
    {
        const DeviceParts::SeldomGuard guard(device_);
        if (done && !closing_.load()) {
            accepted(name, std::move(lane));
        } else {
            lane->close();
            device_.retire(std::move(lane));
            not_accepted(name);
        }
    }
    if (!done)
        base::log(base::LogLevel::Info, "a connection from " + readable(name) +
                                            " did not come about: " + done.error().sentence);
}

/// Has everything gone that the program was told is done? What waits for a peer that does not
/// answer, and what waits for a connection, may be such.
bool EndpointParts::drained() const {
    for (const auto& [key, connection] : connections_) {
        const Conversation& conversation = connection->conversation;
        if (conversation.is_lost()) continue;
        if (conversation.has_promised()) return false;
        if (connection->lane != nullptr &&
            (conversation.has_unsent() || connection->lane->sends_under_way() != 0))
            return false;
    }
    return true;
}

void EndpointParts::drain() {
    const base::Deadline deadline = base::Deadline::after_milliseconds(drain_milliseconds);
    while (!deadline.expired()) {
        const std::uint64_t seen = device_.tidings();
        {
            const base::BiasedGuard guard(device_.lock());
            if (drained()) return;
            if (device_.progress_locked()) continue;
        }
        // Room that a peer makes rings no bell.
        device_.wait(base::Deadline::after_milliseconds(1), seen);
    }
    base::log(base::LogLevel::Warning, "endpoint " + readable(name_) +
                                           " is closed though not everything was sent: a peer "
                                           "has taken nothing for two seconds");
}

void EndpointParts::end_listener() {
    closing_.store(true);
    // A wait that has not begun yet can not be cancelled: once more, until the thread has ended.
    while (!listener_ended_.load()) {
        device_.nic().device().cancel_waits(this);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    listener_.join();
}

void EndpointParts::close() {
    if (!listener_.joinable()) return;
    drain();
    end_listener();
    device_.connector().forget(*this);
    {
        const base::BiasedGuard guard(device_.lock());
        device_.remove(*this);
        for (auto& [key, connection] : connections_)
            others_.push_back(std::move(connection));
        connections_.clear();
        for (auto& connection : others_)
            end(*connection, Status::Cancelled);
        // Messages that nobody will ask for, and receives that still wait.
        for (auto& connection : others_) {
            receives_->visit_unexpected_of(connection->conversation,
                                           [&](UnexpectedMessage& message) {
                                               connection->conversation.discard(message);
                                               receives_->remove(message);
                                           });
            if (connection->lane) device_.retire(std::move(connection->lane));
        }
        if (receives_.use_count() == 1)
            for (const Space space : {Space::Message, Space::Tagged})
                while (PostedReceive* receive = receives_->first_posted(space)) {
                    receives_->take_out(*receive);
                    receives_->destroy(receive);
                }
        others_.clear();
    }
    device_.destroy_retired();
}

/// One name for all that mean the same endpoint: those of this host differ in nothing but the port.
HostPort EndpointParts::key_of(const HostPort& name) const {
    if (!device_.is_here(name)) return name;
    HostPort key;
    key.port = name.port;
    return key;
}

/// The lowest number of all that mean the endpoint of this name.
Peer EndpointParts::number_of(const HostPort& name) const {
    HostPort key = key_of(name);
    for (unsigned context = 0; context < 1U << book_->context_bits(); ++context) {
        const auto found = std::lower_bound(
            numbers_.begin(), numbers_.end(), key,
            [](const Number& one, const HostPort& other) { return one.key < other; });
        if (found != numbers_.end() && found->key == key) return found->peer;
        if (key.port-- == 0) break;
    }
    return unknown_peer;
}

/// The book has changed: numbers and conversations are brought together anew.
void EndpointParts::renumber() {
    const std::uint64_t version = book_->version();
    const std::vector<AddressBook::Entry> entries = book_->entries();
    std::vector<Number> numbers;
    numbers.reserve(entries.size());
    for (const AddressBook::Entry& entry : entries)
        numbers.push_back({key_of(entry.address), entry.peer});
    std::sort(numbers.begin(), numbers.end());
    // Of those that mean the same endpoint the lowest counts, and the others are its twins.
    std::vector<Number> lowest;
    std::vector<ReceiveQueue::Twin> twins;
    for (const Number& number : numbers) {
        if (lowest.empty() || lowest.back().key != number.key)
            lowest.push_back(number);
        else
            twins.push_back({number.peer, lowest.back().peer});
    }
    std::sort(twins.begin(), twins.end(),
              [](const auto& one, const auto& other) { return one.peer < other.peer; });
    numbers_ = std::move(lowest);
    receives_->know(std::move(twins));
    book_version_ = version;
    std::fill(by_peer_.begin(), by_peer_.end(), nullptr);
    const auto number = [&](Connection& connection) {
        connection.conversation.peer = number_of(connection.conversation.name());
    };
    for (auto& [key, connection] : connections_)
        if (connection) number(*connection);
    for (auto& connection : others_)
        if (connection) number(*connection);
}

Conversation* EndpointParts::find_slowly(Peer peer) {
    follow_book();
    const auto address = book_->find(peer);
    if (!address) return nullptr;
    Conversation& conversation = reach(*address);
    if (conversation.peer == unknown_peer) conversation.peer = peer;
    if (by_peer_.size() <= peer) by_peer_.resize(peer + 1, nullptr);
    by_peer_[peer] = &conversation;
    return &conversation;
}

Connection& EndpointParts::make(std::unique_ptr<Connection>& place, const HostPort& name) {
    follow_book();
    place = std::make_unique<Connection>(surroundings_, name);
    place->conversation.peer = number_of(name);
    return *place;
}

void EndpointParts::ask(Connection& connection, const HostPort& key) {
    connection.requested = true;
    device_.connector().request(*this, key, connection.conversation.name());
}

void EndpointParts::carry(Connection& connection, std::unique_ptr<ViLane> lane) {
    connection.requested = false;
    connection.lane = std::move(lane);
    connection.lane->carry(connection.conversation);
    device_.touch(connection.conversation);
    // The program may be asleep, or leave everything to the service thread, which hears of what
    // comes but not of this.
    device_.progress_locked(false);
    device_.wake();
    device_.look();
}

Conversation& EndpointParts::reach(const HostPort& name) {
    const HostPort key = key_of(name);
    auto& place = connections_[key];
    if (place && place->conversation.is_lost()) bury(place);
    if (!place) ask(make(place, name), key);
    return place->conversation;
}

bool EndpointParts::wants(const HostPort& key) {
    const auto found = connections_.find(key);
    return found != connections_.end() && found->second->requested &&
           found->second->lane == nullptr && !found->second->conversation.is_lost();
}

bool EndpointParts::should_ask(const HostPort& key) {
    return !connections_.find(key)->second->accepting;
}

void EndpointParts::connected(const HostPort& key, std::unique_ptr<ViLane> lane) {
    Connection& connection = *connections_.find(key)->second;
    carry(connection, std::move(lane));
}

void EndpointParts::not_connected(const HostPort& key, const base::Error& error) {
    auto& place = connections_.find(key)->second;
    base::log(base::LogLevel::Warning, "no connection from " + readable(name_) + " to " +
                                           readable(place->conversation.name()) + ": " +
                                           error.sentence);
    end(*place, Status::PeerLost);
    bury_lost();
    device_.wake();
}

/// Two ends that ask each other must end with one connection, not with two or none. So an end that
/// accepts does not ask while it does, and an end that has asked accepts only from a smaller name.
bool EndpointParts::may_accept(const HostPort& name) {
    const HostPort key = key_of(name);
    if (key == key_of(name_)) return true;  // our own request to ourselves
    auto& place = connections_[key];
    if (place && place->conversation.is_lost()) bury(place);
    if (!place) make(place, name);
    // It asked before it knew of what we have. Or it is a new one at an old one's address: then
    // what we have is over, which we hear soon, and it asks again.
    if (place->lane != nullptr || (place->requested && name_ < name)) return false;
    place->accepting = true;
    return true;
}

void EndpointParts::accepted(const HostPort& name, std::unique_ptr<ViLane> lane) {
    const HostPort key = key_of(name);
    Connection* connection = nullptr;
    if (key == key_of(name_)) {
        others_.push_back(nullptr);
        connection = &make(others_.back(), name);
    } else {
        auto& place = connections_[key];
        if (place && place->conversation.is_lost()) bury(place);
        connection = place ? place.get() : &make(place, name);
    }
    connection->accepting = false;
    if (connection->lane != nullptr) {
        lane->close();
        device_.retire(std::move(lane));
        return;
    }
    carry(*connection, std::move(lane));
}

void EndpointParts::not_accepted(const HostPort& name) {
    const HostPort key = key_of(name);
    const auto found = connections_.find(key);
    if (found == connections_.end()) return;
    Connection& connection = *found->second;
    connection.accepting = false;
    if (connection.lane != nullptr || connection.requested || closing_.load()) return;
    // The program has sent meanwhile, and relied on it.
    if (connection.conversation.has_unsent())
        ask(connection, key);
    else
        end(connection, Status::Cancelled);  // it asks again, or nobody asked for anything
    bury_lost();
}

void EndpointParts::end(Connection& connection, Status status) {
    connection.requested = false;
    // First of all nobody may touch the program's memory any more.
    if (connection.lane) connection.lane->close();
    if (!connection.conversation.is_lost()) {
        device_.forget(connection.conversation);
        connection.conversation.lost(status);
        // Whoever waits for nobody but this peer waits in vain.
        const Peer peer = connection.conversation.peer;
        if (status == Status::PeerLost && peer != unknown_peer) {
            for (const Space space : {Space::Message, Space::Tagged})
                for (PostedReceive* receive = receives_->first_posted(space); receive != nullptr;) {
                    PostedReceive* next = receive->next;
                    if (receive->from == peer) {
                        Completion completion;
                        completion.what = Happened::Received;
                        completion.status = Status::PeerLost;
                        completion.space = space;
                        completion.source = peer;
                        completion.tag = receive->tag;
                        completion.last_of_buffer = receive->is_multi();
                        completion.cookie = receive->cookie;
                        Listener* listener = receive->listener;
                        receives_->take_out(*receive);
                        receives_->destroy(receive);
                        listener->done(completion);
                    }
                    receive = next;
                }
        }
        if (status == Status::PeerLost && surroundings_.words != nullptr)
            surroundings_.words->lost(connection.conversation.name(), status);
    }
    device_.look();
}

void EndpointParts::bury(std::unique_ptr<Connection>& connection) {
    std::fill(by_peer_.begin(), by_peer_.end(), nullptr);
    destroy_if_empty(connection);
    if (connection) others_.push_back(std::move(connection));
}

void EndpointParts::destroy_if_empty(std::unique_ptr<Connection>& connection) {
    bool waits = false;
    receives_->visit_unexpected_of(connection->conversation,
                                   [&](UnexpectedMessage&) { waits = true; });
    if (waits) return;
    device_.forget(connection->conversation);
    if (connection->lane) device_.retire(std::move(connection->lane));
    connection.reset();
}

void EndpointParts::bury_lost() {
    for (auto at = connections_.begin(); at != connections_.end();) {
        if (at->second->conversation.is_lost() && !at->second->accepting) {
            bury(at->second);
            at = connections_.erase(at);
        } else {
            ++at;
        }
    }
    for (auto& connection : others_)
        if (connection->conversation.is_lost()) destroy_if_empty(connection);
    std::erase(others_, nullptr);
}

void EndpointParts::end_broken() {
    const auto check = [&](Connection& connection) {
        if (connection.conversation.is_lost()) return;
        const bool broken = connection.lane && connection.lane->is_broken();
        if (!broken && !connection.conversation.gone()) return;
        base::log(base::LogLevel::Info, "the connection from " + readable(name_) + " to " +
                                            readable(connection.conversation.name()) +
                                            (broken ? " is lost" : " failed in a transfer"));
        end(connection, Status::PeerLost);
    };
    for (auto& [key, connection] : connections_)
        check(*connection);
    for (auto& connection : others_)
        check(*connection);
    bury_lost();
}

bool EndpointParts::cancel_send(const void* context) {
    for (auto& [key, connection] : connections_)
        if (connection->conversation.cancel_send(context)) return true;
    return false;
}

std::size_t EndpointParts::under_way() const noexcept {
    std::size_t count = 0;
    for (const auto& [key, connection] : connections_)
        count += connection->conversation.under_way();
    return count;
}

void EndpointParts::add_to(Gauges& gauges) const noexcept {
    const auto add = [&](const Connection& connection) {
        if (connection.lane == nullptr || connection.conversation.is_lost()) return;
        ++(connection.lane->abilities().in_place ? gauges.connections_in_host
                                                 : gauges.connections_between_hosts);
        // Before the peer's Hello nothing is known of its vbufs.
        if (connection.conversation.is_open())
            gauges.least_credits = std::min<std::uint64_t>(
                gauges.least_credits, connection.conversation.credits().remote());
    };
    for (const auto& [key, connection] : connections_)
        add(*connection);
    for (const auto& connection : others_)
        add(*connection);
}

// The face.

Endpoint::Endpoint(std::unique_ptr<EndpointParts> parts) : parts_(std::move(parts)) {}
Endpoint::~Endpoint() = default;

const HostPort& Endpoint::name() const noexcept {
    return parts_->name();
}

Posted Endpoint::send(const SendOrder& order) {
    DeviceParts& device = parts_->device();
    const base::BiasedGuard guard(device.lock());
    Conversation* conversation = parts_->find(order.to);
    if (conversation == nullptr) [[unlikely]]
        return Posted::UnknownPeer;
    Posted posted = Posted::Done;
    if (!conversation->send_at_once(order)) [[unlikely]]
        posted = conversation->send_later(order);
    else if (!conversation->starving_due()) [[likely]]
        return posted;
    conversation->flush();
    device.touch(*conversation);
    device.told();
    return posted;
}

Posted Endpoint::remote(const RemoteOrder& order) {
    DeviceParts& device = parts_->device();
    const base::BiasedGuard guard(device.lock());
    Conversation* conversation = parts_->find(order.to);
    if (conversation == nullptr) [[unlikely]]
        return Posted::UnknownPeer;
    const Posted posted = conversation->remote(order);
    conversation->flush();
    device.touch(*conversation);
    device.told();
    return posted;
}

Posted Endpoint::receive(const ReceiveOrder& order) {
    DeviceParts& device = parts_->device();
    const base::BiasedGuard guard(device.lock());
    return device.receive(parts_->receives(), order);
}

std::optional<Envelope> Endpoint::peek(const ReceiveOrder& order, Peek how) {
    DeviceParts& device = parts_->device();
    const base::BiasedGuard guard(device.lock());
    return device.peek(parts_->receives(), order, how);
}

Posted Endpoint::claimed_receive(const ReceiveOrder& order) {
    DeviceParts& device = parts_->device();
    const base::BiasedGuard guard(device.lock());
    return device.claimed_receive(parts_->receives(), order);
}

Posted Endpoint::claimed_discard(void* context) {
    DeviceParts& device = parts_->device();
    const base::BiasedGuard guard(device.lock());
    return device.claimed_discard(parts_->receives(), context);
}

bool Endpoint::cancel(void* context) {
    DeviceParts& device = parts_->device();
    const base::BiasedGuard guard(device.lock());
    return device.cancel(parts_->receives(), context) || parts_->cancel_send(context);
}

base::Result<void> Endpoint::say(const HostPort& to, std::span<const std::byte> bytes) {
    if (bytes.size() > max_word_bytes)
        return base::Result<void>(base::Code::InvalidArgument, "the word is longer than 512 bytes");
    DeviceParts& device = parts_->device();
    const base::BiasedGuard guard(device.lock());
    Conversation& conversation = parts_->reach(to);
    auto said = conversation.say(bytes);
    conversation.flush();
    device.touch(conversation);
    return said;
}

void Endpoint::listen_for_words(ControlListener* listener) {
    const base::BiasedGuard guard(parts_->device().lock());
    parts_->words_to(listener);
}

std::size_t Endpoint::orders_under_way() const {
    const base::BiasedGuard guard(parts_->device().lock());
    return parts_->under_way();
}

}  // namespace via::mvich
