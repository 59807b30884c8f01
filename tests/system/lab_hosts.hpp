// SPDX-License-Identifier: BSD-3-Clause
// Two hosts of a lab for a test, with processes of this program in them. The test itself stands
// outside: it starts, kills and asks, and carries what the two sides tell each other.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ka/client.hpp"
#include "lab/lab.hpp"
#include "system/loaded_side.hpp"
#include "vipl/harness.hpp"

namespace via::test {

/// A host and a thread that is in it for good. What it starts is in the host, and lives no longer
/// than the thread (the kernel ends a peer when the thread that made it does).
class LabHost {
  public:
    LabHost(const lab::Lab& lab, std::string name);
    LabHost(const LabHost&) = delete;
    LabHost& operator=(const LabHost&) = delete;
    ~LabHost();

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] const std::string& space() const { return space_; }
    /// Calls it in the host and waits for its end; what it throws is thrown here.
    void run(const std::function<void()>& what);
    /// A role in a process of the host, on net0 unless the environment says otherwise.
    [[nodiscard]] std::unique_ptr<PeerProcess> start(
        const char* role, const PeerProcess::Environment& environment = {}, int stderr_fd = -1);
    /// What the host's kernel agent holds. Throws if none runs.
    [[nodiscard]] ka::AgentStatus agent();
    /// Whether the agent has nothing of anybody, though processes may be attached to it.
    [[nodiscard]] bool agent_holds_nothing();
    /// Every process of the host, by its number.
    [[nodiscard]] std::vector<pid_t> processes() const;
    void signal_all(int signal) const;
    /// The kernel says for every packet that nobody listens at a port, not only for one a second.
    void answer_every_refusal();
    /// Rules of the packet filter for what comes into the host.
    void filter_input(const std::string& rule);
    void stop_filtering();

  private:
    std::string name_;
    std::string space_;
    std::mutex mutex_;
    std::condition_variable changed_;
    const std::function<void()>* task_ = nullptr;
    std::exception_ptr failure_;
    bool ends_ = false;
    std::thread thread_;
};

/// Skipped where there can be no lab.
class LabHosts : public testing::Test {
  protected:
    void SetUp() override;
    void TearDown() override;
    /// Makes the hosts a and b.
    void make(lab::LabOptions options = {});
    [[nodiscard]] lab::Lab& lab() { return *lab_; }
    [[nodiscard]] lab::LabLink link(unsigned number) { return lab_->link(number); }

    std::unique_ptr<LabHost> a;
    std::unique_ptr<LabHost> b;

  private:
    std::optional<lab::Lab> lab_;
};

/// What one side has said is told to the other.
template <typename Value>
void pass(PeerProcess& from, PeerProcess& to) {
    to.link.put(from.link.get<Value>());
}
/// For connect_as_server() and connect_as_client().
void introduce(PeerProcess& server, PeerProcess& client);

/// The port of the hosts' kernel agents, as text.
[[nodiscard]] std::string agent_port();

/// A file for what a process says on standard error.
class Words {
  public:
    Words();
    Words(const Words&) = delete;
    Words& operator=(const Words&) = delete;
    ~Words();
    [[nodiscard]] int descriptor() const { return descriptor_; }
    [[nodiscard]] std::string text() const;

  private:
    int descriptor_;
};

#define EXPECT_DONE(call)                                             \
    if (const auto done_here = (call); !done_here) {                  \
        ADD_FAILURE() << #call << ": " << done_here.error().sentence; \
    }                                                                 \
    static_assert(true)

}  // namespace via::test
