// SPDX-License-Identifier: BSD-3-Clause
// NIC, memory and buffer pools of the C++ API.
#include <cstdint>
#include <vector>

#include "api/connected_pair.hpp"

namespace via_api_test {
namespace {

TEST(ApiNic, RefusesAnUnknownDevice) {
    const auto nic = via::Nic::open("no-such-device");
    ASSERT_FALSE(nic);
    EXPECT_EQ(nic.error().code, VIP_INVALID_PARAMETER);
    EXPECT_NE(nic.error().sentence.find("no-such-device"), std::string::npos)
        << nic.error().sentence;
}

TEST(ApiNic, TellsItsAttributes) {
    const via::Nic nic = need(via::Nic::open(device));
    EXPECT_GE(nic.attributes().MaxTransferSize, 65536u);
    EXPECT_GE(nic.attributes().MaxDiscriminatorLen, 16);
    EXPECT_NE(nic.attributes().ReliabilityLevelSupport & VIP_SERVICE_RELIABLE_DELIVERY, 0);
    const via::Address address = nic.address("here");
    EXPECT_EQ(address.host().size(), nic.attributes().NicAddressLen);
    EXPECT_EQ(address.discriminator(), "here");
}

TEST(ApiNic, OpensTwice) {
    const via::Nic one = need(via::Nic::open(device));
    const via::Nic other = need(via::Nic::open(device));
    EXPECT_NE(one.handle(), other.handle());
    EXPECT_EQ(one.address("x"), other.address("x"));
}

TEST(ApiNic, RefusesAReliabilityThatDoesNotExist) {
    const via::Nic nic = need(via::Nic::open(device));
    const auto vi = nic.create_vi({.reliability = static_cast<via::Reliability>(0x40)});
    ASSERT_FALSE(vi);
    EXPECT_EQ(vi.error().code, VIP_INVALID_RELIABILITY_LEVEL);
    EXPECT_FALSE(vi.error().sentence.empty());
}

TEST(ApiNic, RefusesATransferSizeAboveItsOwn) {
    const via::Nic nic = need(via::Nic::open(device));
    const auto vi = nic.create_vi({.max_transfer_size = nic.attributes().MaxTransferSize + 1});
    ASSERT_FALSE(vi);
    EXPECT_EQ(vi.error().code, VIP_INVALID_MTU);
}

TEST(ApiMemory, AllocatesPages) {
    const via::Nic nic = need(via::Nic::open(device));
    const via::Memory memory = need(nic.allocate(10'000));
    EXPECT_EQ(memory.size(), 10'000u);
    EXPECT_NE(memory.handle(), 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096, 0u);
    std::ranges::fill(memory.bytes(), std::byte{0x5A});
    EXPECT_EQ(memory.as<std::uint16_t>().back(), 0x5A5A);
    EXPECT_EQ(memory.as<std::uint64_t>().size(), 1250u);
}

TEST(ApiMemory, CutsSegmentsToItself) {
    const via::Nic nic = need(via::Nic::open(device));
    const via::Memory memory = need(nic.allocate(4096));
    EXPECT_EQ(memory.segment().length, 4096u);
    EXPECT_EQ(memory.segment(96, 100).address, memory.data() + 96);
    EXPECT_EQ(memory.segment(96, 100).length, 100u);
    EXPECT_EQ(memory.segment(4000, 4096).length, 96u);
    EXPECT_EQ(memory.segment(5000).length, 0u);
    EXPECT_EQ(memory.remote_segment(8).address,
              reinterpret_cast<std::uintptr_t>(memory.data()) + 8);
    EXPECT_EQ(memory.remote_segment(8).handle, memory.handle());
    EXPECT_EQ(memory.remote_segment(8).length, 4088u);
}

TEST(ApiMemory, RegistersWhatTheProgramHas) {
    const via::Nic nic = need(via::Nic::open(device));
    std::vector<std::byte> bytes(5000);
    const via::Memory once = need(nic.register_memory(bytes));
    via::Memory again = need(nic.register_memory(bytes, {.rdma_write = true}));
    EXPECT_NE(once.handle(), again.handle());
    EXPECT_EQ(once.data(), bytes.data());

    VIP_MEM_ATTRIBUTES attributes{};
    ASSERT_EQ(VipQueryMem(nic.handle(), again.data(), again.handle(), &attributes), VIP_SUCCESS);
    EXPECT_TRUE(attributes.EnableRdmaWrite);
    need(again.set_rights({}));
    ASSERT_EQ(VipQueryMem(nic.handle(), again.data(), again.handle(), &attributes), VIP_SUCCESS);
    EXPECT_FALSE(attributes.EnableRdmaWrite);
}

TEST(ApiMemory, IsDeregisteredWhenDropped) {
    const via::Nic nic = need(via::Nic::open(device));
    std::vector<std::byte> bytes(5000);
    via::Memory memory = need(nic.register_memory(bytes));
    const VIP_MEM_HANDLE handle = memory.handle();
    VIP_MEM_ATTRIBUTES attributes{};
    ASSERT_EQ(VipQueryMem(nic.handle(), bytes.data(), handle, &attributes), VIP_SUCCESS);
    memory = need(nic.allocate(4096));
    EXPECT_EQ(VipQueryMem(nic.handle(), bytes.data(), handle, &attributes), VIP_INVALID_PARAMETER);
}

TEST(ApiMemory, RefusesNothing) {
    const via::Nic nic = need(via::Nic::open(device));
    const auto memory = nic.allocate(0);
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.error().code, VIP_INVALID_PARAMETER);
    EXPECT_FALSE(memory.error().sentence.empty());
}

TEST(ApiPool, HandsOutEachBufferOnce) {
    const via::Nic nic = need(via::Nic::open(device));
    via::BufferPool pool = need(nic.create_pool(5, 100));
    EXPECT_EQ(pool.size(), 5u);
    EXPECT_EQ(pool.bytes_each(), 100u);
    std::vector<via::Buffer> taken;
    while (via::Buffer buffer = pool.take()) {
        EXPECT_EQ(buffer.capacity(), 100u);
        EXPECT_EQ(buffer.size(), 0u);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.area().data()) % 64, 0u);
        EXPECT_GE(buffer.area().data(), pool.memory().data());
        EXPECT_LE(buffer.area().data() + 100, pool.memory().data() + pool.memory().size());
        std::ranges::fill(buffer.area(), std::byte(taken.size()));
        taken.push_back(std::move(buffer));
    }
    ASSERT_EQ(taken.size(), 5u);
    EXPECT_EQ(pool.available(), 0u);
    for (std::size_t i = 0; i < taken.size(); ++i) {
        EXPECT_TRUE(std::ranges::all_of(taken[i].area(),
                                        [i](std::byte byte) { return byte == std::byte(i); }));
    }
    taken.pop_back();
    EXPECT_EQ(pool.available(), 1u);
    EXPECT_TRUE(pool.take());
    EXPECT_EQ(pool.available(), 1u);
}

TEST(ApiPool, BuffersHoldTextUpToTheirCapacity) {
    const via::Nic nic = need(via::Nic::open(device));
    via::BufferPool pool = need(nic.create_pool(1, 8));
    via::Buffer buffer = pool.take();
    EXPECT_EQ(buffer.assign("hello"), 5u);
    EXPECT_EQ(buffer.text(), "hello");
    EXPECT_EQ(buffer.assign("hello world"), 8u);
    EXPECT_EQ(buffer.text(), "hello wo");
    buffer.resize(100);
    EXPECT_EQ(buffer.size(), 8u);
    buffer.resize(2);
    EXPECT_EQ(buffer.bytes().size(), 2u);
}

TEST(ApiPool, RefusesSizesThatMakeNoBuffer) {
    const via::Nic nic = need(via::Nic::open(device));
    for (const std::size_t bytes : {std::size_t{0}, via::BufferPool::max_bytes_each + 1}) {
        const auto pool = nic.create_pool(1, bytes);
        ASSERT_FALSE(pool);
        EXPECT_EQ(pool.error().code, VIP_INVALID_PARAMETER);
    }
    EXPECT_FALSE(nic.create_pool(0, 64));
    const auto pool = via::BufferPool::create(need(nic.allocate(4096)), 8192);
    ASSERT_FALSE(pool);
    EXPECT_EQ(pool.error().code, VIP_INVALID_PARAMETER);
}

TEST(ApiPool, LivesAsLongAsItsLastBuffer) {
    via::Buffer buffer;
    {
        const via::Nic nic = need(via::Nic::open(device));
        via::BufferPool pool = need(nic.create_pool(2, 4096));
        buffer = pool.take();
    }
    buffer.assign("still here");
    EXPECT_EQ(buffer.text(), "still here");
}

TEST(ApiNic, MayBeDroppedBeforeWhatWasMadeOnIt) {
    auto nic = std::make_optional(need(via::Nic::open(device)));
    via::BufferPool pool = need(nic->create_pool(2, 64));
    auto queue = std::make_optional(need(nic->create_completion_queue(8)));
    via::Memory memory = need(nic->allocate(4096));
    via::Vi vi = need(nic->create_vi({.receive_queue = &*queue}));
    need(vi.post_receive(pool.take()));
    nic.reset();
    queue.reset();
    EXPECT_EQ(vi.state(), via::State::Idle);
    std::ranges::fill(memory.bytes(), std::byte{1});
}

}  // namespace
}  // namespace via_api_test
