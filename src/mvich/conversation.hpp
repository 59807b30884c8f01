// SPDX-License-Identifier: BSD-3-Clause
// The messages of one connection: which protocol carries each, in what order packets go, what every
// arriving packet means. It makes no system call and knows no clock: packets go out through a Lane
// and come in by packet().
//
// packet() and rdma_done() only take note and copy; what is to be sent because of them is sent by
// flush(), since they are called while the connection is being polled.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/message_counters.hpp"
#include "mvich/credits.hpp"
#include "mvich/device.hpp"
#include "mvich/lane.hpp"
#include "mvich/message_settings.hpp"
#include "mvich/order.hpp"
#include "mvich/packet.hpp"
#include "mvich/receive_queue.hpp"
#include "mvich/record_table.hpp"
#include "mvich/registration_cache.hpp"
#include "mvich/vbuf.hpp"

namespace via::mvich {

/// What a conversation shares with the others of its endpoint.
struct Surroundings {
    ReceiveQueue* receives = nullptr;
    VbufPool* vbufs = nullptr;
    RegistrationCache* registrations = nullptr;
    WindowTable* windows = nullptr;
    Listener* listener = nullptr;
    ControlListener* words = nullptr;
    const MessageSettings* settings = nullptr;
    base::MessageCounters* counters = nullptr;
};

class Conversation final : public Source {
  public:
    Conversation(Surroundings& surroundings, const HostPort& name)
        : around_(surroundings), name_(name) {}
    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;

    [[nodiscard]] const HostPort& name() const noexcept { return name_; }

    /// The connection stands, with `window` vbufs ready for the peer beyond those for noops.
    void open(Lane& lane, std::uint32_t window);
    /// The connection is gone or could not be made: everything under way ends so.
    void lost(Status status);
    [[nodiscard]] bool is_lost() const noexcept { return lost_; }
    [[nodiscard]] const ReceiveQueue& receives() const noexcept { return *around_.receives; }

    /// A message that can go at once: true, and it is done.
    [[gnu::always_inline, nodiscard]] bool send_at_once(const SendOrder& order);
    /// Any other; flush() is due.
    [[nodiscard]] Posted send_later(const SendOrder& order);
    [[nodiscard]] Posted send(const SendOrder& order) {
        return send_at_once(order) ? Posted::Done : send_later(order);
    }
    [[nodiscard]] Posted remote(const RemoteOrder& order);
    [[nodiscard]] base::Result<void> say(std::span<const std::byte> word);
    /// A message of this conversation that waited has found its receive, which is not in the queue.
    void receive(const UnexpectedMessage& message, PostedReceive& receive);
    /// Nobody wants it.
    void discard(const UnexpectedMessage& message);
    bool cancel_send(const void* context);
    /// A posted receive that was taken from the queue for one of our messages ends.
    enum class Arrival : std::uint8_t {
        Passed,  ///< as Taken, and nothing has come of it but a credit that is owed
        Taken,   ///< the packet's memory is free
        Kept,    ///< its vbuf is given to Lane::recycle later
        NotNow,  ///< nothing has happened: no vbuf is free to keep it in
        Broken,  ///< the peer does not keep to the protocol
    };
    /// `vbuf`: the packet lies in it; null: somewhere else.
    [[gnu::always_inline, nodiscard]] Arrival packet(std::span<const std::byte> bytes, Vbuf* vbuf);
    /// A packet that lies elsewhere, whose head was sent apart.
    [[gnu::always_inline, nodiscard]] Arrival headed_packet(std::uint32_t note,
                                                            const std::uint64_t* head,
                                                            std::uint32_t head_bytes,
                                                            std::span<const std::byte> payload);
    void rdma_done(OrderId token, bool good);

