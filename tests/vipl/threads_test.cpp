// SPDX-License-Identifier: BSD-3-Clause
// The library is thread-safe and says so: one VI, one CQ, one NIC handle in many threads.
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "vipl/harness.hpp"

namespace via::test {
namespace {

/// Runs `body` in its own thread and joins it at the end of the scope.
class Thread {
  public:
    explicit Thread(std::function<void()> body) : thread_(std::move(body)) {}
    ~Thread() { join(); }
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;
    void join() {
        if (thread_.joinable()) thread_.join();
    }

  private:
    std::thread thread_;
};

TEST(Threads, RecvDoneIsNotBlockedByRecvWait) {
    Pair pair;
    VIP_DESCRIPTOR* receive = pair.server.arena.message(pair.server.arena.take(8), 8);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    std::atomic<bool> waiting{false};
    std::atomic<bool> returned{false};
    VIP_DESCRIPTOR* by_wait = nullptr;
    VIP_RETURN code = VIP_NOT_DONE;
    Thread waiter([&] {
        waiting = true;
        code = VipRecvWait(pair.server.vi, patience_ms, &by_wait);
        returned = true;
    });
    ASSERT_TRUE(eventually([&] { return waiting.load(); }));
    // The other thread is in its call or about to be, and stays there: nothing has been sent.
    VIP_DESCRIPTOR* by_done = nullptr;
    for (int i = 0; i < 10000; ++i) {
        ASSERT_VIP(VIP_NOT_DONE, VipRecvDone(pair.server.vi, &by_done));
    }
    EXPECT_FALSE(returned.load());
    // One of the two gets the message; a loser that finds the queue empty is told so.
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 8)));
    waiter.join();
    EXPECT_VIP(VIP_SUCCESS, code);
    EXPECT_EQ(by_wait, receive);
}

TEST(Threads, SendDoneIsNotBlockedByRecvWait) {
    Pair pair;
    ASSERT_VIP(VIP_SUCCESS,
               pair.server.post_recv(pair.server.arena.message(pair.server.arena.take(8), 8)));
    VIP_DESCRIPTOR* head = nullptr;
    VIP_RETURN code = VIP_NOT_DONE;
    Thread waiter([&] { code = VipRecvWait(pair.server.vi, patience_ms, &head); });
    // The waiting VI itself sends, completes and is queried meanwhile.
    for (int i = 0; i < 100; ++i) {
        ASSERT_VIP(VIP_SUCCESS,
                   pair.client.post_recv(pair.client.arena.message(pair.client.arena.take(8), 8)));
        ASSERT_VIP(VIP_SUCCESS,
                   pair.server.post_send(pair.server.arena.message(pair.server.arena.take(8), 8)));
        ASSERT_VIP(VIP_SUCCESS, pair.server.vi.await_send().code);
        ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_recv().code);
        ASSERT_EQ(pair.server.vi.state(), VIP_STATE_CONNECTED);
    }
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 8)));
    waiter.join();
    EXPECT_VIP(VIP_SUCCESS, code);
}

TEST(Threads, CqDoneIsNotBlockedByCqWait) {
    Nic nic;
    VIP_CQ_HANDLE cq = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(nic, 16, &cq));
    {
        Arena arena(nic);
        Vi sender(nic);
        Vi receiver(nic, {.recv_cq = cq});
        ASSERT_VIP(VIP_SUCCESS, connect(sender, receiver).request);
        ASSERT_VIP(VIP_SUCCESS,
                   VipPostRecv(receiver, arena.message(arena.take(8), 8), arena.handle()));
        std::atomic<bool> waiting{false};
        VIP_RETURN code = VIP_NOT_DONE;
        VIP_VI_HANDLE seen = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        Thread waiter([&] {
            waiting = true;
            code = VipCQWait(cq, patience_ms, &seen, &recv);
        });
        ASSERT_TRUE(eventually([&] { return waiting.load(); }));
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN flag = VIP_FALSE;
        for (int i = 0; i < 10000; ++i) {
            ASSERT_VIP(VIP_NOT_DONE, VipCQDone(cq, &vi, &flag));
        }
        ASSERT_VIP(VIP_SUCCESS,
                   VipPostSend(sender, arena.message(arena.take(8), 8), arena.handle()));
        waiter.join();
        EXPECT_VIP(VIP_SUCCESS, code);
        EXPECT_EQ(seen, static_cast<VIP_VI_HANDLE>(receiver));
    }
    EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(cq));
}

