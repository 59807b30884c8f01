// SPDX-License-Identifier: BSD-3-Clause
// AgentClient against a real viad: regions and their table, kmem.
#include "ka/client.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>

#include "ka/client_parts.hpp"

namespace via::ka::test {
namespace {

using base::Code;
using base::Deadline;

TEST_F(ClientTest, AttachStartsAnAgentAndRegistersMemory) {
    TestProcess process;
    ASSERT_TRUE(process.valid());
    EXPECT_EQ(process->rmmt_epoch(), 1U);
    std::array<char, 1000> buffer{};
    auto handle = process->register_memory(buffer.data(), buffer.size(), 7, right_rdma_write);
    ASSERT_TRUE(handle.ok()) << handle.error().sentence;
    EXPECT_NE(handle.value(), 0U);
    EXPECT_NE(handle.value(), 0xFFFFFFFFU);
    Region region{};
    ASSERT_TRUE(process->rmmt().find(handle.value(), region));
    EXPECT_EQ(region.address, reinterpret_cast<std::uintptr_t>(buffer.data()));
    EXPECT_EQ(region.length, buffer.size());
    EXPECT_EQ(region.tag, 7U);
    EXPECT_EQ(region.rights, right_rdma_write);
    EXPECT_EQ(region.arena, no_arena);

    ASSERT_TRUE(process->change_memory(handle.value(), 8, right_rdma_read).ok());
    ASSERT_TRUE(process->rmmt().find(handle.value(), region));
    EXPECT_EQ(region.tag, 8U);
    EXPECT_EQ(region.rights, right_rdma_read);

    ASSERT_TRUE(process->deregister_memory(handle.value()).ok());
    EXPECT_FALSE(process->rmmt().find(handle.value(), region));
    EXPECT_EQ(process->deregister_memory(handle.value()).error().code, Code::InvalidArgument);
    EXPECT_EQ(process->change_memory(handle.value(), 1, 0).error().code, Code::InvalidArgument);
}

TEST_F(ClientTest, BadRegionsAreRefused) {
    TestProcess process;
    char byte = 0;
    EXPECT_EQ(process->register_memory(&byte, 0, 1, 0).error().code, Code::InvalidArgument);
    EXPECT_EQ(process->register_memory(&byte, ~std::uint64_t{0}, 1, 0).error().code,
              Code::InvalidArgument);
    EXPECT_EQ(process->register_memory(&byte, 1, 1, 4).error().code, Code::InvalidArgument);
    EXPECT_TRUE(process->register_memory(&byte, 1, 1, 0).ok());
}

TEST_F(ClientTest, TheTableCanNotBeWrittenByItsProcess) {
    TestProcess one;
    TestProcess other;
    auto vi_one = one->create_vi();
    auto vi_other = other->create_vi();
    std::thread server([&] {
        auto incoming = other->connect_wait(address("host-a", "server"), soon());
        ASSERT_TRUE(incoming.ok()) << incoming.error().sentence;
        auto accepted = other->connect_accept(incoming.value().request,
                                              offer(vi_other.value(), "server", "client"), soon());
        EXPECT_TRUE(accepted.ok());
    });
    base::Result<Established> established(Code::NoMatch, "");
    const Deadline deadline = soon();
    while (!established && established.error().code == Code::NoMatch && !deadline.expired())
        established = one->connect_request(offer(vi_one.value(), "client", "server"), soon());
    server.join();
    ASSERT_TRUE(established.ok()) << established.error().sentence;
    const int table = established.value().peer.rmmt.get();
    EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, table, 0), MAP_FAILED);
    const char garbage = 1;
    EXPECT_LT(pwrite(table, &garbage, 1, 0), 0);
    EXPECT_NE(ftruncate(table, 0), 0);
    void* mapped = mmap(nullptr, rmmt_bytes, PROT_READ, MAP_SHARED, table, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    EXPECT_NE(mprotect(mapped, 4096, PROT_READ | PROT_WRITE), 0);
    // The same table that the peer itself sees.
    int value = 0;
    auto handle = other->register_memory(&value, sizeof value, 1, 0);
    Region region{};
    EXPECT_TRUE(RmmtView(static_cast<RmmtEntry*>(mapped)).find(handle.value(), region));
    EXPECT_EQ(region.length, sizeof value);
    munmap(mapped, rmmt_bytes);
    // The process's own mapping is read-only too.
    const auto view = one->rmmt();
    Region own{};
    EXPECT_FALSE(view.find(handle.value(), own));
}

TEST_F(ClientTest, KmemIsMappedOnceAndGivenBack) {
    TestProcess process;
    auto small = process->allocate_kmem(100, 1);
    ASSERT_TRUE(small.ok()) << small.error().sentence;
    EXPECT_EQ(small.value().bytes, 4096U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.value().address) % 4096, 0U);
    std::memset(small.value().address, 1, 4096);
    auto second = process->allocate_kmem(5000, 1);
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(second.value().arena, small.value().arena);
    EXPECT_EQ(second.value().bytes, 8192U);
    EXPECT_EQ(
        second.value().address - small.value().address,
        static_cast<std::ptrdiff_t>(second.value().arena_offset - small.value().arena_offset));
    auto other_tag = process->allocate_kmem(5000, 2);
    ASSERT_TRUE(other_tag.ok());
    EXPECT_NE(other_tag.value().arena, small.value().arena);

