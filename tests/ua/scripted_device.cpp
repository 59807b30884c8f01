// SPDX-License-Identifier: BSD-3-Clause
#include "ua/scripted_device.hpp"

#include <algorithm>

namespace via::test {
namespace {

ScriptedDevice* device_of_process = nullptr;

}  // namespace

ScriptedEndpoint::ScriptedEndpoint(ScriptedDevice& device, na::QueuePair& queues,
                                   na::EndpointOwner& owner, const na::EndpointGroups& groups)
    : device_(device), queues_(queues), owner_(owner), groups_(groups) {}

ScriptedEndpoint::~ScriptedEndpoint() {
    {
        const std::lock_guard guard(device_.mutex_);
        std::erase(device_.endpoints_, this);
    }
    // A handler may end the VI while the test is still in arrive(), which made it run.
    const std::lock_guard arriving(mutex_);
}

void ScriptedEndpoint::arrive(Action action) {
    const std::lock_guard guard(mutex_);
    actions_.push_back(std::move(action));
    const na::Wakes wakes = armed_.exchange(na::Wakes::Nobody);
    if (wakes == na::Wakes::Nobody) return;
    na::Doorbell& doorbell = device_.process_.doorbell();
    na::ring_doorbell(doorbell.page(), doorbell.event(), 0, wakes);
}

void ScriptedEndpoint::complete_send(std::uint32_t status, std::uint32_t length) {
    arrive([=](na::QueuePair& queues) {
        if (queues.send.has_work()) queues.send.complete(queues.send.start(), status, length);
    });
}

void ScriptedEndpoint::complete_receive(std::uint32_t status, std::uint32_t length,
                                        std::uint32_t immediate) {
    arrive([=](na::QueuePair& queues) {
        if (queues.receive.has_work())
            queues.receive.complete(queues.receive.start(), status, length, immediate);
    });
}

void ScriptedEndpoint::report(na::EndpointEvent event) {
    arrive([=](na::QueuePair& queues) { queues.report(event); });
}

void ScriptedEndpoint::ring_send() {
    ++rings_;
    if (!eager_) return;
    while (queues_.send.has_work()) {
        const na::ChainHead head = na::decode_head(queues_.send.pds.at(0));
        queues_.send.complete(queues_.send.start(), 0, head.length);
    }
}

bool ScriptedEndpoint::take_send(std::uint64_t entry, na::PhysicalDescriptor segment,
                                 bool has_immediate, std::uint32_t immediate) {
    if (sends_to_take_ == 0) return false;
    --sends_to_take_;
    taken_.push_back({entry, segment, has_immediate ? std::optional(immediate) : std::nullopt});
    return true;
}

bool ScriptedEndpoint::has_actions() {
    const std::lock_guard guard(mutex_);
    return !actions_.empty();
}

bool ScriptedEndpoint::poll() {
    if (!live_) return false;
    std::deque<Action> actions;
    {
        const std::lock_guard guard(mutex_);
        actions.swap(actions_);
    }
    for (const Action& action : actions)
        action(queues_);
    return !actions.empty();
}

void ScriptedEndpoint::disconnect() {
    if (live_.exchange(false)) ++disconnects_;
}

bool ScriptedGroup::poll() {
    return device_.progress_all(this, false);
}

void ScriptedGroup::arm(na::Wakes wakes) {
    const std::lock_guard guard(device_.mutex_);
    for (ScriptedEndpoint* endpoint : device_.endpoints_)
        if (endpoint->groups_.send == this || endpoint->groups_.receive == this)
            endpoint->arm(wakes);
}

void ScriptedDevice::add() {
    ua::add_device({name, [](ua::Process& process) -> std::unique_ptr<na::NicAgent> {
                        auto device = std::make_unique<ScriptedDevice>(process);
                        device_of_process = device.get();
                        return device;
                    }});
}

ScriptedDevice& ScriptedDevice::get() noexcept {
    return *device_of_process;
}

ScriptedDevice::ScriptedDevice(ua::Process& process) : process_(process) {
    attributes_.name = name;
    attributes_.max_transfer_bytes = max_transfer_bytes;
    attributes_.native_mtu = 1500;
    attributes_.max_vis = 1024;
    attributes_.max_segments = max_segments;
    attributes_.reliability_levels =
        na::unreliable | na::reliable_delivery | na::reliable_reception;
    attributes_.rdma_read_levels = na::reliable_delivery | na::reliable_reception;
}

ScriptedEndpoint& ScriptedDevice::newest() {
    const std::lock_guard guard(mutex_);
    return *endpoints_.back();
}

std::size_t ScriptedDevice::endpoints() {
    const std::lock_guard guard(mutex_);
    return endpoints_.size();
}

void ScriptedDevice::reset() {
    on_connect = nullptr;
    on_peer_poll = nullptr;
    on_peer_wait = nullptr;
    on_create = nullptr;
    peer_cancels = 0;
    rejects = 0;
    serves = false;
}

std::unique_ptr<na::PollGroup> ScriptedDevice::create_poll_group() {
    return std::make_unique<ScriptedGroup>(*this);
}

base::Result<std::unique_ptr<na::Endpoint>> ScriptedDevice::create_endpoint(
    na::QueuePair& queues, na::EndpointOwner& owner, const na::EndpointGroups& groups) {
    if (on_create)
        if (auto outcome = on_create(); !outcome) return std::move(outcome).error();
    auto endpoint = std::make_unique<ScriptedEndpoint>(*this, queues, owner, groups);
    const std::lock_guard guard(mutex_);
    endpoints_.push_back(endpoint.get());
    return std::unique_ptr<na::Endpoint>(std::move(endpoint));
}

base::Result<ka::IncomingRequest> ScriptedDevice::connect_wait(const ka::NetAddress&,
                                                               base::Deadline, const void*) {
    return base::Result<ka::IncomingRequest>(base::Code::Timeout, "nobody connects to a script");
}

base::Result<void> ScriptedDevice::establish(na::Endpoint& endpoint,
                                             const na::ConnectTerms& terms) {
    auto& own = static_cast<ScriptedEndpoint&>(endpoint);
    if (on_connect)
        if (auto outcome = on_connect(own, terms); !outcome) return outcome;
    own.queues_.remote = own.queues_.local;
    own.queues_.remote.rights = 3;
    own.live_ = true;
    return {};
}

base::Result<void> ScriptedDevice::connect_accept(const ka::IncomingRequest&,
                                                  na::Endpoint& endpoint,
                                                  const na::ConnectTerms& terms, base::Deadline) {
    return establish(endpoint, terms);
}

base::Result<void> ScriptedDevice::connect_reject(std::uint64_t) {
    ++rejects;
    return {};
}

base::Result<void> ScriptedDevice::connect_request(na::Endpoint& endpoint,
                                                   const na::ConnectTerms& terms, base::Deadline) {
    return establish(endpoint, terms);
}

base::Result<std::uint64_t> ScriptedDevice::peer_request(na::Endpoint& endpoint,
                                                         const na::ConnectTerms& terms,
                                                         base::Deadline) {
    if (on_connect)
        if (auto outcome = on_connect(static_cast<ScriptedEndpoint&>(endpoint), terms); !outcome)
            return std::move(outcome).error();
    return std::uint64_t{77};
}

std::optional<base::Result<void>> ScriptedDevice::peer_poll(na::Endpoint& endpoint, std::uint64_t) {
    auto& own = static_cast<ScriptedEndpoint&>(endpoint);
    own.queues_.remote = own.queues_.local;
    if (on_peer_poll) {
        auto outcome = on_peer_poll(own);
        if (outcome && outcome->ok()) own.live_ = true;
        return outcome;
    }
    own.live_ = true;
    return base::Result<void>();
}

base::Result<void> ScriptedDevice::peer_wait(na::Endpoint& endpoint, std::uint64_t) {
    auto& own = static_cast<ScriptedEndpoint&>(endpoint);
    own.queues_.remote = own.queues_.local;
    base::Result<void> outcome;
    if (on_peer_wait) outcome = on_peer_wait(own);
    if (outcome) own.live_ = true;
    return outcome;
}

void ScriptedDevice::peer_cancel(std::uint64_t) {
    ++peer_cancels;
}

bool ScriptedDevice::progress_all(const ScriptedGroup* group, bool service) {
    const std::lock_guard guard(mutex_);
    bool result = false;
    for (ScriptedEndpoint* endpoint : endpoints_) {
        if (!endpoint->live_) continue;
        if (group != nullptr) {
            if (endpoint->groups_.send != group && endpoint->groups_.receive != group) continue;
            if (!endpoint->has_actions()) continue;
            endpoint->owner_.progress();
            result = true;
        } else if (endpoint->owner_.progress(service)) {
            result = true;
        }
    }
    return result;
}

bool ScriptedDevice::service() {
    ++services;
    return serves && progress_all(nullptr, true);
}

}  // namespace via::test
