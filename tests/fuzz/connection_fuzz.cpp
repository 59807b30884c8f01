// SPDX-License-Identifier: BSD-3-Clause
// One end of a connection against a peer that has the key and does anything with it. The input is a
// script: what comes (bytes as they are, or frames that get a right header and checksum) and what
// the victim's program does meanwhile. Memory that the peer may not write stays as it was, memory
// behind and before what is registered can not be touched at all, and every descriptor is accounted
// for.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "fuzz/script.hpp"
#include "links/transport.hpp"
#include "na/net/session.hpp"

using namespace via;
using namespace via::test;

namespace {

constexpr std::uint32_t open_handle = 1 | 1U << 16U;    ///< anything is allowed
constexpr std::uint32_t secret_handle = 2 | 1U << 16U;  ///< nothing is
constexpr std::uint32_t local_handle = 3 | 1U << 16U;   ///< the program's own buffers

/// Registered memory, and the table that says so.
struct Memory : ExposedMemory {
    GuardedMemory local{8192};
    std::unique_ptr<ka::RmmtEntry[]> table{new ka::RmmtEntry[ka::rmmt_entries]()};

    Memory() {
        enter(open_handle, open, ka::right_rdma_write | ka::right_rdma_read);
        enter(secret_handle, secret, 0);
        enter(local_handle, local, 0);
    }
    void enter(std::uint32_t handle, const GuardedMemory& memory, std::uint32_t rights) {
        ka::RmmtEntry& entry = table[ka::handle_index(handle)];
        entry.address = reinterpret_cast<std::uint64_t>(memory.data());
        entry.length = memory.size();
        entry.tag = 1;
        entry.rights = rights;
        entry.stamp = ((entry.stamp >> 32) + 1) << 32 | handle;
    }
    void leave(std::uint32_t handle) {
        ka::RmmtEntry& entry = table[ka::handle_index(handle)];
        entry.stamp = ((entry.stamp >> 32) + 1) << 32;
    }
    [[nodiscard]] std::uint64_t address(std::uint32_t handle) const {
        const GuardedMemory& memory = handle == open_handle     ? open
                                      : handle == secret_handle ? secret
                                                                : local;
        return reinterpret_cast<std::uint64_t>(memory.data());
    }
};

Memory& memory() {
    static auto* one = new Memory;
    return *one;
}

constexpr std::size_t links_used = 2;
constexpr base::Nanoseconds start = 1'000'000'000;

class Victim : private links::Output {
  public:
    Victim(std::uint32_t reliability, bool sealed)
        : queues(16, 4, 256),
          session(queues, ka::RmmtView(memory().table.get())),
          transport(session, *this, terms_of(reliability, sealed), start),
          guard_(terms_of(reliability, sealed).key, true, sealed),
          sealed_(sealed) {
        queues.counters = &counters_;
        queues.local.reliability = reliability;
        queues.local.tag = 1;
        queues.local.rights = ka::right_rdma_read | ka::right_rdma_write;
        for (std::size_t i = 0; i < links_used; ++i)
            transport.add_link({}, now_);
    }

