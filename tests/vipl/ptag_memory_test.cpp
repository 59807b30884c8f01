// SPDX-License-Identifier: BSD-3-Clause
// VipCreatePtag, VipDestroyPtag, VipRegisterMem, VipDeregisterMem, VipSetMemAttributes,
// VipQueryMem, and what tags mean for data; the extension VipxAllocMem, VipxFreeMem.
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/smaps.hpp"
#include "vipl/harness.hpp"
#include "vipl/status_bits.hpp"

namespace via::test {
namespace {

/// Memory registered piece by piece by the tests themselves.
class Heap {
  public:
    explicit Heap(std::size_t bytes, std::size_t alignment = 4096)
        : bytes_(bytes), data_(static_cast<std::byte*>(std::aligned_alloc(alignment, bytes))) {
        std::memset(data_, 0, bytes);
    }
    Heap(const Heap&) = delete;
    Heap& operator=(const Heap&) = delete;
    ~Heap() { std::free(data_); }
    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

  private:
    std::size_t bytes_;
    std::byte* data_;
};

VIP_MEM_HANDLE register_memory(const Nic& nic, void* data, std::size_t bytes,
                               VIP_PROTECTION_HANDLE tag, bool write = false, bool read = false) {
    VIP_MEM_ATTRIBUTES attributes{tag, write ? VIP_TRUE : VIP_FALSE, read ? VIP_TRUE : VIP_FALSE};
    VIP_MEM_HANDLE handle = 0;
    EXPECT_VIP(VIP_SUCCESS, VipRegisterMem(nic, data, bytes, &attributes, &handle));
    return handle;
}

// ---- Tags -----------------------------------------------------------------------------------

TEST(Ptag, CreateGivesDistinctTags) {
    const Nic nic;
    std::set<VIP_PROTECTION_HANDLE> tags;
    for (int i = 0; i < 50; ++i) {
        const VIP_PROTECTION_HANDLE tag = make_tag(nic);
        EXPECT_NE(tag, nullptr) << "NULL stands for the default tag";
        EXPECT_TRUE(tags.insert(tag).second);
    }
    for (VIP_PROTECTION_HANDLE tag : tags)
        EXPECT_VIP(VIP_SUCCESS, VipDestroyPtag(nic, tag));
}

TEST(Ptag, CreateRefusesBadArguments) {
    const Nic nic;
    VIP_PROTECTION_HANDLE tag = nullptr;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCreatePtag(nullptr, &tag));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCreatePtag(nic, nullptr));
}

TEST(Ptag, CreateBeyondTheMaximumIsAResourceError) {
    const Nic nic;
    const VIP_ULONG maximum = nic.attributes().MaxPtags;
    if (maximum > 1000000) GTEST_SKIP() << "MaxPtags is " << maximum;
    std::vector<VIP_PROTECTION_HANDLE> tags;
    VIP_RETURN code = VIP_SUCCESS;
    while (tags.size() <= maximum) {
        VIP_PROTECTION_HANDLE tag = nullptr;
        code = VipCreatePtag(nic, &tag);
        if (code != VIP_SUCCESS) break;
        tags.push_back(tag);
    }
    EXPECT_VIP(VIP_ERROR_RESOURCE, code);
    ASSERT_FALSE(tags.empty());
    EXPECT_VIP(VIP_SUCCESS, VipDestroyPtag(nic, tags.back()));
    EXPECT_VIP(VIP_SUCCESS, VipCreatePtag(nic, &tags.back()));
    for (VIP_PROTECTION_HANDLE tag : tags)
        ASSERT_VIP(VIP_SUCCESS, VipDestroyPtag(nic, tag));
}

TEST(Ptag, DestroyRefusesAnUnknownTag) {
    const Nic nic;
    const Nic other;
    int something = 0;
    EXPECT_VIP(VIP_INVALID_PTAG, VipDestroyPtag(nic, nullptr));
    EXPECT_VIP(VIP_INVALID_PTAG, VipDestroyPtag(nic, &something));
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    EXPECT_VIP(VIP_INVALID_PTAG, VipDestroyPtag(other, tag));
    EXPECT_VIP(VIP_SUCCESS, VipDestroyPtag(nic, tag));
    EXPECT_VIP(VIP_INVALID_PTAG, VipDestroyPtag(nic, tag));
}

