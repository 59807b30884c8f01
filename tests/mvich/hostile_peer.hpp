// SPDX-License-Identifier: BSD-3-Clause
// A conversation whose peer writes whatever a script says, while the program here orders and the
// NIC completes as the script says. What an order lent is freed the moment the order is done, so
// that whoever still touches it is found by AddressSanitizer; whatever breaks another promise ends
// the run.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "fuzz/script.hpp"
#include "mvich/conversation_hot_path.hpp"

namespace via::test {

using namespace mvich;  // NOLINT: this is a part of its tests

class HostilePeer final : public Listener, public Lane, public Registrar, public ControlListener {
  public:
    explicit HostilePeer(Script& script) : script_(script), receives_(this) {
        const auto shape = script.take<std::uint8_t>();
        in_place_ = (shape & 1) != 0;
        settings_.vbuf_bytes = 1024;
        settings_.vbufs_per_region = 8;
        settings_.vbuf_regions = 4;
        settings_.credits = (shape & 2) != 0 ? 2 : 12;
        settings_.credit_preserve = 2;
        settings_.cache_entries = (shape & 4) != 0 ? 0 : 4;
        settings_.protocol.eager_bytes = 512;
        settings_.protocol.rdma_bytes = settings_.protocol.one_copy_bytes = 1500;
        settings_.protocol.forced = forced_protocol(forced_names[(shape >> 3) % 5]);
        refuses_ = (shape & 64) != 0;
        vbufs_ = std::make_unique<VbufPool>(
            *this, VbufPool::Geometry{settings_.vbuf_bytes, settings_.vbufs_per_region,
                                      settings_.vbuf_regions});
        registrations_ = std::make_unique<RegistrationCache>(
            *this, RegistrationCache::Limits{settings_.cache_entries, 1U << 30});
        around_.receives = &receives_;
        around_.vbufs = vbufs_.get();
        around_.registrations = registrations_.get();
        around_.windows = &windows_;
        around_.listener = this;
        around_.words = this;
        around_.settings = &settings_;
        around_.counters = &counters_;
        abilities_ = {in_place_ ? 2048U : settings_.vbuf_bytes,
                      settings_.vbuf_bytes - static_cast<std::uint32_t>(max_packet_head_bytes),
                      700,
                      in_place_,
                      in_place_ && (shape & 2) != 0,
                      true,
                      true};
        require(windows_.add(1, {{iovec{memory_.open.data(), memory_.open.size()}},
                                 0,
                                 window_read | window_write}),
                "a window");
        conversation_ = std::make_unique<Conversation>(around_, HostPort{});
        conversation_->peer = 0;
        conversation_->open(*this, settings_.credits + settings_.credit_preserve);
        if ((shape & 128) == 0) hello();
    }

    /// One step of the script. False: it is over, or the connection is.
    bool step() {
        if (!script_.more() || over_) return false;
        switch (script_.take<std::uint8_t>() % 14) {
            case 0:
                arrive(script_.bytes(script_.take<std::uint8_t>()));
                break;
            case 1:
            case 2:
            case 3:
                arrive(likely_packet());
                break;
            case 4:
                post_receive();
                break;
            case 5:
                order_send();
                break;
            case 6:
                order_remote();
                break;
            case 7:
                conversation_->flush();
                break;
            case 8:
                finish_transfer();
                break;
            case 9:
                take_unexpected(false);
                break;
            case 10:
                take_unexpected(true);
                break;
            case 11:
                cancel();
                break;
            case 12:
                arrive_headed();
                break;
            default:
                outcome_ = static_cast<Outcome>(script_.take<std::uint8_t>() % 8 == 7 ? 1 : 0);
                break;
        }
        if (conversation_->gone()) end();
        memory_.require_untouched();
        return !over_;
    }

    /// The connection is closed: everything comes back.
    void end() {
        if (std::exchange(over_, true)) return;
        transfers_.clear();
        conversation_->lost(Status::PeerLost);
        require(conversation_->under_way() == 0, "orders under way end with their connection");
        receives_.visit_unexpected_of(*conversation_, [&](UnexpectedMessage& message) {
            conversation_->discard(message);
            receives_.remove(message);
        });
        require(receives_.unexpected_count() == 0, "no message stays");
        require(vbufs_->in_use() == 0, "no vbuf stays");
        for (const Space space : {Space::Message, Space::Tagged})
            while (PostedReceive* receive = receives_.first_posted(space)) {
                receives_.take_out(*receive);
                require(buffers_.erase(receive->cookie.context) == 1, "a posted receive is known");
                receives_.destroy(receive);
            }
        require(buffers_.empty(), "every order was heard of");
        require(receives_.posted_count() == 0, "posted receives are counted");
    }

