// SPDX-License-Identifier: BSD-3-Clause
// What a program orders from the message layer, and what it hears when an order is done. Plain
// data: the provider above and the state machines below speak in these.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace via::mvich {

/// A peer by its number in the endpoint's address book.
using Peer = std::uint32_t;
inline constexpr Peer any_peer = 0xFFFFFFFF;
/// The source of a message whose sender is not in the address book.
inline constexpr Peer unknown_peer = 0xFFFFFFFE;

/// Messages of one space are matched only with receives of the same.
enum class Space : std::uint8_t {
    Message,  ///< without tag
    Tagged,
};

/// What a peer may do with a window.
inline constexpr std::uint32_t window_read = 1;
inline constexpr std::uint32_t window_write = 2;

enum class Status : std::uint8_t {
    Ok,
    Truncated,    ///< the message was longer than the receive
    Cancelled,    ///< by cancel(), or because its endpoint was closed
    PeerLost,     ///< the connection is gone: peer dead, unreachable or out of order
    Refused,      ///< the peer has no such window, range or right
    NoMessage,    ///< a peek found nothing
    Unsupported,  ///< the peer does not know this atomic operation
};

/// What became of a call that orders something.
enum class Posted : std::uint8_t {
    Done,         ///< it is done already, and nothing will be heard of it
    UnderWay,     ///< Listener::done follows
    Again,        ///< nothing has happened: make progress, then try again
    UnknownPeer,  ///< nothing has happened: no such peer in the address book
    Invalid,      ///< nothing has happened: the order makes no sense
};

// Flags of orders.
inline constexpr std::uint32_t order_has_data = 1;   ///< remote data travel with it
inline constexpr std::uint32_t order_inject = 2;     ///< the buffers are free when the call returns
inline constexpr std::uint32_t order_delivered = 4;  ///< done only when the peer has it
inline constexpr std::uint32_t order_fence = 8;      ///< after all earlier orders to this peer
inline constexpr std::uint32_t order_matched = 32;   ///< done only when a receive has taken it
/// Of receives: a buffer for many messages. Messages of the space go into it one behind the other
/// until fewer than `least_free` bytes are left.
inline constexpr std::uint32_t order_multi_receive = 16;

/// Said in each completion as it was in the order; the layer gives no meaning to them.
struct Cookie {
    void* context = nullptr;
    std::uint64_t flags = 0;
};

struct SendOrder {
    Peer to = any_peer;
    Space space = Space::Tagged;
    std::uint32_t flags = 0;
    std::uint64_t tag = 0;
    std::uint64_t data = 0;
    std::span<const iovec> pieces;  ///< read during the call; what it points to until done
    Cookie cookie;
};

struct ReceiveOrder {
    Peer from = any_peer;
    Space space = Space::Tagged;
    std::uint32_t flags = 0;
    std::uint64_t tag = 0;
    std::uint64_t ignore = 0;  ///< tag bits that do not count
    std::span<const iovec> pieces;
    std::size_t least_free = 0;
    Cookie cookie;
};

/// Remote memory: an offset (or address, as the window's owner chose) in a window with this key.
struct RemotePiece {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t key = 0;
};

enum class Remote : std::uint8_t { Write, Read, Atomic, FetchAtomic, CompareAtomic };

/// Limit of `remote` in one order.
inline constexpr std::size_t max_remote_pieces = 4;

struct RemoteOrder {
    Peer to = any_peer;
    Remote what = Remote::Write;
    std::uint32_t flags = 0;
    std::uint64_t data = 0;
    std::span<const iovec> pieces;        ///< source of writes and operands, target of reads
    std::span<const iovec> results;       ///< of fetching atomics
    std::span<const iovec> compares;      ///< of CompareAtomic
    std::span<const RemotePiece> remote;  ///< as many bytes as `pieces` (reads, writes)
    std::uint8_t operation = 0;           ///< AtomicOperation
    std::uint8_t datatype = 0;            ///< AtomicType
    Cookie cookie;
};

enum class Happened : std::uint8_t {
    Sent,
    Received,
    Wrote,
    Read,
    AtomicDone,
    MultiReceiveSpent,  ///< the buffer of a multi-receive is the program's again
    // At the target, without a cookie (context null, flags 0):
    RemoteWrite,  ///< a peer wrote into a window; told of every one, with or without data
    RemoteRead,
};

struct Completion {
    Happened what = Happened::Sent;
    Status status = Status::Ok;
    bool has_data = false;
    /// Received and Received-by-multi-receive: this was the last message for the buffer.
    bool last_of_buffer = false;
    Space space = Space::Tagged;
    Peer source = unknown_peer;
    std::uint64_t length = 0;    ///< bytes received, or of the window touched
    std::uint64_t overflow = 0;  ///< bytes that did not fit
    std::uint64_t data = 0;
    std::uint64_t tag = 0;
    std::uint64_t key = 0;   ///< RemoteWrite, RemoteRead: of the window
    void* buffer = nullptr;  ///< multi-receive: where the message begins
    Cookie cookie;
};

/// A message that waits for its receive, as a peek shows it.
struct Envelope {
    Peer source = unknown_peer;
    std::uint64_t tag = 0;
    std::uint64_t length = 0;
    std::uint64_t data = 0;
    bool has_data = false;
};

/// Who is told. Called by whatever thread makes progress, with the device's lock held: it notes
/// what it is told and calls nothing of this layer.
class Listener {
  public:
    virtual ~Listener() = default;
    virtual void done(const Completion& completion) = 0;
};

}  // namespace via::mvich
