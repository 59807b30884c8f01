// SPDX-License-Identifier: BSD-3-Clause
// The sending half of a session: the stream of operations.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/device_copy.hpp"
#include "base/probe.hpp"
#include "na/net/session.hpp"

namespace via::na::net {
namespace {

/// What one operation costs on top of its bytes, about. Its last piece counts for it.
constexpr std::uint64_t operation_overhead = 16;
/// A piece of a message that would be shorter waits for the next packet.
constexpr std::uint32_t least_piece = 64;
/// Shorter messages are copied: the kernel takes so many pages and no more, however short.
constexpr std::uint32_t least_apart = 2048;
/// So many packets at its beginning say all about a message: if all of them were lost, its
/// continuations would be lost, too, until a train begins with another such packet.
constexpr std::uint32_t packets_in_full = 2;

std::uint64_t weight(std::uint32_t bytes) noexcept {
    return std::uint64_t{bytes} + operation_overhead;
}

}  // namespace

Session::Session(QueuePair& queues, ka::RmmtView rmmt, const Streams& streams)
    : queues_(&queues), rmmt_(rmmt), streams_(streams) {}

bool Session::unfinished() const noexcept {
    return !operations_.empty() || !reads_.empty() ||
           (queues_ != nullptr && queues_->send.has_unstarted());
}

void Session::settle_pending() noexcept {
    urgent_ = !lost_.empty() && !halted_;
    if (halted_ || (lost_.empty() && unsent_operation_ == next_operation_))
        pending_bytes_ = 0;
    else if (pending_bytes_ == 0)
        pending_bytes_ = 1;  // of unknown length
}

void Session::added(const Outgoing& operation) noexcept {
    pending_bytes_ += weight(operation.length);
    ++next_operation_;
}

/// The same for a send.
void Session::added_send(Outgoing& operation) noexcept {
    operation.type = wire::FrameType::Send;
    operation.receive = receives_used_++;
    queues_->counters->sent_messages[static_cast<std::size_t>(base::DataPath::Packet)].add();
    queues_->counters->sent_bytes.add(operation.length);
    VIA_PROBE_SEND_WHOLE(streams_.outgoing, next_operation_, operation.length,
                         base::DataPath::Packet);
    added(operation);
}

bool Session::take_send(std::uint64_t entry, PhysicalDescriptor segment, bool has_immediate,
                        std::uint32_t immediate) {
    if (halted_ || queues_ == nullptr || operations_.size() >= most_operations) return false;
    Outgoing& op = new_operation();
    op.has_immediate = has_immediate;
    op.has_entry = true;
    op.length = segment.length;
    op.immediate = immediate;
    op.entry = entry;
    op.remote = {};
    op.segments.add(segment);
    added_send(op);
    return true;
}

void Session::take_sends() {
    if (halted_ || queues_ == nullptr) return;
    WorkQueue& queue = queues_->send;
    while (operations_.size() < most_operations && queue.has_work()) {
        const ChainHead head = decode_head(queue.pds.at(0));
        if ((head.flags & pd_fence) != 0 && !reads_.empty()) return;
        const bool reads = head.operation == Operation::RdmaRead;
        if (reads && reads_.size() >= most_reads) return;
        if (head.operation == Operation::Receive) {
            queue.complete(queue.start(), status_format, 0);
            news_ = true;
            continue;
        }
        Outgoing& op = new_operation();
        op.length = head.length;
        op.immediate = head.immediate;
        op.has_immediate = (head.flags & pd_immediate) != 0;
        op.has_entry = true;
        std::uint32_t first = 1;
        op.remote = head.has_address() ? queue.pds.at(first++) : PhysicalDescriptor{};
        for (std::uint32_t i = 0; i < head.segments; ++i)
            op.segments.add(queue.pds.at(first + i));
        op.entry = queue.start();
        switch (head.operation) {
            case Operation::RdmaWrite:
                op.type = wire::FrameType::RdmaWrite;
                queues_->counters->rdma_writes.add();
                queues_->counters->rdma_bytes.add(head.length);
                break;
            case Operation::RdmaRead: {
                op.type = wire::FrameType::ReadRequest;
                op.has_entry = false;
                queues_->counters->rdma_reads.add();
                queues_->counters->rdma_bytes.add(head.length);
                Read read;
                read.operation = next_operation_;
                read.entry = op.entry;
                read.length = head.length;
                read.segments = std::exchange(op.segments, {});
                reads_.push_back(std::move(read));
                op.remote.length = op.length;
                op.length = 0;
                break;
            }
            default:
                added_send(op);
                continue;
        }
        if (op.has_immediate && !reads) op.receive = receives_used_++;
        if (!reads)
            VIA_PROBE_SEND_WHOLE(streams_.outgoing, next_operation_, head.length,
                                 base::DataPath::Packet);
        added(op);
    }
}

/// What the program posted can not be sent any more: its memory was deregistered meanwhile.
void Session::fail_send(std::uint64_t number, std::uint32_t status) {
    Outgoing& op = operation(number);
    if (op.has_entry && queues_ != nullptr) {
        queues_->send.complete(op.entry, status, 0);
        op.has_entry = false;
        news_ = true;
    }
    if (queues_ != nullptr && queues_->reliable()) {
        halt();
        // The peer hears of a read that can not be answered.
        if (op.type == wire::FrameType::ReadData) {
            reason_.message = static_cast<std::uint32_t>(op.receive);
            reason_.status = status_rdma_protection;
            queues_->report(EndpointEvent::RdmaReadRefused);
            news_ = true;
        }
    }
}

/// What all frames of an operation have in common.
wire::DataFrame Session::frame_of(const Outgoing& op, std::uint64_t number) noexcept {
    wire::DataFrame frame;
    frame.type = op.type;
    if (op.has_immediate) frame.flags = wire::data_immediate;
    frame.message = static_cast<std::uint32_t>(number);
    frame.receive = static_cast<std::uint32_t>(op.receive);
    frame.total = op.length;
    frame.immediate = op.immediate;
    frame.address = op.remote.address;
    frame.handle = op.remote.handle;
    return frame;
}

/// What is read from here changes when it likes; all else stays until it is acknowledged.
void Session::refer(links::Train& train, const Outgoing& op, const std::byte* data,
                    std::uint32_t bytes) {
    if (op.type == wire::FrameType::ReadData)
        train.refer(data, bytes);
    else
        train.lend(data, bytes);
}

std::uint32_t Session::piece_of(const links::Train& train, const Outgoing& op, std::uint32_t begin,
                                std::uint32_t bytes) noexcept {
    if (op.type == wire::FrameType::ReadData || op.segments.size() != 1) return bytes;
    return train.piece_of(reinterpret_cast<const std::byte*>(op.segments[0].address) + begin,
                          bytes);
}

bool Session::refer_segments(links::Train& train, const Outgoing& op, std::uint32_t offset,
                             std::uint32_t bytes) {
    const std::uint32_t right =
        op.type == wire::FrameType::ReadData ? ka::right_rdma_read : std::uint32_t{0};
    for (std::uint32_t i = 0; bytes != 0 && i < op.segments.size(); ++i) {
        const PhysicalDescriptor& pd = op.segments[i];
        if (offset >= pd.length) {
            offset -= pd.length;
            continue;
        }
        const std::uint32_t piece = std::min(pd.length - offset, bytes);
        if (!allows(send_cache_, {pd.address + offset, piece, pd.handle}, right)) return false;
        refer(train, op, reinterpret_cast<const std::byte*>(pd.address) + offset, piece);
        bytes -= piece;
        offset = 0;
    }
    return true;
}

bool Session::put(links::Train& train, std::uint64_t number, std::uint32_t& begin,
                  std::uint32_t end, bool& any) {
    Outgoing& op = operation(number);
    wire::DataFrame frame = frame_of(op, number);
    const bool is_request = op.type == wire::FrameType::ReadRequest;
    const std::uint32_t wanted = end - begin;
    std::uint32_t header = wire::data_frame_header_bytes(op.type, frame.flags | wire::data_whole);
    std::uint32_t bytes = wanted;
    if (!is_request && begin == 0 && end == op.length && header + op.length <= train.room()) {
        frame.flags |= wire::data_whole;
    } else {
        header = wire::data_frame_header_bytes(op.type, frame.flags);
        if (train.room() < header) return false;
        bytes = std::min(wanted, train.room() - header);
        // A short piece of a long message is not worth its header.
        if (bytes < wanted && bytes < least_piece) return false;
        bytes = piece_of(train, op, begin, std::min(bytes, 0xFFFFU));
    }
    frame.length = static_cast<std::uint16_t>(bytes);
    if (is_request) frame.total = op.remote.length;
    frame.offset = begin;
    wire::encode(train.append(header), frame);
    any = true;
    const std::uint32_t room = train.room();
    if (bytes != 0 && !refer_segments(train, op, begin, bytes)) {
        // The frame stays, with bytes that nobody will look at: the connection ends, or, where
        // messages may be lost, this one is. Segments before the bad one are in it already.
        const std::uint32_t missing = bytes - (room - train.room());
        std::memset(train.append(missing), 0, missing);
        fail_send(number, status_protection);
    }
    begin += bytes;
    return begin == end;
}

/// A message that goes into a packet whole, out of one segment: the commonest frame of all. False:
/// nothing is done.
template <class Packet>
inline bool Session::put_whole(Packet& packet, const Outgoing& op, std::uint64_t number) {
    if (op.type != wire::FrameType::Send || op.segments.size() != 1) return false;
    wire::DataFrame frame;  // of which it needs but few fields
    frame.flags = wire::data_whole;
    if (op.has_immediate) frame.flags |= wire::data_immediate;
    const std::uint32_t header = wire::data_frame_header_bytes(frame.type, frame.flags);
    if (header + op.length > packet.room()) return false;
    const PhysicalDescriptor& pd = op.segments[0];
    if (!allows(send_cache_, pd, 0)) return false;
    frame.length = static_cast<std::uint16_t>(op.length);
    frame.message = static_cast<std::uint32_t>(number);
    frame.receive = static_cast<std::uint32_t>(op.receive);
    frame.immediate = op.immediate;
    const auto* const data = reinterpret_cast<const std::byte*>(pd.address);
    const bool copied = op.length <= links::LonePacket::most_copied;
    std::byte* at = packet.append(copied ? header + op.length : header);
    wire::encode(at, frame);
    if (copied)
        base::device_copy(at + header, data, op.length);
    else
        packet.refer(data, op.length);
    return true;
}

/// All of it lies in one place, and it may be sent. Null: the long way tells what is wrong.
const std::byte* Session::bulk_of(const Outgoing& op) noexcept {
    if (op.segments.size() != 1 || op.type == wire::FrameType::ReadRequest) return nullptr;
    const std::uint32_t right =
        op.type == wire::FrameType::ReadData ? ka::right_rdma_read : std::uint32_t{0};
    const PhysicalDescriptor& pd = op.segments[0];
    return allows(send_cache_, pd, right) ? reinterpret_cast<const std::byte*>(pd.address)
                                          : nullptr;
}

/// A piece that fills the packet and needs no frame, as nearly all do that come again.
bool Session::put_continuation(links::Train& train, std::uint64_t number, std::uint32_t& begin,
                               std::uint32_t end) {
    if (begin == 0 || !train.packet_empty() || train.room() <= wire::Continuation::bytes ||
        end - begin < train.room() - wire::Continuation::bytes)
        return false;
    const std::byte* data = bulk_of(operation(number));
    if (data == nullptr) return false;
    train.make_continuation({static_cast<std::uint32_t>(number), begin});
    const std::uint32_t bytes = train.room();
    train.refer(data + begin, bytes);
    begin += bytes;
    return true;
}

/// Packets with nothing but the middle of a long message, which the caller has found long enough:
/// the greater part of every stream.
void Session::fill_with_bulk(links::Train& train, std::vector<links::Span>& spans) {
    const std::uint64_t number = unsent_operation_;
    const Outgoing& op = operation(number);
    const std::byte* data = bulk_of(op);
    if (data == nullptr) return;
    wire::DataFrame frame = frame_of(op, number);
    const std::uint32_t header = wire::data_frame_header_bytes(op.type, frame.flags);
    if (train.room() < header + least_piece) return;
    const std::uint32_t begun = unsent_offset_;
    std::uint32_t at = begun;
    for (;;) {
        std::uint32_t bytes;
        if (at == begun || at < packets_in_full * (train.packet_bytes() - header)) {
            bytes = piece_of(train, op, at, std::min(train.room() - header, 0xFFFFU));
            frame.length = static_cast<std::uint16_t>(bytes);
            frame.offset = at;
            wire::encode(train.append(header), frame);
        } else {
            train.make_continuation({static_cast<std::uint32_t>(number), at});
            bytes = piece_of(train, op, at, train.room());
        }
        refer(train, op, data + at, bytes);
        spans.push_back({number, number, at, at + bytes});
        at += bytes;
        if (!train.has_room() || op.length - at < train.packet_bytes()) break;
        train.open_packet();
    }
    unsent_offset_ = at;
    pending_bytes_ -= std::min<std::uint64_t>(pending_bytes_, at - begun);
}

/// What was lost, as far as it has not been delivered meanwhile. One span a packet.
void Session::fill_with_lost(links::Train& train, links::Span& span) {
    bool any = false;
    while (!lost_.empty() && !halted_) {
        links::Span& from = lost_.front();
        if (from.first < first_operation_) {
            from.first = first_operation_;
            from.begin = 0;
        }
        if (from.empty()) {
            lost_.pop_front();
            continue;
        }
        span.first = span.last = from.first;
        span.begin = from.begin;
        while (!from.empty() && !halted_) {
            const std::uint64_t number = from.first;
            const std::uint32_t length = operation(number).length;
            const std::uint32_t end = number == from.last ? from.end : length;
            const bool ends = end == length;
            std::uint32_t at = from.begin;
            bool finished = false;
            if (put_continuation(train, number, at, end)) {
                any = true;
                finished = at == end;
            } else {
                finished = put(train, number, at, end, any);
            }
            if (at != from.begin || finished) {
                span.last = number;
                span.end = at;
                const std::uint64_t done =
                    at - from.begin + (finished && ends ? operation_overhead : 0);
                pending_bytes_ -= std::min<std::uint64_t>(pending_bytes_, done);
            }
            from.begin = at;
            if (!finished) break;
            ++from.first;
            from.begin = 0;
        }
        if (from.empty()) lost_.pop_front();
        if (!any) span = {};
        return;
    }
}

/// All of it lies in one place that may be lent, and what is left of it is worth that. Null: not
/// so.
const std::byte* Session::apart_of(const Outgoing& op, std::uint32_t begin) noexcept {
    return op.length - begin >= least_apart && op.type != wire::FrameType::ReadData ? bulk_of(op)
                                                                                    : nullptr;
}

/// Messages one after the other, the first one perhaps without its beginning and the last one
/// without its end, with all their payloads in a row at the end of the packet, where the kernel
/// takes them as they lie. False: that is too little.
bool Session::fill_apart(links::Train& train) {
    if (pending_bytes_ < links::Train::least_lent) return false;
    const std::uint32_t length = train.length();
    std::uint64_t number = unsent_operation_;
    std::uint32_t begin = unsent_offset_;
    for (; number < next_operation_; ++number, begin = 0) {
        const Outgoing& op = operation(number);
        const std::byte* data = apart_of(op, begin);
        if (data == nullptr) break;
        wire::DataFrame frame = frame_of(op, number);
        frame.flags |= wire::data_apart | (begin == 0 ? wire::data_whole : 0U);
        std::uint32_t header = wire::data_frame_header_bytes(frame.type, frame.flags);
        const std::uint32_t rest = op.length - begin;
        std::uint32_t bytes = train.piece_apart(header, data + begin, rest);
        if (bytes < rest && frame.whole()) {
            if (op.length < links::Train::least_lent) break;
            frame.flags &= static_cast<std::uint8_t>(~wire::data_whole);
            header = wire::data_frame_header_bytes(frame.type, frame.flags);
            bytes = train.piece_apart(header, data, rest);
        }
        if (bytes < std::min(rest, least_apart)) break;
        frame.length = static_cast<std::uint16_t>(bytes);
        frame.offset = begin;
        wire::encode(train.append(header), frame);
        train.lend_apart(data + begin, bytes);
        if (bytes < rest) {
            begin += bytes;
            break;
        }
    }
    if (train.bytes_apart() < links::Train::least_lent) {
        train.rewind(length);
        return false;
    }
    const std::uint64_t done =
        train.bytes_apart() + (number - unsent_operation_) * operation_overhead;
    pending_bytes_ -= std::min(pending_bytes_, done);
    unsent_operation_ = number;
    unsent_offset_ = begin;
    return true;
}

void Session::fill_packet(links::Train& train, links::Span& span) {
    const std::uint64_t started = unsent_operation_;
    const std::uint32_t started_at = unsent_offset_;
    bool any = false;
    bool may_lie_apart = train.lends();
    while (unsent_operation_ < next_operation_ && !halted_) {
        if (may_lie_apart) {
            if (fill_apart(train)) {
                const bool ends = unsent_offset_ == 0;
                const std::uint64_t last = unsent_operation_ - (ends ? 1 : 0);
                span = {started, last, started_at, ends ? operation(last).length : unsent_offset_};
                return;
            }
            // Only what is left of a short rest may stand in its way.
            may_lie_apart = unsent_offset_ != 0;
        }
        const Outgoing& op = operation(unsent_operation_);
        const std::uint32_t end = op.length;
        std::uint32_t at = unsent_offset_;
        bool finished = at == 0 && op.length <= links::LonePacket::most_copied &&
                        put_whole(train, op, unsent_operation_);
        if (finished)
            at = end;
        else
            finished = put(train, unsent_operation_, at, end, any);
        if (at != unsent_offset_ || finished) {
            span.first = started;
            span.begin = started_at;
            span.last = unsent_operation_;
            span.end = at;
            const std::uint64_t done = at - unsent_offset_ + (finished ? operation_overhead : 0);
            pending_bytes_ -= std::min(pending_bytes_, done);
        }
        unsent_offset_ = at;
        if (!finished) break;
        ++unsent_operation_;
        unsent_offset_ = 0;
    }
}

bool Session::fill_alone(links::LonePacket& packet, links::Span& span) {
    const std::uint64_t number = unsent_operation_;
    if (number + 1 != next_operation_ || unsent_offset_ != 0 || !lost_.empty() || halted_ ||
        queues_ == nullptr)
        return false;
    const Outgoing& op = operation(number);
    if (!put_whole(packet, op, number)) return false;
    span = {number, number, 0, op.length};
    sent_before_ = std::max(sent_before_, ++unsent_operation_);
    pending_bytes_ = 0;
    urgent_ = false;
    return true;
}

void Session::fill(links::Train& train, std::vector<links::Span>& spans) {
    fill_packets(train, spans);
    sent_before_ = std::max(sent_before_, unsent_operation_);
    settle_pending();
}

void Session::fill_packets(links::Train& train, std::vector<links::Span>& spans) {
    while (queues_ != nullptr && !halted_) {
        const std::size_t before = spans.size();
        if (lost_.empty() && unsent_operation_ < next_operation_ &&
            operation(unsent_operation_).length - unsent_offset_ >= train.room())
            fill_with_bulk(train, spans);
        if (spans.size() == before) {
            links::Span span;
            if (!lost_.empty()) fill_with_lost(train, span);
            if (lost_.empty() && span.empty()) fill_packet(train, span);
            if (span.empty()) break;
            spans.push_back(span);
        }
        settle_pending();
        if (pending_bytes_ == 0 || !train.has_room()) return;
        train.open_packet();
    }
}

/// On an unreliable VI a message is done when the kernel has it.
void Session::sent(std::span<const links::Span> spans) {
    if (queues_ == nullptr || queues_->reliable()) return;
    for (const links::Span& span : spans)
        while (!span.empty() && !operations_.empty() && first_operation_ < unsent_operation_ &&
               first_operation_ <= span.last)
            retire_first(0);
}

void Session::retire_first(std::uint32_t status) {
    Outgoing& op = operations_.front();
    if (op.has_entry && queues_ != nullptr) {
        queues_->send.complete(op.entry, status, status == 0 ? op.length : 0);
        news_ = true;
    }
    if (op.type == wire::FrameType::ReadData && served_reads_ != 0) --served_reads_;
    operations_.pop_front();
    ++first_operation_;
    if (unsent_operation_ < first_operation_) {
        unsent_operation_ = first_operation_;
        unsent_offset_ = 0;
    }
}

std::uint64_t Session::weight_of(const links::Span& span) noexcept {
    std::uint64_t bytes = 0;
    for (std::uint64_t n = std::max(span.first, first_operation_); n <= span.last; ++n) {
        const std::uint32_t length = operation(n).length;
        const std::uint32_t begin = n == span.first ? span.begin : 0;
        const std::uint32_t end = n == span.last ? span.end : length;
        bytes += (end > begin ? end - begin : 0) + (end == length ? operation_overhead : 0);
    }
    return bytes;
}

void Session::lost(const links::Span& span) {
    if (queues_ == nullptr || !queues_->reliable() || halted_) return;
    if (span.last < first_operation_) return;
    pending_bytes_ += weight_of(span);
    urgent_ = true;
    // Neighbours that were lost together become one.
    if (!lost_.empty()) {
        links::Span& back = lost_.back();
        const bool follows =
            (back.last == span.first && back.end == span.begin && span.begin != 0) ||
            (back.last + 1 == span.first && span.begin == 0 && back.last >= first_operation_ &&
             back.end == operation(back.last).length);
        if (follows) {
            back.last = span.last;
            back.end = span.end;
            return;
        }
    }
    lost_.push_back(span);
}

/// As if it had not been put into a packet.
void Session::unsent(const links::Span& span) {
    if (queues_ == nullptr || halted_) return;
    if (!queues_->reliable()) {
        // Nothing is kept of what may be lost, but the kernel's queue being full is no loss.
        unsent_operation_ = std::max(span.first, first_operation_);
        unsent_offset_ = span.first < first_operation_ ? 0 : span.begin;
        pending_bytes_ = 0;
        for (std::uint64_t n = unsent_operation_; n < next_operation_; ++n)
            pending_bytes_ += weight(operation(n).length);
        return settle_pending();
    }
    // A train's packets are given back from the last one on, so all behind it is unsent, too.
    const bool is_last = span.last == unsent_operation_
                             ? span.end == unsent_offset_
                             : span.last + 1 == unsent_operation_ && unsent_offset_ == 0 &&
                                   span.last >= first_operation_ &&
                                   span.end == operation(span.last).length;
    if (is_last && span.first >= first_operation_) {
        unsent_operation_ = span.first;
        unsent_offset_ = span.begin;
        pending_bytes_ += weight_of(span);
        return;
    }
    lost(span);
    // It comes before everything else that waits.
    if (lost_.size() > 1 && lost_.back() == span) {
        lost_.pop_back();
        lost_.push_front(span);
    }
}

void Session::peer_delivered(std::uint32_t count) {
    if (queues_ == nullptr || !queues_->reliable()) return;
    const std::uint64_t until = wire::expand(count, first_operation_);
    if (until > sent_before_ || until < first_operation_) {
        if (until > sent_before_) violation("delivered more than was sent");
        return;
    }
    while (first_operation_ < until)
        retire_first(0);
    settle_pending();
}

void Session::peer_closes(const wire::CloseFrame& frame) {
    if (peer_closed_) return;
    peer_closed_ = true;
    news_ = true;
    if (queues_ == nullptr) return;
    if ((frame.status & status_error_mask) != 0 && queues_->reliable()) {
        const std::uint32_t status = frame.status & status_error_mask;
        const std::uint64_t failed = wire::expand(frame.message, first_operation_);
        // Everything before the one that failed was delivered.
        while (!operations_.empty() && first_operation_ < failed && failed < next_operation_)
            retire_first(0);
        if (!operations_.empty() && first_operation_ == failed) {
            if (Read* read = read_of(failed)) {
                queues_->send.complete(read->entry, status, 0);
                std::erase_if(reads_, [&](const Read& r) { return r.operation == failed; });
            } else {
                // Only reliable reception tells the sender what became of a message.
                retire_first(queues_->acknowledged() ? status : 0);
            }
        } else if (Read* read = read_of(failed)) {
            queues_->send.complete(read->entry, status, 0);
            std::erase_if(reads_, [&](const Read& r) { return r.operation == failed; });
        }
    }
    halt();
    queues_->report(EndpointEvent::PeerDisconnected);
}

void Session::peer_lost() noexcept {
    if (peer_closed_ || queues_ == nullptr) return;
    peer_closed_ = true;
    halt();
    news_ = true;
    queues_->report(EndpointEvent::PeerDied);
}

Session::Read* Session::read_of(std::uint64_t operation_number) noexcept {
    for (Read& read : reads_)
        if (read.operation == operation_number) return &read;
    return nullptr;
}

}  // namespace via::na::net
