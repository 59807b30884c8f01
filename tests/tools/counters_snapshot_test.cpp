// SPDX-License-Identifier: BSD-3-Clause
#include "counters_snapshot.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "base/memory_file.hpp"

namespace via::tool {
namespace {

using base::CountersPage;

/// A page as a process has it, but written by the test.
class PageUnderTest {
  public:
    PageUnderTest() {
        auto file = base::create_memory_file("page", sizeof(CountersPage), base::Backing::Sparse);
        file_ = std::move(file).value();
        auto mapping = base::Mapping::map(file_, sizeof(CountersPage), base::Access::ReadWrite);
        mapping_ = std::move(mapping).value();
        page().magic.store(CountersPage::format_magic);
        page().version.store(CountersPage::format_version);
        page().vi_slots_ready.store(1);
    }
    CountersPage& page() { return *reinterpret_cast<CountersPage*>(mapping_.data()); }
    const base::UniqueFd& file() { return file_; }
    std::byte* bytes() { return mapping_.data(); }

  private:
    base::UniqueFd file_;
    base::Mapping mapping_;
};

template <std::size_t Size>
void set_text(std::array<std::atomic<char>, Size>& target, std::string_view text) {
    for (std::size_t i = 0; i < Size; ++i)
        target[i].store(i < text.size() ? text[i] : '\0');
}

TEST(ReadCounters, CopiesWhatTheProcessWrote) {
    PageUnderTest under_test;
    CountersPage& page = under_test.page();
    page.pid.store(4711);
    page.started_wall_ns.store(99);
    set_text(page.program, "echo");
    page.vi_slots_ready.store(4);
    page.vis[0].sent_bytes.set(1000);
    page.vis[2].in_use.set(1);
    page.vis[2].state.set(1);
    page.vis[2].peer_pid.set(4712);
    page.vis[2].reliability.set(2);
    set_text(page.vis[2].device, "shm0");
    page.vis[2].sent_messages[0].set(5);
    page.vis[2].sent_messages[3].set(2);
    page.vis[2].received_messages[1].set(9);
    page.vis[2].sent_bytes.set(234);
    page.vis[2].sleeps.set(3);
    page.vis[3].sent_bytes.set(77);  // not in use
    page.errors[1].count.store(12);
    page.errors[1].first_wall_ns.store(1);
    page.errors[1].last_wall_ns.store(2);
    set_text(page.errors[1].text, "the peer went away");

    const auto snapshot = read_counters(under_test.file());
    ASSERT_TRUE(snapshot) << snapshot.error().sentence;
    EXPECT_EQ(snapshot.value().pid, 4711);
    EXPECT_EQ(snapshot.value().program, "echo");
    ASSERT_EQ(snapshot.value().vis.size(), 1u);
    const ViSnapshot& vi = snapshot.value().vis[0];
    EXPECT_EQ(vi.slot, 2u);
    EXPECT_EQ(vi.device, "shm0");
    EXPECT_EQ(vi.peer_pid, 4712u);
    EXPECT_EQ(vi.all_sent(), 7u);
    EXPECT_EQ(vi.all_received(), 9u);
    EXPECT_EQ(snapshot.value().totals.sent_bytes, 1234u);
    EXPECT_EQ(snapshot.value().totals.sleeps, 3u);
    ASSERT_EQ(snapshot.value().errors.size(), 1u);
    EXPECT_EQ(snapshot.value().errors[0].count, 12u);
    EXPECT_EQ(snapshot.value().errors[0].text, "the peer went away");
}

TEST(ReadCounters, ReadsTheLibrarysOwnPage) {
    base::Counters& counters = base::Counters::get();
    ASSERT_GE(counters.file(), 0);
    base::ViCounters& slot = counters.take_slot("shm0");
    slot.sent_messages[0].add(3);
    counters.record_error("something odd");
    const base::UniqueFd file(dup(counters.file()));
    const auto snapshot = read_counters(file);
    ASSERT_TRUE(snapshot) << snapshot.error().sentence;
    EXPECT_EQ(snapshot.value().pid, getpid());
    ASSERT_EQ(snapshot.value().vis.size(), 1u);
    EXPECT_EQ(snapshot.value().vis[0].all_sent(), 3u);
    ASSERT_EQ(snapshot.value().errors.size(), 1u);
    counters.give_back(slot);
    EXPECT_EQ(read_counters(file).value().vis.size(), 0u);
    EXPECT_EQ(read_counters(file).value().totals.all_sent(), 3u);
}

TEST(ReadCounters, ShowsLinksAndHowTheyChanged) {
    base::Counters& counters = base::Counters::get();
    const base::UniqueFd file(dup(counters.file()));
    base::ViCounters& vi = counters.take_slot("net0");
    base::LinkRecord* const first = counters.take_link("eth0 10.0.0.1 - 10.0.0.2", &vi);
    base::LinkRecord* const second = counters.take_link("eth1 10.1.0.1 - 10.1.0.2", &vi);
    ASSERT_NE(first, nullptr);
    ASSERT_NE(second, nullptr);
    second->state.set(1);
    second->sent_bytes.set(4242);
    second->round_trip_ns.set(5000);
    counters.record_change(*second, 0, 1);
    auto snapshot = read_counters(file);
    ASSERT_TRUE(snapshot) << snapshot.error().sentence;
    ASSERT_EQ(snapshot.value().links.size(), 2u);
    const LinkSnapshot& link = snapshot.value().links[1];
    EXPECT_EQ(link.text, "eth1 10.1.0.1 - 10.1.0.2");
    EXPECT_EQ(link.sent_bytes, 4242u);
    EXPECT_EQ(link.round_trip_ns, 5000u);
    EXPECT_EQ(link_state_name(link.state), "up");
    ASSERT_EQ(snapshot.value().vis.size(), 1u);
    EXPECT_EQ(link.vi_slot, snapshot.value().vis[0].slot);
    ASSERT_EQ(snapshot.value().link_changes.size(), 1u);
    EXPECT_EQ(snapshot.value().link_changes[0].text, link.text);

    // The ring keeps the last ones, in order.
    for (std::uint64_t i = 0; i < CountersPage::change_slots + 5; ++i)
        counters.record_change(*first, i, i + 1);
    counters.give_back(*second);
    snapshot = read_counters(file);
    ASSERT_TRUE(snapshot);
    ASSERT_EQ(snapshot.value().links.size(), 1u);
    const auto& changes = snapshot.value().link_changes;
    ASSERT_EQ(changes.size(), CountersPage::change_slots);
    for (std::size_t i = 0; i < changes.size(); ++i)
        EXPECT_EQ(changes[i].from, i + 5);

    // A slot that was given back is as new.
    base::LinkRecord* const again = counters.take_link("eth2 a - b", nullptr);
    EXPECT_EQ(again, second);
    EXPECT_EQ(again->sent_bytes.get(), 0u);
    EXPECT_EQ(again->vi_slot.get(), 0u);
    counters.give_back(*again);
    counters.give_back(*first);
    counters.give_back(vi);
}

TEST(ReadCounters, LinksRunOutWithoutHarm) {
    base::Counters& counters = base::Counters::get();
    std::vector<base::LinkRecord*> taken;
    for (std::size_t i = 0; i < CountersPage::link_slots; ++i) {
        taken.push_back(counters.take_link("some", nullptr));
        ASSERT_NE(taken.back(), nullptr);
    }
    EXPECT_EQ(counters.take_link("one too many", nullptr), nullptr);
    const base::UniqueFd file(dup(counters.file()));
    EXPECT_EQ(read_counters(file).value().links.size(), CountersPage::link_slots);
    for (base::LinkRecord* link : taken)
        counters.give_back(*link);
    EXPECT_EQ(read_counters(file).value().links.size(), 0u);
}

TEST(ReadCounters, RefusesWhatIsNoCountersPage) {
    EXPECT_FALSE(read_counters(base::UniqueFd()));
    EXPECT_FALSE(read_counters(base::UniqueFd(open("/dev/zero", O_RDONLY | O_CLOEXEC))));
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const base::UniqueFd writing(ends[1]);
    EXPECT_FALSE(read_counters(base::UniqueFd(ends[0])));  // and does not wait for it
    EXPECT_FALSE(
        read_counters(base::create_memory_file("short", 4096, base::Backing::Allocated).value()));
    PageUnderTest wrong_magic;
    wrong_magic.page().magic.store(1);
    EXPECT_FALSE(read_counters(wrong_magic.file()));
    PageUnderTest wrong_version;
    wrong_version.page().version.store(99);
    const auto refused = read_counters(wrong_version.file());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, base::Code::NotSupported);
}

TEST(ReadCounters, BelievesNothing) {
    PageUnderTest under_test;
    std::mt19937_64 random(1);
    for (int round = 0; round < 20; ++round) {
        for (std::size_t i = 0; i + 8 <= sizeof(CountersPage); i += 8) {
            const std::uint64_t word = random();
            std::memcpy(under_test.bytes() + i, &word, 8);
        }
        under_test.page().magic.store(CountersPage::format_magic);
        under_test.page().version.store(CountersPage::format_version);
        if (round % 2 == 0) under_test.page().vi_slots_ready.store(0xFFFFFFFF);
        if (round % 4 == 0) under_test.page().link_slots_ready.store(0xFFFFFFFF);
        const auto snapshot = read_counters(under_test.file());
        ASSERT_TRUE(snapshot);
        EXPECT_LT(snapshot.value().vis.size(), CountersPage::vi_slots);
        EXPECT_LE(snapshot.value().errors.size(), CountersPage::error_slots);
        EXPECT_LE(snapshot.value().links.size(), CountersPage::link_slots);
        EXPECT_LE(snapshot.value().link_changes.size(), CountersPage::change_slots);
        const auto clean = [](const std::string& text) {
            for (const char character : text)
                if (static_cast<unsigned char>(character) < 0x20 || character == 0x7F) return false;
            return true;
        };
        EXPECT_TRUE(clean(snapshot.value().program));
        for (const LinkSnapshot& link : snapshot.value().links)
            EXPECT_TRUE(clean(link.text));
        for (const ViSnapshot& vi : snapshot.value().vis)
            EXPECT_TRUE(clean(vi.device));
        for (const ErrorSnapshot& error : snapshot.value().errors)
            EXPECT_TRUE(clean(error.text));
    }
}

TEST(RatesBetween, AreDifferencesPerSecond) {
    ViSnapshot before;
    ViSnapshot after;
    before.sent_messages[0] = 10;
    after.sent_messages[0] = 30;
    after.sent_messages[3] = 4;
    before.sent_bytes = 1000;
    after.sent_bytes = 5000;
    after.rdma_writes = 6;
    after.rdma_reads = 2;
    const Rates rates = rates_between(before, after, 2'000'000'000);
    EXPECT_DOUBLE_EQ(rates.seconds, 2);
    EXPECT_DOUBLE_EQ(rates.sent_messages, 12);
    EXPECT_DOUBLE_EQ(rates.sent_by_path[0], 10);
    EXPECT_DOUBLE_EQ(rates.sent_by_path[3], 2);
    EXPECT_DOUBLE_EQ(rates.sent_bytes, 2000);
    EXPECT_DOUBLE_EQ(rates.rdma_operations, 4);
}

TEST(RatesBetween, NeverGoBelowZero) {
    ViSnapshot before;
    ViSnapshot after;
    before.sent_bytes = 1000;
    after.sent_bytes = 10;  // another VI has the slot now
    EXPECT_DOUBLE_EQ(rates_between(before, after, 1'000'000'000).sent_bytes, 10);
    EXPECT_DOUBLE_EQ(rates_between(before, after, 0).sent_bytes, 0);
    EXPECT_DOUBLE_EQ(rates_between(before, after, -5).sent_bytes, 0);
}

TEST(Names, OfUnknownNumbersAreAQuestion) {
    EXPECT_EQ(vi_state_name(1), "connected");
    EXPECT_EQ(vi_state_name(~std::uint64_t{0}), "?");
    EXPECT_EQ(reliability_name(4), "reception");
    EXPECT_EQ(reliability_name(3), "?");
}

}  // namespace
}  // namespace via::tool