TEST(Ptag, DestroyRefusesABadNic) {
    const Nic nic;
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDestroyPtag(nullptr, tag));
    EXPECT_VIP(VIP_SUCCESS, VipDestroyPtag(nic, tag));
}

TEST(Ptag, DestroyWhileAViUsesItIsAResourceError) {
    Nic nic;
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    {
        const Vi vi(nic, {.tag = tag});
        EXPECT_VIP(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, tag));
    }
    EXPECT_VIP(VIP_SUCCESS, VipDestroyPtag(nic, tag));
}

TEST(Ptag, DestroyWhileARegionUsesItIsAResourceError) {
    const Nic nic;
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    const Heap heap(4096);
    const VIP_MEM_HANDLE first = register_memory(nic, heap.data(), 4096, tag);
    const VIP_MEM_HANDLE second = register_memory(nic, heap.data(), 4096, nullptr);
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, tag));
    VIP_MEM_ATTRIBUTES attributes{tag, VIP_FALSE, VIP_FALSE};
    EXPECT_VIP(VIP_SUCCESS, VipSetMemAttributes(nic, heap.data(), second, &attributes));
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data(), first));
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, tag));
    attributes.Ptag = nullptr;
    EXPECT_VIP(VIP_SUCCESS, VipSetMemAttributes(nic, heap.data(), second, &attributes));
    EXPECT_VIP(VIP_SUCCESS, VipDestroyPtag(nic, tag));
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data(), second));
}

// ---- Registration ---------------------------------------------------------------------------

TEST(Memory, AnyOrdinaryMemoryCanBeRegistered) {
    const Nic nic;
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    std::byte on_stack[100] = {};
    static std::byte in_data[100] = {};
    auto on_heap = std::make_unique<std::byte[]>(100);
    const VIP_MEM_HANDLE stack_handle = register_memory(nic, on_stack, sizeof on_stack, tag);
    const VIP_MEM_HANDLE data_handle = register_memory(nic, in_data, sizeof in_data, tag);
    const VIP_MEM_HANDLE heap_handle = register_memory(nic, on_heap.get(), 100, tag);
    const VIP_MEM_HANDLE odd_handle = register_memory(nic, on_heap.get() + 1, 1, tag);
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, on_stack, stack_handle));
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, in_data, data_handle));
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, on_heap.get(), heap_handle));
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, on_heap.get() + 1, odd_handle));
}

/// Whether the kernel moves memory to huge pages when it is asked to.
bool huge_pages_can_be_had(std::size_t block) {
    const char* setting = std::getenv("VIA_HUGE_PAGES");
    if (setting != nullptr && std::string_view(setting) == "never") return false;
    std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string enabled;
    if (!std::getline(file, enabled) || enabled.find("[never]") != std::string::npos) return false;
    const Heap trial(block, block);
    constexpr int collapse = 25;  // MADV_COLLAPSE of Linux 6.1, which older headers lack
    return ::madvise(trial.data(), block, collapse) == 0;
}

TEST(Memory, WhatIsRegisteredMovesToHugePagesAndKeepsItsContents) {
    constexpr std::size_t block = std::size_t{2} << 20;
    if (!huge_pages_can_be_had(block)) GTEST_SKIP() << "this system has none, or they are unwanted";
    const Nic nic;
    const Heap heap(2 * block, block);
    fill_pattern(heap.data(), heap.bytes(), 5);
    // The kernel may be at these pages itself for a moment.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    do {
        const VIP_MEM_HANDLE handle = register_memory(nic, heap.data(), heap.bytes(), nullptr);
        EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data(), handle));
    } while (huge_bytes_at(heap.data()) < heap.bytes() && std::chrono::steady_clock::now() < end);
    EXPECT_GE(huge_bytes_at(heap.data()), heap.bytes());
    EXPECT_TRUE(has_pattern(heap.data(), heap.bytes(), 5));
}

TEST(Memory, DataMovesFromStackToMappedFile) {
    Pair pair;
    std::byte source[300];
    fill_pattern(source, sizeof source, 11);
    std::FILE* file = std::tmpfile();
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(ftruncate(fileno(file), 4096), 0);
    auto* target = static_cast<std::byte*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0));
    ASSERT_NE(target, MAP_FAILED);
    const VIP_MEM_HANDLE source_handle =
        register_memory(pair.client.nic, source, sizeof source, pair.client.tag);
    const VIP_MEM_HANDLE target_handle =
        register_memory(pair.server.nic, target, 4096, pair.server.tag);
    VIP_DESCRIPTOR* receive = pair.server.arena.descriptor();
    const Segment into{target + 1001, target_handle, sizeof source};
    fill(receive, {&into, 1});
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor();
    const Segment from{source, source_handle, sizeof source};
    fill(send, {&from, 1});
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
    EXPECT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
    EXPECT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
    EXPECT_TRUE(has_pattern(target + 1001, sizeof source, 11));
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(pair.client.nic, source, source_handle));
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(pair.server.nic, target, target_handle));
    munmap(target, 4096);
    std::fclose(file);
}

