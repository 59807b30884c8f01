// SPDX-License-Identifier: BSD-3-Clause
// AgentClient against a real viad: who may attach, who may use an attachment, and for how much.
#include "ka/client.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.hpp"
#include "ka/client_parts.hpp"
#include "ka/limits.hpp"

namespace via::ka::test {
namespace {

using base::Code;
using base::Deadline;

TEST_F(ClientTest, ManyThreadsShareOneAttachment) {
    TestProcess process;
    constexpr int threads = 16;
    constexpr int rounds = 60;
    std::array<std::atomic<int>, threads> memory{};
    std::atomic<bool> done{false};
    // One sits in a wait that nobody meets, so the others need it to read for them.
    std::thread waiting([&] {
        while (!done.load())
            (void)process->connect_wait(address("host-a", "x"), Deadline::after_milliseconds(50));
    });
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t)
        workers.emplace_back([&, t] {
            for (int i = 0; i < rounds; ++i) {
                auto handle =
                    process->register_memory(&memory[static_cast<std::size_t>(t)], 4, 1, 0);
                ASSERT_TRUE(handle.ok()) << handle.error().sentence;
                Region region{};
                ASSERT_TRUE(process->rmmt().find(handle.value(), region));
                ASSERT_EQ(region.address,
                          reinterpret_cast<std::uintptr_t>(&memory[static_cast<std::size_t>(t)]));
                auto block = process->allocate_kmem(4096, 1);
                ASSERT_TRUE(block.ok()) << block.error().sentence;
                block.value().address[0] = std::byte{1};
                auto vi = process->create_vi();
                ASSERT_TRUE(vi.ok());
                process->destroy_vi(vi.value());
                ASSERT_TRUE(process->free_kmem(block.value().address).ok());
                ASSERT_TRUE(process->deregister_memory(handle.value()).ok());
            }
        });
    for (std::thread& worker : workers)
        worker.join();
    done.store(true);
    waiting.join();
    auto status = process->status();
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status.value().processes.at(0).regions, 0U);
    EXPECT_EQ(status.value().processes.at(0).vis, 0U);
    EXPECT_EQ(status.value().processes.at(0).kmem_bytes, 0U);
}

TEST_F(ClientTest, WhatIsNoDoorbellIsRefused) {
    TestProcess process;  // so that an agent runs
    const base::UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    auto bad_memory = AgentClient::attach({null.get(), -1, -1}, soon());
    ASSERT_FALSE(bad_memory.ok());
    EXPECT_EQ(bad_memory.error().code, Code::InvalidArgument);
    auto bad_event = AgentClient::attach({-1, null.get(), -1}, soon());
    ASSERT_FALSE(bad_event.ok());
    EXPECT_EQ(bad_event.error().code, Code::InvalidArgument);
    // Not sealed: it could be cut short under the peers' mappings.
    const base::UniqueFd soft(memfd_create("soft", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(soft.get(), 4096), 0);
    auto unsealed = AgentClient::attach({soft.get(), -1, -1}, soon());
    ASSERT_FALSE(unsealed.ok());
    EXPECT_EQ(unsealed.error().code, Code::InvalidArgument);
    EXPECT_TRUE(process->create_vi().ok());
}

TEST_F(ClientTest, AChildOfForkCanNotUseTheParentsAttachment) {
    TestProcess process;
    int value = 0;
    auto handle = process->register_memory(&value, 4, 1, 0);
    Child child([&] {
        if (process->attached()) return 1;
        if (process->register_memory(&value, 4, 1, 0).error().code != Code::InvalidState) return 2;
        if (process->create_vi().error().code != Code::InvalidState) return 3;
        if (process->connect_wait(address("h", "d"), soon()).error().code != Code::InvalidState)
            return 4;
        process->destroy_vi(1);
        process.detach();
        return 0;
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(process->attached());
    EXPECT_TRUE(process->deregister_memory(handle.value()).ok());
}

TEST_F(ClientTest, LimitsAreNamed) {
    TestProcess process;
    const Limits limits;
    for (std::size_t i = 0; i < limits.vis; ++i)
        ASSERT_TRUE(process->create_vi().ok());
    auto over = process->create_vi();
    ASSERT_FALSE(over.ok());
    EXPECT_EQ(over.error().code, Code::OutOfResources);
    EXPECT_NE(over.error().sentence.find(std::to_string(limits.vis)), std::string::npos);
    process->destroy_vi(1);
    EXPECT_TRUE(process->create_vi().ok());
}

}  // namespace
}  // namespace via::ka::test
