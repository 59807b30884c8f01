// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/raw/xdp_port.hpp"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "na/net/raw/xdp_interface.hpp"

namespace via::na::net {
namespace {

constexpr std::uint32_t batch = 16;
constexpr std::uint32_t mtu_sends = 256;

class XdpPort final : public Port {
  public:
    XdpPort(std::shared_ptr<XdpInterface> interface, std::unique_ptr<XdpInterface::Socket> socket,
            const LocalInterface& where, std::uint32_t own_id, const RawAddress& peer)
        : interface_(std::move(interface)),
          socket_(std::move(socket)),
          where_(where),
          own_id_(own_id),
          peer_(peer),
          descriptor_(interface_->library().socket_descriptor(socket_->handle)) {
        max_packet_ = limit(where.entry.mtu);
    }
    ~XdpPort() override { interface_->remove_socket(std::move(socket_)); }
    XdpPort(const XdpPort&) = delete;
    XdpPort& operator=(const XdpPort&) = delete;

    [[nodiscard]] SendOutcome send(std::span<const iovec> parts,
                                   std::uint32_t packet_bytes) override;
    [[nodiscard]] bool receive(PacketTaker& taker) override;
    [[nodiscard]] int descriptor() const noexcept override { return descriptor_; }
    [[nodiscard]] std::uint32_t max_packet_bytes() const noexcept override { return max_packet_; }
    [[nodiscard]] std::uint32_t max_train_bytes() const noexcept override { return max_packet_; }

  private:
    [[nodiscard]] std::uint32_t limit(std::uint32_t mtu) const noexcept {
        return static_cast<std::uint32_t>(std::min<std::size_t>(
            mtu - raw_overhead_bytes,
            interface_->frame_bytes() - XdpInterface::headroom - raw_header_bytes));
    }
    void read_mtu() noexcept;
    [[nodiscard]] SendOutcome tell_kernel(std::uint64_t frame);
    [[nodiscard]] bool take_back(std::uint64_t frame) noexcept;

    std::shared_ptr<XdpInterface> interface_;
    std::unique_ptr<XdpInterface::Socket> socket_;
    LocalInterface where_;
    std::uint32_t own_id_;
    RawAddress peer_;
    int descriptor_;
    std::uint32_t max_packet_ = 0;
    std::uint32_t since_mtu_ = 0;
};

void XdpPort::read_mtu() noexcept {
    since_mtu_ = 0;
    const std::uint32_t mtu = interface_->mtu();
    if (mtu > raw_overhead_bytes) max_packet_ = limit(mtu);
}

SendOutcome XdpPort::send(std::span<const iovec> parts, std::uint32_t packet_bytes) {
    std::size_t bytes = 0;
    for (const iovec& part : parts)
        bytes += part.iov_len;
    // The kernel does not check the length of what AF_XDP sends.
    if (bytes > max_packet_ || ++since_mtu_ == mtu_sends) read_mtu();
    if (bytes > max_packet_ || bytes > packet_bytes) return SendOutcome::TooLong;
    const auto frame = interface_->take_frame();
    if (!frame.has_value()) return SendOutcome::Later;
    std::uint32_t place = 0;
    if (xsk_ring_prod__reserve(&socket_->sent, 1, &place) != 1) {
        interface_->give_back(*frame);
        return SendOutcome::Later;
    }
    std::byte* to = interface_->memory(*frame);
    write_raw_header(to, peer_, where_.entry.mac);
    write_raw_length(to, bytes);
    gather(parts, to + raw_header_bytes);
    *xsk_ring_prod__tx_desc(&socket_->sent, place) = {
        *frame, static_cast<std::uint32_t>(raw_header_bytes + bytes), 0};
    xsk_ring_prod__submit(&socket_->sent, 1);
    if (xsk_ring_prod__needs_wakeup(&socket_->sent) == 0) return SendOutcome::Sent;
    return tell_kernel(*frame);
}

SendOutcome XdpPort::tell_kernel(std::uint64_t frame) {
    for (;;) {
        if (::sendto(descriptor_, nullptr, 0, MSG_DONTWAIT, nullptr, 0) >= 0) [[likely]]
            return SendOutcome::Sent;
        switch (errno) {
            case EINTR:
                continue;
            case EBUSY:  // it was taken, and dropped before the wire
                (void)take_back(frame);
                return SendOutcome::Later;
            case EAGAIN:
            case ENOBUFS:
            case ENOMEM:
                return take_back(frame) ? SendOutcome::Later : SendOutcome::Sent;
            default:
                (void)take_back(frame);
                return SendOutcome::LinkDown;
        }
    }
}

/// What the kernel has not taken must not stay in the ring: it would go out after the link is up
/// again, long after its time. Where the kernel only looks when told to, nobody is looking now.
bool XdpPort::take_back(std::uint64_t frame) noexcept {
    if (!interface_->copies()) return false;
    xsk_ring_prod& ring = socket_->sent;
    const std::uint32_t consumed = __atomic_load_n(ring.consumer, __ATOMIC_ACQUIRE);
    if (consumed == *ring.producer) return false;
    __atomic_store_n(ring.producer, *ring.producer - 1, __ATOMIC_RELEASE);
    --ring.cached_prod;
    interface_->give_back(frame);
    return true;
}

bool XdpPort::receive(PacketTaker& taker) {
    std::uint32_t place = 0;
    const std::uint32_t count = xsk_ring_cons__peek(&socket_->received, batch, &place);
    if (count == 0) return false;
    std::array<std::uint64_t, batch> frames;
    for (std::uint32_t i = 0; i < count; ++i) {
        const xdp_desc& entry = *xsk_ring_cons__rx_desc(&socket_->received, place + i);
        frames[i] = entry.addr;
        const auto packet =
            packet_of_frame({interface_->memory(entry.addr), entry.len}, own_id_, peer_.mac);
        if (!packet.empty()) taker.take(packet);
    }
    xsk_ring_cons__release(&socket_->received, count);
    interface_->refill(frames.data(), count, descriptor_);
    return true;
}

}  // namespace

base::Result<std::unique_ptr<Port>> open_xdp_port(const LocalInterface& where, std::uint32_t own_id,
                                                  const RawAddress& peer) {
    auto interface = XdpInterface::get(where);
    if (!interface.ok()) return std::move(interface).error();
    auto socket = interface.value()->add_socket(own_id);
    if (!socket.ok()) return std::move(socket).error();
    return std::unique_ptr<Port>(
        new XdpPort(std::move(interface).value(), std::move(socket).value(), where, own_id, peer));
}

}  // namespace via::na::net
