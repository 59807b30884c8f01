// SPDX-License-Identifier: BSD-3-Clause
// MVICH's flow control of one connection. A packet may be sent only if the peer has a vbuf for it.
// Each end knows how many vbufs the other has ready (remote credit) and how many of its own it has
// made ready again since it last told (owed). What is owed rides on the next packet; when there is
// none, a noop brings it, but only when the peer may be about to stop.
//
// A noop takes no credit: an end keeps `noop_vbufs()` vbufs beyond its window for them. So credits
// always flow back, and two ends that have none left can not wait for each other.
//
// Why so few are enough. Credits in packets that the peer has not seen yet are part of peer_has().
// A noop that goes because peer_has() <= preserve finds at most `preserve` of them under way, so at
// most as many noops. One that goes because half of the window is owed finds at most the other
// half under way: no second one of its kind and none besides, or two of them and nothing else.
#pragma once

#include <algorithm>
#include <cstdint>

namespace via::mvich {

class CreditAccount {
  public:
    CreditAccount() = default;
    /// `remote`: vbufs the peer has ready; `window`: those ready here; `preserve`: credits that
    /// only our control packets may use; `peer_preserve`: that only the peer's may. A window that
    /// is not larger keeps one credit for data.
    /// `ride`: whether what is owed rides on packets, or noops bring all of it.
    CreditAccount(std::uint32_t remote, std::uint32_t window, std::uint32_t preserve,
                  std::uint32_t peer_preserve, bool ride = true) noexcept
        : riding_(ride ? 0xFFFF : 0),
          remote_(remote),
          window_(window),
          preserve_(preserve_in(remote, preserve)),
          peer_preserve_(preserve_in(window, peer_preserve)) {}
    CreditAccount(std::uint32_t remote, std::uint32_t window, std::uint32_t preserve) noexcept
        : CreditAccount(remote, window, preserve, preserve) {}

    /// More noops than this can not be under way to here.
    [[nodiscard]] std::uint32_t noop_vbufs() const noexcept {
        return noop_vbufs(preserve_);  // they come because we may be about to stop
    }
    [[nodiscard]] static constexpr std::uint32_t noop_vbufs(std::uint32_t preserve) noexcept {
        return preserve + 2;
    }

    // Sending.
    [[nodiscard]] std::uint32_t remote() const noexcept { return remote_; }
    [[nodiscard]] bool may_send_data() const noexcept { return remote_ > preserve_; }
    [[nodiscard]] bool may_send_control() const noexcept { return remote_ != 0; }
    void sent() noexcept { --remote_; }
    void granted(std::uint32_t credits) noexcept { remote_ += credits; }

    // Receiving. A vbuf is in use from arrival to release.
    void arrived() noexcept { ++in_use_; }
    void released() noexcept {
        --in_use_;
        ++owed_;
    }
    /// Both at once: nothing of the packet stays.
    void passed() noexcept { ++owed_; }
    /// The window grows: vbufs were added here. The peer hears of it with the next packet.
    void widen(std::uint32_t vbufs) noexcept {
        window_ += vbufs;
        owed_ += vbufs;
        owed_new_ += vbufs;
    }
    [[nodiscard]] std::uint32_t window() const noexcept { return window_; }
    [[nodiscard]] std::uint32_t in_use() const noexcept { return in_use_; }
    [[nodiscard]] std::uint32_t owed() const noexcept { return owed_; }
    /// The peer sent more than it may: `in_use + owed` exceeds the window.
    [[nodiscard]] bool overdrawn() const noexcept { return in_use_ + owed_ > window_; }
    /// For the head of the next packet, which brings them.
    [[nodiscard]] std::uint16_t take_riding(std::uint16_t most = 0xFFFF) noexcept {
        return take_owed(static_cast<std::uint16_t>(most & riding_));
    }
    /// For a noop.
    [[nodiscard]] std::uint16_t take_owed(std::uint16_t most = 0xFFFF) noexcept {
        const std::uint32_t taken = std::min<std::uint32_t>(owed_, most);
        owed_ -= taken;
        owed_new_ = std::min(owed_new_, owed_);
        return static_cast<std::uint16_t>(taken);
    }
    /// The packet did not go after all.
    void owe_again(std::uint16_t credits) noexcept { owed_ += credits; }
    /// What the peer can still send for certain without hearing from here.
    [[nodiscard]] std::uint32_t peer_has() const noexcept { return window_ - in_use_ - owed_; }
    /// It may have no more credits for data.
    [[nodiscard]] bool peer_may_stop() const noexcept { return peer_has() <= peer_preserve_; }
    [[nodiscard]] bool noop_due() const noexcept {
        return owed_ != 0 && (2 * (owed_ - owed_new_) >= window_ || peer_may_stop());
    }
    /// The peer has stopped or soon will, because messages nobody asked for hold its vbufs: it
    /// can send no more data even when it has heard of all that is owed.
    [[nodiscard]] bool peer_starves() const noexcept {
        return in_use_ != 0 && in_use_ + peer_preserve_ >= window_;
    }

  private:
    [[nodiscard]] static std::uint32_t preserve_in(std::uint32_t window,
                                                   std::uint32_t preserve) noexcept {
        return window == 0 ? 0 : std::min(preserve, window - 1);
    }

    std::uint32_t riding_ = 0xFFFF;  // the most that a packet brings beside its own message
    std::uint32_t remote_ = 0;
    std::uint32_t window_ = 0;
    std::uint32_t preserve_ = 0;       // of the peer's vbufs
    std::uint32_t peer_preserve_ = 0;  // of the vbufs here
    std::uint32_t in_use_ = 0;
    std::uint32_t owed_ = 0;
    std::uint32_t owed_new_ = 0;  // of these: by widen(), no reason for a noop by half a window
};

}  // namespace via::mvich
