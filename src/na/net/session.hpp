// SPDX-License-Identifier: BSD-3-Clause
// VIA over packets: turns a VI's send queue into a stream of operations and what comes into
// completed receives, RDMA and reads, by the rules of the reliability level. Pure: it touches the
// queues and the registered memory, and nothing else.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "ka/rmmt.hpp"
#include "links/range_set.hpp"
#include "links/ring.hpp"
#include "links/transport.hpp"
#include "na/nic_agent.hpp"

namespace via::na::net {

/// The PDs of a chain. Nearly always there is one.
class Segments {
  public:
    void clear() noexcept {
        count_ = 0;
        more_.clear();
    }
    void add(const PhysicalDescriptor& pd) {
        if (count_++ == 0)
            first_ = pd;
        else
            more_.push_back(pd);
    }
    [[nodiscard]] std::uint32_t size() const noexcept { return count_; }
    [[nodiscard]] const PhysicalDescriptor& operator[](std::uint32_t i) const noexcept {
        return i == 0 ? first_ : more_[i - 1];
    }

  private:
    std::uint32_t count_ = 0;
    PhysicalDescriptor first_{};
    std::vector<PhysicalDescriptor> more_;
};

/// Which bytes of a message have come: nearly always those from its beginning on, in order.
class Pieces {
  public:
    void clear() noexcept {
        end_ = 0;
        beyond_.clear();
    }
    void add(std::uint64_t begin, std::uint64_t end) {
        if (begin > end_) {
            beyond_.add(begin, end);
        } else if (end > end_) {
            end_ = end;
            if (!beyond_.empty()) join();
        }
    }
    /// Everything before has come.
    [[nodiscard]] std::uint64_t end() const noexcept { return end_; }
    /// What has come although something before it has not.
    [[nodiscard]] const links::RangeSet& beyond() const noexcept { return beyond_; }
    /// Of all from end() to there nothing has come.
    [[nodiscard]] bool lacks_until(std::uint64_t there) const noexcept {
        return beyond_.empty() || beyond_.ranges().front().begin >= there;
    }

  private:
    void join() {
        end_ = beyond_.join(end_);
        if (beyond_.empty()) beyond_ = {};  // its memory, too: this is seldom
    }
    std::uint64_t end_ = 0;
    links::RangeSet beyond_;
};

class Session final : public links::StreamClient {
  public:
    /// Operations of one direction that are not delivered yet; no side goes further ahead.
    static constexpr std::uint64_t most_operations = 1024;
    static constexpr std::size_t most_reads = 16;
    static constexpr std::size_t most_served_reads = 64;

    /// What tracers know the two directions by, the same at both ends.
    struct Streams {
        std::uint64_t outgoing = 0;
        std::uint64_t incoming = 0;
    };

    Session(QueuePair& queues, ka::RmmtView rmmt, const Streams& streams = {0, 0});

    /// There are new chains in the send queue: takes as many as may be under way.
    void take_sends();
    /// A send of one segment that was never there. False: it has to go there, and wait.
    [[nodiscard]] bool take_send(std::uint64_t entry, PhysicalDescriptor segment,
                                 bool has_immediate, std::uint32_t immediate);
    /// Nothing of the program is used any more: its memory, its queues.
    void detach() noexcept { queues_ = nullptr; }
    [[nodiscard]] bool attached() const noexcept { return queues_ != nullptr; }

    /// Chains in the send queue that are not taken yet.
    [[nodiscard]] bool has_posts() const noexcept {
        return queues_ != nullptr && queues_->send.has_unstarted();
    }
    /// Operations of this side that are not delivered yet.
    [[nodiscard]] std::size_t operations() const noexcept { return operations_.size(); }
    /// Those of which some part has never been in a packet.
    [[nodiscard]] std::uint64_t unsent_operations() const noexcept {
        return next_operation_ - unsent_operation_;
    }
    /// Sends or reads that are not done.
    [[nodiscard]] bool unfinished() const noexcept;
    /// An error on a reliable connection: the user agent will end it, and this is why.
    [[nodiscard]] bool halted() const noexcept { return halted_; }
    [[nodiscard]] const wire::CloseFrame& reason() const noexcept { return reason_; }
    [[nodiscard]] bool peer_closed() const noexcept { return peer_closed_; }
    /// Something was completed or reported since it was asked last.
    [[nodiscard]] bool take_news() noexcept {
        delivered_long_ = false;
        return std::exchange(news_, false);
    }
    void peer_lost() noexcept;
    /// Of the message that is to be delivered next, if a part of it has come, and if the peer had
    /// it ready before it could know that the long one before it had arrived. So it waits for no
    /// answer, and more of its kind will follow, most likely. 0: there is no such message.
    [[nodiscard]] std::uint64_t missing_of_stream() const noexcept {
        if (incoming_.empty() || !incoming_.front().begun || !incoming_.front().follows) return 0;
        const Incoming& next = incoming_.front();
        return next.total - std::min<std::uint64_t>(next.total, next.got.end());
    }

