// SPDX-License-Identifier: BSD-3-Clause
// A virtual interface: one end of a connection, with a queue for sends and one for receives.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "via/address.hpp"
#include "via/completion_queue.hpp"

namespace via {

enum class Reliability : VIP_RELIABILITY_LEVEL {
    Unreliable = VIP_SERVICE_UNRELIABLE,
    ReliableDelivery = VIP_SERVICE_RELIABLE_DELIVERY,
    ReliableReception = VIP_SERVICE_RELIABLE_RECEPTION,
};

enum class State {
    Idle = VIP_STATE_IDLE,
    Connected = VIP_STATE_CONNECTED,
    ConnectPending = VIP_STATE_CONNECT_PENDING,
    Error = VIP_STATE_ERROR,
};

// Keeps VIs and memory apart: a VI reaches only memory of its own tag.
class ProtectionTag {
  public:
    // Use Nic::create_tag.
    explicit ProtectionTag(std::shared_ptr<detail::TagHandle> handle) noexcept
        : handle_(std::move(handle)) {}
    ProtectionTag(ProtectionTag&&) noexcept = default;
    ProtectionTag& operator=(ProtectionTag&&) noexcept = default;

    const std::shared_ptr<detail::TagHandle>& shared_handle() const noexcept { return handle_; }

  private:
    std::shared_ptr<detail::TagHandle> handle_;
};

// Reliability and transfer size must be the same at both ends.
struct ViOptions {
    Reliability reliability = Reliability::ReliableDelivery;
    std::size_t max_transfer_size = 0;      // 0: as much as the NIC can
    Rights rights{};                        // of the peer
    CompletionQueue* send_queue = nullptr;  // none: ask the VI itself
    CompletionQueue* receive_queue = nullptr;
    const ProtectionTag* tag = nullptr;  // none: the NIC's first one
    std::uintptr_t cookie = 0;           // comes back in every completion
};

// What one end of a connection was made with.
struct ViAttributes {
    Reliability reliability = Reliability::Unreliable;
    std::size_t max_transfer_size = 0;
    Rights rights{};

    static ViAttributes from(const VIP_VI_ATTRIBUTES& attributes) noexcept {
        return {static_cast<Reliability>(attributes.ReliabilityLevel),
                attributes.MaxTransferSize,
                {attributes.EnableRdmaWrite != VIP_FALSE, attributes.EnableRdmaRead != VIP_FALSE}};
    }
};

class Vi {
  public:
    // Use Nic::create_vi.
    static Expected<Vi> create(std::shared_ptr<detail::TagHandle> tag, const ViOptions& options) {
        const VIP_NIC_ATTRIBUTES& nic = tag->nic->attributes;
        VIP_VI_ATTRIBUTES attributes{};
        attributes.ReliabilityLevel = static_cast<VIP_RELIABILITY_LEVEL>(options.reliability);
        attributes.MaxTransferSize =
            options.max_transfer_size == 0 ? nic.MaxTransferSize : options.max_transfer_size;
        attributes.Ptag = tag->value;
        attributes.EnableRdmaWrite = detail::boolean(options.rights.rdma_write);
        attributes.EnableRdmaRead = detail::boolean(options.rights.rdma_read);

        Vi vi;
        vi.tag_ = std::move(tag);
        if (options.send_queue != nullptr) vi.send_queue_ = options.send_queue->shared_handle();
        if (options.receive_queue != nullptr) {
            vi.receive_queue_ = options.receive_queue->shared_handle();
        }
        vi.cookie_ = options.cookie;
        const VIP_RETURN code = VipCreateVi(
            vi.tag_->nic->value, &attributes, vi.send_queue_ ? vi.send_queue_->value : nullptr,
            vi.receive_queue_ ? vi.receive_queue_->value : nullptr, &vi.handle_);
        if (code != VIP_SUCCESS) return Error::last(code);
        return vi;
    }

