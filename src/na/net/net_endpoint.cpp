// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/net_endpoint.hpp"

#include <sys/epoll.h>

#include <string>
#include <utility>

#include "na/net/net_nic_agent.hpp"
#include "na/net/net_poll_group.hpp"

namespace via::na::net {

NetEndpoint::NetEndpoint(NetNicAgent& agent, QueuePair& queues, EndpointOwner& owner,
                         const EndpointGroups& groups, std::uint32_t index)
    : agent_(agent),
      queues_(queues),
      owner_(owner),
      groups_{static_cast<NetPollGroup*>(groups.receive),
              groups.send == groups.receive ? nullptr : static_cast<NetPollGroup*>(groups.send)},
      index_(index) {
    for (NetPollGroup* group : groups_)
        if (group != nullptr) group->join(*this);
}

NetEndpoint::~NetEndpoint() {
    for (NetPollGroup* group : groups_)
        if (group != nullptr) group->leave(*this);
    agent_.give_back_index(index_);
    disconnect();
}

void NetEndpoint::go_live(std::unique_ptr<Conversation> conversation, std::uint64_t connection) {
    {
        const std::lock_guard guard(watch_mutex_);
        descriptors_.clear();
        for (const LinkEnd& end : conversation->links())
            if (end.port->descriptor() >= 0) descriptors_.push_back(end.port->descriptor());
        armed_ = Wakes::Nobody;
    }
    conversation_ = std::move(conversation);
    connection_ = connection;
    deadline_.store(conversation_->next_deadline(), std::memory_order_relaxed);
    show_policy();
    queues_.polls_kernel.store(true, std::memory_order_relaxed);
    queues_.takes_sends = true;
    live_.store(true, std::memory_order_release);
    for (NetPollGroup* group : groups_)
        if (group != nullptr) group->connected(*this);
}

void NetEndpoint::ring_send() {
    if (!conversation_) return;
    try {
        conversation_->post();
    } catch (const std::bad_alloc&) {
        queues_.report(EndpointEvent::OutOfMemory);
    }
    busy_.store(true, std::memory_order_relaxed);
}

bool NetEndpoint::take_send(std::uint64_t entry, PhysicalDescriptor segment, bool has_immediate,
                            std::uint32_t immediate) {
    if (!conversation_) return false;
    bool taken = false;
    try {
        taken = conversation_->take_send(entry, segment, has_immediate, immediate);
        if (taken) conversation_->post();
    } catch (const std::bad_alloc&) {
        queues_.report(EndpointEvent::OutOfMemory);
    }
    busy_.store(true, std::memory_order_relaxed);
    return taken;
}

bool NetEndpoint::poll() {
    if (!conversation_) return false;
    polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    bool any = false;
    try {
        if (told_.load(std::memory_order_relaxed)) [[unlikely]]
            take_up();
        any = conversation_->poll(!asleep());
    } catch (const std::bad_alloc&) {
        queues_.report(EndpointEvent::OutOfMemory);
        any = true;
    }
    busy_.store(conversation_->unfinished(), std::memory_order_relaxed);
    deadline_.store(conversation_->due(), std::memory_order_relaxed);
    return any;
}

base::Nanoseconds NetEndpoint::respite() {
    if (!conversation_) return 0;
    try {
        return conversation_->respite();
    } catch (const std::bad_alloc&) {
        queues_.report(EndpointEvent::OutOfMemory);
        return 0;
    }
}

base::Result<void> NetEndpoint::set_link_policy(std::string_view policy) {
    const auto kind = parse_policy(policy);
    if (!kind) return kind.error();
    want_policy(kind.value());
    if (live()) follow_policy();
    return {};
}

void NetEndpoint::take_up() {
    if (!told_.exchange(false, std::memory_order_acquire)) return;
    if (wanted_policy() != conversation_->policy()) follow_policy();
    if (interfaces_changed_.exchange(false, std::memory_order_relaxed))
        conversation_->interfaces_are(agent_.running_interfaces());
}

void NetEndpoint::follow_policy() {
    conversation_->set_policy(wanted_policy());
    show_policy();
}

void NetEndpoint::show_policy() noexcept {
    if (queues_.counters == nullptr) return;
    queues_.counters->link_policy.set(
        conversation_ ? static_cast<std::uint64_t>(conversation_->policy()) + 1 : 0);
}

bool NetEndpoint::unfinished() const {
    return conversation_ && conversation_->unfinished();
}

void NetEndpoint::arm(Wakes wakes) {
    if (!conversation_) return;
    if (wakes != Wakes::Nobody)
        deadline_.store(conversation_->next_deadline(), std::memory_order_relaxed);
    want_attention(wakes);
}

void NetEndpoint::want_attention(Wakes wakes) {
    const std::lock_guard guard(watch_mutex_);
    // Whoever is woken by it, the service thread is, and calls the owner.
    const bool wanted = wakes != Wakes::Nobody;
    const bool was = asleep();
    armed_ = wakes;
    if (wanted) agent_.wake_at(deadline());
    if (wanted == was) return;
    watch_descriptors(wanted);
}

/// A set that a descriptor is in costs each packet a call, and its sender's core makes it, even if
/// nothing is asked of the set. So it is in one only while somebody sleeps.
void NetEndpoint::watch_descriptors(bool watched) noexcept {
    for (const int descriptor : descriptors_) {
        if (watched)
            agent_.watch(descriptor, index_);
        else
            agent_.unwatch(descriptor);
    }
}

void NetEndpoint::watch_in(int epoll, bool watched) {
    const std::lock_guard guard(watch_mutex_);
    for (const int descriptor : descriptors_) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.ptr = this;
        epoll_ctl(epoll, watched ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, descriptor, &event);
    }
}

void NetEndpoint::disconnect() {
    if (!live_.exchange(false, std::memory_order_acq_rel)) return;
    queues_.polls_kernel.store(false, std::memory_order_relaxed);
    queues_.takes_sends = false;
    for (NetPollGroup* group : groups_)
        if (group != nullptr) group->disconnected(*this);
    {
        const std::lock_guard guard(watch_mutex_);
        if (asleep()) watch_descriptors(false);
        descriptors_.clear();
        armed_ = Wakes::Nobody;
    }
    conversation_->disconnect();
    agent_.say_goodbye(std::move(conversation_), connection_);
    show_policy();
}

}  // namespace via::na::net
