// SPDX-License-Identifier: BSD-3-Clause
#include "base/counters.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace via::base;

namespace {

template <std::size_t Size>
std::string text_of(const std::array<std::atomic<char>, Size>& stored) {
    std::string text;
    for (const std::atomic<char>& c : stored) {
        if (c.load() == '\0') break;
        text += c.load();
    }
    return text;
}

std::size_t index_of(const ViCounters& slot) {
    return static_cast<std::size_t>(&slot - Counters::get().page().vis.data());
}

const ErrorRecord* find_error(const std::string& text) {
    const ErrorRecord* found = nullptr;
    for (const ErrorRecord& record : Counters::get().page().errors) {
        if (record.count.load() == 0 || text_of(record.text) != text) continue;
        EXPECT_EQ(found, nullptr) << "recorded twice: " << text;
        found = &record;
    }
    return found;
}

/// The page as a tool sees it: another mapping, read-only.
Mapping tools_view() {
    const UniqueFd file(dup(Counters::get().file()));
    EXPECT_TRUE(verify_memory_file(file, sizeof(CountersPage)));
    auto mapping = Mapping::map(file, sizeof(CountersPage), Access::ReadOnly);
    EXPECT_TRUE(mapping);
    return std::move(mapping).value();
}

const CountersPage& page_in(const Mapping& mapping) {
    return *reinterpret_cast<const CountersPage*>(mapping.data());
}

TEST(Counters, TheHeaderSaysWhoCounts) {
    const Mapping view = tools_view();
    const CountersPage& page = page_in(view);
    EXPECT_EQ(page.magic.load(), CountersPage::format_magic);
    EXPECT_EQ(page.version.load(), CountersPage::format_version);
    EXPECT_EQ(page.pid.load(), getpid());
    EXPECT_GT(page.started_wall_ns.load(), 0);
    EXPECT_EQ(text_of(page.program), "base_counters_test");
}

TEST(Counters, AToolSeesWhatIsCounted) {
    const Mapping view = tools_view();
    ViCounters& slot = Counters::get().take_slot("shm0");
    const ViCounters& seen = page_in(view).vis[index_of(slot)];
    EXPECT_LT(index_of(slot), page_in(view).vi_slots_ready.load());
    EXPECT_EQ(seen.in_use.get(), 1u);
    EXPECT_EQ(text_of(seen.device), "shm0");
    slot.sent_messages[static_cast<std::size_t>(DataPath::Cma)].add();
    slot.sent_bytes.add(4096);
    EXPECT_EQ(seen.sent_messages[3].get(), 1u);
    EXPECT_EQ(seen.sent_bytes.get(), 4096u);
    Counters::get().give_back(slot);
    EXPECT_EQ(seen.in_use.get(), 0u);
}

TEST(Counters, AToolCanNotWrite) {
    const UniqueFd file(dup(Counters::get().file()));
    EXPECT_FALSE(Mapping::map(file, sizeof(CountersPage), Access::ReadWrite));
    EXPECT_EQ(pwrite(file.get(), "x", 1, 0), -1);
}

TEST(Counters, GivingBackAddsToTheTotalsAndClearsTheSlot) {
    Counters& counters = Counters::get();
    ViCounters& totals = counters.page().vis[0];
    const std::uint64_t sent = totals.sent_bytes.get();
    const std::uint64_t inline_messages = totals.received_messages[0].get();
    const std::uint64_t wakes = totals.wakes_sent.get();

    ViCounters& slot = counters.take_slot("a device name that is far too long");
    EXPECT_EQ(text_of(slot.device), "a device name t");
    slot.sent_bytes.add(10);
    slot.received_messages[0].add(3);
    slot.wakes_sent.add(2);
    slot.state.set(4);
    slot.peer_pid.set(77);
    counters.give_back(slot);

    EXPECT_EQ(totals.sent_bytes.get(), sent + 10);
    EXPECT_EQ(totals.received_messages[0].get(), inline_messages + 3);
    EXPECT_EQ(totals.wakes_sent.get(), wakes + 2);
    const auto* bytes = reinterpret_cast<const unsigned char*>(&slot);
    for (std::size_t i = 0; i < sizeof slot; ++i)
        EXPECT_EQ(bytes[i], 0) << i;
}

TEST(Counters, GivingBackTwiceOrTheTotalsChangesNothing) {
    Counters& counters = Counters::get();
    ViCounters& slot = counters.take_slot("shm0");
    slot.sleeps.add(5);
    counters.give_back(slot);
    const std::uint64_t sleeps = counters.page().vis[0].sleeps.get();
    slot.sleeps.add(5);
    counters.give_back(slot);
    counters.give_back(counters.page().vis[0]);
    EXPECT_EQ(counters.page().vis[0].sleeps.get(), sleeps);
    slot.sleeps.set(0);
    ViCounters elsewhere{};
    counters.give_back(elsewhere);
}

TEST(Counters, SlotsAreDistinctUntilNoneIsLeftAndComeBack) {
    Counters& counters = Counters::get();
    std::vector<ViCounters*> slots;
    std::set<std::size_t> indices;
    for (std::size_t i = 1; i < CountersPage::vi_slots; ++i) {
        slots.push_back(&counters.take_slot("shm0"));
        indices.insert(index_of(*slots.back()));
        slots.back()->sent_bytes.add(1);
    }
    EXPECT_EQ(indices.size(), CountersPage::vi_slots - 1);
    EXPECT_EQ(indices.count(0), 0u);
    EXPECT_EQ(index_of(counters.take_slot("shm0")), 0u);
    EXPECT_EQ(counters.page().vis[0].in_use.get(), 0u);
    counters.give_back(*slots[100]);
    EXPECT_EQ(&counters.take_slot("shm0"), slots[100]);
    for (ViCounters* slot : slots)
        counters.give_back(*slot);
    EXPECT_EQ(index_of(counters.take_slot("shm0")), 1u);
    counters.give_back(counters.page().vis[1]);
}

TEST(Counters, MemoryIsUsedOnlyForSlotsThatWereTaken) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        // The child has a fresh page.
        struct stat status {};
        Counters& counters = Counters::get();
        if (fstat(counters.file(), &status) != 0) _exit(1);
        const auto allocated = static_cast<std::size_t>(status.st_blocks) * 512;
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const std::size_t ready = counters.page().vi_slots_ready.load();
        const std::size_t needed = offsetof(CountersPage, vis) + ready * sizeof(ViCounters);
        _exit(allocated >= needed && allocated < needed + page ? 0 : 2);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST(Counters, ThreadsTakeAndGiveBackAtOnce) {
    Counters& counters = Counters::get();
    const std::uint64_t before = counters.page().vis[0].rdma_bytes.get();
    constexpr int rounds = 500;
    constexpr int held = 8;
    const auto work = [&] {
        for (int round = 0; round < rounds; ++round) {
            std::array<ViCounters*, held> slots;
            for (ViCounters*& slot : slots) {
                slot = &counters.take_slot("shm0");
                slot->rdma_bytes.add(1);
            }
            counters.record_error("an error of several threads");
            for (ViCounters* slot : slots) {
                EXPECT_EQ(slot->rdma_bytes.get(), 1u);
                counters.give_back(*slot);
            }
        }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back(work);
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(counters.page().vis[0].rdma_bytes.get(), before + 4 * rounds * held);
    const ErrorRecord* error = find_error("an error of several threads");
    ASSERT_NE(error, nullptr);
    EXPECT_EQ(error->count.load(), 4u * rounds);
}

TEST(Counters, AnErrorIsKeptOnceWithCountAndTimes) {
    Counters& counters = Counters::get();
    counters.record_error("the peer went away");
    counters.record_error("the peer went away");
    counters.record_error("the peer went");
    const ErrorRecord* error = find_error("the peer went away");
    ASSERT_NE(error, nullptr);
    EXPECT_EQ(error->count.load(), 2u);
    EXPECT_GT(error->first_wall_ns.load(), 0);
    EXPECT_GE(error->last_wall_ns.load(), error->first_wall_ns.load());
    ASSERT_NE(find_error("the peer went"), nullptr);

    const std::string long_text(1000, 'x');
    counters.record_error(long_text);
    counters.record_error(long_text);
    error = find_error(long_text.substr(0, 231));
    ASSERT_NE(error, nullptr);
    EXPECT_EQ(error->count.load(), 2u);
}

TEST(Counters, WithAllRecordsInUseTheQuietestGoes) {
    Counters& counters = Counters::get();
    for (std::size_t i = 0; i < CountersPage::error_slots; ++i)
        counters.record_error("error number " + std::to_string(i));
    counters.record_error("error number 0");
    counters.record_error("one error more");
    EXPECT_NE(find_error("one error more"), nullptr);
    EXPECT_NE(find_error("error number 0"), nullptr);
    EXPECT_EQ(find_error("error number 1"), nullptr);
}

TEST(Counters, AChildCountsOnItsOwnPageAtTheSameAddress) {
    Counters& counters = Counters::get();
    ViCounters& slot = counters.take_slot("shm0");
    slot.sent_bytes.add(100);
    counters.record_error("an error of the parent");
    const Mapping parents_page = tools_view();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        bool good = &counters.page() == &Counters::get().page();
        good = good && counters.page().pid.load() == getpid();
        good =
            good && slot.sent_bytes.get() == 0 && find_error("an error of the parent") == nullptr;
        slot.sent_bytes.add(1);
        ViCounters& another = counters.take_slot("shm0");
        good = good && &another != &slot;
        counters.give_back(another);
        counters.give_back(slot);
        good = good && counters.page().vis[0].sent_bytes.get() == 1;
        good = good && page_in(parents_page).pid.load() != getpid();
        _exit(good ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(slot.sent_bytes.get(), 100u);
    counters.give_back(slot);
}

TEST(Counters, WithoutADescriptorCountingGoesOnInPrivate) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        rlimit none{};
        if (getrlimit(RLIMIT_NOFILE, &none) != 0) _exit(1);
        none.rlim_cur = 0;
        if (setrlimit(RLIMIT_NOFILE, &none) != 0) _exit(1);
        const pid_t grandchild = fork();
        if (grandchild == 0) {
            Counters& counters = Counters::get();
            ViCounters& slot = counters.take_slot("shm0");
            slot.sent_bytes.add(1);
            const bool good = counters.file() == -1 && slot.in_use.get() == 1 &&
                              counters.page().pid.load() == getpid();
            counters.give_back(slot);
            _exit(good ? 0 : 1);
        }
        int status = -1;
        waitpid(grandchild, &status, 0);
        _exit(status == 0 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST(DataPath, EveryPathHasItsName) {
    std::set<std::string_view> names;
    for (std::size_t path = 0; path < data_paths; ++path)
        names.insert(data_path_name(static_cast<DataPath>(path)));
    EXPECT_EQ(names.size(), data_paths);
    EXPECT_EQ(names.count("unknown"), 0u);
}

}  // namespace
