// SPDX-License-Identifier: BSD-3-Clause
#include "net/net_probes.hpp"

#include <utility>

#include "net/fabric_peer.hpp"

namespace via::bench {

namespace {

using base::Result;

/// As many round trips between two looks at the clock as the tool's own ping-pong makes.
NetPingPong ping_pong_of(std::size_t bytes) {
    NetPingPong wanted;
    wanted.bytes = bytes;
    wanted.samples = 1500;
    wanted.round_trips = bytes <= 4096 ? 16 : bytes <= 65536 ? 4 : 1;
    return wanted;
}

using PingPong = Result<std::vector<double>> (*)(const NetPlace&, const NetPingPong&);

Probe latency(std::string label, PingPong ping_pong, const NetPlace& place, std::size_t bytes) {
    return {std::move(label),
            Quantity::OneWayMicroseconds,
            {},
            [ping_pong, place, wanted = ping_pong_of(bytes)]() -> Result<double> {
                auto nanoseconds = ping_pong(place, wanted);
                if (!nanoseconds) return std::move(nanoseconds).error();
                return bare::median(std::move(nanoseconds.value())) / 1000;
            }};
}

NetStream stream_of(std::size_t bytes, std::size_t messages_per_call, std::string congestion) {
    NetStream wanted;
    wanted.bytes = bytes;
    wanted.messages_per_call = messages_per_call;
    wanted.congestion = std::move(congestion);
    return wanted;
}

Result<NetStreamTake> faster_tcp_stream(const NetPlace& place, std::size_t bytes,
                                        std::size_t messages_per_call) {
    auto cubic = tcp_stream(place, stream_of(bytes, messages_per_call, "cubic"));
    if (!cubic) return cubic;
    auto bbr = tcp_stream(place, stream_of(bytes, messages_per_call, "bbr"));
    // Not every kernel has it.
    if (!bbr || bbr.value().bytes_per_second < cubic.value().bytes_per_second) return cubic;
    return bbr;
}

using Stream = Result<NetStreamTake> (*)(const NetPlace&, const NetStream&);

Probe stream(std::string label, Stream take_stream, const NetPlace& place, NetStream wanted) {
    return {std::move(label),
            Quantity::BytesPerSecond,
            {},
            [take_stream, place, wanted = std::move(wanted)]() -> Result<double> {
                auto take = take_stream(place, wanted);
                if (!take) return std::move(take).error();
                return take.value().bytes_per_second;
            }};
}

}  // namespace

Probe bare_udp_latency(const NetPlace& place, std::size_t bytes) {
    return latency("bare UDP", udp_ping_pong, place, bytes);
}

Probe bare_tcp_latency(const NetPlace& place, std::size_t bytes) {
    return latency("bare TCP", tcp_ping_pong, place, bytes);
}

Probe fabric_latency(const NetPlace& place, std::size_t bytes) {
    Probe probe = latency("libfabric tcp", fabric_ping_pong, place, bytes);
    probe.missing = fabric_missing();
    return probe;
}

Probe bare_tcp_stream(const NetPlace& place, std::size_t bytes, std::size_t messages_per_call,
                      const std::string& congestion) {
    return stream(congestion.empty() ? "TCP" : "TCP " + congestion, tcp_stream, place,
                  stream_of(bytes, messages_per_call, congestion));
}

Probe bare_udp_trains(const NetPlace& place, std::size_t bytes) {
    return stream("bare UDP trains", udp_trains, place, stream_of(bytes, 1, ""));
}

Probe bare_tcp_best_stream(const NetPlace& place, std::size_t bytes,
                           std::size_t messages_per_call) {
    // Not every kernel has the second.
    return best_of("TCP, the faster of cubic and BBR",
                   {bare_tcp_stream(place, bytes, messages_per_call, "cubic"),
                    bare_tcp_stream(place, bytes, messages_per_call, "bbr")});
}

Probe bare_tcp_best_cpu(const NetPlace& place, std::size_t bytes) {
    return {"TCP (the faster of cubic and BBR)",
            Quantity::CpuSecondsPerGigabyte,
            {},
            [place, bytes]() -> Result<double> {
                auto take = faster_tcp_stream(place, bytes, 1);
                if (!take) return std::move(take).error();
                return take.value().cpu_seconds_per_gigabyte();
            }};
}

Probe bare_udp_rate(const NetPlace& place, std::size_t bytes, bool receiver_spins) {
    NetStream wanted;
    wanted.bytes = bytes;
    wanted.receiver_spins = receiver_spins;
    return {
        receiver_spins ? "bare UDP, a send per message, spinning" : "bare UDP, a send per message",
        Quantity::MessagesPerSecond,
        {},
        [place, wanted]() -> Result<double> {
            auto take = udp_messages(place, wanted);
            if (!take) return std::move(take).error();
            return take.value().messages_per_second;
        }};
}

}  // namespace via::bench
