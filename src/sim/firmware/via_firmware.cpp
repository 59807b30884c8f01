// SPDX-License-Identifier: BSD-3-Clause
#include "sim/firmware/via_firmware.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "sim/core/all.hpp"

namespace via::sim {
namespace {

std::uint32_t count_of(double value) {
    return static_cast<std::uint32_t>(value);
}

}  // namespace

std::span<const Declaration<ViaFirmware>> via_firmware_parameters() {
    using F = ViaFirmware;
    static constexpr std::array declarations{
        Declaration<F>{"notice", "cycles", 0, 1e6, &F::notice,
                       "until the loop sees a new descriptor or doorbell"},
        Declaration<F>{"descriptor", "cycles", 0, 1e6, &F::descriptor, "handling a descriptor"},
        Declaration<F>{"descriptor_fetch", "bytes", 0, 4096, &F::descriptor_fetch,
                       "fetched by DMA for it; 0: the host has written it"},
        Declaration<F>{"translate", "cycles", 0, 1e6, &F::translate,
                       "the address of a page; 0: the host has translated it"},
        Declaration<F>{"start_transfer", "cycles", 0, 1e6, &F::start_transfer, "starting a DMA"},
        Declaration<F>{"header", "cycles", 0, 1e6, &F::header, "making a packet's header"},
        Declaration<F>{"start_send", "cycles", 0, 1e6, &F::start_send, "starting to send"},
        Declaration<F>{"status", "cycles", 0, 1e6, &F::status, "preparing the host's status"},
        Declaration<F>{"status_bytes", "bytes", 1, 4096, &F::status_bytes, "of the host's status"},
        Declaration<F>{"receive_packet", "cycles", 0, 1e6, &F::receive_packet,
                       "looking at a packet that has come"},
        Declaration<F>{"receive_descriptor", "cycles", 0, 1e6, &F::receive_descriptor,
                       "handling the descriptor that it goes to"},
        Declaration<F>{"stage", "cycles", 0, 1e6, &F::stage,
                       "locks and state machine, for each stage"},
        Declaration<F>{"contended_stage", "cycles", 0, 1e6, &F::contended_stage,
                       "more than that while another message is in the pipeline"},
        Declaration<F>{"largest_piece", "bytes", 64, 1 << 20, &F::largest_piece,
                       "moved by one DMA and sent as one packet"},
        Declaration<F>{"buffers", "buffers", 1, 64, &F::buffers,
                       "of NIC memory each way; 1: nothing overlaps"},
        Declaration<F>{"overlaps_messages", "yes/no", 0, 1, &F::overlaps_messages,
                       "the next message begins before this one is through"},
        Declaration<F>{"chained", "yes/no", 0, 1, &F::chained, "data and status in one DMA chain"},
        Declaration<F>{"host_writes", "bytes", 1, 4096, &F::host_writes,
                       "what the host writes into NIC memory to post"},
        Declaration<F>{"host_post", "us", 0, 1000, &F::host_post,
                       "the user agent's work before that"},
    };
    return declarations;
}

ViaNic::ViaNic(Simulation& simulation, PciBus& bus, const Machine& machine, const Nic& nic,
               const ViaFirmware& firmware, Link& out, Link& in, const std::string& name)
    : simulation_(simulation),
      firmware_(firmware),
      hardware_(simulation, bus, machine, nic, name),
      out_(out),
      in_(in),
      posted_(simulation),
      received_(simulation),
      send_buffers_(simulation, name + " send buffers", count_of(firmware.buffers)),
      // One whose descriptor is looked at while the others have the buffers.
      sending_(simulation, name + " sends",
               firmware.overlaps_messages > 0 ? count_of(firmware.buffers) + 1 : 1),
      fetching_(simulation, name + " fetches"),
      receiving_(simulation, name + " receives",
                 firmware.overlaps_messages > 0 ? count_of(firmware.buffers) : 1) {}

void ViaNic::start() {
    simulation_.spawn(send_loop());
    simulation_.spawn(receive_loop());
}

Task<> ViaNic::send_loop() {
    for (;;) {
        Message message = co_await posted_.take();
        message.number = ++last_message_;
        Hold turn = co_await sending_.acquire();
        simulation_.spawn(send_message(message, std::move(turn)));
    }
}

Task<> ViaNic::fetch_descriptor(std::uint64_t message) {
    if (firmware_.descriptor_fetch <= 0) co_return;
    co_await work(firmware_.start_transfer, "start descriptor fetch", message);
    co_await hardware_.transfer(Toward::Nic, static_cast<std::uint64_t>(firmware_.descriptor_fetch),
                                "fetch descriptor", message);
}

Task<> ViaNic::send_message(Message message, [[maybe_unused]] Hold turn) {
    const std::uint64_t number = message.number;
    ++under_way_;
    co_await work(firmware_.notice + firmware_.descriptor, "descriptor", number);
    co_await fetch_descriptor(number);
    if (firmware_.buffers > 1) {
        // The next piece is fetched while this one is sent.
        Mailbox<Fetched> fetched(simulation_);
        co_await all(fetch_pieces(message, fetched), send_pieces(message, fetched));
    } else {
        const auto largest = static_cast<std::uint64_t>(firmware_.largest_piece);
        for (std::uint64_t done = 0; done < message.bytes;) {
            const std::uint64_t now = std::min(largest, message.bytes - done);
            done += now;
            Fetched piece = co_await fetch_piece(number, now, done == message.bytes);
            co_await send_piece(message, std::move(piece));
        }
    }
    if (firmware_.chained <= 0) {
        co_await work(firmware_.status, "status", number);
        co_await hardware_.transfer(
            Toward::Host, static_cast<std::uint64_t>(firmware_.status_bytes), "status", number);
    }
    --under_way_;
}

Task<ViaNic::Fetched> ViaNic::fetch_piece(std::uint64_t message, std::uint64_t bytes, bool last) {
    Fetched piece{bytes, last, {}};
    piece.buffer = co_await send_buffers_.acquire();
    co_await work(firmware_.translate + firmware_.start_transfer, "start fetch", message);
    if (firmware_.chained > 0 && last) {
        co_await hardware_.transfer_chain(Toward::Nic, bytes, Toward::Host,
                                          static_cast<std::uint64_t>(firmware_.status_bytes),
                                          "fetch", message);
    } else {
        co_await hardware_.transfer(Toward::Nic, bytes, "fetch", message);
    }
    co_return piece;
}

Task<> ViaNic::send_piece(Message message, Fetched piece) {
    co_await work(firmware_.header + firmware_.start_send, "header", message.number);
    Packet packet;
    packet.message = message.number;
    packet.bytes = piece.bytes;
    packet.last = piece.last;
    packet.flow = message.flow;
    co_await hardware_.transmit(out_, std::move(packet));
}

Task<> ViaNic::fetch_pieces(Message message, Mailbox<Fetched>& fetched) {
    const auto largest = static_cast<std::uint64_t>(firmware_.largest_piece);
    // The pieces of one message stay together.
    Hold turn;
    if (message.bytes > largest) turn = co_await fetching_.acquire();
    for (std::uint64_t done = 0; done < message.bytes;) {
        const std::uint64_t now = std::min(largest, message.bytes - done);
        done += now;
        Fetched piece = co_await fetch_piece(message.number, now, done == message.bytes);
        co_await fetched.put(std::move(piece));
    }
}

Task<> ViaNic::send_pieces(Message message, Mailbox<Fetched>& fetched) {
    bool last = false;
    while (!last) {
        Fetched piece = co_await fetched.take();
        last = piece.last;
        co_await send_piece(message, std::move(piece));
    }
}

Task<> ViaNic::receive_loop() {
    for (;;) {
        Packet packet = co_await in_.arrivals().take();
        Hold turn = co_await receiving_.acquire();
        simulation_.spawn(receive_piece(std::move(packet), std::move(turn)));
    }
}

Task<> ViaNic::receive_piece(Packet packet, [[maybe_unused]] Hold turn) {
    const std::uint64_t message = packet.message;
    const bool first = std::exchange(message_begins_, packet.last);
    ++under_way_;
    co_await work(firmware_.receive_packet, "packet", message);
    if (first) {
        co_await work(firmware_.receive_descriptor, "receive descriptor", message);
        co_await fetch_descriptor(message);
    }
    co_await work(firmware_.translate + firmware_.start_transfer, "start store", message);
    const auto status = static_cast<std::uint64_t>(firmware_.status_bytes);
    if (firmware_.chained > 0 && packet.last) {
        co_await hardware_.transfer_chain(Toward::Host, packet.bytes, Toward::Host, status, "store",
                                          message);
    } else {
        co_await hardware_.transfer(Toward::Host, packet.bytes, "store", message);
        if (packet.last) {
            co_await work(firmware_.status, "status", message);
            co_await hardware_.transfer(Toward::Host, status, "status", message);
        }
    }
    packet.buffer.release();
    --under_way_;
    arrived_ += packet.bytes;
    if (!packet.last) co_return;
    const Message received{message, std::exchange(arrived_, 0), packet.flow};
    co_await received_.put(received);
}

}  // namespace via::sim
