// SPDX-License-Identifier: BSD-3-Clause
// A VI's end of a shm connection. Sending: a small message goes inline in a frame, a middle one
// through the byte ring in chunks that the receiver takes out while the next is put in, a large one
// as a reference that the receiver fetches with one copy (kmem mapping or CMA) and acknowledges.
// RDMA is done wholly by the initiator; only where neither mapping nor CMA works it goes through
// the ring and the target's poll (or its service thread) takes part.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "na/nic_agent.hpp"
#include "na/shm/channel.hpp"
#include "na/shm/peer_process.hpp"

namespace via::na::shm {

class ShmNicAgent;
class ShmPollGroup;

struct ShmSettings {
    Geometry geometry;
    bool inline_frames = true;
    std::uint32_t chunk_bytes = 16384;
    std::uint32_t kmem_bytes = 2048;
    std::uint32_t single_copy_bytes = 262144;
    AllowedPaths allowed;
    [[nodiscard]] static ShmSettings read();
};

class ShmEndpoint final : public Endpoint {
  public:
    ShmEndpoint(ShmNicAgent& agent, QueuePair& queues, EndpointOwner& owner,
                const EndpointGroups& groups, std::uint32_t index);
    ~ShmEndpoint() override;

    /// Goes live on an established connection.
    [[nodiscard]] base::Result<void> attach(ka::Established&& established, const Geometry& geometry,
                                            std::shared_ptr<PeerProcess> peer,
                                            std::uint32_t remote_index, bool peer_has_barrier);

    void ring_send() override;
    [[nodiscard]] bool send_at_once(const void* data, std::uint32_t bytes, bool in_kmem,
                                    bool has_immediate, std::uint32_t immediate) override;
    [[nodiscard]] bool send_gathered(std::span<const iovec> pieces, std::uint32_t bytes) override;
    [[nodiscard]] bool send_headed(const HeadedMessage& message) override;
    [[nodiscard]] std::uint32_t longest_gathered() const override {
        return gathers_ ? writer_->longest_chunk() : 0;
    }
    [[nodiscard]] bool reaches_peer_memory() const override {
        return peer_->can_read() && peer_->can_write();
    }
    [[nodiscard]] bool shows_frames() const override { return queues_.sink != nullptr; }
    [[nodiscard]] bool has_news() override;
    bool poll() override;
    void arm(Wakes wakes) override;
    [[nodiscard]] bool unfinished() const override;
    void nudge() override;
    void disconnect() override;
    [[nodiscard]] std::int32_t peer_pid() const override { return peer_ ? peer_->pid() : 0; }

