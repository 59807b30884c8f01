// SPDX-License-Identifier: BSD-3-Clause
#include "na/auto/auto_nic_agent.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/settings.hpp"
#include "ka/host_address.hpp"

namespace via::na::any {
namespace {

constexpr const char* local_name = "shm0";
constexpr const char* remote_name = "net0";

}  // namespace

AutoNicAgent::AutoNicAgent(ka::AgentClient& agent, Find find)
    : agent_(agent), find_(std::move(find)), here_([] {
          const auto port =
              static_cast<std::uint16_t>(base::Settings::get().number("VIA_NET_PORT"));
          return port != 0 ? port : ka::usual_net_port(getuid());
      }()) {
    attributes_.name = "auto";
}

base::Result<void> AutoNicAgent::may_open() {
    auto local = find_(local_name);
    if (!local) return std::move(local).error();
    auto remote = find_(remote_name);
    if (!remote) return std::move(remote).error();
    if (auto allowed = local.value()->may_open(); !allowed) return allowed;
    if (auto allowed = remote.value()->may_open(); !allowed) return allowed;
    const std::lock_guard guard(here_mutex_);
    if (local_ != nullptr) return {};
    // What both can do, at the address that other hosts know.
    const NicAttributes& inside = local.value()->attributes();
    const NicAttributes& outside = remote.value()->attributes();
    attributes_ = outside;
    attributes_.name = "auto";
    attributes_.max_transfer_bytes =
        std::min(inside.max_transfer_bytes, outside.max_transfer_bytes);
    attributes_.max_vis = std::min(inside.max_vis, outside.max_vis);
    attributes_.max_segments = std::min(inside.max_segments, outside.max_segments);
    attributes_.reliability_levels = inside.reliability_levels & outside.reliability_levels;
    attributes_.rdma_read_levels = inside.rdma_read_levels & outside.rdma_read_levels;
    local_ = local.value();
    remote_ = remote.value();
    return {};
}

std::optional<NicAddress> AutoNicAgent::find_host(std::string_view name) {
    return remote_->find_host(name);
}

base::Result<void> AutoNicAgent::set_link_policy(std::string_view policy, std::uint32_t slot) {
    const std::lock_guard guard(here_mutex_);
    return remote_ != nullptr ? remote_->set_link_policy(policy, slot) : no_link_policy();
}

std::unique_ptr<PollGroup> AutoNicAgent::create_poll_group() {
    return std::make_unique<AutoPollGroup>(local_->create_poll_group(),
                                           remote_->create_poll_group());
}

base::Result<std::unique_ptr<Endpoint>> AutoNicAgent::create_endpoint(
    QueuePair& queues, EndpointOwner& owner, const EndpointGroups& groups) {
    const auto part = [](PollGroup* group, bool local) -> PollGroup* {
        if (group == nullptr) return nullptr;
        auto* both = static_cast<AutoPollGroup*>(group);
        return local ? &both->local() : &both->remote();
    };
    auto inside = local_->create_endpoint(queues, owner,
                                          {part(groups.send, true), part(groups.receive, true)});
    if (!inside) return inside;
    auto outside = remote_->create_endpoint(
        queues, owner, {part(groups.send, false), part(groups.receive, false)});
    if (!outside) return outside;
    return std::unique_ptr<Endpoint>(
        std::make_unique<AutoEndpoint>(std::move(inside).value(), std::move(outside).value()));
}

bool AutoNicAgent::is_here(const ka::NetAddress& address) {
    const std::lock_guard guard(here_mutex_);
    const ka::NetAddress plain = here_.canonical(address, base::monotonic_now());
    const ka::HostAddress& own = here_.own();
    return plain.host_bytes == own.size() && std::equal(own.begin(), own.end(), plain.host.begin());
}

AutoNicAgent::Choice AutoNicAgent::choose(AutoEndpoint& endpoint, bool local) const {
    endpoint.choose(local);
    return chosen(endpoint);
}

AutoNicAgent::Choice AutoNicAgent::chosen(AutoEndpoint& endpoint) const {
    return {endpoint.chose_local() ? *local_ : *remote_, endpoint.carrier()};
}

base::Result<ka::IncomingRequest> AutoNicAgent::connect_wait(const ka::NetAddress& local,
                                                             base::Deadline deadline,
                                                             const void* owner) {
    return agent_.connect_wait(local, deadline, owner, ka::all_fabrics);
}

void AutoNicAgent::cancel_waits(const void* owner) {
    agent_.cancel_waits(owner);
}

base::Result<void> AutoNicAgent::connect_accept(const ka::IncomingRequest& request,
                                                Endpoint& endpoint, const ConnectTerms& terms,
                                                base::Deadline deadline) {
    const Choice choice =
        choose(static_cast<AutoEndpoint&>(endpoint), request.fabric == ka::fabric_shm);
    return choice.device.connect_accept(request, choice.endpoint, terms, deadline);
}

base::Result<void> AutoNicAgent::connect_reject(std::uint64_t request) {
    return agent_.connect_reject(request);
}

base::Result<void> AutoNicAgent::connect_request(Endpoint& endpoint, const ConnectTerms& terms,
                                                 base::Deadline deadline) {
    auto& own = static_cast<AutoEndpoint&>(endpoint);
    if (is_here(terms.remote)) {
        const Choice choice = choose(own, true);
        auto connected = choice.device.connect_request(choice.endpoint, terms, deadline);
        if (connected || connected.error().code != base::Code::NoMatch) return connected;
        // Whoever waits there may have opened net0.
    }
    const Choice choice = choose(own, false);
    return choice.device.connect_request(choice.endpoint, terms, deadline);
}

base::Result<std::uint64_t> AutoNicAgent::peer_request(Endpoint& endpoint,
                                                       const ConnectTerms& terms,
                                                       base::Deadline deadline) {
    const Choice choice = choose(static_cast<AutoEndpoint&>(endpoint), is_here(terms.remote));
    return choice.device.peer_request(choice.endpoint, terms, deadline);
}

std::optional<base::Result<void>> AutoNicAgent::peer_poll(Endpoint& endpoint,
                                                          std::uint64_t request) {
    const Choice choice = chosen(static_cast<AutoEndpoint&>(endpoint));
    return choice.device.peer_poll(choice.endpoint, request);
}

base::Result<void> AutoNicAgent::peer_wait(Endpoint& endpoint, std::uint64_t request) {
    const Choice choice = chosen(static_cast<AutoEndpoint&>(endpoint));
    return choice.device.peer_wait(choice.endpoint, request);
}

void AutoNicAgent::peer_cancel(std::uint64_t request) {
    agent_.peer_cancel(request);
}

}  // namespace via::na::any
