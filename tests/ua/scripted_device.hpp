// SPDX-License-Identifier: BSD-3-Clause
// A NIC whose agent does what the test says, when the test says it: it completes entries in any
// order with any status, raises any event, and lets connections succeed or fail. What the user
// agent makes of it shows what it decides itself, for all devices alike.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "na/nic_agent.hpp"
#include "ua/process.hpp"

namespace via::test {

class ScriptedDevice;
class ScriptedGroup;

class ScriptedEndpoint final : public na::Endpoint {
  public:
    /// Runs with the VI's lock held, at the next poll.
    using Action = std::function<void(na::QueuePair&)>;

    ScriptedEndpoint(ScriptedDevice& device, na::QueuePair& queues, na::EndpointOwner& owner,
                     const na::EndpointGroups& groups);
    ~ScriptedEndpoint() override;

    // --- the test's side, from any thread ---
    /// Something arrives: whoever asked to be woken is.
    void arrive(Action action);
    /// The next send the device has taken and not completed ends so.
    void complete_send(std::uint32_t status, std::uint32_t length = 0);
    void complete_receive(std::uint32_t status, std::uint32_t length = 0,
                          std::uint32_t immediate = 0);
    void report(na::EndpointEvent event);
    [[nodiscard]] bool live() const noexcept { return live_; }
    [[nodiscard]] na::Wakes armed() const noexcept { return armed_; }
    [[nodiscard]] int rings() const noexcept { return rings_; }
    [[nodiscard]] int nudges() const noexcept { return nudges_; }
    [[nodiscard]] int disconnects() const noexcept { return disconnects_; }
    void set_unfinished(bool unfinished) noexcept { unfinished_ = unfinished; }
    /// Takes sends as they are posted and completes them at once.
    void set_eager(bool eager) noexcept { eager_ = eager; }
    /// Is given plain sends past the PD ring, and takes so many of them. Before it is connected.
    void set_takes_sends(int most) noexcept {
        queues_.takes_sends = true;
        sends_to_take_ = most;
    }
    struct TakenSend {
        std::uint64_t entry;
        na::PhysicalDescriptor segment;
        std::optional<std::uint32_t> immediate;
    };
    /// With the VI's lock held, or by the thread that posts.
    [[nodiscard]] const std::vector<TakenSend>& taken_sends() const noexcept { return taken_; }
    /// Shows what arrives to the sink: actions call it.
    void set_shows_frames(bool shows) noexcept { shows_frames_ = shows; }
    void go_live() noexcept { live_ = true; }
    [[nodiscard]] na::QueuePair& queues() noexcept { return queues_; }
    [[nodiscard]] const na::EndpointGroups& groups() const noexcept { return groups_; }

    // --- the user agent's side ---
    void ring_send() override;
    [[nodiscard]] bool take_send(std::uint64_t entry, na::PhysicalDescriptor segment,
                                 bool has_immediate, std::uint32_t immediate) override;
    bool poll() override;
    void arm(na::Wakes wakes) override { armed_ = wakes; }
    [[nodiscard]] bool unfinished() const override { return unfinished_; }
    [[nodiscard]] bool shows_frames() const override { return shows_frames_; }
    [[nodiscard]] bool has_news() override { return has_actions(); }
    void nudge() override { ++nudges_; }
    void disconnect() override;
    [[nodiscard]] std::int32_t peer_pid() const override { return 4711; }

  private:
    friend class ScriptedDevice;
    friend class ScriptedGroup;
    [[nodiscard]] bool has_actions();

    ScriptedDevice& device_;
    na::QueuePair& queues_;
    na::EndpointOwner& owner_;
    na::EndpointGroups groups_;
    std::mutex mutex_;
    std::deque<Action> actions_;
    int sends_to_take_ = 0;
    std::vector<TakenSend> taken_;
    std::atomic<bool> live_{false};
    std::atomic<bool> unfinished_{false};
    std::atomic<bool> eager_{false};
    std::atomic<bool> shows_frames_{false};
    std::atomic<na::Wakes> armed_{na::Wakes::Nobody};
    std::atomic<int> rings_{0};
    std::atomic<int> nudges_{0};
    std::atomic<int> disconnects_{0};
};

class ScriptedGroup final : public na::PollGroup {
  public:
    explicit ScriptedGroup(ScriptedDevice& device) : device_(device) {}
    bool poll() override;
    void arm(na::Wakes wakes) override;
    [[nodiscard]] bool shares_core() const noexcept override { return false; }

