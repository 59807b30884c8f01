// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/udp_port.hpp"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <random>

#include "base/aligned_bytes.hpp"
#include "base/kernel_version.hpp"
#include "base/settings.hpp"

namespace via::na::net {
namespace {

// send() and recv() of the C library are places where a thread may be cancelled, which costs two
// atomic operations each in a program with threads. These never block.
ssize_t plain_send(int socket, const void* data, std::size_t bytes) noexcept {
    return syscall(SYS_sendto, socket, data, bytes, MSG_DONTWAIT, nullptr, 0);
}
ssize_t plain_receive(int socket, void* buffer, std::size_t bytes) noexcept {
    return syscall(SYS_recvfrom, socket, buffer, bytes, MSG_DONTWAIT, nullptr, nullptr);
}

constexpr int wanted_receive_buffer = 4 << 20;
// Below what queues on the way hold: so a full queue is back-pressure here and no loss there. And
// no more than TCP has in them, a train or two or a millisecond's worth: in a queue that all share,
// everyone gets as much as he has in it.
constexpr int least_send_buffer = 64 << 10;
constexpr int most_send_buffer = 4 << 20;
constexpr std::size_t receive_bytes = 65536;
constexpr std::size_t gathered_bytes = 2048;
constexpr std::size_t separate_packets = 16;
constexpr std::uint32_t most_single_needed = 1U << 16U;
constexpr std::uint32_t crowd = 4;
constexpr std::uint32_t most_lone_needed = 256;

/// The largest datagram less its header, IPv4 or IPv6.
constexpr std::uint32_t most_datagram_bytes(Family family) {
    return family == Family::Ipv4 ? 65535 - 28 : 65535 - 48;
}
constexpr std::uint32_t header_bytes(Family family) {
    return family == Family::Ipv4 ? 28 : 48;
}

/// Found without a call, unlike the variables of a thread that have to be made.
[[gnu::tls_model("initial-exec")]] constinit thread_local std::byte* known_receive_buffer = nullptr;

struct FreeReceiveBuffer {
    ~FreeReceiveBuffer() {
        const base::AlignedBytes freed(known_receive_buffer);
        known_receive_buffer = nullptr;
    }
};

/// Who receives when the thread's variables are gone, at the end of the program, makes one anew.
[[gnu::noinline]] std::byte* make_receive_buffer() {
    thread_local const FreeReceiveBuffer at_thread_end;
    static_cast<void>(&at_thread_end);
    return known_receive_buffer = base::aligned_bytes(receive_bytes).release();
}

/// One for all ports of a thread, so that it stays in the cache. It is freed with its thread.
std::byte* receive_buffer() {
    return known_receive_buffer != nullptr ? known_receive_buffer : make_receive_buffer();
}

struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t length = 0;
    [[nodiscard]] const sockaddr* get() const {
        return reinterpret_cast<const sockaddr*>(&storage);
    }
};

SocketAddress socket_address(Family family, const AddressBytes& address, std::uint16_t port,
                             std::uint32_t interface_index) {
    SocketAddress result;
    if (family == Family::Ipv4) {
        sockaddr_in ip{};
        ip.sin_family = AF_INET;
        ip.sin_port = htons(port);
        std::memcpy(&ip.sin_addr, address.data(), sizeof ip.sin_addr);
        std::memcpy(&result.storage, &ip, sizeof ip);
        result.length = sizeof ip;
    } else {
        sockaddr_in6 ip{};
        ip.sin6_family = AF_INET6;
        ip.sin6_port = htons(port);
        std::memcpy(&ip.sin6_addr, address.data(), sizeof ip.sin6_addr);
        if (is_link_local(family, address)) ip.sin6_scope_id = interface_index;
        std::memcpy(&result.storage, &ip, sizeof ip);
        result.length = sizeof ip;
    }
    return result;
}

bool same_source(const sockaddr_storage& a, const sockaddr_storage& b) {
    if (a.ss_family != b.ss_family) return false;
    if (a.ss_family == AF_INET) {
        const auto& x = reinterpret_cast<const sockaddr_in&>(a);
        const auto& y = reinterpret_cast<const sockaddr_in&>(b);
        return x.sin_port == y.sin_port && x.sin_addr.s_addr == y.sin_addr.s_addr;
    }
    const auto& x = reinterpret_cast<const sockaddr_in6&>(a);
    const auto& y = reinterpret_cast<const sockaddr_in6&>(b);
    return x.sin6_port == y.sin6_port &&
           std::memcmp(&x.sin6_addr, &y.sin6_addr, sizeof x.sin6_addr) == 0;
}

std::string text_of(Family family, const AddressBytes& address, std::uint16_t port) {
    const std::string text = to_text(family, address);
    return (family == Family::Ipv4 ? text : "[" + text + "]") + ":" + std::to_string(port);
}

bool set_option(int socket, int level, int name, int value) noexcept {
    return ::setsockopt(socket, level, name, &value, sizeof value) == 0;
}

/// Does a connected socket obey IP_UNICAST_IF? Linux 6.0 was the first.
bool unicast_interface_counts() {
    return base::kernel_is_at_least(6, 0);
}

SendOutcome outcome_of(int error_number) noexcept {
    switch (error_number) {
        case EAGAIN:
        case ENOMEM:
            return SendOutcome::Later;
        case ENOBUFS:
            return SendOutcome::Congested;
        case EMSGSIZE:
            return SendOutcome::TooLong;
        case ECONNREFUSED:
            return SendOutcome::Refused;
        default:  // ENETUNREACH, EHOSTUNREACH, ENETDOWN, EPERM of a packet filter, ...
            return SendOutcome::LinkDown;
    }
}

std::size_t bytes_of(std::span<const iovec> parts) noexcept {
    std::size_t bytes = 0;
    for (const iovec& part : parts)
        bytes += part.iov_len;
    return bytes;
}

/// Walks over the parts in steps that need not end where a part does.
class PartsCursor {
  public:
    explicit PartsCursor(std::span<const iovec> parts) : parts_(parts) {}
    /// The next `bytes` as iovecs; how many of them.
    std::size_t take(std::size_t bytes, iovec* to) {
        std::size_t count = 0;
        while (bytes > 0 && !parts_.empty()) {
            const iovec& part = parts_.front();
            const std::size_t length = std::min(part.iov_len - offset_, bytes);
            if (length > 0)
                to[count++] = {static_cast<std::byte*>(part.iov_base) + offset_, length};
            offset_ += length;
            bytes -= length;
            if (offset_ == part.iov_len) {
                parts_ = parts_.subspan(1);
                offset_ = 0;
            }
        }
        return count;
    }

