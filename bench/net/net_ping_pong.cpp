// SPDX-License-Identifier: BSD-3-Clause
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "bare/pinning.hpp"
#include "net/host_sockets.hpp"
#include "net/net_peers.hpp"
#include "two_processes.hpp"

namespace via::bench {

namespace {

using base::Deadline;
using base::Result;

/// All bytes of a message, sent or received without waiting in the kernel.
template <class Step>
Result<void> spin(std::size_t bytes, Deadline deadline, const char* what, const Step& step) {
    constexpr int looks_per_clock = 1 << 14;
    std::size_t done = 0;
    for (;;) {
        for (int look = 0; look < looks_per_clock; ++look) {
            const ssize_t count = step(done);
            if (count > 0) {
                done += static_cast<std::size_t>(count);
                if (done >= bytes) return {};
            } else if (count == 0) {
                return {base::Code::ConnectionLost, std::string(what) + ": the other side ended"};
            } else if (errno != EAGAIN && errno != EINTR) {
                return base::system_error(errno, what);
            }
        }
        if (deadline.expired()) {
            return {base::Code::Timeout, std::string(what) + ": nothing came in time"};
        }
    }
}

Result<void> send_all(int fd, const std::vector<char>& message, Deadline deadline) {
    return spin(message.size(), deadline, "send of a ping-pong", [&](std::size_t done) {
        return ::send(fd, message.data() + done, message.size() - done,
                      MSG_DONTWAIT | MSG_NOSIGNAL);
    });
}

Result<void> receive_all(int fd, std::vector<char>& message, Deadline deadline) {
    return spin(message.size(), deadline, "receive of a ping-pong", [&](std::size_t done) {
        return ::recv(fd, message.data() + done, message.size() - done, MSG_DONTWAIT);
    });
}

Result<void> echo(int fd, const NetPlace& place, const NetPingPong& wanted, Deadline deadline) {
    if (auto pinned = bare::pin_to(place.cores.second); !pinned) return pinned;
    std::vector<char> message(wanted.bytes);
    const std::uint64_t trips = (wanted.warm_up_samples + wanted.samples) * wanted.round_trips;
    for (std::uint64_t trip = 0; trip < trips; ++trip) {
        if (auto done = receive_all(fd, message, deadline); !done) return done;
        if (auto done = send_all(fd, message, deadline); !done) return done;
    }
    return {};
}

Result<std::vector<double>> ping_pong(HostSockets sockets, const NetPlace& place,
                                      const NetPingPong& wanted) {
    if (wanted.bytes == 0 || wanted.samples == 0 || wanted.round_trips == 0) {
        return {base::Code::InvalidArgument,
                "a ping-pong needs at least one sample of one round trip of one byte"};
    }
    const Deadline deadline = Deadline::after_milliseconds(place.deadline_seconds * 1000);
    auto companion = Companion::start([&](Companion&) -> Result<void> {
        sockets.a.reset();
        return echo(sockets.b.get(), place, wanted, deadline);
    });
    if (!companion) return std::move(companion).error();
    sockets.b.reset();
    auto pinned = bare::PinnedScope::on(place.cores.first);
    if (!pinned) return std::move(pinned).error();

    std::vector<char> message(wanted.bytes, 'm');
    std::vector<double> one_way;
    one_way.reserve(wanted.samples);
    const auto hops = static_cast<double>(2 * wanted.round_trips);
    for (std::uint64_t sample = 0; sample < wanted.warm_up_samples + wanted.samples; ++sample) {
        const base::Nanoseconds begin = base::monotonic_now();
        for (std::uint64_t trip = 0; trip < wanted.round_trips; ++trip) {
            if (auto done = send_all(sockets.a.get(), message, deadline); !done) {
                return std::move(done).error();
            }
            if (auto done = receive_all(sockets.a.get(), message, deadline); !done) {
                return std::move(done).error();
            }
        }
        const base::Nanoseconds end = base::monotonic_now();
        if (sample >= wanted.warm_up_samples) {
            one_way.push_back(static_cast<double>(end - begin) / hops);
        }
    }
    if (auto ended = companion.value().join(deadline); !ended) return std::move(ended).error();
    return one_way;
}

}  // namespace

Result<std::vector<double>> udp_ping_pong(const NetPlace& place, const NetPingPong& wanted) {
    auto sockets = connect_udp(place);
    if (!sockets) return std::move(sockets).error();
    return ping_pong(std::move(sockets.value()), place, wanted);
}

Result<std::vector<double>> tcp_ping_pong(const NetPlace& place, const NetPingPong& wanted) {
    auto sockets = connect_tcp(place, wanted.congestion);
    if (!sockets) return std::move(sockets).error();
    return ping_pong(std::move(sockets.value()), place, wanted);
}

}  // namespace via::bench
