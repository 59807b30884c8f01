// SPDX-License-Identifier: BSD-3-Clause
// A VI: two work queues, a state, and an endpoint of the NIC agent that does the work. What a
// message's fate means for descriptors and for the connection, by reliability level, is decided
// here, for all devices alike.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/biased_lock.hpp"
#include "na/doorbell.hpp"
#include "na/nic_agent.hpp"
#include "ua/notifications.hpp"
#include "ua/vi_state.hpp"
#include "vipl.h"

namespace via::ua {

class CompletionQueue;
class Nic;

enum class Queue : std::uint8_t { Send, Receive };

enum class DoneOutcome : std::uint8_t {
    Success,
    NotDone,
    DescriptorError,  ///< with a descriptor: it failed; without: the queue is empty
    StaleHandle,
};

enum class PostOutcome : std::uint8_t {
    Success,
    BadDescriptor,  ///< null, misaligned, or not in the region that its handle names
    Overrun,        ///< more than MaxDescriptorsPerQueue
    StaleHandle,
};

enum class PacketOutcome : std::uint8_t {
    Sent,
    NoRoom,  ///< now, or because something waits before it; nothing tells when there is
    NotConnected,
    StaleHandle,
};

/// On whose behalf a layer polls: by a program's call, or in FrameSink::serve(). The service thread
/// is woken by arrivals only until the program polls.
enum class PolledBy : std::uint8_t { Program, Service };

struct ViSnapshot {
    ViState state = ViState::Idle;
    ka::EndpointAttributes attributes;
    bool send_empty = true;
    bool receive_empty = true;
};

class VirtualInterface final : public na::EndpointOwner {
  public:
    std::atomic<std::uint64_t> handle{0};

    /// A new VI in a free slot. The handle is published by the caller afterwards.
    [[nodiscard]] base::Result<void> open(std::shared_ptr<Nic> nic, std::uint64_t own_handle,
                                          const ka::EndpointAttributes& attributes,
                                          CompletionQueue* send_cq, CompletionQueue* receive_cq,
                                          na::FrameSink* sink = nullptr);
    /// InvalidState: not Idle. OutOfResources: descriptors not taken back yet.
    [[nodiscard]] base::Result<void> close(std::uint64_t expected);
    /// For VipCloseNic: whatever the state, and without touching the program's memory.
    /// True: its place can be given back. False: somebody else has closed it, or will finish that
    /// and give the place back.
    bool force_close(std::uint64_t expected);

    [[nodiscard]] PostOutcome post_send(std::uint64_t expected, VIP_DESCRIPTOR* descriptor,
                                        std::uint32_t memory_handle);
    [[nodiscard]] PostOutcome post_receive(std::uint64_t expected, VIP_DESCRIPTOR* descriptor,
                                           std::uint32_t memory_handle);
    /// With another outcome than Success or DescriptorError, `descriptor` is as it was.
    [[nodiscard]] DoneOutcome send_done(std::uint64_t expected, VIP_DESCRIPTOR*& descriptor);
    [[nodiscard]] DoneOutcome receive_done(std::uint64_t expected, VIP_DESCRIPTOR*& descriptor);
    [[nodiscard]] DoneOutcome done(std::uint64_t expected, Queue queue,
                                   VIP_DESCRIPTOR*& descriptor);
    /// NotDone: the deadline passed.
    [[nodiscard]] DoneOutcome wait(std::uint64_t expected, Queue queue, base::Deadline deadline,
                                   VIP_DESCRIPTOR*& descriptor);

    // For a layer that gave the VI a sink. When the VI is closed, the sink is not called any more.
    /// Are messages of the connection shown to the sink, as far as they lie in one piece?
    [[nodiscard]] bool shows_frames(std::uint64_t expected);
    /// A message made of the pieces, whose lengths add up to `bytes`; their memory need not be
    /// registered and is free again. Nothing completes.
    [[nodiscard]] PacketOutcome send_packet(std::uint64_t expected, std::span<const iovec> pieces,
                                            std::uint32_t bytes);
    /// The same for one with a head.
    [[nodiscard]] PacketOutcome send_headed(std::uint64_t expected,
                                            const na::HeadedMessage& message);
    /// The longest packet that finds room in the end; 0: none, packets must be posted.
    [[nodiscard]] std::uint32_t longest_packet(std::uint64_t expected);
    /// na::QueuePair::next_frame; it may be looked at until the VI is destroyed.
    [[nodiscard]] const na::PlaceAhead* next_frame(std::uint64_t expected);
    /// na::QueuePair::peer_on_core; the same.
    [[nodiscard]] const std::atomic<bool>& peer_on_core() const noexcept {
        return queues_->peer_on_core;
    }
    /// na::Endpoint::reaches_peer_memory
    [[nodiscard]] bool reaches_peer_memory(std::uint64_t expected);
    /// Looks for arrivals and completions. True if anything happened.
    bool poll_frames(std::uint64_t expected, PolledBy who = PolledBy::Program);
    /// The program will not poll for a while: from now on arrivals wake the service thread.
    void leave_to_service(std::uint64_t expected);
    /// A thread of the program that polls frames itself is going to sleep: the next arrival wakes
    /// it.
    void wake_sleeper(std::uint64_t expected);
    /// On the service thread, with no lock held: what serve_soon() asked for.
    [[nodiscard]] bool serve_sink();

