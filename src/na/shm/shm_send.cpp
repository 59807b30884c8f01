// SPDX-License-Identifier: BSD-3-Clause
// The sending half of a shm endpoint.
#include <algorithm>

#include "na/shm/shm_endpoint.hpp"
#include "na/shm/shm_nic_agent.hpp"

namespace via::na::shm {
namespace {

constexpr std::uint32_t inline_references = 2;

}  // namespace

void ShmEndpoint::ring_send() {
    try {
        while (queues_.send.has_work() && start_next()) {
        }
    } catch (const std::bad_alloc&) {
        give_up();
    }
    // When there is room again, nothing rings.
    if (queues_.send.has_unstarted() && left_to_ring_.load(std::memory_order_relaxed)) [[unlikely]]
        wake_groups();
    ring_if_wanted();
}

bool ShmEndpoint::send_at_once(const void* data, std::uint32_t bytes, bool in_kmem,
                               bool has_immediate, std::uint32_t immediate) {
    // Unless the first is true and the second false. As two questions g++ keeps the first for the
    // answer, in a register that is then saved also for what leaves here.
    if (static_cast<unsigned>(sends_at_once_) <= static_cast<unsigned>(outbox_)) [[unlikely]]
        return false;
    if (bytes > max_inline_bytes) {
        if (in_kmem && bytes >= settings_.kmem_bytes) return false;
        return send_chunk_at_once(data, bytes, has_immediate, immediate);
    }
    if (!writer_->reserve(bytes)) [[unlikely]]
        return false;
    writer_->probe_send(bytes, base::DataPath::Inline);
    writer_->publish(FrameKind::Inline, has_immediate ? frame_immediate : 0, data, bytes,
                     immediate);
    return finish_at_once(bytes, base::DataPath::Inline);
}

/// The same through the byte ring.
bool ShmEndpoint::send_chunk_at_once(const void* data, std::uint32_t bytes, bool has_immediate,
                                     std::uint32_t immediate) {
    if (bytes > chunk_bytes_ || bytes >= settings_.single_copy_bytes) return false;
    const auto place = writer_->find_place(bytes);
    if (place.at == nullptr || !writer_->reserve(sizeof(ChunkNotice))) return false;
    std::memcpy(place.at, data, bytes);
    writer_->take_place(place);
    const ChunkNotice notice{place.chunk, bytes};
    writer_->probe_send(bytes, base::DataPath::Ring);
    writer_->publish(FrameKind::First,
                     frame_final | (has_immediate ? frame_immediate : std::uint8_t{0}), &notice,
                     sizeof notice, immediate);
    writer_->fetch_next_place(bytes);
    return finish_at_once(bytes, base::DataPath::Ring);
}

bool ShmEndpoint::send_gathered(std::span<const iovec> pieces, std::uint32_t bytes) {
    if (!gathers_ || outbox_ || queues_.send.has_unstarted()) [[unlikely]]
        return false;
    if (bytes > max_inline_bytes || (!settings_.inline_frames && bytes != 0))
        return send_gathered_chunk(pieces, bytes);
    if (!writer_->reserve(bytes)) [[unlikely]]
        return false;
    // Zeros, since cells behind the payload go to the peer as well.
    std::array<std::uint64_t, line_words> words{};
    auto* to = reinterpret_cast<std::byte*>(words.data());
    for (const iovec& piece : pieces) {
        copy_small(to, static_cast<const std::byte*>(piece.iov_base), piece.iov_len);
        to += piece.iov_len;
    }
    writer_->probe_send(bytes, base::DataPath::Inline);
    writer_->publish_words(FrameKind::Inline, 0, words.data(), bytes, 0);
    return finish_at_once(bytes, base::DataPath::Inline);
}

bool ShmEndpoint::send_headed(const HeadedMessage& message) {
    if (!gathers_ || outbox_ || queues_.send.has_unstarted()) [[unlikely]]
        return false;
    const std::uint32_t bytes = message.head_bytes + message.payload_bytes;
    const auto* payload = static_cast<const std::byte*>(message.payload);
    if (message.head_bytes == sizeof(std::uint64_t) &&
        message.payload_bytes <= further_cell_payload && settings_.inline_frames) [[likely]] {
        std::uint64_t words[2] = {0, 0};
        if (message.payload_bytes == sizeof words[0]) [[likely]]
            std::memcpy(words, payload, sizeof words[0]);
        else
            copy_small(reinterpret_cast<std::byte*>(words), payload, message.payload_bytes);
        if (writer_->publish_short_headed(
                message.head[0], words[0], words[1], message.payload_bytes, message.note,
                [&] { writer_->probe_send(bytes, base::DataPath::Inline); })) [[likely]] {
            // Who asks and waits for an answer leaves the lines with the receiver, which polls
            // them.
            if (++sent_since_poll_ > 2) writer_->fetch_next_line();
            return finish_at_once(bytes, base::DataPath::Inline);
        }
    }
    const std::uint8_t flags =
        message.head_bytes == sizeof(std::uint64_t) ? frame_headed : frame_headed | frame_two_words;
    if (bytes > max_inline_bytes || (!settings_.inline_frames && message.payload_bytes != 0))
        return send_headed_chunk(message, flags);
    if (!writer_->reserve(bytes)) [[unlikely]]
        return false;
    std::uint64_t words[line_words] = {base::by_itself(message.head[0]),
                                       base::by_itself(message.head[1])};
    copy_small(reinterpret_cast<std::byte*>(words) + message.head_bytes, payload,
               message.payload_bytes);
    writer_->probe_send(bytes, base::DataPath::Inline);
    writer_->publish_words(FrameKind::Inline, flags, words, bytes, message.note);
    return finish_at_once(bytes, base::DataPath::Inline);
}

/// The head beside the notice of the payload, which begins a line of the byte ring.
bool ShmEndpoint::send_headed_chunk(const HeadedMessage& message, std::uint8_t flags) {
    const std::uint32_t bytes = message.payload_bytes;
    if (bytes > writer_->longest_chunk()) return false;
    const auto place = writer_->find_place(bytes);
    const auto inline_bytes = static_cast<std::uint32_t>(sizeof(ChunkNotice)) + message.head_bytes;
    if (place.at == nullptr || !writer_->reserve(inline_bytes)) {
        counters_->send_stalls.add();
        return false;
    }
    std::memcpy(place.at, message.payload, bytes);
    writer_->take_place(place);
    const std::uint64_t words[line_words] = {
        std::bit_cast<std::uint64_t>(ChunkNotice{place.chunk, bytes}),
        base::by_itself(message.head[0]), base::by_itself(message.head[1])};
    writer_->probe_send(bytes, base::DataPath::Ring);
    writer_->publish_words(FrameKind::First, flags | frame_final, words, inline_bytes,
                           message.note);
    return finish_at_once(bytes, base::DataPath::Ring);
}

/// The same through the byte ring, in one chunk whatever its size: the receiver sees it in place.
bool ShmEndpoint::send_gathered_chunk(std::span<const iovec> pieces, std::uint32_t bytes) {
    if (bytes > writer_->longest_chunk()) return false;
    const auto place = writer_->find_place(bytes);
    if (place.at == nullptr || !writer_->reserve(sizeof(ChunkNotice))) {
        counters_->send_stalls.add();
        return false;
    }
    std::byte* to = place.at;
    for (const iovec& piece : pieces) {
        if (piece.iov_len != 0) std::memcpy(to, piece.iov_base, piece.iov_len);
        to += piece.iov_len;
    }
    writer_->take_place(place);
    const ChunkNotice notice{place.chunk, bytes};
    writer_->probe_send(bytes, base::DataPath::Ring);
    writer_->publish(FrameKind::First, frame_final, &notice, sizeof notice, 0);
    return finish_at_once(bytes, base::DataPath::Ring);
}

inline bool ShmEndpoint::finish_at_once(std::uint32_t bytes, base::DataPath path) noexcept {
    base::ViCounters& counters = *counters_;
    counters.sent_messages[static_cast<std::size_t>(path)].add();
    counters.sent_bytes.add(bytes);
    if (fence_needed_) std::atomic_thread_fence(std::memory_order_seq_cst);
    if (writer_->control().attention.wanted.load(std::memory_order_relaxed) == 0) [[likely]]
        return true;
    return ring_peer();
}

bool ShmEndpoint::start_next() {
    const ChainHead head = decode_head(queues_.send.pds.at(0));
    if ((head.flags & pd_fence) != 0 && !reads_.empty()) return false;
    switch (head.operation) {
        case Operation::Send:
            if (head.length <= max_inline_bytes && (settings_.inline_frames || head.length == 0))
                return send_inline(head);
            if (send_offset_ == 0 && goes_by_reference(head)) return send_reference(head);
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
    if (!writer_->reserve(head.length)) [[unlikely]] {
        queues_.counters->send_stalls.add();
        return false;
    }
    const PdRing& pds = queues_.send.pds;
    const std::uint8_t flags = (head.flags & pd_immediate) != 0 ? frame_immediate : 0;
    writer_->probe_send(head.length, base::DataPath::Inline);
    if (head.segments <= 1) [[likely]] {
        const void* from =
            head.segments == 1 ? reinterpret_cast<const void*>(pds.at(1).address) : nullptr;
        writer_->publish(FrameKind::Inline, flags, from, head.length, head.immediate);
    } else {
        std::byte gathered[max_inline_bytes];
        std::uint32_t put = 0;
        for (std::uint32_t i = 0; i < head.segments; ++i) {
            const PhysicalDescriptor& pd = pds.at(1 + i);
            copy_small(gathered + put, reinterpret_cast<const std::byte*>(pd.address), pd.length);
            put += pd.length;
        }
        writer_->publish(FrameKind::Inline, flags, gathered, head.length, head.immediate);
    }
    finish_send(head.length, base::DataPath::Inline, false);
    return true;
}

/// Gathers [offset, offset + bytes) of the chain's segments, of which the first is the PD at
/// `first`.
void ShmEndpoint::gather(std::byte* to, std::uint32_t first, std::uint32_t offset,
                         std::uint32_t bytes) noexcept {
    const PdRing& pds = queues_.send.pds;
    for (std::uint32_t i = first; bytes != 0; ++i) {
        const PhysicalDescriptor& pd = pds.at(i);
        if (offset >= pd.length) {
            offset -= pd.length;
            continue;
        }
        const std::uint32_t piece = std::min(pd.length - offset, bytes);
        std::memcpy(to, reinterpret_cast<const std::byte*>(pd.address) + offset, piece);
        to += piece;
        bytes -= piece;
        offset = 0;
    }
}

bool ShmEndpoint::send_chunks(const ChainHead& head) {
    while (send_offset_ < head.length) {
        const bool first = send_offset_ == 0;
        const std::uint32_t bytes = std::min(chunk_bytes_, head.length - send_offset_);
        const ChunkNotice empty{};
        const auto place = writer_->find_place(bytes);
        if (place.at == nullptr || !writer_->reserve(sizeof empty)) {
            queues_.counters->send_stalls.add();
            return false;
        }
        gather(place.at, 1, send_offset_, bytes);
        writer_->take_place(place);
        send_offset_ += bytes;
        std::uint8_t flags = send_offset_ == head.length ? frame_final : 0;
        if ((head.flags & pd_immediate) != 0) flags |= frame_immediate;
        const ChunkNotice notice{place.chunk, head.length};
        if (first) writer_->probe_send(head.length, base::DataPath::Ring);
        writer_->publish(first ? FrameKind::First : FrameKind::Next, flags, &notice, sizeof notice,
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

/// Will the peer fetch the message from this side's memory? Long ones from any memory that it can
/// read; shorter ones only from memory that it can map, because a system call would cost more than
/// the second copy.
bool ShmEndpoint::goes_by_reference(const ChainHead& head) {
    if (head.length < settings_.kmem_bytes) return false;
    if (peer_can_map(head)) return true;
    return head.length >= settings_.single_copy_bytes &&
           static_cast<PullAbility>(reader_->control().producer.can_pull.load(
               std::memory_order_acquire)) == PullAbility::Yes;
}

/// Has the peer mapped every arena that the message lies in? If not, they are offered to it.
bool ShmEndpoint::peer_can_map(const ChainHead& head) {
    if (!settings_.allowed.kmem ||
        reader_->control().producer.can_map.load(std::memory_order_acquire) == 0)
        return false;
    bool all_mapped = true;
    for (std::uint32_t i = 0; i < head.segments; ++i) {
        const PhysicalDescriptor& pd = queues_.send.pds.at(1 + i);
        const ka::Region* region;
        if (!send_region_cache_.find(rmmt_, pd.handle, region) || region->arena == ka::no_arena)
            return false;
        if (arenas_mapped_.contains(region->arena)) continue;
        all_mapped = false;
        if (arenas_offered_.contains(region->arena)) continue;
        if (!writer_->reserve(0)) continue;
        writer_->publish(FrameKind::ArenaOffer, 0, nullptr, 0, region->arena);
        published_ = true;
        arenas_offered_.insert(region->arena);
    }
    return all_mapped;
}

bool ShmEndpoint::send_reference(const ChainHead& head) {
    const PdRing& pds = queues_.send.pds;
    const bool in_frame = head.segments <= inline_references;
    const std::uint32_t list_bytes =
        head.segments * static_cast<std::uint32_t>(sizeof(PhysicalDescriptor));
    ReferenceNotice notice{head.length, head.segments, {}};
    ChannelWriter::Place place;
    if (!in_frame) {
        if (list_bytes > writer_->longest_chunk()) return send_chunks(head);
        place = writer_->find_place(list_bytes);
        if (place.at == nullptr) return false;
    }
    const std::uint32_t payload_bytes =
        ReferenceNotice::fixed_bytes +
        (in_frame ? list_bytes : static_cast<std::uint32_t>(sizeof place.chunk));
    if (!writer_->reserve(payload_bytes)) {
        queues_.counters->send_stalls.add();
        return false;
    }
    std::byte* list = in_frame ? notice.list : place.at;
    for (std::uint32_t i = 0; i < head.segments; ++i) {
        const PhysicalDescriptor pd = pds.at(1 + i);
        std::memcpy(list + i * sizeof pd, &pd, sizeof pd);
    }
    if (!in_frame) {
        std::memcpy(notice.list, &place.chunk, sizeof place.chunk);
        writer_->take_place(place);
    }
    writer_->probe_send(head.length, base::DataPath::Cma);
    writer_->publish(FrameKind::Reference, (head.flags & pd_immediate) != 0 ? frame_immediate : 0,
                     &notice, payload_bytes, head.immediate);
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
    const std::uint32_t failure = notice_of<std::uint32_t>(frame) & status_error_mask;
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
    outbox_ = true;
    if (status == 0)
        ++owed_.back().received;
    else
        owed_.back().failure = status;
}

bool ShmEndpoint::send_acknowledgements() {
    while (!owed_.empty()) {
        const Owed& owed = owed_.front();
        const std::uint32_t payload_bytes = owed.failure != 0 ? 4 : 0;
        if (!writer_->reserve(payload_bytes)) return false;
        writer_->publish(FrameKind::Acknowledge, 0, &owed.failure, payload_bytes, owed.received);
        published_ = true;
        owed_.pop_front();
    }
    return true;
}

void ShmEndpoint::flush_outgoing() {
    if (!send_acknowledgements()) return;
    while (!arena_answers_.empty()) {
        if (!writer_->reserve(0)) return;
        writer_->publish(FrameKind::ArenaMapped, 0, nullptr, 0, arena_answers_.front());
        published_ = true;
        arena_answers_.pop_front();
    }
    // A message that goes in chunks is not interrupted by other sends, but may be by read data.
    if (!served_reads_.empty()) serve_reads();
    outbox_ = !served_reads_.empty();
    while (queues_.send.has_work() && start_next()) {
    }
}

void ShmEndpoint::ring_if_wanted() noexcept {
    if (!published_) return;
    published_ = false;
    // With membarrier the sleeper pays for the order of "publish, then look at wanted"; without it
    // this side must.
    if (fence_needed_) std::atomic_thread_fence(std::memory_order_seq_cst);
    if (writer_->control().attention.wanted.load(std::memory_order_relaxed) != 0) ring_peer();
}

bool ShmEndpoint::ring_peer() noexcept {
    const std::uint32_t whom =
        writer_->control().attention.wanted.exchange(0, std::memory_order_seq_cst);
    if (whom == 0) return true;
    queues_.counters->wakes_sent.add();
    writer_->probe_doorbell(whom);
    peer_->ring(remote_index_, whom == static_cast<std::uint32_t>(Wakes::Service) ? Wakes::Service
                                                                                  : Wakes::Sleeper);
    return true;
}

bool ShmEndpoint::unfinished() const {
    return live_.load(std::memory_order_relaxed) &&
           (awaiting_ != 0 || !reads_.empty() || !served_reads_.empty() || !owed_.empty() ||
            !arena_answers_.empty() || queues_.send.has_unstarted());
}

}  // namespace via::na::shm
