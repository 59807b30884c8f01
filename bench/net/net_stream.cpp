// SPDX-License-Identifier: BSD-3-Clause
#include <limits.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "bare/pinning.hpp"
#include "bare/shared_mapping.hpp"
#include "base/huge_pages.hpp"
#include "net/host_sockets.hpp"
#include "net/net_peers.hpp"
#include "two_processes.hpp"
#include "via/cpu_time.hpp"
#include "via/heap.hpp"

namespace via::bench {

namespace {

using base::Deadline;
using base::Result;

constexpr base::Nanoseconds quiet_time = 50'000'000;

/// What the receiver tells the sender, in memory of both.
struct Received {
    std::uint64_t bytes = 0;
    std::uint64_t messages = 0;
    std::uint64_t counted_bytes = 0;  ///< after the warm-up
    std::uint64_t counted_messages = 0;
    double counted_seconds = 0;
    double cpu_seconds = 0;
    std::atomic<bool> sender_done{false};
};

double cpu_seconds() {
    return static_cast<double>(tool::process_cpu_time()) / 1e9;
}

/// Counts what arrives once the first fifth of the time is over. `receive` gives bytes, 0 at the
/// end of the stream, less than 0 and errno otherwise.
template <class Receive>
Result<void> count_arrivals(const NetStream& wanted, bool datagrams, Deadline deadline,
                            Received& received, const Receive& receive) {
    const double cpu_before = cpu_seconds();
    base::Nanoseconds first = 0;     // arrival
    base::Nanoseconds counting = 0;  // since when
    base::Nanoseconds last = 0;
    base::Nanoseconds quiet_since = 0;
    for (;;) {
        const ssize_t count = receive();
        if (count == 0) break;
        if (count < 0) {
            if (errno != EAGAIN && errno != EINTR) return base::system_error(errno, "receive");
            if (deadline.expired()) return {base::Code::Timeout, "a stream came to a standstill"};
            if (datagrams && received.sender_done.load()) {
                // Nobody says that there are no more of them: a moment without any does.
                const base::Nanoseconds now = base::monotonic_now();
                if (quiet_since == 0) quiet_since = now;
                if (now - quiet_since >= quiet_time) break;
            }
            continue;
        }
        quiet_since = 0;
        received.bytes += static_cast<std::uint64_t>(count);
        ++received.messages;
        last = base::monotonic_now();
        if (first == 0) first = last;
        if (counting != 0) {
            received.counted_bytes += static_cast<std::uint64_t>(count);
            ++received.counted_messages;
        } else if (last - first >= wanted.time / 5) {
            counting = last;
        }
    }
    received.counted_seconds = static_cast<double>(last - counting) / 1e9;
    received.cpu_seconds = cpu_seconds() - cpu_before;
    return {};
}

struct Sent {
    std::uint64_t messages = 0;
    double cpu_seconds = 0;
};

/// Until the time is over. `send` gives how many messages went, or less than 0 and errno.
template <class Send>
Result<Sent> send_for(const NetStream& wanted, Deadline deadline, const Send& send) {
    Sent sent;
    const double cpu_before = cpu_seconds();
    const base::Nanoseconds end = base::monotonic_now() + wanted.time;
    while (base::monotonic_now() < end) {
        const ssize_t count = send();
        if (count < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
            return base::system_error(errno, "send");
        }
        if (count > 0) sent.messages += static_cast<std::uint64_t>(count);
        if (deadline.expired()) return {base::Code::Timeout, "a stream came to a standstill"};
    }
    sent.cpu_seconds = cpu_seconds() - cpu_before;
    return sent;
}

/// A peer's buffer lies as ours do: on huge pages if it is large.
class Buffer {
  public:
    explicit Buffer(std::size_t bytes, char fill = 0) : memory_(tool::HeapMemory::take(bytes)) {
        if (memory_.data == nullptr) throw std::bad_alloc();
        base::use_huge_pages(data(), memory_.bytes);
        std::memset(data(), fill, memory_.bytes);
    }
    [[nodiscard]] char* data() const { return reinterpret_cast<char*>(memory_.data.get()); }

