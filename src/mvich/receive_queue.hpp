// SPDX-License-Identifier: BSD-3-Clause
// Matching: receives that wait for messages (posted), and messages that wait for receives
// (unexpected), each in order. Whoever comes second finds the oldest that fits. No I/O, no lock.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mvich/order.hpp"
#include "mvich/packet.hpp"

namespace via::mvich {

struct Vbuf;

/// Who sent a message. The number can become known after messages have come.
struct Source {
    Peer peer = unknown_peer;
};

/// The iovecs of an order: few are kept in place.
class PieceList {
  public:
    PieceList() = default;
    explicit PieceList(std::span<const iovec> pieces) { assign(pieces); }
    void assign(std::span<const iovec> pieces);
    [[nodiscard]] std::span<const iovec> pieces() const noexcept {
        return many_.empty() ? std::span<const iovec>(few_.data(), count_)
                             : std::span<const iovec>(many_);
    }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
    /// Copies into [offset, ...) of the pieces as much as there is room for; the bytes copied.
    std::size_t scatter(std::uint64_t offset, std::span<const std::byte> from) const noexcept;
    /// Copies out of [offset, ...).
    std::size_t gather(std::uint64_t offset, std::span<std::byte> to) const noexcept;

  private:
    std::array<iovec, 2> few_{};
    std::size_t count_ = 0;
    std::uint64_t bytes_ = 0;
    std::vector<iovec> many_;
};

struct PostedReceive {
    PostedReceive* previous = nullptr;
    PostedReceive* next = nullptr;
    Peer from = any_peer;
    Space space = Space::Tagged;
    std::uint32_t flags = 0;
    std::uint64_t tag = 0;
    std::uint64_t ignore = 0;
    PieceList pieces;
    std::uint64_t used = 0;           ///< multi-receive: bytes given to messages
    std::uint64_t least_free = 0;
    std::uint32_t messages = 0;       ///< multi-receive: under way in it
    bool spent = false;               ///< multi-receive: no message is put into it any more
    Cookie cookie;
    Listener* listener = nullptr;
};

struct UnexpectedMessage {
    UnexpectedMessage* previous = nullptr;
    UnexpectedMessage* next = nullptr;
    Source* source = nullptr;
    Space space = Space::Tagged;
    std::uint64_t tag = 0;
    std::uint64_t data = 0;
    bool has_data = false;
    bool wants_delivered = false;
    OrderId id = 0;              ///< the sender's, if it has one
    std::uint64_t total = 0;
    // Eager: the payload lies in a vbuf.
    Vbuf* vbuf = nullptr;
    std::span<const std::byte> payload;
    // Rendezvous.
    Protocol protocol = Protocol::Eager;
    std::uint64_t address = 0;
    std::uint32_t handle = 0;
    void* claimed_by = nullptr;
};

class ReceiveQueue {
  public:
    explicit ReceiveQueue(Listener* listener = nullptr) : listener_(listener) {}
    ~ReceiveQueue();
    ReceiveQueue(const ReceiveQueue&) = delete;
    ReceiveQueue& operator=(const ReceiveQueue&) = delete;

    [[nodiscard]] Listener* listener() const noexcept { return listener_; }

    /// The oldest receive for a message, taken out of the queue. One for many messages stays in it
    /// until it is spent: the caller accounts for the bytes it uses with use_of().
    [[nodiscard]] PostedReceive* match(Space space, std::uint64_t tag, Peer source) noexcept;
    /// Room for a message of `bytes` in a multi-receive that match() returned: the offset. The
    /// receive is taken out of the queue when less than least_free is left behind it.
    [[nodiscard]] std::uint64_t use_of(PostedReceive& receive, std::uint64_t bytes) noexcept;
    /// Waits in the queue from now on.
    PostedReceive& post(const ReceiveOrder& order);
    /// Removes one from the queue that has this context and holds no messages under way.
    [[nodiscard]] PostedReceive* cancel(const void* context) noexcept;
    void destroy(PostedReceive* receive) noexcept;
    /// A receive that is not in the queue.
    [[nodiscard]] PostedReceive* make(const ReceiveOrder& order);

    /// The oldest message for a receive that nobody has claimed; it stays in the queue.
    [[nodiscard]] UnexpectedMessage* find(const ReceiveOrder& order) noexcept;
    [[nodiscard]] UnexpectedMessage* find_claimed(const void* context) noexcept;
    UnexpectedMessage& add(const UnexpectedMessage& message);
    void remove(UnexpectedMessage& message) noexcept;  ///< takes it out and destroys it

    [[nodiscard]] std::size_t posted_count() const noexcept { return posted_count_; }
    [[nodiscard]] std::size_t unexpected_count() const noexcept { return unexpected_count_; }
    /// Calls visit(message) for each message of a source; visit may remove it.
    template <class Visit>
    void visit_unexpected_of(const Source& source, Visit visit) {
        for (auto& list : unexpected_)
            for (UnexpectedMessage* message = list.first; message != nullptr;) {
                UnexpectedMessage* next = message->next;
                if (message->source == &source) visit(*message);
                message = next;
            }
    }
    /// Calls visit(receive) for each receive in the queue; visit may destroy it after it was
    /// taken out.
    [[nodiscard]] PostedReceive* first_posted(Space space) noexcept;
    void take_out(PostedReceive& receive) noexcept;

  private:
    template <class Node>
    struct List {
        Node* first = nullptr;
        Node* last = nullptr;
        void append(Node& node) noexcept;
        void unlink(Node& node) noexcept;
    };

    Listener* listener_;
    std::array<List<PostedReceive>, 2> posted_;
    std::array<List<UnexpectedMessage>, 2> unexpected_;
    std::size_t posted_count_ = 0;
    std::size_t unexpected_count_ = 0;
    // Nodes that were used before; the hot path allocates nothing.
    PostedReceive* free_receives_ = nullptr;
    UnexpectedMessage* free_messages_ = nullptr;
};

}  // namespace via::mvich