TEST(Memory, HandlesAreDistinctAndNeverZeroOrAllOnes) {
    const Nic nic;
    const Heap heap(65536);
    std::set<VIP_MEM_HANDLE> handles;
    for (int i = 0; i < 1000; ++i) {
        const VIP_MEM_HANDLE handle = register_memory(nic, heap.data(), 64, nullptr);
        EXPECT_NE(handle, 0U);
        EXPECT_NE(handle, 0xFFFFFFFFU);
        EXPECT_TRUE(handles.insert(handle).second);
    }
    for (const VIP_MEM_HANDLE handle : handles) {
        EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data(), handle));
    }
}

TEST(Memory, OverlappingRegionsHaveTheirOwnAttributes) {
    const Nic nic;
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    const Heap heap(8192);
    const VIP_MEM_HANDLE open = register_memory(nic, heap.data(), 8192, tag, true, false);
    const VIP_MEM_HANDLE closed = register_memory(nic, heap.data(), 8192, nullptr);
    const VIP_MEM_HANDLE part = register_memory(nic, heap.data() + 100, 5000, tag, false, false);
    VIP_MEM_ATTRIBUTES attributes{};
    EXPECT_VIP(VIP_SUCCESS, VipQueryMem(nic, heap.data(), open, &attributes));
    EXPECT_EQ(attributes.Ptag, tag);
    EXPECT_EQ(attributes.EnableRdmaWrite, VIP_TRUE);
    EXPECT_EQ(attributes.EnableRdmaRead, VIP_FALSE);
    EXPECT_VIP(VIP_SUCCESS, VipQueryMem(nic, heap.data(), closed, &attributes));
    EXPECT_EQ(attributes.Ptag, nullptr);
    EXPECT_EQ(attributes.EnableRdmaWrite, VIP_FALSE);
    EXPECT_VIP(VIP_SUCCESS, VipQueryMem(nic, heap.data() + 100, part, &attributes));
    EXPECT_EQ(attributes.Ptag, tag);
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data(), closed));
    EXPECT_VIP(VIP_SUCCESS, VipQueryMem(nic, heap.data(), open, &attributes));
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data() + 100, part));
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data(), open));
}

TEST(Memory, NullAttributesMeanTheDefaultTagAndNoRdma) {
    const Nic nic;
    const Heap heap(4096);
    VIP_MEM_HANDLE handle = 0;
    ASSERT_VIP(VIP_SUCCESS, VipRegisterMem(nic, heap.data(), 4096, nullptr, &handle));
    VIP_MEM_ATTRIBUTES attributes{&handle, VIP_TRUE, VIP_TRUE};
    EXPECT_VIP(VIP_SUCCESS, VipQueryMem(nic, heap.data(), handle, &attributes));
    EXPECT_EQ(attributes.Ptag, nullptr);
    EXPECT_EQ(attributes.EnableRdmaWrite, VIP_FALSE);
    EXPECT_EQ(attributes.EnableRdmaRead, VIP_FALSE);
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data(), handle));
}

TEST(Memory, RegisterRefusesBadArguments) {
    const Nic nic;
    const Heap heap(4096);
    VIP_MEM_ATTRIBUTES attributes{};
    VIP_MEM_HANDLE handle = 0;
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipRegisterMem(nullptr, heap.data(), 4096, &attributes, &handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipRegisterMem(nic, nullptr, 4096, &attributes, &handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipRegisterMem(nic, heap.data(), 0, &attributes, &handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipRegisterMem(nic, heap.data(), 4096, &attributes, nullptr));
    // A range that runs over the end of the address space.
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipRegisterMem(nic, heap.data(), ~0UL, &attributes, &handle));
}

TEST(Memory, RegisterRefusesMemoryThatIsNotThere) {
    const Nic nic;
    VIP_MEM_HANDLE handle = 0;
    void* hole = mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(hole, MAP_FAILED);
    auto* start = static_cast<std::byte*>(hole);
    ASSERT_EQ(munmap(start + 8192, 4096), 0);
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipRegisterMem(nic, start, 16384, nullptr, &handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipRegisterMem(nic, start + 8192, 100, nullptr, &handle));
    EXPECT_VIP(VIP_SUCCESS, VipRegisterMem(nic, start, 8192, nullptr, &handle));
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, start, handle));
    munmap(start, 8192);
    munmap(start + 12288, 4096);
}

