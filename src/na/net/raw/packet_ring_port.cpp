// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/raw/packet_ring_port.hpp"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "base/cpu.hpp"

namespace via::na::net {
namespace {

constexpr std::size_t frames = 64;
constexpr std::size_t batch = 16;
constexpr int wanted_send_buffer = 128 << 10;
constexpr std::uint32_t keep_all = 0x40000;

std::uint32_t number_of(const std::uint8_t* bytes) {
    return static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16 |
           static_cast<std::uint32_t>(bytes[2]) << 8 | bytes[3];
}

/// Lets only frames with our ethertype and id from the peer's MAC into the ring.
bool attach_filter(int socket, std::uint32_t own_id, const MacBytes& peer) {
    constexpr std::uint16_t load_word = BPF_LD | BPF_W | BPF_ABS;
    constexpr std::uint16_t load_half = BPF_LD | BPF_H | BPF_ABS;
    constexpr std::uint16_t equal = BPF_JMP | BPF_JEQ | BPF_K;
    // {what, steps if true, steps if false, value}; the last but one refuses.
    std::array<sock_filter, 10> program = {{
        {load_half, 0, 0, raw_type_offset},
        {equal, 0, 7, raw_ethertype},
        {load_word, 0, 0, raw_id_offset},
        {equal, 0, 5, own_id},
        {load_word, 0, 0, 6},
        {equal, 0, 3, number_of(peer.data())},
        {load_half, 0, 0, 10},
        {equal, 0, 1, static_cast<std::uint32_t>(peer[4] << 8 | peer[5])},
        {BPF_RET | BPF_K, 0, 0, keep_all},
        {BPF_RET | BPF_K, 0, 0, 0},
    }};
    const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
    return ::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0;
}

/// The status word that the kernel and we pass a frame to and fro with.
std::atomic<std::uint32_t>& status_of(std::byte* frame) {
    static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(tpacket2_hdr::tp_status));
    return *reinterpret_cast<std::atomic<std::uint32_t>*>(frame);
}

}  // namespace

PacketRingPort::PacketRingPort(const LocalInterface& where, std::uint32_t own_id,
                               const RawAddress& peer, base::UniqueFd socket)
    : where_(where), own_id_(own_id), peer_(peer), socket_(std::move(socket)) {}

PacketRingPort::~PacketRingPort() {
    if (ring_ != nullptr) ::munmap(ring_, ring_bytes_);
}

base::Result<std::unique_ptr<Port>> PacketRingPort::open(const LocalInterface& where,
                                                         std::uint32_t own_id,
                                                         const RawAddress& peer) {
    // No protocol yet: nothing may come before the filter and the ring are there.
    base::UniqueFd socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) {
        if (errno == EPERM || errno == EACCES)
            return {base::Code::PermissionDenied,
                    "no packet ring on " + where.name +
                        ": this process has not the right CAP_NET_RAW (run it as root, or give it "
                        "to the program with setcap)"};
        return base::system_error(errno, "opening a packet socket for " + where.name);
    }
    std::unique_ptr<PacketRingPort> port(
        new PacketRingPort(where, own_id, peer, std::move(socket)));
    if (auto done = port->set_up(); !done.ok()) return std::move(done).error();
    return std::unique_ptr<Port>(std::move(port));
}

