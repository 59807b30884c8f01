// SPDX-License-Identifier: BSD-3-Clause
// Memory regions: keys, addresses, pieces.
#include <array>
#include <cstring>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

void write(Pair& pair, const void* text, std::size_t bytes, std::uint64_t address,
           std::uint64_t key) {
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_write(pair.a.ep.get(), text, bytes, nullptr, 0, address, key, nullptr); },
        "fi_write");
    (void)pair.a.next_good(&pair.b);
}

std::uint64_t number(const void* address) {
    return reinterpret_cast<std::uint64_t>(address);
}

}  // namespace

TEST(MemoryRegion, KeysOfTheProgramAreTakenOnce) {
    Node node;
    char memory[8];
    const auto first = node.expose(memory, sizeof memory, 5);
    EXPECT_EQ(fi_mr_key(first.get()), 5U);
    fid_mr* second = nullptr;
    EXPECT_EQ(fi_mr_reg(node.domain.get(), memory, sizeof memory, FI_REMOTE_READ, 0, 5, 0, &second,
                        nullptr),
              -FI_ENOKEY);
}

TEST(MemoryRegion, VirtualAddressesAndKeysOfTheProvider) {
    Wish wish;
    wish.mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    wish.transmit_flags |= FI_DELIVERY_COMPLETE;
    Pair pair(wish);
    std::array<char, 64> memory{};
    const auto region = pair.b.expose(memory.data(), memory.size(), 7);
    const auto other = pair.b.expose(memory.data(), memory.size(), 7);
    EXPECT_NE(fi_mr_key(region.get()), fi_mr_key(other.get()));
    write(pair, "hello", 6, number(memory.data()) + 8, fi_mr_key(region.get()));
    EXPECT_STREQ(memory.data() + 8, "hello");
    std::uint64_t base = 0;
    std::uint8_t raw[8];
    std::size_t bytes = sizeof raw;
    ASSERT_EQ(fi_mr_raw_attr(region.get(), &base, raw, &bytes, 0), 0);
    EXPECT_EQ(base, number(memory.data()));
    std::uint64_t mapped = 0;
    ASSERT_EQ(fi_mr_map_raw(pair.a.domain.get(), base, raw, bytes, &mapped, 0), 0);
    EXPECT_EQ(mapped, fi_mr_key(region.get()));
}

TEST(MemoryRegion, AllOfMemory) {
    Wish wish;
    wish.transmit_flags |= FI_DELIVERY_COMPLETE;
    Pair pair(wish);
    std::array<char, 64> memory{};
    const auto region = pair.b.expose(nullptr, SIZE_MAX, 1);
    write(pair, "anywhere", 9, number(memory.data()), 1);
    EXPECT_STREQ(memory.data(), "anywhere");
}

TEST(MemoryRegion, OfPieces) {
    Wish wish;
    wish.transmit_flags |= FI_DELIVERY_COMPLETE;
    Pair pair(wish);
    std::array<char, 8> first{};
    std::array<char, 8> second{};
    std::array<iovec, 2> pieces{{{first.data(), 8}, {second.data(), 8}}};
    fid_mr* made = nullptr;
    check(
        fi_mr_regv(pair.b.domain.get(), pieces.data(), 2, FI_REMOTE_WRITE, 0, 3, 0, &made, nullptr),
        "fi_mr_regv");
    const Open<fid_mr> region(made);
    write(pair, "0123456789", 10, 4, 3);
    EXPECT_EQ(std::memcmp(first.data() + 4, "0123", 4), 0);
    EXPECT_EQ(std::memcmp(second.data(), "456789", 6), 0);
}

TEST(MemoryRegion, ACountsWhatPeersDoThere) {
    Wish wish;
    wish.caps |= FI_RMA_EVENT;
    wish.transmit_flags |= FI_DELIVERY_COMPLETE;
    Pair pair(wish);
    std::array<char, 64> memory{};
    fi_cntr_attr attributes{};
    fid_cntr* opened = nullptr;
    check(fi_cntr_open(pair.b.domain.get(), &attributes, &opened, nullptr), "fi_cntr_open");
    const Open<fid_cntr> counter(opened);
    const auto region = pair.b.expose(memory.data(), memory.size(), 3);
    const auto silent = pair.b.expose(memory.data(), memory.size(), 4);
    check(fi_mr_bind(region.get(), &counter->fid, FI_REMOTE_WRITE), "fi_mr_bind");
    write(pair, "a", 1, 0, 3);
    write(pair, "b", 1, 0, 4);
    write(pair, "c", 1, 0, 3);
    EXPECT_EQ(fi_cntr_read(counter.get()), 2U);
}

TEST(MemoryRegion, AClosedOneIsNotReached) {
    Wish wish;
    wish.transmit_flags |= FI_DELIVERY_COMPLETE;
    Pair pair(wish);
    std::array<char, 64> memory{};
    auto region = pair.b.expose(memory.data(), memory.size(), 3);
    write(pair, "open", 5, 0, 3);
    region.reset();
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_write(pair.a.ep.get(), "shut", 5, nullptr, 0, 0, 3, nullptr); },
        "fi_write");
    EXPECT_TRUE(pair.a.next(&pair.b).is_error);
    EXPECT_STREQ(memory.data(), "open");
}