TEST(Memory, RegisterRefusesAnUnknownTag) {
    const Nic nic;
    const Heap heap(4096);
    int something = 0;
    VIP_MEM_ATTRIBUTES attributes{&something, VIP_FALSE, VIP_FALSE};
    VIP_MEM_HANDLE handle = 0;
    EXPECT_VIP(VIP_INVALID_PTAG, VipRegisterMem(nic, heap.data(), 4096, &attributes, &handle));
    attributes.Ptag = make_tag(nic);
    EXPECT_VIP(VIP_SUCCESS, VipDestroyPtag(nic, attributes.Ptag));
    EXPECT_VIP(VIP_INVALID_PTAG, VipRegisterMem(nic, heap.data(), 4096, &attributes, &handle));
}

TEST(Memory, RdmaReadIsRefusedWhereTheNicHasNone) {
    const Nic nic;
    const Heap heap(4096);
    VIP_MEM_ATTRIBUTES attributes{nullptr, VIP_FALSE, VIP_TRUE};
    VIP_MEM_HANDLE handle = 0;
    const VIP_RETURN expected =
        nic.attributes().RDMAReadSupport != 0 ? VIP_SUCCESS : VIP_INVALID_RDMAREAD;
    EXPECT_VIP(expected, VipRegisterMem(nic, heap.data(), 4096, &attributes, &handle));
    if (expected == VIP_SUCCESS) {
        EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data(), handle));
    }
}

TEST(Memory, RegisterBeyondTheMaximumIsAResourceError) {
    const Nic nic;
    const VIP_ULONG maximum = nic.attributes().MaxRegisterRegions;
    if (maximum > 200000) GTEST_SKIP() << "MaxRegisterRegions is " << maximum;
    if (!try_limits()) GTEST_SKIP() << "limits are tried in another run";
    const Heap heap(4096);
    std::vector<VIP_MEM_HANDLE> handles;
    VIP_RETURN code = VIP_SUCCESS;
    while (handles.size() <= maximum) {
        VIP_MEM_HANDLE handle = 0;
        code = VipRegisterMem(nic, heap.data(), 64, nullptr, &handle);
        if (code != VIP_SUCCESS) break;
        handles.push_back(handle);
    }
    EXPECT_VIP(VIP_ERROR_RESOURCE, code);
    ASSERT_GT(handles.size(), 1000U);
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data(), handles.back()));
    EXPECT_VIP(VIP_SUCCESS, VipRegisterMem(nic, heap.data(), 64, nullptr, &handles.back()));
    for (const VIP_MEM_HANDLE handle : handles) {
        ASSERT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data(), handle));
    }
}

TEST(Memory, DeregisterTakesTheRegisteredAddressAndHandleOnly) {
    const Nic nic;
    const Nic other;
    const Heap heap(8192);
    const VIP_MEM_HANDLE handle = register_memory(nic, heap.data(), 8192, nullptr);
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDeregisterMem(nullptr, heap.data(), handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDeregisterMem(other, heap.data(), handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, heap.data() + 64, handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, nullptr, handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, heap.data(), handle ^ 0x10000));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, heap.data(), 0));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, heap.data(), 0xFFFFFFFF));
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data(), handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, heap.data(), handle));
}

TEST(Memory, AHandleIsNotReusedAtOnce) {
    const Nic nic;
    const Heap heap(4096);
    std::set<VIP_MEM_HANDLE> handles;
    for (int i = 0; i < 200; ++i) {
        const VIP_MEM_HANDLE handle = register_memory(nic, heap.data(), 4096, nullptr);
        EXPECT_TRUE(handles.insert(handle).second) << "a stale handle would work again";
        EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data(), handle));
    }
}