    /// Sends what can be sent. True if anything went.
    bool flush();
    /// Has it something to send that flush() could send now or later?
    [[nodiscard]] bool wants_flush() const noexcept {
        return open_ && !lost_ && (has_unsent() || credits_.noop_due() || starving_due());
    }
    /// Is the peer to be told that its messages hold our vbufs?
    [[nodiscard]] bool starving_due() const noexcept {
        return credits_.peer_starves() && !starving_said_ && credits_.owed() == 0;
    }
    /// Has it packets or messages that have not left?
    [[nodiscard]] bool has_unsent() const noexcept {
        return first_pending_ != nullptr || first_reply_ != nullptr || !control_.empty() ||
               !streams_.empty() || !transfers_.empty();
    }
    /// Has it messages that the program was told are done, or answers to the peer, that are not?
    [[nodiscard]] bool has_promised() const noexcept {
        return promised_ != 0 || replies_under_way_ != 0;
    }
    /// Orders of the program that are not done.
    [[nodiscard]] std::size_t under_way() const noexcept {
        return sends_.used() + receives_.used();
    }
    [[nodiscard]] const CreditAccount& credits() const noexcept { return credits_; }
    [[nodiscard]] bool is_open() const noexcept { return open_; }

  private:
    enum class SendState : std::uint8_t {
        Pending,    ///< not begun
        Requested,  ///< the peer knows of it and has not answered
        Lent,       ///< RGET: the peer reads
        Streaming,  ///< R3
        Writing,    ///< RPUT
        Shared,     ///< RGET: the peer reads one part, we write the other
        Awaiting,   ///< all is sent; Delivered or the answer is missing
        Answered,   ///< the answer is announced and on its way
    };
    struct SendRecord {
        OrderId id = 0;
        SendRecord* next = nullptr;  ///< pending ones, and replies
        SendState state = SendState::Pending;
        MessageClass message_class = MessageClass::Tagged;
        Protocol protocol = Protocol::Eager;
        Happened what = Happened::Sent;
        std::uint32_t flags = 0;
        bool silent = false;    ///< nobody is told
        bool answered = false;  ///< awaits more than its own sending
        std::uint8_t operation = 0;
        std::uint8_t datatype = 0;
        std::uint8_t remote_pieces = 0;
        std::uint64_t word = 0;  ///< tag, or the peer's order for ReadReply
        std::uint64_t data = 0;
        std::uint64_t total = 0;   ///< bytes that travel from here
        std::uint64_t wanted = 0;  ///< reads: bytes that travel back
        std::uint64_t sent = 0;
        std::uint64_t agreed = 0;    ///< bytes that we are to move: what the receiver has room for
        bool peer_has_read = false;  ///< Shared: its part
        OrderId peer_id = 0;
        std::uint64_t remote_address = 0;
        std::uint32_t remote_handle = 0;
        PieceList pieces;
        PieceList results;
        std::vector<std::byte> copy;  ///< of injected and atomic payload
        std::array<RemotePiece, max_remote_pieces> remote{};
        RegistrationCache::Entry* registration = nullptr;
        Cookie cookie;
        void clear() {
            pieces = {};
            results = {};
            copy.clear();
            next = nullptr;
            state = SendState::Pending;
            flags = 0;
            silent = answered = peer_has_read = false;
            data = sent = wanted = 0;
            operation = datatype = remote_pieces = 0;
            registration = nullptr;
            cookie = {};
        }
    };
    struct ReceiveRecord {
        OrderId id = 0;
        PostedReceive* receive = nullptr;  ///< or null: a window's memory, or a read of our own
        OrderId read = 0;                  ///< the read of our own
        std::uint64_t base = 0;            ///< where the message begins in `pieces`
        PieceList pieces;
        std::uint64_t capacity = 0;
        std::uint64_t total = 0;
        std::uint64_t agreed = 0;  ///< the smaller of the two: what travels
        std::uint64_t received = 0;
        bool sender_writes = false;  ///< all of it or a part, and has not said that it is there
        OrderId peer_id = 0;
        MessageClass message_class = MessageClass::Tagged;
        Protocol protocol = Protocol::R3;
        bool has_data = false;
        bool wants_delivered = false;
        std::uint64_t data = 0;
        std::uint64_t word = 0;
        std::uint64_t key = 0;
        std::uint64_t remote_address = 0;
        std::uint32_t remote_handle = 0;
        RegistrationCache::Entry* registration = nullptr;
        void clear() {
            receive = nullptr;
            read = 0;
            pieces = {};
            base = received = key = 0;
            sender_writes = false;
            registration = nullptr;
        }
    };
    /// A packet without payload that waits for a credit.
    struct ControlPacket {
        PacketKind kind;
        std::uint64_t word = 0;
        OrderId id = 0;
        std::uint64_t address = 0;
        std::uint32_t handle = 0;
        Protocol protocol = Protocol::Eager;
        Status status = Status::Ok;
        std::uint64_t total = 0;
    };
    /// What a Request says, whether it was matched at once or waited.
    struct Announcement {
        MessageClass message_class;
        Protocol protocol;
        bool has_data;
        bool wants_delivered;
        std::uint64_t word;
        std::uint64_t data;
        OrderId id;
        std::uint64_t total;
        std::uint64_t address;
        std::uint32_t handle;
    };