  private:
    std::span<const iovec> parts_;
    std::size_t offset_ = 0;
};

struct Received {
    ssize_t bytes;
    std::size_t packet_bytes;  ///< of each packet but the last; 0: it is one packet
};

/// Asks the kernel to cut what is sent into datagrams of that length.
class SegmentLength {
  public:
    explicit SegmentLength(std::uint32_t datagram_bytes) noexcept {
        auto* header = reinterpret_cast<cmsghdr*>(control_);
        header->cmsg_level = SOL_UDP;
        header->cmsg_type = UDP_SEGMENT;
        header->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
        const auto segment = static_cast<std::uint16_t>(datagram_bytes);
        std::memcpy(CMSG_DATA(header), &segment, sizeof segment);
    }
    void add_to(msghdr& message) noexcept {
        message.msg_control = control_;
        message.msg_controllen = sizeof control_;
    }

  private:
    alignas(cmsghdr) std::byte control_[CMSG_SPACE(sizeof(std::uint16_t))] = {};
};

/// One datagram or one joined train. The source is only asked for where it matters.
Received receive_message(int socket, std::byte* buffer, sockaddr_storage* source) noexcept {
    iovec part{buffer, receive_bytes};
    alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int))];
    msghdr message{};
    message.msg_name = source;
    message.msg_namelen = source != nullptr ? sizeof *source : 0;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    Received result{syscall(SYS_recvmsg, socket, &message, MSG_DONTWAIT), 0};
    if (result.bytes <= 0 || message.msg_controllen == 0) return result;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header))
        if (header->cmsg_level == SOL_UDP && header->cmsg_type == UDP_GRO) {
            int size = 0;
            std::memcpy(&size, CMSG_DATA(header), sizeof size);
            if (size > 0) result.packet_bytes = static_cast<std::size_t>(size);
        }
    return result;
}

}  // namespace

