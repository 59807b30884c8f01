// SPDX-License-Identifier: BSD-3-Clause
// The sending half of a shm endpoint.
#include <algorithm>

#include "na/shm/shm_endpoint.hpp"
#include "na/shm/shm_nic_agent.hpp"

namespace via::na::shm {
namespace {

/// Chunks smaller than this are not worth a frame while the ring drains.
constexpr std::uint32_t smallest_chunk = 512;
constexpr std::uint32_t inline_references = 3;

}  // namespace

void ShmEndpoint::ring_send() {
    while (queues_.send.has_work() && start_next()) {
    }
    ring_if_wanted();
}

bool ShmEndpoint::start_next() {
    const ChainHead head = decode_head(queues_.send.pds.at(0));
    if ((head.flags & pd_fence) != 0 && !reads_.empty()) return false;
    switch (head.operation) {
        case Operation::Send:
            if (head.length <= max_inline_bytes && (settings_.inline_frames || head.length == 0))
                return send_inline(head);
            if (send_offset_ == 0 && head.length >= settings_.single_copy_bytes &&
                peer_can_fetch(head))
                return send_reference(head);
            return send_chunks(head);
        case Operation::RdmaWrite:
            return rdma_write(head);
        case Operation::RdmaRead:
            return rdma_read(head);
        case Operation::Receive:
            break;
    }
    queues_.send.complete(queues_.send.start(), status_format, 0);
    return true;
}

bool ShmEndpoint::send_inline(const ChainHead& head) {
    std::byte* to = writer_->reserve(head.length);
    if (to == nullptr) {
        queues_.counters->send_stalls.add();
        return false;
    }
    const PdRing& pds = queues_.send.pds;
    if (head.segments == 1) [[likely]] {
        copy_small(to, reinterpret_cast<const std::byte*>(pds.at(1).address), head.length);
    } else {
        for (std::uint32_t i = 0; i < head.segments; ++i) {
            const PhysicalDescriptor& pd = pds.at(1 + i);
            copy_small(to, reinterpret_cast<const std::byte*>(pd.address), pd.length);
            to += pd.length;
        }
    }
    writer_->publish(FrameKind::Inline, (head.flags & pd_immediate) ? frame_immediate : 0,
                     head.length, head.immediate);
    finish_send(head.length, base::DataPath::Inline, false);
    return true;
}

bool ShmEndpoint::send_chunks(const ChainHead& head) {
    const PdRing& pds = queues_.send.pds;
    while (send_offset_ < head.length) {
        const bool first = send_offset_ == 0;
        std::uint32_t chunk = std::min(chunk_bytes_, head.length - send_offset_);
        if (writer_->ring_free() < ChannelWriter::round_to_line(chunk)) {
            const std::uint32_t room = writer_->ring_free_refreshed();
            if (room < ChannelWriter::round_to_line(chunk)) {
                if (room < smallest_chunk) {
                    queues_.counters->send_stalls.add();
                    return false;
                }
                chunk = std::min(chunk, room);
            }
        }
        const std::uint32_t payload_bytes = 8;
        std::byte* payload = writer_->reserve(payload_bytes);
        if (payload == nullptr) {
            queues_.counters->send_stalls.add();
            return false;
        }
        // Gather [send_offset_, +chunk) of the segments into the ring.
        std::uint32_t skip = send_offset_;
        std::uint32_t put = 0;
        for (std::uint32_t i = 0; put < chunk; ++i) {
            const PhysicalDescriptor& pd = pds.at(1 + i);
            if (skip >= pd.length) {
                skip -= pd.length;
                continue;
            }
            const std::uint32_t piece = std::min(pd.length - skip, chunk - put);
            writer_->put(put, reinterpret_cast<const std::byte*>(pd.address) + skip, piece);
            put += piece;
            skip = 0;
        }
        const std::uint32_t words[2] = {chunk, head.length};
        std::memcpy(payload, words, sizeof words);
        writer_->chunk_done(chunk);
        send_offset_ += chunk;
        std::uint8_t flags = send_offset_ == head.length ? frame_final : 0;
        if ((head.flags & pd_immediate) != 0) flags |= frame_immediate;
        writer_->publish(first ? FrameKind::First : FrameKind::Next, flags, payload_bytes,
                         head.immediate);
        published_ = true;
    }
    send_offset_ = 0;
    finish_send(
        head.length,
        head.length >= settings_.single_copy_bytes ? base::DataPath::Stream : base::DataPath::Ring,
        false);
    return true;
}

bool ShmEndpoint::peer_can_fetch(const ChainHead& head) {
    const auto& theirs = reader_->control().producer;
    if (static_cast<PullAbility>(theirs.can_pull.load(std::memory_order_acquire)) ==
        PullAbility::Yes)
        return true;
    if (!settings_.allowed.kmem || theirs.can_map.load(std::memory_order_acquire) == 0)
        return false;
    // Without CMA the peer must have mapped every arena that the message lies in.
    bool all_mapped = true;
    for (std::uint32_t i = 0; i < head.segments; ++i) {
        const PhysicalDescriptor& pd = queues_.send.pds.at(1 + i);
        ka::Region region;
        if (!agent_.rmmt().find(pd.handle, region) || region.arena == ka::no_arena) return false;
        if (arenas_mapped_.contains(region.arena)) continue;
        all_mapped = false;
        if (arenas_offered_.contains(region.arena)) continue;
        if (writer_->reserve(0) == nullptr) continue;
        writer_->publish(FrameKind::ArenaOffer, 0, 0, region.arena);
        published_ = true;
        arenas_offered_.insert(region.arena);
    }
    return all_mapped;
}

bool ShmEndpoint::send_reference(const ChainHead& head) {
    const PdRing& pds = queues_.send.pds;
    const bool in_frame = head.segments <= inline_references;
    const std::uint32_t list_bytes =
        head.segments * static_cast<std::uint32_t>(sizeof(PhysicalDescriptor));
    if (!in_frame) {
        if (list_bytes > writer_->ring_bytes() / 2) return send_chunks(head);
        if (writer_->ring_free_refreshed() < ChannelWriter::round_to_line(list_bytes)) return false;
    }
    const std::uint32_t payload_bytes = 8 + (in_frame ? list_bytes : 0);
    std::byte* payload = writer_->reserve(payload_bytes);
    if (payload == nullptr) {
        queues_.counters->send_stalls.add();
        return false;
    }
    const std::uint32_t words[2] = {head.length, head.segments};
    std::memcpy(payload, words, sizeof words);
    for (std::uint32_t i = 0; i < head.segments; ++i) {
        const PhysicalDescriptor pd = pds.at(1 + i);
        const auto* bytes = reinterpret_cast<const std::byte*>(&pd);
        const auto offset = i * static_cast<std::uint32_t>(sizeof pd);
        if (in_frame)
            std::memcpy(payload + 8 + offset, bytes, sizeof pd);
        else
            writer_->put(offset, bytes, sizeof pd);
    }
    if (!in_frame) writer_->chunk_done(list_bytes);
    writer_->publish(FrameKind::Reference, (head.flags & pd_immediate) ? frame_immediate : 0,
                     payload_bytes, head.immediate);
    finish_send(head.length, base::DataPath::Cma, true);
    return true;
}

void ShmEndpoint::finish_send(std::uint32_t length, base::DataPath path, bool by_reference) {
    published_ = true;
    WorkQueue& queue = queues_.send;
    const std::uint64_t number = queue.start();
    queues_.counters->sent_messages[static_cast<std::size_t>(path)].add();
    queues_.counters->sent_bytes.add(length);
    if (!by_reference && !queues_.acknowledged()) [[likely]] {
        queue.complete(number, 0, length);
        return;
    }
    WorkEntry& entry = queue.at(number);
    entry.length = length;
    entry.state = by_reference ? WorkState::AwaitingFetch : WorkState::AwaitingAcknowledgement;
    if (awaiting_++ == 0) acknowledge_cursor_ = number;
    if (by_reference) ++references_;
}

bool ShmEndpoint::handle_acknowledge(const FrameHeader& frame) {
    std::uint32_t received = frame.argument;
    const std::uint32_t failure =
        frame.length >= 4 ? payload_at<std::uint32_t>(0) & status_error_mask : 0;
    const std::uint32_t total = received + (failure != 0 ? 1 : 0);
    if (received > awaiting_ || total > awaiting_) {
        violation("acknowledged more messages than were sent");
        return false;
    }
    for (std::uint32_t i = 0; i < total; ++i) {
        WorkQueue& queue = queues_.send;
        while (queue.at(acknowledge_cursor_).state != WorkState::AwaitingAcknowledgement &&
               queue.at(acknowledge_cursor_).state != WorkState::AwaitingFetch)
            ++acknowledge_cursor_;
        WorkEntry& entry = queue.at(acknowledge_cursor_);
        if (entry.state == WorkState::AwaitingFetch) --references_;
        entry.state = WorkState::Queued;
        --awaiting_;
        const bool failed = i >= received;
        // Only reliable reception tells the sender what became of a message.
        const std::uint32_t status = failed && queues_.acknowledged() ? failure : 0;
        queue.complete(acknowledge_cursor_, status, failed && status != 0 ? 0 : entry.length);
        ++acknowledge_cursor_;
    }
    return true;
}

void ShmEndpoint::owe_acknowledgement(std::uint32_t status) {
    // One frame says "so many received, then one failed"; a further message needs a further frame.
    if (owed_.empty() || owed_.back().failure != 0) owed_.push_back({});
    if (status == 0)
        ++owed_.back().received;
    else
        owed_.back().failure = status;
}

bool ShmEndpoint::send_acknowledgements() {
    while (!owed_.empty()) {
        const Owed& owed = owed_.front();
        const std::uint32_t payload_bytes = owed.failure != 0 ? 4 : 0;
        std::byte* payload = writer_->reserve(payload_bytes);
        if (payload == nullptr) return false;
        if (owed.failure != 0) std::memcpy(payload, &owed.failure, 4);
        writer_->publish(FrameKind::Acknowledge, 0, payload_bytes, owed.received);
        published_ = true;
        owed_.pop_front();
    }
    return true;
}

void ShmEndpoint::flush_outgoing() {
    if (!send_acknowledgements()) return;
    while (!arena_answers_.empty()) {
        if (writer_->reserve(0) == nullptr) return;
        writer_->publish(FrameKind::ArenaMapped, 0, 0, arena_answers_.front());
        published_ = true;
        arena_answers_.pop_front();
    }
    // A message that goes in chunks is not interrupted by other sends, but may be by read data.
    if (!served_reads_.empty()) serve_reads();
    while (queues_.send.has_work() && start_next()) {
    }
}

void ShmEndpoint::ring_if_wanted() noexcept {
    if (!published_) return;
    published_ = false;
    // With membarrier the sleeper pays for the order of "publish, then look at wanted"; without it
    // this side must.
    if (fence_needed_) std::atomic_thread_fence(std::memory_order_seq_cst);
    auto& wanted = writer_->control().attention.wanted;
    if (wanted.load(std::memory_order_relaxed) == 0) [[likely]]
        return;
    const std::uint32_t whom = wanted.exchange(0, std::memory_order_seq_cst);
    if (whom == 0) return;
    queues_.counters->wakes_sent.add();
    peer_->ring(remote_index_, whom == static_cast<std::uint32_t>(Wakes::Service) ? Wakes::Service
                                                                                  : Wakes::Sleeper);
}

bool ShmEndpoint::unfinished() const {
    return live_.load(std::memory_order_relaxed) &&
           (awaiting_ != 0 || !reads_.empty() || !served_reads_.empty() || !owed_.empty() ||
            !arena_answers_.empty() || queues_.send.has_unstarted());
}

}  // namespace via::na::shm
