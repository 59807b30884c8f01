// SPDX-License-Identifier: BSD-3-Clause
// Plain sockets between hosts of a lab as probes.
#pragma once

#include "net/net_peers.hpp"
#include "probe.hpp"

namespace via::bench {

[[nodiscard]] Probe bare_udp_latency(const NetPlace& place, std::size_t bytes);
[[nodiscard]] Probe bare_tcp_latency(const NetPlace& place, std::size_t bytes);
/// `congestion`: "cubic", "bbr"; empty: the system's choice.
[[nodiscard]] Probe bare_tcp_stream(const NetPlace& place, std::size_t bytes,
                                    std::size_t messages_per_call, const std::string& congestion);
/// The faster of cubic and BBR, both taken each time.
[[nodiscard]] Probe bare_tcp_best_stream(const NetPlace& place, std::size_t bytes,
                                         std::size_t messages_per_call);
/// Processor time of both sides in the faster of the two.
[[nodiscard]] Probe bare_tcp_best_cpu(const NetPlace& place, std::size_t bytes);
/// Messages in trains, with nothing that makes them arrive: the limit of what goes over UDP.
[[nodiscard]] Probe bare_udp_trains(const NetPlace& place, std::size_t bytes);
[[nodiscard]] Probe fabric_latency(const NetPlace& place, std::size_t bytes);
[[nodiscard]] Probe bare_udp_rate(const NetPlace& place, std::size_t bytes, bool receiver_spins);

}  // namespace via::bench