    /// What a peer's packets can make us keep, beyond the window. Its own orders bound that: a peer
    /// whose program has so many of them open at once would be out of memory before we are.
    static constexpr std::size_t most_owed = std::size_t{1} << 20;
    static constexpr std::size_t most_owed_bytes = std::size_t{1} << 28;
    [[nodiscard]] bool owes_too_much() const noexcept {
        return control_.size() >= most_owed || listed_ >= most_owed ||
               replies_under_way_ >= most_owed || reply_bytes_ >= most_owed_bytes;
    }

    // Sending (conversation_send.cpp; what is always inline: conversation_hot_path.hpp).
    static constexpr std::size_t most_pieces_at_once = 16;
    [[nodiscard]] Lane::Outcome send_packet(Packet& packet, std::span<const iovec> pieces,
                                            std::uint64_t offset, std::uint64_t bytes);
    [[nodiscard]] bool send_plain(const SendOrder& order, std::uint64_t bytes);
    [[nodiscard]] Lane::Outcome send_stream_part(const SendRecord& record, std::uint64_t bytes);
    void append(SendRecord& record) noexcept;
    void remove_first_pending() noexcept;
    [[nodiscard]] bool send_control();
    [[nodiscard]] bool start_next();
    [[nodiscard]] bool start_reply();
    [[nodiscard]] bool start_unmatched(SendRecord& record);
    /// What no receive has to match is taken out of its vbuf at once. It may have the credits for
    /// control, too, when messages that nobody asked for hold all others: what the peer does ask
    /// for must come past them.
    [[nodiscard]] bool may_send_unmatched() const noexcept {
        return credits_.may_send_data() || (peer_starves_on_us_ && credits_.may_send_control());
    }
    void started(SendRecord& record) noexcept;
    [[nodiscard]] bool start_eager(SendRecord& record);
    [[nodiscard]] bool start_request(SendRecord& record, Protocol protocol);
    [[nodiscard]] bool stream_next();
    [[nodiscard]] bool transfer_next();
    bool send_noop();
    void finish_send(SendRecord& record, Status status);
    void describe(const SendRecord& record, Packet& packet) const noexcept;
    void go_lost() noexcept { gone_ = true; }
    /// Did the packet go that was to bring these credits? If not, they are owed again.
    [[nodiscard]] bool went(Lane::Outcome outcome, std::uint16_t credits) noexcept {
        if (outcome == Lane::Outcome::Done) [[likely]]
            return true;
        credits_.owe_again(credits);
        if (outcome == Lane::Outcome::Gone) go_lost();
        return false;
    }

