// SPDX-License-Identifier: BSD-3-Clause
// What tests of the kernel agent share: a socket of their own, clients with resources, children.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/memory_file.hpp"
#include "base/message_socket.hpp"
#include "ka/client.hpp"

namespace via::ka::test {

/// Settings are read once per process, so the socket's name is set before anything runs. Agents
/// started here end by themselves soon even if a test dies.
struct OwnSocket {
    OwnSocket() {
        const std::string name = "@viaduct/test/" + std::to_string(getpid()) + "/ka";
        setenv("VIA_AGENT_SOCKET", name.c_str(), 1);
        setenv("VIA_AGENT_IDLE_SECONDS", "1", 1);
        // A leak check at the end costs seconds on some machines; this process still has its own,
        // and one test has one for the agent.
        if (const char* options = std::getenv("ASAN_OPTIONS")) asan_options = options;
        setenv("ASAN_OPTIONS", (asan_options + ":detect_leaks=0").c_str(), 1);
    }
    std::string asan_options;
};
inline const OwnSocket own_socket;

inline std::string socket_name() {
    return std::getenv("VIA_AGENT_SOCKET");
}

inline base::Deadline soon() {
    return base::Deadline::after_milliseconds(30000);
}

/// A client with everything that a process shares.
class TestProcess {
  public:
    TestProcess() {
        auto memory = base::create_memory_file("doorbell", 4096, base::Backing::Allocated);
        EXPECT_TRUE(memory.ok());
        doorbell_ = std::move(memory).value();
        auto counters = base::create_memory_file("counters", 4096, base::Backing::Allocated);
        EXPECT_TRUE(counters.ok());
        counters_ = std::move(counters).value();
        event_ = base::UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        auto attached = AgentClient::attach(resources(), soon());
        if (!attached)
            std::fprintf(stderr, "attach failed: %s\n", attached.error().sentence.c_str());
        EXPECT_TRUE(attached.ok());
        if (attached) client_ = std::move(attached).value();
    }
    [[nodiscard]] ProcessResources resources() const {
        return {doorbell_.get(), event_.get(), counters_.get()};
    }
    AgentClient* operator->() const { return client_.get(); }
    AgentClient& operator*() const { return *client_; }
    [[nodiscard]] bool valid() const { return client_ != nullptr; }
    void detach() { client_.reset(); }
    [[nodiscard]] int doorbell_memory() const { return doorbell_.get(); }
    [[nodiscard]] int counters() const { return counters_.get(); }

  private:
    base::UniqueFd doorbell_;
    base::UniqueFd event_;
    base::UniqueFd counters_;
    std::unique_ptr<AgentClient> client_;
};

/// Waits for the end of a process that is not our child (whoever must reap it may take its time).
inline bool wait_for_end(pid_t pid) {
    const base::UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!process.valid()) return errno == ESRCH;
    pollfd watched{process.get(), POLLIN, 0};
    return poll(&watched, 1, soon().poll_milliseconds()) == 1;
}

inline std::unique_ptr<AgentClient> observer() {
    auto attached = AgentClient::attach_if_running({}, soon());
    return attached ? std::move(attached).value() : nullptr;
}

inline pid_t agent_pid() {
    auto client = observer();
    if (!client) return 0;
    auto status = client->status();
    return status ? status.value().pid : 0;
}

inline void kill_agent() {
    const pid_t pid = agent_pid();
    ASSERT_GT(pid, 0);
    ASSERT_EQ(kill(pid, SIGKILL), 0);
    ASSERT_TRUE(wait_for_end(pid));
}

/// Ends the agent of this test program, if it runs, and sees that it is gone.
inline void stop_agent() {
    auto client = observer();
    if (!client) return;
    auto status = client->status();
    ASSERT_TRUE(status.ok());
    const pid_t pid = status.value().pid;
    auto stopped = client->stop_agent();
    ASSERT_TRUE(stopped.ok()) << stopped.error().sentence;
    ASSERT_TRUE(wait_for_end(pid));
}

class AgentTest : public testing::Test {
  protected:
    void TearDown() override { stop_agent(); }
};

/// A process that runs `body` and ends with its result; 0 is success.
class Child {
  public:
    explicit Child(const std::function<int()>& body) {
        std::fflush(nullptr);
        pid_ = fork();
        if (pid_ == 0) {
            alarm(100);  // never outlives a test that hangs
            const int result = body();
            std::fflush(nullptr);
            _exit(result);
        }
    }
    Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
    Child& operator=(Child&&) = delete;
    ~Child() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    [[nodiscard]] pid_t pid() const { return pid_; }
    void kill(int signal) const { ::kill(pid_, signal); }
    /// The exit status, or minus the signal that ended it.
    [[nodiscard]] int wait() {
        int status = 0;
        const pid_t pid = std::exchange(pid_, -1);
        if (waitpid(pid, &status, 0) != pid) return -1000;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }

  private:
    pid_t pid_ = -1;
};

/// One byte from one process to another: "I am there", "go on".
class Signal {
  public:
    Signal() {
        int ends[2];
        EXPECT_EQ(pipe(ends), 0);
        out_ = base::UniqueFd(ends[0]);
        in_ = base::UniqueFd(ends[1]);
    }
    void give() const {
        const char byte = 1;
        EXPECT_EQ(write(in_.get(), &byte, 1), 1);
    }
    [[nodiscard]] bool take() const {
        char byte;
        pollfd watched{out_.get(), POLLIN, 0};
        return poll(&watched, 1, soon().poll_milliseconds()) == 1 &&
               read(out_.get(), &byte, 1) == 1;
    }

  private:
    base::UniqueFd out_;
    base::UniqueFd in_;
};

inline NetAddress address(std::string_view host, std::string_view discriminator) {
    NetAddress result;
    result.host_bytes = static_cast<std::uint8_t>(host.size());
    result.discriminator_bytes = static_cast<std::uint8_t>(discriminator.size());
    std::memcpy(result.host.data(), host.data(), host.size());
    std::memcpy(result.discriminator.data(), discriminator.data(), discriminator.size());
    return result;
}

inline ConnectOffer offer(std::uint32_t vi, std::string_view local, std::string_view remote,
                          ProtectionTag tag = 1) {
    ConnectOffer result;
    result.vi = vi;
    result.local = address("host-a", local);
    result.remote = address("host-a", remote);
    result.attributes.max_transfer_bytes = 1 << 20;
    result.attributes.reliability = 2;
    result.attributes.tag = tag;
    result.parameters[0] = 42;
    result.channel_bytes = 64 * 1024;
    return result;
}

}  // namespace via::ka::test
