// SPDX-License-Identifier: BSD-3-Clause
// The connections of one completion queue. A few are polled one by one; of many the kernel says
// which have packets.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/fd.hpp"
#include "na/nic_agent.hpp"

namespace via::na::net {

class NetEndpoint;

class NetPollGroup final : public PollGroup {
  public:
    bool poll() override;
    void arm(Wakes wakes) override;
    [[nodiscard]] bool shares_core() const noexcept override { return false; }

    void join(NetEndpoint& endpoint);
    void leave(NetEndpoint& endpoint);
    /// The VI's lock may be held.
    void connected(NetEndpoint& endpoint);
    void disconnected(NetEndpoint& endpoint);

  private:
    [[nodiscard]] bool asks_kernel() const noexcept {
        return epoll_.load(std::memory_order_relaxed) >= 0;
    }

    base::UniqueFd file_;
    std::atomic<int> epoll_{-1};  ///< the same, for threads without the lock
    /// Held while owners are called, so that no endpoint goes meanwhile.
    std::mutex mutex_;
    std::vector<NetEndpoint*> members_;
    std::atomic<std::uint32_t> live_members_{0};  ///< none: nothing to look at, and no lock needed
    std::uint32_t polls_ = 0;
};

}  // namespace via::na::net
