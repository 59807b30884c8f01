// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/simulated_network.hpp"

#include <algorithm>

namespace via::test {
namespace {

ka::RmmtEntry* table() {
    static auto* entries = new ka::RmmtEntry[ka::rmmt_entries]();
    return entries;
}

links::TransportTerms terms_of(std::size_t index, const NetworkOptions& options,
                               std::uint64_t seed) {
    links::TransportTerms terms;
    const std::uint64_t tokens = options.tokens != 0 ? options.tokens : seed * 2;
    terms.local_token = static_cast<std::uint32_t>(tokens + index);
    terms.remote_token = static_cast<std::uint32_t>(tokens + 1 - index);
    for (std::size_t i = 0; i < terms.key.size(); ++i)
        terms.key[i] = static_cast<std::uint8_t>(seed >> (i % 8 * 8));
    terms.requester = index == 0;
    terms.sealed = options.sealed;
    terms.policy = options.policy;
    terms.one_link = options.reliability == na::unreliable;
    return terms;
}

}  // namespace

std::uint32_t SimulatedNetwork::register_memory(void* address, std::uint64_t bytes,
                                                std::uint32_t rights, std::uint32_t tag) {
    static std::uint32_t last = 0;
    last = last % static_cast<std::uint32_t>(ka::rmmt_entries - 2) + 1;
    const std::uint32_t handle = last | 1U << 16U;
    ka::RmmtEntry& entry = table()[last];
    entry.address = reinterpret_cast<std::uint64_t>(address);
    entry.length = bytes;
    entry.tag = tag;
    entry.rights = rights;
    entry.stamp = ((entry.stamp >> 32) + 1) << 32 | handle;
    return handle;
}

void SimulatedNetwork::deregister_memory(std::uint32_t handle) {
    ka::RmmtEntry& entry = table()[ka::handle_index(handle)];
    entry.stamp = ((entry.stamp >> 32) + 1) << 32;
}

ka::RmmtView SimulatedNetwork::rmmt() {
    return ka::RmmtView(table());
}

SimulatedNetwork::SimulatedNetwork(std::uint64_t seed, const NetworkOptions& options)
    : seed_(seed),
      random_(seed),
      options_(options),
      faults_(options.links, options.faults),
      cut_(options.links),
      unplugged_(options.links),
      free_at_(options.links) {
    for (std::size_t i = 0; i < 2; ++i)
        sides_[i] = std::make_unique<Side>(*this, i, options);
    for (std::size_t i = 0; i < 2; ++i) {
        links::LinkLimits limits;
        limits.packet_bytes = options.packet_bytes;
        limits.long_packets = options.long_packets;
        limits.lends = options.lends;
        for (std::uint32_t link = 0; link < options.links; ++link)
            sides_[i]->transport.add_link(limits, now_);
        poll(i);
    }
}

SimulatedNetwork::~SimulatedNetwork() = default;

void SimulatedNetwork::add(Nanoseconds time, std::size_t side, std::size_t link,
                           std::vector<std::byte> packet, std::vector<Lent> lent) {
    events_.push({time, events_added_++, side, link, std::move(packet), std::move(lent)});
}

void SimulatedNetwork::read_lent(Event& event) noexcept {
    for (const Lent& lent : event.lent)
        std::copy(lent.memory.begin(), lent.memory.end(), event.packet.data() + lent.at);
}

/// One poll of a side is planned at a time, the earliest that was asked for.
void SimulatedNetwork::poll_at(Nanoseconds time, std::size_t side) {
    if (time >= next_poll_[side]) return;
    next_poll_[side] = time;
    add(time, side, 0, {});
}

links::SendOutcome SimulatedNetwork::send(std::size_t from, std::size_t link,
                                          std::span<const iovec> parts, std::size_t lent,
                                          std::uint32_t packet_bytes) {
    if (unplugged_[link]) return links::SendOutcome::LinkDown;
    if (happens(faults_[link].full))
        return random_.below(2) == 0 ? links::SendOutcome::Later : links::SendOutcome::Congested;
    std::vector<std::byte> train;
    std::vector<Lent> train_lent;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::span bytes(static_cast<const std::byte*>(parts[i].iov_base), parts[i].iov_len);
        if (i >= lent && options_.reads_late) train_lent.push_back({train.size(), bytes});
        train.insert(train.end(), bytes.begin(), bytes.end());
    }
    for (std::size_t at = 0; at < train.size(); at += packet_bytes) {
        const std::size_t end = std::min<std::size_t>(at + packet_bytes, train.size());
        std::vector<Lent> packet_lent;
        for (const Lent& one : train_lent) {
            const std::size_t first = std::max(at, one.at);
            const std::size_t last = std::min(end, one.at + one.memory.size());
            if (first < last)
                packet_lent.push_back(
                    {first - at, one.memory.subspan(first - one.at, last - first)});
        }
        carry(from, link,
              std::vector<std::byte>(train.begin() + static_cast<std::ptrdiff_t>(at),
                                     train.begin() + static_cast<std::ptrdiff_t>(end)),
              std::move(packet_lent));
    }
    return links::SendOutcome::Sent;
}