base::Result<PortRange> parse_port_range(std::string_view text) {
    if (text.empty()) return PortRange{};
    PortRange range;
    const char* end = text.data() + text.size();
    auto read = std::from_chars(text.data(), end, range.low);
    bool good = read.ec == std::errc() && range.low != 0;
    range.high = range.low;
    if (good && read.ptr != end && *read.ptr == '-')
        read = std::from_chars(read.ptr + 1, end, range.high);
    good = good && read.ec == std::errc() && read.ptr == end && range.low <= range.high;
    if (!good)
        return {base::Code::InvalidArgument, "VIA_NET_PORTS is '" + std::string(text) +
                                                 "', but should be like 40000-40999 or empty"};
    return range;
}

UdpPort::UdpPort(const LocalInterface& where, base::UniqueFd socket)
    : where_(where),
      socket_(std::move(socket)),
      max_packet_(std::min(where.entry.mtu - header_bytes(where.entry.family),
                           most_datagram_bytes(where.entry.family))) {}

base::Result<std::unique_ptr<UdpPort>> UdpPort::open(const LocalInterface& where, PortRange range) {
    const int family = where.entry.family == Family::Ipv4 ? AF_INET : AF_INET6;
    base::UniqueFd socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) return base::system_error(errno, "opening a UDP socket");
    std::unique_ptr<UdpPort> port(new UdpPort(where, std::move(socket)));
    port->set_options();
    if (auto bound = port->bind(range); !bound.ok()) return std::move(bound).error();
    return port;
}

void UdpPort::set_options() {
    const int fd = socket_.get();
    // The first needs a right and is then not held to the system's limit.
    if (!set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, wanted_receive_buffer))
        set_option(fd, SOL_SOCKET, SO_RCVBUF, wanted_receive_buffer);
    int given = 0;
    socklen_t length = sizeof given;
    if (::getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &given, &length) == 0 && given > 0)
        receive_buffer_ = static_cast<std::uint32_t>(given);
    set_option(fd, SOL_SOCKET, SO_SNDBUF, send_buffer_ = least_send_buffer);
    // With RECVERR a queue that overflows on this host is told of by send(), not by silence.
    if (where_.entry.family == Family::Ipv4) {
        set_option(fd, IPPROTO_IP, IP_RECVERR, 1);
        set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    } else {
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
        set_option(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
        set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    }
    can_join_ = joining_ = set_option(fd, SOL_UDP, UDP_GRO, 1);
    int segment = 0;
    length = sizeof segment;
    trains_ = base::Settings::get().flag("VIA_NET_TRAINS");
    offload_ = trains_ && ::getsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, &length) == 0;
    if (!base::Settings::get().flag("VIA_NET_LEND")) lender_.forbid();
}

base::Result<void> UdpPort::bind(PortRange range) {
    const OfferedInterface& entry = where_.entry;
    const std::uint32_t count = range.high - range.low + 1U;
    // Anywhere in the range, so that processes that start together do not try the same ports.
    const std::uint32_t start = range.low == 0 ? 0 : std::random_device{}() % count;
    for (std::uint32_t i = 0; i < count; ++i) {
        const auto wanted = static_cast<std::uint16_t>(range.low + (start + i) % count);
        const auto address = socket_address(entry.family, entry.address, wanted, where_.index);
        if (::bind(socket_.get(), address.get(), address.length) == 0) {
            sockaddr_storage own{};
            socklen_t length = sizeof own;
            if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0)
                return base::system_error(errno, "asking for the port of a UDP socket");
            port_ = ntohs(entry.family == Family::Ipv4
                              ? reinterpret_cast<const sockaddr_in&>(own).sin_port
                              : reinterpret_cast<const sockaddr_in6&>(own).sin6_port);
            return {};
        }
        if (errno != EADDRINUSE && errno != EACCES)
            return base::system_error(errno, "opening a UDP port on " + where_.name + " (" +
                                                 to_text(entry.family, entry.address) + ")");
    }
    if (range.low == 0)
        return base::system_error(errno, "opening a UDP port on " + where_.name + " (" +
                                             to_text(entry.family, entry.address) + ")");
    return {base::Code::OutOfResources, "none of the UDP ports " + std::to_string(range.low) +
                                            " to " + std::to_string(range.high) +
                                            " (VIA_NET_PORTS) is free on " +
                                            to_text(entry.family, entry.address)};
}