    Vi(Vi&& other) noexcept
        : tag_(std::move(other.tag_)),
          send_queue_(std::move(other.send_queue_)),
          receive_queue_(std::move(other.receive_queue_)),
          handle_(std::exchange(other.handle_, nullptr)),
          cookie_(other.cookie_) {}
    Vi& operator=(Vi&& other) noexcept {
        if (this != &other) {
            destroy();
            tag_ = std::move(other.tag_);
            send_queue_ = std::move(other.send_queue_);
            receive_queue_ = std::move(other.receive_queue_);
            handle_ = std::exchange(other.handle_, nullptr);
            cookie_ = other.cookie_;
        }
        return *this;
    }
    // Disconnects; buffers that are still posted return to their pools.
    ~Vi() { destroy(); }

    // ---- Connection ----

    // Asks until somebody who listens at `remote` accepts or rejects, or the time is over.
    Expected<ViAttributes> connect(const Address& remote, std::chrono::milliseconds timeout) {
        const VIP_NIC_ATTRIBUTES& nic = tag_->nic->attributes;
        return connect(Address({nic.LocalNicAddress, nic.NicAddressLen}, ""), remote, timeout);
    }

    // The same with an address of one's own, which the listener gets to see.
    Expected<ViAttributes> connect(const Address& local, const Address& remote,
                                   std::chrono::milliseconds timeout) {
        constexpr std::chrono::milliseconds shortest{1};
        const detail::Deadline deadline(timeout);
        VIP_VI_ATTRIBUTES attributes{};
        for (;;) {
            const auto left = std::max(deadline.left(), shortest);
            const VIP_RETURN code = VipConnectRequest(handle_, local.vip(), remote.vip(),
                                                      detail::milliseconds(left), &attributes);
            if (code == VIP_SUCCESS) return ViAttributes::from(attributes);
            // Nobody is waiting there yet: VIPL has no backlog, so the caller has to ask again.
            if (code != VIP_NO_MATCH || deadline.left() <= shortest) return Error::last(code);
            std::this_thread::sleep_for(shortest);
        }
    }

    // Both ends call this, in any order, with the addresses crosswise.
    Expected<ViAttributes> connect_peer(const Address& local, const Address& remote,
                                        std::chrono::milliseconds timeout) {
        VIP_RETURN code = VipConnectPeerRequest(handle_, local.vip(), remote.vip(),
                                                detail::milliseconds(timeout));
        if (code != VIP_SUCCESS) return Error::last(code);
        VIP_VI_ATTRIBUTES attributes{};
        code = VipConnectPeerWait(handle_, &attributes);
        if (code != VIP_SUCCESS) return Error::last(code);
        return ViAttributes::from(attributes);
    }

    // Posted buffers come back as failed completions; the VI can be connected again.
    Expected<void> disconnect() { return detail::check(VipDisconnect(handle_)); }

    State state() const {
        VIP_VI_STATE state = VIP_STATE_ERROR;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_BOOLEAN sends_empty = VIP_FALSE;
        VIP_BOOLEAN receives_empty = VIP_FALSE;
        VipQueryVi(handle_, &state, &attributes, &sends_empty, &receives_empty);
        return static_cast<State>(state);
    }
    bool connected() const { return state() == State::Connected; }

    Expected<ViAttributes> attributes() const {
        VIP_VI_STATE state = VIP_STATE_ERROR;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_BOOLEAN sends_empty = VIP_FALSE;
        VIP_BOOLEAN receives_empty = VIP_FALSE;
        const VIP_RETURN code =
            VipQueryVi(handle_, &state, &attributes, &sends_empty, &receives_empty);
        if (code != VIP_SUCCESS) return Error::last(code);
        return ViAttributes::from(attributes);
    }

    // ---- Posting ----
    // Each takes the buffer; where it could not be posted it returns to its pool.

