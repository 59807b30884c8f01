// SPDX-License-Identifier: BSD-3-Clause
#include "ua/process.hpp"

#include <pthread.h>
#include <unistd.h>

#include "base/counters.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "ua/notifications.hpp"
#include "ua/tables.hpp"
#include "ua/virtual_interface.hpp"

namespace via::ua {
namespace {

constexpr base::Nanoseconds tick_period = 4'000'000;

std::mutex* creation_mutex = new std::mutex;
std::atomic<Process*> current{nullptr};

/// In a forked child the parent's threads, sockets and locks are not there: start anew.
void forget_after_fork() {
    creation_mutex = new std::mutex;
    current.store(nullptr);
    forget_all_handles();
}

}  // namespace

base::Result<Process*> Process::get() {
    if (Process* process = current.load(std::memory_order_acquire)) return process;
    const std::lock_guard guard(*creation_mutex);
    if (Process* process = current.load(std::memory_order_acquire)) return process;
    static const int registered = pthread_atfork(nullptr, nullptr, forget_after_fork);
    if (registered != 0) return base::system_error(registered, "cannot prepare for fork");
    auto doorbell = na::Doorbell::create();
    if (!doorbell) return std::move(doorbell).error();
    std::unique_ptr<Process> process(new Process(std::move(doorbell).value()));
    if (auto started = process->start(); !started) return std::move(started).error();
    Process* made = process.release();
    current.store(made, std::memory_order_release);
    return made;
}

base::Result<void> Process::start() {
    const base::RealTime real_time;
    const base::Settings& settings = base::Settings::get();
    spin_ = static_cast<base::Nanoseconds>(settings.number("VIA_SPIN_US")) * 1000;
    ka::ProcessResources resources;
    resources.doorbell_memory = doorbell_.memory_file();
    resources.doorbell_event = doorbell_.event();
    resources.counters = base::Counters::get().file();
    auto agent = ka::AgentClient::attach(
        resources, base::Deadline::after_milliseconds(settings.number("VIA_AGENT_TIMEOUT_MS")));
    if (!agent) return std::move(agent).error();
    agent_ = std::move(agent).value();
    publish_rmmt_epoch();
    [[maybe_unused]] const bool barrier = na::enable_asymmetric_barrier();
    auto service = base::EventLoop::create([this] { return tick(); }, tick_period,
                                           [this] {
                                               if (serve_sinks()) look_after();
                                               call_handlers();
                                           });
    if (!service) return std::move(service).error();
    service_ = std::move(service).value();
    if (auto watched = service_->watch(doorbell_.event(), [this] { rung(); }); !watched)
        return watched;
    watch_agent();
    return {};
}

void Process::watch_agent() {
    watched_socket_ = agent_->socket();
    if (watched_socket_ < 0) return;
    const int socket = watched_socket_;
    // The client reads its socket itself; this notices that the agent has gone, that it knows of a
    // connection whose other end has left, or that a user wants something.
    [[maybe_unused]] auto watched = service_->watch(socket, [this, socket] {
        for (const std::uint64_t connection : agent_->lost_connections()) {
            const std::lock_guard guard(devices_mutex_);
            for (auto& [name, device] : devices_)
                device->connection_lost(connection);
        }
        follow_wishes();
        if (agent_->attached()) return;
        service_->unwatch(socket);
        attach_attempts_ = 0;
        next_attach_ = 0;
        service_->start_ticking();
    });
}

void Process::follow_wishes() {
    for (const ka::AgentClient::LinkPolicyWish& wish : agent_->link_policy_wishes()) {
        base::Result<void> followed = na::no_link_policy();
        {
            const std::lock_guard guard(devices_mutex_);
            for (auto& [name, device] : devices_)
                if (auto set = device->set_link_policy(wish.policy, wish.vi_slot);
                    set || set.error().code != base::Code::NotSupported)
                    followed = std::move(set);
        }
        if (followed)
            base::log(base::LogLevel::Info, "link policy " + wish.policy + ", as a user wants it");
        else
            base::log(base::LogLevel::Warning,
                      "a user's wish for a link policy: " + followed.error().sentence);
    }
}

/// After the agent's end: take up with a new one if there is one, but do not start it; the next
/// call that needs an agent does.
bool Process::reattach() {
    constexpr int most_attempts = 8;
    if (agent_->attached() || attach_attempts_ >= most_attempts) return false;
    const base::Nanoseconds now = base::monotonic_now();
    if (now < next_attach_) return true;
    if (agent_->reattach_if_running()) {
        publish_rmmt_epoch();
        watch_agent();
        return false;
    }
    next_attach_ = now + (50'000'000LL << attach_attempts_++);
    return true;
}

void Process::rung() {
    std::uint64_t count;
    [[maybe_unused]] const ssize_t taken = ::read(doorbell_.event(), &count, sizeof count);
    if (tick()) service_->start_ticking();
}

bool Process::tick() {
    bool again = false;
    {
        const std::lock_guard guard(devices_mutex_);
        for (auto& [name, device] : devices_)
            again = device->service() || again;
    }
    again = serve_sinks() || again;
    if (notifications_.load() != 0) serve_notifications();
    return reattach() || again;
}

void Process::serve_soon(VirtualInterface& vi) noexcept {
    if (vi.to_be_served) return;
    list_to_serve(vi);
    service_->request_errand();
}

void Process::list_to_serve(VirtualInterface& vi) noexcept {
    if (std::exchange(vi.to_be_served, true)) return;
    vi.next_to_serve = std::exchange(to_serve_, &vi);
}

bool Process::serve_sinks() {
    bool again = false;
    VirtualInterface* next = std::exchange(to_serve_, nullptr);
    while (VirtualInterface* vi = next) {
        next = vi->next_to_serve;
        vi->to_be_served = false;
        if (!vi->serve_sink()) continue;
        list_to_serve(*vi);
        again = true;
    }
    return again;
}

void Process::publish_rmmt_epoch() noexcept {
    doorbell_.page().rmmt_epoch.store(agent_->rmmt_epoch(), std::memory_order_release);
}

base::Result<na::NicAgent*> Process::device(const std::string& name) {
    const std::lock_guard guard(devices_mutex_);
    if (const auto found = devices_.find(name); found != devices_.end()) return found->second.get();
    const DeviceEntry* entry = find_device(name);
    if (entry == nullptr)
        return base::Result<na::NicAgent*>(base::Code::InvalidArgument,
                                           "there is no device '" + name + "'");
    auto device = entry->create(*this);
    na::NicAgent* made = device.get();
    devices_.emplace(name, std::move(device));
    return made;
}

}  // namespace via::ua