    [[nodiscard]] bool has_completion_queue(Queue queue) const noexcept {
        return (queue == Queue::Send ? send_cq_ : receive_cq_) != nullptr;
    }

    [[nodiscard]] bool snapshot(std::uint64_t expected, ViSnapshot& result);
    [[nodiscard]] base::Result<void> change_attributes(std::uint64_t expected,
                                                       const ka::EndpointAttributes& attributes);

    [[nodiscard]] base::Result<void> set_link_policy(std::uint64_t expected,
                                                     std::string_view policy);

    // Connection set-up. Blocking ones hold no lock while they wait.
    [[nodiscard]] base::Result<ka::EndpointAttributes> connect_request(std::uint64_t expected,
                                                                       const ka::NetAddress& local,
                                                                       const ka::NetAddress& remote,
                                                                       base::Deadline deadline);
    [[nodiscard]] base::Result<void> connect_accept(std::uint64_t expected,
                                                    const ka::IncomingRequest& request,
                                                    base::Deadline deadline);
    [[nodiscard]] base::Result<void> peer_request(std::uint64_t expected,
                                                  const ka::NetAddress& local,
                                                  const ka::NetAddress& remote,
                                                  base::Deadline deadline);
    /// Empty: not done yet.
    [[nodiscard]] std::optional<base::Result<ka::EndpointAttributes>> peer_done(
        std::uint64_t expected);
    [[nodiscard]] base::Result<ka::EndpointAttributes> peer_wait(std::uint64_t expected);
    [[nodiscard]] bool disconnect(std::uint64_t expected);

    [[nodiscard]] DoneOutcome notify(std::uint64_t expected, Queue queue, const ViHandler& handler);
    /// On the service thread.
    void serve_notifications();

    bool progress(bool nudge_peer = false) override;

    // The service thread's list of those whose sinks are to be served (Process::serve_soon).
    VirtualInterface* next_to_serve = nullptr;
    bool to_be_served = false;

    [[nodiscard]] const std::shared_ptr<Nic>& nic() const noexcept { return nic_; }

  private:
    [[nodiscard]] bool is(std::uint64_t expected) const noexcept {
        return handle.load(std::memory_order_relaxed) == expected;
    }
    [[nodiscard]] na::WorkQueue& queue(Queue which) noexcept {
        return which == Queue::Send ? queues_->send : queues_->receive;
    }
    [[nodiscard]] bool find_region(ka::CachedRegion& cache, std::uint32_t memory_handle,
                                   const ka::Region*& region);
    /// Is the descriptor that was posted still in registered memory, so that its end may be written
    /// into it? No translation: the kernel agent is not asked.
    [[nodiscard]] bool holds_descriptor(std::uint32_t memory_handle, std::uint64_t address) {
        const ka::Region* region;
        if (descriptor_cache_.find(rmmt_, memory_handle, region)) [[likely]]
            return region->contains(address, sizeof(VIP_CONTROL_SEGMENT));
        return holds_unread_descriptor(memory_handle, address);
    }
    [[gnu::cold, nodiscard]] bool holds_unread_descriptor(std::uint32_t memory_handle,
                                                          std::uint64_t address);
    [[nodiscard]] const ka::Region* descriptor_region(const VIP_DESCRIPTOR* descriptor,
                                                      std::uint32_t memory_handle);
    [[nodiscard]] bool tag_matches(const ka::Region& region) const noexcept {
        return region.tag == queues_->local.tag ||
               (queues_->local.flags & ka::endpoint_any_tag) != 0;
    }
    // In hot_path.hpp.
    struct PlainSend {
        VIP_DATA_SEGMENT segment;
        std::uint32_t immediate;
        bool has_immediate;
        bool in_arena;
    };
    [[gnu::always_inline, nodiscard]] bool plain_send(const VIP_DESCRIPTOR* descriptor,
                                                      std::uint32_t memory_handle,
                                                      PlainSend& send) const noexcept;
    [[gnu::always_inline, nodiscard]] bool send_at_once(VIP_DESCRIPTOR* descriptor,
                                                        std::uint32_t memory_handle,
                                                        const PlainSend& send);
    [[gnu::always_inline, nodiscard]] bool post_plain_send(VIP_DESCRIPTOR* descriptor,
                                                           std::uint32_t memory_handle,
                                                           const PlainSend& send);
    void start_sends();
    void started_sends();
    [[gnu::noinline, nodiscard]] PostOutcome post_any_send(VIP_DESCRIPTOR* descriptor,
                                                           std::uint32_t memory_handle);
    [[gnu::noinline, nodiscard]] PostOutcome post_any_receive(VIP_DESCRIPTOR* descriptor,
                                                              std::uint32_t memory_handle);
    [[gnu::always_inline, nodiscard]] bool post_plain_receive(VIP_DESCRIPTOR* descriptor,
                                                              std::uint32_t memory_handle);
    [[gnu::always_inline, nodiscard]] const ka::Region* plain_descriptor(
        const VIP_DESCRIPTOR* descriptor, std::uint32_t memory_handle,
        const na::WorkQueue& work) const noexcept;
    [[gnu::always_inline]] void tell_of_completions(CompletionQueue* cq);
    void wake_waiters(CompletionQueue* cq);
    [[gnu::cold]] void raise_lost_descriptor(VIP_DESCRIPTOR* descriptor);
    [[gnu::cold]] void raise_lost_completion();
    PostOutcome refuse_post(VIP_DESCRIPTOR* descriptor);
    PostOutcome refuse_overrun(VIP_DESCRIPTOR* descriptor);
    void link_behind_last(Queue which, VIP_DESCRIPTOR* descriptor, std::uint32_t memory_handle);
    /// After anything that may have completed entries or raised events.
    void settle();
    void harvest(Queue which);
    [[gnu::cold]] void handle_events();
    void enter_error();
    void apply(ViEvent event);
    [[gnu::always_inline, nodiscard]] DoneOutcome take(Queue which, VIP_DESCRIPTOR*& descriptor);
    [[gnu::always_inline, nodiscard]] bool take_plain_receive(VIP_DESCRIPTOR*& descriptor);
    template <Queue which>
    [[gnu::always_inline, nodiscard]] DoneOutcome done_of(std::uint64_t expected,
                                                          VIP_DESCRIPTOR*& descriptor);
    void take_from_service();
    void stay_awake(std::uint64_t expected);
    [[nodiscard]] base::Nanoseconds respite(std::uint64_t expected);
    void serve_sink_soon();
    [[nodiscard]] bool leave_to_sink();
    [[gnu::always_inline]] bool poll_for_program();
    [[nodiscard]] std::uint64_t program_polls() const noexcept;
    [[nodiscard]] base::Result<void> begin_connect(std::uint64_t expected);
    [[nodiscard]] base::Result<ka::EndpointAttributes> end_connect(base::Result<void>&& outcome);
    void take_carrier();
    void let_go();
    void finish_close();
    [[nodiscard]] base::Result<void> compare(const ka::EndpointAttributes& theirs) const;
    /// Is a thread inside the device with the endpoint in hand? Then the endpoint must stay.
    [[nodiscard]] bool connecting() const noexcept { return connecting_ || peer_waiting_; }
    [[nodiscard]] base::Result<ka::EndpointAttributes> conclude_peer(base::Result<void>&& outcome);

