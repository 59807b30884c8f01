// SPDX-License-Identifier: BSD-3-Clause
// RDMA on the shm device. The initiator checks the target region in the peer's RMMT (range, rights,
// tag) and moves the data itself, by mapping or CMA: the target makes no call. Through the ring the
// target checks again with its own table.
#include <algorithm>

#include "na/shm/shm_endpoint.hpp"
#include "na/shm/shm_nic_agent.hpp"

namespace via::na::shm {
namespace {

constexpr std::size_t max_outstanding_reads = 8;
constexpr std::size_t max_served_reads = 64;

}  // namespace

bool ShmEndpoint::remote_region(const PhysicalDescriptor& remote, std::uint32_t length,
                                std::uint32_t right, const ka::Region*& region) {
    const ka::EndpointAttributes& peer = queues_.remote;
    return (peer.rights & right) != 0 && find_remote(remote.handle, region) &&
           region->permits(remote.address, length, right, peer.tag,
                           (peer.flags & ka::endpoint_any_tag) != 0);
}

/// A region of the peer, from its present table.
bool ShmEndpoint::find_remote(std::uint32_t handle, const ka::Region*& region) {
    const ka::RmmtView table = peer_->regions(connection_);
    if (table.entries() != remote_table_) [[unlikely]] {
        remote_table_ = table.entries();
        remote_region_cache_ = {};
    }
    return remote_region_cache_.find(table, handle, region);
}

/// Where a part of the region is mapped here, or null.
std::byte* ShmEndpoint::map_remote(const ka::Region& region, std::uint64_t address,
                                   std::uint32_t bytes) {
    if (region.arena == ka::no_arena) return nullptr;
    if (region.arena != remote_arena_) [[unlikely]] {
        remote_arena_memory_ = peer_->arena(connection_, region.arena);
        remote_arena_ = region.arena;
    }
    const std::uint64_t offset = region.arena_offset + (address - region.address);
    if (offset > remote_arena_memory_.size() || bytes > remote_arena_memory_.size() - offset)
        return nullptr;
    return remote_arena_memory_.data() + offset;
}

/// The check failed: tell the target, and the initiator as its reliability level wants it.
bool ShmEndpoint::refuse_rdma(const ChainHead& head) {
    const bool read = head.operation == Operation::RdmaRead;
    const bool immediate = !read && (head.flags & pd_immediate) != 0;
    // With immediate data it is reported in the receive descriptor that these consume.
    const RdmaNotice notice{0, status_rdma_protection};
    if (!writer_->reserve(immediate ? sizeof notice : 0)) return false;
    if (immediate)
        writer_->publish(FrameKind::RdmaDone, frame_immediate, &notice, sizeof notice,
                         head.immediate);
    else
        writer_->publish(FrameKind::RdmaRefused, read ? frame_read : 0, nullptr, 0, 0);
    published_ = true;
    const std::uint64_t number = queues_.send.start();
    const bool tell = read || queues_.acknowledged();
    queues_.send.complete(number, tell ? status_rdma_protection : 0, 0);
    return true;
}

bool ShmEndpoint::rdma_write(const ChainHead& head) {
    // Writes keep their place among the sends: those the peer has yet to fetch come first.
    if (references_ != 0) return false;
    PdRing& pds = queues_.send.pds;
    const PhysicalDescriptor remote = pds.at(1);
    const ka::Region* region = nullptr;
    if (send_offset_ != 0) return rdma_write_chunks(head, remote);
    if (!remote_region(remote, head.length, ka::right_rdma_write, region)) return refuse_rdma(head);

    const bool immediate = (head.flags & pd_immediate) != 0;
    std::byte* mapped = map_remote(*region, remote.address, head.length);
    if (mapped == nullptr && !peer_->can_write() && head.length != 0)
        return rdma_write_chunks(head, remote);

    if (immediate && !writer_->reserve(sizeof(RdmaNotice))) return false;
    writer_->probe_send(head.length,
                        mapped != nullptr ? base::DataPath::Kmem : base::DataPath::Cma);

    std::uint32_t failure = 0;
    std::uint32_t done = 0;
    for (std::uint32_t i = 0; i < head.segments && failure == 0; ++i) {
        const PhysicalDescriptor& pd = pds.at(2 + i);
        const auto* from = reinterpret_cast<const std::byte*>(pd.address);
        const bool ends = i + 1U == head.segments;
        // A layer with a sink tells its peer by messages what it has written.
        const LastWord last_word =
            ends && queues_.sink == nullptr ? LastWord::Last : LastWord::Whenever;
        if (mapped != nullptr) {
            if (ends)
                copy_ordered(mapped + done, from, pd.length);
            else
                copy_ascending(mapped + done, from, pd.length);
        } else if (!cma_write(peer_->pid(), from, remote.address + done, pd.length, last_word)) {
            failure = status_transport | (done != 0 ? status_partial : 0);
            break;
        }
        done += pd.length;
    }
    if (immediate) {
        const RdmaNotice notice{done, failure};
        writer_->publish(FrameKind::RdmaDone, frame_immediate, &notice, sizeof notice,
                         head.immediate);
        published_ = true;
    }
    const std::uint64_t number = queues_.send.start();
    queues_.counters->rdma_writes.add();
    queues_.counters->rdma_bytes.add(done);
    if (failure == 0 && immediate && queues_.acknowledged()) {
        WorkEntry& entry = queues_.send.at(number);
        entry.length = done;
        entry.state = WorkState::AwaitingAcknowledgement;
        if (awaiting_++ == 0) acknowledge_cursor_ = number;
        return true;
    }
    queues_.send.complete(number, failure, done);
    return true;
}

bool ShmEndpoint::rdma_write_chunks(const ChainHead& head, const PhysicalDescriptor& remote) {
    while (send_offset_ < head.length) {
        const bool first = send_offset_ == 0;
        const std::uint32_t bytes = std::min(chunk_bytes_, head.length - send_offset_);
        const auto place = writer_->find_place(bytes);
        if (place.at == nullptr || !writer_->reserve(sizeof(RdmaChunkNotice))) return false;
        gather(place.at, 2, send_offset_, bytes);
        writer_->take_place(place);
        send_offset_ += bytes;
        RdmaChunkNotice notice{{}, remote.handle, head.length, place.chunk};
        std::memcpy(notice.address, &remote.address, sizeof notice.address);
        std::uint8_t flags = send_offset_ == head.length ? frame_final : 0;
        if ((head.flags & pd_immediate) != 0) flags |= frame_immediate;
        if (first) writer_->probe_send(head.length, base::DataPath::Ring);
        writer_->publish(first ? FrameKind::RdmaWriteFirst : FrameKind::RdmaWriteNext, flags,
                         &notice, sizeof notice, head.immediate);
        published_ = true;
    }
    send_offset_ = 0;
    queues_.counters->rdma_writes.add();
    queues_.counters->rdma_bytes.add(head.length);
    const std::uint64_t number = queues_.send.start();
    if (!queues_.acknowledged()) {
        queues_.send.complete(number, 0, head.length);
        return true;
    }
    WorkEntry& entry = queues_.send.at(number);
    entry.length = head.length;
    entry.state = WorkState::AwaitingAcknowledgement;
    if (awaiting_++ == 0) acknowledge_cursor_ = number;
    return true;
}

void ShmEndpoint::handle_rdma_done(const FrameHeader& frame) {
    const auto notice = notice_of<RdmaNotice>(frame);
    const std::uint32_t length = notice.bytes;
    const std::uint32_t failure = notice.failure & status_error_mask;
    reader_->probe_receive(length, base::DataPath::Kmem);
    reader_->advance(frame);
    WorkQueue& queue = queues_.receive;
    if (!queue.has_work()) {
        queues_.report(EndpointEvent::ReceiveQueueEmpty);
        // An initiator whose write failed knows already and waits for nothing.
        if (failure == 0) acknowledge(status_remote_descriptor);
        if (queues_.reliable()) halted_ = true;
        return;
    }
    const std::uint64_t number = queue.start();
    queue.at(number).operation_bits = status_op_remote_rdma_write;
    queue.complete(number, failure | status_immediate, length, frame.argument);
    if (failure == 0)
        acknowledge(0);
    else if (queues_.reliable())
        halted_ = true;
}

bool ShmEndpoint::handle_rdma_write(const FrameHeader& frame, bool first) {
    if (frame.length != sizeof(RdmaChunkNotice) || first == incoming_rdma_.active) {
        violation("a malformed RDMA write");
        return false;
    }
    const auto notice = notice_of<RdmaChunkNotice>(frame);
    IncomingRdma& rdma = incoming_rdma_;
    if (first) {
        rdma = IncomingRdma{};
        rdma.active = true;
        std::memcpy(&rdma.address, notice.address, sizeof rdma.address);
        rdma.handle = notice.handle;
        rdma.total = notice.total;
        rdma.has_immediate = (frame.flags & frame_immediate) != 0;
        rdma.immediate = frame.argument;
        rdma.begun = reader_->position();
        const PhysicalDescriptor target{rdma.address, rdma.total, rdma.handle};
        rdma.refused = (queues_.local.rights & ka::right_rdma_write) == 0 ||
                       !check_local(target, ka::right_rdma_write);
    }
    const std::uint32_t chunk = notice.chunk.bytes;
    const std::byte* data = reader_->chunk(notice.chunk);
    if (data == nullptr || chunk > rdma.total - rdma.received) {
        violation("an RDMA write longer than it said");
        return false;
    }
    // The region may be deregistered between two chunks: checked each time it is written.
    const PhysicalDescriptor piece{rdma.address + rdma.received, chunk, rdma.handle};
    if (!rdma.refused && !check_local(piece, ka::right_rdma_write)) rdma.refused = true;
    if (!rdma.refused) {
        // Ascending, the last aligned word last, as a mapping or CMA would do it.
        auto* to = reinterpret_cast<std::byte*>(piece.address);
        const auto last = static_cast<std::uint32_t>(last_word_offset(piece.address, chunk));
        if (last != 0) copy_for_peer(to, data, last);
        std::atomic_thread_fence(std::memory_order_release);
        copy_ordered(to + last, data + last, chunk - last);
    }
    reader_->chunk_done(notice.chunk);
    reader_->advance(frame);
    rdma.received += chunk;
    if (rdma.received != rdma.total) return true;

    rdma.active = false;
    std::atomic_thread_fence(std::memory_order_release);
    if (rdma.refused && !rdma.has_immediate) {
        queues_.report(EndpointEvent::RdmaWriteRefused);
        acknowledge(status_rdma_protection);
        if (queues_.reliable()) halted_ = true;
        return true;
    }
    if (!rdma.has_immediate) {
        acknowledge(0);
        return true;
    }
    WorkQueue& queue = queues_.receive;
    if (!queue.has_work()) {
        queues_.report(EndpointEvent::ReceiveQueueEmpty);
        acknowledge(status_remote_descriptor);
        if (queues_.reliable()) halted_ = true;
        return true;
    }
    const std::uint64_t number = queue.start();
    queue.at(number).operation_bits = status_op_remote_rdma_write;
    queue.complete(number, status_immediate | (rdma.refused ? status_rdma_protection : 0),
                   rdma.refused ? 0 : rdma.total, rdma.immediate);
    reader_->probe_receive(rdma.begun, rdma.total, base::DataPath::Ring);
    acknowledge(rdma.refused ? status_rdma_protection : 0);
    if (rdma.refused && queues_.reliable()) halted_ = true;
    return true;
}

bool ShmEndpoint::rdma_read(const ChainHead& head) {
    PdRing& pds = queues_.send.pds;
    const PhysicalDescriptor remote = pds.at(1);
    const ka::Region* region = nullptr;
    if (!remote_region(remote, head.length, ka::right_rdma_read, region)) return refuse_rdma(head);

    const std::byte* mapped = map_remote(*region, remote.address, head.length);
    if (mapped == nullptr && !peer_->can_read() && head.length != 0) {
        if (reads_.size() >= max_outstanding_reads) return false;
        const ReadRequestNotice notice{remote.address, remote.handle, head.length};
        if (!writer_->reserve(sizeof notice)) return false;
        OutstandingRead read;
        for (std::uint32_t i = 0; i < head.segments; ++i)
            read.segments.push_back(pds.at(2 + i));
        read.length = head.length;
        read.number = queues_.send.start();
        queues_.send.at(read.number).state = WorkState::AwaitingRead;
        writer_->publish(FrameKind::RdmaReadRequest, 0, &notice, sizeof notice,
                         static_cast<std::uint32_t>(read.number));
        published_ = true;
        reads_.push_back(std::move(read));
        return true;
    }
    std::uint32_t failure = 0;
    std::uint32_t done = 0;
    for (std::uint32_t i = 0; i < head.segments; ++i) {
        const PhysicalDescriptor& pd = pds.at(2 + i);
        auto* to = reinterpret_cast<std::byte*>(pd.address);
        if (mapped != nullptr) {
            std::memcpy(to, mapped + done, pd.length);
        } else if (!cma_read(peer_->pid(), to, remote.address + done, pd.length)) {
            failure = status_transport | (done != 0 ? status_partial : 0);
            break;
        }
        done += pd.length;
    }
    const std::uint64_t number = queues_.send.start();
    queues_.send.complete(number, failure, done);
    queues_.counters->rdma_reads.add();
    queues_.counters->rdma_bytes.add(done);
    return true;
}

bool ShmEndpoint::handle_read_request(const FrameHeader& frame) {
    if (frame.length != sizeof(ReadRequestNotice) || served_reads_.size() >= max_served_reads) {
        violation("a malformed RDMA read or too many of them");
        return false;
    }
    const auto notice = notice_of<ReadRequestNotice>(frame);
    reader_->advance(frame);
    served_reads_.push_back({notice.address, notice.handle, notice.length, 0, frame.argument});
    outbox_ = true;
    return true;
}

bool ShmEndpoint::serve_reads() {
    while (!served_reads_.empty()) {
        ServedRead& read = served_reads_.front();
        const std::uint32_t chunk = std::min(chunk_bytes_, read.length - read.sent);
        const PhysicalDescriptor piece{read.address + read.sent, chunk, read.handle};
        const bool allowed = (queues_.local.rights & ka::right_rdma_read) != 0 &&
                             check_local(piece, ka::right_rdma_read);
        ReadDataNotice notice{{}, allowed ? 0 : status_rdma_protection};
        ChannelWriter::Place place;
        if (allowed && chunk != 0) {
            place = writer_->find_place(chunk);
            if (place.at == nullptr) return false;
        }
        if (!writer_->reserve(sizeof notice)) return false;
        if (place.at != nullptr) {
            copy_for_peer(place.at, reinterpret_cast<const std::byte*>(piece.address), chunk);
            writer_->take_place(place);
            notice.chunk = place.chunk;
        }
        writer_->publish(FrameKind::RdmaReadData, 0, &notice, sizeof notice, read.token);
        published_ = true;
        read.sent += chunk;
        if (!allowed) {
            queues_.report(EndpointEvent::RdmaReadRefused);
            if (queues_.reliable()) halted_ = true;
        }
        if (!allowed || read.sent == read.length) served_reads_.pop_front();
    }
    return true;
}

bool ShmEndpoint::handle_read_data(const FrameHeader& frame) {
    if (frame.length != sizeof(ReadDataNotice) || reads_.empty() ||
        static_cast<std::uint32_t>(reads_.front().number) != frame.argument) {
        violation("read data that nobody asked for");
        return false;
    }
    const auto notice = notice_of<ReadDataNotice>(frame);
    const std::uint32_t chunk = notice.chunk.bytes;
    const std::uint32_t failure = notice.failure & status_error_mask;
    const std::byte* data = reader_->chunk(notice.chunk);
    OutstandingRead& read = reads_.front();
    if (chunk > read.length - read.received || (chunk != 0 && data == nullptr) ||
        (chunk == 0 && failure == 0 && read.length != 0)) {
        violation("read data of the wrong length");
        return false;
    }
    std::uint32_t status = failure;
    std::uint32_t skip = read.received;
    std::uint32_t taken = 0;
    for (std::size_t i = 0; taken < chunk; ++i) {
        const PhysicalDescriptor& pd = read.segments[i];
        if (skip >= pd.length) {
            skip -= pd.length;
            continue;
        }
        const std::uint32_t piece = std::min(pd.length - skip, chunk - taken);
        if (check_local({pd.address, pd.length, pd.handle}, 0))
            std::memcpy(reinterpret_cast<std::byte*>(pd.address) + skip, data + taken, piece);
        else
            status |= status_protection;
        taken += piece;
        skip = 0;
    }
    if (chunk != 0) reader_->chunk_done(notice.chunk);
    reader_->advance(frame);
    read.received += chunk;
    if (read.received != read.length && status == 0) return true;
    queues_.send.at(read.number).state = WorkState::Queued;
    queues_.send.complete(read.number, status, status == 0 ? read.length : 0);
    queues_.counters->rdma_reads.add();
    queues_.counters->rdma_bytes.add(read.received);
    reads_.pop_front();
    return true;
}

}  // namespace via::na::shm
