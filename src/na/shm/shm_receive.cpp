// SPDX-License-Identifier: BSD-3-Clause
// The receiving half of a shm endpoint. Everything read from the channel may be a lie: headers are
// taken once and checked, lengths are bounded by what this side posted.
#include <sched.h>

#include <algorithm>
#include <bit>

#include "base/log.hpp"
#include "na/shm/shm_endpoint.hpp"
#include "na/shm/shm_nic_agent.hpp"

namespace via::na::shm {
namespace {

/// Frames handled in one poll: enough to make a stream cheap, few enough to return soon.
constexpr int frames_per_poll = 16;
/// Empty polls between looks at what changes seldom (the peer's state and processor).
constexpr std::uint32_t idle_look = 64;
/// After so many empty polls in a row the core is offered to others now and then.
constexpr std::uint32_t long_idle = 4096;
constexpr std::uint32_t max_reference_segments = 252;

/// Fewer than eight bytes of a word.
void copy_few(std::byte* to, std::uint64_t from, std::uint32_t bytes) noexcept {
    for (std::uint32_t i = 0; i < bytes; ++i)
        to[i] = static_cast<std::byte>(from >> (8 * i));
}

[[nodiscard]] bool is_message(FrameKind kind) noexcept {
    return kind == FrameKind::Inline || kind == FrameKind::First || kind == FrameKind::Reference ||
           kind == FrameKind::RdmaDone;
}

}  // namespace

bool ShmEndpoint::check_local(const PhysicalDescriptor& pd, std::uint32_t right) {
    const ka::Region* region;
    return region_cache_.find(rmmt_, pd.handle, region) && allows(*region, pd, right);
}

/// Where a message of `bytes` goes that finds the common case: a posted receive of one segment,
/// long enough and still registered. Null: take it the long way.
inline std::byte* ShmEndpoint::plain_target(std::uint32_t bytes) noexcept {
    PhysicalDescriptor head;
    PhysicalDescriptor segment;
    if (incoming_.active || !takes_plainly_ || !queues_.receive.front_pair(head, segment) ||
        bytes > head.length) [[unlikely]]
        return nullptr;
    const ka::Region* region = region_cache_.hit(rmmt_, segment.handle);
    if (region == nullptr || !allows(*region, segment, 0)) [[unlikely]]
        return nullptr;
    return reinterpret_cast<std::byte*>(segment.address);
}

inline void ShmEndpoint::finish_plain(const FrameHeader& frame, std::uint32_t bytes,
                                      base::DataPath path) noexcept {
    queues_.receive.complete_front_pair((frame.flags & frame_immediate) != 0 ? status_immediate : 0,
                                        bytes, frame.argument);
    reader_->probe_receive(bytes, path);
    reader_->advance(frame);
    base::ViCounters& counters = *counters_;
    counters.received_messages[static_cast<std::size_t>(path)].add();
    counters.received_bytes.add(bytes);
    idle_polls_ = 0;
}

/// A message of one cell. False: nothing has happened.
inline bool ShmEndpoint::take_small_message(std::uint64_t word) {
    const FrameHeader frame = decode(word);
    if (frame.length > first_cell_payload) [[unlikely]]
        return false;
    std::byte* to = plain_target(frame.length);
    if (to == nullptr) [[unlikely]]
        return false;
    const std::uint64_t payload = reader_->small_payload();
    if (frame.length == first_cell_payload) [[likely]]
        std::memcpy(to, &payload, first_cell_payload);
    else
        copy_few(to, payload, frame.length);
    finish_plain(frame, frame.length, base::DataPath::Inline);
    return true;
}

/// A message that is one chunk of the byte ring. False: take it the long way.
bool ShmEndpoint::take_whole_chunk(std::uint64_t word) {
    const FrameHeader frame = decode(word);
    if (frame.length != sizeof(ChunkNotice) || (frame.flags & frame_final) == 0)
        return poll_thoroughly();
    const std::uint64_t payload = reader_->small_payload();
    const auto notice = std::bit_cast<ChunkNotice>(payload);
    const std::byte* data = reader_->chunk(notice.chunk);
    if (data == nullptr || notice.total != notice.chunk.bytes ||
        notice.total >= settings_.single_copy_bytes)
        return poll_thoroughly();
    std::byte* to = plain_target(notice.total);
    if (to == nullptr) return poll_thoroughly();
    std::memcpy(to, data, notice.total);
    reader_->chunk_done(notice.chunk);
    finish_plain(frame, notice.total, base::DataPath::Ring);
    return true;
}

/// A message that lies in one piece, for the sink. NotShown: nothing has happened, and it is
/// handled as if there were no sink.
inline ShmEndpoint::Shown ShmEndpoint::show(const FrameHeader& frame) {
    if (incoming_.active) return Shown::NotShown;
    FrameView view;
    view.has_immediate = (frame.flags & frame_immediate) != 0;
    view.immediate = frame.argument;
    // There are tags between the cells, so what they hold is shown as a copy.
    std::array<std::uint64_t, line_words> words;
    const std::uint64_t* first = words.data();
    std::uint32_t inline_bytes = frame.length;
    auto path = base::DataPath::Inline;
    RingChunk chunk;
    if (frame.kind == FrameKind::First) {
        if ((frame.flags & frame_final) == 0 || inline_bytes < sizeof(ChunkNotice))
            return Shown::NotShown;
        const auto notice = std::bit_cast<ChunkNotice>(reader_->small_payload());
        chunk = notice.chunk;
        view.data = reader_->chunk(chunk);
        view.length = chunk.bytes;
        if (view.data == nullptr || notice.total != view.length) return Shown::NotShown;
        // They are on their way while the sink looks for their place.
        const std::uint32_t near = std::min<std::uint32_t>(view.length, 8 * base::cache_line);
        for (std::uint32_t at = 0; at < near; at += base::cache_line)
            __builtin_prefetch(view.data + at);
        path = base::DataPath::Ring;
        ++first;
        inline_bytes -= static_cast<std::uint32_t>(sizeof(ChunkNotice));
    } else if (frame.kind != FrameKind::Inline) {
        return Shown::NotShown;
    }
    reader_->read_words(words.data(), frame.cells);
    if ((frame.flags & frame_headed) != 0) [[likely]] {
        view.head = first;
        view.head_bytes = (frame.flags & frame_two_words) != 0 ? 16 : 8;
        if (inline_bytes < view.head_bytes) return Shown::NotShown;
        first += view.head_bytes / sizeof *first;
        inline_bytes -= view.head_bytes;
    }
    if (path == base::DataPath::Inline) {
        view.data = reinterpret_cast<const std::byte*>(first);
        view.length = inline_bytes;
    } else if (inline_bytes != 0) {
        return Shown::NotShown;
    }
    if (!queues_.sink->frame(view)) return Shown::Refused;
    if (path == base::DataPath::Ring) reader_->chunk_done(chunk);
    reader_->probe_receive(view.length, path);
    reader_->advance(frame);
    account(view.length, path);
    return Shown::Taken;
}

/// The commonest message, which show() could show as well.
inline ShmEndpoint::Shown ShmEndpoint::show_short_headed() {
    ChannelReader::ShortHeaded message;
    if (!reader_->look_for_short_headed(message) || incoming_.active) return Shown::NotShown;
    if (!queues_.sink->short_frame(message.note, message.head,
                                   reinterpret_cast<const std::byte*>(message.payload),
                                   message.payload_bytes)) [[unlikely]]
        return Shown::Refused;
    reader_->probe_receive(message.payload_bytes, base::DataPath::Inline);
    reader_->advance({.kind = FrameKind::Inline, .cells = 2});
    account(message.payload_bytes, base::DataPath::Inline);
    return Shown::Taken;
}

/// What was shown is taken.
inline void ShmEndpoint::account(std::uint64_t bytes, base::DataPath path) {
    base::ViCounters& counters = *counters_;
    counters.received_messages[static_cast<std::size_t>(path)].add();
    counters.received_bytes.add(bytes);
    idle_polls_ = 0;
    acknowledge(0);
}

/// What the poll of a sink's layer does that finds something.
bool ShmEndpoint::show_frames() {
    try {
        for (int shown = 0; shown < frames_per_poll; ++shown) {
            if (const Shown quickly = show_short_headed(); quickly != Shown::NotShown) {
                if (quickly == Shown::Refused) return shown != 0;
                if (shown != 0) reader_->fetch_next_line();
                continue;
            }
            FrameHeader frame;
            const auto result =
                reader_->look(frame) == ChannelReader::Look::Frame ? show(frame) : Shown::NotShown;
            if (result == Shown::Refused) return shown != 0;
            if (result == Shown::NotShown) return shown != 0 || poll_thoroughly();
        }
    } catch (const std::bad_alloc&) {
        give_up();
    }
    return true;
}

/// What a polling program executes all the time: nothing there, or a message of the common kinds.
/// It calls nothing that it returns from, so that it saves no registers.
bool ShmEndpoint::poll() {
    if (!live_.load(std::memory_order_relaxed)) return false;  // the VI's lock orders the rest
    sent_since_poll_ = 0;
    const bool busy = halted_ || outbox_ || queues_.send.has_unstarted();
    std::uint64_t word;
    const std::uint64_t there = reader_->peek(word);
    if (ChannelReader::is_arrival(there)) {
        if (!busy && there == static_cast<std::uint64_t>(FrameKind::Inline) &&
            take_small_message(word)) [[likely]]
            return true;
        if (!busy && shows_plainly_) return show_frames();
        if (!busy && there == static_cast<std::uint64_t>(FrameKind::First))
            return take_whole_chunk(word);
        return poll_thoroughly();
    }
    if (busy || rung_.load(std::memory_order_relaxed) || idle_polls_ % idle_look == 0) [[unlikely]]
        return poll_thoroughly();
    ++idle_polls_;
    return false;
}

bool ShmEndpoint::poll_thoroughly() {
    bool moved = true;
    try {
        moved = !halted_ && take_frames();
        // Also what makes it halt is acknowledged.
        if (outbox_ || queues_.send.has_unstarted()) flush_outgoing();
    } catch (const std::bad_alloc&) {
        give_up();
    }
    if (published_) {
        ring_if_wanted();
        moved = true;
    }
    if (moved) {
        idle_polls_ = 0;
        return true;
    }
    if (rung_.load(std::memory_order_relaxed)) [[unlikely]] {
        rung_.store(false, std::memory_order_relaxed);
        idle_polls_ = 0;
    }
    if ((idle_polls_++ % idle_look) == 0) return idle();
    return false;
}

bool ShmEndpoint::take_frames() {
    FrameHeader frame;
    for (int handled = 0; handled < frames_per_poll; ++handled) {
        const auto look = reader_->look(frame);
        if (look == ChannelReader::Look::Nothing) return handled != 0;
        if (look == ChannelReader::Look::Nonsense) [[unlikely]] {
            violation("a frame header that nobody can have written");
            return true;
        }
        if (queues_.sink != nullptr) {
            const Shown result = show(frame);
            if (result == Shown::Taken) continue;
            if (result == Shown::Refused) return handled != 0;
        }
        // The program gets the chance to post a receive between two messages of one poll.
        if (handled != 0 && is_message(frame.kind) && !queues_.receive.has_work()) return true;
        if (!(frame.kind == FrameKind::Inline ? handle_inline(frame) : handle(frame)) || halted_)
            return true;
    }
    return true;
}

bool ShmEndpoint::idle() {
    reader_->publish_the_rest();
    // Where both ends run on one core, an empty poll must give it away or the peer can not answer.
    const auto here = static_cast<std::uint32_t>(sched_getcpu()) + 1;
    auto& mine = writer_->control().producer.cpu;
    if (mine.load(std::memory_order_relaxed) != here) mine.store(here, std::memory_order_relaxed);
    const bool on_core = reader_->control().producer.cpu.load(std::memory_order_relaxed) == here;
    queues_.peer_on_core.store(on_core, std::memory_order_relaxed);
    queues_.shares_core.store(on_core || idle_polls_ >= long_idle, std::memory_order_relaxed);

    const auto set = [](auto value) { return value != 0; };
    const bool closed = base::load_then_order(reader_->control().producer.state, set) !=
                        static_cast<std::uint32_t>(EndState::Open);
    const bool gone = base::load_then_order(peer_gone_, set);
    if ((!closed && !gone) || closed_reported_) return false;
    // What the peer published before it closed is still delivered.
    FrameHeader frame;
    if (!halted_ && reader_->look(frame) != ChannelReader::Look::Nothing) return false;
    closed_reported_ = true;
    queues_.report(closed ? EndpointEvent::PeerDisconnected : EndpointEvent::PeerDied);
    return true;
}

bool ShmEndpoint::handle(const FrameHeader& frame) {
    switch (frame.kind) {
        case FrameKind::Inline:
            return handle_inline(frame);
        case FrameKind::First:
            return handle_chunk(frame, true);
        case FrameKind::Next:
            return handle_chunk(frame, false);
        case FrameKind::Reference:
            return handle_reference(frame);
        case FrameKind::Acknowledge:
            if (!handle_acknowledge(frame)) return false;
            break;
        case FrameKind::RdmaDone:
            if (frame.length < 8) {
                violation("a short RDMA notice");
                return false;
            }
            handle_rdma_done(frame);
            return true;
        case FrameKind::RdmaRefused:
            queues_.report((frame.flags & frame_read) != 0 ? EndpointEvent::RdmaReadRefused
                                                           : EndpointEvent::RdmaWriteRefused);
            if (queues_.reliable()) halted_ = true;
            break;
        case FrameKind::RdmaWriteFirst:
            return handle_rdma_write(frame, true);
        case FrameKind::RdmaWriteNext:
            return handle_rdma_write(frame, false);
        case FrameKind::RdmaReadRequest:
            return handle_read_request(frame);
        case FrameKind::RdmaReadData:
            return handle_read_data(frame);
        case FrameKind::ArenaOffer:
            if (arena_answers_.size() < 1024 &&
                !peer_->arena(connection_, frame.argument).empty()) {
                arena_answers_.push_back(frame.argument);
                outbox_ = true;
            }
            break;
        case FrameKind::ArenaMapped:
            // Only answers count, or a peer could fill this side's memory with them.
            if (!arenas_offered_.contains(frame.argument)) {
                violation("an answer to an offer that was not made");
                return false;
            }
            arenas_mapped_.insert(frame.argument);
            break;
        case FrameKind::None:
        case FrameKind::Pad:
        case FrameKind::Continuation:
            break;  // the reader shows none of these
    }
    reader_->advance(frame);
    return true;
}

bool ShmEndpoint::handle_inline(const FrameHeader& frame) {
    WorkQueue& queue = queues_.receive;
    if (!incoming_.active && queue.has_work()) [[likely]] {
        const ChainHead head = decode_head(queue.pds.at(0));
        // The common case in one piece: one segment, long enough, still registered.
        if (head.segments == 1 && frame.length <= head.length) [[likely]] {
            const PhysicalDescriptor& pd = queue.pds.at(1);
            if (check_local(pd)) [[likely]] {
                reader_->read_payload(reinterpret_cast<std::byte*>(pd.address), frame.length);
                reader_->probe_receive(frame.length, base::DataPath::Inline);
                reader_->advance(frame);
                const std::uint64_t number = queue.start();
                const bool immediate = (frame.flags & frame_immediate) != 0;
                queue.complete(number, immediate ? status_immediate : 0, frame.length,
                               frame.argument);
                queues_.counters->received_messages[0].add();
                queues_.counters->received_bytes.add(frame.length);
                acknowledge(0);
                return true;
            }
        }
    }
    return handle_unusual_inline(frame);
}

/// Several segments, too short, no longer registered, or not there.
bool ShmEndpoint::handle_unusual_inline(const FrameHeader& frame) {
    if (incoming_.active) {
        violation("a message inside another");
        return false;
    }
    begin_receive(frame.length, frame);
    if (!incoming_.discard) {
        std::byte payload[max_inline_bytes];
        reader_->read_payload(payload, frame.length);
        scatter(payload, 0, frame.length);
    }
    reader_->advance(frame);
    incoming_.received = frame.length;
    finish_receive(base::DataPath::Inline);
    return true;
}

void ShmEndpoint::begin_receive(std::uint32_t total, const FrameHeader& frame) {
    incoming_ = Incoming{};
    incoming_.active = true;
    incoming_.total = total;
    incoming_.begun = reader_->position();
    if ((frame.flags & frame_immediate) != 0) {
        incoming_.status = status_immediate;
        incoming_.immediate = frame.argument;
    }
    WorkQueue& queue = queues_.receive;
    if (!queue.has_work()) {
        incoming_.discard = true;
        return;
    }
    incoming_.has_descriptor = true;
    const ChainHead head = decode_head(queue.pds.at(0));
    incoming_.capacity = head.length;
    for (std::uint32_t i = 0; i < head.segments; ++i) {
        if (check_local(queue.pds.at(1 + i))) continue;
        incoming_.status |= status_protection;
        incoming_.discard = true;
    }
    if (total > head.length) incoming_.status |= status_length;
}

void ShmEndpoint::finish_receive(base::DataPath path) {
    incoming_.active = false;
    if (!incoming_.has_descriptor) {
        queues_.report(EndpointEvent::ReceiveQueueEmpty);
        acknowledge(status_remote_descriptor);
        if (queues_.reliable()) halted_ = true;
        return;
    }
    std::uint32_t bytes = incoming_.discard ? 0 : incoming_.total;
    if ((incoming_.status & status_length) != 0 && !incoming_.discard) {
        bytes = incoming_.capacity;
        if (bytes != 0) incoming_.status |= status_partial;
    }
    const std::uint64_t number = queues_.receive.start();
    queues_.receive.complete(number, incoming_.status, bytes, incoming_.immediate);
    reader_->probe_receive(incoming_.begun, bytes, path);
    queues_.counters->received_messages[static_cast<std::size_t>(path)].add();
    queues_.counters->received_bytes.add(bytes);
    const bool failed = (incoming_.status & status_error_mask) != 0;
    acknowledge(failed ? status_remote_descriptor : 0);
    if (failed && queues_.reliable()) halted_ = true;
}

/// Copies the bytes at `offset` of the message to their place in the posted segments.
void ShmEndpoint::scatter(const std::byte* from, std::uint32_t offset, std::uint32_t bytes) {
    if (incoming_.discard || offset >= incoming_.capacity) return;
    bytes = std::min(bytes, incoming_.capacity - offset);
    const PdRing& pds = queues_.receive.pds;
    std::uint32_t skip = offset;
    std::uint32_t taken = 0;
    for (std::uint32_t i = 0; taken < bytes; ++i) {
        const PhysicalDescriptor& pd = pds.at(1 + i);
        if (skip >= pd.length) {
            skip -= pd.length;
            continue;
        }
        // The memory may have been deregistered since the last chunk, and even unmapped.
        if (offset != 0 && !check_local(pd)) {
            incoming_.status |= status_protection;
            incoming_.discard = true;
            return;
        }
        const std::uint32_t piece = std::min(pd.length - skip, bytes - taken);
        std::memcpy(reinterpret_cast<std::byte*>(pd.address) + skip, from + taken, piece);
        taken += piece;
        skip = 0;
    }
}

bool ShmEndpoint::handle_chunk(const FrameHeader& frame, bool first) {
    const auto notice = notice_of<ChunkNotice>(frame);
    const std::uint32_t chunk = notice.chunk.bytes;
    const std::byte* data = reader_->chunk(notice.chunk);
    if (frame.length != sizeof notice || data == nullptr || first == incoming_.active) {
        violation("a chunk out of order");
        return false;
    }
    if (first) begin_receive(notice.total, frame);
    if (chunk > incoming_.total - incoming_.received) {
        violation("more bytes than the message was said to have");
        return false;
    }
    scatter(data, incoming_.received, chunk);
    reader_->chunk_done(notice.chunk);
    reader_->advance(frame);
    incoming_.received += chunk;
    const bool complete = incoming_.received == incoming_.total;
    if (complete != ((frame.flags & frame_final) != 0)) {
        violation("a message that ends too early or too late");
        return false;
    }
    if (complete)
        finish_receive(incoming_.total >= settings_.single_copy_bytes ? base::DataPath::Stream
                                                                      : base::DataPath::Ring);
    return true;
}

bool ShmEndpoint::handle_reference(const FrameHeader& frame) {
    const auto notice = notice_of<ReferenceNotice>(frame);
    const std::uint32_t total = notice.total;
    const std::uint32_t count = notice.segments;
    if (frame.length < ReferenceNotice::fixed_bytes || incoming_.active || count == 0 ||
        count > max_reference_segments) {
        violation("a malformed reference");
        return false;
    }
    const std::uint32_t list_bytes = count * static_cast<std::uint32_t>(sizeof(PhysicalDescriptor));
    std::array<PhysicalDescriptor, max_reference_segments> segments;
    if (frame.length == ReferenceNotice::fixed_bytes + sizeof(RingChunk)) {
        RingChunk chunk;
        std::memcpy(&chunk, notice.list, sizeof chunk);
        const std::byte* list = reader_->chunk(chunk);
        if (list == nullptr || chunk.bytes != list_bytes) {
            violation("a list of references that is not where it was said to be");
            return false;
        }
        std::memcpy(segments.data(), list, list_bytes);
        reader_->chunk_done(chunk);
    } else if (frame.length == ReferenceNotice::fixed_bytes + list_bytes) {
        std::memcpy(segments.data(), notice.list, list_bytes);
    } else {
        violation("a reference frame of the wrong length");
        return false;
    }
    const std::span<const PhysicalDescriptor> list(segments.data(), count);
    std::uint64_t sum = 0;
    for (const auto& pd : list)
        sum += pd.length;
    if (sum != total) {
        violation("a reference whose segments do not add up");
        return false;
    }
    begin_receive(total, frame);
    reader_->advance(frame);
    base::DataPath path = base::DataPath::Cma;
    if (!incoming_.discard && !fetch(total, list, path)) {
        incoming_.status |= status_transport;
        incoming_.discard = true;
        if (peer_->gone()) queues_.report(EndpointEvent::PeerDied);
    }
    const bool acknowledged_by_level = queues_.acknowledged();
    const bool failed = (incoming_.status & status_error_mask) != 0 || !incoming_.has_descriptor;
    finish_receive(path);
    // At the lower levels the sender still waits to get its buffer back.
    if (!acknowledged_by_level) owe_acknowledgement(failed ? status_remote_descriptor : 0);
    return true;
}

/// One copy from the peer's memory into the posted segments.
bool ShmEndpoint::fetch(std::uint32_t total, std::span<const PhysicalDescriptor> segments,
                        base::DataPath& path) {
    const PdRing& pds = queues_.receive.pds;
    std::uint32_t bytes = std::min(total, incoming_.capacity);
    std::uint32_t local = 0;
    std::uint32_t local_offset = 0;
    for (const PhysicalDescriptor& remote : segments) {
        if (bytes == 0) break;
        const std::byte* mapped = nullptr;
        const ka::Region* region = nullptr;
        if (settings_.allowed.kmem && find_remote(remote.handle, region) &&
            region->contains(remote.address, remote.length))
            mapped = map_remote(*region, remote.address, remote.length);
        if (mapped != nullptr) path = base::DataPath::Kmem;
        std::uint32_t done = 0;
        while (done < remote.length && bytes != 0) {
            const PhysicalDescriptor& pd = pds.at(1 + local);
            if (local_offset == pd.length) {
                ++local;
                local_offset = 0;
                continue;
            }
            const std::uint32_t piece =
                std::min({remote.length - done, pd.length - local_offset, bytes});
            auto* to = reinterpret_cast<std::byte*>(pd.address) + local_offset;
            if (mapped != nullptr) {
                std::memcpy(to, mapped + done, piece);
            } else if (!peer_->can_read() ||
                       !cma_read(peer_->pid(), to, remote.address + done, piece)) {
                return false;
            }
            done += piece;
            local_offset += piece;
            bytes -= piece;
        }
    }
    return true;
}

void ShmEndpoint::acknowledge(std::uint32_t status) {
    if (queues_.acknowledged()) owe_acknowledgement(status);
}

void ShmEndpoint::violation(const char* what) {
    base::log(base::LogLevel::Warning, std::string("process ") + std::to_string(peer_->pid()) +
                                           " broke the rules of the shm channel: " + what);
    base::Counters::get().record_error(std::string("a peer broke the rules of the shm channel: ") +
                                       what);
    halted_ = true;
    queues_.report(EndpointEvent::ProtocolViolation);
}

/// Half of something was done, and memory has run out: this connection ends, nothing else.
void ShmEndpoint::give_up() noexcept {
    halted_ = true;
    queues_.report(EndpointEvent::OutOfMemory);
}

bool ShmEndpoint::has_news() {
    return live() &&
           (reader_->arrival_visible() || halted_ || outbox_ || unfinished() ||
            rung_.load(std::memory_order_relaxed) || peer_gone_.load(std::memory_order_relaxed) ||
            reader_->control().producer.state.load(std::memory_order_relaxed) !=
                static_cast<std::uint32_t>(EndState::Open));
}

}  // namespace via::na::shm