TEST(Memory, SetAndQueryAttributes) {
    const Nic nic;
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    const Heap heap(4096);
    const VIP_MEM_HANDLE handle = register_memory(nic, heap.data(), 4096, nullptr);
    VIP_MEM_ATTRIBUTES wanted{tag, VIP_TRUE, VIP_FALSE};
    ASSERT_VIP(VIP_SUCCESS, VipSetMemAttributes(nic, heap.data(), handle, &wanted));
    VIP_MEM_ATTRIBUTES seen{};
    ASSERT_VIP(VIP_SUCCESS, VipQueryMem(nic, heap.data(), handle, &seen));
    EXPECT_EQ(seen.Ptag, tag);
    EXPECT_EQ(seen.EnableRdmaWrite, VIP_TRUE);
    EXPECT_EQ(seen.EnableRdmaRead, VIP_FALSE);
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data(), handle));
}

TEST(Memory, SetRefusesBadArgumentsAndChangesNothing) {
    const Nic nic;
    const Nic other;
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    const Heap heap(4096);
    const VIP_MEM_HANDLE handle = register_memory(nic, heap.data(), 4096, tag, true);
    int something = 0;
    VIP_MEM_ATTRIBUTES wanted{&something, VIP_FALSE, VIP_FALSE};
    EXPECT_VIP(VIP_INVALID_PTAG, VipSetMemAttributes(nic, heap.data(), handle, &wanted));
    wanted.Ptag = nullptr;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipSetMemAttributes(nullptr, heap.data(), handle, &wanted));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipSetMemAttributes(other, heap.data(), handle, &wanted));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, heap.data() + 1, handle, &wanted));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, heap.data(), 0, &wanted));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, heap.data(), handle, nullptr));
    VIP_MEM_ATTRIBUTES seen{};
    EXPECT_VIP(VIP_SUCCESS, VipQueryMem(nic, heap.data(), handle, &seen));
    EXPECT_EQ(seen.Ptag, tag);
    EXPECT_EQ(seen.EnableRdmaWrite, VIP_TRUE);
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data(), handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, heap.data(), handle, &wanted));
}

TEST(Memory, QueryRefusesBadArguments) {
    const Nic nic;
    const Nic other;
    const Heap heap(4096);
    const VIP_MEM_HANDLE handle = register_memory(nic, heap.data(), 4096, nullptr);
    VIP_MEM_ATTRIBUTES seen{};
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipQueryMem(nullptr, heap.data(), handle, &seen));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipQueryMem(other, heap.data(), handle, &seen));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipQueryMem(nic, heap.data() + 1, handle, &seen));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipQueryMem(nic, heap.data(), handle + 1, &seen));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipQueryMem(nic, heap.data(), handle, nullptr));
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data(), handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipQueryMem(nic, heap.data(), handle, &seen));
}

// ---- What tags and handles mean for data ----------------------------------------------------

/// Unreliable, so that a refused send leaves the connection as it was.
class Protection : public testing::Test {
  protected:
    Pair pair_{unreliable};
    Heap heap_{8192};

    /// The error bits of a send from the given memory, and whether it arrived.
    std::uint32_t send_from(VIP_MEM_HANDLE handle, const void* data, std::uint32_t bytes) {
        VIP_DESCRIPTOR* receive = pair_.server.arena.message(pair_.server.arena.take(8192), 8192);
        EXPECT_VIP(VIP_SUCCESS, pair_.server.post_recv(receive));
        VIP_DESCRIPTOR* send = pair_.client.arena.descriptor();
        const Segment segment{data, handle, bytes};
        fill(send, {&segment, 1});
        EXPECT_VIP(VIP_SUCCESS, pair_.client.post_send(send));
        const Completion sent = pair_.client.vi.await_send();
        EXPECT_EQ(sent.descriptor, send);
        if (sent.code == VIP_SUCCESS) {
            EXPECT_VIP(VIP_SUCCESS, pair_.server.vi.await_recv().code);
        } else {
            EXPECT_VIP(VIP_DESCRIPTOR_ERROR, sent.code);
        }
        return sent.errors();
    }
};

