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
        Declaration<F>{"stage", "cycles", 0, 1e6, &F::stage, "the state machine, for each stage"},
        Declaration<F>{"engine_lock", "cycles", 0, 1e6, &F::engine_lock,
                       "locking the host DMA engine while other messages want it; 0: no locks"},
        Declaration<F>{"bookkeeping", "cycles", 0, 1e6, &F::bookkeeping,
                       "for each message on each side, off its path: tokens, acknowledgements"},
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
               const ViaFirmware& firmware, Locality locality, Switch& network, std::uint32_t port,
               const std::string& name)
    : simulation_(simulation),
      firmware_(firmware),
      hardware_(simulation, bus, machine, nic, name),
      network_(network),
      port_(port),
      posted_(simulation),
      received_(simulation),
      send_buffers_(simulation, name + " send buffers", count_of(firmware.buffers)),
      fetched_(simulation),
      ready_(simulation, 1),
      // One whose descriptor is looked at while the others have the buffers.
      sending_(simulation, name + " sends",
               firmware.overlaps_messages > 0 ? count_of(firmware.buffers) + 1 : 1),
      turned_(simulation),
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
    co_await hardware_.host_dma.transfer(Toward::Nic,
                                         static_cast<std::uint64_t>(firmware_.descriptor_fetch),
                                         "fetch descriptor", message);
}

/// Where the data is in host memory; then a DMA is started.
Task<> ViaNic::find_page(double cycles_before, std::string_view label, std::uint64_t message) {
    if (miss_ > 0) co_await simulation_.delay(miss_);
    co_await work(cycles_before + firmware_.translate + firmware_.start_transfer, label, message);
}

Task<Hold> ViaNic::lock_engine(std::string_view label, std::uint64_t message) {
    if (firmware_.engine_lock <= 0) co_return Hold();
    Hold engine = co_await hardware_.host_dma.lock(label, message);
    if (under_way_ > 1) co_await hardware_.processor.work(firmware_.engine_lock, "lock", message);
    co_return engine;
}

Task<> ViaNic::write_status(std::uint64_t message) {
    Hold engine = co_await lock_engine("write status", message);
    co_await work(firmware_.status, "status", message);
    co_await hardware_.host_dma.transfer(Toward::Host,
                                         static_cast<std::uint64_t>(firmware_.status_bytes),
                                         "write status", message, std::move(engine));
}

/// In small portions, so that what is on a message's path hardly waits for it.
Task<> ViaNic::keep_books(std::uint64_t message) {
    constexpr double portion = 8;
    for (double left = firmware_.bookkeeping; left > 0; left -= portion)
        co_await hardware_.processor.work(std::min(left, portion), "bookkeeping", message);
}

// ---- sending: descriptor, start fetch, fetch, header, send, status, write status
// -----------------

Task<> ViaNic::send_message(Message message, [[maybe_unused]] Hold turn) {
    const std::uint64_t number = message.number;
    ++under_way_;
    co_await work(firmware_.notice + firmware_.descriptor, "descriptor", number);
    if (!message.from_firmware) co_await fetch_descriptor(number);
    if (message.transfer) message.bytes = message.transfer->begin();
    Signal sent(simulation_);
    co_await fetch_pieces(message, sent);
    co_await sent.wait();
    // A chain has written it with the data.
    if (firmware_.chained <= 0 && !message.from_firmware) co_await write_status(number);
    if (message.transfer) message.transfer->sent();
    co_await keep_books(number);
    --under_way_;
}

/// With one buffer a piece is fetched when the one before it has been sent; with two, meanwhile.
Task<> ViaNic::fetch_pieces(Message message, Signal& sent) {
    const auto largest = static_cast<std::uint64_t>(firmware_.largest_piece);
    // Messages leave in the order in which they were posted, and their pieces stay together: the
    // next one takes a buffer when this one has all of its own.
    co_await await_turn(fetch_turn_, message.number);
    std::uint64_t done = 0;
    do {
        Piece piece;
        piece.message = message;
        piece.offset = done;
        piece.bytes = std::min(largest, message.bytes - done);
        done += piece.bytes;
        if (done == message.bytes) piece.sent = &sent;
        piece.buffer = co_await send_buffers_.acquire();
        if (done == message.bytes) next_turn(fetch_turn_);
        co_await fetch(piece);
        if (message.transfer) message.transfer->fetched(piece.offset, piece.bytes);
        // An empty one needs no fetching and is ready at once.
        co_await await_turn(header_turn_, message.number);
        co_await fetched_.put(std::move(piece));
    } while (done < message.bytes);
    next_turn(header_turn_);
}

Task<> ViaNic::await_turn(const std::uint64_t& turn, std::uint64_t message) {
    while (turn != message)
        co_await turned_.wait();
}

void ViaNic::next_turn(std::uint64_t& turn) {
    ++turn;
    turned_.pulse();
}

