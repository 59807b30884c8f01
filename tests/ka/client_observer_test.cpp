// SPDX-License-Identifier: BSD-3-Clause
// AgentClient against a real viad: what observers are told of processes, and wish of them.
#include "ka/client.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <vector>

#include "ka/client_parts.hpp"

namespace via::ka::test {
namespace {

using base::Code;
using base::Deadline;

TEST_F(ClientTest, AProcessHearsWhatItsUserWants) {
    TestProcess process;
    auto observer = AgentClient::attach({}, Deadline::after_milliseconds(30000));
    ASSERT_TRUE(observer.ok()) << observer.error().sentence;
    EXPECT_TRUE(process->link_policy_wishes().empty());
    ASSERT_TRUE(observer.value()->wish_link_policy(getpid(), {"dynamic", 0}).ok());
    pollfd watched{process->socket(), POLLIN, 0};
    ASSERT_EQ(poll(&watched, 1, 30000), 1);
    // Any call that waits for an answer reads it, too; the service thread is woken all the same.
    ASSERT_TRUE(process->create_vi().ok());
    ASSERT_TRUE(observer.value()->wish_link_policy(getpid(), {"static", 7}).ok());
    ASSERT_TRUE(process->create_vi().ok());
    EXPECT_EQ(poll(&watched, 1, 0), 1);
    const auto wishes = process->link_policy_wishes();
    ASSERT_EQ(wishes.size(), 2U);
    EXPECT_EQ(wishes[0].policy, "dynamic");
    EXPECT_EQ(wishes[0].vi_slot, 0U);
    EXPECT_EQ(wishes[1].policy, "static");
    EXPECT_EQ(wishes[1].vi_slot, 7U);
    EXPECT_TRUE(process->link_policy_wishes().empty());
    EXPECT_EQ(poll(&watched, 1, 0), 0);
    // A process that is not attached, and one that takes none of them: the last ones are kept.
    EXPECT_EQ(observer.value()->wish_link_policy(1, {"static", 0}).error().code, Code::NotFound);
    for (std::uint32_t i = 1; i <= 200; ++i) {
        ASSERT_TRUE(observer.value()->wish_link_policy(getpid(), {"static", i}).ok());
        ASSERT_TRUE(process->create_vi().ok());
    }
    const auto last = process->link_policy_wishes();
    ASSERT_FALSE(last.empty());
    EXPECT_LT(last.size(), 200U);
    EXPECT_EQ(last.back().vi_slot, 200U);
}

TEST_F(ClientTest, StatusTellsWhatAProcessHas) {
    TestProcess process;
    int value = 0;
    ASSERT_TRUE(process->register_memory(&value, 4, 1, 0).ok());
    ASSERT_TRUE(process->allocate_kmem(4096, 1).ok());
    ASSERT_TRUE(process->create_vi().ok());
    auto peer = process->peer_request(offer(1, "a", "b"), soon());
    auto watcher = observer();
    ASSERT_NE(watcher, nullptr);
    // The peer request goes without an answer, so it may arrive later.
    base::Result<AgentStatus> status = watcher->status();
    const Deadline deadline = soon();
    while (status && status.value().processes.at(0).waiting == 0 && !deadline.expired())
        status = watcher->status();
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status.value().socket, socket_name());
    EXPECT_TRUE(status.value().on_demand);
    EXPECT_EQ(status.value().idle_seconds_limit, 1U);
    EXPECT_EQ(status.value().uid, geteuid());
    ASSERT_EQ(status.value().processes.size(), 1U);
    const ProcessStatus& record = status.value().processes[0];
    EXPECT_EQ(record.pid, getpid());
    EXPECT_EQ(record.uid, geteuid());
    EXPECT_EQ(record.program, program_invocation_short_name);
    EXPECT_EQ(record.vis, 1U);
    EXPECT_EQ(record.regions, 1U);
    EXPECT_EQ(record.registered_bytes, 4U);
    EXPECT_EQ(record.kmem_bytes, 4096U);
    EXPECT_EQ(record.waiting, 1U);
}

TEST_F(ClientTest, StatusOfManyProcessesComesInPages) {
    std::vector<std::unique_ptr<TestProcess>> processes;
    for (int i = 0; i < 60; ++i)
        processes.push_back(std::make_unique<TestProcess>());
    auto status = (*processes.front())->status();
    ASSERT_TRUE(status.ok()) << status.error().sentence;
    EXPECT_EQ(status.value().processes.size(), 60U);
}

TEST_F(ClientTest, ObserversSeeAndTouchNothingElse) {
    TestProcess process;
    auto watcher = observer();
    ASSERT_NE(watcher, nullptr);
    EXPECT_FALSE(watcher->rmmt().valid());
    int value = 0;
    EXPECT_EQ(watcher->register_memory(&value, 4, 1, 0).error().code, Code::InvalidState);
    EXPECT_EQ(watcher->create_vi().error().code, Code::InvalidState);
    auto counters = watcher->counters_of(getpid());
    ASSERT_TRUE(counters.ok()) << counters.error().sentence;
    struct stat given {};
    struct stat own {};
    ASSERT_EQ(fstat(counters.value().get(), &given), 0);
    ASSERT_EQ(fstat(process.counters(), &own), 0);
    EXPECT_EQ(given.st_ino, own.st_ino);
    EXPECT_EQ(watcher->counters_of(1).error().code, Code::NotFound);
}

TEST_F(ClientTest, NoAgentIsNotFoundForThoseWhoMustNotStartOne) {
    auto attached = AgentClient::attach_if_running({}, soon());
    ASSERT_FALSE(attached.ok());
    EXPECT_EQ(attached.error().code, Code::NotFound);
}

}  // namespace
}  // namespace via::ka::test
