// SPDX-License-Identifier: BSD-3-Clause
// Life of a shm endpoint: going live, asking for attention, closing.
#include "na/shm/shm_endpoint.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/settings.hpp"
#include "base/undo.hpp"
#include "na/shm/shm_nic_agent.hpp"

namespace via::na::shm {

ShmSettings ShmSettings::read() {
    const base::Settings& all = base::Settings::get();
    ShmSettings settings;
    settings.geometry.frame_lines = static_cast<std::uint32_t>(all.number("VIA_SHM_FRAME_LINES"));
    settings.geometry.direction_bytes =
        static_cast<std::uint32_t>(all.number("VIA_SHM_RING_BYTES"));
    // A direction too small for its frames gets the least that works.
    const auto least = static_cast<std::uint32_t>(
        sizeof(DirectionControl) + settings.geometry.frame_lines * sizeof(FrameLine) +
        least_ring_bytes);
    settings.geometry.direction_bytes = std::max(settings.geometry.direction_bytes, least);
    settings.inline_frames = all.flag("VIA_SHM_INLINE");
    settings.chunk_bytes = static_cast<std::uint32_t>(all.number("VIA_SHM_CHUNK_BYTES"));
    settings.kmem_bytes = static_cast<std::uint32_t>(all.number("VIA_SHM_KMEM_BYTES"));
    settings.single_copy_bytes =
        static_cast<std::uint32_t>(all.number("VIA_SHM_SINGLE_COPY_BYTES"));
    settings.allowed = allowed_paths();
    settings.kmem_bytes = std::min(settings.kmem_bytes, settings.single_copy_bytes);
    return settings;
}

ShmEndpoint::ShmEndpoint(ShmNicAgent& agent, QueuePair& queues, EndpointOwner& owner,
                         const EndpointGroups& groups, std::uint32_t index)
    : agent_(agent),
      queues_(queues),
      owner_(owner),
      groups_{static_cast<ShmPollGroup*>(groups.receive),
              groups.send == groups.receive ? nullptr : static_cast<ShmPollGroup*>(groups.send)},
      index_(index),
      rmmt_(agent.rmmt()),
      settings_(agent.settings()) {
    if (groups_[0] != nullptr) groups_[0]->join();
    base::Undo half_joined([&] {
        if (groups_[0] != nullptr) groups_[0]->leave(*this);
    });
    if (groups_[1] != nullptr) groups_[1]->join();
    half_joined.keep();
}

ShmEndpoint::~ShmEndpoint() {
    // Service thread and poll groups let go of it first; they hold their locks while they look. The
    // service thread before the groups, because it could hand it to them again.
    agent_.give_back_index(index_);
    for (ShmPollGroup* group : groups_)
        if (group != nullptr) group->leave(*this);
    disconnect();
}

base::Result<void> ShmEndpoint::attach(ka::Established&& established, const Geometry& geometry,
                                       std::shared_ptr<PeerProcess> peer,
                                       std::uint32_t remote_index, bool peer_has_barrier) {
    // A late ring for the last connection may have made it active again.
    for (ShmPollGroup* group : groups_)
        if (group != nullptr) group->remove(*this);
    const std::uint64_t bytes = geometry.channel_bytes();
    if (!geometry.sound() || established.channel_bytes < bytes)
        return base::Result<void>(base::Code::ProtocolViolation,
                                  "the peer proposed a channel with impossible sizes");
    if (auto sound = base::verify_memory_file(established.channel, bytes); !sound) return sound;
    auto mapping = base::Mapping::map(established.channel, bytes, base::Access::ReadWrite);
    if (!mapping) return std::move(mapping).error();
    channel_ = std::move(mapping).value();
    std::byte* first = channel_.data();
    std::byte* second = channel_.data() + geometry.direction_bytes;
    const Direction out = Direction::at(established.requester ? first : second, geometry);
    const Direction in = Direction::at(established.requester ? second : first, geometry);
    // Tracers know a direction by the process and the index of the end that receives.
    const auto stream = [](std::int32_t pid, std::uint32_t index) {
        return std::uint64_t{static_cast<std::uint32_t>(pid)} << 32 | index;
    };
    writer_.emplace(out, stream(peer->pid(), remote_index));
    reader_.emplace(in, stream(getpid(), index_));

    peer_ = std::move(peer);
    peer_identity_.store(peer_.get(), std::memory_order_release);
    connection_ = established.connection;
    remote_index_ = remote_index;
    fence_needed_ = !(peer_has_barrier && enable_asymmetric_barrier());
    chunk_bytes_ = std::min(settings_.chunk_bytes, writer_->longest_chunk());
    queues_.remote = established.remote_attributes;
    counters_ = queues_.counters;
    remote_table_ = nullptr;
    remote_region_cache_ = {};
    remote_arena_ = ka::no_arena;
    sends_at_once_ = settings_.inline_frames && !queues_.acknowledged();
    takes_plainly_ = sends_at_once_ && queues_.sink == nullptr;
    shows_plainly_ = queues_.sink != nullptr && !queues_.acknowledged();
    gathers_ = !queues_.acknowledged();
    queues_.shares_core.store(false, std::memory_order_relaxed);
    queues_.peer_on_core.store(false, std::memory_order_relaxed);
    queues_.next_frame = &writer_->next_frame();

    outbox_ = false;
    published_ = false;
    halted_ = false;
    closed_reported_ = false;
    peer_gone_.store(false);
    send_offset_ = 0;
    acknowledge_cursor_ = 0;
    awaiting_ = 0;
    references_ = 0;
    owed_.clear();
    reads_.clear();
    served_reads_.clear();
    arenas_offered_.clear();
    arenas_mapped_.clear();
    arena_answers_.clear();
    incoming_ = Incoming{};
    incoming_rdma_ = IncomingRdma{};
    idle_polls_ = 0;

    auto& mine = writer_->control().producer;
    mine.can_map.store(settings_.allowed.kmem ? 1 : 0, std::memory_order_relaxed);
    mine.can_pull.store(
        static_cast<std::uint32_t>(peer_->can_read() ? PullAbility::Yes : PullAbility::No),
        std::memory_order_release);
    // Until the program polls, the service thread is the NIC.
    reader_->control().attention.wanted.store(static_cast<std::uint32_t>(Wakes::Service),
                                              std::memory_order_relaxed);
    live_.store(true, std::memory_order_release);
    wake_groups();
    return {};
}

void ShmEndpoint::wake_groups() {
    left_to_ring_.store(false, std::memory_order_relaxed);
    for (ShmPollGroup* group : groups_)
        if (group != nullptr) group->woken(*this);
}

bool ShmEndpoint::may_be_left_to_ring() {
    // Before progress() takes the VI's lock: whoever posts after it sees this.
    left_to_ring_.store(true, std::memory_order_relaxed);
    return !owner_.progress();
}

void ShmEndpoint::arm(Wakes wakes) {
    if (!live()) return;
    auto& wanted = reader_->control().attention.wanted;
    if (wanted.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(wakes)) return;
    want_attention(wakes);
    if (wakes != Wakes::Nobody)
        asymmetric_barrier();
    else
        wake_groups();
}

void ShmEndpoint::nudge() {
    if (!live()) return;
    peer_->ring(remote_index_, Wakes::Service);
}

void ShmEndpoint::disconnect() {
    sends_at_once_ = false;
    gathers_ = false;
    queues_.next_frame = nullptr;
    if (!live_.exchange(false, std::memory_order_acq_rel)) return;
    writer_->control().producer.state.store(static_cast<std::uint32_t>(EndState::Closed),
                                            std::memory_order_release);
    peer_->ring(remote_index_, Wakes::Service);
    agent_.agent().disconnected(connection_);
}

}  // namespace via::na::shm