    base::BiasedLock lock_;
    ViState state_ = ViState::Idle;
    // While nobody of the program polls, the service thread is the NIC: arrivals wake it. It looks
    // at these without the lock, so as not to disturb a program that does poll.
    std::atomic<std::uint64_t> polls_{0};  ///< by the program, of this VI directly
    std::array<std::atomic<const CompletionQueue*>, 2> polled_queues_{};
    std::atomic<bool> service_owned_{true};
    std::atomic<std::uint64_t> polls_seen_by_service_{0};  ///< of the VI and its completion queues
    std::uint64_t polls_when_to_serve_ = 0;  ///< the same, when the sink was to be served
    std::uint32_t sleepers_ = 0;  ///< threads of the program in wait(): arrivals wake them instead
    bool armed_for_sleeper_ = false;  ///< still, though nobody may sleep any more
    bool send_failed_ = false;        ///< a bad descriptor was posted on a reliable connection
    bool lost_remotely_ = false;      ///< an error completion that the peer caused was harvested
    bool break_wanted_ = false;  ///< an error completion on a reliable connection was harvested
    std::unique_ptr<na::QueuePair> queues_;
    std::unique_ptr<na::Endpoint> endpoint_;
    na::Endpoint* carrier_ = nullptr;  ///< the endpoint that moves the data: nearly always the same
    ka::RmmtView rmmt_;
    ka::CachedRegion descriptor_cache_;
    ka::CachedRegion data_cache_;
    ka::Region told_region_{};  ///< what the kernel agent answered last, without the UTLB
    std::shared_ptr<Nic> nic_;
    na::Doorbell* doorbell_ = nullptr;
    CompletionQueue* send_cq_ = nullptr;
    CompletionQueue* receive_cq_ = nullptr;
    std::uint64_t max_transfer_bytes_ = 0;
    std::uint32_t max_segments_ = 0;
    std::uint32_t agent_vi_ = 0;
    std::uint64_t peer_request_ = 0;  ///< 0: none pending
    bool peer_finished_ = false;      ///< its outcome has been told
    bool peer_waiting_ = false;       ///< a thread is inside peer_wait or peer_done
    bool connecting_ = false;         ///< a thread is inside connect_request, accept, ...
    std::uint64_t orphan_ = 0;        ///< its handle, if it was closed while a thread was inside
    NotificationList<ViHandler> notifications_[2];
    std::atomic<bool> watched_for_notification_{false};
    std::atomic<std::uint64_t> moves_{0};  ///< polls that found something, but nothing to be taken
};

}  // namespace via::ua
