// SPDX-License-Identifier: BSD-3-Clause
// MVICH's flow control of one connection. A packet may be sent only if the peer has a vbuf for it.
// Each end knows how many vbufs the other has ready (remote credit) and how many of its own it has
// made ready again since it last told (owed). What is owed rides on the next packet; when there is
// none, a noop brings it, but only when the peer may be about to stop.
//
// A noop takes no credit: an end keeps `noop_vbufs` vbufs beyond its window for them. So credits
// always flow back, and two ends that have none left can not wait for each other.
#pragma once

#include <algorithm>
#include <cstdint>

namespace via::mvich {

class CreditAccount {
  public:
    /// More noops than this can not be under way: each brings at least half a window.
    static constexpr std::uint32_t noop_vbufs = 3;

    CreditAccount() = default;
    /// `remote`: vbufs the peer has ready; `window`: those ready here; `preserve`: credits that
    /// only control packets may use.
    CreditAccount(std::uint32_t remote, std::uint32_t window, std::uint32_t preserve) noexcept
        : remote_(remote), window_(window), preserve_(preserve) {}

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
    /// The window grows: vbufs were added here.
    void widen(std::uint32_t vbufs) noexcept {
        window_ += vbufs;
        owed_ += vbufs;
    }
    [[nodiscard]] std::uint32_t window() const noexcept { return window_; }
    [[nodiscard]] std::uint32_t in_use() const noexcept { return in_use_; }
    [[nodiscard]] std::uint32_t owed() const noexcept { return owed_; }
    /// The peer sent more than it may: `in_use + owed` exceeds the window.
    [[nodiscard]] bool overdrawn() const noexcept { return in_use_ + owed_ > window_; }
    /// For the head of the next packet, which brings them.
    [[nodiscard]] std::uint16_t take_owed() noexcept {
        const std::uint32_t taken = std::min<std::uint32_t>(owed_, 0xFFFF);
        owed_ -= taken;
        return static_cast<std::uint16_t>(taken);
    }
    /// The packet did not go after all.
    void owe_again(std::uint16_t credits) noexcept { owed_ += credits; }
    /// What the peer can still send for certain without hearing from here.
    [[nodiscard]] std::uint32_t peer_has() const noexcept { return window_ - in_use_ - owed_; }
    [[nodiscard]] bool noop_due() const noexcept {
        return owed_ != 0 && (2 * owed_ >= window_ || peer_has() <= preserve_);
    }
    /// The peer has stopped or soon will, because messages nobody asked for hold its vbufs.
    [[nodiscard]] bool peer_starves() const noexcept {
        return in_use_ != 0 && peer_has() <= preserve_;
    }

  private:
    std::uint32_t remote_ = 0;
    std::uint32_t window_ = 0;
    std::uint32_t preserve_ = 0;
    std::uint32_t in_use_ = 0;
    std::uint32_t owed_ = 0;
};

}  // namespace via::mvich
