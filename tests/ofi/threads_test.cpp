// SPDX-License-Identifier: BSD-3-Clause
// FI_THREAD_SAFE: several threads on one endpoint and one queue.
#include <array>
#include <atomic>
#include <thread>

#include "ofi/harness.hpp"

using namespace ofi_test;

TEST(Threads, SendAndReceiveAndReadAtOnce) {
    Pair pair;
    constexpr unsigned senders = 3;
    constexpr std::uint64_t each = 300;
    std::atomic<std::uint64_t> received{0};
    std::atomic<std::uint64_t> sent{0};
    std::atomic<bool> failed{false};
    const auto deadline = via::base::Deadline::after_milliseconds(60'000);
    const auto read = [&](Node& node, std::atomic<std::uint64_t>& good) {
        Event event;
        if (!node.poll(event)) return;
        if (event.is_error)
            failed.store(true);
        else
            good.fetch_add(1);
    };
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < senders; ++thread)
        threads.emplace_back([&, thread] {
            std::vector<char> text = pattern(thread == 0 ? 20'000 : 64, thread);
            for (std::uint64_t i = 0; i < each; ++i) {
                while (fi_tsend(pair.a.ep.get(), text.data(), text.size(), nullptr, 0, thread,
                                nullptr) == -FI_EAGAIN)
                    read(pair.a, sent);
                read(pair.a, sent);
            }
            while (sent.load() < senders * each && !failed.load() && !deadline.expired())
                read(pair.a, sent);
        });
    for (unsigned thread = 0; thread < senders; ++thread)
        threads.emplace_back([&, thread] {
            std::vector<char> got(20'000);
            for (std::uint64_t i = 0; i < each; ++i)
                if (fi_trecv(pair.b.ep.get(), got.data(), got.size(), nullptr, FI_ADDR_UNSPEC,
                             thread, 0, nullptr) != 0)
                    failed.store(true);
            while (received.load() < senders * each && !failed.load() && !deadline.expired())
                read(pair.b, received);
        });
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_FALSE(failed.load());
    EXPECT_EQ(sent.load(), senders * each);
    EXPECT_EQ(received.load(), senders * each);
}

TEST(Threads, OneSleepsWhileAnotherPolls) {
    Pair pair;
    constexpr int rounds = 200;
    std::atomic<bool> over{false};
    // It takes the completions of the sleeper out of the device, which must wake all the same.
    std::thread poller([&] {
        while (!over.load()) {
            pair.a.progress();
            pair.b.progress();
        }
    });
    std::array<char, 8> got{};
    for (int round = 0; round < rounds; ++round) {
        check(fi_recv(pair.b.ep.get(), got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, &got),
              "fi_recv");
        ssize_t taken = 0;
        while ((taken = fi_inject(pair.a.ep.get(), "round", 6, 0)) == -FI_EAGAIN) {
        }
        check(taken, "fi_inject");
        fi_cq_tagged_entry entry{};
        const ssize_t read = fi_cq_sread(pair.b.cq.get(), &entry, 1, nullptr, 20'000);
        if (read != 1) {
            ADD_FAILURE() << "round " << round << " was slept through";
            break;
        }
    }
    over.store(true);
    poller.join();
}
