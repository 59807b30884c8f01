// SPDX-License-Identifier: BSD-3-Clause
#include "na/sim/sim_transfer.hpp"

#include <algorithm>
#include <utility>

#include "base/device_copy.hpp"

namespace via::na::sim {
namespace {

/// Calls `part(pd, offset in the buffer)` for the bytes from `offset` on, segment by segment.
template <class Part>
void each_part(std::span<const PhysicalDescriptor> segments, std::uint64_t offset,
               std::uint64_t bytes, Part part) {
    std::uint64_t begin = 0;
    for (const PhysicalDescriptor& pd : segments) {
        const std::uint64_t end = begin + pd.length;
        const std::uint64_t first = std::max(begin, offset);
        const std::uint64_t last = std::min(end, offset + bytes);
        if (first < last)
            part(PhysicalDescriptor{pd.address + (first - begin),
                                    static_cast<std::uint32_t>(last - first), pd.handle},
                 first);
        begin = end;
    }
}

std::byte* memory_of(const PhysicalDescriptor& pd) {
    return reinterpret_cast<std::byte*>(pd.address);
}

}  // namespace

MessageTransfer::MessageTransfer(std::shared_ptr<NicVi> from, std::shared_ptr<NicVi> to,
                                 std::uint64_t number)
    : from_(std::move(from)),
      to_(std::move(to)),
      from_connection_(from_->connection()),
      to_connection_(to_->connection()) {
    chain_.number = number;
}

std::uint64_t MessageTransfer::begin() {
    if (!sender_lives()) {
        broken_ = true;
        return 0;
    }
    chain_.pds = from_->ring().take();
    if (chain_.pds.empty()) {
        broken_ = true;
        return 0;
    }
    if (receiver_lives()) {
        to_->arrival_begins();
        arrived_ = true;
    }
    const ChainHead head = chain_.head();
    if (head.operation == Operation::RdmaRead) return 0;  // only the request goes there
    buffer_.resize(head.length);
    return head.length;
}

void MessageTransfer::fetched(std::uint64_t offset, std::uint64_t bytes) {
    if (broken_ || bytes == 0) return;
    if (!sender_lives()) {
        broken_ = true;
        return;
    }
    each_part(chain_.segments(), offset, bytes,
              [&](const PhysicalDescriptor& pd, std::uint64_t at) {
                  // Deregistered since it was posted.
                  if (!from_->allows(pd, 0))
                      broken_ = true;
                  else
                      base::device_copy(buffer_.data() + at, memory_of(pd), pd.length);
              });
    if (broken_) from_->complete_send(chain_.number, status_protection, 0);
}

void MessageTransfer::sent() {
    if (broken_ || !sender_lives()) return;
    const ChainHead head = chain_.head();
    // These are over when the other side has answered.
    if (head.operation == Operation::RdmaRead || from_->acknowledged()) return;
    from_->complete_send(chain_.number, 0, head.length);
}

bool MessageTransfer::match() {
    if (!receiver_lives()) return false;
    match_ = to_->next_match();
    if (broken_ || to_->halted(match_)) return false;
    switch (chain_.head().operation) {
        case Operation::Send:
            match_receive();
            if (!has_receive_ || (status_ & status_error_mask) != 0) to_->halt_if_reliable(match_);
            return has_receive_ && (status_ & status_protection) == 0;
        case Operation::RdmaWrite:
            match_write();
            if (refused_) to_->halt_if_reliable(match_);
            return !refused_;
        default:
            return true;
    }
}

void MessageTransfer::match_receive() {
    if (to_->receives().empty()) return;
    has_receive_ = true;
    receive_ = std::move(to_->receives().front());
    to_->receives().pop_front();
    const ChainHead head = chain_.head();
    if ((head.flags & pd_immediate) != 0) status_ |= status_immediate;
    for (const PhysicalDescriptor& pd : receive_.segments())
        if (!to_->allows(pd, 0)) status_ |= status_protection;
    if (head.length > receive_.head().length) status_ |= status_length;
}

void MessageTransfer::match_write() {
    const ChainHead head = chain_.head();
    PhysicalDescriptor target = chain_.remote();
    target.length = head.length;
    refused_ = (to_->local().rights & ka::right_rdma_write) == 0 ||
               !to_->allows(target, ka::right_rdma_write);
}

void MessageTransfer::copy_to_receive(std::uint64_t offset, std::uint64_t bytes) {
    each_part(receive_.segments(), offset, bytes,
              [&](const PhysicalDescriptor& pd, std::uint64_t at) {
                  if (to_->allows(pd, 0))
                      base::device_copy(memory_of(pd), buffer_.data() + at, pd.length);
                  else
                      status_ |= status_protection;
              });
}

void MessageTransfer::stored(std::uint64_t offset, std::uint64_t bytes) {
    if (broken_ || bytes == 0 || !receiver_lives()) return;
    if (has_receive_) {
        copy_to_receive(offset, bytes);
        return;
    }
    PhysicalDescriptor target = chain_.remote();
    target.address += offset;
    target.length = static_cast<std::uint32_t>(bytes);
    if (to_->allows(target, ka::right_rdma_write)) {
        base::device_copy(memory_of(target), buffer_.data() + offset, bytes);
        to_->memory_changes();
    } else {
        refused_ = true;
    }
}

void MessageTransfer::received() {
    if (!receiver_lives()) return;
    if (!broken_ && !to_->halted(match_)) {
        switch (chain_.head().operation) {
            case Operation::Send:
                finish_receive();
                break;
            case Operation::RdmaWrite:
                finish_write();
                break;
            default:
                finish_read_request();
                break;
        }
    }
    if (arrived_) to_->arrival_ends();
}

void MessageTransfer::finish_receive() {
    const ChainHead head = chain_.head();
    if (!has_receive_) {
        to_->report(EndpointEvent::ReceiveQueueEmpty);
        acknowledge(status_remote_descriptor);
        to_->halt_if_reliable(match_);
        return;
    }
    std::uint32_t bytes = (status_ & status_protection) != 0 ? 0 : head.length;
    if ((status_ & status_length) != 0 && (status_ & status_protection) == 0) {
        bytes = receive_.head().length;
        if (bytes != 0) status_ |= status_partial;
    }
    const bool failed = (status_ & status_error_mask) != 0;
    to_->complete({true, receive_.number, status_, bytes, head.immediate});
    acknowledge(failed ? status_remote_descriptor : 0);
    if (failed) to_->halt_if_reliable(match_);
}

void MessageTransfer::finish_write() {
    const ChainHead head = chain_.head();
    const std::uint32_t failure = refused_ ? status_rdma_protection : 0;
    if ((head.flags & pd_immediate) == 0) {
        if (refused_) {
            to_->report(EndpointEvent::RdmaWriteRefused);
            to_->halt_if_reliable(match_);
        }
        acknowledge(failure);
        return;
    }
    if (to_->receives().empty()) {
        to_->report(EndpointEvent::ReceiveQueueEmpty);
        acknowledge(refused_ ? failure : status_remote_descriptor);
        to_->halt_if_reliable(match_);
        return;
    }
    const std::uint64_t number = to_->receives().front().number;
    to_->receives().pop_front();
    to_->complete({true, number, failure | status_immediate, refused_ ? 0 : head.length,
                   head.immediate, 0, true});
    acknowledge(failure);
    if (refused_) to_->halt_if_reliable(match_);
}

void MessageTransfer::finish_read_request() {
    PhysicalDescriptor target = chain_.remote();
    target.length = chain_.head().length;
    if ((to_->local().rights & ka::right_rdma_read) == 0 ||
        !to_->allows(target, ka::right_rdma_read)) {
        to_->report(EndpointEvent::RdmaReadRefused);
        to_->nic().send_control(
            from_->host(), std::make_shared<OutcomeWord>(from_, from_connection_, chain_.number,
                                                         status_rdma_protection, 0, true));
        to_->halt_if_reliable(match_);
        return;
    }
    model::Message answer;
    answer.to = from_->host();
    answer.from_firmware = true;
    answer.transfer = std::make_shared<ReadAnswer>(to_, from_, std::move(chain_), to_connection_,
                                                   from_connection_);
    [[maybe_unused]] const bool put = to_->nic().posted().try_put(answer);
}

void MessageTransfer::acknowledge(std::uint32_t status) {
    if (!from_->acknowledged()) return;
    to_->nic().send_control(from_->host(), std::make_shared<OutcomeWord>(
                                               from_, from_connection_, chain_.number, status,
                                               status == 0 ? chain_.head().length : 0, false));
}

// ---- RDMA read ----------------------------------------------------------------------------------

ReadAnswer::ReadAnswer(std::shared_ptr<NicVi> target, std::shared_ptr<NicVi> initiator,
                       NicVi::Chain request, std::uint64_t target_connection,
                       std::uint64_t initiator_connection)
    : target_(std::move(target)),
      initiator_(std::move(initiator)),
      request_(std::move(request)),
      target_connection_(target_connection),
      initiator_connection_(initiator_connection),
      buffer_(request_.head().length) {}

void ReadAnswer::fetched(std::uint64_t offset, std::uint64_t bytes) {
    if (bytes == 0) return;
    PhysicalDescriptor source = request_.remote();
    source.address += offset;
    source.length = static_cast<std::uint32_t>(bytes);
    if (target_->connection() == target_connection_ && target_->allows(source, ka::right_rdma_read))
        base::device_copy(buffer_.data() + offset, memory_of(source), bytes);
    else
        status_ = status_rdma_protection;
}

bool ReadAnswer::match() {
    return initiator_->connection() == initiator_connection_ && status_ == 0;
}

void ReadAnswer::stored(std::uint64_t offset, std::uint64_t bytes) {
    if (bytes == 0 || initiator_->connection() != initiator_connection_) return;
    each_part(request_.segments(), offset, bytes,
              [&](const PhysicalDescriptor& pd, std::uint64_t at) {
                  if (initiator_->allows(pd, 0))
                      base::device_copy(memory_of(pd), buffer_.data() + at, pd.length);
                  else
                      status_ |= status_protection;
              });
}

void ReadAnswer::received() {
    if (initiator_->connection() != initiator_connection_) return;
    initiator_->complete_send(request_.number, status_, status_ == 0 ? request_.head().length : 0);
    initiator_->read_ends();
}

// ---- words --------------------------------------------------------------------------------------

void OutcomeWord::received() {
    if (vi_->connection() != connection_) return;
    vi_->complete_send(number_, status_, length_);
    if (is_read_) vi_->read_ends();
}

void CloseWord::received() {
    if (vi_->connection() == connection_) vi_->peer_closes();
}

}  // namespace via::na::sim