    // For the poll group and the device.
    [[nodiscard]] bool live() const noexcept {
        return base::load_then_order(live_, [](bool live) { return live; });
    }
    [[nodiscard]] bool arrival_visible() const noexcept {
        return live() && reader_->arrival_visible();
    }
    void want_attention(Wakes wakes) noexcept {
        if (live())
            reader_->control().attention.wanted.store(static_cast<std::uint32_t>(wakes),
                                                      std::memory_order_relaxed);
    }
    [[nodiscard]] EndpointOwner& owner() noexcept { return owner_; }
    [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
    /// Its poll groups look at it from now on.
    void wake_groups();
    /// Has it nothing to do until the peer rings? If it gets something to do later, it wakes its
    /// groups itself. Not under the VI's lock.
    [[nodiscard]] bool may_be_left_to_ring();
    [[nodiscard]] bool connects_to(const PeerProcess& peer) const noexcept {
        return peer_identity_.load(std::memory_order_acquire) == &peer;
    }
    [[nodiscard]] std::uint64_t connection() const noexcept {
        return connection_.load(std::memory_order_acquire);
    }
    /// The next poll looks for what no frame shows.
    void rung() noexcept { rung_.store(true, std::memory_order_relaxed); }
    void peer_died() noexcept { peer_gone_.store(true, std::memory_order_release); }
    [[nodiscard]] bool shares_core() const noexcept {
        return queues_.shares_core.load(std::memory_order_relaxed);
    }
    [[nodiscard]] const ka::EndpointAttributes& local_attributes() const noexcept {
        return queues_.local;
    }

  private:
    struct Incoming {  ///< a message coming in chunks
        bool active = false;
        bool discard = false;
        std::uint32_t total = 0;
        std::uint32_t received = 0;
        std::uint32_t capacity = 0;
        std::uint32_t status = 0;
        std::uint32_t immediate = 0;
        bool has_descriptor = false;
        ChannelReader::Position begun;  ///< for tracers
    };
    struct IncomingRdma {  ///< an RDMA write coming through the ring
        bool active = false;
        bool refused = false;
        bool has_immediate = false;
        std::uint64_t address = 0;
        std::uint32_t handle = 0;
        std::uint32_t total = 0;
        std::uint32_t received = 0;
        std::uint32_t immediate = 0;
        ChannelReader::Position begun;
    };
    struct OutstandingRead {  ///< our RDMA read through the ring
        std::uint64_t number = 0;
        std::vector<PhysicalDescriptor> segments;
        std::uint32_t length = 0;
        std::uint32_t received = 0;
    };
    struct ServedRead {  ///< the peer's RDMA read that we answer
        std::uint64_t address = 0;
        std::uint32_t handle = 0;
        std::uint32_t length = 0;
        std::uint32_t sent = 0;
        std::uint32_t token = 0;
    };

    struct Owed {  ///< acknowledgements not sent yet
        std::uint32_t received = 0;
        std::uint32_t failure = 0;  ///< status of the message after the received ones, or 0
    };

    // What the frames say that are more than a number.
    struct ChunkNotice {  ///< First, Next
        RingChunk chunk;
        std::uint32_t total = 0;
    };
    struct ReferenceNotice {
        static constexpr std::uint32_t fixed_bytes = 8;
        std::uint32_t total = 0;
        std::uint32_t segments = 0;
        std::byte list[max_inline_bytes - fixed_bytes];  ///< the PDs, or the chunk that has them
    };
    struct RdmaNotice {  ///< RdmaDone
        std::uint32_t bytes = 0;
        std::uint32_t failure = 0;
    };
    struct RdmaChunkNotice {  ///< RdmaWriteFirst, RdmaWriteNext
        std::uint32_t address[2];
        std::uint32_t handle = 0;
        std::uint32_t total = 0;
        RingChunk chunk;
    };
    struct ReadRequestNotice {
        std::uint64_t address = 0;
        std::uint32_t handle = 0;
        std::uint32_t length = 0;
    };
    struct ReadDataNotice {
        RingChunk chunk;
        std::uint32_t failure = 0;
    };

    // Outgoing (shm_send.cpp).
    [[gnu::noinline, nodiscard]] bool send_chunk_at_once(const void* data, std::uint32_t bytes,
                                                         bool has_immediate,
                                                         std::uint32_t immediate);
    [[gnu::noinline, nodiscard]] bool send_headed_chunk(const HeadedMessage& message,
                                                        std::uint8_t flags);
    [[gnu::noinline, nodiscard]] bool send_gathered_chunk(std::span<const iovec> pieces,
                                                          std::uint32_t bytes);
    [[gnu::always_inline, nodiscard]] bool finish_at_once(std::uint32_t bytes,
                                                          base::DataPath path) noexcept;
    bool start_next();
    bool send_inline(const ChainHead& head);
    bool send_chunks(const ChainHead& head);
    bool send_reference(const ChainHead& head);
    void gather(std::byte* to, std::uint32_t first, std::uint32_t offset,
                std::uint32_t bytes) noexcept;
    [[nodiscard]] bool goes_by_reference(const ChainHead& head);
    [[nodiscard]] bool peer_can_map(const ChainHead& head);
    void finish_send(std::uint32_t length, base::DataPath path, bool by_reference);
    void flush_outgoing();
    bool serve_reads();
    void owe_acknowledgement(std::uint32_t status);
    bool send_acknowledgements();
    void ring_if_wanted() noexcept;
    [[gnu::noinline]] bool ring_peer() noexcept;

    // RDMA (shm_rdma.cpp).
    bool rdma_write(const ChainHead& head);
    bool rdma_write_chunks(const ChainHead& head, const PhysicalDescriptor& remote);
    bool rdma_read(const ChainHead& head);
    [[nodiscard]] bool remote_region(const PhysicalDescriptor& remote, std::uint32_t length,
                                     std::uint32_t right, const ka::Region*& region);
    bool refuse_rdma(const ChainHead& head);
    void handle_rdma_done(const FrameHeader& frame);
    bool handle_rdma_write(const FrameHeader& frame, bool first);
    bool handle_read_request(const FrameHeader& frame);
    bool handle_read_data(const FrameHeader& frame);

    // Incoming (shm_receive.cpp).
    bool handle(const FrameHeader& frame);
    [[gnu::always_inline, nodiscard]] std::byte* plain_target(std::uint32_t bytes) noexcept;
    [[gnu::always_inline]] void finish_plain(const FrameHeader& frame, std::uint32_t bytes,
                                             base::DataPath path) noexcept;
    [[gnu::always_inline, nodiscard]] bool take_small_message(std::uint64_t word);
    [[gnu::noinline]] bool take_whole_chunk(std::uint64_t word);
    [[gnu::noinline]] bool poll_thoroughly();
    enum class Shown : std::uint8_t { Taken, Refused, NotShown };
    [[gnu::always_inline, nodiscard]] Shown show(const FrameHeader& frame);
    [[gnu::always_inline, nodiscard]] Shown show_short_headed();
    [[gnu::always_inline]] void account(std::uint64_t bytes, base::DataPath path);
    [[gnu::noinline]] bool show_frames();
    bool take_frames();
    bool handle_inline(const FrameHeader& frame);
    bool handle_unusual_inline(const FrameHeader& frame);
    bool handle_chunk(const FrameHeader& frame, bool first);
    bool handle_reference(const FrameHeader& frame);
    bool handle_acknowledge(const FrameHeader& frame);
    void begin_receive(std::uint32_t total, const FrameHeader& frame);
    void finish_receive(base::DataPath path);
    void scatter(const std::byte* from, std::uint32_t offset, std::uint32_t bytes);
    [[nodiscard]] bool fetch(std::uint32_t total, std::span<const PhysicalDescriptor> segments,
                             base::DataPath& path);
    [[nodiscard]] bool find_remote(std::uint32_t handle, const ka::Region*& region);
    [[nodiscard]] std::byte* map_remote(const ka::Region& region, std::uint64_t address,
                                        std::uint32_t bytes);
    void acknowledge(std::uint32_t status);
    void violation(const char* what);
    [[gnu::cold]] void give_up() noexcept;
    bool idle();

    /// Does the segment lie in registered memory of the VI's tag?
    [[nodiscard]] bool check_local(const PhysicalDescriptor& pd, std::uint32_t right = 0);
    [[nodiscard]] bool allows(const ka::Region& region, const PhysicalDescriptor& pd,
                              std::uint32_t right) const noexcept {
        return region.permits(pd.address, pd.length, right, queues_.local.tag,
                              (queues_.local.flags & ka::endpoint_any_tag) != 0);
    }

    /// The frame's payload as one of the notices; as much of it as there is.
    template <class Notice>
    [[nodiscard]] Notice notice_of(const FrameHeader& frame) noexcept {
        Notice notice{};
        reader_->read_payload(
            reinterpret_cast<std::byte*>(&notice),
            std::min<std::uint32_t>(frame.length, static_cast<std::uint32_t>(sizeof notice)));
        return notice;
    }

    ShmNicAgent& agent_;
    QueuePair& queues_;
    EndpointOwner& owner_;
    std::array<ShmPollGroup*, 2> groups_;  ///< different ones or null
    const std::uint32_t index_;
    const ka::RmmtView rmmt_;
    ka::CachedRegion region_cache_;       ///< of the receives
    ka::CachedRegion send_region_cache_;  ///< of the sends
    // The region and the arena of the peer that were used last.
    const ka::RmmtEntry* remote_table_ = nullptr;
    ka::CachedRegion remote_region_cache_;
    std::uint32_t remote_arena_ = ka::no_arena;
    std::span<std::byte> remote_arena_memory_;
    ShmSettings settings_;

    std::atomic<bool> live_{false};
    base::Mapping channel_;
    std::optional<ChannelWriter> writer_;
    std::optional<ChannelReader> reader_;
    std::shared_ptr<PeerProcess> peer_;
    std::atomic<const PeerProcess*> peer_identity_{nullptr};  ///< for other threads to compare
    std::atomic<std::uint64_t> connection_{0};
    std::uint32_t remote_index_ = 0;
    base::ViCounters* counters_ = nullptr;  ///< the queue pair's, at hand
    bool fence_needed_ = true;
    bool sends_at_once_ = false;  ///< small sends go inline and are done when they are gone
    bool takes_plainly_ = false;  ///< the same at the other end, into posted receives
    bool shows_plainly_ = false;  ///< or to the sink
    bool gathers_ = false;        ///< send_gathered() works
    std::uint32_t chunk_bytes_ = 0;

    bool outbox_ = false;     ///< acknowledgements, answers or read data wait to be sent
    bool published_ = false;  ///< a frame went out since the doorbell was last considered
    bool halted_ = false;     ///< an error on a reliable connection: the user agent will end it
    bool closed_reported_ = false;
    std::atomic<bool> peer_gone_{false};
    std::atomic<bool> rung_{false};
    std::atomic<bool> left_to_ring_{false};  ///< perhaps, by one of its groups

    std::uint32_t send_offset_ = 0;  ///< progress of the front chain when it goes in chunks
    std::uint64_t acknowledge_cursor_ = 0;
    std::uint32_t awaiting_ = 0;    ///< entries that an acknowledgement will complete
    std::uint32_t references_ = 0;  ///< of these, messages the peer has yet to fetch
    std::deque<Owed> owed_;
    std::deque<OutstandingRead> reads_;
    std::deque<ServedRead> served_reads_;
    std::set<std::uint32_t> arenas_offered_;
    std::set<std::uint32_t> arenas_mapped_;
    std::deque<std::uint32_t> arena_answers_;

    Incoming incoming_;
    IncomingRdma incoming_rdma_;
    std::uint32_t idle_polls_ = 0;
    std::uint32_t sent_since_poll_ = 0;  ///< short messages
};

}  // namespace via::na::shm
