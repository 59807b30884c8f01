// SPDX-License-Identifier: BSD-3-Clause
// One-sided reads and writes.
#include <array>
#include <cstring>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

constexpr std::uint64_t key = 0x8000000000000005;

class Transfer : public testing::TestWithParam<std::size_t> {};

}  // namespace

TEST_P(Transfer, AWriteIsThereWhenItIsDone) {
    Wish wish;
    wish.transmit_flags |= FI_DELIVERY_COMPLETE;
    Pair pair(wish);
    std::vector<char> memory(GetParam() + 32, 'u');
    const auto region = pair.b.expose(memory.data(), memory.size(), key);
    const std::vector<char> text = pattern(GetParam());
    int context = 0;
    until_taken(
        pair.a, &pair.b,
        [&] {
            return fi_write(pair.a.ep.get(), text.data(), text.size(), nullptr, 0, 16, key,
                            &context);
        },
        "fi_write");
    const fi_cq_tagged_entry entry = pair.a.next_good(&pair.b);
    EXPECT_EQ(entry.op_context, &context);
    EXPECT_EQ(entry.flags & (FI_RMA | FI_WRITE), FI_RMA | FI_WRITE);
    EXPECT_EQ(std::memcmp(memory.data() + 16, text.data(), text.size()), 0);
    EXPECT_EQ(memory[15], 'u');
    EXPECT_EQ(memory[16 + GetParam()], 'u');
    pair.b.expect_quiet(&pair.a);
}

TEST_P(Transfer, AReadBringsWhatIsThere) {
    Pair pair;
    std::vector<char> memory = pattern(GetParam() + 100, 4);
    const auto region = pair.b.expose(memory.data(), memory.size(), key);
    std::vector<char> got(GetParam(), 0);
    until_taken(
        pair.a, &pair.b,
        [&] {
            return fi_read(pair.a.ep.get(), got.data(), got.size(), nullptr, 0, 100, key, nullptr);
        },
        "fi_read");
    EXPECT_EQ(pair.a.next_good(&pair.b).flags & (FI_RMA | FI_READ), FI_RMA | FI_READ);
    EXPECT_EQ(std::memcmp(got.data(), memory.data() + 100, got.size()), 0);
}

TEST_P(Transfer, ToOneself) {
    Pair pair;
    std::vector<char> memory(GetParam(), 0);
    const auto region = pair.a.expose(memory.data(), memory.size(), key);
    const std::vector<char> text = pattern(GetParam(), 6);
    until_taken(
        pair.a, nullptr,
        [&] {
            return fi_write(pair.a.ep.get(), text.data(), text.size(), nullptr, 1, 0, key, nullptr);
        },
        "fi_write");
    (void)pair.a.next_good();
    EXPECT_EQ(memory, text);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Transfer, testing::Values(1, 8, 4000, 50'000, 2'000'000));

TEST(Rma, AWriteWithDataIsToldAtTheTarget) {
    Pair pair;
    std::vector<char> memory(64, 0);
    const auto region = pair.b.expose(memory.data(), memory.size(), key);
    char text[] = "with data";
    for (const bool inject : {false, true}) {
        until_taken(
            pair.a, &pair.b,
            [&] {
                return inject
                           ? fi_inject_writedata(pair.a.ep.get(), text, sizeof text, 99, 0, 0, key)
                           : fi_writedata(pair.a.ep.get(), text, sizeof text, nullptr, 99, 0, 0,
                                          key, nullptr);
            },
            "write with data");
        const fi_cq_tagged_entry entry = pair.b.next_good(&pair.a);
        constexpr std::uint64_t flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
        EXPECT_EQ(entry.flags & flags, flags);
        EXPECT_EQ(entry.data, 99U);
        EXPECT_STREQ(memory.data(), text);
        if (!inject) (void)pair.a.next_good(&pair.b);
    }
}

TEST(Rma, PiecesToPieces) {
    Wish wish;
    Pair pair(wish);
    std::vector<char> memory(1000, 0);
    const auto region = pair.b.expose(memory.data(), memory.size(), key);
    std::vector<char> text = pattern(300);
    std::array<iovec, 2> from{{{text.data(), 120}, {text.data() + 120, 180}}};
    std::array<fi_rma_iov, 2> to{{{10, 200, key}, {500, 100, key}}};
    fi_msg_rma message{};
    message.msg_iov = from.data();
    message.iov_count = from.size();
    message.rma_iov = to.data();
    message.rma_iov_count = to.size();
    until_taken(
        pair.a, &pair.b,
        [&] {
            return fi_writemsg(pair.a.ep.get(), &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
        },
        "fi_writemsg");
    (void)pair.a.next_good(&pair.b);
    EXPECT_EQ(std::memcmp(memory.data() + 10, text.data(), 200), 0);
    EXPECT_EQ(std::memcmp(memory.data() + 500, text.data() + 200, 100), 0);
    std::vector<char> back(300, 0);
    std::array<iovec, 2> into{{{back.data(), 50}, {back.data() + 50, 250}}};
    message.msg_iov = into.data();
    until_taken(
        pair.a, &pair.b, [&] { return fi_readmsg(pair.a.ep.get(), &message, FI_COMPLETION); },
        "fi_readmsg");
    (void)pair.a.next_good(&pair.b);
    EXPECT_EQ(back, text);
}

TEST(Rma, WhatIsNotAllowedIsRefusedAndTold) {
    Pair pair;
    std::vector<char> memory(64, 'm');
    const auto region = pair.b.expose(memory.data(), memory.size(), key, FI_REMOTE_READ);
    char text[16] = "forbidden";
    int context = 0;
    const auto write_fails = [&](std::uint64_t address, std::uint64_t with_key) {
        until_taken(
            pair.a, &pair.b,
            [&] {
                return fi_write(pair.a.ep.get(), text, sizeof text, nullptr, 0, address, with_key,
                                &context);
            },
            "fi_write");
        const Event event = pair.a.next(&pair.b);
        ASSERT_TRUE(event.is_error);
        EXPECT_EQ(event.error.err, FI_EKEYREJECTED);
        EXPECT_EQ(event.error.op_context, &context);
    };
    write_fails(0, key);      // no right
    write_fails(0, key + 1);  // no such key
    EXPECT_EQ(memory[0], 'm');
    char got[16];
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_read(pair.a.ep.get(), got, sizeof got, nullptr, 0, 60, key, &context); },
        "fi_read");
    EXPECT_TRUE(pair.a.next(&pair.b).is_error) << "beyond the end";
    until_taken(
        pair.a, &pair.b,
        [&] { return fi_read(pair.a.ep.get(), got, sizeof got, nullptr, 0, 0, key, &context); },
        "fi_read");
    (void)pair.a.next_good(&pair.b);
    EXPECT_EQ(got[15], 'm');
}
