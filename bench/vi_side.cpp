// SPDX-License-Identifier: BSD-3-Clause
#include "vi_side.hpp"

#include <cstring>
#include <new>
#include <utility>

#include "ka/client.hpp"

namespace via::bench {

namespace {

using base::Deadline;
using base::Result;

void one_segment(VIP_DESCRIPTOR& descriptor, std::byte* data, VIP_UINT32 bytes,
                 VIP_MEM_HANDLE handle) {
    std::memset(&descriptor, 0, sizeof descriptor);
    descriptor.CS.SegCount = 1;
    descriptor.CS.Control = VIP_CONTROL_OP_SENDRECV;
    descriptor.CS.Length = bytes;
    descriptor.DS[0].Local.Data.Address = data;
    descriptor.DS[0].Local.Handle = handle;
    descriptor.DS[0].Local.Length = bytes;
}

constexpr VIP_UINT32 greeting_bytes = 8;

}  // namespace

Result<ViSide> ViSide::open(const std::string& device, Part part, const std::string& meeting_point,
                            std::size_t capacity, bool completion_queue) {
    ViSide side;
    auto nic = tool::Nic::open(device);
    if (!nic) return std::move(nic).error();
    side.nic_ = std::move(nic.value());
    auto memory = tool::Memory::allocate(*side.nic_, tool::MemoryKind::Heap,
                                         capacity * sizeof(Slot), false, false);
    if (!memory) return std::move(memory).error();
    side.memory_ = std::move(memory.value());
    side.slots_ = new (side.memory_.data()) Slot[capacity];
    if (completion_queue) {
        auto queue = tool::CompletionQueue::create(*side.nic_, 2 * capacity);
        if (!queue) return std::move(queue).error();
        side.queue_ = std::move(queue.value());
    }
    side.part_ = part;
    side.meeting_point_ = meeting_point;
    side.capacity_ = capacity;
    side.vis_.reserve(capacity);
    return side;
}

Result<void> ViSide::connect_one(Deadline deadline) {
    if (vis_.size() == capacity_) {
        return {base::Code::OutOfResources, "this side has as many VIs as it was opened for"};
    }
    VIP_VI_ATTRIBUTES attributes{};
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = nic_->attributes().MaxTransferSize;
    auto vi = tool::Vi::create(*nic_, attributes, nullptr, queue_.handle());
    if (!vi) return std::move(vi).error();
    if (auto posted = post_receive(slots_[vis_.size()], vi.value().handle()); !posted)
        return posted;
    auto server = nic_->own_address(meeting_point_ + "-server");
    if (!server) return std::move(server).error();
    auto client = nic_->own_address(meeting_point_ + "-client");
    if (!client) return std::move(client).error();
    auto connected = part_ == Part::Client
                         ? vi.value().connect(client.value(), server.value(), deadline)
                         : vi.value().accept(*nic_, server.value(), deadline);
    if (!connected) return connected;
    vis_.push_back(std::move(vi.value()));
    return {};
}

Result<void> ViSide::greet(Deadline deadline) {
    Slot& slot = slots_[vis_.size() - 1];
    const VIP_VI_HANDLE vi = vis_.back().handle();
    if (part_ == Part::Client) {
        if (auto sent = send(slot, vi, deadline); !sent) return sent;
        if (auto received = receive(vi, deadline); !received) return received;
        return post_receive(slot, vi);
    }
    if (auto received = receive(vi, deadline); !received) return received;
    // Posted before the answer, so that the client may go on at once.
    if (auto posted = post_receive(slot, vi); !posted) return posted;
    return send(slot, vi, deadline);
}

Result<void> ViSide::post_receive(Slot& slot, VIP_VI_HANDLE vi) {
    one_segment(slot.receive, slot.received.data(), static_cast<VIP_UINT32>(slot.received.size()),
                memory_.handle());
    const VIP_RETURN code = VipPostRecv(vi, &slot.receive, memory_.handle());
    if (code != VIP_SUCCESS) return tool::vipl_error(code, "posting a receive");
    return {};
}

Result<void> ViSide::send(Slot& slot, VIP_VI_HANDLE vi, Deadline deadline) {
    one_segment(slot.send, slot.sent.data(), greeting_bytes, memory_.handle());
    VIP_RETURN code = VipPostSend(vi, &slot.send, memory_.handle());
    if (code != VIP_SUCCESS) return tool::vipl_error(code, "posting a send");
    VIP_DESCRIPTOR* done = nullptr;
    code = VipSendWait(vi, tool::milliseconds_until(deadline), &done);
    if (code != VIP_SUCCESS) return tool::vipl_error(code, "waiting for a send");
    return {};
}

Result<void> ViSide::receive(VIP_VI_HANDLE vi, Deadline deadline) {
    VIP_DESCRIPTOR* done = nullptr;
    VIP_RETURN code = VIP_SUCCESS;
    if (queue_.handle() != nullptr) {
        VIP_VI_HANDLE which = nullptr;
        VIP_BOOLEAN is_receive = VIP_FALSE;
        code = VipCQWait(queue_.handle(), tool::milliseconds_until(deadline), &which, &is_receive);
        if (code == VIP_SUCCESS) code = VipRecvDone(which, &done);
    } else {
        code = VipRecvWait(vi, tool::milliseconds_until(deadline), &done);
    }
    if (code != VIP_SUCCESS) return tool::vipl_error(code, "waiting for a message");
    return {};
}

Result<pid_t> agent_pid() {
    auto agent = ka::AgentClient::attach_if_running({}, Deadline::after_milliseconds(5000));
    if (!agent) return std::move(agent).error();
    auto status = agent.value()->status();
    if (!status) return std::move(status).error();
    return static_cast<pid_t>(status.value().pid);
}

}  // namespace via::bench
