// SPDX-License-Identifier: BSD-3-Clause
#include "sim/firmware/via_firmware.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

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
               const ViaFirmware& firmware, Locality locality, Link& out, Link& in,
               const std::string& name)
    : simulation_(simulation),
      firmware_(firmware),
      hardware_(simulation, bus, machine, nic, name),
      out_(out),
      in_(in),
      posted_(simulation),
      received_(simulation),
      send_buffers_(simulation, name + " send buffers", count_of(firmware.buffers)),
      fetched_(simulation),
      ready_(simulation, 1),
      // One whose descriptor is looked at while the others have the buffers.
      sending_(simulation, name + " sends",
               firmware.overlaps_messages > 0 ? count_of(firmware.buffers) + 1 : 1),
      fetching_(simulation, name + " fetches"),
      receiving_(simulation, name + " receives",
                 firmware.overlaps_messages > 0 ? count_of(firmware.buffers) : 1),
      hop_(nanoseconds(nic.hop)),
      miss_(locality == Locality::Poor && firmware.translate > 0 ? microseconds(machine.interrupt)
                                                                 : 0) {}

Task<> ViaNic::ask_state(ViaNic& other) {
    co_await work(firmware_.header + firmware_.start_send, "status request", 0);
    co_await simulation_.delay(hop_);
    co_await other.work(firmware_.receive_packet + firmware_.header + firmware_.start_send,
                        "status answer", 0);
    co_await simulation_.delay(hop_);
    co_await work(firmware_.receive_packet, "status answer", 0);
}

void ViaNic::start() {
    simulation_.spawn(send_loop());
    simulation_.spawn(header_loop());
    simulation_.spawn(transmit_loop());
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

/// Where the data is in host memory; then a DMA is started.
Task<> ViaNic::find_page(std::string_view label, std::uint64_t message) {
    if (miss_ > 0) co_await simulation_.delay(miss_);
    co_await work(firmware_.translate + firmware_.start_transfer, label, message);
}

Task<> ViaNic::send_message(Message message, [[maybe_unused]] Hold turn) {
    const std::uint64_t number = message.number;
    ++under_way_;
    co_await work(firmware_.notice + firmware_.descriptor, "descriptor", number);
    co_await fetch_descriptor(number);
    Signal sent(simulation_);
    co_await fetch_pieces(message, sent);
    co_await sent.wait();
    if (firmware_.chained <= 0) {
        co_await work(firmware_.status, "status", number);
        co_await hardware_.transfer(
            Toward::Host, static_cast<std::uint64_t>(firmware_.status_bytes), "status", number);
    }
    --under_way_;
}

/// With one buffer a piece is fetched when the one before it has been sent; with two, meanwhile.
Task<> ViaNic::fetch_pieces(Message message, Signal& sent) {
    const auto largest = static_cast<std::uint64_t>(firmware_.largest_piece);
    // The pieces of one message stay together.
    Hold turn;
    if (message.bytes > largest) turn = co_await fetching_.acquire();
    for (std::uint64_t done = 0; done < message.bytes;) {
        Piece piece;
        piece.message = message;
        piece.bytes = std::min(largest, message.bytes - done);
        done += piece.bytes;
        if (done == message.bytes) piece.sent = &sent;
        piece.buffer = co_await send_buffers_.acquire();
        co_await fetch(piece.message.number, piece.bytes, piece.sent != nullptr);
        co_await fetched_.put(std::move(piece));
    }
}

Task<> ViaNic::fetch(std::uint64_t message, std::uint64_t bytes, bool last) {
    ++fetches_;
    co_await find_page("start fetch", message);
    if (firmware_.chained > 0 && last) {
        co_await hardware_.transfer_chain(Toward::Nic, bytes, Toward::Host,
                                          static_cast<std::uint64_t>(firmware_.status_bytes),
                                          "fetch", message);
    } else {
        co_await hardware_.transfer(Toward::Nic, bytes, "fetch", message);
    }
    --fetches_;
}

/// The header of the next packet is made while this one is sent.
Task<> ViaNic::header_loop() {
    for (;;) {
        Piece piece = co_await fetched_.take();
        co_await work(firmware_.header + firmware_.start_send, "header", piece.message.number);
        co_await ready_.put(std::move(piece));
    }
}

Task<> ViaNic::transmit_loop() {
    for (;;) {
        Piece piece = co_await ready_.take();
        Packet packet;
        packet.message = piece.message.number;
        packet.bytes = piece.bytes;
        packet.total = piece.message.bytes;
        packet.last = piece.sent != nullptr;
        packet.flow = piece.message.flow;
        co_await hardware_.transmit(out_, std::move(packet));
        if (piece.sent != nullptr) piece.sent->raise();
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
    ++stores_;
    co_await work(firmware_.receive_packet, "packet", message);
    if (first) {
        co_await work(firmware_.receive_descriptor, "receive descriptor", message);
        co_await fetch_descriptor(message);
    }
    co_await find_page("start store", message);
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
    --stores_;
    // A packet may overtake the first one, which costs more.
    std::uint64_t& arrived = arrived_[message];
    arrived += packet.bytes;
    if (arrived < packet.total) co_return;
    arrived_.erase(message);
    const Message received{message, packet.total, packet.flow};
    co_await received_.put(received);
}

}  // namespace via::sim
