// SPDX-License-Identifier: BSD-3-Clause
// What tests of ports share: a taker that keeps packets, and sending and receiving with a deadline.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "na/net/interfaces.hpp"
#include "na/net/pairing.hpp"
#include "na/net/port.hpp"
#include "na/net/test_network.hpp"
#include "na/seeded.hpp"

namespace via::test {

using Packet = std::vector<std::byte>;

struct Collector final : na::net::PacketTaker {
    bool take(std::span<const std::byte> bytes, std::size_t packet_bytes) override {
        while (!bytes.empty()) {
            const auto packet = bytes.first(std::min(packet_bytes, bytes.size()));
            packets.emplace_back(packet.begin(), packet.end());
            bytes = bytes.subspan(packet.size());
        }
        return false;  // their lengths are what this is about
    }
    bool take_unmeasured(std::span<const std::byte> bytes) override {
        ADD_FAILURE() << "nobody said that " << bytes.size() << " bytes may come unmeasured";
        return false;
    }
    std::vector<Packet> packets;
};

/// The n-th packet of a test: its number, as far as there is room, and a pattern of its own.
inline Packet packet_of(std::uint64_t number, std::size_t bytes) {
    Packet packet(bytes);
    fill_pattern(packet, number);
    for (std::size_t i = 0; i < std::min(bytes, sizeof number); ++i)
        packet[i] = static_cast<std::byte>(number >> (8 * i));
    return packet;
}

inline na::net::SendOutcome send_now(na::net::Port& port, const Packet& packet) {
    const iovec part{const_cast<std::byte*>(packet.data()), packet.size()};
    return port.send({&part, 1}, static_cast<std::uint32_t>(packet.size()));
}

/// As one that has time: tries again while queues are full.
inline na::net::SendOutcome send_patiently(na::net::Port& port, const Packet& packet) {
    const auto deadline = base::Deadline::after_milliseconds(5000);
    for (;;) {
        const auto outcome = send_now(port, packet);
        const bool full =
            outcome == na::net::SendOutcome::Later || outcome == na::net::SendOutcome::Congested;
        if (!full || deadline.expired()) return outcome;
        ::poll(nullptr, 0, 1);
    }
}

/// Until there are `count` packets, or it has taken too long.
inline void receive_until(na::net::Port& port, Collector& collector, std::size_t count) {
    const auto deadline = base::Deadline::after_milliseconds(5000);
    while (collector.packets.size() < count && !deadline.expired())
        if (!port.receive(collector)) {
            pollfd entry{port.descriptor(), POLLIN, 0};
            ::poll(&entry, 1, 10);
        }
}

/// What is there now, and what comes within some milliseconds.
inline void receive_rest(na::net::Port& port, Collector& collector) {
    for (int quiet = 0; quiet < 20;) {
        if (port.receive(collector)) continue;
        pollfd entry{port.descriptor(), POLLIN, 0};
        if (::poll(&entry, 1, 1) != 1) ++quiet;
    }
}

/// The entry of interface `name` in that host, in the family.
inline na::net::LocalInterface local_interface(TestNetwork& network, TestNetwork::Host host,
                                               const std::string& name,
                                               na::net::Family family = na::net::Family::Ipv4) {
    return network.in(host, [&] {
        auto interfaces = na::net::read_interfaces();
        if (interfaces.ok())
            for (auto& local : na::net::interfaces_to_offer(
                     na::net::choose_interfaces(std::move(interfaces).value(), "")))
                if (local.name == name && local.entry.family == family) return local;
        ADD_FAILURE() << "no interface " << name;
        return na::net::LocalInterface{};
    });
}

}  // namespace via::test