    EXPECT_EQ(process->free_kmem(small.value().address + 1).error().code, Code::InvalidArgument);
    EXPECT_EQ(process->free_kmem(&process).error().code, Code::InvalidArgument);
    EXPECT_TRUE(process->free_kmem(small.value().address).ok());
    EXPECT_EQ(process->free_kmem(small.value().address).error().code, Code::InvalidArgument);
    // The page was given back: it reads as zero when it is given out again.
    auto again = process->allocate_kmem(4096, 1);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again.value().address, small.value().address);
    EXPECT_EQ(again.value().address[0], std::byte{0});
    EXPECT_TRUE(process->free_kmem(again.value().address).ok());
    EXPECT_TRUE(process->free_kmem(second.value().address).ok());
    EXPECT_TRUE(process->free_kmem(other_tag.value().address).ok());
    auto status = process->status();
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status.value().processes.at(0).kmem_bytes, 0U);
}

TEST_F(ClientTest, ALargeRequestGetsAnArenaOfItsSize) {
    TestProcess process;
    const std::uint64_t bytes = (std::uint64_t{65} << 20) + 5;
    auto large = process->allocate_kmem(bytes, 1);
    ASSERT_TRUE(large.ok()) << large.error().sentence;
    EXPECT_EQ(large.value().bytes, (std::uint64_t{65} << 20) + 4096);
    large.value().address[bytes - 1] = std::byte{1};
    EXPECT_TRUE(process->free_kmem(large.value().address).ok());
}

TEST_F(ClientTest, ImpossibleKmemIsAnError) {
    TestProcess process;
    EXPECT_EQ(process->allocate_kmem(0, 1).error().code, Code::InvalidArgument);
    auto huge = process->allocate_kmem(std::uint64_t{1} << 62, 1);
    ASSERT_FALSE(huge.ok());
    EXPECT_EQ(huge.error().code, Code::OutOfResources);
    EXPECT_TRUE(process->allocate_kmem(4096, 1).ok());
}

TEST_F(ClientTest, RegionsInKmemNameTheArenaWhenTheTagIsTheSame) {
    TestProcess process;
    auto block = process->allocate_kmem(8192, 5);
    ASSERT_TRUE(block.ok());
    auto inside = process->register_memory(block.value().address + 100, 1000, 5, 0);
    auto foreign_tag = process->register_memory(block.value().address, 8192, 6, 0);
    auto beyond = process->register_memory(block.value().address + 4096, 8192, 5, 0);
    Region region{};
    ASSERT_TRUE(process->rmmt().find(inside.value(), region));
    EXPECT_EQ(region.arena, block.value().arena);
    EXPECT_EQ(region.arena_offset, block.value().arena_offset + 100);
    ASSERT_TRUE(process->rmmt().find(foreign_tag.value(), region));
    EXPECT_EQ(region.arena, no_arena);
    ASSERT_TRUE(process->rmmt().find(beyond.value(), region));
    EXPECT_EQ(region.arena, no_arena);
    // The tag decides, also when it changes.
    ASSERT_TRUE(process->change_memory(foreign_tag.value(), 5, 0).ok());
    ASSERT_TRUE(process->rmmt().find(foreign_tag.value(), region));
    EXPECT_EQ(region.arena, block.value().arena);
    // A block with regions in it is not given back.
    EXPECT_EQ(process->free_kmem(block.value().address).error().code, Code::InvalidState);
    EXPECT_TRUE(process->deregister_memory(inside.value()).ok());
    EXPECT_TRUE(process->deregister_memory(foreign_tag.value()).ok());
    EXPECT_TRUE(process->free_kmem(block.value().address).ok());
}

TEST_F(ClientTest, TheAgentTranslatesWhatTheTableSays) {
    TestProcess process;
    ASSERT_TRUE(process.valid());
    std::array<int, 4> memory{};
    auto handle = process->register_memory(memory.data(), sizeof memory, 7, right_rdma_read);
    ASSERT_TRUE(handle.ok());
    Region read{};
    ASSERT_TRUE(process->rmmt().find(handle.value(), read));
    const auto told = process->translate(handle.value());
    ASSERT_TRUE(told.ok()) << told.error().sentence;
    EXPECT_EQ(told.value().address, read.address);
    EXPECT_EQ(told.value().length, read.length);
    EXPECT_EQ(told.value().tag, 7U);
    EXPECT_EQ(told.value().rights, right_rdma_read);
    EXPECT_EQ(told.value().arena, no_arena);
    ASSERT_TRUE(process->deregister_memory(handle.value()).ok());
    EXPECT_EQ(process->translate(handle.value()).error().code, Code::InvalidArgument);
}

}  // namespace
}  // namespace via::ka::test
