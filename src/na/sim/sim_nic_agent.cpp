// SPDX-License-Identifier: BSD-3-Clause
#include "na/sim/sim_nic_agent.hpp"

#include <algorithm>
#include <utility>

#include "base/settings.hpp"
#include "sim/model/switch.hpp"

namespace via::na::sim {
namespace {

/// News that the service thread hands over in one call.
constexpr int most_turns = 4096;

base::Error not_here(const World& world, const std::string& wanted) {
    return {base::Code::InvalidArgument, "the simulated hosts have the NIC " + world.nic_name() +
                                             ", not " + wanted + "; open that one"};
}

}  // namespace

SimNicAgent::SimNicAgent(std::string name, ka::AgentClient& agent, base::EventLoop& service)
    : name_(std::move(name)), agent_(agent), service_(service) {
    attributes_.name = name_;
    attributes_.address = World::address_of(0);
    attributes_.simulated = true;
}

const NicAttributes& SimNicAgent::attributes() const {
    const World* world = World::of_thread();
    return world != nullptr ? world->attributes(World::host_of_thread()) : attributes_;
}

base::Result<SimNicAgent::Place*> SimNicAgent::here() {
    using Found = base::Result<Place*>;
    World* world = World::of_thread();
    if (world != nullptr && world->nic_name() != name_) return Found(not_here(*world, name_));
    const std::lock_guard guard(places_mutex_);
    if (world == nullptr && !common_) {
        const base::Settings& settings = base::Settings::get();
        auto made = World::create(
            {name_, settings.text("VIA_SIM_MACHINE"), settings.text("VIA_SIM_FIRMWARE"), 0, 1});
        if (!made) return std::move(made).error();
        common_ = std::move(made).value();
        attributes_ = common_->attributes(0);
    }
    if (world == nullptr) world = common_.get();
    std::erase_if(places_, [](const auto& entry) { return entry.second.world.expired(); });
    Place& place = places_[world];
    if (!place.switchboard) {
        place.world = world->weak_from_this();
        place.switchboard = std::make_unique<Switchboard>(*world);
    }
    return &place;
}

std::uint32_t SimNicAgent::host_here() const noexcept {
    return World::of_thread() != nullptr ? World::host_of_thread() : 0;
}

base::Result<void> SimNicAgent::may_open() {
    if (auto place = here(); !place) return std::move(place).error();
    return {};
}

std::optional<NicAddress> SimNicAgent::find_host(std::string_view name) {
    const World* world = World::of_thread();
    if (world == nullptr) return std::nullopt;
    for (std::uint32_t host = 0; host < world->hosts(); ++host)
        if (model::host_name(host) == name) return World::address_of(host);
    return std::nullopt;
}

std::unique_ptr<PollGroup> SimNicAgent::create_poll_group() {
    return std::make_unique<SimPollGroup>();
}

base::Result<std::unique_ptr<Endpoint>> SimNicAgent::create_endpoint(QueuePair& queues,
                                                                     EndpointOwner& owner,
                                                                     const EndpointGroups& groups) {
    auto place = here();
    if (!place) return std::move(place).error();
    const base::Settings& settings = base::Settings::get();
    const auto small = static_cast<std::uint32_t>(settings.number("VIA_PD_SMALL_RING"));
    const auto low_water = static_cast<std::uint32_t>(settings.number("VIA_PD_LOW_WATER"));
    const std::uint32_t host = host_here();
    const std::shared_ptr<World> world = place.value()->world.lock();
    auto vi =
        std::make_shared<NicVi>(*world, host, agent_.rmmt(), small, std::min(low_water, small - 1));
    return std::unique_ptr<Endpoint>(
        std::make_unique<SimEndpoint>(*this, world, host, queues, owner, groups, std::move(vi)));
}

void SimNicAgent::add(SimEndpoint& endpoint) {
    const std::unique_lock guard(endpoints_mutex_);
    endpoints_.push_back(&endpoint);
}

void SimNicAgent::remove(SimEndpoint& endpoint) {
    const std::unique_lock guard(endpoints_mutex_);
    std::erase(endpoints_, &endpoint);
}

/// Nobody may be polling: what is under way goes on, and whoever has news is told.
bool SimNicAgent::service() {
    std::shared_ptr<World> world;
    {
        const std::lock_guard guard(places_mutex_);
        world = common_;
    }
    if (!world) return false;
    bool more = false;
    {
        World::Lock lock = world->lock();
        more = world->advance(lock);
    }
    const std::shared_lock guard(endpoints_mutex_);
    const std::lock_guard delivering(world->delivery(0));
    // The oldest first, so that a completion queue gets them in their order; others may get news
    // meanwhile, so all are asked each time.
    std::uint64_t last = 0;
    for (int turns = 0; turns < most_turns; ++turns) {
        SimEndpoint* next = nullptr;
        std::uint64_t oldest = 0;
        for (SimEndpoint* endpoint : endpoints_) {
            if (&endpoint->world() != world.get() || !endpoint->has_news()) continue;
            const std::uint64_t order = endpoint->oldest_news();
            // A VI that is not connected, or not yet, takes none.
            if (order == NicVi::no_news || order <= last || (next != nullptr && order >= oldest))
                continue;
            next = endpoint;
            oldest = order;
        }
        if (next == nullptr) break;
        last = oldest;
        next->owner().progress();
    }
    // What happened besides comes after all completions.
    for (SimEndpoint* endpoint : endpoints_)
        if (&endpoint->world() == world.get() && endpoint->has_news()) {
            if (endpoint->oldest_news() == NicVi::no_news)
                endpoint->owner().progress();
            else
                more = true;
        }
    return more;
}

// ---- connections --------------------------------------------------------------------------------

Switchboard& SimNicAgent::board_of(SimEndpoint& endpoint) {
    const std::lock_guard guard(places_mutex_);
    return *places_.at(&endpoint.world()).switchboard;
}

ka::ConnectOffer SimNicAgent::make_offer(const SimEndpoint& endpoint, const ConnectTerms& terms) {
    ka::ConnectOffer offer;
    offer.vi = terms.vi;
    offer.local = terms.local;
    offer.remote = terms.remote;
    offer.attributes = endpoint.local();
    return offer;
}

base::Result<void> SimNicAgent::go_live(SimEndpoint& endpoint, Switchboard::Answer&& answer) {
    if (!answer) return std::move(answer).error();
    endpoint.connected(answer.value());
    return {};
}

base::Result<ka::IncomingRequest> SimNicAgent::connect_wait(const ka::NetAddress& local,
                                                            base::Deadline deadline,
                                                            const void* owner) {
    auto place = here();
    if (!place) return std::move(place).error();
    return place.value()->switchboard->wait(host_here(), local, deadline, owner);
}

void SimNicAgent::cancel_waits(const void* owner) {
    std::vector<Switchboard*> boards;
    {
        const std::lock_guard guard(places_mutex_);
        for (auto& [world, place] : places_)
            boards.push_back(place.switchboard.get());
    }
    for (Switchboard* board : boards)
        board->cancel_waits(owner);
}

base::Result<void> SimNicAgent::connect_accept(const ka::IncomingRequest& request,
                                               Endpoint& endpoint, const ConnectTerms& terms,
                                               base::Deadline) {
    auto& own = static_cast<SimEndpoint&>(endpoint);
    return go_live(own, board_of(own).accept(request.request, own.vi(), make_offer(own, terms)));
}

base::Result<void> SimNicAgent::connect_reject(std::uint64_t request) {
    auto place = here();
    if (!place) return std::move(place).error();
    return place.value()->switchboard->reject(host_here(), request);
}

base::Result<void> SimNicAgent::connect_request(Endpoint& endpoint, const ConnectTerms& terms,
                                                base::Deadline deadline) {
    auto& own = static_cast<SimEndpoint&>(endpoint);
    return go_live(own, board_of(own).request(own.vi(), make_offer(own, terms), deadline));
}

base::Result<std::uint64_t> SimNicAgent::peer_request(Endpoint& endpoint, const ConnectTerms& terms,
                                                      base::Deadline deadline) {
    auto& own = static_cast<SimEndpoint&>(endpoint);
    return board_of(own).peer_request(own.vi(), make_offer(own, terms), deadline);
}

std::optional<base::Result<void>> SimNicAgent::peer_poll(Endpoint& endpoint,
                                                         std::uint64_t request) {
    auto& own = static_cast<SimEndpoint&>(endpoint);
    auto answer = board_of(own).peer_poll(request);
    if (!answer) return std::nullopt;
    return go_live(own, std::move(*answer));
}

base::Result<void> SimNicAgent::peer_wait(Endpoint& endpoint, std::uint64_t request) {
    auto& own = static_cast<SimEndpoint&>(endpoint);
    return go_live(own, board_of(own).peer_wait(request));
}

void SimNicAgent::peer_cancel(std::uint64_t request) {
    // Called by whoever disconnects the VI, on its host or in the common world.
    auto place = here();
    if (place) place.value()->switchboard->peer_cancel(request);
}

// ---- poll groups --------------------------------------------------------------------------------

void SimPollGroup::join(SimEndpoint& endpoint) {
    const std::lock_guard guard(mutex_);
    members_.push_back(&endpoint);
}

void SimPollGroup::leave(SimEndpoint& endpoint) {
    const std::lock_guard guard(mutex_);
    std::erase(members_, &endpoint);
}

bool SimPollGroup::poll() {
    std::unique_lock guard(mutex_);
    const auto has_news = [](SimEndpoint* endpoint) { return endpoint->has_news(); };
    if (!members_.empty() && std::none_of(members_.begin(), members_.end(), has_news)) {
        // Time passes for the host, whose other VIs may get news as well.
        const std::shared_ptr<World> polled = members_.front()->world().shared_from_this();
        const std::uint32_t host = members_.front()->host();
        guard.unlock();
        {
            World::Lock lock = polled->lock();
            polled->poll_in_vain(lock, host);
        }
        guard.lock();
    }
    if (members_.empty()) return false;
    // The oldest news first; what else has come is found by the next poll.
    const std::shared_ptr<World> world = members_.front()->world().shared_from_this();
    const std::lock_guard delivering(world->delivery(members_.front()->host()));
    SimEndpoint* next = nullptr;
    std::uint64_t oldest = 0;
    for (SimEndpoint* member : members_) {
        if (!member->has_news()) continue;
        const std::uint64_t order = member->oldest_news();
        if (next != nullptr && order >= oldest) continue;
        next = member;
        oldest = order;
    }
    if (next == nullptr) return false;
    next->owner().progress();
    return true;
}

void SimPollGroup::arm(Wakes wakes) {
    const std::lock_guard guard(mutex_);
    if (!members_.empty()) members_.front()->arm(wakes);
}

}  // namespace via::na::sim