/// What is sent leaves by our interface, whatever the routes say. What comes is welcome on any: two
/// interfaces in one subnet answer for each other's addresses.
void UdpPort::pin_to_interface() {
    if (unicast_interface_counts()) {
        const int index = static_cast<int>(htonl(where_.index));
        if (where_.entry.family == Family::Ipv4)
            set_option(socket_.get(), IPPROTO_IP, IP_UNICAST_IF, index);
        else
            set_option(socket_.get(), IPPROTO_IPV6, IPV6_UNICAST_IF, index);
        return;
    }
    // Without the right to it the routes decide.
    (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_BINDTODEVICE, where_.name.c_str(),
                       static_cast<socklen_t>(where_.name.size()));
}

base::Result<void> UdpPort::connect(const OfferedInterface& peer, bool same_host) {
    // To this very host everything goes by the loopback interface.
    if (!where_.entry.loopback && !same_host) pin_to_interface();
    const auto address = socket_address(peer.family, peer.address, peer.port, where_.index);
    if (::connect(socket_.get(), address.get(), address.length) != 0)
        return {base::Code::NotReachable,
                base::system_error(
                    errno, "connecting " + where_.name + " (" +
                               text_of(where_.entry.family, where_.entry.address, port_) + ") to " +
                               text_of(peer.family, peer.address, peer.port))
                    .sentence};
    connected_ = true;
    keep_early(address.storage);
    read_mtu();
    return {};
}

/// From now on the kernel lets only the peer's in, but what was queued before can be anybody's.
void UdpPort::keep_early(const sockaddr_storage& peer) {
    std::byte* buffer = receive_buffer();
    for (;;) {
        sockaddr_storage source{};
        const Received got = receive_message(socket_.get(), buffer, &source);
        if (got.bytes < 0 && errno == EAGAIN) return;
        if (got.bytes < 0) {
            (void)failed(errno);
            continue;
        }
        if (got.bytes == 0 || !same_source(source, peer)) continue;
        const auto length = static_cast<std::size_t>(got.bytes);
        early_.push_back({std::vector<std::byte>(buffer, buffer + length),
                          got.packet_bytes != 0 ? got.packet_bytes : length});
    }
}

std::uint32_t UdpPort::max_train_bytes() const noexcept {
    if (!trains_) return max_packet_;
    const std::uint32_t most = most_datagram_bytes(where_.entry.family);
    return offload_ ? most
                    : std::min(most, static_cast<std::uint32_t>(separate_packets) * max_packet_);
}

void UdpPort::read_mtu() noexcept {
    if (!connected_) return;
    const Family family = where_.entry.family;
    int mtu = 0;
    socklen_t length = sizeof mtu;
    const int result = family == Family::Ipv4
                           ? ::getsockopt(socket_.get(), IPPROTO_IP, IP_MTU, &mtu, &length)
                           : ::getsockopt(socket_.get(), IPPROTO_IPV6, IPV6_MTU, &mtu, &length);
    if (result != 0 || mtu <= static_cast<int>(header_bytes(family))) return;
    max_packet_ = std::min(static_cast<std::uint32_t>(mtu) - header_bytes(family),
                           most_datagram_bytes(family));
}

