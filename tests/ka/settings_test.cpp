// SPDX-License-Identifier: BSD-3-Clause
// With VIA_AGENT_TIMEOUT_MS=2000 and VIA_PIN_MEMORY=1 (see CMakeLists.txt): an agent that does not
// answer, and registration that locks pages.
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "ka/client.hpp"
#include "ka/harness.hpp"

namespace via::ka::test {
namespace {

using base::Code;
using base::Deadline;

class SettingsTest : public AgentTest {};

/// Stops the agent for a while; whatever happens it goes on in the end.
class Paused {
  public:
    explicit Paused(pid_t pid) : pid_(pid) { kill(pid_, SIGSTOP); }
    ~Paused() { resume(); }
    void resume() { kill(pid_, SIGCONT); }

  private:
    pid_t pid_;
};

TEST_F(SettingsTest, AnAgentThatDoesNotAnswerIsATimeout) {
    TestProcess process;
    const pid_t pid = agent_pid();
    int value = 0;
    {
        Paused paused(pid);
        auto registered = process->register_memory(&value, 4, 1, 0);
        ASSERT_FALSE(registered.ok());
        EXPECT_EQ(registered.error().code, Code::Timeout);
        EXPECT_NE(registered.error().sentence.find("VIA_AGENT_TIMEOUT_MS is 2000"),
                  std::string::npos);
        EXPECT_EQ(process->create_vi().error().code, Code::Timeout);
        EXPECT_EQ(process->allocate_kmem(4096, 1).error().code, Code::Timeout);
        EXPECT_EQ(process->connect_wait(address("host-a", "s"), Deadline::after_milliseconds(10))
                      .error()
                      .code,
                  Code::Timeout);
        auto peer = process->peer_request(offer(1, "a", "b"), Deadline::after_milliseconds(10));
        EXPECT_EQ(process->peer_wait(peer.value()).error().code, Code::Timeout);
        auto late = AgentClient::attach_if_running({}, Deadline::after_milliseconds(50));
        ASSERT_FALSE(late.ok());
        EXPECT_EQ(late.error().code, Code::Timeout);
    }
    // The late answers are undone: nothing is left of calls that failed.
    const Deadline deadline = soon();
    base::Result<AgentStatus> status = process->status();
    const auto untouched = [&] {
        if (!status) return false;
        const ProcessStatus& own = status.value().processes.at(0);
        return own.regions == 0 && own.vis == 0 && own.kmem_bytes == 0 && own.waiting == 0;
    };
    while (!untouched() && !deadline.expired())
        status = process->status();
    EXPECT_TRUE(untouched());
    EXPECT_TRUE(process->register_memory(&value, 4, 1, 0).ok());
}

TEST_F(SettingsTest, ALateRequestIsRejectedForTheServerThatGaveUp) {
    TestProcess client;
    TestProcess server;
    const std::uint32_t vi = client->create_vi().value();
    const pid_t pid = agent_pid();
    base::Result<Established> asked(Code::System, "");
    std::thread asking;
    std::atomic<bool> done{false};
    {
        Paused paused(pid);
        // Both sent while the agent sleeps; the server's own patience ends first.
        std::thread waiting([&] {
            auto incoming =
                server->connect_wait(address("host-a", "s"), Deadline::after_milliseconds(100));
            EXPECT_EQ(incoming.error().code, Code::Timeout);
        });
        waiting.join();
        asking = std::thread([&] {
            asked = client->connect_request(offer(vi, "c", "s"), soon());
            done.store(true);
        });
    }
    // As the service thread of a process would: it looks when there is something to read.
    while (!done.load())
        (void)server->attached();
    asking.join();
    ASSERT_FALSE(asked.ok());
    EXPECT_TRUE(asked.error().code == Code::Rejected || asked.error().code == Code::NoMatch)
        << asked.error().sentence;
    EXPECT_TRUE(server->create_vi().ok());
}

std::uint64_t locked_kilobytes() {
    std::FILE* file = std::fopen("/proc/self/status", "r");
    char line[256];
    unsigned long long value = 0;
    while (std::fgets(line, sizeof line, file) != nullptr)
        if (std::sscanf(line, "VmLck: %llu kB", &value) == 1) break;
    std::fclose(file);
    return value;
}

TEST_F(SettingsTest, RegisteredPagesAreLocked) {
    TestProcess process;
    const std::size_t bytes = 64 * 1024;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const std::uint64_t before = locked_kilobytes();
    auto one = process->register_memory(memory, bytes, 1, 0);
    auto two = process->register_memory(memory, bytes / 2, 1, 0);
    ASSERT_TRUE(one.ok() && two.ok());
    EXPECT_EQ(locked_kilobytes() - before, 64U);
    ASSERT_TRUE(process->deregister_memory(one.value()).ok());
    EXPECT_EQ(locked_kilobytes() - before, 32U);
    ASSERT_TRUE(process->deregister_memory(two.value()).ok());
    EXPECT_EQ(locked_kilobytes(), before);
    munmap(memory, bytes);
    // What is not mapped can not be locked; nothing is registered then.
    auto nothing = process->register_memory(memory, bytes, 1, 0);
    ASSERT_FALSE(nothing.ok());
    EXPECT_EQ(nothing.error().code, Code::OutOfResources);
    EXPECT_NE(nothing.error().sentence.find("RLIMIT_MEMLOCK"), std::string::npos);
    EXPECT_EQ(process->status().value().processes.at(0).regions, 0U);
}

}  // namespace
}  // namespace via::ka::test
