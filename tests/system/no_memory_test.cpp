// SPDX-License-Identifier: BSD-3-Clause
// The heap runs out, at every single allocation that a call makes: the call says
// VIP_ERROR_RESOURCE and has done nothing, the kernel agent holds nothing for it, what there was
// goes on, and the same call works when there is memory again.
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "system/observe.hpp"
#include "system/short_heap.hpp"
#include "vipl/harness.hpp"

namespace via::test {
namespace {

struct Holdings {
    std::uint32_t vis = 0;
    std::uint32_t connections = 0;
    std::uint32_t regions = 0;
    std::uint64_t kmem_bytes = 0;
    friend bool operator==(const Holdings&, const Holdings&) = default;
};
std::ostream& operator<<(std::ostream& out, const Holdings& held) {
    return out << held.vis << " VIs, " << held.connections << " connections, " << held.regions
               << " regions, " << held.kmem_bytes << " bytes of kmem";
}
Holdings holdings() {
    const ka::ProcessStatus own = own_entry(agent_status());
    return {own.vis, own.connections, own.regions, own.kmem_bytes};
}

class NoMemory : public testing::TestWithParam<Shortage> {
  protected:
    /// Calls again and again, failing one allocation later each time, until the call meets no
    /// failure. `check` looks after each call that failed; `undo` takes back one that worked all
    /// the same (a sentence for the log is not needed).
    template <class Call, class Undo, class Check>
    void meet_everywhere(Call call, Undo undo, Check check) {
        for (std::uint32_t allocations = 0; allocations < 10000; ++allocations) {
            run_short(GetParam(), allocations);
            const VIP_RETURN code = call();
            const bool met = end_shortage();
            if (code == VIP_SUCCESS && !met) return;
            if (code == VIP_SUCCESS) {
                undo();
                continue;
            }
            ++failures;
            EXPECT_VIP(VIP_ERROR_RESOURCE, code);
            // The other end of a connection is in this process, and this thread may have read the
            // answer that was for it.
            const std::string text = VipxErrorText();
            EXPECT_TRUE(text.find("out of memory") != std::string::npos ||
                        text.find("has left the new connection") != std::string::npos)
                << text;
            EXPECT_TRUE(met);
            check();
            if (HasFailure()) {
                ADD_FAILURE() << "with " << allocations << " allocations";
                return;
            }
        }
        ADD_FAILURE() << "there is no end of allocations";
    }
    template <class Call, class Undo>
    void meet_everywhere(Call call, Undo undo) {
        const Holdings before = holdings();
        const std::uint32_t failures_before = failures;
        meet_everywhere(call, undo, [&] {
            EXPECT_TRUE(eventually([&] { return holdings() == before; }))
                << holdings() << ", before " << before;
            expect_traffic(pair);
        });
        expect_traffic(pair);
        EXPECT_GT(failures, failures_before) << "it needs no memory: this tests nothing";
    }

    [[nodiscard]] static bool only_the_pair_is_connected() {
        return eventually([] { return holdings().connections == 2; });
    }