    [[nodiscard]] bool is_over() const noexcept { return over_; }
    [[nodiscard]] Conversation& conversation() noexcept { return *conversation_; }
    [[nodiscard]] ReceiveQueue& receives() noexcept { return receives_; }
    [[nodiscard]] const std::vector<Completion>& heard() const noexcept { return heard_; }

    /// The peer sends these bytes.
    void arrive(std::span<const std::byte> bytes) {
        // A copy of its own: one byte too far is found.
        const std::vector<std::byte> copy(bytes.begin(), bytes.end());
        Vbuf* vbuf = nullptr;
        std::span<const std::byte> packet = copy;
        if (!in_place_) {
            if (copy.size() > settings_.vbuf_bytes) return;
            vbuf = vbufs_->take();
            if (vbuf == nullptr) return;
            vbuf->owner = this;
            std::copy(copy.begin(), copy.end(), vbuf->packet);
            packet = {vbuf->packet, copy.size()};
        } else if (copy.size() > abilities_.packet_bytes) {
            return;
        }
        took(conversation_->packet(packet, vbuf), vbuf);
    }
    /// The same with the head apart, as inside a host.
    void arrive_headed(const na::HeadedMessage& message, std::span<const std::byte> payload) {
        if (!in_place_ || payload.size() > abilities_.packet_bytes) return;
        const std::vector<std::byte> copy(payload.begin(), payload.end());
        took(conversation_->headed_packet(message.note, message.head, message.head_bytes, copy),
             nullptr);
    }
    void arrive_headed() {
        const std::vector<std::byte> bytes = likely_packet();
        const auto decoded = decode(bytes);
        if (!decoded) return;
        const Packet& packet = *decoded;
        const auto disturbance = script_.take<std::uint8_t>();
        na::HeadedMessage message;
        if (packet.kind() == PacketKind::Data) {
            message.note = noted_stream | (std::uint32_t{packet.head.credits} & most_noted_credits)
                                              << 24;
            message.head[0] = packet.head.word;
            message.head[1] = packet.offset;
            message.head_bytes = 16;
        } else {
            PlainEager eager;
            if (packet.message_class() == MessageClass::Message)
                eager.message_class = MessageClass::Message;
            eager.has_data = (packet.head.flags & packet_has_data) != 0;
            eager.credits = packet.head.credits & most_noted_credits;
            eager.tag = packet.head.word;
            eager.data = packet.data;
            encode_headed(eager, message);
        }
        if (disturbance % 8 == 7) message.note ^= script_.take<std::uint32_t>();
        if (disturbance % 16 == 6) message.head_bytes ^= 8 ^ 16;
        arrive_headed(message, packet.payload);
    }
    void took(Conversation::Arrival arrival, Vbuf* vbuf) {
        require(arrival != Conversation::Arrival::NotNow || in_place_, "a vbuf can be kept");
        require(arrival != Conversation::Arrival::Kept || !in_place_, "a frame can not be kept");
        if (vbuf != nullptr && arrival != Conversation::Arrival::Kept) vbufs_->give(vbuf);
        if (arrival == Conversation::Arrival::Broken) end();
    }
    void arrive(Packet& packet) {
        std::array<std::byte, max_packet_head_bytes> head;
        const std::vector<std::byte> payload(packet.head.bytes, std::byte{7});
        packet.payload = payload;
        const std::size_t bytes = encode(packet, head);
        std::vector<std::byte> whole(head.begin(),
                                     head.begin() + static_cast<std::ptrdiff_t>(bytes));
        whole.insert(whole.end(), payload.begin(), payload.end());
        arrive(whole);
    }

    void* post_receive(std::size_t bytes, std::uint64_t tag, bool multi, Space space) {
        void* const context = lend(bytes);
        const iovec piece{buffers_[context].get(), bytes};
        ReceiveOrder order;
        order.space = space;
        order.tag = tag;
        order.ignore = space == Space::Message ? ~std::uint64_t{0} : 0;
        order.pieces = {&piece, 1};
        order.cookie.context = context;
        if (multi) {
            order.flags = order_multi_receive;
            order.least_free = 64;
            multi_receives_.insert(context);
        }
        receives_.post(order);
        return context;
    }