    // Receiving (conversation_receive.cpp).
    /// `delivered`: the sender's order if it wants to hear of it, else 0.
    [[gnu::always_inline, nodiscard]] Arrival eager_message(const PlainEager& packet,
                                                            OrderId delivered, Vbuf* vbuf);
    [[nodiscard]] Arrival keep_message(const PlainEager& packet, OrderId delivered, Vbuf* vbuf);
    [[nodiscard]] Arrival other_headed(std::uint32_t note, const std::uint64_t* head,
                                       std::uint32_t head_bytes,
                                       std::span<const std::byte> payload);
    [[nodiscard]] Arrival other_bytes(std::span<const std::byte> bytes, Vbuf* vbuf);
    [[nodiscard]] static Space space_of(const PlainEager& packet) noexcept;
    [[nodiscard]] static MessageClass class_of(Space space) noexcept;
    void heard_credits(std::uint32_t credits) noexcept;
    [[nodiscard]] Arrival noop(const PacketHead& head);
    [[nodiscard]] Arrival other_packet(const Packet& packet, Vbuf* vbuf);
    [[gnu::always_inline]] void deliver(PostedReceive& receive, const Announcement& message,
                                        std::span<const std::byte> payload);
    void begin_receive(const Announcement& message, ReceiveRecord& record);
    void grant(ReceiveRecord& record);
    [[nodiscard]] std::uint64_t part_of_sender(const ReceiveRecord& record) const noexcept;
    void written(SendRecord& record);
    void finish_receive(ReceiveRecord& record, Status status);
    [[gnu::always_inline]] void complete_posted(PostedReceive& receive, Completion& completion,
                                                std::uint64_t offset);
    [[nodiscard]] bool take_request(const Packet& packet);
    [[nodiscard]] bool take_ok_to_send(const Packet& packet);
    [[nodiscard]] bool take_data(const Packet& packet);
    [[nodiscard]] bool take_finish(const Packet& packet);
    [[nodiscard]] bool take_delivered(const Packet& packet);
    void release(RegistrationCache::Entry*& entry) noexcept;

    // Windows (conversation_remote.cpp).
    void take_write(const Packet& packet);
    void take_read(const Packet& packet);
    void take_atomic(const Packet& packet);
    [[nodiscard]] bool take_reply(const Packet& packet);
    [[nodiscard]] bool window_memory(const Packet& packet, std::uint64_t bytes, std::uint32_t right,
                                     PieceList& pieces);
    void answer(OrderId id, Status status);
    SendRecord& make_reply(OrderId to);
    void tell_of_remote(Happened what, const Packet& packet, std::uint64_t bytes);

    Surroundings& around_;
    const HostPort name_;
    Lane* lane_ = nullptr;
    bool open_ = false;  ///< the peer's Hello has come
    bool lost_ = false;
    bool gone_ = false;                ///< the lane says so; whoever owns this calls lost()
    bool peer_starves_on_us_ = false;  ///< the peer said that our messages hold its vbufs
    bool starving_said_ = false;
    bool stalled_ = false;  ///< counted as waiting for credits
    std::uint64_t eager_limit_ = 0;
    LaneAbilities abilities_;  ///< what both ends can do
    std::uint32_t window_ = 0;
    CreditAccount credits_;
    RecordTable<SendRecord> sends_{0};
    RecordTable<ReceiveRecord> receives_{receive_id_bit};
    SendRecord* first_pending_ = nullptr;
    SendRecord* last_pending_ = nullptr;
    std::size_t promised_ = 0;     ///< injected messages and words that are not done
    std::size_t listed_ = 0;       ///< messages in the receive queue that hold no vbuf
    std::size_t reply_bytes_ = 0;  ///< that answers to the peer's reads and atomics keep
    /// Answers to reads of the peer. They wait for none of our own orders: a fence on either side
    /// may be waiting for them.
    SendRecord* first_reply_ = nullptr;
    SendRecord* last_reply_ = nullptr;
    std::size_t replies_under_way_ = 0;
    std::uint32_t injected_pending_ = 0;
    std::deque<ControlPacket> control_;
    std::deque<SendRecord*> streams_;  ///< R3, in turn
    std::deque<OrderId> transfers_;    ///< RDMA that can be begun
    std::vector<iovec> slice_;

  public:
    /// The lane has found the connection gone; lost() is due.
    [[nodiscard]] bool gone() const noexcept { return gone_ && !lost_; }
};

}  // namespace via::mvich