TEST(Threads, ManyThreadsOnManyVis) {
    constexpr std::size_t count = 4;
    Nic nic;
    std::vector<std::unique_ptr<Thread>> threads;
    for (std::size_t t = 0; t < count; ++t) {
        threads.push_back(std::make_unique<Thread>([t] {
            Pair pair({.arena_bytes = 1U << 20, .one_nic_handle = t % 2 == 0});
            std::byte* source = pair.client.arena.take(20000);
            std::byte* target = pair.server.arena.take(20000);
            VIP_DESCRIPTOR* send = pair.client.arena.descriptor();
            VIP_DESCRIPTOR* receive = pair.server.arena.descriptor();
            for (std::uint32_t i = 0; i < rounds(300); ++i) {
                const std::size_t bytes = i % 16 == 0 ? 20000 : i;
                const auto seed = static_cast<std::uint32_t>(t * 100000 + i);
                fill_pattern(source, bytes, seed);
                const Segment from = pair.client.arena.segment(source, bytes);
                const Segment into = pair.server.arena.segment(target, 20000);
                fill(send, {&from, 1});
                fill(receive, {&into, 1});
                ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
                ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
                ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
                ASSERT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
                ASSERT_TRUE(has_pattern(target, bytes, seed));
            }
        }));
    }
}

TEST(Threads, ManyThreadsOnVisOfOneNicHandle) {
    constexpr std::size_t count = 4;
    Nic nic;
    std::vector<std::unique_ptr<Thread>> threads;
    for (std::size_t t = 0; t < count; ++t) {
        threads.push_back(std::make_unique<Thread>([&nic] {
            Arena arena(nic, {.bytes = 1U << 20});
            for (unsigned round = 0; round < rounds(20); ++round) {
                Vi client(nic);
                Vi server(nic);
                ASSERT_VIP(VIP_SUCCESS, connect(client, server).request);
                ASSERT_VIP(VIP_SUCCESS,
                           VipPostRecv(server, arena.message(arena.take(64), 64), arena.handle()));
                ASSERT_VIP(VIP_SUCCESS,
                           VipPostSend(client, arena.message(arena.take(64), 64), arena.handle()));
                ASSERT_VIP(VIP_SUCCESS, client.await_send().code);
                ASSERT_VIP(VIP_SUCCESS, server.await_recv().code);
            }
        }));
    }
}

TEST(Threads, SeveralThreadsSendOnOneVi) {
    constexpr std::uint32_t senders = 3;
    const std::uint32_t each = rounds(300);
    const std::uint32_t total = senders * each;
    Pair pair({.arena_bytes = 8U << 20});
    std::vector<std::byte*> targets;
    for (std::uint32_t i = 0; i < total; ++i) {
        targets.push_back(pair.server.arena.take(64));
        ASSERT_VIP(VIP_SUCCESS,
                   pair.server.post_recv(pair.server.arena.message(targets.back(), 64)));
    }
    struct Work {
        VIP_DESCRIPTOR* descriptor;
    };
    std::vector<std::vector<Work>> work(senders);
    for (std::uint32_t t = 0; t < senders; ++t) {
        for (std::uint32_t i = 0; i < each; ++i) {
            std::byte* source = pair.client.arena.take(64);
            fill_pattern(source, 64, t * 10000 + i);
            work[t].push_back({pair.client.arena.immediate_message(source, 64, t * 10000 + i)});
        }
    }
    std::atomic<std::uint32_t> completed{0};
    {
        std::vector<std::unique_ptr<Thread>> threads;
        for (std::uint32_t t = 0; t < senders; ++t) {
            threads.push_back(std::make_unique<Thread>([&, t] {
                for (const Work& item : work[t]) {
                    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(item.descriptor));
                    VIP_DESCRIPTOR* head = nullptr;
                    // Whoever looks takes the head, which may be another thread's descriptor.
                    if (VipSendDone(pair.client.vi, &head) == VIP_SUCCESS) ++completed;
                }
            }));
        }
    }
    completed += static_cast<std::uint32_t>(pair.client.vi.drain_send().size());
    EXPECT_EQ(completed.load(), total);
    std::vector<std::uint32_t> next(senders, 0);
    for (std::uint32_t i = 0; i < total; ++i) {
        const Completion received = pair.server.vi.await_recv();
        ASSERT_VIP(VIP_SUCCESS, received.code);
        const std::uint32_t immediate = received.descriptor->CS.ImmediateData;
        const std::uint32_t thread = immediate / 10000;
        ASSERT_LT(thread, senders);
        EXPECT_EQ(immediate % 10000, next[thread]++) << "the order of one thread's sends";
        EXPECT_TRUE(has_pattern(targets[i], 64, immediate));
    }
}

