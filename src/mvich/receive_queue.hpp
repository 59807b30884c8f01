// SPDX-License-Identifier: BSD-3-Clause
// Matching: receives that wait for messages (posted), and messages that wait for receives
// (unexpected), each in order. Whoever comes second finds the oldest that fits. No I/O, no lock.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/copy_small.hpp"
#include "base/cpu.hpp"
#include "base/device_copy.hpp"
#include "mvich/order.hpp"
#include "mvich/packet.hpp"

namespace via::mvich {

struct Vbuf;

/// Who sent a message. The number can become known after messages have come.
struct Source {
    Peer peer = unknown_peer;
};

/// The iovecs of an order: few are kept in place. One that is used again keeps its memory.
class PieceList {
  public:
    PieceList() = default;
    explicit PieceList(std::span<const iovec> pieces) { assign(pieces); }
    /// Can throw std::bad_alloc, and is empty then.
    void assign(std::span<const iovec> pieces) {
        if (pieces.size() == 1)
            assign_one(pieces[0]);
        else
            assign_other(pieces);
    }
    void assign_one(const iovec& piece) noexcept {
        few_[0].iov_base = base::by_itself(piece.iov_base);
        few_[0].iov_len = bytes_ = base::by_itself(piece.iov_len);
        count_ = 1;
    }
    [[nodiscard]] std::span<const iovec> pieces() const noexcept {
        return {count_ <= few_.size() ? few_.data() : many_.data(), count_};
    }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
    /// Copies into [offset, ...) of the pieces as much as there is room for; the bytes copied.
    std::size_t scatter(std::uint64_t offset, std::span<const std::byte> from) const noexcept {
        if (count_ != 1) return scatter_over(offset, from);
        const std::size_t bytes = in_only_piece(offset, from.size());
        move(static_cast<std::byte*>(few_[0].iov_base) + offset, from.data(), bytes);
        return bytes;
    }
    /// Copies out of [offset, ...).
    std::size_t gather(std::uint64_t offset, std::span<std::byte> to) const noexcept {
        if (count_ != 1) return gather_over(offset, to);
        const std::size_t bytes = in_only_piece(offset, to.size());
        move(to.data(), static_cast<const std::byte*>(few_[0].iov_base) + offset, bytes);
        return bytes;
    }

    /// Into the program's memory or out of it. A peer's writes and reads come when they come, as
    /// from a device.
    static void move(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#if defined(__SANITIZE_THREAD__)
        base::device_copy(to, from, bytes);
#else
        base::copy_small(to, from, bytes);
#endif
    }

  private:
    void assign_other(std::span<const iovec> pieces);
    std::size_t scatter_over(std::uint64_t offset, std::span<const std::byte> from) const noexcept;
    std::size_t gather_over(std::uint64_t offset, std::span<std::byte> to) const noexcept;
    [[nodiscard]] std::size_t in_only_piece(std::uint64_t offset,
                                            std::size_t wanted) const noexcept {
        const std::size_t room = few_[0].iov_len;
        return offset >= room ? 0 : std::min<std::size_t>(room - offset, wanted);
    }

    std::array<iovec, 2> few_{};
    std::size_t count_ = 0;
    std::uint64_t bytes_ = 0;
    std::vector<iovec> many_;  // more than fit into few_
};

/// What most need lies in two cache lines.
struct alignas(base::cache_line) PostedReceive {
    PostedReceive* previous = nullptr;
    PostedReceive* next = nullptr;
    Peer from = any_peer;  ///< the number that its messages have
    Space space = Space::Tagged;
    std::uint32_t flags = 0;
    Peer asked_from = any_peer;  ///< the number that the program said
    std::uint64_t tag = 0;
    std::uint64_t ignore = 0;
    Cookie cookie;
    Listener* listener = nullptr;
    PieceList pieces;
    // Of a multi-receive; of others they mean nothing.
    std::uint64_t used = 0;  ///< bytes given to messages
    std::uint64_t least_free = 0;
    std::uint32_t messages = 0;  ///< under way in it
    bool spent = false;          ///< no message is put into it any more
    [[nodiscard]] bool is_multi() const noexcept { return (flags & order_multi_receive) != 0; }
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
    OrderId id = 0;  ///< the sender's, if it has one
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
    ReceiveQueue(const ReceiveQueue&) = delete;
    ReceiveQueue& operator=(const ReceiveQueue&) = delete;

    [[nodiscard]] Listener* listener() const noexcept { return listener_; }