TEST_F(Protection, TheTagsOfViAndRegionMustBeTheSame) {
    Nic& nic = pair_.client.nic;
    const VIP_MEM_HANDLE same = register_memory(nic, heap_.data(), 8192, pair_.client.tag);
    const VIP_MEM_HANDLE other = register_memory(nic, heap_.data(), 8192, make_tag(nic));
    const VIP_MEM_HANDLE null = register_memory(nic, heap_.data(), 8192, nullptr);
    EXPECT_EQ(send_from(same, heap_.data(), 100), 0U);
    EXPECT_EQ(send_from(other, heap_.data(), 100), protection_error);
    EXPECT_EQ(send_from(null, heap_.data(), 100), protection_error);
    EXPECT_TRUE(pair_.both_connected());
    EXPECT_EQ(send_from(same, heap_.data(), 100), 0U);
}

TEST_F(Protection, EveryByteMustLieInTheRegion) {
    const VIP_MEM_HANDLE handle =
        register_memory(pair_.client.nic, heap_.data() + 1000, 100, pair_.client.tag);
    EXPECT_EQ(send_from(handle, heap_.data() + 1000, 100), 0U);
    EXPECT_EQ(send_from(handle, heap_.data() + 1099, 1), 0U);
    EXPECT_EQ(send_from(handle, heap_.data() + 999, 1), protection_error);
    EXPECT_EQ(send_from(handle, heap_.data() + 999, 2), protection_error);
    EXPECT_EQ(send_from(handle, heap_.data() + 1099, 2), protection_error);
    EXPECT_EQ(send_from(handle, heap_.data() + 1100, 1), protection_error);
    EXPECT_EQ(send_from(handle, reinterpret_cast<void*>(~std::uintptr_t{0} - 3), 8),
              protection_error);
    EXPECT_EQ(send_from(handle, nullptr, 8), protection_error);
}

TEST_F(Protection, UnknownAndStaleHandlesAreRefused) {
    const VIP_MEM_HANDLE handle =
        register_memory(pair_.client.nic, heap_.data(), 8192, pair_.client.tag);
    EXPECT_EQ(send_from(handle, heap_.data(), 10), 0U);
    EXPECT_EQ(send_from(0, heap_.data(), 10), protection_error);
    EXPECT_EQ(send_from(0xFFFFFFFF, heap_.data(), 10), protection_error);
    EXPECT_EQ(send_from(handle ^ 0x7F0000, heap_.data(), 10), protection_error);
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(pair_.client.nic, heap_.data(), handle));
    EXPECT_EQ(send_from(handle, heap_.data(), 10), protection_error);
}

TEST_F(Protection, SetMemAttributesTakesEffect) {
    Nic& nic = pair_.client.nic;
    const VIP_MEM_HANDLE handle = register_memory(nic, heap_.data(), 8192, nullptr);
    EXPECT_EQ(send_from(handle, heap_.data(), 10), protection_error);
    VIP_MEM_ATTRIBUTES attributes{pair_.client.tag, VIP_FALSE, VIP_FALSE};
    ASSERT_VIP(VIP_SUCCESS, VipSetMemAttributes(nic, heap_.data(), handle, &attributes));
    EXPECT_EQ(send_from(handle, heap_.data(), 10), 0U);
    attributes.Ptag = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipSetMemAttributes(nic, heap_.data(), handle, &attributes));
    EXPECT_EQ(send_from(handle, heap_.data(), 10), protection_error);
}

TEST_F(Protection, OneBadSegmentRefusesTheWholeSend) {
    VIP_DESCRIPTOR* send = pair_.client.arena.descriptor(3);
    std::byte* data = pair_.client.arena.take(64);
    const Segment segments[] = {pair_.client.arena.segment(data, 10),
                                pair_.client.arena.segment(data + 10, 10), Segment{data, 0, 10}};
    fill(send, segments);
    std::byte* target = pair_.server.arena.take(64);
    std::memset(target, 0x5A, 64);
    ASSERT_VIP(VIP_SUCCESS, pair_.server.post_recv(pair_.server.arena.message(target, 64)));
    ASSERT_VIP(VIP_SUCCESS, pair_.client.post_send(send));
    EXPECT_EQ(pair_.client.vi.await_send().errors(), protection_error);
    // Nothing was sent: the next message takes the same receive.
    VIP_DESCRIPTOR* good = pair_.client.arena.message(data, 5);
    ASSERT_VIP(VIP_SUCCESS, pair_.client.post_send(good));
    EXPECT_EQ(pair_.server.vi.await_recv().length(), 5U);
    EXPECT_TRUE(all_bytes_are(target + 5, 59, std::byte{0x5A}));
    EXPECT_VIP(VIP_SUCCESS, pair_.client.vi.await_send().code);
}

