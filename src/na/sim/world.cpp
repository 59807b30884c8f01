// SPDX-License-Identifier: BSD-3-Clause
#include "na/sim/world.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "ka/limits.hpp"

namespace via::na::sim {
namespace {

/// A program that polls in vain looks at its deadlines this often.
constexpr model::Time longest_poll = 1000 * 1'000'000;  // a millisecond
/// How many events a call that only helps the world along may take.
constexpr int events_at_a_time = 20000;

struct ThreadPlace {
    World* world = nullptr;
    std::uint32_t host = 0;
};
thread_local ThreadPlace place;

}  // namespace

base::Result<std::shared_ptr<World>> World::create(const WorldPlan& plan) {
    using Made = base::Result<std::shared_ptr<World>>;
    if (plan.hosts < 1 || plan.hosts > 32)
        return Made(base::Code::InvalidArgument, std::to_string(plan.hosts) +
                                                     " simulated hosts were asked for; there can "
                                                     "be 1 to 32, one for each port of the switch");
    model::SystemFiles files;
    files.machine = plan.machine.empty() ? model::machine_of_the_paper(plan.nic) : plan.machine;
    files.nic = plan.nic;
    files.firmware = plan.firmware.empty() ? "myvia" : plan.firmware;
    if (plan.clock_mhz != 0) files.clock = plan.clock_mhz;
    auto system = model::load_system(files);
    if (!system) return std::move(system).error();
    return std::shared_ptr<World>(new World(plan.nic, system.value(), plan.hosts));
}

World::World(std::string nic_name, const model::ViaSystem& system, std::uint32_t hosts)
    : nic_name_(std::move(nic_name)), cluster_(system, hosts) {
    for (std::uint32_t i = 0; i < hosts; ++i) {
        hosts_.push_back(std::make_unique<Host>());
        Host& host = *hosts_.back();
        host.world = this;
        host.number = i;
        NicAttributes& attributes = host.attributes;
        attributes.name = nic_name_;
        attributes.hardware_version = 1;
        attributes.provider_version = 1;
        attributes.address = address_of(i);
        attributes.max_transfer_bytes = std::uint64_t{16} << 20;
        attributes.native_mtu = static_cast<std::uint64_t>(system.firmware.largest_piece);
        attributes.max_vis = ka::Limits{}.vis;
        attributes.max_segments = 252;
        attributes.reliability_levels = unreliable | reliable_delivery | reliable_reception;
        attributes.rdma_read_levels = reliable_delivery | reliable_reception;
        attributes.simulated = true;
    }
}

World::HostAddress World::address_of(std::uint32_t host) noexcept {
    return {0x02, 's', 'i', 'm', 0, static_cast<std::uint8_t>(host)};
}

World* World::of_thread() noexcept {
    return place.world;
}

std::uint32_t World::host_of_thread() noexcept {
    return place.host;
}

base::Nanoseconds World::Host::now() const noexcept {
    // Asked by the host's own thread, which runs: nothing happens meanwhile.
    return world->epoch_ + world->cluster_.simulation().now() / 1000;
}

// ---- threads that are hosts ---------------------------------------------------------------------

void World::run(const std::function<void(std::uint32_t host)>& program) {
    std::vector<std::thread> threads;
    std::deque<Pause> beginnings;
    Lock lock(mutex_);
    hosted_ = true;
    programs_ = hosts();
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
        ready_.push_back(&beginnings.emplace_back(true));
        threads.emplace_back([this, &program, &beginning = beginnings[i], &host = *hosts_[i]] {
            {
                Lock own(mutex_);
                beginning.turn.wait(own, [&] { return turn_ == &beginning; });
            }
            run_host(host, program);
        });
    }
    hand_over();
    ended_.wait(lock, [&] { return programs_ == 0; });
    hosted_ = false;
    lock.unlock();
    for (std::thread& thread : threads)
        thread.join();
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void World::run_host(Host& host, const std::function<void(std::uint32_t)>& program) {
    place = {this, host.number};
    base::thread_clock = &host;
    std::exception_ptr failure;
    try {
        program(host.number);
    } catch (...) {
        failure = std::current_exception();
    }
    base::thread_clock = nullptr;
    place = {};
    Lock lock(mutex_);
    if (failure && !failure_) failure_ = failure;
    if (--programs_ == 0) {
        ended_.notify_all();
        return;
    }
    // The others are all waiting; who is the next?
    let_others_run(lock);
}

/// Gives the turn to the next who can go on. False: nobody can, yet.
bool World::hand_over() {
    if (ready_.empty()) return false;
    turn_ = ready_.front();
    ready_.pop_front();
    turn_->turn.notify_one();
    return true;
}

void World::let_others_run([[maybe_unused]] Lock& lock) {
    while (!hand_over())
        if (!cluster_.simulation().step()) return;
}

void World::end(Pause& pause) {
    if (std::exchange(pause.over, true)) return;
    if (pause.takes_turns) ready_.push_back(&pause);
}

void World::wait(Lock& lock, Pause& pause) {
    if (pause.takes_turns) {
        let_others_run(lock);
        pause.turn.wait(lock, [&] { return turn_ == &pause; });
        return;
    }
    while (!pause.over && cluster_.simulation().step()) {
    }
}

// ---- what takes time ----------------------------------------------------------------------------

model::Task<> World::then_end(model::Task<> task, Pause& pause) {
    co_await std::move(task);
    end(pause);
}

void World::perform(Lock& lock, std::uint32_t host, model::Task<> task) {
    hosts_[host]->polled_in_vain = false;
    hosts_[host]->asleep = false;
    Pause pause(takes_turns());
    cluster_.simulation().spawn(then_end(std::move(task), pause));
    wait(lock, pause);
}

void World::spend(Lock& lock, model::Time duration) {
    struct Alarm {
        World* world;
        Pause pause;
    } alarm{this, Pause(takes_turns())};
    model::Simulation& simulation = cluster_.simulation();
    simulation.call_at(
        simulation.now() + std::max<model::Time>(duration, 1),
        [](void* context) {
            auto* due = static_cast<Alarm*>(context);
            due->world->end(due->pause);
        },
        &alarm);
    wait(lock, alarm.pause);
}

bool World::await_news(Lock& lock, Host& host, model::Time limit) {
    struct Alarm {
        World* world;
        Pause pause;
        bool due = false;
    } alarm{this, Pause(takes_turns())};
    model::Simulation& simulation = cluster_.simulation();
    const auto ticket = simulation.call_at(
        simulation.now() + limit,
        [](void* context) {
            auto* late = static_cast<Alarm*>(context);
            late->due = true;
            late->world->end(late->pause);
        },
        &alarm);
    host.waiting_for_news.push_back(&alarm.pause);
    wait(lock, alarm.pause);
    std::erase(host.waiting_for_news, &alarm.pause);
    if (!alarm.due) simulation.cancel(ticket);
    return !alarm.due;
}

void World::tell(std::uint32_t host) {
    Host& told = *hosts_[host];
    for (Pause* pause : told.waiting_for_news)
        end(*pause);
    changed_.notify_all();
}

void World::poll_in_vain(Lock& lock, std::uint32_t host) {
    Host& own = *hosts_[host];
    if (!std::exchange(own.polled_in_vain, true)) {
        spend(lock, cluster_.poll_time());
        return;
    }
    if (!await_news(lock, own, longest_poll)) return;
    const double woken = std::exchange(own.asleep, false) ? cluster_.system().machine.interrupt : 0;
    spend(lock, cluster_.poll_time() + model::microseconds(woken));
}

void World::poll_in_luck(Lock& lock, std::uint32_t host) {
    hosts_[host]->polled_in_vain = false;
    spend(lock, cluster_.poll_time());
}

bool World::advance([[maybe_unused]] Lock& lock) {
    if (hosted_) return false;
    for (int i = 0; i < events_at_a_time; ++i)
        if (!cluster_.simulation().step()) return false;
    return true;
}

}  // namespace via::na::sim