    Pair pair;
    std::uint32_t failures = 0;
};
INSTANTIATE_TEST_SUITE_P(Each, NoMemory, testing::Values(Shortage::Once, Shortage::Lasting),
                         [](const testing::TestParamInfo<Shortage>& each) {
                             return each.param == Shortage::Once ? "Once" : "Lasting";
                         });

TEST_P(NoMemory, ToCreateATag) {
    VIP_PROTECTION_HANDLE tag = nullptr;
    const auto destroy = [&] { EXPECT_VIP(VIP_SUCCESS, VipDestroyPtag(pair.client.nic, tag)); };
    meet_everywhere([&] { return VipCreatePtag(pair.client.nic, &tag); }, destroy);
    destroy();
}

TEST_P(NoMemory, ToRegister) {
    std::vector<std::byte> memory(4096);
    VIP_MEM_ATTRIBUTES attributes{};
    attributes.Ptag = pair.client.tag;
    VIP_MEM_HANDLE handle = 0;
    const auto deregister = [&] {
        EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(pair.client.nic, memory.data(), handle));
    };
    meet_everywhere(
        [&] {
            return VipRegisterMem(pair.client.nic, memory.data(), memory.size(), &attributes,
                                  &handle);
        },
        deregister);
    deregister();
}

TEST_P(NoMemory, ToAllocate) {
    const VIP_PROTECTION_HANDLE tag = make_tag(pair.client.nic);  // it has no arena yet
    VIP_MEM_ATTRIBUTES attributes{};
    attributes.Ptag = tag;
    VIP_PVOID address = nullptr;
    VIP_MEM_HANDLE handle = 0;
    const auto free = [&] {
        std::memset(address, 1, 100000);
        EXPECT_VIP(VIP_SUCCESS, VipxFreeMem(pair.client.nic, address, handle));
    };
    meet_everywhere(
        [&] { return VipxAllocMem(pair.client.nic, 100000, &attributes, &address, &handle); },
        free);
    free();
}

TEST_P(NoMemory, ToCreateAQueueAndAVi) {
    VIP_CQ_HANDLE cq = nullptr;
    const auto destroy_cq = [&] { EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(cq)); };
    meet_everywhere([&] { return VipCreateCQ(pair.client.nic, 100, &cq); }, destroy_cq);
    meet_everywhere([&] { return VipResizeCQ(cq, 5000); },
                    [&] { EXPECT_VIP(VIP_SUCCESS, VipResizeCQ(cq, 10)); });
    VIP_VI_HANDLE vi = nullptr;
    VIP_VI_ATTRIBUTES attributes =
        attributes_for(pair.client.nic, {.tag = pair.client.tag, .send_cq = cq, .recv_cq = cq});
    // More than one chunk of the table of handles.
    std::vector<VIP_VI_HANDLE> vis(100);
    for (VIP_VI_HANDLE& each : vis)
        EXPECT_VIP(VIP_SUCCESS, VipCreateVi(pair.client.nic, &attributes, cq, cq, &each));
    const auto destroy = [&] { EXPECT_VIP(VIP_SUCCESS, VipDestroyVi(vi)); };
    meet_everywhere([&] { return VipCreateVi(pair.client.nic, &attributes, cq, cq, &vi); },
                    destroy);
    destroy();
    for (const VIP_VI_HANDLE each : vis)
        EXPECT_VIP(VIP_SUCCESS, VipDestroyVi(each));
    destroy_cq();
}

/// The other side of connections that may fail. It has all the memory it wants, but a thread that
/// has none may be the one that reads its answers: its calls may fail, too.
class Partner {
  public:
    explicit Partner(Nic& nic, VIP_PROTECTION_HANDLE tag)
        : nic_(nic),
          vi_(nic, {.tag = tag}),
          here_(nic, unique_discriminator()),
          thread_([this] { serve(); }) {}
    Partner(const Partner&) = delete;
    Partner& operator=(const Partner&) = delete;
    ~Partner() {
        stopping_ = true;
        thread_.join();
    }
    [[nodiscard]] Address& address() { return here_; }