TEST_F(Protection, DeregisteredReceiveMemoryIsNotWritten) {
    const VIP_MEM_HANDLE handle =
        register_memory(pair_.server.nic, heap_.data(), 8192, pair_.server.tag);
    VIP_DESCRIPTOR* receive = pair_.server.arena.descriptor();
    const Segment segment{heap_.data(), handle, 100};
    fill(receive, {&segment, 1});
    ASSERT_VIP(VIP_SUCCESS, pair_.server.post_recv(receive));
    ASSERT_VIP(VIP_SUCCESS, VipDeregisterMem(pair_.server.nic, heap_.data(), handle));
    std::byte* data = pair_.client.arena.take(100);
    fill_pattern(data, 100, 1);
    ASSERT_VIP(VIP_SUCCESS, pair_.client.post_send(pair_.client.arena.message(data, 100)));
    const Completion received = pair_.server.vi.await_recv();
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, received.code);
    EXPECT_EQ(received.descriptor, receive);
    EXPECT_NE(received.errors() & protection_error, 0U);
    EXPECT_TRUE(all_bytes_are(heap_.data(), 100, std::byte{0}));
}

// ---- The NULL tag ---------------------------------------------------------------------------

struct NullTag {
    Nic nic;
    Heap heap{8192};  // outlives the VIs, whose descriptors lie in it
    Vi client{nic, {.level = unreliable}};
    Vi server{nic, {.level = unreliable}};
    VIP_MEM_HANDLE tagged = register_memory(nic, heap.data(), 8192, make_tag(nic));
    VIP_MEM_HANDLE untagged = register_memory(nic, heap.data(), 8192, nullptr);

    NullTag() { EXPECT_VIP(VIP_SUCCESS, connect(client, server).request); }

    /// The error bits of a send from the region `data`.
    std::uint32_t send(VIP_MEM_HANDLE data) {
        auto* receive = reinterpret_cast<VIP_DESCRIPTOR*>(heap.data());
        const Segment into{heap.data() + 4096, untagged, 64};
        fill(receive, {&into, 1});
        EXPECT_VIP(VIP_SUCCESS, VipPostRecv(server, receive, untagged));
        auto* send = reinterpret_cast<VIP_DESCRIPTOR*>(heap.data() + 64);
        const Segment from{heap.data() + 5000, data, 64};
        fill(send, {&from, 1});
        EXPECT_VIP(VIP_SUCCESS, VipPostSend(client, send, untagged));
        const Completion sent = client.await_send();
        if (sent.code == VIP_SUCCESS) {
            EXPECT_VIP(VIP_SUCCESS, server.await_recv().code);
        } else {
            EXPECT_VIP(VIP_SUCCESS, VipDisconnect(server));
            server.drain_recv();
        }
        return sent.errors();
    }
};

TEST(NullPtag, OfAViMatchesEveryRegionOfTheNicHandle) {
    NullTag setup;
    EXPECT_EQ(setup.send(setup.untagged), 0U);
    EXPECT_EQ(setup.send(setup.tagged), 0U);
}

TEST(NullPtag, DescriptorsMayLieInTaggedMemoryToo) {
    NullTag setup;
    auto* receive = reinterpret_cast<VIP_DESCRIPTOR*>(setup.heap.data());
    const Segment into{setup.heap.data() + 4096, setup.tagged, 64};
    fill(receive, {&into, 1});
    EXPECT_VIP(VIP_SUCCESS, VipPostRecv(setup.server, receive, setup.tagged));
}

PEER(strict_null_tag) {
    NullTag setup;
    EXPECT_EQ(setup.send(setup.untagged), 0U);
    EXPECT_EQ(setup.send(setup.tagged), protection_error);
}

TEST(NullPtag, IsATagLikeAnyOtherWhereThatIsAsked) {
    PeerProcess peer("strict_null_tag", {{"VIA_STRICT_PTAG", "1"}});
    EXPECT_EQ(peer.wait(), 0);
}

// ---- The extension for memory that peers can map --------------------------------------------

