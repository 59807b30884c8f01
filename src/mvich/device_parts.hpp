// SPDX-License-Identifier: BSD-3-Clause
// The inside of a Device: the NIC, what connections share, and the one lock of it all.
//
// Order of locks: the device's, then a VI's. Frames are shown while a VI is locked and therefore
// send nothing; what they make necessary is done by flush_touched().
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/biased_lock.hpp"
#include "base/counters.hpp"
#include "ka/local_host.hpp"
#include "mvich/connector.hpp"
#include "mvich/core_sharing.hpp"
#include "mvich/device.hpp"
#include "mvich/gauges.hpp"
#include "mvich/message_settings.hpp"
#include "mvich/registration_cache.hpp"
#include "mvich/vbuf.hpp"
#include "mvich/vi_lane.hpp"
#include "ua/completion_queue.hpp"
#include "ua/nic.hpp"

namespace via::mvich {

class EndpointParts;

class DeviceParts final : public Registrar {
  public:
    [[nodiscard]] static base::Result<std::unique_ptr<DeviceParts>> open();
    ~DeviceParts() override;

    [[nodiscard]] base::BiasedLock& lock() noexcept { return lock_; }
    /// For threads that need the lock seldom: a program that polls without pause lets them in.
    class SeldomGuard {
      public:
        explicit SeldomGuard(DeviceParts& device) : device_(device) {
            device.seldom_ones_.fetch_add(1);
            as_owner_ = device.lock_.lock();
            device.seldom_ones_.fetch_sub(1);
            device.own_thread_speaks_ = true;
        }
        SeldomGuard(const SeldomGuard&) = delete;
        SeldomGuard& operator=(const SeldomGuard&) = delete;
        ~SeldomGuard() {
            device_.own_thread_speaks_ = false;
            device_.lock_.unlock(as_owner_);
        }

      private:
        DeviceParts& device_;
        bool as_owner_;
    };
    [[nodiscard]] ua::Nic& nic() noexcept { return *nic_; }
    [[nodiscard]] ua::CompletionQueue& cq() noexcept { return *cq_; }
    [[nodiscard]] ka::ProtectionTag tag() const noexcept { return tag_; }
    [[nodiscard]] const MessageSettings& settings() const noexcept { return settings_; }
    [[nodiscard]] VbufPool& vbufs() noexcept { return *vbufs_; }
    [[nodiscard]] RegistrationCache& registrations() noexcept { return *registrations_; }
    [[nodiscard]] WindowTable& windows() noexcept { return windows_; }
    [[nodiscard]] base::MessageCounters& counters() noexcept {
        return base::Counters::get().page().messages;
    }
    [[nodiscard]] Connector& connector() noexcept { return *connector_; }
    /// The address at which other hosts know this one.
    [[nodiscard]] const HostPort& own_host() const noexcept { return own_host_; }
    /// Is it the device that chooses between the way inside a host and the one between hosts?
    [[nodiscard]] bool chooses_ways() const noexcept { return chooses_ways_; }
    /// Does the address mean this very host?
    [[nodiscard]] bool is_here(const HostPort& name);

    // Under the lock.
    void add(EndpointParts& endpoint);
    void remove(EndpointParts& endpoint);
    void add(ViLane& lane);
    void forget(ViLane& lane);
    /// It is connected: inside the host or beyond it.
    void carries(ViLane& lane, bool in_place);
    /// Something came; nothing is to be sent that was not before.
    void noticed() noexcept { events_ = true; }
    /// A message has come in this round, nobody waits for another, and others want the core: what
    /// comes next stays where it is until it is asked for, or until the next round.
    [[nodiscard]] bool has_enough(const ReceiveQueue& receives) const noexcept {
        return events_ && sharing_.is_shared() && receives.posted_count() == 0;
    }
    /// The lane's conversation may have something to send.
    void touched(ViLane& lane) {
        events_ = true;
        Conversation* conversation = lane.conversation();
        if (conversation != nullptr && conversation->wants_flush()) touch(*conversation);
    }
    void touch(Conversation& conversation);
    void forget(Conversation& conversation);
    bool progress_locked(bool by_program = true);
    /// Brings the counters page up to date with what is held now. Not for the hot path: it looks at
    /// every connection.
    void look();
    [[nodiscard]] inline Posted receive(ReceiveQueue& queue, const ReceiveOrder& order);
    /// A message that waited goes into a receive.
    bool give(ReceiveQueue& queue, UnexpectedMessage& message, PostedReceive& receive);
    void discard(ReceiveQueue& queue, UnexpectedMessage& message);
    bool cancel(ReceiveQueue& queue, const void* context);
    [[nodiscard]] std::optional<Envelope> peek(ReceiveQueue& queue, const ReceiveOrder& order,
                                               Peek how);
    [[nodiscard]] Posted claimed_receive(ReceiveQueue& queue, const ReceiveOrder& order);
    [[nodiscard]] Posted claimed_discard(ReceiveQueue& queue, const void* context);

