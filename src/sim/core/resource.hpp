// SPDX-License-Identifier: BSD-3-Clause
// What processes compete for: a bus, a processor, a DMA engine, buffers.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/simulation.hpp"
#include "sim/core/task.hpp"
#include "sim/core/wait_list.hpp"
#include "sim/core/wide.hpp"

namespace via::sim {

class Resource;

/// Units of a resource that are given back at the end of the scope. It can be handed on, also to
/// another process: through a mailbox, together with what is in the buffer that it stands for. It
/// must not outlive its resource, except in a process that ends with the simulation.
class [[nodiscard]] Hold {
  public:
    Hold() noexcept = default;
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&& other) noexcept;
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { release(); }

    void release() noexcept;
    explicit operator bool() const noexcept { return resource_ != nullptr; }
    /// What the trace will say; the label must last as long as the hold.
    void describe(std::string_view label, std::uint64_t message) noexcept {
        label_ = label;
        message_ = message;
    }

  private:
    friend class Acquisition;
    Hold(Resource& resource, std::uint32_t units, std::string_view label,
         std::uint64_t message) noexcept;

    Simulation* simulation_ = nullptr;  // asked first: at its end the resource may be gone
    Resource* resource_ = nullptr;
    std::string_view label_;
    std::uint64_t message_ = 0;
    Time begin_ = 0;
    std::uint32_t units_ = 0;
};

/// What co_await needs to get a Hold.
class [[nodiscard]] Acquisition : public Waiter {
  public:
    Acquisition(Resource& resource, std::size_t requester, std::uint32_t units,
                std::string_view label, std::uint64_t message) noexcept
        : resource_(resource),
          requester_(requester),
          label_(label),
          message_(message),
          units_(units) {}

    [[nodiscard]] bool await_ready();
    void await_suspend(std::coroutine_handle<> waiting) noexcept;
    [[nodiscard]] Hold await_resume() const noexcept {
        return {resource_, units_, label_, message_};
    }

  private:
    friend class Resource;
    Resource& resource_;
    std::size_t requester_;
    Time since_ = 0;
    std::string_view label_;
    std::uint64_t message_;
    std::uint32_t units_;
};

struct RequesterStatistics {
    std::uint64_t acquisitions = 0;
    std::uint64_t waits = 0;  ///< requests that were not served at once
    Time waited = 0;          ///< by all that were served
    Time longest_wait = 0;
};

struct ResourceStatistics : RequesterStatistics {
    Time observed = 0;       ///< since the beginning or the last reset
    Time busy = 0;           ///< of that, how long at least one unit was held
    double utilisation = 0;  ///< units held, as a share of all, on average
    std::size_t longest_queue = 0;
};

/// One who competes for a resource under a name and with a queue of its own. Copy it freely.
class Requester {
  public:
    /// A label and a message number are for the trace; the label must last as long as the hold.
    [[nodiscard]] Acquisition acquire(std::uint32_t units = 1) const noexcept {
        return {*resource_, index_, units, {}, 0};
    }
    [[nodiscard]] Acquisition acquire(std::string_view label, std::uint64_t message = 0,
                                      std::uint32_t units = 1) const noexcept {
        return {*resource_, index_, units, label, message};
    }
    /// Holds one unit for so long.
    [[nodiscard]] Task<> use(Time duration, std::string_view label = {},
                             std::uint64_t message = 0) const;
    [[nodiscard]] const std::string& name() const noexcept;
    [[nodiscard]] const RequesterStatistics& statistics() const noexcept;

  private:
    friend class Resource;
    Requester(Resource& resource, std::size_t index) noexcept
        : resource_(&resource), index_(index) {}

    Resource* resource_;
    std::size_t index_;
};

/// A number of units, given out one requester after the other, round robin, and to each requester
/// in the order of its requests. With only the one requester that every resource has, first come is
/// first served; a bus has one for each of its masters. Nobody overtakes: if the units that are
/// free are too few for the request whose turn it is, later and smaller ones wait too. Units that
/// are given back belong to the next in turn at that moment, and it runs at that same time.
class Resource {
  public:
    Resource(Simulation& simulation, std::string name, std::uint32_t capacity = 1);
    Resource(const Resource&) = delete;
    Resource& operator=(const Resource&) = delete;

    [[nodiscard]] const std::string& name() const noexcept { return queues_.front().name; }
    [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
    [[nodiscard]] std::uint32_t free() const noexcept { return free_; }
    [[nodiscard]] std::size_t waiting() const noexcept { return waiting_; }

    /// Another one besides those that are there.
    [[nodiscard]] Requester add_requester(std::string name);

    /// The same as a Requester's, for the one that is always there.
    [[nodiscard]] Acquisition acquire(std::uint32_t units = 1) noexcept {
        return Requester(*this, 0).acquire(units);
    }
    [[nodiscard]] Acquisition acquire(std::string_view label, std::uint64_t message = 0,
                                      std::uint32_t units = 1) noexcept {
        return Requester(*this, 0).acquire(label, message, units);
    }
    [[nodiscard]] Task<> use(Time duration, std::string_view label = {},
                             std::uint64_t message = 0) {
        return Requester(*this, 0).use(duration, label, message);
    }

    [[nodiscard]] ResourceStatistics statistics() noexcept;
    /// After a warm-up: what is measured is what comes from now on.
    void reset_statistics() noexcept;

  private:
    friend class Acquisition;
    friend class Hold;
    friend class Requester;

    struct Queue {
        std::string name;
        WaitList<Acquisition> waiting;
        RequesterStatistics statistics;
    };

    [[nodiscard]] bool try_take(const Acquisition& request);
    void enqueue(Acquisition& request, std::coroutine_handle<> process) noexcept;
    void give_back(std::uint32_t units);
    void serve_waiting();
    void take(const Acquisition& request) noexcept;
    /// Before the number of free units changes.
    void account() noexcept;

    Simulation& simulation_;
    std::uint32_t capacity_;
    std::uint32_t free_;
    std::size_t turn_ = 0;  ///< the requester who is asked first
    std::size_t waiting_ = 0;
    std::vector<Queue> queues_;

    Time observed_since_ = 0;
    Time accounted_until_ = 0;
    Time busy_ = 0;
    Wide held_ = 0;  ///< units times picoseconds
    std::size_t longest_queue_ = 0;
};

}  // namespace via::sim