/// What stands there takes room from packets, and its news is what errno said.
void UdpPort::empty_error_queue() noexcept {
    std::byte nothing[1];
    std::byte control[256];
    for (int i = 0; i < 1024; ++i) {
        iovec part{nothing, sizeof nothing};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        if (::recvmsg(socket_.get(), &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
    }
}

SendOutcome UdpPort::failed(int error_number) noexcept {
    const SendOutcome outcome = outcome_of(error_number);
    if (outcome == SendOutcome::Later || outcome == SendOutcome::Congested) return outcome;
    empty_error_queue();
    if (outcome == SendOutcome::TooLong) read_mtu();
    return outcome;
}

void UdpPort::expect_rate(double bytes_per_second) noexcept {
    const int wanted = std::clamp(static_cast<int>(std::min(bytes_per_second / 1000, 1e9)),
                                  least_send_buffer, most_send_buffer);
    if (wanted < 2 * send_buffer_ && wanted > send_buffer_ / 2) return;
    send_buffer_ = wanted;
    if (!set_option(socket_.get(), SOL_SOCKET, SO_SNDBUFFORCE, wanted))
        set_option(socket_.get(), SOL_SOCKET, SO_SNDBUF, wanted);
}

SendOutcome UdpPort::send(std::span<const iovec> parts, std::uint32_t packet_bytes) {
    if (pending_.has_value()) [[unlikely]] {
        const SendOutcome outcome = *pending_;
        pending_.reset();
        return outcome;
    }
    const std::size_t bytes = bytes_of(parts);
    if (bytes <= packet_bytes) [[likely]] {
        const SendOutcome outcome = send_one(parts, bytes);
        // The news of an earlier packet; this one may fit all the same.
        if (outcome != SendOutcome::TooLong || bytes > max_packet_) [[likely]]
            return outcome;
        return send_one(parts, bytes);
    }
    if (parts.size() > IOV_MAX) [[unlikely]] {
        std::vector<std::byte> joined(bytes);
        gather(parts, joined.data());
        const iovec whole{joined.data(), bytes};
        return send({&whole, 1}, packet_bytes);
    }
    const auto attempt = [&] {
        return offload_ ? send_train(parts, bytes, packet_bytes)
                        : send_separately(parts, bytes, packet_bytes);
    };
    const SendOutcome outcome = attempt();
    if (outcome != SendOutcome::TooLong || packet_bytes > max_packet_) return outcome;
    return attempt();
}

SendOutcome UdpPort::lend(std::span<const iovec> parts, std::size_t lent,
                          std::uint32_t packet_bytes) {
    const std::size_t bytes = bytes_of(parts);
    const bool can = !pending_.has_value() && offload_ && lent > 0 && lent < parts.size() &&
                     parts.size() <= IOV_MAX && PageLender::fits(parts.subspan(lent)) &&
                     bytes > packet_bytes && bytes <= most_datagram_bytes(where_.entry.family) &&
                     bytes <= std::size_t{max_segments_} * packet_bytes &&
                     packet_bytes <= max_packet_ && lender_.ready();
    if (!can) return send(parts, packet_bytes);
    SegmentLength segment(packet_bytes);
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = lent;
    segment.add_to(message);
    ssize_t begun;
    do
        begun = syscall(SYS_sendmsg, socket_.get(), &message, MSG_DONTWAIT | MSG_MORE);
    while (begun < 0 && errno == EINTR);
    if (begun >= 0 && lender_.end_with(socket_.get(), parts.subspan(lent))) [[likely]]
        return SendOutcome::Sent;
    const int error_number = errno;
    const SendOutcome outcome = outcome_of(error_number);
    if (outcome != SendOutcome::TooLong && outcome != SendOutcome::LinkDown)
        return failed(error_number);
    // Is it the link, or only this way to it?
    const SendOutcome copied = send(parts, packet_bytes);
    if (copied == SendOutcome::Sent) lender_.blame();
    return copied;
}

inline SendOutcome UdpPort::send_one(std::span<const iovec> parts, std::size_t bytes) {
    if (bytes > max_packet_) [[unlikely]]
        read_mtu();
    if (bytes > max_packet_) [[unlikely]]
        return SendOutcome::TooLong;
    // One buffer and send() are cheaper than two and sendmsg(), the copy included.
    std::byte gathered[gathered_bytes];
    const void* data = parts.empty() ? gathered : parts.front().iov_base;
    const bool gathers = parts.size() > 1 && bytes <= gathered_bytes;
    if (gathers) {
        gather(parts, gathered);
        data = gathered;
    }
    for (;;) {
        ssize_t sent;
        if (gathers || parts.size() <= 1) {
            sent = plain_send(socket_.get(), data, bytes);
        } else {
            msghdr message{};
            message.msg_iov = const_cast<iovec*>(parts.data());
            message.msg_iovlen = parts.size();
            sent = syscall(SYS_sendmsg, socket_.get(), &message, MSG_DONTWAIT);
        }
        if (sent >= 0) [[likely]]
            return SendOutcome::Sent;
        const int error_number = errno;
        if (error_number == EINTR) continue;
        return failed(error_number);
    }
}

SendOutcome UdpPort::send_train(std::span<const iovec> parts, std::size_t bytes,
                                std::uint32_t packet_bytes) {
    if (packet_bytes > max_packet_) [[unlikely]]
        read_mtu();
    if (packet_bytes > max_packet_) [[unlikely]]
        return SendOutcome::TooLong;
    SegmentLength segment(packet_bytes);
    PartsCursor cursor(parts);
    std::vector<iovec> slices;
    bool any = false;
    while (bytes > 0) {
        const std::size_t most = std::min<std::size_t>(
            static_cast<std::size_t>(max_segments_) * packet_bytes,
            most_datagram_bytes(where_.entry.family) / packet_bytes * packet_bytes);
        const std::size_t now = std::min(bytes, most);
        msghdr message{};
        if (now == bytes && !any) [[likely]] {
            message.msg_iov = const_cast<iovec*>(parts.data());
            message.msg_iovlen = parts.size();
        } else {
            slices.resize(parts.size());
            message.msg_iovlen = cursor.take(now, slices.data());
            message.msg_iov = slices.data();
        }
        if (now > packet_bytes) segment.add_to(message);
        ssize_t sent;
        do
            sent = syscall(SYS_sendmsg, socket_.get(), &message, MSG_DONTWAIT);
        while (sent < 0 && errno == EINTR);
        if (sent < 0) [[unlikely]] {
            const int error_number = errno;
            if (any) {
                (void)failed(error_number);
                return SendOutcome::Sent;
            }
            if (error_number == EINVAL || error_number == EOPNOTSUPP || error_number == EIO) {
                // Older kernels say EINVAL for much: too long, too many, not known.
                read_mtu();
                if (packet_bytes > max_packet_) return SendOutcome::TooLong;
                if (error_number == EINVAL && now > std::size_t{64} * packet_bytes &&
                    max_segments_ > 64) {
                    max_segments_ = 64;
                    return send_train(parts, bytes, packet_bytes);
                }
                offload_ = false;
                return send_separately(parts, bytes, packet_bytes);
            }
            return failed(error_number);
        }
        any = true;
        bytes -= now;
    }
    return SendOutcome::Sent;
}

SendOutcome UdpPort::send_separately(std::span<const iovec> parts, std::size_t bytes,
                                     std::uint32_t packet_bytes) {
    if (packet_bytes > max_packet_) read_mtu();
    if (packet_bytes > max_packet_) return SendOutcome::TooLong;
    PartsCursor cursor(parts);
    bool any = false;
    // A packet takes a piece of each part at most.
    std::vector<iovec> slices(parts.size() + separate_packets);
    while (bytes > 0) {
        std::array<mmsghdr, separate_packets> messages{};
        unsigned count = 0;
        std::size_t used = 0;
        while (bytes > 0 && count < messages.size()) {
            const std::size_t length = std::min<std::size_t>(bytes, packet_bytes);
            msghdr& message = messages[count].msg_hdr;
            message.msg_iov = slices.data() + used;
            message.msg_iovlen = cursor.take(length, slices.data() + used);
            used += message.msg_iovlen;
            bytes -= length;
            ++count;
        }
        unsigned done = 0;
        while (done < count) {
            const int sent = static_cast<int>(syscall(
                SYS_sendmmsg, socket_.get(), messages.data() + done, count - done, MSG_DONTWAIT));
            if (sent > 0) {
                done += static_cast<unsigned>(sent);
                any = true;
                continue;
            }
            const int error_number = errno;
            if (sent < 0 && error_number == EINTR) continue;
            const SendOutcome outcome = failed(error_number);
            return any ? SendOutcome::Sent : outcome;
        }
    }
    return SendOutcome::Sent;
}

bool UdpPort::receive(PacketTaker& taker) {
    if (!early_.empty()) [[unlikely]]
        return receive_early(taker);
    return joining_ ? receive_joined(taker) : receive_plain(taker);
}

bool UdpPort::receive_early(PacketTaker& taker) {
    const Train train = std::move(early_.front());
    early_.pop_front();
    taker.take(train.bytes, train.packet_bytes);
    return true;
}

bool UdpPort::receive_plain(PacketTaker& taker) {
    std::byte* buffer = receive_buffer();
    const ssize_t got = plain_receive(socket_.get(), buffer, receive_bytes);
    if (got < 0) return nothing_received(errno);
    if (++since_empty_ == crowd && can_join_ && set_joining(true)) {
        lone_ = 0;
        lone_needed_ = std::min(lone_needed_ * 2, most_lone_needed);
    }
    if (got > 0) taker.take({buffer, static_cast<std::size_t>(got)});
    return true;
}

bool UdpPort::receive_joined(PacketTaker& taker) {
    if (!measures_) return receive_unmeasured(taker);
    std::byte* buffer = receive_buffer();
    const Received got = receive_message(socket_.get(), buffer, nullptr);
    if (got.bytes < 0) return nothing_received(errno);
    ++since_empty_;
    last_was_lone_ = got.packet_bytes == 0;
    const auto length = static_cast<std::size_t>(got.bytes);
    if (length == 0) return true;
    const bool one = taker.take({buffer, length}, last_was_lone_ ? length : got.packet_bytes);
    single_ = one ? single_ + 1 : 0;
    if (single_ == single_needed_) measures_ = false;
    return true;
}

bool UdpPort::receive_unmeasured(PacketTaker& taker) {
    std::byte* buffer = receive_buffer();
    const ssize_t got = plain_receive(socket_.get(), buffer, receive_bytes);
    if (got < 0) return nothing_received(errno);
    ++since_empty_;
    const auto length = static_cast<std::size_t>(got);
    last_was_lone_ = length <= max_packet_;
    if (length == 0 || taker.take_unmeasured({buffer, length})) return true;
    measures_ = true;
    single_ = 0;
    single_needed_ = std::min(single_needed_ * 2, most_single_needed);
    return true;
}

bool UdpPort::nothing_received(int error_number) noexcept {
    if (error_number != EAGAIN && error_number != EINTR) {
        const SendOutcome outcome = failed(error_number);
        // A length that was too long is known from max_packet_bytes() now.
        if (outcome == SendOutcome::Refused || outcome == SendOutcome::LinkDown) pending_ = outcome;
        return false;
    }
    if (since_empty_ != 0) watch_traffic();
    return false;
}

/// There is nothing more: was it one packet that came?
void UdpPort::watch_traffic() noexcept {
    const bool lone = since_empty_ == 1 && last_was_lone_;
    since_empty_ = 0;
    if (!joining_) return;
    lone_ = lone ? lone_ + 1 : 0;
    if (lone_ < lone_needed_) return;
    lone_ = 0;
    if (!set_joining(false)) return;
    // A train that came just now was joined already, and only a joining socket tells its lengths.
    int waiting = 0;
    if (::ioctl(socket_.get(), FIONREAD, &waiting) == 0 && waiting > 0) set_joining(true);
}

bool UdpPort::set_joining(bool on) noexcept {
    if (!set_option(socket_.get(), SOL_UDP, UDP_GRO, on ? 1 : 0)) return false;
    joining_ = on;
    return true;
}

}  // namespace via::na::net