    // links::StreamClient
    void fill(links::Train& train, std::vector<links::Span>& spans) override;
    [[nodiscard]] bool fill_alone(links::LonePacket& packet, links::Span& span) override;
    void sent(std::span<const links::Span> spans) override;
    void lost(const links::Span& span) override;
    void unsent(const links::Span& span) override;
    void peer_delivered(std::uint32_t count) override;
    [[nodiscard]] std::byte* early_place(const wire::DataFrame& frame) override;
    [[nodiscard]] bool take(const wire::DataFrame& frame,
                            std::span<const std::byte> payload) override;
    [[nodiscard]] bool take_continued(const wire::Continuation& piece,
                                      std::span<const std::byte> payload) override;
    [[nodiscard]] bool is_midway() const noexcept override { return !incoming_.empty(); }
    void peer_closes(const wire::CloseFrame& frame) override;
    void violation(const char* what) override;

  private:
    /// What this side sends.
    struct Outgoing {
        wire::FrameType type = wire::FrameType::Send;
        bool has_immediate = false;
        bool has_entry = false;    ///< a descriptor of the program waits for it
        std::uint32_t length = 0;  ///< bytes that travel
        std::uint32_t immediate = 0;
        std::uint64_t receive = 0;  ///< number of the peer's receive, or of the read it answers
        std::uint64_t entry = 0;    ///< in the send queue
        PhysicalDescriptor remote{};
        Segments segments;
    };
    /// What the peer sends.
    struct Incoming {
        bool begun = false;
        bool complete = false;
        wire::FrameType type = wire::FrameType::Send;
        bool has_immediate = false;
        bool refused = false;  ///< RDMA that is not allowed
        bool no_receive = false;
        bool follows = false;  ///< right behind another long one
        std::uint32_t total = 0;
        std::uint32_t immediate = 0;
        std::uint32_t status = 0;
        std::uint64_t receive = 0;
        std::uint64_t address = 0;
        std::uint32_t handle = 0;
        /// All of it goes to one place, which is long enough, and there is nothing wrong with it.
        bool direct = false;
        PhysicalDescriptor place{};
        Pieces got;
        // The last bytes of an RDMA write appear last, whatever the order of the packets.
        std::uint32_t held_bytes = 0;
        std::uint32_t held_offset = 0;
        std::array<std::byte, 8> held{};

        /// As new, but for the memory it holds.
        void reset() noexcept {
            begun = complete = refused = no_receive = direct = false;
            status = 0;
            held_bytes = held_offset = 0;
            got.clear();
        }
    };
    struct TakenReceive {
        std::uint64_t entry = 0;
        std::uint32_t capacity = 0;
        Segments segments;
    };
    struct Read {  ///< ours, that the peer answers
        std::uint64_t operation = 0;
        std::uint64_t entry = 0;
        std::uint32_t length = 0;
        std::uint32_t status = 0;
        Segments segments;
    };

    // Sending.
    [[nodiscard]] Outgoing& operation(std::uint64_t number) noexcept {
        return operations_[number - first_operation_];
    }
    /// A new one at the end of the stream, to be filled in; added() counts it.
    [[nodiscard]] Outgoing& new_operation();
    void added(const Outgoing& operation) noexcept;
    void added_send(Outgoing& operation) noexcept;
    void halt() noexcept {
        halted_ = true;
        pending_bytes_ = 0;
    }
    /// Puts right what waits, after anything that may have changed it.
    void settle_pending() noexcept;
    void fill_packets(links::Train& train, std::vector<links::Span>& spans);
    void fill_packet(links::Train& train, links::Span& span);
    void fill_with_lost(links::Train& train, links::Span& span);
    void fill_with_bulk(links::Train& train, std::vector<links::Span>& spans);
    [[nodiscard]] const std::byte* bulk_of(const Outgoing& op) noexcept;
    [[nodiscard]] bool put_continuation(links::Train& train, std::uint64_t number,
                                        std::uint32_t& begin, std::uint32_t end);
    template <class Packet>
    [[gnu::always_inline, nodiscard]] bool put_whole(Packet& packet, const Outgoing& op,
                                                     std::uint64_t number);
    /// Puts frames of [number, begin .. end) into the packet. False: there is no room for more.
    bool put(links::Train& train, std::uint64_t number, std::uint32_t& begin, std::uint32_t end,
             bool& any);
    [[nodiscard]] static wire::DataFrame frame_of(const Outgoing& op,
                                                  std::uint64_t number) noexcept;
    static void refer(links::Train& train, const Outgoing& op, const std::byte* data,
                      std::uint32_t bytes);
    [[nodiscard]] static std::uint32_t piece_of(const links::Train& train, const Outgoing& op,
                                                std::uint32_t begin, std::uint32_t bytes) noexcept;
    [[nodiscard]] const std::byte* apart_of(const Outgoing& op, std::uint32_t begin) noexcept;
    [[nodiscard]] bool fill_apart(links::Train& train);
    [[nodiscard]] bool refer_segments(links::Train& train, const Outgoing& op, std::uint32_t offset,
                                      std::uint32_t bytes);
    /// About how many bytes it is to send it.
    [[nodiscard]] std::uint64_t weight_of(const links::Span& span) noexcept;
    void fail_send(std::uint64_t number, std::uint32_t status);
    void retire_first(std::uint32_t status);