    // Sends the buffer's bytes.
    Expected<void> send(Buffer buffer, const SendOptions& options = {}) {
        if (!buffer) return no_buffer();
        const Segment segment = buffer.segment();
        return send(std::move(buffer), segment, options);
    }

    // Sends other memory; the buffer lends its descriptor.
    Expected<void> send(Buffer buffer, Segments data, const SendOptions& options = {}) {
        return post(std::move(buffer), VIP_CONTROL_OP_SENDRECV, nullptr, data, options);
    }

    // Receives into the buffer's whole area.
    Expected<void> post_receive(Buffer buffer) {
        if (!buffer) return no_buffer();
        buffer.resize(buffer.capacity());
        const Segment segment = buffer.segment();
        return post_receive(std::move(buffer), segment);
    }

    Expected<void> post_receive(Buffer buffer, Segments data) {
        return post(std::move(buffer), receive_control, nullptr, data, {});
    }

    // Writes the buffer's bytes into the peer's memory.
    Expected<void> rdma_write(Buffer buffer, const RemoteSegment& to,
                              const SendOptions& options = {}) {
        if (!buffer) return no_buffer();
        const Segment segment = buffer.segment();
        return rdma_write(std::move(buffer), to, segment, options);
    }

    Expected<void> rdma_write(Buffer buffer, const RemoteSegment& to, Segments from,
                              const SendOptions& options = {}) {
        return post(std::move(buffer), VIP_CONTROL_OP_RDMAWRITE, &to, from, options);
    }

    // Reads the peer's memory into the buffer, as many bytes as its size says.
    Expected<void> rdma_read(Buffer buffer, const RemoteSegment& from,
                             const SendOptions& options = {}) {
        if (!buffer) return no_buffer();
        const Segment segment = buffer.segment();
        return rdma_read(std::move(buffer), from, segment, options);
    }

    Expected<void> rdma_read(Buffer buffer, const RemoteSegment& from, Segments to,
                             const SendOptions& options = {}) {
        return post(std::move(buffer), VIP_CONTROL_OP_RDMAREAD, &from, to, options);
    }

    // ---- Completions ----
    // In the order of posting. A queue that has a completion queue is asked there instead.

    std::optional<Completion> poll_send() {
        VIP_DESCRIPTOR* descriptor = nullptr;
        const VIP_RETURN code = VipSendDone(handle_, &descriptor);
        return finished(code, false, descriptor);
    }
    std::optional<Completion> poll_receive() {
        VIP_DESCRIPTOR* descriptor = nullptr;
        const VIP_RETURN code = VipRecvDone(handle_, &descriptor);
        return finished(code, true, descriptor);
    }

    // VIP_TIMEOUT when nothing ended in time, VIP_DESCRIPTOR_ERROR when nothing was posted.
    Expected<Completion> wait_send(std::chrono::milliseconds timeout) {
        VIP_DESCRIPTOR* descriptor = nullptr;
        const VIP_RETURN code = VipSendWait(handle_, detail::milliseconds(timeout), &descriptor);
        return waited(code, false, descriptor, timeout);
    }
    Expected<Completion> wait_receive(std::chrono::milliseconds timeout) {
        VIP_DESCRIPTOR* descriptor = nullptr;
        const VIP_RETURN code = VipRecvWait(handle_, detail::milliseconds(timeout), &descriptor);
        return waited(code, true, descriptor, timeout);
    }

    VIP_VI_HANDLE handle() const noexcept { return handle_; }
    std::uintptr_t cookie() const noexcept { return cookie_; }

  private:
    // Outside the bits of VIP_CONTROL_...: which queue a descriptor goes to.
    static constexpr std::uint32_t receive_control = 0x10000;

    Vi() noexcept = default;

    static Error no_buffer() {
        return {VIP_INVALID_PARAMETER,
                "posting an empty Buffer: it was posted already, or the pool had none left"};
    }