    void raw(std::size_t link, std::span<const std::byte> bytes) {
        last_.assign(bytes.begin(), bytes.end());
        last_link_ = link;
        const std::size_t datagram_bytes = std::exchange(datagram_bytes_, 0);
        if (unmeasured_) {
            (void)transport.receive_unmeasured(link, last_, now_);
        } else if (datagram_bytes == 0) {
            transport.receive(link, last_, now_);
        } else if (!one_by_one_) {
            transport.receive(link, last_, datagram_bytes, now_);
        } else {
            for (std::span<const std::byte> rest = last_; !rest.empty();) {
                const auto first = rest.first(std::min(datagram_bytes, rest.size()));
                transport.receive(link, first, now_);
                rest = rest.subspan(first.size());
            }
        }
    }
    /// The next packet is a long one, in datagrams of that length; or cut so, whatever it is.
    void next_is_long(std::size_t datagram_bytes, bool with_prefix, bool one_by_one) {
        datagram_bytes_ = datagram_bytes;
        with_prefix_ = with_prefix;
        one_by_one_ = one_by_one;
    }
    /// From now on nobody asks for the length of datagrams, or everybody does again.
    void measure(bool on) { unmeasured_ = !on; }
    /// Frames in a packet as an honest peer would send it.
    void frames(std::size_t link, std::span<const std::byte> body, std::uint64_t number) {
        std::vector<std::byte> frames(body.begin(), body.end());
        point_to_memory(frames);
        packet(link, frames, number, {});
    }
    void frames(std::size_t link, std::span<const std::byte> body) {
        frames(link, body, next_[link]++);
    }
    /// The operation's number is near those that are under way.
    void continuation(std::size_t link, std::span<const std::byte> body, std::uint8_t message) {
        wire::PacketHeader header;
        header.flags = wire::packet_continues;
        header.message_high = message < 0x80 ? std::uint8_t{0} : message;
        packet(link, body, next_[link]++, header);
    }
    void repeat() { transport.receive(last_link_, last_, now_); }
    void poll() {
        session.take_sends();
        transport.on_time(now_);
        transport.received_all(now_);
        transport.transmit(now_);
        if (transport.lost()) session.peer_lost();
        reap();
    }
    void pass(base::Nanoseconds time) { now_ += time; }
    void disconnect() {
        const wire::CloseFrame reason = session.reason();
        session.detach();
        transport.close(reason, now_);
    }
    void post(na::WorkQueue& queue, na::ChainHead head, const na::PhysicalDescriptor* remote,
              const na::PhysicalDescriptor& local) {
        if (queue.full()) return;
        queue.make_room(3);
        queue.post(++posted, 0, head.chain_pds(), 0);
        queue.pds.push(na::encode_head(head));
        if (remote != nullptr) queue.pds.push(*remote);
        if (head.segments != 0) queue.pds.push(local);
    }
    void reap() {
        for (na::WorkQueue* queue : {&queues.send, &queues.receive})
            while (queue->harvestable()) {
                (void)queue->harvest();
                queue->reap();
                ++reaped;
            }
    }
    void set_outcome(std::uint8_t choice) {
        outcome_ = static_cast<links::SendOutcome>(choice % 5);
    }

    na::QueuePair queues;
    na::net::Session session;
    links::Transport transport;
    std::uint64_t posted = 0;
    std::uint64_t reaped = 0;

