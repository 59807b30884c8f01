// SPDX-License-Identifier: BSD-3-Clause
// The process at the other end, shared by all connections to it: its RMMT, doorbell and the kmem
// arenas that are mapped here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/memory_file.hpp"
#include "base/result.hpp"
#include "ka/client.hpp"
#include "na/doorbell.hpp"
#include "na/shm/copy_paths.hpp"

namespace via::na::shm {

class PeerProcess {
  public:
    /// Takes over the grant's descriptors.
    [[nodiscard]] static base::Result<std::shared_ptr<PeerProcess>> create(ka::PeerGrant&& grant,
                                                                           const ProbeTarget& probe,
                                                                           AllowedPaths allowed,
                                                                           ka::AgentClient& agent);
    ~PeerProcess() {
        if (last_use_) last_use_();
    }
    /// Runs when the last connection to the process is gone.
    void on_last_use(std::function<void()> action) { last_use_ = std::move(action); }

    [[nodiscard]] std::int32_t pid() const noexcept { return pid_; }
    [[nodiscard]] int pidfd() const noexcept { return pidfd_.get(); }
    [[nodiscard]] bool can_read() const noexcept { return cma_.read; }
    [[nodiscard]] bool can_write() const noexcept { return cma_.write; }
    [[nodiscard]] bool gone() const noexcept;  ///< asks the kernel, through the pidfd

    [[nodiscard]] DoorbellPage& doorbell() noexcept {
        return *reinterpret_cast<DoorbellPage*>(doorbell_mapping_.data());
    }
    void ring(std::uint32_t index, Wakes wakes) noexcept {
        ring_doorbell(doorbell(), doorbell_event_.get(), index, wakes);
    }

    /// The peer's present table of regions. Tables stay mapped while this object lives.
    [[nodiscard]] ka::RmmtView regions(std::uint64_t connection) {
        if (doorbell().rmmt_epoch.load(std::memory_order_relaxed) !=
            rmmt_epoch_.load(std::memory_order_relaxed)) [[unlikely]]
            refresh_rmmt(connection);
        return ka::RmmtView(base::load_pointer(rmmt_));
    }
    /// An arena of the peer as it is mapped here, empty if it can not be. Asks the agent for it
    /// once; the connection proves the right to it. It stays mapped while this object lives.
    [[nodiscard]] std::span<std::byte> arena(std::uint64_t connection, std::uint32_t arena);

  private:
    explicit PeerProcess(ka::AgentClient& agent) : agent_(agent) {}
    void refresh_rmmt(std::uint64_t connection);

    struct Arena {
        base::Mapping mapping;  ///< invalid: refused, not asked again
    };

    ka::AgentClient& agent_;
    std::function<void()> last_use_;
    std::int32_t pid_ = 0;
    base::UniqueFd pidfd_;
    base::UniqueFd doorbell_event_;
    base::Mapping doorbell_mapping_;
    AllowedPaths allowed_;
    ProbeResult cma_;

    std::mutex mutex_;
    base::Mapping rmmt_mapping_;
    std::vector<base::Mapping> old_tables_;  ///< another thread may still be reading one
    std::atomic<const ka::RmmtEntry*> rmmt_{nullptr};
    std::uint32_t table_epoch_ = 0;             ///< of the mapped table, by the agent
    std::atomic<std::uint32_t> rmmt_epoch_{0};  ///< on the peer's page when that was looked at
    std::map<std::uint32_t, Arena> arenas_;
    std::uint32_t arenas_refused_ = 0;
};

}  // namespace via::na::shm