  private:
    tool::HeapMemory memory_;
};

/// `receive_side(fd, received)` in a child on the second core, `send_side(fd)` here on the first.
template <class ReceiveSide, class SendSide>
Result<NetStreamTake> stream(HostSockets sockets, const NetPlace& place, Deadline deadline,
                             const ReceiveSide& receive_side, const SendSide& send_side) {
    auto mapping = bare::SharedMapping::create(sizeof(Received));
    if (!mapping) return std::move(mapping).error();
    auto& received = *new (mapping.value().data()) Received;
    auto companion = Companion::start([&](Companion& parent) -> Result<void> {
        sockets.a.reset();
        if (auto pinned = bare::pin_to(place.cores.second); !pinned) return pinned;
        if (auto met = parent.meet(deadline); !met) return met;
        return receive_side(sockets.b.get(), received);
    });
    if (!companion) return std::move(companion).error();
    sockets.b.reset();
    auto pinned = bare::PinnedScope::on(place.cores.first);
    if (!pinned) return std::move(pinned).error();
    if (auto met = companion.value().meet(deadline); !met) return std::move(met).error();
    auto sent = send_side(sockets.a.get());
    if (!sent) return std::move(sent).error();
    ::shutdown(sockets.a.get(), SHUT_WR);
    received.sender_done.store(true);
    if (auto ended = companion.value().join(deadline); !ended) return std::move(ended).error();
    if (received.counted_seconds <= 0 || received.counted_messages == 0) {
        return {base::Code::System, "too little of a stream arrived to say how fast it is"};
    }
    NetStreamTake take;
    take.bytes_per_second = static_cast<double>(received.counted_bytes) / received.counted_seconds;
    take.bytes = received.bytes;
    take.messages = received.messages;
    take.messages_per_second =
        static_cast<double>(received.counted_messages) / received.counted_seconds;
    take.messages_sent = sent.value().messages;
    take.sender_cpu_seconds = sent.value().cpu_seconds;
    take.receiver_cpu_seconds = received.cpu_seconds;
    return take;
}

/// A read takes what is there, not messages.
Result<NetStreamTake> in_messages(const NetStream& wanted, Result<NetStreamTake> take) {
    if (take) {
        take.value().messages = take.value().bytes / wanted.bytes;
        take.value().messages_per_second =
            take.value().bytes_per_second / static_cast<double>(wanted.bytes);
    }
    return take;
}

int how_to_receive(const NetStream& wanted) {
    return wanted.receiver_spins ? MSG_DONTWAIT : 0;
}

Result<void> check(const NetStream& wanted) {
    if (wanted.bytes == 0 || wanted.time <= 0 || wanted.messages_per_call == 0 ||
        wanted.messages_per_call > IOV_MAX) {
        return {base::Code::InvalidArgument,
                "a stream needs messages of a byte or more, some time, and 1 to IOV_MAX messages "
                "in a call"};
    }
    return {};
}

}  // namespace

Result<NetStreamTake> tcp_stream(const NetPlace& place, const NetStream& wanted) {
    if (auto good = check(wanted); !good) return std::move(good).error();
    auto sockets = connect_tcp(place, wanted.congestion);
    if (!sockets) return std::move(sockets).error();
    const Deadline deadline = Deadline::after_milliseconds(place.deadline_seconds * 1000);
    const auto receive_side = [&](int fd, Received& received) {
        const std::size_t bytes = std::max<std::size_t>(wanted.bytes, 65536);
        const Buffer buffer(bytes);
        return count_arrivals(wanted, false, deadline, received, [&] {
            return ::recv(fd, buffer.data(), bytes, how_to_receive(wanted));
        });
    };
    const auto send_side = [&](int fd) {
        const std::size_t all = wanted.bytes * wanted.messages_per_call;
        const Buffer messages(all, 's');
        std::vector<iovec> parts(wanted.messages_per_call);
        for (std::size_t i = 0; i < parts.size(); ++i) {
            parts[i] = {messages.data() + i * wanted.bytes, wanted.bytes};
        }
        std::size_t rest = 0;  // of messages that a call has not taken whole
        return send_for(wanted, deadline, [&]() -> ssize_t {
            const ssize_t count = rest != 0 ? ::write(fd, messages.data() + all - rest, rest)
                                  : parts.size() == 1
                                      ? ::write(fd, messages.data(), all)
                                      : ::writev(fd, parts.data(), static_cast<int>(parts.size()));
            if (count < 0) return count;
            rest = (rest != 0 ? rest : all) - static_cast<std::size_t>(count);
            return rest == 0 ? static_cast<ssize_t>(wanted.messages_per_call) : 0;
        });
    };
    return in_messages(
        wanted, stream(std::move(sockets.value()), place, deadline, receive_side, send_side));
}

Result<NetStreamTake> udp_messages(const NetPlace& place, const NetStream& wanted) {
    if (auto good = check(wanted); !good) return std::move(good).error();
    auto sockets = connect_udp(place);
    if (!sockets) return std::move(sockets).error();
    const Deadline deadline = Deadline::after_milliseconds(place.deadline_seconds * 1000);
    // The receiver looks up now and then whether the sender has finished.
    const timeval moment{0, 50'000};
    ::setsockopt(sockets.value().b.get(), SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
    const auto receive_side = [&](int fd, Received& received) {
        const Buffer buffer(wanted.bytes);
        return count_arrivals(wanted, true, deadline, received, [&] {
            return ::recv(fd, buffer.data(), wanted.bytes, how_to_receive(wanted));
        });
    };
    const auto send_side = [&](int fd) {
        const Buffer message(wanted.bytes, 's');
        return send_for(wanted, deadline, [&]() -> ssize_t {
            return ::send(fd, message.data(), wanted.bytes, MSG_NOSIGNAL) > 0 ? 1 : -1;
        });
    };
    return stream(std::move(sockets.value()), place, deadline, receive_side, send_side);
}

Result<NetStreamTake> udp_trains(const NetPlace& place, const NetStream& wanted) {
    if (auto good = check(wanted); !good) return std::move(good).error();
    auto sockets = connect_udp(place);
    if (!sockets) return std::move(sockets).error();
    const Deadline deadline = Deadline::after_milliseconds(place.deadline_seconds * 1000);
    const int sender = sockets.value().a.get();
    const int receiver = sockets.value().b.get();
    int path_mtu = 0;
    socklen_t size = sizeof path_mtu;
    if (::getsockopt(sender, IPPROTO_IP, IP_MTU, &path_mtu, &size) != 0) {
        return base::system_error(errno, "ask for the path's MTU");
    }
    constexpr int headers = 20 + 8;  // IP's and UDP's
    constexpr std::size_t longest_train = 65507;
    const int packet = path_mtu - headers;
    const std::size_t train =
        longest_train / static_cast<std::size_t>(packet) * static_cast<std::size_t>(packet);
    const int yes = 1;
    if (::setsockopt(sender, IPPROTO_UDP, UDP_SEGMENT, &packet, sizeof packet) != 0 ||
        ::setsockopt(receiver, IPPROTO_UDP, UDP_GRO, &yes, sizeof yes) != 0) {
        return base::system_error(errno, "let the kernel cut trains into packets");
    }
    const timeval moment{0, 50'000};
    ::setsockopt(receiver, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
    const auto receive_side = [&](int fd, Received& received) {
        const Buffer buffer(wanted.bytes + 65536);
        std::size_t place_in_message = 0;
        return count_arrivals(wanted, true, deadline, received, [&] {
            const ssize_t count =
                ::recv(fd, buffer.data() + place_in_message, 65536, how_to_receive(wanted));
            if (count > 0) {
                place_in_message += static_cast<std::size_t>(count);
                if (place_in_message >= wanted.bytes) place_in_message = 0;
            }
            return count;
        });
    };
    const auto send_side = [&](int fd) {
        const Buffer message(wanted.bytes, 's');
        std::size_t sent_of_it = 0;
        return send_for(wanted, deadline, [&]() -> ssize_t {
            const std::size_t part = std::min(train, wanted.bytes - sent_of_it);
            if (::send(fd, message.data() + sent_of_it, part, MSG_NOSIGNAL) < 0) return -1;
            sent_of_it += part;
            if (sent_of_it < wanted.bytes) return 0;
            sent_of_it = 0;
            return 1;
        });
    };
    return in_messages(
        wanted, stream(std::move(sockets.value()), place, deadline, receive_side, send_side));
}

}  // namespace via::bench