    bool progress();
    void wait(base::Deadline deadline, std::uint64_t seen);
    /// The same, with a spin before the sleep; true if something came.
    bool wait_spinning(base::Nanoseconds spin, base::Deadline deadline, std::uint64_t seen);
    [[nodiscard]] std::uint64_t tidings() const noexcept {
        return tidings_.get() + wakes_.load(std::memory_order_relaxed);
    }
    /// Listeners were told something outside progress_locked().
    void told() noexcept {
        tidings_.add();
        wake_sleepers();
    }
    void wake();
    void arm();
    /// The service thread: the program does not poll.
    bool serve();
    /// Any thread, any lock.
    [[nodiscard]] bool has_unsent() const noexcept {
        return has_unsent_.load(std::memory_order_relaxed);
    }
    /// Under the lock.
    [[nodiscard]] bool own_thread_speaks() const noexcept { return own_thread_speaks_; }
    void note_broken() noexcept { any_broken_.store(true, std::memory_order_release); }
    /// Lanes that are closed. They are destroyed without the lock, by the connector's thread: the
    /// service thread, which may be the one that found their end, would wait for itself.
    void retire(std::unique_ptr<ViLane> lane) {
        retired_.push_back(std::move(lane));
        connector_->tidy();
    }
    void destroy_retired();

    // Registrar.
    [[nodiscard]] base::Result<std::uint32_t> register_memory(void* address,
                                                              std::size_t bytes) override;
    void deregister(void* address, std::uint32_t handle) noexcept override;
    void favour(void* address, std::size_t bytes) noexcept override;

  private:
    /// A receive of several pieces, or for the message that waits for it.
    [[nodiscard]] Posted receive_otherwise(ReceiveQueue& queue, const ReceiveOrder& order,
                                           UnexpectedMessage* message);
    DeviceParts() = default;
    [[nodiscard]] base::Result<void> start();
    [[gnu::always_inline]] bool progress_inline(bool by_program);
    [[gnu::noinline]] bool handle_news();
    bool flush_touched();
    void let_others_in() noexcept;
    [[gnu::always_inline]] void poll_lanes(bool by_program);
    void end_broken();
    void rest(std::uint32_t empty);
    [[nodiscard]] ViLane* hoped_for() const noexcept;
    [[nodiscard]] bool poll_in_hope();
    [[nodiscard]] bool others_want_core() noexcept;
    void take_nap(std::uint32_t empty);
    /// What one thread has moved another may be waiting for: the peer woke only one of them, and
    /// perhaps the service thread.
    void wake_sleepers() noexcept;
    /// Unless nothing has happened since the last look.
    void look_again() {
        if (looked_at_ != tidings()) look();
    }

    base::BiasedLock lock_;
    std::shared_ptr<ua::Nic> nic_;
    std::uint64_t cq_handle_ = 0;
    ua::CompletionQueue* cq_ = nullptr;
    ka::ProtectionTag tag_ = ka::null_tag;
    MessageSettings settings_;
    std::unique_ptr<VbufPool> vbufs_;
    std::unique_ptr<RegistrationCache> registrations_;
    WindowTable windows_;
    std::unique_ptr<Connector> connector_;
    HostPort own_host_;
    bool chooses_ways_ = false;

    std::vector<EndpointParts*> endpoints_;
    std::unordered_map<std::uint64_t, ViLane*> lanes_;  ///< by VI handle
    std::vector<ViLane*> in_place_;                     ///< looked at one by one while they are few
    std::size_t between_hosts_ = 0;
    std::vector<Conversation*> touched_;
    std::atomic<bool> has_unsent_{false};  ///< touched_ has some
    std::vector<std::unique_ptr<ViLane>> retired_;
    std::atomic<bool> any_broken_{false};
    std::atomic<std::uint32_t> seldom_ones_{0};  ///< threads that wait for the lock
    std::uint32_t rounds_before_end_ = 0;
    bool own_thread_speaks_ = false;  ///< under the lock: it is not held by the program
    bool events_ = false;             ///< since the last progress
    enum class Rest : std::uint8_t { Never, Yield, Sleep };
    Rest rest_ = Rest::Yield;
    std::atomic<std::uint32_t> empty_polls_{0};
    CoreSharing sharing_;
    Hope hope_;
    std::atomic<std::uint32_t> naps_{0};   ///< in a row in which nothing came
    base::Counter tidings_;                ///< under the lock: a plain store on the hot path
    std::atomic<std::uint64_t> wakes_{0};  ///< by any thread
    std::unique_ptr<GaugeShare> gauges_;
    std::uint64_t looked_at_ = 0;  ///< tidings at the last look
    std::mutex local_host_mutex_;
    std::unique_ptr<ka::LocalHost> local_host_;
};

}  // namespace via::mvich
