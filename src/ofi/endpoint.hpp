// SPDX-License-Identifier: BSD-3-Clause
// Endpoints, connectionless (FI_EP_RDM, FI_EP_DGRAM) and connected (FI_EP_MSG), and the handles
// that programs have of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#include "mvich/device.hpp"
#include "ofi/completion_sink.hpp"
#include "ofi/errors.hpp"
#include "ofi/references.hpp"

namespace via::ofi {

class AddressVector;
class Connection;
class Domain;
class Endpoint;
class EventQueue;
class NamedAddresses;
class ScalableEndpoint;
class SharedReceiveContext;
class SharedTransmitContext;
struct Trigger;

/// What a program has in its hands: the endpoint itself or an alias of it. Knows what its
/// operations do when nothing else is said, so that the common calls have nothing to work out.
class EndpointHandle : public fid_ep {
  public:
    EndpointHandle(Endpoint& owner, std::uint64_t transmit_operation_flags,
                   std::uint64_t receive_operation_flags);
    /// Works out what follows from the flags and from what is bound to the endpoint.
    void settle() noexcept;

    [[nodiscard]] mvich::Peer peer(fi_addr_t address) const noexcept {
        return static_cast<mvich::Peer>(address) & peer_mask;
    }
    [[nodiscard]] mvich::Peer source(fi_addr_t address) const noexcept {
        return static_cast<mvich::Peer>(address) | any_source;
    }
    /// For calls with flags of their own.
    [[nodiscard]] std::uint64_t transmit_completion(std::uint64_t flags) const noexcept {
        return FI_COMPLETION & (flags | always_completes_transmit);
    }
    [[nodiscard]] std::uint64_t receive_completion(std::uint64_t flags) const noexcept {
        return FI_COMPLETION & (flags | always_completes_receive);
    }

    /// Is a message too long to be left behind in the call?
    [[nodiscard]] bool too_long(std::uint32_t flags, std::span<const iovec> pieces) const noexcept {
        if ((flags & mvich::order_inject) == 0) return false;
        std::size_t bytes = 0;
        for (const iovec& piece : pieces)
            bytes += piece.iov_len;
        return bytes > inject_limit;
    }

    inline ssize_t send(const mvich::SendOrder& order) noexcept;
    inline ssize_t remote(const mvich::RemoteOrder& order) noexcept;
    inline ssize_t receive(const mvich::ReceiveOrder& order) noexcept;

    /// Until the counter that its context names has reached a value (FI_TRIGGER).
    [[nodiscard]] ssize_t defer(const mvich::SendOrder& order) noexcept;
    // The book's numbers for those of a vector that is not plain, for peer() and source().
    [[nodiscard]] fi_addr_t destination_number(fi_addr_t number) const noexcept;
    [[nodiscard]] fi_addr_t source_number(fi_addr_t number) const noexcept;
    [[nodiscard]] ssize_t defer(const mvich::ReceiveOrder& order) noexcept;
    [[nodiscard]] ssize_t defer(const mvich::RemoteOrder& order) noexcept;
    [[nodiscard]] ssize_t defer(const mvich::SendOrder& order, const Trigger& trigger) noexcept;
    [[nodiscard]] ssize_t defer(const mvich::ReceiveOrder& order, const Trigger& trigger) noexcept;
    [[nodiscard]] ssize_t defer(const mvich::RemoteOrder& order, const Trigger& trigger) noexcept;

    Endpoint* endpoint;
    /// Null until the endpoint is enabled, and where orders need a second look.
    mvich::Endpoint* wire = nullptr;
    std::uint64_t transmit_flags;  ///< as the program gave them
    std::uint64_t receive_flags;
    // From them, for calls without flags: of orders, and FI_COMPLETION or nothing for cookies.
    std::uint32_t send_order = 0;
    std::uint32_t inject_order = mvich::order_inject;
    std::uint32_t remote_inject_order = mvich::order_inject;
    std::uint32_t receive_order = 0;
    std::size_t inject_limit = 0;
    std::uint64_t send_completion = 0;
    std::uint64_t default_receive_completion = 0;
    std::uint64_t always_completes_transmit = FI_COMPLETION;
    std::uint64_t always_completes_receive = FI_COMPLETION;
    mvich::Peer peer_mask = 0xFFFFFFFF;   ///< connected endpoints have one peer, number 0
    mvich::Peer any_source = 0xFFFFFFFF;  ///< 0 if receives heed their source

