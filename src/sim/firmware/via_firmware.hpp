// SPDX-License-Identifier: BSD-3-Clause
// VIA on a LANai: MyVIA and Berkeley VIA, on LANai 4 and LANai 9. They differ in who fetches the
// descriptor, in who translates addresses, and above all in what goes on at the same time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "sim/core/mailbox.hpp"
#include "sim/core/resource.hpp"
#include "sim/core/signal.hpp"
#include "sim/core/simulation.hpp"
#include "sim/firmware/transfer.hpp"
#include "sim/model/nic_hardware.hpp"
#include "sim/model/switch.hpp"
#include "sim/parameters/declaration.hpp"

namespace via::sim {

/// Costs in cycles of the NIC's clock unless it says otherwise. A stage is what one resource is
/// held for; passing from one to the next costs the firmware its state machine.
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
    double stage = 0;  ///< the state machine, for each stage
    /// Of the host DMA engine, which sending, receiving and status share: it is locked while it is
    /// set up, and that costs so much more while another message is in the pipelines. 0: no locks.
    double engine_lock = 0;
    double bookkeeping = 0;        ///< for each message on each side, off its path: tokens and such
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
    std::uint32_t to = 0;    ///< port
    std::shared_ptr<Transfer> transfer;
    bool from_firmware = false;  ///< there is no descriptor to read
};

/// The firmware of one NIC.
class ViaNic {
  public:
    ViaNic(Simulation& simulation, PciBus& bus, const Machine& machine, const Nic& nic,
           const ViaFirmware& firmware, Locality locality, Switch& network, std::uint32_t port,
           const std::string& name);

    /// A message has been posted: what the host writes has been written.
    [[nodiscard]] Mailbox<Message>& posted() noexcept { return posted_; }
    /// The host can see that a message has been received whole. Not for those with a Transfer.
    [[nodiscard]] Mailbox<Message>& received() noexcept { return received_; }

    void start();
    /// A word from this firmware to another's, which gets received() when it is there.
    void send_control(std::uint32_t to, std::shared_ptr<Transfer> word);

    /// SDMAING or RECVING: MNC's BUSY.
    [[nodiscard]] bool busy() const noexcept { return fetches_ != 0 || stores_ != 0; }
    /// MNC's status request and its answer, firmware to firmware: how long it takes.
    [[nodiscard]] Task<> ask_state(ViaNic& other);

  private:
    /// A piece of a message in a buffer of NIC memory.
    struct Piece {
        Message message;
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
        Signal* sent = nullptr;  ///< of the last piece: raised when it has been sent
        Hold buffer;
    };
    /// A message that is coming.
    struct Arrival {
        std::uint64_t bytes = 0;
        bool wanted = true;      ///< there is a place for it
        std::uint64_t turn = 0;  ///< among those of the same port
    };
    using ArrivalKey = std::pair<std::uint32_t, std::uint64_t>;  ///< port and message
    Task<> send_loop();
    Task<> send_message(Message message, Hold turn);
    Task<> fetch_pieces(Message message, Signal& sent);
    Task<> fetch(const Piece& piece);
    Task<> await_turn(const std::uint64_t& turn, std::uint64_t message);
    void next_turn(std::uint64_t& turn);
    Task<> header_loop();
    Task<> transmit_loop();
    Task<> send_word(std::uint32_t to, std::shared_ptr<Transfer> word);
    Task<> receive_loop();
    Task<> receive_word(Packet packet);
    Task<> receive_piece(Packet packet, Hold turn);
    Task<> store(const Packet& packet, Hold engine);
    Task<> write_status(std::uint64_t message);
    Task<> keep_books(std::uint64_t message);
    Task<> fetch_descriptor(std::uint64_t message);
    Task<> find_page(double cycles_before, std::string_view label, std::uint64_t message);
    Task<> work(double cycles, std::string_view label, std::uint64_t message) {
        return hardware_.processor.work(cycles + firmware_.stage, label, message);
    }
    /// Locks the host DMA engine, if this firmware does.
    Task<Hold> lock_engine(std::string_view label, std::uint64_t message);

    Simulation& simulation_;
    const ViaFirmware& firmware_;
    NicHardware hardware_;
    Switch& network_;
    std::uint32_t port_;
    Mailbox<Message> posted_;
    Mailbox<Message> received_;
    Resource send_buffers_;
    Mailbox<Piece> fetched_;
    Mailbox<Piece> ready_;           ///< with its header
    Resource sending_;               ///< messages under way
    std::uint64_t fetch_turn_ = 1;   ///< the message that may take buffers
    std::uint64_t header_turn_ = 1;  ///< the message that may pass its pieces on
    Signal turned_;
    Resource receiving_;  ///< pieces under way
    Time hop_;
    Time miss_;  ///< of the NIC's cache of translations; 0: there is none
    std::uint64_t last_message_ = 0;
    std::uint32_t fetches_ = 0;    ///< under way from the host
    std::uint32_t stores_ = 0;     ///< packets that are being received
    std::uint32_t under_way_ = 0;  ///< messages and packets in the pipelines
    std::map<ArrivalKey, Arrival> arriving_;
    std::map<std::uint32_t, std::uint64_t> begun_;  ///< messages of each port
    std::map<std::uint32_t, std::uint64_t> ended_;
};

}  // namespace via::sim