    /// The oldest receive for a message, taken out of the queue. One for many messages stays in it
    /// until it is spent: the caller accounts for the bytes it uses with use_of().
    [[nodiscard]] PostedReceive* match(Space space, std::uint64_t tag, Peer source) noexcept {
        PostedReceive* receive = posted(space).first;
        while (receive != nullptr && !wants(*receive, tag, source))
            receive = receive->next;
        if (receive != nullptr && !receive->is_multi()) take_out(*receive);
        return receive;
    }
    /// Room for a message of `bytes` in a receive that match() or make() returned: the offset,
    /// which is 0 unless it is a multi-receive. That has one message more under way from now on. A
    /// message that is longer than what is left gets that. The receive is spent, and taken out of
    /// the queue, when less than least_free is left behind the message, or nothing.
    [[nodiscard]] std::uint64_t use_of(PostedReceive& receive, std::uint64_t bytes) noexcept {
        // Most are for one message: all of it, and not in the queue.
        return receive.is_multi() ? use_of_multi(receive, bytes) : 0;
    }
    /// Waits in the queue from now on.
    PostedReceive& post(const ReceiveOrder& order) {
        PostedReceive* receive = make(order);
        posted(receive->space).append(*receive);
        ++posted_count_;
        return *receive;
    }
    /// Removes the oldest from the queue that has this context and holds no messages under way.
    [[nodiscard]] PostedReceive* cancel(const void* context) noexcept;
    /// One that is not in the queue.
    void destroy(PostedReceive* receive) noexcept { receives_.give(*receive); }
    /// A receive that is not in the queue. It lives until destroy(), or as long as the queue.
    [[nodiscard]] PostedReceive* make(const ReceiveOrder& order) {
        PostedReceive& receive = receives_.take();
        if (order.pieces.size() == 1) [[likely]]
            receive.pieces.assign_one(order.pieces[0]);
        else
            assign_or_give_back(receive, order);
        receive.from = number_of(order.from);
        receive.asked_from = order.from;
        receive.space = order.space;
        receive.flags = order.flags;
        receive.tag = order.tag;
        receive.ignore = order.ignore;
        receive.cookie = {base::by_itself(order.cookie.context),
                          base::by_itself(order.cookie.flags)};
        receive.listener = listener_;
        if (receive.is_multi()) [[unlikely]] {
            receive.used = 0;
            receive.least_free = order.least_free;
            receive.messages = 0;
            receive.spent = false;
        }
        return &receive;
    }

    /// The oldest message for a receive that nobody has claimed; it stays in the queue.
    [[nodiscard]] UnexpectedMessage* find(const ReceiveOrder& order) noexcept {
        const Peer from = number_of(order.from);
        UnexpectedMessage* message = unexpected(order.space).first;
        while (message != nullptr && !fits(*message, order, from))
            message = message->next;
        return message;
    }
    /// A further number of a peer. Its messages have its lowest.
    struct Twin {
        Peer peer;
        Peer lowest;
    };
    /// All there are, by number, for what is posted already as well.
    void know(std::vector<Twin> twins) noexcept;
    /// The oldest that was claimed with this context, which is not null.
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
    /// The oldest of a space or null, for those who walk through the queue or empty it.
    [[nodiscard]] PostedReceive* first_posted(Space space) noexcept { return posted(space).first; }
    /// One that is in the queue.
    void take_out(PostedReceive& receive) noexcept {
        posted(receive.space).unlink(receive);
        --posted_count_;
    }

  private:
    [[nodiscard]] std::uint64_t use_of_multi(PostedReceive& receive, std::uint64_t bytes) noexcept;
    /// Of any number of pieces. Can throw std::bad_alloc.
    [[gnu::noinline]] void assign_or_give_back(PostedReceive& receive, const ReceiveOrder& order);

    template <class Node>
    struct List {
        Node* first = nullptr;
        Node* last = nullptr;
        void append(Node& node) noexcept {
            node.previous = last;
            node.next = nullptr;
            (last != nullptr ? last->next : first) = &node;
            last = &node;
        }
        void unlink(Node& node) noexcept {
            (node.previous != nullptr ? node.previous->next : first) = node.next;
            (node.next != nullptr ? node.next->previous : last) = node.previous;
        }
    };

    /// Nodes that are used again and again, so that the hot path allocates nothing.
    template <class Node>
    class Pool {
      public:
        [[nodiscard]] Node& take() {
            if (free_ == nullptr) [[unlikely]]
                grow();
            Node& node = *free_;
            free_ = node.next;
            return node;
        }
        void give(Node& node) noexcept {
            node.next = free_;
            free_ = &node;
        }

      private:
        static constexpr std::size_t nodes_per_slab = 32;
        [[gnu::noinline]] void grow() {
            slabs_.push_back(std::make_unique<Node[]>(nodes_per_slab));
            for (std::size_t i = nodes_per_slab; i-- != 0;)
                give(slabs_.back()[i]);
        }
        std::vector<std::unique_ptr<Node[]>> slabs_;
        Node* free_ = nullptr;
    };

    [[nodiscard]] static bool tags_agree(std::uint64_t one, std::uint64_t other,
                                         std::uint64_t ignore) noexcept {
        return ((one ^ other) & ~ignore) == 0;
    }
    [[nodiscard]] static bool wants(const PostedReceive& receive, std::uint64_t tag,
                                    Peer source) noexcept {
        return tags_agree(receive.tag, tag, receive.ignore) &&
               (receive.from == source || receive.from == any_peer);
    }
    [[nodiscard]] static bool fits(const UnexpectedMessage& message, const ReceiveOrder& order,
                                   Peer from) noexcept {
        return tags_agree(message.tag, order.tag, order.ignore) && message.claimed_by == nullptr &&
               (from == any_peer || from == message.source->peer);
    }
    [[nodiscard]] Peer number_of(Peer peer) const noexcept {
        return twins_.empty() ? peer : number_of_twin(peer);
    }
    [[nodiscard]] Peer number_of_twin(Peer peer) const noexcept;
    [[nodiscard]] List<PostedReceive>& posted(Space space) noexcept {
        return posted_[static_cast<std::size_t>(space)];
    }
    [[nodiscard]] List<UnexpectedMessage>& unexpected(Space space) noexcept {
        return unexpected_[static_cast<std::size_t>(space)];
    }

    Listener* listener_;
    std::array<List<PostedReceive>, 2> posted_;
    std::array<List<UnexpectedMessage>, 2> unexpected_;
    std::size_t posted_count_ = 0;
    std::size_t unexpected_count_ = 0;
    std::vector<Twin> twins_;
    Pool<PostedReceive> receives_;
    Pool<UnexpectedMessage> messages_;
};

}  // namespace via::mvich