  private:
    inline ssize_t send_on(mvich::Endpoint& way, const mvich::SendOrder& order) noexcept;
    inline ssize_t remote_on(mvich::Endpoint& way, const mvich::RemoteOrder& order) noexcept;
    // What does not go straight to the wire.
    [[nodiscard]] ssize_t send_otherwise(const mvich::SendOrder& order) noexcept;
    [[nodiscard]] ssize_t receive_otherwise(const mvich::ReceiveOrder& order) noexcept;
    [[nodiscard]] ssize_t remote_otherwise(const mvich::RemoteOrder& order) noexcept;
    [[nodiscard]] int may_defer(const Trigger& trigger) const noexcept;
};

/// Order flags for libfabric's operation flags.
[[nodiscard]] inline std::uint32_t order_flags(std::uint64_t flags) noexcept {
    std::uint32_t order = 0;
    if (flags & FI_INJECT) order |= mvich::order_inject;
    if (flags & FI_DELIVERY_COMPLETE) order |= mvich::order_delivered;
    if (flags & FI_FENCE) order |= mvich::order_fence;
    if (flags & FI_REMOTE_CQ_DATA) order |= mvich::order_has_data;
    if (flags & FI_MULTI_RECV) order |= mvich::order_multi_receive;
    return order;
}

class Endpoint final : public mvich::Listener {
  public:
    static int open(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context);
    static int open_with_flags(fid_domain* domain, fi_info* info, fid_ep** endpoint,
                               std::uint64_t flags, void* context);
    ~Endpoint() override;

    void done(const mvich::Completion& completion) override;
    /// A transmit operation that was done when its call returned.
    void transmitted(const mvich::Cookie& cookie) noexcept {
        if (Counter* const counter = transmit_counter(cookie.flags)) counter->add(1);
        if (!(cookie.flags & FI_COMPLETION)) return;
        if (CompletionQueue* const queue = transmit_queue_.get())
            queue->add([&](CompletionQueue::Entry& entry) {
                entry = {.context = cookie.context, .flags = cookie.flags & ~FI_COMPLETION};
            });
    }
    /// What it hears is not to be taken as it is: there is work among it.
    void look_twice() noexcept { looks_twice_.store(true, std::memory_order_relaxed); }
    [[nodiscard]] bool shares_receives() const noexcept {
        return static_cast<bool>(shared_receives_);
    }
    /// A peek that found something (or not), told as a receive would be.
    void peeked(mvich::Completion completion) {
        completion.source = shown_number(completion.source);
        note(receive_queue_.get(), nullptr, completion);
    }
    /// The vector's number for the book's.
    [[nodiscard]] mvich::Peer shown_number(mvich::Peer peer) const noexcept {
        return peer >= mvich::unknown_peer ? peer : peer >> context_bits_;
    }

    [[nodiscard]] int enable();
    /// Has the vector numbers that are to be looked at before they are used?
    [[nodiscard]] bool has_plain_vector() const noexcept {
        return context_bits_ == 0 && source_ == nullptr;
    }
    [[nodiscard]] bool is_enabled() const noexcept { return wire_ != nullptr; }

    [[nodiscard]] EndpointHandle& handle() noexcept { return handle_; }
    [[nodiscard]] Domain& domain() noexcept { return domain_; }
    [[nodiscard]] mvich::Endpoint* wire() noexcept { return wire_.get(); }
    [[nodiscard]] EventQueue* events() const noexcept { return events_.get(); }
    [[nodiscard]] mvich::AddressBook& book() noexcept { return *book_; }
    [[nodiscard]] Connection* connection() noexcept { return connection_.get(); }
    [[nodiscard]] std::uint32_t address_format() const noexcept { return address_format_; }
    [[nodiscard]] mvich::HostPort name() const noexcept;
    [[nodiscard]] bool set_name(const mvich::HostPort& name) noexcept;
    [[nodiscard]] bool is_datagram() const noexcept { return type_ == FI_EP_DGRAM; }
    [[nodiscard]] std::uint64_t caps() const noexcept { return caps_; }
    [[nodiscard]] bool counts_sends() const noexcept { return static_cast<bool>(sends_); }
    [[nodiscard]] std::size_t least_free() const noexcept { return least_free_; }
    [[nodiscard]] bool selective_transmit() const noexcept { return selective_transmit_; }
    [[nodiscard]] bool selective_receive() const noexcept { return selective_receive_; }

  private:
    Endpoint(Domain& domain, const fi_info& info, void* context);

