// SPDX-License-Identifier: BSD-3-Clause
#include "na/sim/sim_endpoint.hpp"

#include <unistd.h>

#include <utility>

#include "na/sim/sim_nic_agent.hpp"

namespace via::na::sim {

SimEndpoint::SimEndpoint(SimNicAgent& agent, std::shared_ptr<World> world, std::uint32_t host,
                         QueuePair& queues, EndpointOwner& owner, const EndpointGroups& groups,
                         std::shared_ptr<NicVi> vi)
    : agent_(agent),
      world_(std::move(world)),
      host_(host),
      queues_(queues),
      owner_(owner),
      groups_{static_cast<SimPollGroup*>(groups.receive),
              groups.send == groups.receive ? nullptr : static_cast<SimPollGroup*>(groups.send)},
      vi_(std::move(vi)) {
    queues_.rings_receives = true;
    for (SimPollGroup* group : groups_)
        if (group != nullptr) group->join(*this);
    agent_.add(*this);
}

SimEndpoint::~SimEndpoint() {
    agent_.remove(*this);
    for (SimPollGroup* group : groups_)
        if (group != nullptr) group->leave(*this);
    disconnect();
}

/// The chain at the front of the queue, which leaves it.
NicVi::Chain SimEndpoint::take_chain(WorkQueue& queue) {
    NicVi::Chain chain;
    const std::uint32_t pds = decode_head(queue.pds.at(0)).chain_pds();
    chain.pds.reserve(pds);
    for (std::uint32_t i = 0; i < pds; ++i)
        chain.pds.push_back(queue.pds.at(i));
    chain.number = queue.start();
    return chain;
}

void SimEndpoint::ring_send() {
    World::Lock lock = world_->lock();
    while (vi_->connected() && queues_.send.has_work()) {
        NicVi::Chain chain = take_chain(queues_.send);
        const ChainHead head = chain.head();
        if (head.operation == Operation::RdmaWrite)
            queues_.counters->rdma_writes.add();
        else if (head.operation == Operation::RdmaRead)
            queues_.counters->rdma_reads.add();
        else
            queues_.counters->sent_messages[static_cast<std::size_t>(base::DataPath::Ring)].add();
        (head.operation == Operation::Send ? queues_.counters->sent_bytes
                                           : queues_.counters->rdma_bytes)
            .add(head.length);
        world_->perform(lock, host_, vi_->post(std::move(chain)));
    }
    if (World::of_thread() == nullptr) agent_.go_on();
}

void SimEndpoint::ring_receive() {
    const World::Lock lock = world_->lock();
    while (queues_.receive.has_work())
        vi_->post_receive(take_chain(queues_.receive));
}

bool SimEndpoint::poll() {
    World::Lock lock = world_->lock();
    if (vi_->has_news())
        world_->poll_in_luck(lock, host_);
    else
        world_->poll_in_vain(lock, host_);
    return hand_over_news();
}

/// One at a time, so that a completion queue can take several VIs' in the order in which they came.
bool SimEndpoint::hand_over_news() {
    const std::optional<HostNews> news = vi_->take_news();
    if (news) {
        WorkQueue& queue = news->receive ? queues_.receive : queues_.send;
        if (news->remote_write) queue.at(news->number).operation_bits = status_op_remote_rdma_write;
        queue.complete(news->number, news->status, news->length, news->immediate);
        if (news->receive) {
            queues_.counters->received_messages[static_cast<std::size_t>(base::DataPath::Ring)]
                .add();
            queues_.counters->received_bytes.add(news->length);
        }
    }
    const std::uint32_t events = vi_->take_events();
    queues_.events |= events;
    return news || events != 0;
}

std::uint64_t SimEndpoint::oldest_news() {
    const World::Lock lock = world_->lock();
    return vi_->oldest_news();
}

bool SimEndpoint::has_news() {
    const World::Lock lock = world_->lock();
    return vi_->has_news();
}

void SimEndpoint::arm(Wakes wakes) {
    const World::Lock lock = world_->lock();
    world_->falls_asleep(host_, wakes == Wakes::Sleeper);
}

bool SimEndpoint::unfinished() const {
    const World::Lock lock = world_->lock();
    return vi_->unfinished();
}

void SimEndpoint::disconnect() {
    const World::Lock lock = world_->lock();
    vi_->disconnect();
    if (World::of_thread() == nullptr) agent_.go_on();
}

std::int32_t SimEndpoint::peer_pid() const {
    return getpid();
}

}  // namespace via::na::sim