TEST(Threads, SeveralThreadsWaitOnOneQueue) {
    constexpr std::size_t waiters = 3;
    Pair pair;
    std::set<VIP_DESCRIPTOR*> posted;
    for (std::size_t i = 0; i < waiters; ++i) {
        posted.insert(pair.server.arena.message(pair.server.arena.take(8), 8));
    }
    for (VIP_DESCRIPTOR* receive : posted)
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    std::vector<VIP_DESCRIPTOR*> got(waiters, nullptr);
    {
        std::vector<std::unique_ptr<Thread>> threads;
        for (std::size_t i = 0; i < waiters; ++i) {
            threads.push_back(std::make_unique<Thread>([&, i] {
                EXPECT_VIP(VIP_SUCCESS, VipRecvWait(pair.server.vi, patience_ms, &got[i]));
            }));
        }
        for (std::size_t i = 0; i < waiters; ++i) {
            ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(
                                        pair.client.arena.message(pair.client.arena.take(8), 8)));
        }
    }
    EXPECT_EQ(std::set<VIP_DESCRIPTOR*>(got.begin(), got.end()), posted);
}

TEST(Threads, SeveralThreadsWaitOnOneCompletionQueue) {
    constexpr std::size_t waiters = 3;
    const unsigned each = rounds(100);
    Nic nic;
    VIP_CQ_HANDLE cq = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(nic, 16, &cq));
    {
        Arena arena(nic, {.bytes = 4U << 20});
        Vi sender(nic);
        Vi receiver(nic, {.recv_cq = cq});
        ASSERT_VIP(VIP_SUCCESS, connect(sender, receiver).request);
        for (unsigned i = 0; i < waiters * each; ++i) {
            ASSERT_VIP(VIP_SUCCESS,
                       VipPostRecv(receiver, arena.message(arena.take(8), 8), arena.handle()));
        }
        std::mutex mutex;
        std::set<VIP_DESCRIPTOR*> got;
        {
            std::vector<std::unique_ptr<Thread>> threads;
            for (std::size_t t = 0; t < waiters; ++t) {
                threads.push_back(std::make_unique<Thread>([&] {
                    for (unsigned i = 0; i < each; ++i) {
                        VIP_VI_HANDLE vi = nullptr;
                        VIP_BOOLEAN recv = VIP_FALSE;
                        ASSERT_VIP(VIP_SUCCESS, VipCQWait(cq, patience_ms, &vi, &recv));
                        VIP_DESCRIPTOR* head = nullptr;
                        ASSERT_VIP(VIP_SUCCESS, VipRecvDone(vi, &head));
                        const std::lock_guard lock(mutex);
                        EXPECT_TRUE(got.insert(head).second);
                    }
                }));
            }
            for (unsigned i = 0; i < waiters * each; ++i) {
                ASSERT_VIP(VIP_SUCCESS,
                           VipPostSend(sender, arena.message(arena.take(8), 8), arena.handle()));
                ASSERT_VIP(VIP_SUCCESS, sender.await_send().code);
            }
        }
        EXPECT_EQ(got.size(), waiters * each);
    }
    EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(cq));
}

