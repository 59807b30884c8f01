// SPDX-License-Identifier: BSD-3-Clause
// Two processes, messages of all sizes both ways, with every protocol and with the least of
// everything that the settings allow.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "mvich/place.hpp"
#include "ua/nic.hpp"
#include "vipl/harness.hpp"

namespace via::mvich {
namespace {

using test::Link;
using test::PeerProcess;

constexpr std::size_t sizes[] = {0,    1,    8,     53,    54,     513,     4000,   4096,
                                 4097, 8000, 16384, 65537, 262144, 1000001, 3000000};

/// Takes the whole table of registered memory, so that nothing more can be registered.
class FullTable {
  public:
    FullTable() {
        auto opened = ua::Nic::open("shm0");
        if (!opened) throw std::runtime_error(opened.error().sentence);
        nic_ = std::move(opened).value();
        tag_ = nic_->create_tag().value();
        for (int i = 0; i < 70'000; ++i) {
            auto handle = nic_->register_memory(memory_, sizeof memory_, {tag_, 0});
            if (!handle) return;
        }
        throw std::runtime_error("the table never fills");
    }
    ~FullTable() { nic_->close(); }

  private:
    std::shared_ptr<ua::Nic> nic_;
    ka::ProtectionTag tag_ = ka::null_tag;
    alignas(4096) std::byte memory_[4096]{};
};

/// The kernel lets this process read and write no other, as in containers and where ptrace is
/// restricted.
void forbid_other_memory() {
    const auto refuses = [](unsigned number) {
        return sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number};
    };
    constexpr sock_filter refusal{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM};
    sock_filter rules[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                           refuses(SYS_process_vm_readv),
                           refusal,
                           refuses(SYS_process_vm_writev),
                           refusal,
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    const sock_fprog program{std::size(rules), rules};
    ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
    iovec piece{rules, 1};
    ASSERT_EQ(process_vm_readv(getpid(), &piece, 1, &piece, 1, 0), -1);
}

void exchange_with(Place& here, Peer peer, bool first) {
    unsigned seed = 1;
    for (const std::size_t bytes : sizes) {
        SCOPED_TRACE(bytes);
        const auto mine = pattern(bytes, seed + (first ? 0 : 100));
        const auto theirs = pattern(bytes, seed + (first ? 100 : 0));
        // In one round the receive is there before the message, in the other it is not.
        for (const bool early : {true, false}) {
            std::vector<std::byte> received(bytes + 1);
            if (early) {
                ASSERT_EQ(here.receive(peer, received.data(), received.size(), seed),
                          Posted::UnderWay);
            }
            const Posted posted = here.send(peer, mine.data(), bytes, seed);
            ASSERT_TRUE(posted == Posted::Done || posted == Posted::UnderWay);
            if (!early) {
                ReceiveOrder look;
                look.from = peer;
                look.tag = seed;
                ASSERT_TRUE(
                    here.until([&] { return here.endpoint->peek(look, Peek::Look).has_value(); }));
                ASSERT_EQ(here.receive(peer, received.data(), received.size(), seed),
                          Posted::UnderWay);
            }
            const Completion completion = here.wait_for(Happened::Received);
            ASSERT_EQ(completion.status, Status::Ok);
            ASSERT_EQ(completion.length, bytes);
            ASSERT_EQ(completion.source, peer);
            ASSERT_EQ(std::memcmp(received.data(), theirs.data(), bytes), 0);
            if (posted == Posted::UnderWay) {
                ASSERT_EQ(here.wait_for(Happened::Sent).status, Status::Ok);
            }
            ++seed;
        }
    }
    // Many at once, so that credits, vbufs and room run out.
    constexpr int many = 300;
    constexpr std::size_t bytes = 1500;
    std::vector<std::byte> sent = pattern(bytes, 7);
    std::vector<std::byte> received(bytes * many);
    int under_way = 0;
    for (int i = 0; i < many; ++i) {
        const Posted posted = here.send(peer, sent.data(), bytes, 5000);
        ASSERT_TRUE(posted == Posted::Done || posted == Posted::UnderWay);
        if (posted == Posted::UnderWay) ++under_way;
    }
    for (std::size_t i = 0; i < many; ++i)
        ASSERT_EQ(here.receive(peer, received.data() + i * bytes, bytes, 5000), Posted::UnderWay);
    for (int i = 0; i < many; ++i)
        ASSERT_EQ(here.wait_for(Happened::Received).status, Status::Ok);
    for (int i = 0; i < under_way; ++i)
        ASSERT_EQ(here.wait_for(Happened::Sent).status, Status::Ok);
    for (std::size_t i = 0; i < many; ++i)
        ASSERT_EQ(std::memcmp(received.data() + i * bytes, sent.data(), bytes), 0);
}

enum class Obstacle : std::uint8_t {
    None,
    FullTable,   ///< nothing can be registered
    NoCma,       ///< the kernel refuses it
    NoCmaOfOne,  ///< and to one of the two only
};

PEER(exchanges) {
    const bool first = link.get<bool>();
    const auto obstacle = link.get<Obstacle>();
    if (obstacle == Obstacle::NoCma || (obstacle == Obstacle::NoCmaOfOne && first))
        forbid_other_memory();
    Place here;
    ASSERT_NE(here.endpoint, nullptr);
    link.put(here.endpoint->name());
    const Peer peer = here.book->insert(link.get<HostPort>());
    std::unique_ptr<FullTable> full;
    if (obstacle == Obstacle::FullTable) full = std::make_unique<FullTable>();
    link.meet();
    exchange_with(here, peer, first);
    link.meet();  // nobody closes while the other still receives
}

struct Variant {
    const char* name;
    PeerProcess::Environment environment;
    Obstacle obstacle = Obstacle::None;
};

class MessageExchange : public testing::TestWithParam<Variant> {};

TEST_P(MessageExchange, AllSizesBothWays) {
    const Variant& variant = GetParam();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    if (variant.obstacle == Obstacle::FullTable)
        GTEST_SKIP() << "filling the table takes a minute here";
#endif
    PeerProcess one("exchanges", variant.environment);
    PeerProcess two("exchanges", variant.environment);
    one.link.put(true);
    two.link.put(false);
    for (PeerProcess* each : {&one, &two})
        each->link.put(variant.obstacle);
    const auto name_of_one = one.link.get<HostPort>();
    const auto name_of_two = two.link.get<HostPort>();
    one.link.put(name_of_two);
    two.link.put(name_of_one);
    for (PeerProcess* each : {&one, &two})
        each->link.meet();
    for (PeerProcess* each : {&one, &two})
        static_cast<void>(each->link.get<std::uint8_t>());
    for (PeerProcess* each : {&one, &two})
        each->link.put<std::uint8_t>(1);
    EXPECT_EQ(one.wait(), 0);
    EXPECT_EQ(two.wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Variants, MessageExchange,
    testing::Values(
        Variant{"auto", {}}, Variant{"eager", {{"VIA_MPI_PROTOCOL", "eager"}}},
        Variant{"r3", {{"VIA_MPI_PROTOCOL", "r3"}}},
        Variant{"rget", {{"VIA_MPI_PROTOCOL", "rget"}}},
        Variant{"rput", {{"VIA_MPI_PROTOCOL", "rput"}}},
        Variant{"one_credit", {{"VIA_MPI_CREDITS", "1"}, {"VIA_MPI_CREDIT_PRESERVE", "1"}}},
        Variant{"two_credits", {{"VIA_MPI_CREDITS", "2"}}},
        Variant{"few_vbufs", {{"VIA_MPI_VBUF_REGIONS", "1"}, {"VIA_MPI_VBUFS_PER_REGION", "24"}}},
        Variant{"small_vbufs", {{"VIA_MPI_VBUF_BYTES", "1k"}, {"VIA_MPI_EAGER_BYTES", "500"}}},
        Variant{"no_eager", {{"VIA_MPI_EAGER_BYTES", "0"}}},
        Variant{"no_cma", {{"VIA_SHM_PATH", "ring"}}},
        Variant{"no_cma_rget", {{"VIA_SHM_PATH", "ring"}, {"VIA_MPI_PROTOCOL", "rget"}}},
        Variant{"no_cma_rput", {{"VIA_SHM_PATH", "ring"}, {"VIA_MPI_PROTOCOL", "rput"}}},
        Variant{"small_rings", {{"VIA_SHM_PATH", "ring"}, {"VIA_SHM_RING_BYTES", "4k"}}},
        Variant{"no_cache", {{"VIA_MPI_CACHE_ENTRIES", "0"}}},
        Variant{"no_registration", {}, Obstacle::FullTable},
        Variant{"no_registration_rput", {{"VIA_MPI_PROTOCOL", "rput"}}, Obstacle::FullTable},
        Variant{"cma_refused", {}, Obstacle::NoCma},
        Variant{"cma_refused_rget", {{"VIA_MPI_PROTOCOL", "rget"}}, Obstacle::NoCma},
        Variant{"cma_refused_rput", {{"VIA_MPI_PROTOCOL", "rput"}}, Obstacle::NoCma},
        Variant{"cma_refused_to_one_rget", {{"VIA_MPI_PROTOCOL", "rget"}}, Obstacle::NoCmaOfOne},
        Variant{"cma_refused_to_one_rput", {{"VIA_MPI_PROTOCOL", "rput"}}, Obstacle::NoCmaOfOne},
        Variant{"shm0", {{"VIA_MPI_DEVICE", "shm0"}}},
        Variant{"net0", {{"VIA_MPI_DEVICE", "net0"}}},
        Variant{"net0_eager", {{"VIA_MPI_DEVICE", "net0"}, {"VIA_MPI_PROTOCOL", "eager"}}},
        Variant{"net0_rget", {{"VIA_MPI_DEVICE", "net0"}, {"VIA_MPI_PROTOCOL", "rget"}}},
        Variant{"net0_one_credit",
                {{"VIA_MPI_DEVICE", "net0"},
                 {"VIA_MPI_CREDITS", "1"},
                 {"VIA_MPI_CREDIT_PRESERVE", "1"}}},
        Variant{"net0_few_vbufs",
                {{"VIA_MPI_DEVICE", "net0"},
                 {"VIA_MPI_VBUF_REGIONS", "1"},
                 {"VIA_MPI_VBUFS_PER_REGION", "64"}}}),
    [](const auto& variant) { return std::string(variant.param.name); });

}  // namespace
}  // namespace via::mvich
