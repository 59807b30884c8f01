// SPDX-License-Identifier: BSD-3-Clause
// The user agent of a process: its attachment to the kernel agent, its doorbell, its service
// thread and its NIC agents. Made by the first VipOpenNic and never destroyed, so nothing is torn
// down behind a thread's back at exit; the kernel cleans up, and the kernel agent sees the end.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "ka/client.hpp"
#include "na/doorbell.hpp"
#include "na/nic_agent.hpp"

namespace via::ua {

class VirtualInterface;

class Process {
  public:
    /// The one of this process, made if need be. A forked child gets its own.
    [[nodiscard]] static base::Result<Process*> get();

    [[nodiscard]] ka::AgentClient& agent() noexcept { return *agent_; }
    [[nodiscard]] na::Doorbell& doorbell() noexcept { return doorbell_; }
    [[nodiscard]] base::EventLoop& service() noexcept { return *service_; }
    [[nodiscard]] base::Nanoseconds spin() const noexcept { return spin_; }
    [[nodiscard]] base::Result<na::NicAgent*> device(const std::string& name);
    /// Peers compare it with the table they have mapped; called after anything that may have
    /// attached to another agent.
    void publish_rmmt_epoch() noexcept;
    /// Some VI has work that only polling finishes, or is polled by the program: the service thread
    /// looks after it now and then, and takes over when nobody polls.
    void look_after() { service_->start_ticking(); }

    /// Asynchronous errors, or completions that somebody wants to be notified of, are there: the
    /// service thread calls the handlers. The caller may hold a VI's lock.
    void call_handlers_soon() noexcept { service_->request_errand(); }

    /// The sink of this VI is served when no lock is held, and again while it asks for it. On the
    /// service thread only; the caller may hold the VI's lock.
    void serve_soon(VirtualInterface& vi) noexcept;

    /// Handlers of Notify calls that wait.
    void notification_armed() noexcept { notifications_.fetch_add(1); }
    void notification_served() noexcept { notifications_.fetch_sub(1); }

  private:
    Process(na::Doorbell&& doorbell) : doorbell_(std::move(doorbell)) {}
    [[nodiscard]] base::Result<void> start();
    bool tick();
    void rung();
    void watch_agent();
    void follow_wishes();
    bool reattach();
    void list_to_serve(VirtualInterface& vi) noexcept;
    bool serve_sinks();

    na::Doorbell doorbell_;
    base::Nanoseconds spin_ = 0;
    std::unique_ptr<ka::AgentClient> agent_;
    std::unique_ptr<base::EventLoop> service_;
    std::atomic<std::uint32_t> notifications_{0};
    VirtualInterface* to_serve_ = nullptr;  ///< the service thread's
    int watched_socket_ = -1;
    base::Nanoseconds next_attach_ = 0;
    int attach_attempts_ = 0;
    std::mutex devices_mutex_;
    std::map<std::string, std::unique_ptr<na::NicAgent>> devices_;
};

/// Makes a NIC agent; the table is in devices.cpp, one line per device.
struct DeviceEntry {
    std::string_view name;
    std::unique_ptr<na::NicAgent> (*create)(Process& process);
};
[[nodiscard]] const DeviceEntry* find_device(std::string_view name) noexcept;
/// A device that is not in the table, such as a test's scripted one. Before it is opened.
void add_device(const DeviceEntry& entry);
/// The device that a name means: its own, or one that other VIA providers used. Empty: unknown.
[[nodiscard]] std::string resolve_device_name(std::string_view name);

}  // namespace via::ua