  private:
    void serve() {
        while (!stopping_) {
            Address remote;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE connection = nullptr;
            const VIP_RETURN code =
                VipConnectWait(nic_, here_.get(), 20, remote.get(), &attributes, &connection);
            if (code == VIP_TIMEOUT || code == VIP_ERROR_RESOURCE) continue;
            EXPECT_VIP(VIP_SUCCESS, code);
            if (code != VIP_SUCCESS) return;
            if (VipConnectAccept(connection, vi_) != VIP_SUCCESS) continue;
            // The other end either could not take it up, or ends it.
            EXPECT_TRUE(vi_.becomes(VIP_STATE_ERROR));
            EXPECT_VIP(VIP_SUCCESS, VipDisconnect(vi_));
        }
    }
    Nic& nic_;
    Vi vi_;
    Address here_;
    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

TEST_P(NoMemory, ToRequestAConnection) {
    Vi vi(pair.client.nic, {.tag = pair.client.tag});
    Partner partner(pair.server.nic, pair.server.tag);
    Address here(pair.client.nic, unique_discriminator());
    VIP_VI_ATTRIBUTES attributes{};
    // The partner has come when the first connection stands.
    EXPECT_VIP(VIP_SUCCESS, request_until_matched(vi, here, partner.address()));
    EXPECT_VIP(VIP_SUCCESS, VipDisconnect(vi));
    const auto request = [&] {
        VIP_RETURN code;
        do {  // it may be between two waits
            code = VipConnectRequest(vi, here.get(), partner.address().get(), patience_ms,
                                     &attributes);
        } while (code == VIP_NO_MATCH || code == VIP_TIMEOUT);
        return code;
    };
    const auto disconnect = [&] {
        // The other end may have failed in its turn.
        EXPECT_TRUE(vi.state() == VIP_STATE_CONNECTED || vi.state() == VIP_STATE_ERROR);
        EXPECT_VIP(VIP_SUCCESS, VipDisconnect(vi));
    };
    meet_everywhere(request, disconnect, [&] {
        EXPECT_EQ(vi.state(), VIP_STATE_IDLE);
        EXPECT_TRUE(only_the_pair_is_connected());
        expect_traffic(pair);
    });
    disconnect();
}

TEST_P(NoMemory, ToAcceptAConnection) {
    Vi vi(pair.client.nic, {.tag = pair.client.tag});
    Address here(pair.client.nic, unique_discriminator());
    std::atomic<bool> stopping{false};
    Vi other(pair.server.nic, {.tag = pair.server.tag});
    std::thread requester([&] {
        Address there(pair.server.nic, unique_discriminator());
        while (!stopping) {
            VIP_VI_ATTRIBUTES attributes{};
            const VIP_RETURN code =
                VipConnectRequest(other, there.get(), here.get(), 100, &attributes);
            if (code != VIP_SUCCESS) continue;
            EXPECT_TRUE(other.becomes(VIP_STATE_ERROR));
            EXPECT_VIP(VIP_SUCCESS, VipDisconnect(other));
        }
    });
    const auto accept = [&] {
        for (;;) {
            Address remote;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE connection = nullptr;
            VIP_RETURN code = VipConnectWait(pair.client.nic, here.get(), patience_ms, remote.get(),
                                             &attributes, &connection);
            if (code == VIP_SUCCESS) code = VipConnectAccept(connection, vi);
            // The requester has given up meanwhile.
            if (code != VIP_TIMEOUT) return code;
        }
    };
    const auto disconnect = [&] {
        // The other end may have failed in its turn.
        EXPECT_TRUE(vi.state() == VIP_STATE_CONNECTED || vi.state() == VIP_STATE_ERROR);
        EXPECT_VIP(VIP_SUCCESS, VipDisconnect(vi));
    };
    meet_everywhere(accept, disconnect, [&] {
        EXPECT_EQ(vi.state(), VIP_STATE_IDLE);
        EXPECT_TRUE(only_the_pair_is_connected());
        expect_traffic(pair);
    });
    stopping = true;
    disconnect();
    requester.join();
}

TEST_P(NoMemory, ToPost) {
    // Into an idle VI, so that they stay; more than the rings have room for at first.
    VIP_CQ_HANDLE cq = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(pair.client.nic, 1, &cq));
    {
        Vi vi(pair.client.nic, {.tag = pair.client.tag, .recv_cq = cq});
        Arena& arena = pair.client.arena;
        std::byte* data = arena.take(1000);
        const std::vector<Segment> segments(100, arena.segment(data, 10));
        std::vector<VIP_DESCRIPTOR*> posted;
        for (int i = 0; i < 40; ++i) {
            posted.push_back(arena.descriptor(100));
            fill(posted.back(), segments);
        }
        std::uint32_t growths = 0;
        for (VIP_DESCRIPTOR* descriptor : posted) {
            const std::uint32_t before = failures;
            meet_everywhere([&] { return VipPostRecv(vi, descriptor, arena.handle()); },
                            [&] { EXPECT_EQ(vi.await_recv().descriptor, descriptor); }, [] {});
            growths += failures != before;
        }
        EXPECT_GT(growths, 1U);
        // All of them once, and in their order.
        EXPECT_VIP(VIP_SUCCESS, VipDisconnect(vi));
        for (VIP_DESCRIPTOR* descriptor : posted) {
            const Completion completion = vi.await_recv();
            EXPECT_EQ(completion.descriptor, descriptor);
        }
        EXPECT_TRUE(vi.recv_queue_empty());
    }
    EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(cq));
}