  private:
    void packet(std::size_t link, std::span<const std::byte> body, std::uint64_t number,
                wire::PacketHeader header) {
        std::vector<std::byte> bytes(wire::PacketHeader::bytes);
        bytes.insert(bytes.end(), body.begin(), body.end());
        bytes.resize(bytes.size() + guard_.overhead());
        header.token = local_token;
        header.number = static_cast<std::uint32_t>(number);
        header.link = static_cast<std::uint8_t>(link);
        if (sealed_) header.flags |= wire::packet_sealed;
        wire::encode(bytes.data(), header);
        const iovec part{bytes.data(), bytes.size()};
        guard_.protect(header, number, {&part, 1});
        if (datagram_bytes_ != 0 && with_prefix_) {
            std::array<std::byte, wire::LongPacketPrefix::bytes> prefix;
            wire::encode(prefix.data(), wire::LongPacketPrefix{
                                            local_token, static_cast<std::uint32_t>(bytes.size())});
            bytes.insert(bytes.begin(), prefix.begin(), prefix.end());
        }
        raw(link, bytes);
    }
    static constexpr std::uint32_t local_token = 0x11111111;
    static links::TransportTerms terms_of(std::uint32_t reliability, bool sealed) {
        links::TransportTerms terms;
        terms.local_token = local_token;
        terms.remote_token = 0x22222222;
        terms.key.fill(9);
        terms.sealed = sealed;
        terms.one_link = reliability == na::unreliable;
        return terms;
    }
    /// Addresses and handles are of no use to a fuzzer. Handle 0, 1, 2 mean the open, the secret
    /// and the program's memory, and the address is an offset there; other handles are left.
    static void point_to_memory(std::span<std::byte> body) {
        while (body.size() >= 12) {
            const auto type = static_cast<wire::FrameType>(body[0]);
            std::size_t bytes = 0;
            switch (type) {
                case wire::FrameType::Acknowledgement:
                    bytes = wire::AcknowledgementFrame::fixed_bytes +
                            std::to_integer<std::size_t>(body[2]) *
                                wire::AcknowledgementFrame::range_bytes;
                    break;
                case wire::FrameType::Ping:
                case wire::FrameType::Pong:
                case wire::FrameType::Close:
                case wire::FrameType::Closed:
                    bytes = 12;
                    break;
                case wire::FrameType::Send:
                case wire::FrameType::RdmaWrite:
                case wire::FrameType::ReadRequest:
                case wire::FrameType::ReadData: {
                    const std::size_t header =
                        wire::data_frame_header_bytes(type, std::to_integer<std::uint8_t>(body[1]));
                    if (header > body.size()) return;
                    if (type == wire::FrameType::RdmaWrite ||
                        type == wire::FrameType::ReadRequest) {
                        std::byte* target = body.data() + header - 12;
                        const auto handle = wire::load<std::uint32_t>(target + 8);
                        if (handle <= 2) {
                            constexpr std::array handles{open_handle, secret_handle, local_handle};
                            const auto offset = wire::load<std::uint16_t>(target);
                            wire::store(target + 8, handles[handle]);
                            wire::store(target, memory().address(handles[handle]) + offset - 64);
                        }
                    }
                    bytes = header + wire::load<std::uint16_t>(body.data() + 2);
                    break;
                }
                default:
                    return;
            }
            if (bytes > body.size()) return;
            body = body.subspan(bytes);
        }
    }

    links::SendOutcome send(std::size_t link, std::span<const iovec> parts,
                            std::uint32_t packet_bytes) override {
        require(link < links_used && packet_bytes <= 1400);
        // Everything that goes out can be read, and the train keeps its length.
        std::size_t bytes = 0;
        unsigned sum = 0;
        for (const iovec& part : parts) {
            bytes += part.iov_len;
            const auto* at = static_cast<const unsigned char*>(part.iov_base);
            for (std::size_t i = 0; i < part.iov_len; ++i)
                sum += at[i];
        }
        sum_ += sum;
        require(bytes != 0 && bytes <= links::Train::most_bytes);
        return outcome_;
    }
    std::uint32_t packet_bytes(std::size_t) override { return 1300; }
    void link_changed(std::size_t, links::LinkState, links::LinkState) override {}