TEST(Threads, DisconnectEndsABlockedWait) {
    Pair pair;
    VIP_DESCRIPTOR* receive = pair.server.arena.message(pair.server.arena.take(8), 8);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    VIP_DESCRIPTOR* head = nullptr;
    VIP_RETURN code = VIP_NOT_DONE;
    Thread waiter([&] { code = VipRecvWait(pair.server.vi, patience_ms, &head); });
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.server.vi));
    waiter.join();
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, code);
    EXPECT_EQ(head, receive);
}

TEST(Threads, RemoteDisconnectEndsABlockedWait) {
    Pair pair;
    VIP_DESCRIPTOR* receive = pair.server.arena.message(pair.server.arena.take(8), 8);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    VIP_DESCRIPTOR* head = nullptr;
    VIP_RETURN code = VIP_NOT_DONE;
    Thread waiter([&] { code = VipRecvWait(pair.server.vi, patience_ms, &head); });
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    waiter.join();
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, code);
    EXPECT_EQ(head, receive);
}

TEST(Threads, ClosingTheNicEndsBlockedCalls) {
    Nic nic;
    VIP_CQ_HANDLE cq = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(nic, 16, &cq));
    Address local(nic, unique_discriminator());
    const VIP_NIC_HANDLE handle = nic;
    std::atomic<int> started{0};
    VIP_RETURN cq_code = VIP_NOT_DONE;
    VIP_RETURN wait_code = VIP_NOT_DONE;
    {
        Thread cq_waiter([&] {
            VIP_VI_HANDLE vi = nullptr;
            VIP_BOOLEAN recv = VIP_FALSE;
            ++started;
            cq_code = VipCQWait(cq, patience_ms, &vi, &recv);
        });
        Thread connection_waiter([&] {
            Address remote;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE connection = nullptr;
            ++started;
            wait_code = VipConnectWait(handle, local.get(), patience_ms, remote.get(), &attributes,
                                       &connection);
        });
        ASSERT_TRUE(eventually([&] { return started.load() == 2; }));
        EXPECT_VIP(VIP_SUCCESS, VipCloseNic(nic.release()));
    }
    EXPECT_VIP(VIP_INVALID_PARAMETER, cq_code);
    EXPECT_VIP(VIP_INVALID_PARAMETER, wait_code);
}

TEST(Threads, TwoNicHandlesInTwoThreads) {
    // One thread serves connections on one handle, another works on the other, as ARMCI does.
    Nic server_nic;
    Address server_address(server_nic, unique_discriminator());
    const unsigned count = rounds(30);
    Thread server([&] {
        Arena arena(server_nic);
        for (unsigned i = 0; i < count; ++i) {
            Vi vi(server_nic);
            std::byte* data = arena.take(64);
            ASSERT_VIP(VIP_SUCCESS, VipPostRecv(vi, arena.message(data, 64), arena.handle()));
            Address remote;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE connection = nullptr;
            ASSERT_VIP(VIP_SUCCESS, VipConnectWait(server_nic, server_address.get(), patience_ms,
                                                   remote.get(), &attributes, &connection));
            ASSERT_VIP(VIP_SUCCESS, VipConnectAccept(connection, vi));
            VIP_DESCRIPTOR* head = nullptr;
            ASSERT_VIP(VIP_SUCCESS, VipRecvWait(vi, patience_ms, &head));
            EXPECT_TRUE(has_pattern(data, 64, i));
        }
    });
    Nic client_nic;
    Arena arena(client_nic);
    for (unsigned i = 0; i < count; ++i) {
        Vi vi(client_nic);
        Address local(client_nic, unique_discriminator());
        ASSERT_VIP(VIP_SUCCESS, request_until_matched(vi, local, server_address));
        std::byte* data = arena.take(64);
        fill_pattern(data, 64, i);
        ASSERT_VIP(VIP_SUCCESS, VipPostSend(vi, arena.message(data, 64), arena.handle()));
        VIP_DESCRIPTOR* head = nullptr;
        ASSERT_VIP(VIP_SUCCESS, VipSendWait(vi, patience_ms, &head));
        // The server's VI breaks when it has its message and goes.
        ASSERT_TRUE(vi.becomes(VIP_STATE_ERROR));
    }
}