  private:
    ScriptedDevice& device_;
};

class ScriptedDevice final : public na::NicAgent {
  public:
    static constexpr const char* name = "scripted0";
    static constexpr std::uint32_t max_segments = 8;
    static constexpr std::uint64_t max_transfer_bytes = 100000;

    /// Makes the device known; once per process, before it is opened.
    static void add();
    /// The device of this process, once it has been opened.
    [[nodiscard]] static ScriptedDevice& get() noexcept;

    explicit ScriptedDevice(ua::Process& process);

    /// The endpoint that was created last.
    [[nodiscard]] ScriptedEndpoint& newest();
    [[nodiscard]] std::size_t endpoints();
    /// Goes back to what it does by itself.
    void reset();

    // What it does when asked; by default everything succeeds.
    std::function<base::Result<void>(ScriptedEndpoint&, const na::ConnectTerms&)> on_connect;
    std::function<std::optional<base::Result<void>>(ScriptedEndpoint&)> on_peer_poll;
    std::function<base::Result<void>(ScriptedEndpoint&)> on_peer_wait;
    std::function<base::Result<void>()> on_create;
    std::atomic<int> peer_cancels{0};
    std::atomic<int> rejects{0};
    /// Whether the service thread progresses endpoints.
    std::atomic<bool> serves{false};
    std::atomic<int> services{0};

    [[nodiscard]] const na::NicAttributes& attributes() const override { return attributes_; }
    [[nodiscard]] std::unique_ptr<na::PollGroup> create_poll_group() override;
    [[nodiscard]] base::Result<std::unique_ptr<na::Endpoint>> create_endpoint(
        na::QueuePair& queues, na::EndpointOwner& owner, const na::EndpointGroups& groups) override;
    [[nodiscard]] base::Result<ka::IncomingRequest> connect_wait(const ka::NetAddress& local,
                                                                 base::Deadline deadline,
                                                                 const void* owner) override;
    void cancel_waits(const void*) override {}
    [[nodiscard]] base::Result<void> connect_accept(const ka::IncomingRequest& request,
                                                    na::Endpoint& endpoint,
                                                    const na::ConnectTerms& terms,
                                                    base::Deadline deadline) override;
    [[nodiscard]] base::Result<void> connect_reject(std::uint64_t request) override;
    [[nodiscard]] base::Result<void> connect_request(na::Endpoint& endpoint,
                                                     const na::ConnectTerms& terms,
                                                     base::Deadline deadline) override;
    [[nodiscard]] base::Result<std::uint64_t> peer_request(na::Endpoint& endpoint,
                                                           const na::ConnectTerms& terms,
                                                           base::Deadline deadline) override;
    [[nodiscard]] std::optional<base::Result<void>> peer_poll(na::Endpoint& endpoint,
                                                              std::uint64_t request) override;
    [[nodiscard]] base::Result<void> peer_wait(na::Endpoint& endpoint,
                                               std::uint64_t request) override;
    void peer_cancel(std::uint64_t request) override;
    void connection_lost(std::uint64_t) override {}
    bool service() override;

  private:
    friend class ScriptedEndpoint;
    friend class ScriptedGroup;
    [[nodiscard]] base::Result<void> establish(na::Endpoint& endpoint,
                                               const na::ConnectTerms& terms);
    /// Calls progress() of all owners, outside the device's lock as far as the test's calls go.
    bool progress_all(const ScriptedGroup* group, bool service);

    ua::Process& process_;
    na::NicAttributes attributes_;
    std::mutex mutex_;  ///< held while an owner is called, so that no endpoint goes meanwhile
    std::vector<ScriptedEndpoint*> endpoints_;
};

}  // namespace via::test
