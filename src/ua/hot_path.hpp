// SPDX-License-Identifier: BSD-3-Clause
// What every message passes through on its way into and out of a VI: posting a descriptor and
// finding it done. In a header, so that the calls of the library contain it. The common case is
// spelled out in one piece; everything else leaves early, to virtual_interface.cpp.
//
// What counts here is stores: those between the arrival of a message and the sending of its answer
// leave the core one after the other before the answer does (docs/performance.md).
#pragma once

#include <sched.h>

#include "base/probe.hpp"
#include "ua/completion_queue.hpp"
#include "ua/virtual_interface.hpp"

namespace via::ua {

[[nodiscard]] inline bool is_aligned(const VIP_DESCRIPTOR* descriptor) noexcept {
    return reinterpret_cast<std::uintptr_t>(descriptor) % VIP_DESCRIPTOR_ALIGNMENT == 0;
}

[[nodiscard]] constexpr std::uint64_t descriptor_bytes(std::uint32_t segments) noexcept {
    return sizeof(VIP_CONTROL_SEGMENT) + std::uint64_t{segments} * sizeof(VIP_DATA_SEGMENT);
}

/// A descriptor with one data segment, in the region that was looked up last for descriptors. The
/// region, or null: post it the long way.
inline const ka::Region* VirtualInterface::plain_descriptor(
    const VIP_DESCRIPTOR* descriptor, std::uint32_t memory_handle,
    const na::WorkQueue& work) const noexcept {
    const ka::Region* region = descriptor_cache_.hit(rmmt_, memory_handle);
    if (region == nullptr || !tag_matches(*region) ||
        !region->contains(reinterpret_cast<std::uint64_t>(descriptor), descriptor_bytes(1)) ||
        descriptor->CS.SegCount != 1 || work.full()) [[unlikely]]
        return nullptr;
    // The one before it, to which it will be linked, must be known to be there, too.
    const na::WorkEntry* last = work.last();
    if (last != nullptr && (last->cookie_handle != memory_handle ||
                            !region->contains(last->cookie, sizeof(VIP_CONTROL_SEGMENT))))
        [[unlikely]]
        return nullptr;
    return region;
}

inline void link_plain(const na::WorkQueue& work, VIP_DESCRIPTOR* descriptor,
                       std::uint32_t memory_handle) noexcept {
    const na::WorkEntry* last = work.last();
    if (last == nullptr) return;
    auto* previous = reinterpret_cast<VIP_DESCRIPTOR*>(last->cookie);
    previous->CS.Next.Address = descriptor;
    previous->CS.NextHandle = memory_handle;
}

/// Handlers and sleeping threads that wait for completions.
inline void VirtualInterface::tell_of_completions(CompletionQueue* cq) {
    const bool handlers = cq != nullptr ? !cq->notifications.empty()
                                        : watched_for_notification_.load(std::memory_order_relaxed);
    if (handlers || doorbell_->anyone_sleeps()) [[unlikely]]
        wake_waiters(cq);
}

/// A send of one segment about which the caches know everything. False: post it the long way.
inline bool VirtualInterface::plain_send(const VIP_DESCRIPTOR* descriptor,
                                         std::uint32_t memory_handle,
                                         PlainSend& send) const noexcept {
    if (state_ != ViState::Connected || send_failed_) return false;
    const ka::Region* region = plain_descriptor(descriptor, memory_handle, queues_->send);
    if (region == nullptr) return false;
    na::ask_for(queues_->next_frame, descriptor->CS.Length);
    const std::uint32_t control = descriptor->CS.Control;
    send.segment = descriptor->DS[0].Local;
    if (send.segment.Handle != memory_handle) {
        region = data_cache_.hit(rmmt_, send.segment.Handle);
        if (region == nullptr || !tag_matches(*region)) return false;
    }
    send.in_arena = region->arena != ka::no_arena;
    send.has_immediate = (control & VIP_CONTROL_IMMEDIATE) != 0;
    send.immediate = descriptor->CS.ImmediateData;
    return (control & ~std::uint32_t{VIP_CONTROL_IMMEDIATE}) == 0 && send.segment.Length != 0 &&
           send.segment.Length == descriptor->CS.Length &&
           send.segment.Length <= max_transfer_bytes_ &&
           region->contains(send.segment.Data.AddressBits, send.segment.Length);
}

/// A small send that is done when this returns true; false: nothing has happened.
inline bool VirtualInterface::send_at_once(VIP_DESCRIPTOR* descriptor, std::uint32_t memory_handle,
                                           const PlainSend& send) {
    na::WorkQueue& work = queues_->send;
    if (!work.quiet() || !carrier_->send_at_once(send.segment.Data.Address, send.segment.Length,
                                                 send.in_arena, send.has_immediate, send.immediate))
        return false;
    link_plain(work, descriptor, memory_handle);
    work.post_done(reinterpret_cast<std::uint64_t>(descriptor), memory_handle, na::status_op_send,
                   send.segment.Length);
    __atomic_store_n(&descriptor->CS.Status, na::status_op_send | na::status_done,
                     __ATOMIC_RELEASE);
    VIA_PROBE_COMPLETE(handle, descriptor);
    if (send_cq_ != nullptr &&
        !send_cq_->reserve_and_push(handle.load(std::memory_order_relaxed), false)) [[unlikely]]
        raise_lost_completion();
    tell_of_completions(send_cq_);
    return true;
}

/// False: nothing has happened.
inline bool VirtualInterface::post_plain_send(VIP_DESCRIPTOR* descriptor,
                                              std::uint32_t memory_handle, const PlainSend& send) {
    na::WorkQueue& work = queues_->send;
    if (!work.has_room(2)) return false;
    if (send_cq_ != nullptr) send_cq_->reserve();
    link_plain(work, descriptor, memory_handle);
    descriptor->CS.Status = 0;
    const na::PhysicalDescriptor segment{send.segment.Data.AddressBits, send.segment.Length,
                                         send.segment.Handle};
    if (queues_->takes_sends && !work.has_unstarted()) {
        const std::uint64_t entry = work.post_taken(reinterpret_cast<std::uint64_t>(descriptor),
                                                    memory_handle, na::status_op_send);
        VIA_PROBE_DOORBELL(handle, 0);
        if (carrier_->take_send(entry, segment, send.has_immediate, send.immediate)) [[likely]] {
            started_sends();
            return true;
        }
        work.take_back();
    }
    const na::ChainHead head{na::Operation::Send,
                             send.has_immediate ? na::pd_immediate : std::uint8_t{0}, 1,
                             send.segment.Length, send.immediate};
    work.post(reinterpret_cast<std::uint64_t>(descriptor), memory_handle, 2, na::status_op_send);
    work.pds.push(na::encode_head(head));
    work.pds.push(segment);
    start_sends();
    return true;
}

inline PostOutcome VirtualInterface::post_send(std::uint64_t expected, VIP_DESCRIPTOR* descriptor,
                                               std::uint32_t memory_handle) {
    if (descriptor == nullptr || !is_aligned(descriptor)) [[unlikely]]
        return PostOutcome::BadDescriptor;
    VIA_PROBE_POST(expected, descriptor, 0);
    const base::BiasedGuard guard(lock_);
    if (!is(expected)) [[unlikely]]
        return PostOutcome::StaleHandle;
    PlainSend send;
    if (plain_send(descriptor, memory_handle, send) &&
        (send_at_once(descriptor, memory_handle, send) ||
         post_plain_send(descriptor, memory_handle, send))) [[likely]]
        return PostOutcome::Success;
    return post_any_send(descriptor, memory_handle);
}

/// False: nothing has happened.
inline bool VirtualInterface::post_plain_receive(VIP_DESCRIPTOR* descriptor,
                                                 std::uint32_t memory_handle) {
    na::WorkQueue& work = queues_->receive;
    const ka::Region* region = plain_descriptor(descriptor, memory_handle, work);
    if (region == nullptr || state_ == ViState::Error || !work.has_room(2) ||
        (descriptor->CS.Control & (VIP_CONTROL_RESERVED | VIP_CONTROL_OP_MASK)) != 0)
        return false;
    const VIP_DATA_SEGMENT segment = descriptor->DS[0].Local;
    if (segment.Length == 0) return false;
    if (receive_cq_ != nullptr) receive_cq_->reserve();
    link_plain(work, descriptor, memory_handle);
    descriptor->CS.Status = 0;
    const na::ChainHead head{na::Operation::Receive, 0, 1, segment.Length, 0};
    work.post(reinterpret_cast<std::uint64_t>(descriptor), memory_handle, 2, na::status_op_receive);
    work.pds.push(na::encode_head(head));
    work.pds.push({segment.Data.AddressBits, segment.Length, segment.Handle});
    if (queues_->rings_receives) [[unlikely]]
        carrier_->ring_receive();
    return true;
}

inline PostOutcome VirtualInterface::post_receive(std::uint64_t expected,
                                                  VIP_DESCRIPTOR* descriptor,
                                                  std::uint32_t memory_handle) {
    if (descriptor == nullptr || !is_aligned(descriptor)) [[unlikely]]
        return PostOutcome::BadDescriptor;
    VIA_PROBE_POST(expected, descriptor, 1);
    const base::BiasedGuard guard(lock_);
    if (!is(expected)) [[unlikely]]
        return PostOutcome::StaleHandle;
    if (post_plain_receive(descriptor, memory_handle)) [[likely]]
        return PostOutcome::Success;
    return post_any_receive(descriptor, memory_handle);
}

inline bool VirtualInterface::poll_for_program() {
    polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (service_owned_.load(std::memory_order_relaxed)) [[unlikely]]
        take_from_service();
    return carrier_->poll();
}

inline PacketOutcome VirtualInterface::send_packet(std::uint64_t expected,
                                                   std::span<const iovec> pieces,
                                                   std::uint32_t bytes) {
    const base::BiasedGuard guard(lock_);
    if (!is(expected)) [[unlikely]]
        return PacketOutcome::StaleHandle;
    if (state_ != ViState::Connected) [[unlikely]]
        return PacketOutcome::NotConnected;
    return !send_failed_ && carrier_->send_gathered(pieces, bytes) ? PacketOutcome::Sent
                                                                   : PacketOutcome::NoRoom;
}

inline PacketOutcome VirtualInterface::send_headed(std::uint64_t expected,
                                                   const na::HeadedMessage& message) {
    const base::BiasedGuard guard(lock_);
    if (!is(expected)) [[unlikely]]
        return PacketOutcome::StaleHandle;
    if (state_ != ViState::Connected) [[unlikely]]
        return PacketOutcome::NotConnected;
    return !send_failed_ && carrier_->send_headed(message) ? PacketOutcome::Sent
                                                           : PacketOutcome::NoRoom;
}

inline bool VirtualInterface::poll_frames(std::uint64_t expected, PolledBy who) {
    const base::BiasedGuard guard(lock_);
    if (!is(expected) || state_ != ViState::Connected) [[unlikely]]
        return false;
    if (!(who == PolledBy::Program ? poll_for_program() : carrier_->poll())) return false;
    settle();
    return true;
}

inline DoneOutcome VirtualInterface::take(Queue which, VIP_DESCRIPTOR*& descriptor) {
    na::WorkQueue& work = queue(which);
    if (!work.reapable()) {
        if (!work.empty()) return DoneOutcome::NotDone;
        descriptor = nullptr;
        return DoneOutcome::DescriptorError;
    }
    const na::WorkEntry& entry = work.reap();
    descriptor = reinterpret_cast<VIP_DESCRIPTOR*>(entry.cookie);
    return (entry.status & na::status_error_mask) != 0 ? DoneOutcome::DescriptorError
                                                       : DoneOutcome::Success;
}

/// For a queue from which everything was taken: the message that has just come was received without
/// error. False: nothing is done.
inline bool VirtualInterface::take_plain_receive(VIP_DESCRIPTOR*& descriptor) {
    na::WorkQueue& work = queues_->receive;
    if (receive_cq_ != nullptr || queues_->events != 0 || !work.harvestable()) return false;
    const na::WorkEntry& entry = work.at(work.harvested());
    const ka::Region* region = descriptor_cache_.hit(rmmt_, entry.cookie_handle);
    if (region == nullptr || !region->contains(entry.cookie, sizeof(VIP_CONTROL_SEGMENT)) ||
        (entry.status & na::status_error_mask) != 0) [[unlikely]]
        return false;
    auto* const done = reinterpret_cast<VIP_DESCRIPTOR*>(entry.cookie);
    descriptor = done;
    done->CS.Length = entry.length;
    if ((entry.status & na::status_immediate) != 0) done->CS.ImmediateData = entry.immediate;
    __atomic_store_n(&done->CS.Status, entry.status, __ATOMIC_RELEASE);
    VIA_PROBE_COMPLETE(handle, done);
    work.harvest_and_reap();
    if (queues_->send.harvestable() || work.harvestable()) settle();
    return true;
}

template <Queue which>
inline DoneOutcome VirtualInterface::done_of(std::uint64_t expected, VIP_DESCRIPTOR*& descriptor) {
    {
        const base::BiasedGuard guard(lock_);
        if (!is(expected)) [[unlikely]]
            return DoneOutcome::StaleHandle;
        na::WorkQueue& work = queue(which);
        if (work.reapable() || work.empty() || state_ != ViState::Connected)
            return take(which, descriptor);
        if (poll_for_program()) {
            if (which == Queue::Receive && take_plain_receive(descriptor)) [[likely]]
                return DoneOutcome::Success;
            settle();
            const DoneOutcome outcome = take(which, descriptor);
            if (outcome != DoneOutcome::NotDone) return outcome;
            moves_.store(moves_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        }
        if (!queues_->shares_core.load(std::memory_order_relaxed)) [[likely]] {
            if (!queues_->polls_kernel.load(std::memory_order_relaxed)) base::cpu_relax();
            return DoneOutcome::NotDone;
        }
    }
    sched_yield();
    return DoneOutcome::NotDone;
}

inline DoneOutcome VirtualInterface::send_done(std::uint64_t expected,
                                               VIP_DESCRIPTOR*& descriptor) {
    return done_of<Queue::Send>(expected, descriptor);
}

inline DoneOutcome VirtualInterface::receive_done(std::uint64_t expected,
                                                  VIP_DESCRIPTOR*& descriptor) {
    return done_of<Queue::Receive>(expected, descriptor);
}

inline DoneOutcome VirtualInterface::done(std::uint64_t expected, Queue queue,
                                          VIP_DESCRIPTOR*& descriptor) {
    return queue == Queue::Send ? send_done(expected, descriptor)
                                : receive_done(expected, descriptor);
}

}  // namespace via::ua
