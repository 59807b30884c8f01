// SPDX-License-Identifier: BSD-3-Clause
// The receiving half of a session: every piece to its place as it comes, every message complete in
// its turn.
#include <algorithm>
#include <cstring>

#include "base/counters.hpp"
#include "base/device_copy.hpp"
#include "base/log.hpp"
#include "base/probe.hpp"
#include "na/net/session.hpp"

namespace via::na::net {
namespace {

/// Pieces of one message that lie apart from each other. Of more than that only those are taken
/// that close a gap: memory for them is bounded, whatever a peer sends.
constexpr std::size_t most_pieces = 1024;
/// What takes more than a packet, however long that is.
constexpr std::uint32_t long_message = 64U << 10U;

bool crumbles(const Pieces& got, const wire::DataFrame& frame) noexcept {
    const auto& ranges = got.beyond().ranges();
    if (ranges.size() < most_pieces || frame.offset <= got.end()) return false;
    return std::none_of(ranges.begin(), ranges.end(), [&](const auto& range) {
        return range.begin <= std::uint64_t{frame.offset} + frame.length &&
               range.end >= frame.offset;
    });
}

/// Unless it was put there already, while it was checked.
void bring(std::uint64_t address, std::span<const std::byte> payload) noexcept {
    auto* const to = reinterpret_cast<std::byte*>(address);
    if (payload.data() != to) base::device_copy(to, payload.data(), payload.size());
}

}  // namespace

void Session::violation(const char* what) {
    if (halted_) return;
    base::log(base::LogLevel::Warning,
              std::string("a peer on another host broke the rules of the protocol: ") + what);
    base::Counters::get().record_error(
        std::string("a peer on another host broke the rules of the protocol: ") + what);
    halt();
    news_ = true;
    if (queues_ != nullptr) queues_->report(EndpointEvent::ProtocolViolation);
}

/// A message could not be delivered: on a reliable connection that is the end.
void Session::fail(std::uint32_t status) {
    if (!queues_->reliable()) return;
    halt();
    reason_.message = static_cast<std::uint32_t>(delivered_);
    reason_.status = status;
}

bool Session::scatter(const Segments& segments, std::uint32_t capacity, std::uint32_t offset,
                      std::span<const std::byte> payload) {
    if (offset >= capacity) return true;
    auto bytes =
        static_cast<std::uint32_t>(std::min<std::size_t>(payload.size(), capacity - offset));
    const std::byte* from = payload.data();
    for (std::uint32_t i = 0; bytes != 0; ++i) {
        const PhysicalDescriptor& pd = segments[i];
        if (offset >= pd.length) {
            offset -= pd.length;
            continue;
        }
        // Deregistered since it was posted, and perhaps even unmapped.
        if (!allows(receive_cache_, pd, 0)) return false;
        const std::uint32_t piece = std::min(pd.length - offset, bytes);
        base::device_copy(reinterpret_cast<std::byte*>(pd.address) + offset, from, piece);
        from += piece;
        bytes -= piece;
        offset = 0;
    }
    return true;
}

/// Moves the front chain of the receive queue to taken_. False: none is posted.
bool Session::take_receive() {
    WorkQueue& queue = queues_->receive;
    if (!queue.has_work()) return false;
    const ChainHead head = decode_head(queue.pds.at(0));
    TakenReceive& taken = taken_.push();
    taken.segments.clear();
    taken.capacity = head.length;
    for (std::uint32_t i = 0; i < head.segments; ++i)
        taken.segments.add(queue.pds.at(1 + i));
    taken.entry = queue.start();
    ++receives_taken_;
    return true;
}

bool Session::take(const wire::DataFrame& frame, std::span<const std::byte> payload) {
    if (halted_ || queues_ == nullptr) return true;  // nobody is interested any more
    if (!queues_->reliable()) return take_unreliable(frame, payload);
    const std::uint64_t number = wire::expand(frame.message, delivered_);
    if (number < delivered_) return true;  // it has come before
    // Answers to reads come on top of what the peer's program has posted.
    if (number - delivered_ >= most_operations + most_served_reads) {
        violation("more operations under way than agreed");
        return false;
    }
    const std::uint64_t ahead = number - delivered_;
    if (ahead < incoming_.size() && take_next_piece(incoming_[ahead], frame, payload)) {
        if (ahead == 0 && incoming_.front().complete) deliver_ready();
        return true;
    }
    if (ahead == 0 && take_plain(frame, payload)) return true;
    while (incoming_.size() <= ahead)
        incoming_.push().reset();
    Incoming& incoming = incoming_[ahead];
    if (!incoming.begun) {
        switch (begin(incoming, frame, number == delivered_)) {
            case Begin::Ready:
                break;
            case Begin::NotNow:
                return false;
            case Begin::Violation:
                violation("an operation that does not fit to those before it");
                return false;
        }
    } else if (incoming.type != frame.type || incoming.total != frame.total) {
        violation("pieces of different operations under one number");
        return false;
    }
    if (incoming.complete) return true;
    if (incoming.type == wire::FrameType::Send && !incoming.no_receive &&
        incoming.receive < receives_delivered_) {
        violation("a message for a receive that another one has taken");
        return false;
    }
    if (crumbles(incoming.got, frame)) return false;
    place(incoming, frame, payload);
    if (incoming.complete && ahead == 0) deliver_ready();
    return true;
}

bool Session::take_continued(const wire::Continuation& piece, std::span<const std::byte> payload) {
    if (halted_ || queues_ == nullptr) return true;  // nobody is interested any more
    const auto number = wire::expand<wire::Continuation::message_bits>(piece.message, delivered_);
    if (number < delivered_) return true;  // it has come before
    const std::uint64_t ahead = number - delivered_;
    // What its pieces have in common is not known yet. Where messages may be lost, this one is.
    if (ahead >= incoming_.size() || !incoming_[ahead].begun) return !queues_->reliable();
    const Incoming& incoming = incoming_[ahead];
    if (incoming.type == wire::FrameType::ReadRequest || piece.offset > incoming.total ||
        payload.size() > incoming.total - piece.offset || payload.size() > 0xFFFF) {
        violation("a piece that is no part of its operation");
        return false;
    }
    wire::DataFrame frame;
    frame.type = incoming.type;
    if (incoming.has_immediate) frame.flags = wire::data_immediate;
    frame.length = static_cast<std::uint16_t>(payload.size());
    frame.message = static_cast<std::uint32_t>(number);
    frame.receive = static_cast<std::uint32_t>(incoming.receive);
    frame.total = incoming.total;
    frame.offset = piece.offset;
    frame.immediate = incoming.immediate;
    frame.address = incoming.address;
    frame.handle = incoming.handle;
    return take(frame, payload);
}

/// A piece of a long message that has begun, right behind those that have come.
bool Session::is_next_piece(const Incoming& incoming, const wire::DataFrame& frame) {
    return incoming.direct && !incoming.complete && frame.offset == incoming.got.end() &&
           frame.total == incoming.total && frame.type == wire::FrameType::Send &&
           incoming.receive >= receives_delivered_ && allows(receive_cache_, incoming.place, 0);
}

/// The greater part of every stream. False: it is something else, and nothing was done.
bool Session::take_next_piece(Incoming& incoming, const wire::DataFrame& frame,
                              std::span<const std::byte> payload) {
    if (!is_next_piece(incoming, frame)) return false;
    bring(incoming.place.address + frame.offset, payload);
    incoming.got.add(frame.offset, frame.offset + frame.length);
    incoming.complete = incoming.got.end() >= incoming.total;
    return true;
}

/// The frame may come from anybody. What it says of its operation must be what genuine packets have
/// said before; only bytes that have not come are written to, and none that are held back.
std::byte* Session::early_place(const wire::DataFrame& frame) {
    if (halted_ || queues_ == nullptr || !queues_->reliable()) return nullptr;
    const std::uint64_t ahead = wire::expand(frame.message, delivered_) - delivered_;
    if (ahead >= incoming_.size()) return nullptr;
    const Incoming& incoming = incoming_[ahead];
    const std::uint32_t end = frame.offset + frame.length;
    if (!incoming.begun || !incoming.got.lacks_until(end)) return nullptr;
    std::uint64_t address = incoming.place.address;
    if (!is_next_piece(incoming, frame)) {
        address = incoming.address;
        const PhysicalDescriptor piece{address + frame.offset, frame.length, incoming.handle};
        if (incoming.type != wire::FrameType::RdmaWrite || frame.type != incoming.type ||
            frame.total != incoming.total || incoming.refused || incoming.complete ||
            frame.offset != incoming.got.end() || end > incoming.held_offset ||
            !allows(receive_cache_, piece, ka::right_rdma_write))
            return nullptr;
    }
    return reinterpret_cast<std::byte*>(address) + frame.offset;
}

/// The common case in one piece: the next message, whole, into one segment that is long enough.
inline bool Session::take_plain(const wire::DataFrame& frame, std::span<const std::byte> payload) {
    if (frame.type != wire::FrameType::Send || !frame.whole() || !taken_.empty() ||
        (!incoming_.empty() && incoming_.front().begun))
        return false;
    WorkQueue& queue = queues_->receive;
    if (!queue.has_work()) return false;
    const ChainHead head = decode_head(queue.pds.at(0));
    if (head.segments != 1 || frame.total > head.length ||
        frame.receive != static_cast<std::uint32_t>(receives_delivered_))
        return false;
    const PhysicalDescriptor& pd = queue.pds.at(1);
    if (!allows(receive_cache_, pd, 0)) return false;
    base::device_copy(reinterpret_cast<std::byte*>(pd.address), payload.data(), payload.size());
    const std::uint64_t entry = queue.start();
    queue.complete(entry, frame.has_immediate() ? status_immediate : 0, frame.total,
                   frame.immediate);
    ++receives_taken_;
    ++receives_delivered_;
    VIA_PROBE_RECEIVE_WHOLE(streams_.incoming, delivered_, frame.total, base::DataPath::Packet);
    queues_->counters->received_messages[static_cast<std::size_t>(base::DataPath::Packet)].add();
    queues_->counters->received_bytes.add(frame.total);
    news_ = true;
    if (!incoming_.empty()) incoming_.pop_front();
    ++delivered_;
    if (!incoming_.empty()) deliver_ready();
    return true;
}

Session::Begin Session::begin(Incoming& incoming, const wire::DataFrame& frame, bool is_next) {
    incoming.type = frame.type;
    incoming.total = frame.total;
    incoming.has_immediate = frame.has_immediate();
    incoming.immediate = frame.immediate;
    incoming.address = frame.address;
    incoming.handle = frame.handle;
    switch (frame.type) {
        case wire::FrameType::Send: {
            incoming.receive = wire::expand(frame.receive, receives_delivered_);
            const Begin outcome = begin_receive(incoming, is_next);
            if (outcome != Begin::Ready) return outcome;
            break;
        }
        case wire::FrameType::RdmaWrite: {
            incoming.receive = wire::expand(frame.receive, receives_delivered_);
            begin_write(incoming);
            break;
        }
        case wire::FrameType::ReadData: {
            incoming.receive =
                wire::expand(frame.receive, first_operation_ + operations_.size() / 2);
            const Read* read = read_of(incoming.receive);
            if (read == nullptr || read->length != frame.total) return Begin::Violation;
            break;
        }
        default:
            break;
    }
    incoming.begun = true;
    incoming.follows = delivered_long_;
    return Begin::Ready;
}

/// Whether it may be, and which bytes come last.
void Session::begin_write(Incoming& incoming) {
    const PhysicalDescriptor target{incoming.address, incoming.total, incoming.handle};
    incoming.refused = (queues_->local.rights & ka::right_rdma_write) == 0 ||
                       !allows(receive_cache_, target, ka::right_rdma_write);
    const auto in_last_word = static_cast<std::uint32_t>((incoming.address + incoming.total) % 8);
    incoming.held_bytes = std::min(in_last_word == 0 ? 8 : in_last_word, incoming.total);
    incoming.held_offset = incoming.total - incoming.held_bytes;
}

/// Finds the receive that the message will consume, so that its pieces can go there at once.
Session::Begin Session::begin_receive(Incoming& incoming, bool is_next) {
    if (incoming.receive < receives_delivered_ ||
        incoming.receive - receives_delivered_ >= most_operations)
        return Begin::Violation;
    while (receives_taken_ <= incoming.receive) {
        if (take_receive()) continue;
        // Messages before it may be on their way, and so may be receives: only when its turn has
        // come is it known that there is none.
        if (!is_next) return Begin::NotNow;
        incoming.no_receive = true;
        return Begin::Ready;
    }
    const TakenReceive& receive = taken_[incoming.receive - receives_delivered_];
    if (incoming.total > receive.capacity) {
        incoming.status |= status_length;
    } else if (receive.segments.size() == 1) {
        incoming.direct = true;
        incoming.place = receive.segments[0];
    }
    return Begin::Ready;
}

void Session::place(Incoming& incoming, const wire::DataFrame& frame,
                    std::span<const std::byte> payload) {
    switch (incoming.type) {
        case wire::FrameType::Send:
            if (!incoming.no_receive && (incoming.status & status_protection) == 0) {
                const TakenReceive& receive = taken_[incoming.receive - receives_delivered_];
                if (!scatter(receive.segments, receive.capacity, frame.offset, payload)) {
                    incoming.status |= status_protection;
                    incoming.direct = false;
                }
            }
            break;
        case wire::FrameType::RdmaWrite:
            if (!incoming.refused) place_write(incoming, frame.offset, payload);
            break;
        case wire::FrameType::ReadData:
            place_read(incoming, frame.offset, payload);
            break;
        default:
            incoming.complete = true;
            return;
    }
    if (incoming.total == 0 || frame.whole()) {
        incoming.complete = true;
        return;
    }
    incoming.got.add(frame.offset, frame.offset + frame.length);
    incoming.complete = incoming.got.end() >= incoming.total;
}

void Session::place_write(Incoming& incoming, std::uint32_t offset,
                          std::span<const std::byte> payload) {
    auto bytes = static_cast<std::uint32_t>(payload.size());
    const PhysicalDescriptor piece{incoming.address + offset, bytes, incoming.handle};
    // The region may have been deregistered since the last piece.
    if (!allows(receive_cache_, piece, ka::right_rdma_write)) {
        incoming.refused = true;
        return;
    }
    // A program may look at the last word to see that all has come: it is held back, whatever the
    // pieces in which it comes.
    if (offset + bytes > incoming.held_offset) {
        const std::uint32_t begin = std::max(offset, incoming.held_offset);
        const std::uint32_t held = offset + bytes - begin;
        std::memcpy(incoming.held.data() + (begin - incoming.held_offset),
                    payload.data() + (begin - offset), held);
        bytes -= held;
    }
    bring(piece.address, payload.first(bytes));
}

void Session::place_read(Incoming& incoming, std::uint32_t offset,
                         std::span<const std::byte> payload) {
    Read* read = read_of(incoming.receive);
    if (read == nullptr) return;
    if (!scatter(read->segments, read->length, offset, payload)) read->status |= status_protection;
}

void Session::deliver_ready() {
    while (!incoming_.empty() && incoming_.front().complete && !halted_) {
        deliver(incoming_.front());
        delivered_long_ = incoming_.front().total >= long_message;
        incoming_.pop_front();
        ++delivered_;
        // What failed has not been delivered.
        if (halted_ && reason_.status != 0) --delivered_;
    }
}

void Session::deliver(Incoming& incoming) {
    news_ = true;
    switch (incoming.type) {
        case wire::FrameType::Send:
            deliver_send(incoming);
            break;
        case wire::FrameType::RdmaWrite:
            deliver_write(incoming);
            break;
        case wire::FrameType::ReadRequest:
            deliver_read_request(incoming);
            break;
        case wire::FrameType::ReadData:
            deliver_read_data(incoming);
            break;
        default:
            break;
    }
}

void Session::deliver_send(const Incoming& incoming) {
    if (incoming.no_receive) {
        queues_->report(EndpointEvent::ReceiveQueueEmpty);
        fail(status_remote_descriptor);
        return;
    }
    if (incoming.receive != receives_delivered_) {
        violation("a message for another receive than the next");
        return;
    }
    const TakenReceive receive = std::move(taken_.front());
    taken_.pop_front();
    ++receives_delivered_;
    std::uint32_t status = incoming.status;
    std::uint32_t bytes = incoming.total;
    if ((status & status_protection) != 0) {
        bytes = 0;
    } else if ((status & status_length) != 0) {
        bytes = receive.capacity;
        if (bytes != 0) status |= status_partial;
    }
    if (incoming.has_immediate) status |= status_immediate;
    queues_->receive.complete(receive.entry, status, bytes, incoming.immediate);
    VIA_PROBE_RECEIVE_WHOLE(streams_.incoming, delivered_, bytes, base::DataPath::Packet);
    queues_->counters->received_messages[static_cast<std::size_t>(base::DataPath::Packet)].add();
    queues_->counters->received_bytes.add(bytes);
    if ((status & status_error_mask) != 0) fail(status_remote_descriptor);
}

void Session::deliver_write(Incoming& incoming) {
    if (!incoming.refused && incoming.held_bytes != 0) {
        const PhysicalDescriptor rest{incoming.address + incoming.held_offset, incoming.held_bytes,
                                      incoming.handle};
        if (allows(receive_cache_, rest, ka::right_rdma_write)) {
            std::atomic_thread_fence(std::memory_order_release);
            base::device_copy(reinterpret_cast<std::byte*>(rest.address), incoming.held.data(),
                              incoming.held_bytes);
        } else {
            incoming.refused = true;
        }
    }
    std::atomic_thread_fence(std::memory_order_release);
    if (!incoming.has_immediate) {
        if (!incoming.refused) return;
        queues_->report(EndpointEvent::RdmaWriteRefused);
        fail(status_rdma_protection);
        return;
    }
    // Immediate data consumes a receive.
    if (taken_.empty() && !take_receive()) {
        queues_->report(EndpointEvent::ReceiveQueueEmpty);
        fail(incoming.refused ? status_rdma_protection : status_remote_descriptor);
        return;
    }
    if (queues_->reliable() && incoming.receive != receives_delivered_) {
        violation("immediate data for another receive than the next");
        return;
    }
    const TakenReceive receive = std::move(taken_.front());
    taken_.pop_front();
    ++receives_delivered_;
    queues_->receive.at(receive.entry).operation_bits = status_op_remote_rdma_write;
    queues_->receive.complete(receive.entry,
                              status_immediate | (incoming.refused ? status_rdma_protection : 0),
                              incoming.refused ? 0 : incoming.total, incoming.immediate);
    VIA_PROBE_RECEIVE_WHOLE(streams_.incoming, delivered_, incoming.total, base::DataPath::Packet);
    if (incoming.refused) fail(status_rdma_protection);
}

void Session::deliver_read_request(const Incoming& incoming) {
    const PhysicalDescriptor source{incoming.address, incoming.total, incoming.handle};
    if ((queues_->local.rights & ka::right_rdma_read) == 0 ||
        !allows(send_cache_, source, ka::right_rdma_read)) {
        queues_->report(EndpointEvent::RdmaReadRefused);
        fail(status_rdma_protection);
        return;
    }
    if (served_reads_ >= most_served_reads) {
        violation("too many reads at once");
        return;
    }
    ++served_reads_;
    Outgoing& answer = new_operation();
    answer.type = wire::FrameType::ReadData;
    answer.length = incoming.total;
    answer.receive = delivered_;
    if (incoming.total != 0) answer.segments.add(source);
    answer.remote = {};
    added(answer);
}

void Session::deliver_read_data(const Incoming& incoming) {
    Read* read = read_of(incoming.receive);
    if (read == nullptr) return violation("data of a read that was answered already");
    queues_->send.complete(read->entry, read->status, read->status == 0 ? read->length : 0);
    if (read->status != 0 && queues_->reliable()) halt();
    std::erase_if(reads_, [&](const Read& r) { return r.operation == incoming.receive; });
    take_sends();  // a fence may have waited for it
}

/// Messages may be missing, and what is missing is given up as soon as a later one comes.
bool Session::take_unreliable(const wire::DataFrame& frame, std::span<const std::byte> payload) {
    const std::uint64_t number = wire::expand(frame.message, delivered_);
    if (number < delivered_ ||
        (frame.type != wire::FrameType::Send && frame.type != wire::FrameType::RdmaWrite))
        return true;
    if (number > delivered_ || incoming_.empty()) {
        incoming_.clear();
        delivered_ = number;
        if (frame.offset != 0) return true;  // its beginning is missing
        Incoming& begun = incoming_.push();
        begun.reset();
        begun.type = frame.type;
        begun.total = frame.total;
        begun.has_immediate = frame.has_immediate();
        begun.immediate = frame.immediate;
        begun.address = frame.address;
        begun.handle = frame.handle;
        if (frame.type == wire::FrameType::Send) {
            begun.receive = receives_delivered_;
            begun.no_receive = taken_.empty() && !take_receive();
            if (!begun.no_receive && frame.total > taken_.front().capacity)
                begun.status |= status_length;
        } else {
            begin_write(begun);
        }
        begun.begun = true;
    }
    Incoming& incoming = incoming_.front();
    const std::uint64_t got = incoming.got.end();
    if (frame.offset != got || incoming.total != frame.total || incoming.type != frame.type) {
        if (frame.offset > got) {  // a piece is missing
            incoming_.clear();
            ++delivered_;
        }
        return true;
    }
    place(incoming, frame, payload);
    if (incoming.complete) {
        deliver(incoming);
        incoming_.clear();
        ++delivered_;
    }
    return true;
}

}  // namespace via::na::net