    /// `shape`: flags of the order, 16: untagged, 32: in two pieces.
    void order_send(std::size_t bytes, std::uint8_t shape) {
        void* const context = lend(bytes);
        const iovec pieces[2] = {{buffers_[context].get(), bytes / 2},
                                 {buffers_[context].get() + bytes / 2, bytes - bytes / 2}};
        const iovec whole{buffers_[context].get(), bytes};
        SendOrder order;
        order.to = 0;
        order.flags = shape & (order_has_data | order_inject | order_delivered | order_fence);
        order.space = (shape & 16) != 0 ? Space::Message : Space::Tagged;
        order.pieces =
            (shape & 32) != 0 ? std::span<const iovec>(pieces) : std::span<const iovec>(&whole, 1);
        order.cookie.context = context;
        if (conversation_->send(order) != Posted::UnderWay) buffers_.erase(context);
    }
    /// All RDMA that was begun, and what follows from it.
    void finish_transfers() {
        while (!transfers_.empty()) {
            const OrderId token = transfers_.front().first.token;
            transfers_.pop_front();
            conversation_->rdma_done(token, true);
            conversation_->flush();
        }
    }
    /// A read of the peer's window 1.
    void* order_read(std::size_t bytes) { return order_remote(Remote::Read, bytes, 0); }

  private:
    static constexpr const char* forced_names[] = {"auto", "eager", "r3", "rget", "rput"};

    static void require(bool condition, const char* what) {
        if (condition) return;
        std::fprintf(stderr, "not so: %s\n", what);
        std::abort();
    }

    void hello() {
        PacketHead head;
        head.kind = static_cast<std::uint8_t>(PacketKind::Noop);
        head.flags = packet_hello;
        head.credits = 8;
        head.word = Hello{1024, 512, 2}.word();
        arrive(std::as_bytes(std::span(&head, 1)));
    }

    [[nodiscard]] void* lend(std::size_t bytes) {
        void* const context = reinterpret_cast<void*>(++last_context_);
        buffers_[context] = std::make_unique<std::byte[]>(bytes + 1);
        return context;
    }

    /// Names of the first few orders, as a peer could guess them.
    [[nodiscard]] OrderId likely_id() {
        const auto guess = script_.take<std::uint8_t>();
        return ((guess & 1) != 0 ? receive_id_bit : 0) |
               (std::uint64_t{1} + (guess >> 1) % 4U) << 32 | (guess >> 3) % 4U;
    }

    [[nodiscard]] std::vector<std::byte> likely_packet() {
        Packet packet;
        packet.head.kind = static_cast<std::uint8_t>(1 + script_.take<std::uint8_t>() % 8);
        const auto flags = script_.take<std::uint8_t>();
        packet.head.credits = script_.take<std::uint8_t>() % 4;
        const std::uint64_t size = script_.take<std::uint16_t>() % 3000;
        const PacketKind kind = packet.kind();
        std::size_t bytes = 0;
        if (kind == PacketKind::Eager || kind == PacketKind::Request) {
            packet.head.flags = flags & 0x1F;
            const MessageClass message = packet.message_class();
            packet.head.word = message == MessageClass::ReadReply ? likely_id() : flags >> 6;
            if (kind == PacketKind::Request || message >= MessageClass::Write ||
                (flags & packet_wants_delivered) != 0)
                packet.id = 5 + size;
            if (message >= MessageClass::Atomic) {
                packet.operation = script_.take<std::uint8_t>() % 24;
                packet.datatype = script_.take<std::uint8_t>() % 20;
            }
            if (message >= MessageClass::Write && message != MessageClass::ReadReply) {
                packet.remote_pieces = 1;
                packet.remote[0] = {
                    std::uint64_t{script_.take<std::uint16_t>()} % 4200,
                    kind == PacketKind::Eager && message != MessageClass::ReadRequest ? size % 700
                                                                                      : size,
                    1};
            }
            if (kind == PacketKind::Request || message == MessageClass::ReadRequest) {
                packet.total = size;
            } else {
                bytes = size % 700;
                if (message == MessageClass::CompareAtomic) bytes *= 2;
            }
            if (kind == PacketKind::Request) {
                packet.protocol = static_cast<Protocol>(1 + script_.take<std::uint8_t>() % 3);
                if (packet.protocol == Protocol::Rget) packet.address = size;
            }
        } else {
            packet.head.word = likely_id();
            if (kind == PacketKind::OkToSend) {
                packet.id = 77;
                packet.total = size;
                packet.protocol = static_cast<Protocol>(1 + (flags & 7) % 3);
            } else if (kind == PacketKind::Data) {
                packet.offset = (flags & 1) != 0 ? 0 : size;
                bytes = 1 + size % 700;
            } else if (kind == PacketKind::Finish || kind == PacketKind::Delivered) {
                packet.status = static_cast<Status>(flags % 7);
            } else if (kind == PacketKind::Noop) {
                packet.head.flags = flags & (packet_starving | packet_hello);
            } else {
                bytes = size % 500;
            }
        }
        packet.head.bytes = static_cast<std::uint32_t>(bytes);
        const std::vector<std::byte> payload(bytes, static_cast<std::byte>(flags));
        packet.payload = payload;
        std::array<std::byte, max_packet_head_bytes> head;
        const std::size_t head_bytes = encode(packet, head);
        std::vector<std::byte> whole(head.begin(),
                                     head.begin() + static_cast<std::ptrdiff_t>(head_bytes));
        whole.insert(whole.end(), payload.begin(), payload.end());
        return whole;
    }

