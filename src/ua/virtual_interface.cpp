// SPDX-License-Identifier: BSD-3-Clause
#include "ua/virtual_interface.hpp"

#include <cstring>
#include <utility>

#include "base/counters.hpp"
#include "base/probe.hpp"
#include "base/settings.hpp"
#include "base/undo.hpp"
#include "ua/hot_path.hpp"
#include "ua/nic.hpp"
#include "ua/tables.hpp"

namespace via::ua {

// The NIC agents' numbers are VIPL's, so that no status is ever translated.
static_assert(na::status_done == VIP_STATUS_DONE);
static_assert(na::status_format == VIP_STATUS_FORMAT_ERROR);
static_assert(na::status_protection == VIP_STATUS_PROTECTION_ERROR);
static_assert(na::status_length == VIP_STATUS_LENGTH_ERROR);
static_assert(na::status_partial == VIP_STATUS_PARTIAL_ERROR);
static_assert(na::status_flushed == VIP_STATUS_DESC_FLUSHED_ERROR);
static_assert(na::status_transport == VIP_STATUS_TRANSPORT_ERROR);
static_assert(na::status_rdma_protection == VIP_STATUS_RDMA_PROT_ERROR);
static_assert(na::status_remote_descriptor == VIP_STATUS_REMOTE_DESC_ERROR);
static_assert(na::status_error_mask == VIP_STATUS_ERROR_MASK);
static_assert(na::status_op_receive == VIP_STATUS_OP_RECEIVE);
static_assert(na::status_op_rdma_write == VIP_STATUS_OP_RDMA_WRITE);
static_assert(na::status_op_remote_rdma_write == VIP_STATUS_OP_REMOTE_RDMA_WRITE);
static_assert(na::status_op_rdma_read == VIP_STATUS_OP_RDMA_READ);
static_assert(na::status_immediate == VIP_STATUS_IMMEDIATE);
static_assert(static_cast<int>(na::Operation::RdmaWrite) == VIP_CONTROL_OP_RDMAWRITE);
static_assert(static_cast<int>(na::Operation::RdmaRead) == VIP_CONTROL_OP_RDMAREAD);
static_assert(static_cast<int>(ViState::Idle) == VIP_STATE_IDLE);
static_assert(static_cast<int>(ViState::Connected) == VIP_STATE_CONNECTED);
static_assert(static_cast<int>(ViState::ConnectPending) == VIP_STATE_CONNECT_PENDING);
static_assert(static_cast<int>(ViState::Error) == VIP_STATE_ERROR);
static_assert(na::unreliable == VIP_SERVICE_UNRELIABLE);
static_assert(na::reliable_delivery == VIP_SERVICE_RELIABLE_DELIVERY);
static_assert(na::reliable_reception == VIP_SERVICE_RELIABLE_RECEPTION);

namespace {

constexpr std::uint32_t index_of(Queue queue) noexcept {
    return queue == Queue::Send ? 0 : 1;
}

/// In a row for one VI, before the others have their turn.
constexpr int most_polls_of_service = 256;

/// A descriptor's segments, read once. A longer list runs on behind the declared array.
struct SegmentCopy {
    VIP_DESCRIPTOR_SEGMENT segments[252];
    void take(const VIP_DESCRIPTOR* descriptor, std::uint32_t count) noexcept {
        const auto* from = reinterpret_cast<const std::byte*>(descriptor) + sizeof descriptor->CS;
        if (count == 1) [[likely]]
            std::memcpy(segments, from, sizeof segments[0]);
        else
            std::memcpy(segments, from, count * sizeof segments[0]);
    }
};

}  // namespace

base::Result<void> VirtualInterface::open(std::shared_ptr<Nic> nic, std::uint64_t own_handle,
                                          const ka::EndpointAttributes& attributes,
                                          CompletionQueue* send_cq, CompletionQueue* receive_cq,
                                          na::FrameSink* sink) {
    const base::Settings& settings = base::Settings::get();
    const auto small_ring = static_cast<std::uint32_t>(settings.number("VIA_PD_SMALL_RING"));
    auto queues = std::make_unique<na::QueuePair>(
        small_ring,
        std::min(static_cast<std::uint32_t>(settings.number("VIA_PD_LOW_WATER")), small_ring - 1),
        nic->max_descriptors());
    queues->local = attributes;
    queues->sink = sink;
    const na::EndpointGroups groups{send_cq != nullptr ? send_cq->group() : nullptr,
                                    receive_cq != nullptr ? receive_cq->group() : nullptr};
    auto agent_vi = nic->process().agent().create_vi();
    if (!agent_vi) return std::move(agent_vi).error();
    base::Undo unused([&] { nic->process().agent().destroy_vi(agent_vi.value()); });
    auto endpoint = nic->device().create_endpoint(*queues, *this, groups);
    if (!endpoint) return std::move(endpoint).error();
    unused.keep();
    queues->counters = &base::Counters::get().take_slot(nic->device_name());
    queues->counters->reliability.set(attributes.reliability);
    queues->counters->state.set(0);

    const base::BiasedGuard guard(lock_);
    nic_ = std::move(nic);
    doorbell_ = &nic_->process().doorbell();
    rmmt_ = nic_->reads_table() ? nic_->rmmt() : ka::RmmtView(ka::empty_rmmt());
    queues_ = std::move(queues);
    endpoint_ = std::move(endpoint).value();
    carrier_ = endpoint_.get();
    agent_vi_ = agent_vi.value();
    send_cq_ = send_cq;
    receive_cq_ = receive_cq;
    if (send_cq_ != nullptr) send_cq_->attach();
    if (receive_cq_ != nullptr) receive_cq_->attach();
    max_transfer_bytes_ = attributes.max_transfer_bytes;
    max_segments_ = nic_->device().attributes().max_segments;
    state_ = ViState::Idle;
    break_wanted_ = false;
    send_failed_ = false;
    lost_remotely_ = false;
    service_owned_.store(true, std::memory_order_relaxed);
    polled_queues_[0].store(send_cq, std::memory_order_release);
    polled_queues_[1].store(receive_cq == send_cq ? nullptr : receive_cq,
                            std::memory_order_release);
    sleepers_ = 0;
    armed_for_sleeper_ = false;
    peer_request_ = 0;
    peer_finished_ = false;
    peer_waiting_ = false;
    connecting_ = false;
    orphan_ = 0;
    // Only now may anybody who looks the handle up find it.
    handle.store(own_handle, std::memory_order_release);
    return {};
}

base::Result<void> VirtualInterface::close(std::uint64_t expected) {
    {
        const base::BiasedGuard guard(lock_);
        if (!is(expected))
            return base::Result<void>(base::Code::InvalidArgument, "the VI has been destroyed");
        if (state_ != ViState::Idle)
            return base::Result<void>(base::Code::InvalidState,
                                      "the VI is not Idle: call VipDisconnect first");
        if (connecting())
            return base::Result<void>(base::Code::InvalidState,
                                      "another thread is still connecting the VI");
        if (!queues_->send.empty() || !queues_->receive.empty())
            return base::Result<void>(base::Code::OutOfResources,
                                      "descriptors are still on the VI's queues: take them back "
                                      "with VipSendDone and VipRecvDone first");
    }
    if (!force_close(expected))
        return base::Result<void>(base::Code::InvalidArgument, "the VI has been destroyed");
    return {};
}

bool VirtualInterface::force_close(std::uint64_t expected) {
    std::uint64_t pending_peer = 0;
    CompletionQueue* queues_of_completions[2];
    bool in_use;
    bool has_sink;
    {
        const base::BiasedGuard guard(lock_);
        if (expected == 0 || !is(expected)) return false;
        handle.store(0, std::memory_order_release);
        pending_peer = std::exchange(peer_request_, 0);
        queues_of_completions[0] = std::exchange(send_cq_, nullptr);
        queues_of_completions[1] = std::exchange(receive_cq_, nullptr);
        for (auto& queue : polled_queues_)
            queue.store(nullptr, std::memory_order_relaxed);
        // A thread that is inside the device to connect the endpoint finishes this when it is back.
        in_use = connecting();
        if (in_use) orphan_ = expected;
        has_sink = queues_->sink != nullptr;
    }
    // It may be in the sink now.
    if (has_sink) nic_->process().service().finish_running();
    if (pending_peer != 0) nic_->device().peer_cancel(pending_peer);
    for (auto& list : notifications_) {
        const std::size_t cancelled = list.clear();
        for (std::size_t i = 0; i < cancelled; ++i)
            nic_->process().notification_served();
    }
    for (CompletionQueue* cq : queues_of_completions) {
        if (cq == nullptr) continue;
        cq->forget(expected);
        cq->detach();
    }
    if (in_use) return false;
    finish_close();
    return true;
}

void VirtualInterface::finish_close() {
    std::unique_ptr<na::Endpoint> endpoint;
    {
        const base::BiasedGuard guard(lock_);
        endpoint = std::move(endpoint_);
    }
    endpoint.reset();  // closes the connection; poll group and service thread have let go
    nic_->process().agent().destroy_vi(agent_vi_);
    const base::BiasedGuard guard(lock_);
    state_ = ViState::Idle;
    base::Counters::get().give_back(*queues_->counters);
    queues_.reset();
}

/// A post's translation: by the table, which the user agent reads itself (UTLB), or, to see what
/// that is worth, by the kernel agent.
bool VirtualInterface::find_region(ka::CachedRegion& cache, std::uint32_t memory_handle,
                                   const ka::Region*& region) {
    if (cache.find(rmmt_, memory_handle, region)) return true;
    if (nic_->reads_table()) return false;
    auto answer = nic_->process().agent().translate(memory_handle);
    if (!answer) return false;
    told_region_ = answer.value();
    region = &told_region_;
    return true;
}

/// The same by the real table, where posts do not read it.
bool VirtualInterface::holds_unread_descriptor(std::uint32_t memory_handle, std::uint64_t address) {
    ka::Region posted{};
    return !nic_->reads_table() && nic_->rmmt().find(memory_handle, posted) &&
           posted.contains(address, sizeof(VIP_CONTROL_SEGMENT));
}

/// The region of a descriptor whose control segment lies in registered memory of the VI's tag.
const ka::Region* VirtualInterface::descriptor_region(const VIP_DESCRIPTOR* descriptor,
                                                      std::uint32_t memory_handle) {
    const ka::Region* region;
    if (find_region(descriptor_cache_, memory_handle, region) && tag_matches(*region) &&
        region->contains(reinterpret_cast<std::uint64_t>(descriptor), descriptor_bytes(0)))
        return region;
    return nullptr;
}

void VirtualInterface::link_behind_last(Queue which, VIP_DESCRIPTOR* descriptor,
                                        std::uint32_t memory_handle) {
    na::WorkQueue& work = queue(which);
    if (!work.empty()) {
        const na::WorkEntry& last = work.at(work.posted() - 1);
        if (holds_descriptor(last.cookie_handle, last.cookie)) {
            auto* previous = reinterpret_cast<VIP_DESCRIPTOR*>(last.cookie);
            previous->CS.Next.Address = descriptor;
            previous->CS.NextHandle = memory_handle;
        }
    }
}

PostOutcome VirtualInterface::refuse_post(VIP_DESCRIPTOR* descriptor) {
    VIP_ERROR_DESCRIPTOR error{};
    error.ViHandle = reinterpret_cast<VIP_VI_HANDLE>(handle.load(std::memory_order_relaxed));
    error.DescriptorPtr = descriptor;
    error.ResourceCode = VIP_RESOURCE_DESCRIPTOR;
    error.ErrorCode = VIP_ERROR_POST_DESC;
    nic_->raise(error);
    if (state_ == ViState::Connected && queues_->reliable()) enter_error();
    return PostOutcome::BadDescriptor;
}

PostOutcome VirtualInterface::refuse_overrun(VIP_DESCRIPTOR* descriptor) {
    VIP_ERROR_DESCRIPTOR error{};
    error.ViHandle = reinterpret_cast<VIP_VI_HANDLE>(handle.load(std::memory_order_relaxed));
    error.DescriptorPtr = descriptor;
    error.ResourceCode = VIP_RESOURCE_VI;
    error.ErrorCode = VIP_ERROR_VI_OVERRUN;
    nic_->raise(error);
    return PostOutcome::Overrun;
}

/// Tells the NIC agent of what was posted.
void VirtualInterface::start_sends() {
    VIA_PROBE_DOORBELL(handle, 0);
    carrier_->ring_send();
    started_sends();
}

void VirtualInterface::started_sends() {
    settle();
    const na::WorkQueue& work = queues_->send;
    if (work.has_unstarted() || (work.posted() != work.harvested() && endpoint_))
        nic_->process().look_after();
}

PostOutcome VirtualInterface::post_any_send(VIP_DESCRIPTOR* descriptor,
                                            std::uint32_t memory_handle) {
    na::WorkQueue& work = queues_->send;
    if (work.full()) return refuse_overrun(descriptor);
    const ka::Region* region = descriptor_region(descriptor, memory_handle);
    if (region == nullptr) return refuse_post(descriptor);

    const std::uint32_t control = descriptor->CS.Control;
    const std::uint32_t segment_count = descriptor->CS.SegCount;
    const auto operation = static_cast<na::Operation>(control & VIP_CONTROL_OP_MASK);
    const bool rdma = operation == na::Operation::RdmaWrite || operation == na::Operation::RdmaRead;
    if (segment_count != 0 && !region->contains(reinterpret_cast<std::uint64_t>(descriptor),
                                                descriptor_bytes(segment_count)))
        return refuse_post(descriptor);

    // Whatever needs memory comes first: if there is none, nothing has happened.
    work.make_room(segment_count + 2);
    if (send_cq_ != nullptr) send_cq_->reserve();
    link_behind_last(Queue::Send, descriptor, memory_handle);
    descriptor->CS.Status = 0;

    const std::uint32_t operation_bits =
        operation == na::Operation::RdmaWrite  ? na::status_op_rdma_write
        : operation == na::Operation::RdmaRead ? na::status_op_rdma_read
                                               : na::status_op_send;
    // The segments are copied out once: descriptors may lie in kmem memory that a peer can write.
    SegmentCopy copy;
    // Translation through the RMMT: every local segment must lie in a region of the VI's tag.
    std::uint32_t failure = 0;
    const std::uint32_t data_segments = segment_count - (rdma && segment_count != 0 ? 1 : 0);
    std::uint64_t total = 0;
    std::uint32_t used = 0;  // zero-length segments need no PD
    if ((control & VIP_CONTROL_RESERVED) != 0 || operation == na::Operation::Receive ||
        segment_count > max_segments_ || (rdma && segment_count == 0) ||
        (operation == na::Operation::RdmaRead &&
         (nic_->device().attributes().rdma_read_levels & queues_->local.reliability) == 0)) {
        failure = na::status_format;
    } else {
        copy.take(descriptor, segment_count);
        for (std::uint32_t i = 0; i < data_segments; ++i) {
            const VIP_DATA_SEGMENT& segment = copy.segments[i + (rdma ? 1 : 0)].Local;
            total += segment.Length;
            if (segment.Length == 0) continue;
            ++used;
            ka::CachedRegion& cache =
                segment.Handle == memory_handle ? descriptor_cache_ : data_cache_;
            if (!find_region(cache, segment.Handle, region) || !tag_matches(*region) ||
                !region->contains(segment.Data.AddressBits, segment.Length))
                failure |= na::status_protection;
        }
        if (failure == 0 && (total != descriptor->CS.Length || total > max_transfer_bytes_))
            failure = na::status_length;
    }
    // Behind a descriptor that breaks the connection nothing is sent, though those before it may
    // still be on their way.
    if (state_ != ViState::Connected || send_failed_) failure = na::status_flushed;
    if (failure != 0) [[unlikely]] {
        send_failed_ = send_failed_ || (state_ == ViState::Connected && queues_->reliable());
        work.post(reinterpret_cast<std::uint64_t>(descriptor), memory_handle, 0, operation_bits);
        work.complete(work.posted() - 1, failure, 0);
        settle();
        return PostOutcome::Success;
    }

    na::ChainHead head;
    head.operation = operation;
    head.flags = static_cast<std::uint8_t>(
        ((control & VIP_CONTROL_IMMEDIATE) != 0 && operation != na::Operation::RdmaRead
             ? na::pd_immediate
             : 0) |
        ((control & VIP_CONTROL_QFENCE) != 0 ? na::pd_fence : 0));
    head.segments = static_cast<std::uint16_t>(used);
    head.length = static_cast<std::uint32_t>(total);
    head.immediate = descriptor->CS.ImmediateData;
    work.post(reinterpret_cast<std::uint64_t>(descriptor), memory_handle, head.chain_pds(),
              operation_bits);
    work.pds.push(na::encode_head(head));
    if (rdma) {
        const VIP_ADDRESS_SEGMENT& remote = copy.segments[0].Remote;
        work.pds.push({remote.Data.AddressBits, 0, remote.Handle});
    }
    for (std::uint32_t i = 0; i < data_segments; ++i) {
        const VIP_DATA_SEGMENT& segment = copy.segments[i + (rdma ? 1 : 0)].Local;
        if (segment.Length != 0)
            work.pds.push({segment.Data.AddressBits, segment.Length, segment.Handle});
    }
    start_sends();
    return PostOutcome::Success;
}

PostOutcome VirtualInterface::post_any_receive(VIP_DESCRIPTOR* descriptor,
                                               std::uint32_t memory_handle) {
    na::WorkQueue& work = queues_->receive;
    if (work.full()) return refuse_overrun(descriptor);
    const ka::Region* region = descriptor_region(descriptor, memory_handle);
    if (region == nullptr) return refuse_post(descriptor);
    const std::uint32_t segment_count = descriptor->CS.SegCount;
    if (segment_count != 0 && !region->contains(reinterpret_cast<std::uint64_t>(descriptor),
                                                descriptor_bytes(segment_count)))
        return refuse_post(descriptor);

    work.make_room(segment_count + 1);
    if (receive_cq_ != nullptr) receive_cq_->reserve();
    link_behind_last(Queue::Receive, descriptor, memory_handle);
    descriptor->CS.Status = 0;
    SegmentCopy copy;

    std::uint32_t failure = 0;
    std::uint64_t capacity = 0;
    std::uint32_t used = 0;
    // The IMMEDIATE and QFENCE bits mean nothing here; real programs set them.
    if ((descriptor->CS.Control & (VIP_CONTROL_RESERVED | VIP_CONTROL_OP_MASK)) != 0 ||
        segment_count > max_segments_) {
        failure = na::status_format;
    } else {
        copy.take(descriptor, segment_count);
        for (std::uint32_t i = 0; i < segment_count; ++i) {
            const VIP_DATA_SEGMENT& segment = copy.segments[i].Local;
            capacity += segment.Length;
            used += segment.Length != 0;
        }
        if (capacity > 0xFFFFFFFFU) failure = na::status_length;
    }
    if (state_ == ViState::Error) failure = na::status_flushed;
    if (failure != 0) [[unlikely]] {
        work.post(reinterpret_cast<std::uint64_t>(descriptor), memory_handle, 0,
                  na::status_op_receive);
        work.complete(work.posted() - 1, failure, 0);
        settle();
        return PostOutcome::Success;
    }
    na::ChainHead head{na::Operation::Receive, 0, static_cast<std::uint16_t>(used),
                       static_cast<std::uint32_t>(capacity), 0};
    work.post(reinterpret_cast<std::uint64_t>(descriptor), memory_handle, head.chain_pds(),
              na::status_op_receive);
    work.pds.push(na::encode_head(head));
    for (std::uint32_t i = 0; i < segment_count; ++i) {
        const VIP_DATA_SEGMENT& segment = copy.segments[i].Local;
        if (segment.Length != 0)
            work.pds.push({segment.Data.AddressBits, segment.Length, segment.Handle});
    }
    if (queues_->rings_receives) carrier_->ring_receive();
    return PostOutcome::Success;
}

/// Its memory has been deregistered, so its completion can not be written into it.
void VirtualInterface::raise_lost_descriptor(VIP_DESCRIPTOR* descriptor) {
    VIP_ERROR_DESCRIPTOR error{};
    error.ViHandle = reinterpret_cast<VIP_VI_HANDLE>(handle.load(std::memory_order_relaxed));
    error.DescriptorPtr = descriptor;
    error.ResourceCode = VIP_RESOURCE_DESCRIPTOR;
    error.ErrorCode = VIP_ERROR_COMP_PROT;
    nic_->raise(error);
}

void VirtualInterface::raise_lost_completion() {
    nic_->raise_lost_completion(handle.load(std::memory_order_relaxed));
}

/// Hands the entries that are done to the program: into their descriptors and the completion queue.
void VirtualInterface::harvest(Queue which) {
    na::WorkQueue& work = queue(which);
    CompletionQueue* cq = which == Queue::Send ? send_cq_ : receive_cq_;
    while (work.harvestable()) {
        const na::WorkEntry& entry = work.harvest();
        auto* descriptor = reinterpret_cast<VIP_DESCRIPTOR*>(entry.cookie);
        if (holds_descriptor(entry.cookie_handle, entry.cookie)) [[likely]] {
            descriptor->CS.Length = entry.length;
            if ((entry.status & na::status_immediate) != 0)
                descriptor->CS.ImmediateData = entry.immediate;
            __atomic_store_n(&descriptor->CS.Status, entry.status, __ATOMIC_RELEASE);
            VIA_PROBE_COMPLETE(handle, descriptor);
        } else {
            raise_lost_descriptor(descriptor);
        }
        const std::uint32_t errors = entry.status & na::status_error_mask;
        if (errors != 0) [[unlikely]] {
            queues_->counters->completed_in_error.add();
            if (queues_->reliable() && (errors & ~na::status_flushed) != 0) break_wanted_ = true;
            // What the other side found wrong comes as a loss of the connection, too.
            if ((errors & (na::status_remote_descriptor | na::status_transport)) != 0)
                lost_remotely_ = true;
        }
        if (cq != nullptr)
            cq->push(handle.load(std::memory_order_relaxed), which == Queue::Receive);
    }
    tell_of_completions(cq);
}

void VirtualInterface::wake_waiters(CompletionQueue* cq) {
    if (cq != nullptr ? !cq->notifications.empty()
                      : watched_for_notification_.load(std::memory_order_relaxed))
        nic_->process().call_handlers_soon();
    if (doorbell_->anyone_sleeps()) doorbell_->wake_local();
}

void VirtualInterface::settle() {
    if (queues_->send.harvestable()) harvest(Queue::Send);
    if (queues_->receive.harvestable()) harvest(Queue::Receive);
    if (queues_->events != 0 || break_wanted_) [[unlikely]]
        handle_events();
}

void VirtualInterface::handle_events() {
    const std::uint32_t events = std::exchange(queues_->events, 0);
    const auto has = [&](na::EndpointEvent event) {
        return (events & static_cast<std::uint32_t>(event)) != 0;
    };
    const auto raise = [&](VIP_ERROR_CODE code) {
        VIP_ERROR_DESCRIPTOR error{};
        error.ViHandle = reinterpret_cast<VIP_VI_HANDLE>(handle.load(std::memory_order_relaxed));
        error.ResourceCode = VIP_RESOURCE_VI;
        error.ErrorCode = code;
        nic_->raise(error);
    };
    const bool was_connected = state_ == ViState::Connected;
    bool broken = std::exchange(break_wanted_, false);
    if (has(na::EndpointEvent::ReceiveQueueEmpty)) raise(VIP_ERROR_RECVQ_EMPTY);
    if (has(na::EndpointEvent::RdmaWriteRefused)) raise(VIP_ERROR_RDMAW_PROT);
    if (has(na::EndpointEvent::RdmaReadRefused)) raise(VIP_ERROR_RDMAR_PROT);
    if ((has(na::EndpointEvent::ReceiveQueueEmpty) || has(na::EndpointEvent::RdmaWriteRefused) ||
         has(na::EndpointEvent::RdmaReadRefused)) &&
        queues_->reliable())
        broken = true;
    const bool lost_remotely = std::exchange(lost_remotely_, false);
    if ((broken && lost_remotely) || has(na::EndpointEvent::PeerDisconnected) ||
        has(na::EndpointEvent::PeerDied) || has(na::EndpointEvent::ProtocolViolation) ||
        has(na::EndpointEvent::OutOfMemory)) {
        if (was_connected) raise(VIP_ERROR_CONN_LOST);
        broken = true;
    }
    if (broken && was_connected) enter_error();
}

void VirtualInterface::enter_error() {
    endpoint_->disconnect();
    apply(ViEvent::ConnectionLost);
    if (queues_->sink == nullptr) return;
    queues_->sink->broken();
    serve_sink_soon();
}

void VirtualInterface::apply(ViEvent event) {
    const ViTransition step = transition(state_, event);
    state_ = step.next;
    queues_->counters->state.set(static_cast<std::uint64_t>(state_));
    queues_->counters->peer_pid.set(
        state_ == ViState::Connected ? static_cast<std::uint64_t>(carrier_->peer_pid()) : 0);
    if (!step.flush) return;
    queues_->send.flush();
    queues_->receive.flush();
    queues_->events = 0;
    send_failed_ = false;
    harvest(Queue::Send);
    harvest(Queue::Receive);
    break_wanted_ = false;
}

/// The layer has to see what the service thread found. What its own threads find it knows.
void VirtualInterface::serve_sink_soon() {
    Process& process = nic_->process();
    if (queues_->sink == nullptr || !process.service().on_loop_thread()) return;
    polls_when_to_serve_ = program_polls();
    process.serve_soon(*this);
}

bool VirtualInterface::serve_sink() {
    // The program polls again; it comes back to this when it stops.
    const std::uint64_t polls = program_polls();
    if (std::exchange(polls_when_to_serve_, polls) != polls) return true;
    na::FrameSink* sink;
    {
        const base::BiasedGuard guard(lock_);
        // Closed; or, since then, another VI, which can be served as well.
        if (handle.load(std::memory_order_relaxed) == 0 || queues_->sink == nullptr) return false;
        sink = queues_->sink;
    }
    try {
        return sink->serve();
    } catch (const std::bad_alloc&) {
        return true;
    }
}

bool VirtualInterface::shows_frames(std::uint64_t expected) {
    const base::BiasedGuard guard(lock_);
    return is(expected) && state_ == ViState::Connected && carrier_->shows_frames();
}

std::uint32_t VirtualInterface::longest_packet(std::uint64_t expected) {
    const base::BiasedGuard guard(lock_);
    return is(expected) && state_ == ViState::Connected ? carrier_->longest_gathered() : 0;
}

const na::PlaceAhead* VirtualInterface::next_frame(std::uint64_t expected) {
    const base::BiasedGuard guard(lock_);
    return is(expected) && state_ == ViState::Connected ? queues_->next_frame : nullptr;
}

bool VirtualInterface::reaches_peer_memory(std::uint64_t expected) {
    const base::BiasedGuard guard(lock_);
    return is(expected) && state_ == ViState::Connected && carrier_->reaches_peer_memory();
}

void VirtualInterface::leave_to_service(std::uint64_t expected) {
    const base::BiasedGuard guard(lock_);
    if (!is(expected) || state_ != ViState::Connected) return;
    service_owned_.store(true, std::memory_order_relaxed);
    // What the program polled so far says nothing about what it will do.
    polls_seen_by_service_.store(program_polls(), std::memory_order_relaxed);
    carrier_->arm(na::Wakes::Service);
}

void VirtualInterface::wake_sleeper(std::uint64_t expected) {
    const base::BiasedGuard guard(lock_);
    if (!is(expected) || state_ != ViState::Connected) return;
    service_owned_.store(false, std::memory_order_relaxed);
    carrier_->arm(na::Wakes::Sleeper);
}

void VirtualInterface::take_from_service() {
    service_owned_.store(false, std::memory_order_relaxed);
    carrier_->arm(na::Wakes::Nobody);
    nic_->process().look_after();
}

bool VirtualInterface::progress(bool nudge_peer) {
    bool polled = false;
    if (nudge_peer) {
        // While the program polls, the service thread keeps out of the way.
        const std::uint64_t polls = program_polls();
        polled = polls_seen_by_service_.load(std::memory_order_relaxed) != polls;
        polls_seen_by_service_.store(polls, std::memory_order_relaxed);
        if (polled && !service_owned_.load(std::memory_order_relaxed)) return true;
    }
    const base::BiasedGuard guard(lock_);
    if (handle.load(std::memory_order_relaxed) == 0 || !endpoint_ || state_ != ViState::Connected)
        return false;
    if (nudge_peer) {
        if (polled) {
            service_owned_.store(false, std::memory_order_relaxed);
            carrier_->arm(na::Wakes::Nobody);
            return true;
        }
        // Arrivals wake the program's own threads; there is nothing to take over.
        if (sleepers_ != 0 || (send_cq_ != nullptr && send_cq_->sleepers() != 0) ||
            (receive_cq_ != nullptr && receive_cq_->sleepers() != 0)) {
            if (carrier_->shows_frames()) return leave_to_sink();
            if (carrier_->poll()) serve_sink_soon();
            settle();
            return state_ == ViState::Connected && carrier_->unfinished();
        }
        if (!service_owned_.load(std::memory_order_relaxed)) {
            service_owned_.store(true, std::memory_order_relaxed);
            if (send_cq_ != nullptr) send_cq_->leave_to_service();
            if (receive_cq_ != nullptr) receive_cq_->leave_to_service();
        }
        carrier_->arm(na::Wakes::Service);
        if (carrier_->shows_frames()) {
            const bool unfinished = leave_to_sink();
            if (unfinished) carrier_->nudge();
            return unfinished;
        }
    }
    // One poll takes a few frames. What came before the peer could see that it must ring would stay
    // where it is if the service thread did not go on.
    int polls_left = nudge_peer ? most_polls_of_service : 1;
    bool moved = true;
    bool moved_any = false;
    while (moved && polls_left-- > 0 && state_ == ViState::Connected) {
        moved = carrier_->poll();
        moved_any = moved_any || moved;
        settle();
    }
    if (moved_any && queues_->sink != nullptr) serve_sink_soon();
    const bool unfinished = state_ == ViState::Connected && carrier_->unfinished();
    if (nudge_peer && unfinished) carrier_->nudge();
    // The poll group's thread may go to sleep and leave the rest to the service thread.
    if (!nudge_peer && unfinished) nic_->process().look_after();
    return unfinished || (nudge_peer && moved && state_ == ViState::Connected);
}

/// The service thread shows no frames under the VI's lock: it asks the layer to poll. True:
/// unfinished.
bool VirtualInterface::leave_to_sink() {
    if (carrier_->has_news() || (queues_->sink != nullptr && queues_->sink->unfinished()))
        serve_sink_soon();
    return carrier_->unfinished();
}

std::uint64_t VirtualInterface::program_polls() const noexcept {
    std::uint64_t polls = polls_.load(std::memory_order_relaxed);
    for (const auto& queue : polled_queues_)
        if (const CompletionQueue* cq = base::load_pointer(queue)) polls += cq->polls();
    return polls;
}

bool VirtualInterface::snapshot(std::uint64_t expected, ViSnapshot& result) {
    const base::BiasedGuard guard(lock_);
    if (!is(expected)) return false;
    if (state_ == ViState::Connected) {
        poll_for_program();
        settle();
    }
    result.state = state_;
    result.attributes = queues_->local;
    result.send_empty = queues_->send.empty();
    result.receive_empty = queues_->receive.empty();
    return true;
}

base::Result<void> VirtualInterface::change_attributes(std::uint64_t expected,
                                                       const ka::EndpointAttributes& attributes) {
    const base::BiasedGuard guard(lock_);
    if (!is(expected))
        return base::Result<void>(base::Code::InvalidArgument, "the VI has been destroyed");
    if (state_ != ViState::Idle)
        return base::Result<void>(base::Code::InvalidState,
                                  "a VI's attributes can only be changed while it is Idle");
    queues_->local = attributes;
    queues_->counters->reliability.set(attributes.reliability);
    max_transfer_bytes_ = attributes.max_transfer_bytes;
    return {};
}

base::Result<void> VirtualInterface::set_link_policy(std::uint64_t expected,
                                                     std::string_view policy) {
    const base::BiasedGuard guard(lock_);
    if (!is(expected) || !endpoint_)
        return base::Result<void>(base::Code::InvalidArgument, "the VI has been destroyed");
    return endpoint_->set_link_policy(policy);
}

DoneOutcome VirtualInterface::notify(std::uint64_t expected, Queue which,
                                     const ViHandler& handler) {
    {
        const base::BiasedGuard guard(lock_);
        if (!is(expected)) return DoneOutcome::StaleHandle;
        if (queue(which).empty()) return DoneOutcome::DescriptorError;
        notifications_[index_of(which)].add(handler);
        watched_for_notification_ = true;
    }
    nic_->process().notification_armed();
    nic_->process().call_handlers_soon();
    return DoneOutcome::Success;
}

void VirtualInterface::serve_notifications() {
    if (!watched_for_notification_.load()) return;
    for (const Queue which : {Queue::Send, Queue::Receive}) {
        for (;;) {
            ViHandler handler;
            VIP_DESCRIPTOR* descriptor = nullptr;
            std::shared_ptr<Nic> nic;
            std::uint64_t own;
            {
                const base::BiasedGuard guard(lock_);
                own = handle.load(std::memory_order_relaxed);
                if (own == 0 || notifications_[index_of(which)].empty()) break;
                if (state_ == ViState::Connected && !carrier_->shows_frames()) {
                    carrier_->arm(na::Wakes::Service);
                    service_owned_.store(true, std::memory_order_relaxed);
                    carrier_->poll();
                    settle();
                }
                if (!queue(which).reapable() || !notifications_[index_of(which)].take(handler))
                    break;
                [[maybe_unused]] const DoneOutcome taken = take(which, descriptor);
                nic = nic_;
            }
            nic->process().notification_served();
            handler.call(handler.context, nic->handle(), reinterpret_cast<VIP_VI_HANDLE>(own),
                         descriptor);
        }
    }
    const base::BiasedGuard guard(lock_);
    watched_for_notification_ = !notifications_[0].empty() || !notifications_[1].empty();
}

}  // namespace via::ua