base::Result<void> PacketRingPort::set_up() {
    const int fd = socket_.get();
    const auto failed = [&](const char* what) {
        return base::system_error(errno, std::string(what) + " on " + where_.name);
    };
    const int version = TPACKET_V2;
    if (::setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0)
        return failed("choosing the layout of the packet ring");
    if (!attach_filter(fd, own_id_, peer_.mac)) return failed("setting the packet filter");
    (void)::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &wanted_send_buffer, sizeof wanted_send_buffer);

    max_packet_ = largest_packet_ =
        where_.entry.mtu - static_cast<std::uint32_t>(raw_overhead_bytes);
    // The kernel puts its header, an address and 16 bytes at least before the packet proper.
    frame_bytes_ = std::bit_ceil(TPACKET_ALIGN(TPACKET2_HDRLEN) + 32 + raw_header_bytes +
                                 static_cast<std::size_t>(largest_packet_));
    const std::size_t block =
        std::max<std::size_t>(frame_bytes_, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
    ring_bytes_ = frames * frame_bytes_;
    tpacket_req request{};
    request.tp_block_size = static_cast<unsigned>(block);
    request.tp_block_nr = static_cast<unsigned>(ring_bytes_ / block);
    request.tp_frame_size = static_cast<unsigned>(frame_bytes_);
    request.tp_frame_nr = frames;
    if (::setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) != 0)
        return failed("making the packet ring");
    void* mapped = ::mmap(nullptr, ring_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) return failed("mapping the packet ring");
    ring_ = static_cast<std::byte*>(mapped);

    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(raw_ethertype);
    address.sll_ifindex = static_cast<int>(where_.index);
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return failed("binding the packet ring");
    outgoing_.resize(raw_header_bytes + largest_packet_);
    write_raw_header(outgoing_.data(), peer_, where_.entry.mac);
    return {};
}

/// A larger MTU than at the beginning does not help: the ring was made for that one.
void PacketRingPort::read_mtu() noexcept {
    ifreq request{};
    where_.name.copy(request.ifr_name, IFNAMSIZ - 1);
    if (::ioctl(socket_.get(), SIOCGIFMTU, &request) != 0) return;
    const int rest = request.ifr_mtu - static_cast<int>(raw_overhead_bytes);
    if (rest > 0) max_packet_ = std::min(static_cast<std::uint32_t>(rest), largest_packet_);
}

SendOutcome PacketRingPort::send(std::span<const iovec> parts, std::uint32_t packet_bytes) {
    std::size_t bytes = 0;
    for (const iovec& part : parts)
        bytes += part.iov_len;
    if (bytes > max_packet_) read_mtu();
    if (bytes > max_packet_ || bytes > packet_bytes) return SendOutcome::TooLong;
    gather(parts, outgoing_.data() + raw_header_bytes);
    write_raw_length(outgoing_.data(), bytes);
    for (bool again = true;;) {
        if (::send(socket_.get(), outgoing_.data(), raw_header_bytes + bytes, MSG_DONTWAIT) >= 0)
            [[likely]]
            return SendOutcome::Sent;
        switch (errno) {
            case EINTR:
                continue;
            case EAGAIN:
            case ENOMEM:
                return SendOutcome::Later;
            case ENOBUFS:
                return SendOutcome::Congested;
            case EMSGSIZE:
                read_mtu();
                return SendOutcome::TooLong;
            default:
                // Once the socket only tells that the interface was down in the meantime.
                if (!std::exchange(again, false)) return SendOutcome::LinkDown;
        }
    }
}

bool PacketRingPort::receive(PacketTaker& taker) {
    bool any = false;
    for (std::size_t i = 0; i < batch; ++i) {
        std::byte* frame = ring_ + next_ * frame_bytes_;
        std::atomic<std::uint32_t>& status = status_of(frame);
        const auto is_ours = [](std::uint32_t value) { return (value & TP_STATUS_USER) != 0; };
        if (!is_ours(base::load_then_order(status, is_ours))) break;
        tpacket2_hdr header;
        std::memcpy(&header, frame, sizeof header);
        const std::size_t room = frame_bytes_ - std::min<std::size_t>(header.tp_mac, frame_bytes_);
        const auto packet =
            packet_of_frame({frame + header.tp_mac, std::min<std::size_t>(header.tp_snaplen, room)},
                            own_id_, peer_.mac);
        if (!packet.empty()) taker.take(packet);
        status.store(TP_STATUS_KERNEL, std::memory_order_release);
        next_ = (next_ + 1) % frames;
        any = true;
    }
    return any;
}

}  // namespace via::na::net
