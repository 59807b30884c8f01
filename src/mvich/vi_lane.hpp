// SPDX-License-Identifier: BSD-3-Clause
// A lane on a VI. Inside a host packets are gathered into the channel and seen in it; between hosts
// they travel in vbufs, posted here and there.
#pragma once

#include <atomic>
#include <cstdint>

#include "mvich/conversation.hpp"
#include "mvich/lane.hpp"
#include "na/nic_agent.hpp"
#include "ua/nic.hpp"

namespace via::mvich {

class DeviceParts;

class ViLane final : public Lane, public na::FrameSink {
  public:
    explicit ViLane(DeviceParts& device) : device_(device) {}
    /// Closed, or never carried anything. The device's lock must not be held: the service thread
    /// may be about to take it, and is waited for.
    ~ViLane() override;

    /// Makes the VI, with vbufs for the first packets posted. No lock of the device is held.
    [[nodiscard]] base::Result<void> create();
    [[nodiscard]] ua::VirtualInterface& vi() noexcept { return *vi_; }
    [[nodiscard]] std::uint64_t handle() const noexcept { return handle_; }

    /// The VI is connected: from now on it carries a conversation. Under the device's lock.
    void carry(Conversation& conversation);
    /// Ends the connection and takes all vbufs back. Under the device's lock.
    void close();
    [[nodiscard]] Conversation* conversation() noexcept { return conversation_; }
    [[nodiscard]] bool is_broken() const noexcept {
        return broken_.load(std::memory_order_acquire);
    }
    [[nodiscard]] bool was_connected() const noexcept { return connected_; }
    /// Vbufs on their way out.
    [[nodiscard]] std::uint32_t sends_under_way() const noexcept { return sends_under_way_; }
    /// Something is done on one of the VI's queues. Under the device's lock.
    void completed(ua::Queue queue);

    // Lane.
    [[nodiscard]] const LaneAbilities& abilities() const noexcept override { return abilities_; }
    [[nodiscard]] Outcome send(std::span<const iovec> pieces, std::uint32_t bytes) override;
    [[nodiscard]] Outcome send_headed(const na::HeadedMessage& message) override;
    [[nodiscard]] Outcome read(const RdmaOrder& order) override;
    [[nodiscard]] Outcome write(const RdmaOrder& order) override;
    void recycle(Vbuf* vbuf) noexcept override;
    [[nodiscard]] std::uint32_t widen(std::uint32_t window) override;

    // na::FrameSink.
    bool frame(const na::FrameView& view) override;
    bool short_frame(std::uint32_t note, std::uint64_t head, const std::byte* payload,
                     std::uint32_t bytes) override;
    bool serve() override;
    [[nodiscard]] bool unfinished() const noexcept override;
    void broken() noexcept override;

  private:
    [[nodiscard]] bool post_receive(Vbuf* vbuf);
    /// How many of them could be posted.
    [[nodiscard]] std::uint32_t post_receives(std::uint32_t vbufs);
    [[nodiscard]] Outcome post_rdma(const RdmaOrder& order, std::uint16_t operation);
    void arrived(Vbuf* vbuf);
    [[gnu::noinline]] void violated() noexcept;
    template <class Hear>
    [[gnu::always_inline]] bool take(Hear hear) noexcept;
    [[nodiscard]] Conversation::Arrival hear(Vbuf* vbuf) noexcept;

    DeviceParts& device_;
    ua::VirtualInterface* vi_ = nullptr;
    std::uint64_t handle_ = 0;
    Conversation* conversation_ = nullptr;
    LaneAbilities abilities_;
    std::uint32_t sends_under_way_ = 0;
    std::uint32_t receives_posted_ = 0;
    std::atomic<bool> broken_{false};
    bool closed_ = false;
    bool connected_ = false;
    std::vector<Vbuf*> early_;  ///< packets that came before carry(): the peer's Hello
};

}  // namespace via::mvich
