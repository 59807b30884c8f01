// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/vi_lane.hpp"

#include <cstring>
#include <new>
#include <utility>

#include "base/log.hpp"
#include "mvich/conversation_hot_path.hpp"
#include "mvich/device_parts.hpp"
#include "ua/hot_path.hpp"
#include "ua/tables.hpp"

namespace via::mvich {
namespace {

/// Vbufs that are not posted for what comes: without any, nothing could be sent, and what is sent
/// brings the posted ones back.
constexpr std::size_t vbufs_for_sending = MessageSettings::vbufs_for_sending;
/// What an RDMA's vbuf keeps for its completion.
struct RdmaNote {
    OrderId token;
};

Lane::Outcome outcome_of(ua::PacketOutcome outcome) noexcept {
    if (outcome == ua::PacketOutcome::Sent) [[likely]]
        return Lane::Outcome::Done;
    return outcome == ua::PacketOutcome::NoRoom ? Lane::Outcome::NoRoom : Lane::Outcome::Gone;
}

}  // namespace

ViLane::~ViLane() {
    if (vi_ == nullptr) return;
    if (auto destroyed = device_.nic().destroy_vi(*vi_, handle_); !destroyed)
        base::log(base::LogLevel::Warning,
                  "a VI of a closed connection stays: " + destroyed.error().sentence);
}

base::Result<void> ViLane::create() {
    ua::Nic& nic = device_.nic();
    ka::EndpointAttributes attributes;
    attributes.max_transfer_bytes = nic.device().attributes().max_transfer_bytes;
    attributes.reliability = na::reliable_delivery;
    attributes.rights = ka::right_rdma_read | ka::right_rdma_write;
    attributes.tag = device_.tag();
    auto made = nic.create_vi(attributes, &device_.cq(), &device_.cq(), this);
    if (!made) return std::move(made).error();
    handle_ = made.value();
    vi_ = ua::vi_table().find(reinterpret_cast<const void*>(handle_));
    // The peer's Hello may come before the connection is known here.
    const DeviceParts::SeldomGuard guard(device_);
    device_.add(*this);
    const std::uint32_t first_vbufs =
        CreditAccount::noop_vbufs(device_.settings().credit_preserve) + 1;
    for (std::uint32_t i = 0; i < first_vbufs; ++i) {
        Vbuf* vbuf = device_.vbufs().room() > vbufs_for_sending ? device_.vbufs().take() : nullptr;
        if (vbuf == nullptr || !post_receive(vbuf))
            return base::Result<void>(base::Code::OutOfResources,
                                      "no vbufs for a new connection: more VIA_MPI_VBUF_REGIONS, "
                                      "or more memory, would help");
    }
    return {};
}

void ViLane::carry(Conversation& conversation) {
    const bool in_place = vi_->shows_frames(handle_);
    const MessageSettings& settings = device_.settings();
    abilities_ = settings.abilities(in_place, in_place && vi_->reaches_peer_memory(handle_),
                                    in_place ? vi_->longest_packet(handle_) : 0,
                                    device_.nic().device().attributes().max_transfer_bytes);
    abilities_.next_frame = vi_->next_frame(handle_);
    abilities_.peer_on_core = &vi_->peer_on_core();
    std::uint32_t window = settings.first_window(in_place);
    // Inside a host nothing is posted: the window only bounds what may wait here unasked for.
    if (!in_place) window = post_receives(window);
    conversation_ = &conversation;
    connected_ = true;
    device_.carries(*this, in_place);
    if (window == 0) {
        broken();
        return;
    }
    conversation.open(*this, window);
    for (Vbuf* vbuf : std::exchange(early_, {}))
        arrived(vbuf);
}

std::uint32_t ViLane::widen(std::uint32_t window) {
    if (abilities_.in_place || closed_) return 0;
    const std::uint32_t wanted = device_.settings().window(false);
    if (window >= wanted) return 0;
    const std::uint32_t more = wanted - window;
    if (device_.vbufs().in_use() + more > MessageSettings::vbufs_of_wide_windows) return 0;
    return post_receives(more);
}

std::uint32_t ViLane::post_receives(std::uint32_t vbufs) {
    std::uint32_t posted = 0;
    for (; posted < vbufs && device_.vbufs().room() > vbufs_for_sending; ++posted) {
        Vbuf* vbuf = device_.vbufs().take();
        if (vbuf == nullptr || !post_receive(vbuf)) break;
    }
    return posted;
}

bool ViLane::post_receive(Vbuf* vbuf) {
    VIP_DESCRIPTOR& descriptor = vbuf->descriptor;
    vbuf->owner = this;
    descriptor.CS = {};
    descriptor.CS.SegCount = 1;
    descriptor.CS.Length = device_.settings().vbuf_bytes;
    descriptor.DS[0].Local.Data.Address = vbuf->packet;
    descriptor.DS[0].Local.Handle = vbuf->handle;
    descriptor.DS[0].Local.Length = device_.settings().vbuf_bytes;
    if (vi_->post_receive(handle_, &descriptor, vbuf->handle) != ua::PostOutcome::Success) {
        device_.vbufs().give(vbuf);
        return false;
    }
    ++receives_posted_;
    return true;
}

Lane::Outcome ViLane::send(std::span<const iovec> pieces, std::uint32_t bytes) {
    if (abilities_.in_place) [[likely]]
        return outcome_of(vi_->send_packet(handle_, pieces, bytes));
    if (broken_.load(std::memory_order_relaxed)) return Outcome::Gone;
    Vbuf* vbuf = device_.vbufs().take();
    if (vbuf == nullptr) return Outcome::NoRoom;
    vbuf->owner = this;
    std::byte* to = vbuf->packet;
    for (const iovec& piece : pieces) {
        std::memcpy(to, piece.iov_base, piece.iov_len);
        to += piece.iov_len;
    }
    VIP_DESCRIPTOR& descriptor = vbuf->descriptor;
    descriptor.CS = {};
    descriptor.CS.SegCount = 1;
    descriptor.CS.Length = bytes;
    descriptor.DS[0].Local.Data.Address = vbuf->packet;
    descriptor.DS[0].Local.Handle = vbuf->handle;
    descriptor.DS[0].Local.Length = bytes;
    if (vi_->post_send(handle_, &descriptor, vbuf->handle) != ua::PostOutcome::Success) {
        device_.vbufs().give(vbuf);
        return Outcome::Gone;
    }
    ++sends_under_way_;
    return Outcome::Done;
}

Lane::Outcome ViLane::send_headed(const na::HeadedMessage& message) {
    return outcome_of(vi_->send_headed(handle_, message));
}

Lane::Outcome ViLane::post_rdma(const RdmaOrder& order, std::uint16_t operation) {
    if (broken_.load(std::memory_order_relaxed)) return Outcome::Gone;
    Vbuf* vbuf = device_.vbufs().take();
    if (vbuf == nullptr) return Outcome::NoRoom;
    vbuf->owner = this;
    const RdmaNote note{order.token};
    std::memcpy(vbuf->packet, &note, sizeof note);
    VIP_DESCRIPTOR& descriptor = vbuf->descriptor;
    descriptor.CS = {};
    descriptor.CS.SegCount = 2;
    descriptor.CS.Control = operation;
    descriptor.CS.Length = static_cast<VIP_UINT32>(order.bytes);
    descriptor.DS[0].Remote.Data.AddressBits = order.remote;
    descriptor.DS[0].Remote.Handle = order.remote_handle;
    descriptor.DS[1].Local.Data.Address = order.local;
    descriptor.DS[1].Local.Handle = order.local_handle;
    descriptor.DS[1].Local.Length = static_cast<VIP_UINT32>(order.bytes);
    if (vi_->post_send(handle_, &descriptor, vbuf->handle) != ua::PostOutcome::Success) {
        device_.vbufs().give(vbuf);
        return Outcome::Gone;
    }
    ++sends_under_way_;
    return Outcome::Done;
}

Lane::Outcome ViLane::read(const RdmaOrder& order) {
    return post_rdma(order, VIP_CONTROL_OP_RDMAREAD);
}

Lane::Outcome ViLane::write(const RdmaOrder& order) {
    return post_rdma(order, VIP_CONTROL_OP_RDMAWRITE);
}

void ViLane::recycle(Vbuf* vbuf) noexcept {
    if (closed_ || broken_.load(std::memory_order_relaxed)) {
        device_.vbufs().give(vbuf);
        return;
    }
    [[maybe_unused]] const bool posted = post_receive(vbuf);
}

void ViLane::completed(ua::Queue queue) {
    VIP_DESCRIPTOR* descriptor = nullptr;
    const ua::DoneOutcome outcome = vi_->done(handle_, queue, descriptor);
    if (outcome != ua::DoneOutcome::Success && outcome != ua::DoneOutcome::DescriptorError) return;
    if (descriptor == nullptr) return;
    // The descriptor is the vbuf's first member.
    auto* vbuf = reinterpret_cast<Vbuf*>(descriptor);
    const bool good = outcome == ua::DoneOutcome::Success;
    if (queue == ua::Queue::Receive) {
        --receives_posted_;
        if (!good || closed_) {
            device_.vbufs().give(vbuf);
            return;
        }
        vbuf->bytes = descriptor->CS.Length;
        arrived(vbuf);
        return;
    }
    --sends_under_way_;
    if ((descriptor->CS.Control & VIP_CONTROL_OP_MASK) == VIP_CONTROL_OP_SENDRECV) {
        device_.vbufs().give(vbuf);
        return;
    }
    RdmaNote note;
    std::memcpy(&note, vbuf->packet, sizeof note);
    device_.vbufs().give(vbuf);
    if (conversation_ != nullptr && !closed_) {
        conversation_->rdma_done(note.token, good);
        device_.touched(*this);
    }
}

/// What the sink says of a frame: taken, or to be shown again. What a packet without memory was
/// about is half done: its connection ends, nothing else.
template <class Hear>
inline bool ViLane::take(Hear hear) noexcept {
    if (conversation_ == nullptr || device_.has_enough(conversation_->receives())) [[unlikely]]
        return false;
    Conversation::Arrival arrival;
    try {
        arrival = hear(*conversation_);
    } catch (const std::bad_alloc&) {
        arrival = Conversation::Arrival::Broken;
    }
    if (arrival == Conversation::Arrival::Passed && !conversation_->credits().noop_due())
        [[likely]] {
        device_.noticed();
        return true;
    }
    if (arrival == Conversation::Arrival::NotNow) [[unlikely]]
        return false;
    if (arrival == Conversation::Arrival::Broken) [[unlikely]]
        violated();
    device_.touched(*this);
    return true;
}

Conversation::Arrival ViLane::hear(Vbuf* vbuf) noexcept {
    try {
        return conversation_->packet({vbuf->packet, vbuf->bytes}, vbuf);
    } catch (const std::bad_alloc&) {
        return Conversation::Arrival::Broken;
    }
}

void ViLane::arrived(Vbuf* vbuf) {
    if (conversation_ == nullptr) {
        early_.push_back(vbuf);
        return;
    }
    switch (hear(vbuf)) {
        case Conversation::Arrival::Passed:
        case Conversation::Arrival::Taken:
            recycle(vbuf);
            break;
        case Conversation::Arrival::Kept:
            break;
        case Conversation::Arrival::NotNow:  // a packet in a vbuf can always be kept
        case Conversation::Arrival::Broken:
            device_.vbufs().give(vbuf);
            violated();
            break;
    }
    device_.touched(*this);
}

bool ViLane::frame(const na::FrameView& view) {
    return take([&](Conversation& conversation) {
        const std::span bytes(view.data, view.length);
        if (view.head != nullptr) [[likely]]
            return conversation.headed_packet(view.immediate, view.head, view.head_bytes, bytes);
        return conversation.packet(bytes, nullptr);
    });
}

bool ViLane::short_frame(std::uint32_t note, std::uint64_t head, const std::byte* payload,
                         std::uint32_t bytes) {
    return take([&](Conversation& conversation) {
        return conversation.headed_packet(note, &head, sizeof head, {payload, bytes});
    });
}

/// The peer does not keep to the protocol.
void ViLane::violated() noexcept {
    base::log(base::LogLevel::Error,
              "a peer does not keep to the protocol of messages; its connection is closed");
    broken();
}

bool ViLane::serve() {
    return device_.serve();
}

bool ViLane::unfinished() const noexcept {
    return device_.has_unsent();
}

void ViLane::broken() noexcept {
    broken_.store(true, std::memory_order_release);
    device_.note_broken();
}

void ViLane::close() {
    if (closed_) return;
    closed_ = true;
    conversation_ = nullptr;
    device_.forget(*this);
    if (vi_ == nullptr) return;
    [[maybe_unused]] const bool was = vi_->disconnect(handle_);
    // Everything that was posted comes back, if only as flushed.
    for (const ua::Queue queue : {ua::Queue::Send, ua::Queue::Receive}) {
        for (;;) {
            VIP_DESCRIPTOR* descriptor = nullptr;
            const ua::DoneOutcome outcome = vi_->done(handle_, queue, descriptor);
            if (descriptor == nullptr || outcome == ua::DoneOutcome::NotDone) break;
            device_.vbufs().give(reinterpret_cast<Vbuf*>(descriptor));
        }
    }
    for (Vbuf* vbuf : std::exchange(early_, {}))
        device_.vbufs().give(vbuf);
}

}  // namespace via::mvich