TEST(Threads, RegistrationInManyThreads) {
    Nic nic;
    std::vector<std::unique_ptr<Thread>> threads;
    for (int t = 0; t < 4; ++t) {
        threads.push_back(std::make_unique<Thread>([&nic] {
            std::vector<std::byte> memory(4096);
            const VIP_PROTECTION_HANDLE tag = make_tag(nic);
            for (unsigned i = 0; i < rounds(200); ++i) {
                VIP_MEM_ATTRIBUTES attributes{tag, VIP_TRUE, VIP_FALSE};
                VIP_MEM_HANDLE handle = 0;
                ASSERT_VIP(VIP_SUCCESS,
                           VipRegisterMem(nic, memory.data(), 4096, &attributes, &handle));
                attributes.EnableRdmaWrite = VIP_FALSE;
                ASSERT_VIP(VIP_SUCCESS,
                           VipSetMemAttributes(nic, memory.data(), handle, &attributes));
                VIP_MEM_ATTRIBUTES seen{};
                ASSERT_VIP(VIP_SUCCESS, VipQueryMem(nic, memory.data(), handle, &seen));
                ASSERT_EQ(seen.EnableRdmaWrite, VIP_FALSE);
                ASSERT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, memory.data(), handle));
            }
            EXPECT_VIP(VIP_SUCCESS, VipDestroyPtag(nic, tag));
        }));
    }
}

TEST(Threads, OpenAndCloseInManyThreads) {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int t = 0; t < 4; ++t) {
        threads.push_back(std::make_unique<Thread>([] {
            for (unsigned i = 0; i < rounds(40); ++i) {
                Nic nic;
                const Vi vi(nic);
                EXPECT_EQ(vi.state(), VIP_STATE_IDLE);
            }
        }));
    }
}

TEST(Threads, CreateAndDestroyInManyThreads) {
    Nic nic;
    std::vector<std::unique_ptr<Thread>> threads;
    for (int t = 0; t < 4; ++t) {
        threads.push_back(std::make_unique<Thread>([&nic] {
            for (unsigned i = 0; i < rounds(100); ++i) {
                VIP_CQ_HANDLE cq = nullptr;
                ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(nic, 4, &cq));
                {
                    const Vi vi(nic, {.send_cq = cq, .recv_cq = cq});
                    EXPECT_EQ(vi.state(), VIP_STATE_IDLE);
                }
                EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(cq));
            }
        }));
    }
}

TEST(Threads, UseRacesWithDestroyAndNothingCrashes) {
    // A handle may become stale in another thread at any time: the call then says so.
    Nic nic;
    Arena arena(nic);
    for (unsigned round = 0; round < rounds(50); ++round) {
        VIP_VI_ATTRIBUTES attributes = attributes_for(nic, {});
        VIP_VI_HANDLE vi = nullptr;
        ASSERT_VIP(VIP_SUCCESS, VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
        std::atomic<bool> stop{false};
        Thread user([&] {
            while (!stop) {
                VIP_DESCRIPTOR* head = nullptr;
                const VIP_RETURN done = VipRecvDone(vi, &head);
                EXPECT_TRUE(done == VIP_DESCRIPTOR_ERROR || done == VIP_INVALID_PARAMETER)
                    << VipxReturnName(done);
                VIP_VI_STATE state = VIP_STATE_IDLE;
                VIP_VI_ATTRIBUTES seen{};
                VIP_BOOLEAN send_empty = VIP_FALSE;
                VIP_BOOLEAN recv_empty = VIP_FALSE;
                const VIP_RETURN asked = VipQueryVi(vi, &state, &seen, &send_empty, &recv_empty);
                EXPECT_TRUE(asked == VIP_SUCCESS || asked == VIP_INVALID_PARAMETER)
                    << VipxReturnName(asked);
            }
        });
        EXPECT_VIP(VIP_SUCCESS, VipDestroyVi(vi));
        stop = true;
    }
}

}  // namespace
}  // namespace via::test
