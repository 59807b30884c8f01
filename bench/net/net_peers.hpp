// SPDX-License-Identifier: BSD-3-Clause
// What plain sockets do between two hosts of a lab, so that ours can be set beside it: ping-pongs
// of two spinning processes, streams of plain loops. Side one is host a, side two host b, each in a
// process of its own on a core of its own. One call is one take; every call ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bare/bare_limits.hpp"
#include "base/clock.hpp"
#include "base/result.hpp"
#include "lab/lab.hpp"

namespace via::bench {

struct NetPlace {
    const lab::Lab* lab = nullptr;
    unsigned link = 0;
    bare::CorePair cores;  ///< first: host a
    std::uint64_t deadline_seconds = 20;
};

struct NetPingPong {
    std::size_t bytes = 8;
    std::uint64_t samples = 500;         ///< values returned
    std::uint64_t round_trips = 16;      ///< per sample: the clock is read once in so many
    std::uint64_t warm_up_samples = 50;  ///< taken first and thrown away
    std::string congestion;              ///< TCP: "cubic", "bbr"; empty: the system's choice
};

/// One-way times in nanoseconds (half a round trip), one value per sample. Both sides spin on
/// receives that do not wait.
[[nodiscard]] base::Result<std::vector<double>> udp_ping_pong(const NetPlace& place,
                                                              const NetPingPong& wanted);
/// With TCP_NODELAY.
[[nodiscard]] base::Result<std::vector<double>> tcp_ping_pong(const NetPlace& place,
                                                              const NetPingPong& wanted);

struct NetStream {
    std::size_t bytes = 1 << 20;           ///< of a message
    std::size_t messages_per_call = 1;     ///< more than one: writev. UDP: always one
    base::Nanoseconds time = 400'000'000;  ///< how long the sender sends
    std::string congestion;
    bool receiver_spins = false;  ///< instead of waiting in the kernel
};

struct NetStreamTake {
    double bytes_per_second = 0;  ///< of what arrived, without the first fifth of the time
    double messages_per_second = 0;
    std::uint64_t bytes = 0;  ///< all that arrived
    std::uint64_t messages = 0;
    std::uint64_t messages_sent = 0;
    /// User and system time of the two processes, for all that was sent. On a veth the sender's
    /// system time holds most of what the kernel does for the receiver.
    double sender_cpu_seconds = 0;
    double receiver_cpu_seconds = 0;

    [[nodiscard]] double cpu_seconds_per_gigabyte() const {
        return bytes == 0
                   ? 0
                   : (sender_cpu_seconds + receiver_cpu_seconds) * 1e9 / static_cast<double>(bytes);
    }
};

/// From a to b: a loop of write and a loop of read. The reader's buffer is as large as a message,
/// at least 64 KB.
[[nodiscard]] base::Result<NetStreamTake> tcp_stream(const NetPlace& place,
                                                     const NetStream& wanted);
/// From a to b: one send and one receive per message. What the receiver is too slow for is lost and
/// not counted.
[[nodiscard]] base::Result<NetStreamTake> udp_messages(const NetPlace& place,
                                                       const NetStream& wanted);
/// From a to b, messages in trains that the kernel cuts into packets (UDP_SEGMENT, UDP_GRO), and
/// nothing else: no checksum, no acknowledgement, nothing sent again. What any protocol over UDP
/// can reach at most. Lost trains are not counted.
[[nodiscard]] base::Result<NetStreamTake> udp_trains(const NetPlace& place,
                                                     const NetStream& wanted);

}  // namespace via::bench
