// SPDX-License-Identifier: BSD-3-Clause
// The simulated hosts that programs run on, and how time passes for them.
//
// A thread that is a simulated host lives in simulated time: what it computes takes none, what it
// asks of its NIC takes what the model says. Only one such thread runs at a time; when it has to
// wait, events happen until some host can go on, and that one runs. So a run is the same every
// time.
//
// A thread that is none (a program that opens a simulated NIC just so) shares the world with others
// like it: time passes while one of them polls, and nobody's turn is kept.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "na/nic_agent.hpp"
#include "sim/experiment/cluster.hpp"

namespace via::na::sim {

namespace model = via::sim;

/// Which machines, NICs and firmware; names or paths of parameter files. Empty: as in the papers.
struct WorldPlan {
    std::string nic;
    std::string machine;
    std::string firmware;
    double clock_mhz = 0;  ///< of the NIC; 0: its own
    std::uint32_t hosts = 1;
};

class World : public std::enable_shared_from_this<World> {
  public:
    using Lock = std::unique_lock<std::mutex>;
    using HostAddress = std::array<std::uint8_t, 6>;

    [[nodiscard]] static base::Result<std::shared_ptr<World>> create(const WorldPlan& plan);

    /// Runs `program` once for each host, each on a thread of its own, and returns when all have.
    /// What they throw comes out of here.
    void run(const std::function<void(std::uint32_t host)>& program);
    /// The world and number of the host that the calling thread is; null: it is none.
    [[nodiscard]] static World* of_thread() noexcept;
    [[nodiscard]] static std::uint32_t host_of_thread() noexcept;

    [[nodiscard]] const std::string& nic_name() const noexcept { return nic_name_; }
    [[nodiscard]] model::Cluster& cluster() noexcept { return cluster_; }
    [[nodiscard]] const NicAttributes& attributes(std::uint32_t host) const noexcept {
        return hosts_[host]->attributes;
    }
    [[nodiscard]] std::uint32_t hosts() const noexcept { return cluster_.hosts(); }
    [[nodiscard]] static HostAddress address_of(std::uint32_t host) noexcept;
    [[nodiscard]] Lock lock() { return Lock(mutex_); }
    /// Held from choosing whose news come next until its owner has them, or a completion queue
    /// would get them in another order than they came. Before a VI's lock.
    [[nodiscard]] std::mutex& delivery(std::uint32_t host) noexcept {
        return hosts_[host]->delivery;
    }
    /// For those who wait outside of simulated time for something that others in it do.
    [[nodiscard]] std::condition_variable& changed() noexcept { return changed_; }

    // With the lock.
    /// Something that takes the host's processor: it ends before this returns.
    void perform(Lock& lock, std::uint32_t host, model::Task<> task);
    void spend(Lock& lock, model::Time duration);
    /// A poll has found nothing. The first one in a row takes the time of a poll; a program that
    /// goes on polling would do nothing else, so the next ones last until there is news for this
    /// host, or for so long that programs with a deadline get to look at it.
    void poll_in_vain(Lock& lock, std::uint32_t host);
    /// A poll has found something.
    void poll_in_luck(Lock& lock, std::uint32_t host);
    /// The program blocks: the next news costs an interrupt.
    void falls_asleep(std::uint32_t host, bool asleep) noexcept { hosts_[host]->asleep = asleep; }
    /// News are numbered, so that completion queues get them in their order.
    [[nodiscard]] std::uint64_t next_news() noexcept { return ++last_news_; }
    /// For the host's program: whatever it waits for may be there.
    void tell(std::uint32_t host);
    /// In a world without simulated threads: what is under way goes on. True: there is more.
    [[nodiscard]] bool advance(Lock& lock);

  private:
    /// A program's wait for an event.
    struct Pause {
        explicit Pause(bool hosts_thread) : takes_turns(hosts_thread) {}
        bool takes_turns;
        bool over = false;
        std::condition_variable turn;  ///< of the thread that waits, in a world of hosts
    };
    struct Host final : base::ThreadClock {
        World* world = nullptr;
        std::uint32_t number = 0;
        NicAttributes attributes;
        bool asleep = false;
        bool polled_in_vain = false;
        std::mutex delivery;
        std::vector<Pause*> waiting_for_news;
        [[nodiscard]] base::Nanoseconds now() const noexcept override;
    };

    World(std::string nic_name, const model::ViaSystem& system, std::uint32_t hosts);
    /// Is the calling thread one of the hosts?
    [[nodiscard]] bool takes_turns() const noexcept { return hosted_ && of_thread() == this; }
    void end(Pause& pause);
    void wait(Lock& lock, Pause& pause);
    void let_others_run(Lock& lock);
    bool hand_over();
    void run_host(Host& host, const std::function<void(std::uint32_t)>& program);
    [[nodiscard]] model::Task<> then_end(model::Task<> task, Pause& pause);
    [[nodiscard]] bool await_news(Lock& lock, Host& host, model::Time limit);

    std::string nic_name_;
    model::Cluster cluster_;
    base::Nanoseconds epoch_ = base::machine_now();  ///< real time of the simulated time 0
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::unique_ptr<Host>> hosts_;
    bool hosted_ = false;  ///< threads are hosts and take turns
    std::uint64_t last_news_ = 0;
    std::deque<Pause*> ready_;    ///< pauses that are over, in that order
    Pause* turn_ = nullptr;       ///< whose thread may run
    std::uint32_t programs_ = 0;  ///< that have not ended
    std::condition_variable ended_;
    std::exception_ptr failure_;
};

}  // namespace via::na::sim
