// SPDX-License-Identifier: BSD-3-Clause
// What a program is told when the other end of its connection has gone.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/clock.hpp"
#include "vipl/harness.hpp"

namespace via::test {

/// The moment and the circumstances of CONN_LOST, taken inside the callback.
class LossWatcher {
  public:
    static void handle(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error) {
        static_cast<LossWatcher*>(context)->note(*error);
    }
    void note(const VIP_ERROR_DESCRIPTOR& error) {
        const base::Nanoseconds now = base::monotonic_now();
        const std::lock_guard guard(mutex_);
        if (retired_) return;
        VIP_VI_STATE state = VIP_STATE_IDLE;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_BOOLEAN send_empty = VIP_FALSE;
        VIP_BOOLEAN receive_empty = VIP_FALSE;
        if (error.ViHandle != nullptr) {
            EXPECT_VIP(VIP_SUCCESS, VipQueryVi(error.ViHandle, &state, &attributes, &send_empty,
                                               &receive_empty));
        }
        codes_.push_back(error.ErrorCode);
        if (error.ErrorCode == VIP_ERROR_CONN_LOST) {
            vi_ = error.ViHandle;
            state_ = state;
            moment_ = now;
        }
        changed_.notify_all();
    }
    [[nodiscard]] bool await() {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, patience, [&] { return moment_ != 0; });
    }
    [[nodiscard]] bool lost() {
        const std::lock_guard guard(mutex_);
        return moment_ != 0;
    }
    /// Before the VI is destroyed while its peer goes, too: what is told from now on may be about a
    /// VI that is no more.
    void retire() {
        const std::lock_guard guard(mutex_);
        retired_ = true;
    }
    /// After the NIC is closed.
    [[nodiscard]] base::Nanoseconds moment() const { return moment_; }
    [[nodiscard]] VIP_VI_STATE state() const { return state_; }
    [[nodiscard]] VIP_VI_HANDLE vi() const { return vi_; }
    [[nodiscard]] const std::vector<VIP_ERROR_CODE>& codes() const { return codes_; }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<VIP_ERROR_CODE> codes_;
    VIP_VI_HANDLE vi_ = nullptr;
    VIP_VI_STATE state_ = VIP_STATE_IDLE;
    base::Nanoseconds moment_ = 0;
    bool retired_ = false;
};

}  // namespace via::test