    base::Nanoseconds now_ = start;
    base::ViCounters counters_;
    wire::PacketGuard guard_;
    bool sealed_;
    std::array<std::uint64_t, links_used> next_{};
    std::vector<std::byte> last_;
    std::size_t last_link_ = 0;
    std::size_t datagram_bytes_ = 0;  ///< of the next packet; 0: it is one
    bool with_prefix_ = false;
    bool one_by_one_ = false;
    bool unmeasured_ = false;
    links::SendOutcome outcome_ = links::SendOutcome::Sent;
    volatile unsigned sum_ = 0;
};

na::PhysicalDescriptor piece(Script& script) {
    const std::uint32_t offset = script.take<std::uint16_t>() % 4096U;
    const std::uint32_t bytes = 1 + script.take<std::uint16_t>() % 4096U;
    return {memory().address(local_handle) + offset, bytes, local_handle};
}

void run(Script script) {
    const auto first = script.take<std::uint8_t>();
    Victim victim(1U << (first % 3), (first & 0x80) != 0);
    for (int steps = 0; steps < 500 && script.more(); ++steps) {
        switch (script.take<std::uint8_t>() % 16) {
            case 2: {
                const auto message = script.take<std::uint8_t>();
                victim.continuation(0, script.bytes(script.take<std::uint16_t>() % 2048), message);
                break;
            }
            case 0:
            case 1:
                victim.frames(0, script.bytes(script.take<std::uint16_t>() % 2048));
                break;
            case 3:
                victim.frames(1, script.bytes(script.take<std::uint16_t>() % 2048));
                break;
            case 4: {  // any number, not only the next
                const auto number = script.take<std::uint64_t>() >> 16;
                victim.frames(0, script.bytes(script.take<std::uint16_t>() % 2048), number);
                break;
            }
            case 5:
                victim.raw(script.take<std::uint8_t>() % 3,
                           script.bytes(script.take<std::uint16_t>() % 2048));
                break;
            case 6:
            case 7: {
                const na::PhysicalDescriptor local = piece(script);
                victim.post(victim.queues.receive, {na::Operation::Receive, 0, 1, local.length, 0},
                            nullptr, local);
                break;
            }
            case 8: {
                const auto flags = script.take<std::uint8_t>();
                const na::PhysicalDescriptor local = piece(script);
                const bool empty = (flags & 0x10) != 0;
                victim.post(
                    victim.queues.send,
                    {na::Operation::Send, static_cast<std::uint8_t>(flags & 3),
                     static_cast<std::uint16_t>(empty ? 0 : 1), empty ? 0 : local.length, flags},
                    nullptr, local);
                break;
            }
            case 9: {
                const auto flags = script.take<std::uint8_t>();
                const na::PhysicalDescriptor local = piece(script);
                const na::PhysicalDescriptor remote{script.take<std::uint32_t>(), 0, 5};
                victim.post(victim.queues.send,
                            {(flags & 4) != 0 ? na::Operation::RdmaRead : na::Operation::RdmaWrite,
                             static_cast<std::uint8_t>(flags & 3), 1, local.length, flags},
                            &remote, local);
                break;
            }
            case 10:
                victim.pass(base::Nanoseconds{script.take<std::uint16_t>()} * 10'000);
                break;
            case 11:
                victim.set_outcome(script.take<std::uint8_t>());
                break;
            case 12: {
                const auto choice = script.take<std::uint8_t>();
                const std::uint32_t handle = (choice & 1) != 0 ? open_handle : local_handle;
                if ((choice & 2) != 0)
                    memory().leave(handle);
                else
                    memory().enter(
                        handle, handle == open_handle ? memory().open : memory().local,
                        handle == open_handle ? ka::right_rdma_write | ka::right_rdma_read : 0);
                break;
            }
            case 13:
                victim.repeat();
                break;
            case 14: {
                const auto choice = script.take<std::uint8_t>();
                if (choice < 16)
                    victim.disconnect();
                else if (choice < 32)
                    victim.measure(choice < 24);
                else
                    victim.next_is_long(choice & 0xF8U, (choice & 1) != 0, (choice & 2) != 0);
                break;
            }
            default:
                victim.poll();
                break;
        }
    }
    victim.set_outcome(0);
    for (int i = 0; i < 4; ++i) {
        victim.pass(20'000'000);
        victim.poll();
    }
    victim.disconnect();
    victim.queues.send.flush();
    victim.queues.receive.flush();
    victim.reap();
    require(victim.reaped == victim.posted);
    victim.pass(2'000'000'000);
    victim.poll();
    require(victim.transport.closed());
    memory().require_untouched();
    memory().enter(open_handle, memory().open, ka::right_rdma_write | ka::right_rdma_read);
    memory().enter(local_handle, memory().local, 0);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
    base::set_log_level(base::LogLevel::Silent);
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    run(Script(data, size));
    return 0;
}