    [[gnu::noinline]] void tell(const mvich::Completion& completion);
    [[gnu::noinline]] void hear_with_care(mvich::Completion completion);
    [[nodiscard]] Counter* transmit_counter(std::uint64_t flags) const noexcept {
        if (flags & FI_SEND) return sends_.get();
        if (flags & FI_WRITE) return writes_.get();
        return reads_.get();
    }
    [[nodiscard]] int make_wire();
    void take_vector(const AddressVector& vector);
    // Of a context that is closed while the wire goes on.
    void unbind_transmit() noexcept;
    void unbind_receive() noexcept;
    template <class Object>
    void unbind(Bound<Object>& bound) noexcept;
    [[nodiscard]] int bind_queue(CompletionQueue& queue, std::uint64_t flags);
    [[nodiscard]] int bind_counter(Counter& counter, std::uint64_t flags);

    static int close(struct fid* fid);
    static int bind(struct fid* fid, struct fid* what, std::uint64_t flags);
    static int control(struct fid* fid, int command, void* argument);
    static ssize_t cancel(struct fid* fid, void* context);
    static int get_option(struct fid* fid, int level, int option, void* value, std::size_t* bytes);
    static int set_option(struct fid* fid, int level, int option, const void* value,
                          std::size_t bytes);
    static ssize_t receives_left(fid_ep* endpoint);
    static ssize_t transmits_left(fid_ep* endpoint);
    static int make_alias(EndpointHandle& handle, const struct fi_alias& alias);

    friend class EndpointHandle;
    friend class ScalableEndpoint;
    static fi_ops object_operations;
    static fi_ops_ep operations;

    Domain& domain_;
    Reference domain_reference_;
    References aliases_;
    fi_ep_type type_;
    std::uint64_t caps_;
    std::uint32_t address_format_;
    std::size_t transmit_size_;
    std::size_t receive_size_;
    mvich::HostPort name_;  ///< wished for, until enabled
    std::size_t least_free_ = 64;
    bool selective_transmit_ = false;
    bool selective_receive_ = false;
    EndpointHandle handle_;

    std::shared_ptr<mvich::AddressBook> book_;
    std::shared_ptr<NamedAddresses> source_;  ///< of the book, if it is a copy
    unsigned context_bits_ = 0;               ///< of its numbers
    Bound<CompletionQueue> transmit_queue_;
    Bound<CompletionQueue> receive_queue_;
    Bound<Counter> sends_, receives_, reads_, writes_, remote_reads_, remote_writes_;
    Bound<EventQueue> events_;
    Bound<SharedReceiveContext> shared_receives_;
    Bound<SharedTransmitContext> shared_transmits_;

    std::unique_ptr<Connection> connection_;  ///< of FI_EP_MSG
    std::unique_ptr<mvich::Endpoint> wire_;
    /// Is being closed, hears of deferred work, or has numbers that programs do not know.
    std::atomic<bool> looks_twice_{false};
    std::atomic<bool> closing_{false};
};

ssize_t EndpointHandle::send(const mvich::SendOrder& order) noexcept {
    if (wire == nullptr) [[unlikely]]
        return send_otherwise(order);
    return send_on(*wire, order);
}

ssize_t EndpointHandle::send_on(mvich::Endpoint& way, const mvich::SendOrder& order) noexcept {
    if (too_long(order.flags, order.pieces)) [[unlikely]]
        return -FI_EMSGSIZE;
    const mvich::Posted posted = way.send(order);
    if (posted == mvich::Posted::UnderWay) return 0;
    if (posted != mvich::Posted::Done) return refusal(posted);
    endpoint->transmitted(order.cookie);
    return 0;
}

ssize_t EndpointHandle::remote(const mvich::RemoteOrder& order) noexcept {
    if (wire == nullptr) [[unlikely]]
        return remote_otherwise(order);
    return remote_on(*wire, order);
}

ssize_t EndpointHandle::remote_on(mvich::Endpoint& way, const mvich::RemoteOrder& order) noexcept {
    if (too_long(order.flags, order.pieces)) [[unlikely]]
        return -FI_EMSGSIZE;
    const mvich::Posted posted = way.remote(order);
    if (posted == mvich::Posted::UnderWay) return 0;
    if (posted != mvich::Posted::Done) return refusal(posted);
    endpoint->transmitted(order.cookie);
    return 0;
}

ssize_t EndpointHandle::receive(const mvich::ReceiveOrder& order) noexcept {
    if (wire == nullptr) [[unlikely]]
        return receive_otherwise(order);
    return refusal(wire->receive(order));
}

[[nodiscard]] inline EndpointHandle& handle_of(fid_ep* endpoint) noexcept {
    return static_cast<EndpointHandle&>(*endpoint);
}
[[nodiscard]] inline EndpointHandle& handle_of(struct fid* fid) noexcept {
    return static_cast<EndpointHandle&>(*reinterpret_cast<fid_ep*>(fid));
}

}  // namespace via::ofi