Task<> ViaNic::fetch(const Piece& piece) {
    if (piece.bytes == 0) co_return;
    const std::uint64_t message = piece.message.number;
    ++fetches_;
    Hold engine = co_await lock_engine("fetch", message);
    co_await find_page(0, "start fetch", message);
    if (firmware_.chained > 0 && piece.sent != nullptr && !piece.message.from_firmware) {
        co_await hardware_.host_dma.transfer_chain(
            Toward::Nic, piece.bytes, Toward::Host,
            static_cast<std::uint64_t>(firmware_.status_bytes), "fetch", message);
    } else {
        co_await hardware_.host_dma.transfer(Toward::Nic, piece.bytes, "fetch", message,
                                             std::move(engine));
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
        packet.from = port_;
        packet.to = piece.message.to;
        packet.message = piece.message.number;
        packet.offset = piece.offset;
        packet.bytes = piece.bytes;
        packet.total = piece.message.bytes;
        packet.last = piece.sent != nullptr;
        packet.flow = piece.message.flow;
        packet.transfer = piece.message.transfer;
        co_await hardware_.send_dma.transmit(network_, std::move(packet));
        if (piece.sent != nullptr) piece.sent->raise();
    }
}

void ViaNic::send_control(std::uint32_t to, std::shared_ptr<Transfer> word) {
    simulation_.spawn(send_word(to, std::move(word)));
}

Task<> ViaNic::send_word(std::uint32_t to, std::shared_ptr<Transfer> word) {
    co_await work(firmware_.header + firmware_.start_send, "control", 0);
    Packet packet;
    packet.from = port_;
    packet.to = to;
    packet.control = true;
    packet.transfer = std::move(word);
    co_await hardware_.send_dma.transmit(network_, std::move(packet));
}

// ---- receiving: packet, descriptor, store, status, write status
// ----------------------------------

Task<> ViaNic::receive_loop() {
    for (;;) {
        Packet packet = co_await network_.arrivals(port_).take();
        if (packet.control) {
            simulation_.spawn(receive_word(std::move(packet)));
            continue;
        }
        Hold turn = co_await receiving_.acquire();
        simulation_.spawn(receive_piece(std::move(packet), std::move(turn)));
    }
}

Task<> ViaNic::receive_word(Packet packet) {
    co_await work(firmware_.receive_packet, "control", 0);
    packet.buffer.release();
    packet.transfer->received();
}

Task<> ViaNic::receive_piece(Packet packet, [[maybe_unused]] Hold turn) {
    const std::uint64_t message = packet.message;
    const ArrivalKey key{packet.from, message};
    const auto [arrival, first] = arriving_.try_emplace(key);
    if (first) arrival->second.turn = ++begun_[packet.from];
    ++under_way_;
    ++stores_;
    co_await work(firmware_.receive_packet, "packet", message);
    double descriptor = first ? firmware_.receive_descriptor : 0;
    if (first && firmware_.descriptor_fetch > 0) {
        co_await work(std::exchange(descriptor, 0), "receive descriptor", message);
        co_await fetch_descriptor(message);
    }
    Hold engine = co_await lock_engine("store", message);
    co_await find_page(descriptor, "start store", message);
    if (first && packet.transfer) arrival->second.wanted = packet.transfer->match();
    if (arrival->second.wanted)
        co_await store(packet, std::move(engine));
    else
        engine.release();
    packet.buffer.release();
    --under_way_;
    --stores_;
    // A packet may overtake the first one, which costs more.
    arrival->second.bytes += packet.bytes;
    if (arrival->second.bytes < packet.total) co_return;
    // And a short message may overtake a long one; the host hears of them in their order.
    const std::uint64_t place = arrival->second.turn;
    arriving_.erase(arrival);
    if (firmware_.bookkeeping > 0) simulation_.spawn(keep_books(message));
    std::uint64_t& ended = ended_[packet.from];
    co_await await_turn(ended, place - 1);
    next_turn(ended);
    if (packet.transfer) {
        packet.transfer->received();
        co_return;
    }
    const Message received{message, packet.total, packet.flow, port_, nullptr};
    co_await received_.put(received);
}

Task<> ViaNic::store(const Packet& packet, Hold engine) {
    const std::uint64_t message = packet.message;
    const auto stored = [&] {
        if (packet.transfer) packet.transfer->stored(packet.offset, packet.bytes);
    };
    const auto status = static_cast<std::uint64_t>(firmware_.status_bytes);
    if (firmware_.chained > 0 && packet.last) {
        co_await hardware_.host_dma.transfer_chain(Toward::Host, packet.bytes, Toward::Host, status,
                                                   "store", message);
        stored();
    } else {
        if (packet.bytes != 0)
            co_await hardware_.host_dma.transfer(Toward::Host, packet.bytes, "store", message,
                                                 std::move(engine));
        else
            engine.release();
        stored();
        if (packet.last) co_await write_status(message);
    }
}

}  // namespace via::sim