    void post_receive() {
        const auto size = script_.take<std::uint16_t>();
        const auto shape = script_.take<std::uint8_t>();
        if (receives_.posted_count() >= 16) return;
        post_receive(size % 4000, shape & 3, (shape & 12) == 12,
                     (shape & 16) != 0 ? Space::Message : Space::Tagged);
    }

    void order_send() {
        const std::size_t bytes = script_.take<std::uint16_t>() % 4000;
        const auto shape = script_.take<std::uint8_t>();
        if (conversation_->under_way() < 32) order_send(bytes, shape);
    }

    void order_remote() {
        const std::size_t bytes = script_.take<std::uint16_t>() % 4000;
        const auto shape = script_.take<std::uint8_t>();
        if (conversation_->under_way() >= 32) return;
        order_remote(static_cast<Remote>(shape % 5), bytes, shape >> 4);
    }

    void* order_remote(Remote what, std::size_t bytes, std::uint8_t operation) {
        // Atomics are short; the second half of the buffer is where results go.
        if (what >= Remote::Atomic) bytes = bytes % 30 * 8;
        void* const context = lend(2 * bytes);
        const iovec piece{buffers_[context].get(), bytes};
        const iovec result{buffers_[context].get() + bytes, bytes};
        const RemotePiece there{0, bytes, 1};
        RemoteOrder order;
        order.to = 0;
        order.what = what;
        order.pieces = {&piece, 1};
        order.remote = {&there, 1};
        order.operation = operation;
        if (what > Remote::Atomic) order.results = {&result, 1};
        if (what == Remote::CompareAtomic) order.compares = {&piece, 1};
        order.cookie.context = context;
        if (conversation_->remote(order) != Posted::UnderWay) buffers_.erase(context);
        return context;
    }

    void finish_transfer() {
        const bool good = script_.take<std::uint8_t>() % 8 != 7;
        if (transfers_.empty()) return;
        const auto [order, is_write] = transfers_.front();
        transfers_.pop_front();
        auto* local = static_cast<std::byte*>(order.local);
        const auto region = regions_.find(order.local_handle);
        require(region != regions_.end() && local >= region->second.first &&
                    local + order.bytes <= region->second.first + region->second.second,
                "RDMA is of registered memory");
        if (!is_write && good) std::memset(local, 9, order.bytes);
        if (is_write)
            for (std::size_t i = 0; i < order.bytes; ++i)
                sum_ = sum_ + static_cast<unsigned>(local[i]);
        conversation_->rdma_done(order.token, good);
    }

    void take_unexpected(bool discard) {
        const auto shape = script_.take<std::uint8_t>();
        const std::size_t bytes = script_.take<std::uint16_t>() % 4000;
        ReceiveOrder order;
        order.space = (shape & 1) != 0 ? Space::Message : Space::Tagged;
        order.ignore = ~std::uint64_t{0};
        UnexpectedMessage* message = receives_.find(order);
        if (message == nullptr) return;
        if (discard) {
            conversation_->discard(*message);
            receives_.remove(*message);
            return;
        }
        void* const context = lend(bytes);
        const iovec piece{buffers_[context].get(), bytes};
        order.pieces = {&piece, 1};
        order.cookie.context = context;
        const UnexpectedMessage taken = *message;
        receives_.remove(*message);
        conversation_->receive(taken, *receives_.make(order));
    }