void nothing(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR*) {}

TEST_P(NoMemory, ToAskForANotification) {
    std::byte* data = pair.client.arena.take(100);
    VIP_DESCRIPTOR* receive = pair.client.arena.message(data, 100);
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_recv(receive));
    meet_everywhere([&] { return VipRecvNotify(pair.client.vi, nullptr, nothing); }, [] {}, [] {});
    VIP_DESCRIPTOR* send = pair.server.arena.message(pair.server.arena.take(100), 100);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_send(send));
    EXPECT_VIP(VIP_SUCCESS, pair.server.vi.await_send().code);
    EXPECT_TRUE(eventually([&] { return pair.client.vi.recv_queue_empty(); }));
    expect_traffic(pair);
}

PEER(open_without_memory) {
    // Every allocation from the first one of the process on, for each kind of shortage in a process
    // of its own.
    const auto kind = link.get<Shortage>();
    VIP_NIC_HANDLE nic = nullptr;
    std::uint32_t failures = 0;
    for (std::uint32_t allocations = 0; allocations < 10000; ++allocations) {
        run_short(kind, allocations);
        const VIP_RETURN code = VipOpenNic(device(), &nic);
        const bool met = end_shortage();
        if (code == VIP_SUCCESS) break;
        ASSERT_TRUE(met) << VipxErrorText();
        EXPECT_VIP(VIP_ERROR_RESOURCE, code);
        ++failures;
    }
    EXPECT_GT(failures, 5U);
    EXPECT_VIP(VIP_SUCCESS, VipCloseNic(nic));
    Pair pair;
    expect_traffic(pair);
}

TEST_P(NoMemory, ToOpenTheNic) {
    PeerProcess child("open_without_memory");
    child.link.put(GetParam());
    EXPECT_EQ(child.wait(), 0);
}

/// The library's own thread finds no memory for a while, with everything that it does going on.
TEST(NoMemoryForTheServiceThread, IsSurvived) {
    for (unsigned round = 0; round < rounds(40); ++round) {
        Pair pair;
        expect_traffic(pair);
        std::byte* source = pair.server.arena.take(50000);
        std::byte* target = pair.client.arena.take(50000);
        fill_pattern(source, 50000, round);
        const std::uint32_t before = refusals.load();
        starved_thread = service_thread();
        // RDMA that nobody polls for, errors, a notification, an end.
        VIP_DESCRIPTOR* receive = pair.client.arena.message(target, 100);
        EXPECT_VIP(VIP_SUCCESS, pair.client.post_recv(receive));
        EXPECT_VIP(VIP_SUCCESS, VipRecvNotify(pair.client.vi, nullptr, nothing));
        VIP_DESCRIPTOR* write =
            pair.server.arena.rdma_write(source, 50000, {target, pair.client.arena.handle()});
        EXPECT_VIP(VIP_SUCCESS, pair.server.post_send(write));
        static_cast<void>(pair.server.vi.await_send());
        // One without a receive: a connection lost, with an error told.
        for (int i = 0; i < 2; ++i) {
            VIP_DESCRIPTOR* send = pair.server.arena.message(source, 100);
            static_cast<void>(pair.server.post_send(send));
        }
        EXPECT_TRUE(pair.both_break());
        EXPECT_TRUE(eventually([&] { return refusals.load() != before; }));
        starved_thread = 0;
        static_cast<void>(pair.client.vi.drain_recv());
        static_cast<void>(pair.client.vi.drain_send());
        static_cast<void>(pair.server.vi.drain_recv());
        static_cast<void>(pair.server.vi.drain_send());
    }
    Pair pair;
    expect_traffic(pair);
}

}  // namespace
}  // namespace via::test
