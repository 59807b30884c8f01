// SPDX-License-Identifier: BSD-3-Clause
// VIA on a LANai: MyVIA and Berkeley VIA, on LANai 4 and LANai 9. They differ in who fetches the
// descriptor, in who translates addresses, and above all in what goes on at the same time.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>

#include "sim/core/mailbox.hpp"
#include "sim/core/resource.hpp"
#include "sim/core/signal.hpp"
#include "sim/core/simulation.hpp"
#include "sim/model/link.hpp"
#include "sim/model/nic_hardware.hpp"
#include "sim/parameters/declaration.hpp"

namespace via::sim {

/// Costs in cycles of the NIC's clock unless it says otherwise. A stage is what one resource is
/// held for; passing from one to the next costs the firmware its locks and its state machine.
struct ViaFirmware {
    double notice = 0;            ///< until the loop sees a new descriptor or doorbell
    double descriptor = 0;        ///< handling it
    double descriptor_fetch = 0;  ///< bytes fetched by DMA for it; 0: the host has written it
    double translate = 0;         ///< one page's address; 0: the host has done it
    double start_transfer = 0;    ///< of a DMA
    double header = 0;            ///< of a packet
    double start_send = 0;        ///< of a packet
    double status = 0;            ///< preparing the status for the host
    double status_bytes = 0;      ///< bytes
    double receive_packet = 0;    ///< looking at a packet that has come
    double receive_descriptor = 0;
    double stage = 0;              ///< locks and state machine, for each stage
    double contended_stage = 0;    ///< more than that while another message is in the pipeline
    double largest_piece = 0;      ///< bytes moved by one DMA and sent as one packet
    double buffers = 0;            ///< of NIC memory each way; 1: nothing overlaps in a message
    double overlaps_messages = 0;  ///< 1: the next message begins before this one is through
    double chained = 0;            ///< 1: data and status in one chain (LANai 9)
    double host_writes = 0;        ///< bytes that the host writes into NIC memory to post
    double host_post = 0;          ///< µs: the user agent's work before that
};
[[nodiscard]] std::span<const Declaration<ViaFirmware>> via_firmware_parameters();

/// Of the addresses that a program uses: does the NIC's cache of translations hold them? Only a NIC
/// that translates asks; it interrupts its host for what it does not find.
enum class Locality : std::uint8_t { Good, Poor };

/// What a host posts, and what arrives at the other.
struct Message {
    std::uint64_t number = 0;  ///< of those that one NIC sends
    std::uint64_t bytes = 0;
    std::uint32_t flow = 0;  ///< whose it is
};

/// The firmware of one NIC.
class ViaNic {
  public:
    ViaNic(Simulation& simulation, PciBus& bus, const Machine& machine, const Nic& nic,
           const ViaFirmware& firmware, Locality locality, Link& out, Link& in,
           const std::string& name);

    /// A message has been posted: what the host writes has been written.
    [[nodiscard]] Mailbox<Message>& posted() noexcept { return posted_; }
    /// The host can see that a message has been received whole.
    [[nodiscard]] Mailbox<Message>& received() noexcept { return received_; }

    void start();

    /// SDMAING or RECVING: MNC's BUSY.
    [[nodiscard]] bool busy() const noexcept { return fetches_ != 0 || stores_ != 0; }
    /// MNC's status request and its answer, firmware to firmware: how long it takes.
    [[nodiscard]] Task<> ask_state(ViaNic& other);

  private:
    /// A piece of a message in a buffer of NIC memory.
    struct Piece {
        Message message;
        std::uint64_t bytes = 0;
        Signal* sent = nullptr;  ///< of the last piece: raised when it has been sent
        Hold buffer;
    };
    Task<> send_loop();
    Task<> send_message(Message message, Hold turn);
    Task<> fetch_pieces(Message message, Signal& sent);
    Task<> fetch(std::uint64_t message, std::uint64_t bytes, bool last);
    Task<> header_loop();
    Task<> transmit_loop();
    Task<> receive_loop();
    Task<> receive_piece(Packet packet, Hold turn);
    Task<> fetch_descriptor(std::uint64_t message);
    Task<> find_page(std::string_view label, std::uint64_t message);
    Task<> work(double cycles, std::string_view label, std::uint64_t message) {
        const double contended = under_way_ > 1 ? firmware_.contended_stage : 0;
        return hardware_.processor().work(cycles + firmware_.stage + contended, label, message);
    }

    Simulation& simulation_;
    const ViaFirmware& firmware_;
    NicHardware hardware_;
    Link& out_;
    Link& in_;
    Mailbox<Message> posted_;
    Mailbox<Message> received_;
    Resource send_buffers_;
    Mailbox<Piece> fetched_;
    Mailbox<Piece> ready_;  ///< with its header
    Resource sending_;      ///< messages under way
    Resource fetching_;     ///< one message after the other
    Resource receiving_;    ///< pieces under way
    Time hop_;
    Time miss_;  ///< of the NIC's cache of translations; 0: there is none
    std::uint64_t last_message_ = 0;
    std::uint32_t fetches_ = 0;    ///< under way from the host
    std::uint32_t stores_ = 0;     ///< packets that are being received
    std::uint32_t under_way_ = 0;  ///< messages and packets in the pipelines
    bool message_begins_ = true;   ///< the next packet to come is the first of its message
    std::map<std::uint64_t, std::uint64_t> arrived_;  ///< bytes of messages that are coming
};

}  // namespace via::sim