    void cancel() {
        void* const context =
            reinterpret_cast<void*>(last_context_ - script_.take<std::uint8_t>() % 8);
        if (conversation_->cancel_send(context)) return;
        if (PostedReceive* receive = receives_.cancel(context)) {
            receives_.destroy(receive);
            require(buffers_.erase(context) == 1, "a receive that was cancelled is known");
        }
    }

    // Listener.
    void done(const Completion& completion) override {
        heard_.push_back(completion);
        if (completion.what == Happened::RemoteWrite || completion.what == Happened::RemoteRead)
            return;
        const auto found = buffers_.find(completion.cookie.context);
        require(found != buffers_.end(), "an order is heard of once");
        // A multi-receive's buffer is lent until its last message.
        if (multi_receives_.contains(completion.cookie.context) && !completion.last_of_buffer)
            return;
        buffers_.erase(found);
    }

    // ControlListener.
    void word(const HostPort&, std::span<const std::byte> bytes) override {
        for (const std::byte byte : bytes)
            sum_ = sum_ + static_cast<unsigned>(byte);
    }
    void lost(const HostPort&, Status) override {}

    // Lane.
    [[nodiscard]] const LaneAbilities& abilities() const noexcept override { return abilities_; }
    [[nodiscard]] Outcome send(std::span<const iovec> pieces, std::uint32_t bytes) override {
        std::size_t whole = 0;
        for (const iovec& piece : pieces) {
            const auto* at = static_cast<const std::byte*>(piece.iov_base);
            for (std::size_t i = 0; i < piece.iov_len; ++i)
                sum_ = sum_ + static_cast<unsigned>(at[i]);
            whole += piece.iov_len;
        }
        require(whole == bytes && bytes <= abilities_.packet_bytes, "a packet has its length");
        return outcome_;
    }
    [[nodiscard]] Outcome send_headed(const na::HeadedMessage& message) override {
        require(in_place_, "heads go apart inside a host only");
        const iovec piece{const_cast<void*>(message.payload), message.payload_bytes};
        return send({&piece, 1}, message.payload_bytes);
    }
    [[nodiscard]] Outcome read(const RdmaOrder& order) override { return transfer(order, false); }
    [[nodiscard]] Outcome write(const RdmaOrder& order) override { return transfer(order, true); }
    [[nodiscard]] Outcome transfer(const RdmaOrder& order, bool is_write) {
        if (outcome_ != Outcome::Done || transfers_.size() >= 4) return Outcome::NoRoom;
        require(order.bytes != 0 && order.bytes <= abilities_.rdma_bytes, "an RDMA has its length");
        transfers_.emplace_back(order, is_write);
        return Outcome::Done;
    }
    void recycle(Vbuf* vbuf) noexcept override { vbufs_->give(vbuf); }
    [[nodiscard]] std::uint32_t widen(std::uint32_t window) override { return window < 20 ? 5 : 0; }

    // Registrar.
    [[nodiscard]] base::Result<std::uint32_t> register_memory(void* address,
                                                              std::size_t bytes) override {
        if (refuses_ && bytes < 8000 && ++asked_ % 3 == 0)
            return base::Result<std::uint32_t>(base::Code::OutOfResources, "refused");
        regions_[++last_handle_] = {static_cast<std::byte*>(address), bytes};
        return last_handle_;
    }
    void deregister(void*, std::uint32_t handle) noexcept override {
        require(regions_.erase(handle) == 1, "what is deregistered was registered");
    }

    Script& script_;
    bool in_place_ = false;
    bool refuses_ = false;
    bool over_ = false;
    unsigned asked_ = 0;
    volatile unsigned sum_ = 0;  ///< of all that was read, so that it is read
    MessageSettings settings_;
    LaneAbilities abilities_;
    Outcome outcome_ = Outcome::Done;
    std::map<std::uint32_t, std::pair<std::byte*, std::size_t>> regions_;
    std::uint32_t last_handle_ = 0;
    ReceiveQueue receives_;
    std::unique_ptr<VbufPool> vbufs_;
    std::unique_ptr<RegistrationCache> registrations_;
    WindowTable windows_;
    base::MessageCounters counters_;
    Surroundings around_;
    ExposedMemory memory_;
    std::map<void*, std::unique_ptr<std::byte[]>> buffers_;  ///< by the contexts of their orders
    std::set<void*> multi_receives_;
    std::uintptr_t last_context_ = 0;
    std::deque<std::pair<RdmaOrder, bool>> transfers_;
    std::vector<Completion> heard_;
    std::unique_ptr<Conversation> conversation_;
};

}  // namespace via::test
