// SPDX-License-Identifier: BSD-3-Clause
// The device of the message layer, as MVICH was a device of MPICH: an open NIC with what its
// endpoints share. Endpoints move messages; a device makes progress for all of its endpoints.
//
// Thread-safe: one lock per device, taken by every call. A thread that has the device for itself
// pays two stores for it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "mvich/address_book.hpp"
#include "mvich/order.hpp"
#include "mvich/window_table.hpp"

namespace via::mvich {

class DeviceParts;    // device.cpp
class EndpointParts;  // endpoint.cpp
class ReceiveQueue;

/// Where messages wait for receives and receives for messages. An endpoint has its own, or several
/// share one.
using SharedReceiveQueue = std::shared_ptr<ReceiveQueue>;

class Device;

/// What other ends hear of an endpoint that listens, besides messages: the words of a connection
/// manager. Called as Listener is.
class ControlListener {
  public:
    virtual ~ControlListener() = default;
    /// A word from an endpoint, which need not be in any address book.
    virtual void word(const HostPort& from, std::span<const std::byte> bytes) = 0;
    /// The connection to this endpoint is gone (also because it was closed), or could not be made.
    virtual void lost(const HostPort& peer, Status status) = 0;
};

/// What becomes of a message that was looked at: nothing; it is set aside for claimed_receive()
/// with the same context, and no other receive takes it; or it is thrown away.
enum class Peek : std::uint8_t { Look, Claim, Discard };

class Endpoint {
  public:
    ~Endpoint();
    [[nodiscard]] const HostPort& name() const noexcept;

    [[nodiscard]] Posted send(const SendOrder& order);
    [[nodiscard]] Posted receive(const ReceiveOrder& order);
    [[nodiscard]] Posted remote(const RemoteOrder& order);

    /// Looks for a message that a receive with this order would take.
    [[nodiscard]] std::optional<Envelope> peek(const ReceiveOrder& order, Peek how);
    [[nodiscard]] Posted claimed_receive(const ReceiveOrder& order);
    [[nodiscard]] Posted claimed_discard(void* context);

    /// A receive (or a send that waits for its connection) with this context ends as Cancelled.
    /// False: there is none that can be cancelled any more.
    bool cancel(void* context);

    /// A word for the ControlListener of another endpoint. At most max_word_bytes.
    static constexpr std::size_t max_word_bytes = 512;
    [[nodiscard]] base::Result<void> say(const HostPort& to, std::span<const std::byte> bytes);
    void listen_for_words(ControlListener* listener);

    /// Orders that are not done: closing would cancel them.
    [[nodiscard]] std::size_t orders_under_way() const;

  private:
    friend class Device;
    explicit Endpoint(std::unique_ptr<EndpointParts> parts);
    std::unique_ptr<EndpointParts> parts_;
};

class Device {
  public:
    /// Opens the NIC that VIA_MPI_DEVICE names ("auto"). One per libfabric domain.
    [[nodiscard]] static base::Result<std::shared_ptr<Device>> open();
    ~Device();

    struct EndpointOptions {
        HostPort name;  ///< port 0: any that is free; host all zero: the host's own address
        std::shared_ptr<AddressBook> book;
        SharedReceiveQueue receives;  ///< null: its own
        Listener* listener = nullptr;
    };
    /// Addresses in use: OutOfResources, with a sentence.
    [[nodiscard]] base::Result<std::unique_ptr<Endpoint>> create_endpoint(
        const EndpointOptions& options);
    /// For several endpoints; receives are posted here, and their completions go to `listener`.
    [[nodiscard]] SharedReceiveQueue create_receive_queue(Listener* listener);
    [[nodiscard]] Posted receive(ReceiveQueue& queue, const ReceiveOrder& order);
    bool cancel(ReceiveQueue& queue, void* context);
    // As those of an endpoint.
    [[nodiscard]] std::optional<Envelope> peek(ReceiveQueue& queue, const ReceiveOrder& order,
                                               Peek how);
    [[nodiscard]] Posted claimed_receive(ReceiveQueue& queue, const ReceiveOrder& order);
    [[nodiscard]] Posted claimed_discard(ReceiveQueue& queue, void* context);

    [[nodiscard]] WindowTable& windows() noexcept;

    /// Moves what can be moved, for all endpoints. True if anything happened. Cheap when nothing
    /// is there; after many empty calls it gives the core away, or sleeps if VIA_PROGRESS says so.
    bool progress();
    /// Sleeps until something may have happened, or the deadline. For a thread that has nothing
    /// else to do; the caller has made progress and found nothing.
    /// Returns at once if tidings() is not `seen` any more.
    void wait(base::Deadline deadline, std::uint64_t seen);
    /// Counts what listeners of this device were told, whichever thread made the progress. Read it
    /// before looking whether there is anything to do, and give it to wait().
    [[nodiscard]] std::uint64_t tidings() const noexcept;
    /// Wakes all threads in wait(). Takes no lock.
    void wake();
    /// From now on the service thread makes progress when the program does not, and calls
    /// Listener::done. So a listener can signal a file descriptor that a program sleeps on. To be
    /// called before each sleep, after which only what listeners were told is looked at: progress
    /// by the program would take the work back.
    void arm();

    /// Inside Listener::done: not the program's thread tells it, but one of the layer's own.
    [[nodiscard]] bool is_told_by_own_thread() const noexcept;

    // Limits, for the provider's attributes.
    struct Limits {
        std::size_t inject_bytes;  ///< largest order_inject
        std::size_t eager_bytes;   ///< inside a host
        std::size_t atomic_bytes;  ///< largest atomic
        std::size_t max_pieces;    ///< iovecs per order
    };
    /// By the settings alone: they hold before any device is open.
    [[nodiscard]] static const Limits& limits() noexcept;

  private:
    explicit Device(std::unique_ptr<DeviceParts> parts);
    std::unique_ptr<DeviceParts> parts_;
};

}  // namespace via::mvich
