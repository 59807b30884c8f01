// SPDX-License-Identifier: BSD-3-Clause
#include "na/shm/peer_process.hpp"

#include <poll.h>

#include "base/log.hpp"

namespace via::na::shm {
namespace {

constexpr std::uint32_t most_refused_arenas = 256;

}  // namespace

base::Result<std::shared_ptr<PeerProcess>> PeerProcess::create(ka::PeerGrant&& grant,
                                                               const ProbeTarget& probe,
                                                               AllowedPaths allowed,
                                                               ka::AgentClient& agent) {
    std::shared_ptr<PeerProcess> peer(new PeerProcess(agent));
    peer->pid_ = grant.pid;
    peer->pidfd_ = std::move(grant.pidfd);
    peer->doorbell_event_ = std::move(grant.doorbell_event);
    peer->allowed_ = allowed;

    if (auto sound = base::verify_memory_file(grant.doorbell_memory, sizeof(DoorbellPage)); !sound)
        return std::move(sound).error();
    auto doorbell =
        base::Mapping::map(grant.doorbell_memory, sizeof(DoorbellPage), base::Access::ReadWrite);
    if (!doorbell) return std::move(doorbell).error();
    peer->doorbell_mapping_ = std::move(doorbell).value();

    if (auto sound = base::verify_memory_file(grant.rmmt, ka::rmmt_bytes); !sound)
        return std::move(sound).error();
    auto rmmt = base::Mapping::map(grant.rmmt, ka::rmmt_bytes, base::Access::ReadOnly);
    if (!rmmt) return std::move(rmmt).error();
    peer->rmmt_mapping_ = std::move(rmmt).value();
    peer->rmmt_.store(reinterpret_cast<const ka::RmmtEntry*>(peer->rmmt_mapping_.data()));
    peer->table_epoch_ = grant.rmmt_epoch;
    peer->rmmt_epoch_.store(grant.rmmt_epoch);

    if (allowed.cma) peer->cma_ = probe_cma(peer->pid_, probe);
    return peer;
}

bool PeerProcess::gone() const noexcept {
    pollfd watched{pidfd_.get(), POLLIN, 0};
    return poll(&watched, 1, 0) == 1 && (watched.revents & POLLIN) != 0;
}

void PeerProcess::refresh_rmmt(std::uint64_t connection) {
    const std::lock_guard guard(mutex_);
    const std::uint32_t wanted = doorbell().rmmt_epoch.load(std::memory_order_acquire);
    if (wanted == rmmt_epoch_.load(std::memory_order_relaxed)) return;
    auto grant = agent_.peer_rmmt(connection);
    if (!grant) {
        base::log(base::LogLevel::Warning, "cannot get the new registration table of process " +
                                               std::to_string(pid_) + ": " +
                                               grant.error().sentence);
        return;  // asked again at the next RDMA; the old table still describes most regions
    }
    // The agent's word counts. The one on the page is written by the peer, who could otherwise have
    // this process map a table for each RDMA.
    if (grant.value().epoch == table_epoch_) {
        rmmt_epoch_.store(wanted, std::memory_order_relaxed);
        return;
    }
    if (!base::verify_memory_file(grant.value().file, ka::rmmt_bytes)) return;
    auto mapping = base::Mapping::map(grant.value().file, ka::rmmt_bytes, base::Access::ReadOnly);
    if (!mapping) return;
    old_tables_.push_back(std::move(rmmt_mapping_));
    rmmt_mapping_ = std::move(mapping).value();
    rmmt_.store(reinterpret_cast<const ka::RmmtEntry*>(rmmt_mapping_.data()),
                std::memory_order_release);
    table_epoch_ = grant.value().epoch;
    rmmt_epoch_.store(wanted, std::memory_order_relaxed);
}

std::span<std::byte> PeerProcess::arena(std::uint64_t connection, std::uint32_t arena) {
    if (!allowed_.kmem || arena == ka::no_arena) return {};
    const std::lock_guard guard(mutex_);
    auto found = arenas_.find(arena);
    if (found == arenas_.end()) {
        // A peer that offers what it has not got must not keep the agent busy for ever.
        if (arenas_refused_ >= most_refused_arenas) return {};
        Arena made;
        auto grant = agent_.peer_arena(connection, arena);
        if (grant && base::verify_memory_file(grant.value().file, grant.value().bytes)) {
            auto mapping = base::Mapping::map(grant.value().file, grant.value().bytes,
                                              base::Access::ReadWrite);
            if (mapping) made.mapping = std::move(mapping).value();
        } else if (!grant) {
            base::log(base::LogLevel::Info, "cannot map kmem arena " + std::to_string(arena) +
                                                " of process " + std::to_string(pid_) + ": " +
                                                grant.error().sentence);
        }
        if (!made.mapping.valid()) ++arenas_refused_;
        found = arenas_.emplace(arena, std::move(made)).first;
    }
    base::Mapping& mapping = found->second.mapping;
    return mapping.valid() ? std::span(mapping.data(), mapping.size()) : std::span<std::byte>();
}

}  // namespace via::na::shm