void SimulatedNetwork::carry(std::size_t from, std::size_t link, std::vector<std::byte> packet,
                             std::vector<Lent> lent) {
    const LinkFaults& faults = faults_[link];
    if (on_packet) on_packet(from, link, packet);
    note(static_cast<std::uint64_t>(now_));
    note(packet.size() << 8 | link << 1 | from);
    if (cut_[link][from] || now_ < partitioned_until_) return;
    if (swallows && swallows(from, link, packet)) return;
    Nanoseconds leaves = now_;
    if (faults.bytes_per_second > 0) {
        // On Ethernet a packet has 66 bytes more than the datagram it carries.
        const auto on_the_wire = static_cast<double>(packet.size() + 66);
        const Nanoseconds waits = std::max<Nanoseconds>(0, free_at_[link][from] - now_);
        if (static_cast<double>(waits) * faults.bytes_per_second / 1e9 > faults.queue_bytes) return;
        leaves += waits + static_cast<Nanoseconds>(on_the_wire * 1e9 / faults.bytes_per_second);
        free_at_[link][from] = leaves;
    }
    if (happens(faults.drop)) return;
    if (faults.longest_packet != 0 && packet.size() > faults.longest_packet) return;
    // What is damaged on its way has been read before.
    if (happens(faults.corrupt)) {
        lent.clear();
        packet[random_.below(static_cast<std::uint32_t>(packet.size()))] ^=
            static_cast<std::byte>(1U << random_.below(8));
    }
    if (happens(faults.truncate)) {
        lent.clear();
        packet.resize(1 + random_.below(static_cast<std::uint32_t>(packet.size())));
    }
    if (faults.replay != 0 && old_packets_.size() < 64) old_packets_.push_back(packet);
    const auto arrival = [&] {
        Nanoseconds time =
            leaves + faults.delay +
            static_cast<Nanoseconds>(random_.below(static_cast<std::uint32_t>(faults.jitter) + 1));
        if (happens(faults.late))
            time += static_cast<Nanoseconds>(random_.below(20'000)) * microsecond;
        return time;
    };
    if (happens(faults.duplicate)) add(arrival(), 1 - from, link, packet, lent);
    if (happens(faults.replay) && !old_packets_.empty())
        add(arrival(), 1 - from, link,
            old_packets_[random_.below(static_cast<std::uint32_t>(old_packets_.size()))]);
    add(arrival(), 1 - from, link, std::move(packet), std::move(lent));
}

void SimulatedNetwork::poll(std::size_t index) {
    Side& one = *sides_[index];
    one.transport.settle();
    one.transport.put_aside(random_.below(2) == 0);
    one.session.take_sends();
    one.transport.on_time(clock_of(index));
    one.transport.received_all(clock_of(index));
    one.transport.transmit(clock_of(index));
    if (one.transport.lost()) one.session.peer_lost();
    const Nanoseconds next = one.transport.next_deadline();
    if (next != links::never)
        poll_at(std::max(next - clock_ahead_[index], now_ + microsecond), index);
}

/// As a kernel does that joins datagrams (GRO): equal ones, and a shorter one ends them.
void SimulatedNetwork::join_with_next(Event& event) {
    const std::size_t length = event.packet.size();
    std::size_t last = length;
    while (last == length && !events_.empty() && happens(faults_[event.link].joined)) {
        Event next = events_.top();
        if (next.packet.empty() || next.side != event.side || next.link != event.link ||
            next.packet.size() > length || event.packet.size() + next.packet.size() > 65'000)
            return;
        last = next.packet.size();
        read_lent(next);
        event.packet.insert(event.packet.end(), next.packet.begin(), next.packet.end());
        now_ = std::max(now_, next.time);
        events_.pop();
    }
}

bool SimulatedNetwork::advance(Nanoseconds end) {
    if (events_.empty()) return false;
    if (events_.top().time > end) {
        now_ = end;
        return false;
    }
    Event event = events_.top();
    events_.pop();
    if (frozen_[event.side] > event.time) {
        if (event.packet.empty()) next_poll_[event.side] = frozen_[event.side];
        add(frozen_[event.side], event.side, event.link, std::move(event.packet),
            std::move(event.lent));
        return true;
    }
    now_ = std::max(now_, event.time);
    if (event.packet.empty()) {
        if (event.time < next_poll_[event.side]) return true;  // an earlier one has been
        next_poll_[event.side] = links::never;
        poll(event.side);
        return true;
    }
    read_lent(event);
    const std::size_t length = event.packet.size();
    join_with_next(event);
    links::Transport& transport = sides_[event.side]->transport;
    const std::uint32_t unmeasured = faults_[event.link].unmeasured;
    if (unmeasured != 0 && happens(unmeasured))
        (void)transport.receive_unmeasured(event.link, event.packet, clock_of(event.side));
    else
        transport.receive(event.link, event.packet, length, clock_of(event.side));
    // Whoever polls finds it soon.
    poll_at(now_ + static_cast<Nanoseconds>(random_.below(30)) * microsecond, event.side);
    return true;
}

SimulatedNetwork::Side::Side(SimulatedNetwork& network, std::size_t index,
                             const NetworkOptions& options)
    : network_(network),
      index_(index),
      counters(std::make_unique<base::ViCounters>()),
      queues(64, 16, 4096),
      session(queues, SimulatedNetwork::rmmt()),
      transport(session, *this, terms_of(index, options, network.seed_), network.now_) {
    queues.counters = counters.get();
    queues.local.reliability = options.reliability;
    queues.local.tag = 1;
    queues.local.rights = ka::right_rdma_read | ka::right_rdma_write;
}

namespace {

void post_chain(na::WorkQueue& queue, const na::ChainHead& head,
                const std::optional<na::PhysicalDescriptor>& remote,
                const std::optional<na::PhysicalDescriptor>& local, std::uint64_t cookie) {
    const std::uint32_t bits = head.operation == na::Operation::Receive ? na::status_op_receive
                               : head.operation == na::Operation::RdmaWrite
                                   ? na::status_op_rdma_write
                               : head.operation == na::Operation::RdmaRead ? na::status_op_rdma_read
                                                                           : na::status_op_send;
    queue.make_room(3);
    queue.post(cookie, 0, head.chain_pds(), bits);
    queue.pds.push(na::encode_head(head));
    if (remote) queue.pds.push(*remote);
    if (local) queue.pds.push(*local);
}

std::optional<na::PhysicalDescriptor> segment(const void* address, std::size_t bytes,
                                              std::uint32_t handle) {
    if (bytes == 0) return std::nullopt;
    return na::PhysicalDescriptor{reinterpret_cast<std::uint64_t>(address),
                                  static_cast<std::uint32_t>(bytes), handle};
}

}  // namespace

void SimulatedNetwork::Side::post_send(std::span<const std::byte> data, std::uint32_t handle,
                                       std::optional<std::uint32_t> immediate, std::uint64_t cookie,
                                       bool fence) {
    const auto local = segment(data.data(), data.size(), handle);
    na::ChainHead head{na::Operation::Send, 0, static_cast<std::uint16_t>(local ? 1 : 0),
                       static_cast<std::uint32_t>(data.size()), immediate.value_or(0)};
    if (immediate) head.flags |= na::pd_immediate;
    if (fence) head.flags |= na::pd_fence;
    // Every other one that may go past the ring does.
    if (local && !fence && !queues.send.has_unstarted() && ++plain_sends_ % 2 == 0) {
        const std::uint64_t entry = queues.send.post_taken(cookie, 0, na::status_op_send);
        if (session.take_send(entry, *local, immediate.has_value(), immediate.value_or(0))) return;
        queues.send.take_back();
    }
    post_chain(queues.send, head, std::nullopt, local, cookie);
}

void SimulatedNetwork::Side::post_write(std::span<const std::byte> data, std::uint32_t handle,
                                        const void* target, std::uint32_t target_handle,
                                        std::optional<std::uint32_t> immediate,
                                        std::uint64_t cookie) {
    const auto local = segment(data.data(), data.size(), handle);
    na::ChainHead head{na::Operation::RdmaWrite, 0, static_cast<std::uint16_t>(local ? 1 : 0),
                       static_cast<std::uint32_t>(data.size()), immediate.value_or(0)};
    if (immediate) head.flags |= na::pd_immediate;
    post_chain(queues.send, head,
               na::PhysicalDescriptor{reinterpret_cast<std::uint64_t>(target), 0, target_handle},
               local, cookie);
}

void SimulatedNetwork::Side::post_read(std::span<std::byte> place, std::uint32_t handle,
                                       const void* source, std::uint32_t source_handle,
                                       std::uint64_t cookie) {
    const auto local = segment(place.data(), place.size(), handle);
    const na::ChainHead head{na::Operation::RdmaRead, 0, static_cast<std::uint16_t>(local ? 1 : 0),
                             static_cast<std::uint32_t>(place.size()), 0};
    post_chain(queues.send, head,
               na::PhysicalDescriptor{reinterpret_cast<std::uint64_t>(source), 0, source_handle},
               local, cookie);
}

void SimulatedNetwork::Side::post_receive(std::span<std::byte> place, std::uint32_t handle,
                                          std::uint64_t cookie) {
    const auto local = segment(place.data(), place.size(), handle);
    const na::ChainHead head{na::Operation::Receive, 0, static_cast<std::uint16_t>(local ? 1 : 0),
                             static_cast<std::uint32_t>(place.size()), 0};
    post_chain(queues.receive, head, std::nullopt, local, cookie);
}

std::optional<na::WorkEntry> SimulatedNetwork::Side::completed(na::WorkQueue& queue) {
    if (!queue.harvestable()) return std::nullopt;
    const na::WorkEntry entry = queue.harvest();
    queue.reap();
    return entry;
}

}  // namespace via::test