    // Receiving.
    [[nodiscard]] bool take_unreliable(const wire::DataFrame& frame,
                                       std::span<const std::byte> payload);
    [[gnu::always_inline, nodiscard]] bool take_plain(const wire::DataFrame& frame,
                                                      std::span<const std::byte> payload);
    [[nodiscard]] bool is_next_piece(const Incoming& incoming, const wire::DataFrame& frame);
    [[nodiscard]] bool take_next_piece(Incoming& incoming, const wire::DataFrame& frame,
                                       std::span<const std::byte> payload);
    enum class Begin : std::uint8_t { Ready, NotNow, Violation };
    [[nodiscard]] Begin begin(Incoming& incoming, const wire::DataFrame& frame, bool is_next);
    [[nodiscard]] Begin begin_receive(Incoming& incoming, bool is_next);
    void begin_write(Incoming& incoming);
    void place(Incoming& incoming, const wire::DataFrame& frame,
               std::span<const std::byte> payload);
    void place_write(Incoming& incoming, std::uint32_t offset, std::span<const std::byte> payload);
    void place_read(Incoming& incoming, std::uint32_t offset, std::span<const std::byte> payload);
    void deliver_ready();
    void deliver(Incoming& incoming);
    void deliver_send(const Incoming& incoming);
    void deliver_write(Incoming& incoming);
    void deliver_read_request(const Incoming& incoming);
    void deliver_read_data(const Incoming& incoming);
    [[nodiscard]] bool take_receive();
    void fail(std::uint32_t status);
    [[nodiscard]] Read* read_of(std::uint64_t operation) noexcept;
    /// Copies to the place in the segments; false: some of it is not registered any more.
    [[nodiscard]] bool scatter(const Segments& segments, std::uint32_t capacity,
                               std::uint32_t offset, std::span<const std::byte> payload);

    [[nodiscard]] bool allows(ka::CachedRegion& cache, const PhysicalDescriptor& pd,
                              std::uint32_t right) noexcept;

    QueuePair* queues_;
    ka::RmmtView rmmt_;
    const Streams streams_;
    ka::CachedRegion send_cache_;
    ka::CachedRegion receive_cache_;

    links::Ring<Outgoing> operations_;   ///< not delivered yet
    std::uint64_t first_operation_ = 0;  ///< number of the front one
    std::uint64_t next_operation_ = 0;   ///< number of the next to be made
    std::uint64_t unsent_operation_ = 0;
    std::uint32_t unsent_offset_ = 0;
    std::uint64_t sent_before_ = 0;  ///< operations before it have all been in packets
    std::deque<links::Span> lost_;
    std::uint64_t receives_used_ = 0;  ///< of the peer's, by operations made here
    std::deque<Read> reads_;
    std::size_t served_reads_ = 0;

    links::Ring<Incoming> incoming_;  ///< from the next to be delivered on
    links::Ring<TakenReceive> taken_;
    std::uint64_t receives_taken_ = 0;
    std::uint64_t receives_delivered_ = 0;

    bool halted_ = false;
    bool peer_closed_ = false;
    bool news_ = false;
    bool delivered_long_ = false;  ///< since it was asked for news
    wire::CloseFrame reason_;
};

inline Session::Outgoing& Session::new_operation() {
    Outgoing& op = operations_.push();
    op.has_immediate = false;
    op.has_entry = false;
    op.receive = 0;
    op.segments.clear();
    return op;
}

inline bool Session::allows(ka::CachedRegion& cache, const PhysicalDescriptor& pd,
                            std::uint32_t right) noexcept {
    const ka::Region* region;
    const auto known = static_cast<std::uint32_t>(cache.find(rmmt_, pd.handle, region));
    // Looked at even if there is no such region: the peer must not learn from the time what was
    // wrong.
    const auto permitted = static_cast<std::uint32_t>(
        region->permits(pd.address, pd.length, right, queues_->local.tag,
                        (queues_->local.flags & ka::endpoint_any_tag) != 0));
    return (known & permitted) != 0;
}

}  // namespace via::na::net
