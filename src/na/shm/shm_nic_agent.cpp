// SPDX-License-Identifier: BSD-3-Clause
#include "na/shm/shm_nic_agent.hpp"

#include <cstring>
#include <string>

#include "base/log.hpp"
#include "base/undo.hpp"
#include "ka/host_address.hpp"

namespace via::na::shm {
namespace {

/// What the two ends tell each other through the kernel agent.
struct Parameters {
    static constexpr std::uint32_t current = 0x53484D32;  // "SHM2": changes with the channel format
    std::uint32_t format = current;
    std::uint32_t frame_lines = 0;
    std::uint32_t direction_bytes = 0;
    std::uint32_t endpoint_index = 0;
    std::uint64_t probe_value_address = 0;
    std::uint64_t probe_value = 0;
    std::uint64_t probe_scratch_address = 0;
    std::uint32_t has_barrier = 0;
    std::uint32_t reserved[3] = {};
};
static_assert(sizeof(Parameters) <= ka::device_parameter_bytes);

Parameters decode_parameters(const ka::DeviceParameters& bytes) noexcept {
    Parameters parameters;
    std::memcpy(&parameters, bytes.data(), sizeof parameters);
    return parameters;
}

}  // namespace

ShmNicAgent::ShmNicAgent(ka::AgentClient& agent, Doorbell& doorbell, base::EventLoop& service)
    : agent_(agent),
      doorbell_(doorbell),
      service_(service),
      rmmt_(agent.rmmt()),
      settings_(ShmSettings::read()),
      barrier_(enable_asymmetric_barrier()) {
    attributes_.name = "shm0";
    attributes_.hardware_version = 1;
    attributes_.provider_version = 1;
    attributes_.address = ka::host_address();
    attributes_.max_transfer_bytes = 1U << 30;
    attributes_.native_mtu = settings_.geometry.ring_bytes();
    attributes_.max_vis = 16384;
    attributes_.max_segments = 252;
    attributes_.reliability_levels = unreliable | reliable_delivery | reliable_reception;
    attributes_.rdma_read_levels = reliable_delivery | reliable_reception;
}

ShmNicAgent::~ShmNicAgent() {
    const std::lock_guard guard(peers_mutex_);
    for (const auto& [key, known] : peers_)
        if (known.pidfd >= 0 && !known.process.expired()) service_.unwatch(known.pidfd);
}

std::unique_ptr<PollGroup> ShmNicAgent::create_poll_group() {
    return std::make_unique<ShmPollGroup>(*this);
}

base::Result<std::unique_ptr<Endpoint>> ShmNicAgent::create_endpoint(QueuePair& queues,
                                                                     EndpointOwner& owner,
                                                                     const EndpointGroups& groups) {
    return std::unique_ptr<Endpoint>(registry_.add([&](std::uint32_t index) {
        return std::make_unique<ShmEndpoint>(*this, queues, owner, groups, index);
    }));
}

void ShmNicAgent::collect_marks(bool visit_all) {
    DoorbellPage& page = doorbell_.page();
    std::uint64_t summary = page.summary.exchange(0, std::memory_order_acq_rel);
    if (summary == 0) return;
    for (; summary != 0; summary &= summary - 1) {
        const auto word = static_cast<std::uint32_t>(__builtin_ctzll(summary));
        std::uint64_t marks = page.marks[word].exchange(0, std::memory_order_acq_rel);
        for (; marks != 0; marks &= marks - 1) {
            const std::uint32_t bit =
                word * 64 + static_cast<std::uint32_t>(__builtin_ctzll(marks));
            // Endpoints beyond the page's size share marks.
            registry_.visit(bit, doorbell_endpoints, [&](ShmEndpoint& endpoint) {
                endpoint.rung();
                endpoint.wake_groups();
                // service() comes to all of them, but only it leaves the frames to their layer.
                if (visit_all && !endpoint.shows_frames()) endpoint.owner().progress();
            });
        }
    }
}

bool ShmNicAgent::service() {
    collect_marks(true);
    bool unfinished = false;
    registry_.visit_all([&](ShmEndpoint& endpoint) {
        if (endpoint.live() && endpoint.owner().progress(true)) unfinished = true;
    });
    return unfinished;
}

ka::ConnectOffer ShmNicAgent::make_offer(ShmEndpoint& endpoint, const ConnectTerms& terms,
                                         const Geometry& geometry) const {
    const ProbeTarget probe = own_probe_target();
    Parameters parameters;
    parameters.frame_lines = geometry.frame_lines;
    parameters.direction_bytes = geometry.direction_bytes;
    parameters.endpoint_index = endpoint.index();
    parameters.probe_value_address = probe.value_address;
    parameters.probe_value = probe.value;
    parameters.probe_scratch_address = probe.scratch_address;
    parameters.has_barrier = barrier_ ? 1 : 0;
    ka::ConnectOffer offer;
    offer.vi = terms.vi;
    offer.local = terms.local;
    offer.remote = terms.remote;
    offer.attributes = endpoint.local_attributes();
    std::memcpy(offer.parameters.data(), &parameters, sizeof parameters);
    offer.channel_bytes = geometry.channel_bytes();
    return offer;
}

base::Result<std::shared_ptr<PeerProcess>> ShmNicAgent::peer_of(ka::Established& established) {
    const auto key = std::make_pair(established.peer.agent_epoch, established.peer.process);
    const std::lock_guard guard(peers_mutex_);
    if (const auto found = peers_.find(key); found != peers_.end())
        if (auto process = found->second.process.lock()) return process;
    std::erase_if(peers_, [](const auto& entry) { return entry.second.process.expired(); });
    KnownPeer& known = peers_[key];
    const Parameters remote = decode_parameters(established.remote_parameters);
    const ProbeTarget probe{remote.probe_value_address, remote.probe_value,
                            remote.probe_scratch_address};
    auto made = PeerProcess::create(std::move(established.peer), probe, settings_.allowed, agent_);
    if (!made) return made;
    known.process = made.value();
    known.pidfd = made.value()->pidfd();
    const std::weak_ptr<PeerProcess> weak = made.value();
    const int pidfd = known.pidfd;
    made.value()->on_last_use([this, pidfd] { service_.unwatch(pidfd); });
    if (auto watched = service_.watch(pidfd,
                                      [this, weak, pidfd] {
                                          service_.unwatch(pidfd);
                                          peer_died(weak);
                                      });
        !watched)
        return std::move(watched).error();
    return made;
}

void ShmNicAgent::peer_died(std::weak_ptr<PeerProcess> weak) {
    const auto peer = weak.lock();
    if (!peer) return;
    registry_.visit_all([&](ShmEndpoint& endpoint) {
        if (endpoint.connects_to(*peer)) end_of(endpoint);
    });
}

void ShmNicAgent::end_of(ShmEndpoint& endpoint) {
    endpoint.peer_died();
    if (endpoint.shows_frames()) {
        // Only its layer may look at what the peer had published.
        endpoint.rung();
        endpoint.wake_groups();
        service_.start_ticking();
        return;
    }
    // The owner drains what the peer had published before it sees the end.
    for (int i = 0; i < 4096 && endpoint.live(); ++i)
        endpoint.owner().progress();
}

void ShmNicAgent::connection_lost(std::uint64_t connection) {
    registry_.visit_all([&](ShmEndpoint& endpoint) {
        if (endpoint.live() && endpoint.connection() == connection) end_of(endpoint);
    });
}

base::Result<void> ShmNicAgent::go_live(ShmEndpoint& endpoint, ka::Established&& established) {
    // If this end can not take it up, the other must not go on believing in it.
    const std::uint64_t connection = established.connection;
    base::Undo abandoned([&] { agent_.disconnected(connection); });
    const Parameters remote = decode_parameters(established.remote_parameters);
    if (remote.format != Parameters::current)
        return base::Result<void>(base::Code::NotSupported,
                                  "the peer's Viaduct speaks another shm channel format; use the "
                                  "same version on both sides");
    Geometry geometry = settings_.geometry;
    if (!established.requester) geometry = {remote.frame_lines, remote.direction_bytes};
    auto peer = peer_of(established);
    if (!peer) return std::move(peer).error();
    auto attached = endpoint.attach(std::move(established), geometry, peer.value(),
                                    remote.endpoint_index, remote.has_barrier != 0);
    if (attached) abandoned.keep();
    // Its end may have been noticed before there was an endpoint to tell.
    if (attached && (peer.value()->gone() || agent_.is_lost(connection))) endpoint.peer_died();
    return attached;
}

base::Result<ka::IncomingRequest> ShmNicAgent::connect_wait(const ka::NetAddress& local,
                                                            base::Deadline deadline,
                                                            const void* owner) {
    return agent_.connect_wait(local, deadline, owner);
}

void ShmNicAgent::cancel_waits(const void* owner) {
    agent_.cancel_waits(owner);
}

base::Result<void> ShmNicAgent::connect_accept(const ka::IncomingRequest& request,
                                               Endpoint& endpoint, const ConnectTerms& terms,
                                               base::Deadline deadline) {
    auto& own = static_cast<ShmEndpoint&>(endpoint);
    auto established = agent_.connect_accept(request.request,
                                             make_offer(own, terms, settings_.geometry), deadline);
    if (!established) return std::move(established).error();
    return go_live(own, std::move(established).value());
}

base::Result<void> ShmNicAgent::connect_reject(std::uint64_t request) {
    return agent_.connect_reject(request);
}

base::Result<void> ShmNicAgent::connect_request(Endpoint& endpoint, const ConnectTerms& terms,
                                                base::Deadline deadline) {
    auto& own = static_cast<ShmEndpoint&>(endpoint);
    auto established = agent_.connect_request(make_offer(own, terms, settings_.geometry), deadline);
    if (!established) return std::move(established).error();
    return go_live(own, std::move(established).value());
}

base::Result<std::uint64_t> ShmNicAgent::peer_request(Endpoint& endpoint, const ConnectTerms& terms,
                                                      base::Deadline deadline) {
    auto& own = static_cast<ShmEndpoint&>(endpoint);
    return agent_.peer_request(make_offer(own, terms, settings_.geometry), deadline);
}

std::optional<base::Result<void>> ShmNicAgent::peer_poll(Endpoint& endpoint,
                                                         std::uint64_t request) {
    auto established = agent_.peer_poll(request);
    if (!established) return std::nullopt;
    if (!*established) return base::Result<void>(std::move(*established).error());
    return go_live(static_cast<ShmEndpoint&>(endpoint), std::move(*established).value());
}

base::Result<void> ShmNicAgent::peer_wait(Endpoint& endpoint, std::uint64_t request) {
    auto established = agent_.peer_wait(request);
    if (!established) return std::move(established).error();
    return go_live(static_cast<ShmEndpoint&>(endpoint), std::move(established).value());
}

void ShmNicAgent::peer_cancel(std::uint64_t request) {
    agent_.peer_cancel(request);
}

}  // namespace via::na::shm