TEST(Kmem, AllocatedMemoryIsRegisteredAndUsable) {
    const Nic nic;
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    VIP_MEM_ATTRIBUTES attributes{tag, VIP_TRUE, VIP_FALSE};
    VIP_PVOID address = nullptr;
    VIP_MEM_HANDLE handle = 0;
    ASSERT_VIP(VIP_SUCCESS, VipxAllocMem(nic, 100000, &attributes, &address, &handle));
    ASSERT_NE(address, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % static_cast<std::size_t>(getpagesize()),
              0U);
    std::memset(address, 0x11, 100000);
    VIP_MEM_ATTRIBUTES seen{};
    EXPECT_VIP(VIP_SUCCESS, VipQueryMem(nic, address, handle, &seen));
    EXPECT_EQ(seen.Ptag, tag);
    EXPECT_EQ(seen.EnableRdmaWrite, VIP_TRUE);
    EXPECT_VIP(VIP_SUCCESS, VipxFreeMem(nic, address, handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipxFreeMem(nic, address, handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipQueryMem(nic, address, handle, &seen));
    EXPECT_VIP(VIP_SUCCESS, VipDestroyPtag(nic, tag));
}

TEST(Kmem, FreshMemoryHoldsNothingOfAnEarlierUser) {
    const Nic nic;
    for (int i = 0; i < 3; ++i) {
        VIP_PVOID address = nullptr;
        VIP_MEM_HANDLE handle = 0;
        ASSERT_VIP(VIP_SUCCESS, VipxAllocMem(nic, 65536, nullptr, &address, &handle));
        EXPECT_TRUE(all_bytes_are(static_cast<std::byte*>(address), 65536, std::byte{0}));
        std::memset(address, 0x77, 65536);
        EXPECT_VIP(VIP_SUCCESS, VipxFreeMem(nic, address, handle));
    }
}

TEST(Kmem, PartsCanBeRegisteredAgain) {
    const Nic nic;
    VIP_PVOID address = nullptr;
    VIP_MEM_HANDLE handle = 0;
    ASSERT_VIP(VIP_SUCCESS, VipxAllocMem(nic, 65536, nullptr, &address, &handle));
    auto* part = static_cast<std::byte*>(address) + 100;
    const VIP_MEM_HANDLE again = register_memory(nic, part, 500, make_tag(nic), true);
    EXPECT_NE(again, handle);
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, part, again));
    EXPECT_VIP(VIP_SUCCESS, VipxFreeMem(nic, address, handle));
}

TEST(Kmem, BadArgumentsAreRefused) {
    const Nic nic;
    const Heap heap(4096);
    VIP_PVOID address = nullptr;
    VIP_MEM_HANDLE handle = 0;
    int something = 0;
    VIP_MEM_ATTRIBUTES unknown_tag{&something, VIP_FALSE, VIP_FALSE};
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipxAllocMem(nullptr, 4096, nullptr, &address, &handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipxAllocMem(nic, 0, nullptr, &address, &handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipxAllocMem(nic, 4096, nullptr, nullptr, &handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipxAllocMem(nic, 4096, nullptr, &address, nullptr));
    EXPECT_VIP(VIP_INVALID_PTAG, VipxAllocMem(nic, 4096, &unknown_tag, &address, &handle));
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipxAllocMem(nic, ~0UL / 2, nullptr, &address, &handle));
    const VIP_MEM_HANDLE ordinary = register_memory(nic, heap.data(), 4096, nullptr);
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipxFreeMem(nic, heap.data(), ordinary));
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, heap.data(), ordinary));
}

TEST(ErrorText, EveryCodeHasItsName) {
    EXPECT_STREQ(VipxReturnName(VIP_SUCCESS), "VIP_SUCCESS");
    EXPECT_STREQ(VipxReturnName(VIP_NO_MATCH), "VIP_NO_MATCH");
    EXPECT_STREQ(VipxReturnName(VIP_DESCRIPTOR_ERROR), "VIP_DESCRIPTOR_ERROR");
    EXPECT_STREQ(VipxReturnName(VIP_ERROR_NOT_SUPPORTED), "VIP_ERROR_NOT_SUPPORTED");
    EXPECT_NE(VipxReturnName(static_cast<VIP_RETURN>(10)), nullptr);
}

TEST(ErrorText, IsASentenceOfTheCallingThread) {
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCloseNic(nullptr));
    const std::string here = VipxErrorText();
    EXPECT_GT(here.size(), 10U);
    std::string elsewhere = "unset";
    std::thread([&] { elsewhere = VipxErrorText(); }).join();
    EXPECT_EQ(elsewhere, "");
    EXPECT_EQ(VipxErrorText(), here);
}

}  // namespace
}  // namespace via::test
