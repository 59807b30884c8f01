// SPDX-License-Identifier: BSD-3-Clause
// A port that is a connected UDP socket. Trains go out by one call where the kernel cuts them into
// packets (UDP_SEGMENT) and come in by one call where it has joined them (UDP_GRO).
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "na/net/page_lender.hpp"
#include "na/net/pairing.hpp"
#include "na/net/port.hpp"

namespace via::na::net {

struct PortRange {
    std::uint16_t low = 0;  ///< 0: the kernel chooses
    std::uint16_t high = 0;
};

/// "40000-40999" or "40000"; empty: the kernel chooses. The value of VIA_NET_PORTS.
[[nodiscard]] base::Result<PortRange> parse_port_range(std::string_view text);

class UdpPort final : public Port {
  public:
    /// First stage: bound to the address and a port of the range, so that it can be offered.
    [[nodiscard]] static base::Result<std::unique_ptr<UdpPort>> open(const LocalInterface& where,
                                                                     PortRange range = {});
    /// Second stage. What the peer has sent already is kept, everybody else's is thrown away; as
    /// the descriptor does not tell of what was kept, call receive() before the first wait.
    [[nodiscard]] base::Result<void> connect(const OfferedInterface& peer, bool same_host = false);

    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    /// What the kernel really gave: it counts its own overhead in, more for small packets.
    [[nodiscard]] std::uint32_t receive_buffer_bytes() const noexcept { return receive_buffer_; }
    /// As on a kernel without segmentation offload, for tests; or again as on one that has it.
    void set_offload(bool on) noexcept { offload_ = on; }
    [[nodiscard]] PageLender& lender() noexcept { return lender_; }

    /// A train that the kernel takes only in part (it has no offload, or takes fewer packets at a
    /// time) counts as sent once the first part is: the rest is lost, as it might be on the wire.
    [[nodiscard]] SendOutcome send(std::span<const iovec> parts,
                                   std::uint32_t packet_bytes) override;
    [[nodiscard]] bool lends() const noexcept override { return offload_ && lender_.works(); }
    [[nodiscard]] SendOutcome lend(std::span<const iovec> parts, std::size_t lent,
                                   std::uint32_t packet_bytes) override;
    /// The packets lie in a buffer of the calling thread: take() must not receive itself.
    [[nodiscard]] bool receive(PacketTaker& taker) override;
    [[nodiscard]] int descriptor() const noexcept override { return socket_.get(); }
    [[nodiscard]] std::uint32_t max_packet_bytes() const noexcept override { return max_packet_; }
    void expect_rate(double bytes_per_second) noexcept override;
    [[nodiscard]] std::uint32_t max_train_bytes() const noexcept override;

  private:
    int send_buffer_ = 0;
    UdpPort(const LocalInterface& where, base::UniqueFd socket);

    struct Train {
        std::vector<std::byte> bytes;
        std::size_t packet_bytes;
    };

    base::Result<void> bind(PortRange range);
    void set_options();
    void pin_to_interface();
    void keep_early(const sockaddr_storage& peer);
    void read_mtu() noexcept;
    void empty_error_queue() noexcept;

    [[gnu::always_inline]] SendOutcome send_one(std::span<const iovec> parts, std::size_t bytes);
    SendOutcome send_train(std::span<const iovec> parts, std::size_t bytes,
                           std::uint32_t packet_bytes);
    SendOutcome send_separately(std::span<const iovec> parts, std::size_t bytes,
                                std::uint32_t packet_bytes);
    SendOutcome failed(int error_number) noexcept;

    bool receive_plain(PacketTaker& taker);
    bool receive_joined(PacketTaker& taker);
    bool receive_unmeasured(PacketTaker& taker);
    bool receive_early(PacketTaker& taker);
    bool nothing_received(int error_number) noexcept;
    void watch_traffic() noexcept;
    bool set_joining(bool on) noexcept;

    LocalInterface where_;
    base::UniqueFd socket_;
    std::uint16_t port_ = 0;
    std::uint32_t receive_buffer_ = 0;
    std::uint32_t max_packet_ = 0;
    std::uint32_t max_segments_ = 128;
    bool trains_ = true;  ///< more than one packet to a system call
    bool offload_ = true;
    PageLender lender_;
    bool connected_ = false;
    std::optional<SendOutcome> pending_;  ///< what a receive was told and the next send must say
    std::deque<Train> early_;

    // A lone packet costs 5 % less to receive where the kernel joins none. So joining is off while
    // packets come one at a time, and on as soon as several are there at once.
    bool can_join_ = true;
    bool joining_ = true;
    std::uint32_t since_empty_ = 0;   ///< receives since there was nothing
    bool last_was_lone_ = false;      ///< the last receive gave one packet
    std::uint32_t lone_ = 0;          ///< times in a row that one packet came alone
    std::uint32_t lone_needed_ = 32;  ///< doubled each time it was a mistake
    // Asking for the length of joined datagrams makes each look at the socket longer, also one that
    // finds nothing: 3 % of the time of a message of 4 KB. Where each receive gives one packet,
    // mostly a long one, nobody needs it.
    bool measures_ = true;
    std::uint32_t single_ = 0;          ///< receives in a row that gave one packet
    std::uint32_t single_needed_ = 32;  ///< doubled each time it was a mistake
};

}  // namespace via::na::net
