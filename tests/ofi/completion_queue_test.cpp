// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: forms of entries, growth, order of errors.
#include <array>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

class Form : public testing::TestWithParam<fi_cq_format> {};

}  // namespace

TEST_P(Form, AnEntryHasWhatItsFormHas) {
    Wish wish;
    wish.format = GetParam();
    Pair pair(wish);
    char text[32] = "entry";
    std::array<char, 64> got{};
    check(fi_trecv(pair.b.ep.get(), got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, 77, 0, &got),
          "fi_trecv");
    until_taken(
        pair.a, &pair.b,
        [&] {
            return fi_tsenddata(pair.a.ep.get(), text, sizeof text, nullptr, 5, 0, 77, nullptr);
        },
        "fi_tsenddata");
    const fi_cq_tagged_entry entry = pair.b.next_good(&pair.a);
    EXPECT_EQ(entry.op_context, &got);
    if (GetParam() >= FI_CQ_FORMAT_MSG) {
        EXPECT_EQ(entry.len, sizeof text);
        EXPECT_TRUE(entry.flags & FI_RECV);
    }
    if (GetParam() >= FI_CQ_FORMAT_DATA) {
        EXPECT_EQ(entry.data, 5U);
    }
    if (GetParam() >= FI_CQ_FORMAT_TAGGED) {
        EXPECT_EQ(entry.tag, 77U);
    }
}

INSTANTIATE_TEST_SUITE_P(Forms, Form,
                         testing::Values(FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG, FI_CQ_FORMAT_DATA,
                                         FI_CQ_FORMAT_TAGGED));

TEST(CompletionQueue, ManyEntriesAreReadAtOnceInOrder) {
    Pair pair;
    constexpr std::uint64_t messages = 50;
    std::array<char, messages> got{};
    for (std::uint64_t i = 0; i < messages; ++i)
        check(fi_trecv(pair.b.ep.get(), &got[i], 1, nullptr, FI_ADDR_UNSPEC, i, 0, nullptr),
              "fi_trecv");
    for (std::uint64_t i = 0; i < messages; ++i)
        until_taken(
            pair.a, &pair.b, [&] { return fi_tinject(pair.a.ep.get(), "x", 1, 0, i); },
            "fi_tinject");
    std::array<fi_cq_tagged_entry, messages> entries{};
    std::size_t read = 0;
    const auto deadline = via::base::Deadline::after_milliseconds(20'000);
    while (read < messages && !deadline.expired()) {
        pair.a.progress();
        const ssize_t some =
            fi_cq_read(pair.b.cq.get(), entries.data() + read, entries.size() - read);
        if (some > 0) read += static_cast<std::size_t>(some);
    }
    ASSERT_EQ(read, messages);
    for (std::uint64_t i = 0; i < messages; ++i)
        EXPECT_EQ(entries[i].tag, i);
}

TEST(CompletionQueue, ItGrowsAndLosesNothing) {
    Wish wish;
    wish.queue_size = 4;
    Pair pair(wish);
    constexpr std::uint64_t messages = 1000;
    std::vector<char> got(messages);
    for (std::uint64_t i = 0; i < messages; ++i)
        check(fi_trecv(pair.b.ep.get(), &got[i], 1, nullptr, FI_ADDR_UNSPEC, i, 0, nullptr),
              "fi_trecv");
    // Nobody reads b's queue meanwhile: its entries pile up while a makes it go on.
    for (std::uint64_t i = 0; i < messages; ++i)
        until_taken(
            pair.a, &pair.b, [&] { return fi_tinject(pair.a.ep.get(), "x", 1, 0, i); },
            "fi_tinject");
    for (std::uint64_t i = 0; i < messages; ++i)
        ASSERT_EQ(pair.b.next_good(&pair.a).tag, i);
}

TEST(CompletionQueue, AnErrorStandsInItsPlace) {
    Pair pair;
    std::array<char, 8> cancelled{};
    check(fi_trecv(pair.a.ep.get(), cancelled.data(), 8, nullptr, FI_ADDR_UNSPEC, 1, 0, &cancelled),
          "fi_trecv");
    check(fi_cancel(&pair.a.ep->fid, &cancelled), "fi_cancel");
    fi_cq_tagged_entry entry{};
    EXPECT_EQ(fi_cq_read(pair.a.cq.get(), &entry, 1), -FI_EAVAIL);
    EXPECT_EQ(fi_cq_read(pair.a.cq.get(), &entry, 1), -FI_EAVAIL) << "until it is read";
    fi_cq_err_entry error{};
    EXPECT_EQ(fi_cq_readerr(pair.a.cq.get(), &error, 0), 1);
    EXPECT_EQ(error.err, FI_ECANCELED);
    char text[80];
    EXPECT_STREQ(
        fi_cq_strerror(pair.a.cq.get(), error.prov_errno, error.err_data, text, sizeof text), text);
    EXPECT_NE(std::string(text).find("cancel"), std::string::npos);
    EXPECT_EQ(fi_cq_readerr(pair.a.cq.get(), &error, 0), -FI_EAGAIN);
    EXPECT_EQ(fi_cq_read(pair.a.cq.get(), &entry, 1), -FI_EAGAIN);
}

TEST(CompletionQueue, IsNotClosedWhileAnEndpointUsesIt) {
    Node node;
    EXPECT_EQ(fi_close(&node.cq->fid), -FI_EBUSY);
    EXPECT_EQ(fi_close(&node.domain->fid), -FI_EBUSY);
    EXPECT_EQ(fi_close(&node.fabric->fid), -FI_EBUSY);
}