    Expected<void> post(Buffer buffer, std::uint32_t control, const RemoteSegment* remote,
                        Segments data, const SendOptions& options) {
        if (!buffer) return no_buffer();
        const std::size_t count = data.size() + (remote != nullptr ? 1 : 0);
        if (count > Buffer::max_segments) {
            return Error{VIP_INVALID_PARAMETER, "posting " + std::to_string(count) +
                                                    " segments: a Buffer has room for " +
                                                    std::to_string(Buffer::max_segments)};
        }
        detail::Slot& slot = *buffer.slot();
        std::size_t index = 0;
        std::uint64_t length = 0;
        if (remote != nullptr) {
            VIP_ADDRESS_SEGMENT& segment = slot.segment(index++).Remote;
            segment.Data.AddressBits = remote->address;
            segment.Handle = remote->handle;
            segment.Reserved = 0;
        }
        for (const Segment& piece : data) {
            VIP_DATA_SEGMENT& segment = slot.segment(index++).Local;
            segment.Data.AddressBits = reinterpret_cast<std::uintptr_t>(piece.address);
            segment.Handle = piece.handle;
            segment.Length = piece.length;
            length += piece.length;
        }
        if (length > std::numeric_limits<VIP_UINT32>::max()) {
            return Error{VIP_INVALID_PARAMETER,
                         "posting " + std::to_string(length) +
                             " bytes in one operation: the length has 32 bits; split it"};
        }
        if (options.immediate) control |= VIP_CONTROL_IMMEDIATE;
        if (options.fence) control |= VIP_CONTROL_QFENCE;
        VIP_CONTROL_SEGMENT& segment = slot.descriptor.CS;
        segment.SegCount = static_cast<VIP_UINT16>(count);
        segment.Control = static_cast<VIP_UINT16>(control);
        segment.Reserved = 0;
        segment.ImmediateData = options.immediate.value_or(0);
        segment.Length = static_cast<VIP_UINT32>(length);
        segment.Status = 0;
        slot.cookie = cookie_;

        const VIP_MEM_HANDLE memory = slot.pool->descriptors.handle();
        const bool receive = (control & receive_control) != 0;
        const VIP_RETURN code = receive ? VipPostRecv(handle_, &slot.descriptor, memory)
                                        : VipPostSend(handle_, &slot.descriptor, memory);
        if (code != VIP_SUCCESS) return Error::last(code);
        buffer.release();
        return {};
    }

    std::optional<Completion> finished(VIP_RETURN code, bool receive,
                                       VIP_DESCRIPTOR* descriptor) const {
        if ((code != VIP_SUCCESS && code != VIP_DESCRIPTOR_ERROR) || descriptor == nullptr) {
            return std::nullopt;
        }
        return detail::complete(handle_, receive, descriptor);
    }

    Expected<Completion> waited(VIP_RETURN code, bool receive, VIP_DESCRIPTOR* descriptor,
                                std::chrono::milliseconds timeout) const {
        if (auto completion = finished(code, receive, descriptor)) return std::move(*completion);
        const std::string what = receive ? "waiting for a receive: " : "waiting for a send: ";
        if (code == VIP_DESCRIPTOR_ERROR) {
            return Error{code, what + "none is posted, so post one first"};
        }
        if (code == VIP_TIMEOUT) return Error{code, what + "none ended " + detail::within(timeout)};
        return Error::last(code);
    }

    void destroy() noexcept {
        if (handle_ == nullptr) return;
        VipDisconnect(handle_);
        while (poll_send()) {
        }
        while (poll_receive()) {
        }
        VipDestroyVi(std::exchange(handle_, nullptr));
    }

    std::shared_ptr<detail::TagHandle> tag_;
    std::shared_ptr<detail::QueueHandle> send_queue_;
    std::shared_ptr<detail::QueueHandle> receive_queue_;
    VIP_VI_HANDLE handle_ = nullptr;
    std::uintptr_t cookie_ = 0;
};

}  // namespace via
