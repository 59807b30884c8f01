// SPDX-License-Identifier: BSD-3-Clause
// The inside of an Endpoint: its name, its peers' conversations, and how connections are made.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.hpp"
#include "mvich/conversation.hpp"
#include "mvich/device_parts.hpp"

namespace via::mvich {

/// One connection, or one that is being made: to a peer there is at most one that sends.
struct Connection {
    Connection(Surroundings& surroundings, const HostPort& name)
        : conversation(surroundings, name) {}
    Conversation conversation;
    std::unique_ptr<ViLane> lane;
    bool requested = false;  ///< by us, and not answered yet
    bool accepting = false;  ///< the peer's request is being answered
};

class EndpointParts {
  public:
    EndpointParts(DeviceParts& device, const Device::EndpointOptions& options);
    ~EndpointParts();
    [[nodiscard]] base::Result<void> start(const HostPort& wanted);
    /// Ends everything; the program calls nothing any more.
    void close();

    [[nodiscard]] DeviceParts& device() noexcept { return device_; }
    [[nodiscard]] const HostPort& name() const noexcept { return name_; }
    [[nodiscard]] ReceiveQueue& receives() noexcept { return *receives_; }
    [[nodiscard]] const ReceiveQueue& receives() const noexcept { return *receives_; }
    [[nodiscard]] Surroundings& surroundings() noexcept { return surroundings_; }

    // Under the device's lock.
    /// The conversation with a peer, made (and its connection asked for) if there is none. Null:
    /// no such peer.
    [[nodiscard]] Conversation* find(Peer peer) {
        if (peer < by_peer_.size() && book_version_ == book_->version()) [[likely]] {
            Conversation* conversation = by_peer_[peer];
            if (conversation != nullptr && !conversation->is_lost()) [[likely]]
                return conversation;
        }
        return find_slowly(peer);
    }
    /// Null: there is none.
    [[nodiscard]] const Conversation* known(Peer peer) const noexcept {
        return peer < by_peer_.size() ? by_peer_[peer] : nullptr;
    }
    [[nodiscard]] Conversation& reach(const HostPort& name);
    /// A peer may have got its number after it connected: receives from it must know that.
    void follow_book() {
        if (book_version_ != book_->version()) [[unlikely]]
            renumber();
    }
    void end_broken();
    void words_to(ControlListener* listener) noexcept { surroundings_.words = listener; }
    bool cancel_send(const void* context);
    [[nodiscard]] std::size_t under_way() const noexcept;
    /// What is to be known of the connections.
    void add_to(Gauges& gauges) const noexcept;
    // The connector, with the key that it was given.
    /// Is a connection that we asked for still wanted? If so: should it be asked for (again)?
    [[nodiscard]] bool wants(const HostPort& key);
    [[nodiscard]] bool should_ask(const HostPort& key);
    /// The connection that we asked for stands, or does not.
    void connected(const HostPort& key, std::unique_ptr<ViLane> lane);
    void not_connected(const HostPort& key, const base::Error& error);

  private:
    using Connections = std::map<HostPort, std::unique_ptr<Connection>>;

    // The listener. Somebody asks: may it be accepted? If so, accepted() or not_accepted() follows.
    [[nodiscard]] bool may_accept(const HostPort& name);
    void accepted(const HostPort& name, std::unique_ptr<ViLane> lane);
    void not_accepted(const HostPort& name);
    void accept(const ka::IncomingRequest& request, const HostPort& name);

    [[nodiscard]] Conversation* find_slowly(Peer peer);
    [[nodiscard]] HostPort key_of(const HostPort& name) const;
    [[nodiscard]] Peer number_of(const HostPort& name) const;
    void renumber();
    Connection& make(std::unique_ptr<Connection>& place, const HostPort& name);
    void ask(Connection& connection, const HostPort& key);
    void carry(Connection& connection, std::unique_ptr<ViLane> lane);
    void end(Connection& connection, Status status);
    /// The connection is lost: it goes as soon as no message of it waits for its receive.
    void bury(std::unique_ptr<Connection>& connection);
    void bury_lost();
    void destroy_if_empty(std::unique_ptr<Connection>& connection);
    [[nodiscard]] bool drained() const;
    void drain();
    void end_listener();
    void listen();

    DeviceParts& device_;
    HostPort name_;
    std::shared_ptr<AddressBook> book_;
    std::shared_ptr<ReceiveQueue> receives_;
    Surroundings surroundings_;
    base::UniqueFd reservation_;  ///< a socket bound to the port: it is ours on this host
    /// What the book says, by key_of the addresses.
    struct Number {
        HostPort key;
        Peer peer;
        // NOLINTNEXTLINE(modernize-use-nullptr): as HostPort's
        friend auto operator<=>(const Number&, const Number&) = default;
    };
    std::uint64_t book_version_ = 0;
    std::vector<Number> numbers_;
    std::vector<Conversation*> by_peer_;
    Connections connections_;  ///< by key_of their names
    /// Accepted from ourselves, and those that are lost but whose messages may still wait.
    std::vector<std::unique_ptr<Connection>> others_;
    std::atomic<bool> closing_{false};
    std::atomic<bool> listener_ended_{false};
    std::thread listener_;
};

inline Posted DeviceParts::receive(ReceiveQueue& queue, const ReceiveOrder& order) {
    for (EndpointParts* endpoint : endpoints_)
        endpoint->follow_book();
    UnexpectedMessage* const message = queue.find(order);
    if (message != nullptr || order.pieces.size() != 1) [[unlikely]]
        return receive_otherwise(queue, order, message);
    queue.post(order);
    return Posted::UnderWay;
}

}  // namespace via::mvich
