// SPDX-License-Identifier: BSD-3-Clause
// RDMA between two shm endpoints, on the paths that need nothing from the target and through the
// ring.
#include <cstring>
#include <thread>

#include "na/shm/shm_pair.hpp"

using namespace via;
using namespace via::test;
using na::EndpointEvent;
using na::Operation;

namespace {

class ShmRdma : public ShmPair {
  protected:
    /// More than the ring holds, and than one poll moves.
    [[nodiscard]] std::size_t many_bytes() {
        return std::max<std::size_t>(100000, 3 * std::size_t{settings().geometry.ring_bytes()});
    }
    [[nodiscard]] bool may_read() { return GetParam() != na::unreliable; }

    void write(const Pieces& source, const TestMemory& target, std::size_t offset,
               std::uint64_t stream) {
        const std::uint32_t bytes = bytes_of(source);
        fill_pieces(source, stream);
        fill_pattern(target.span(), ~stream);
        a.post_rdma(Operation::RdmaWrite, target.pd(offset, 0), source);
        ASSERT_TRUE(drive(a, b));
        const auto done = a.send_done();
        ASSERT_TRUE(done);
        EXPECT_EQ(done->errors(), 0U);
        EXPECT_EQ(done->status & 0x70000, na::status_op_rdma_write);
        EXPECT_EQ(done->length, bytes);
        EXPECT_EQ(matching_bytes(target.span().first(offset), ~stream), offset);
        EXPECT_EQ(matching_bytes(target.span().subspan(offset, bytes), stream), bytes);
        const std::size_t behind = offset + bytes;
        EXPECT_EQ(matching_bytes(target.span().subspan(behind), ~stream, behind),
                  target.size() - behind);
        EXPECT_FALSE(b.receive_done()) << "a write without immediate data consumes nothing";
        EXPECT_EQ(a.take_events() | b.take_events(), 0U);
    }

    void read(const TestMemory& source, std::size_t offset, const Pieces& target,
              std::uint64_t stream) {
        const std::uint32_t bytes = bytes_of(target);
        fill_pattern(source.span(), stream);
        fill_pieces(target, ~stream);
        a.post_rdma(Operation::RdmaRead, source.pd(offset, 0), target);
        ASSERT_TRUE(drive(a, b));
        const auto done = a.send_done();
        ASSERT_TRUE(done);
        EXPECT_EQ(done->errors(), 0U);
        EXPECT_EQ(done->status & 0x70000, na::status_op_rdma_read);
        EXPECT_EQ(done->length, bytes);
        std::size_t at = offset;
        for (const auto& piece : target) {
            EXPECT_EQ(matching_bytes(span_of(piece), stream, at), piece.length);
            at += piece.length;
        }
        EXPECT_EQ(matching_bytes(source.span(), stream), source.size());
        EXPECT_EQ(a.take_events() | b.take_events(), 0U);
    }
};

const std::uint32_t sizes[] = {1,   2,   7,    8,    9,    15,   53,   54,    56,    57,    64,
                               512, 513, 2047, 2048, 2049, 4096, 9000, 16384, 65536, 70001, 200000};
constexpr TestMemory::Kind kinds[] = {TestMemory::Kind::Heap, TestMemory::Kind::Kmem};

TEST_P(ShmRdma, WritesEverySize) {
    for (const auto kind : kinds) {
        const TestMemory source(left, 200000);
        const TestMemory target(right, 200100, kind);
        for (const std::uint32_t bytes : sizes) {
            SCOPED_TRACE(bytes);
            write({source.pd(0, bytes)}, target, bytes % 61, bytes);
            if (HasFatalFailure()) return;
        }
    }
}

TEST_P(ShmRdma, ReadsEverySize) {
    if (!may_read()) GTEST_SKIP() << "not on this level";
    for (const auto kind : kinds) {
        const TestMemory source(right, 200100, kind);
        const TestMemory target(left, 200000);
        for (const std::uint32_t bytes : sizes) {
            SCOPED_TRACE(bytes);
            read(source, bytes % 61, {target.pd(0, bytes)}, bytes);
            if (HasFatalFailure()) return;
        }
    }
}

TEST_P(ShmRdma, GathersAndScatters) {
    for (std::uint64_t seed = 1; seed <= repeated(60); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const std::uint32_t bytes =
            random.one_in(2) ? random.between(1, 300) : random.between(300, 30000);
        const auto kind = kinds[random.below(2)];
        const TestMemory own(left, bytes + 2000);
        const TestMemory other(right, bytes + 100, kind);
        const Pieces pieces = cut(own, bytes, random.between(1, std::min(bytes, 251U)), random);
        write(pieces, other, random.below(100), seed);
        if (may_read()) read(other, random.below(100), pieces, seed + 1000);
        if (HasFatalFailure()) return;
    }
}

TEST_P(ShmRdma, OfNoBytesIsDoneAtOnce) {
    const TestMemory other(right, 100);
    for (const Operation operation : {Operation::RdmaWrite, Operation::RdmaRead}) {
        if (operation == Operation::RdmaRead && !may_read()) continue;
        a.post_rdma(operation, other.pd(0, 0), {});
        ASSERT_TRUE(drive(a, b));
        const auto done = a.send_done();
        ASSERT_TRUE(done);
        EXPECT_EQ(done->errors(), 0U);
        EXPECT_EQ(done->length, 0U);
    }
}

// The target spins on its memory and makes no call.
TEST_P(ShmRdma, NeedsNothingFromTheTarget) {
    for (const auto kind : kinds) {
        const TestMemory own(left, 100000);
        const TestMemory other(right, 100000, kind);
        if (!direct(kind)) continue;
        fill_pattern(own.span(), 5);
        a.post_rdma(Operation::RdmaWrite, other.pd(0, 0), {own.pd()});
        EXPECT_EQ(matching_bytes(other.span(), 5), other.size());
        const auto written = a.send_done();
        ASSERT_TRUE(written);
        EXPECT_EQ(written->errors(), 0U);
        if (!may_read()) continue;
        fill_pattern(other.span(), 6);
        a.post_rdma(Operation::RdmaRead, other.pd(0, 0), {own.pd()});
        EXPECT_EQ(matching_bytes(own.span(), 6), own.size());
        ASSERT_TRUE(a.send_done());
    }
}

TEST_P(ShmRdma, WriteWithImmediateDataConsumesAReceive) {
    for (const auto kind : kinds)
        for (const std::uint32_t bytes : {0U, 8U, 100U, 9000U}) {
            SCOPED_TRACE(bytes);
            const TestMemory own(left, 10000);
            const TestMemory other(right, 10000, kind);
            const TestMemory untouched(right, 100);
            fill_pattern(own.span(), 5);
            fill_pattern(untouched.span(), 7);
            const std::uint64_t receive = b.post_receive({untouched.pd()});
            a.post_rdma(Operation::RdmaWrite, other.pd(0, 0),
                        bytes == 0 ? Pieces{} : Pieces{own.pd(0, bytes)}, {.immediate = bytes + 1});
            ASSERT_TRUE(drive(a, b));
            const auto received = b.receive_done();
            ASSERT_TRUE(received);
            EXPECT_EQ(received->cookie, receive);
            EXPECT_EQ(received->status,
                      na::status_done | na::status_immediate | na::status_op_remote_rdma_write);
            EXPECT_EQ(received->immediate, bytes + 1);
            EXPECT_EQ(received->length, bytes);
            EXPECT_EQ(matching_bytes(other.span().first(bytes), 5), bytes);
            EXPECT_EQ(matching_bytes(untouched.span(), 7), untouched.size());
            const auto sent = a.send_done();
            ASSERT_TRUE(sent);
            EXPECT_EQ(sent->errors(), 0U);
            EXPECT_EQ(sent->length, bytes);
        }
}

TEST_P(ShmRdma, WriteWithImmediateDataButNoReceiveIsAnError) {
    for (const auto kind : kinds) {
        const TestMemory own(left, 5000);
        const TestMemory other(right, 5000, kind);
        a.post_rdma(Operation::RdmaWrite, other.pd(0, 0), {own.pd()}, {.immediate = 1});
        ASSERT_TRUE(drive(a, b));
        EXPECT_EQ(b.take_events(), event_bits(EndpointEvent::ReceiveQueueEmpty));
        const auto sent = a.send_done();
        ASSERT_TRUE(sent);
        EXPECT_EQ(sent->errors(), reception() ? na::status_remote_descriptor : 0);
        if (reliable()) return;
    }
}

/// What must not be reached, and why.
struct Refusal {
    const char* why;
    std::uint32_t region_rights = ka::right_rdma_write | ka::right_rdma_read;
    std::uint32_t vi_rights = ka::right_rdma_write | ka::right_rdma_read;
    ka::ProtectionTag tag = 1;
    std::int64_t offset = 0;
    std::uint32_t bytes = 100;
    bool deregistered = false;
};

class ShmRdmaRefused : public ShmRdma {
  protected:
    static constexpr std::uint32_t region_bytes = 1000;

    static std::vector<Refusal> refusals(std::uint32_t wanted) {
        const std::uint32_t others = (ka::right_rdma_write | ka::right_rdma_read) & ~wanted;
        std::vector<Refusal> all;
        all.push_back({.why = "the region does not allow it", .region_rights = others});
        all.push_back({.why = "the VI does not allow it", .vi_rights = others});
        all.push_back({.why = "another tag", .tag = 2});
        all.push_back({.why = "begins before the region", .offset = -1});
        all.push_back({.why = "ends behind the region", .offset = region_bytes - 99});
        all.push_back({.why = "longer than the region", .bytes = region_bytes + 1});
        all.push_back({.why = "far away", .offset = 1LL << 40});
        all.push_back({.why = "wraps around", .offset = INT64_MIN});
        all.push_back({.why = "deregistered", .deregistered = true});
        return all;
    }

    /// `a` must not reach `b` with this; what both see is checked by the caller.
    void attempt(const Refusal& refusal, Operation operation, TestVi& from, TestVi& to,
                 TestMemory::Kind kind, const SendOptions& options = {}) {
        TestMemory target(right, region_bytes, kind, refusal.region_rights, refusal.tag);
        const TestMemory own(left, 2 * region_bytes);
        fill_pattern(target.span(), 1);
        fill_pattern(own.span(), 2);
        auto remote = target.pd(0, 0);
        remote.address += static_cast<std::uint64_t>(refusal.offset);
        if (refusal.deregistered) target.deregister();
        from.post_rdma(operation, remote, {own.pd(0, refusal.bytes)}, options);
        ASSERT_TRUE(drive(from, to));
        EXPECT_EQ(matching_bytes(target.span(), 1), target.size());
        EXPECT_EQ(matching_bytes(own.span(), 2), own.size());
    }
};

TEST_P(ShmRdmaRefused, WriteOutsideWhatWasGranted) {
    for (const auto kind : kinds)
        for (const Refusal& refusal : refusals(ka::right_rdma_write)) {
            SCOPED_TRACE(refusal.why);
            TestVi c(left, GetParam());
            TestVi d(right, GetParam());
            d.queues.local.rights = refusal.vi_rights;
            ASSERT_TRUE(connect(c, d));
            attempt(refusal, Operation::RdmaWrite, c, d, kind);
            const auto sent = c.send_done();
            ASSERT_TRUE(sent);
            // Only reliable reception tells the initiator.
            EXPECT_EQ(sent->errors(), reception() ? na::status_rdma_protection : 0);
            EXPECT_EQ(d.take_events(), event_bits(EndpointEvent::RdmaWriteRefused));
        }
}

TEST_P(ShmRdmaRefused, WriteWithImmediateDataIsReportedInTheReceive) {
    for (const auto kind : kinds)
        for (const Refusal& refusal : refusals(ka::right_rdma_write)) {
            SCOPED_TRACE(refusal.why);
            TestVi c(left, GetParam());
            TestVi d(right, GetParam());
            d.queues.local.rights = refusal.vi_rights;
            ASSERT_TRUE(connect(c, d));
            const TestMemory untouched(right, 100);
            d.post_receive({untouched.pd()});
            attempt(refusal, Operation::RdmaWrite, c, d, kind, {.immediate = 99});
            const auto received = d.receive_done();
            ASSERT_TRUE(received);
            EXPECT_EQ(received->errors(), na::status_rdma_protection);
            EXPECT_TRUE(received->has_immediate());
            EXPECT_EQ(received->immediate, 99U);
            EXPECT_EQ(received->length, 0U);
            EXPECT_EQ(d.take_events(), 0U);
            const auto sent = c.send_done();
            ASSERT_TRUE(sent);
            EXPECT_EQ(sent->errors(), reception() ? na::status_rdma_protection : 0);
        }
}

TEST_P(ShmRdmaRefused, ReadOutsideWhatWasGranted) {
    if (!may_read()) GTEST_SKIP() << "not on this level";
    for (const auto kind : kinds)
        for (const Refusal& refusal : refusals(ka::right_rdma_read)) {
            SCOPED_TRACE(refusal.why);
            TestVi c(left, GetParam());
            TestVi d(right, GetParam());
            d.queues.local.rights = refusal.vi_rights;
            ASSERT_TRUE(connect(c, d));
            attempt(refusal, Operation::RdmaRead, c, d, kind);
            const auto sent = c.send_done();
            ASSERT_TRUE(sent);
            EXPECT_EQ(sent->errors(), na::status_rdma_protection);
            EXPECT_EQ(d.take_events(), event_bits(EndpointEvent::RdmaReadRefused));
        }
}

TEST_P(ShmRdmaRefused, RightsCountThatHoldNow) {
    const TestMemory own(left, 100);
    const TestMemory other(right, 100);
    ASSERT_TRUE(right.client.change_memory(other.handle(), 1, 0));
    a.post_rdma(Operation::RdmaWrite, other.pd(0, 0), {own.pd()});
    ASSERT_TRUE(drive(a, b));
    EXPECT_EQ(b.take_events(), event_bits(EndpointEvent::RdmaWriteRefused));
    if (reliable()) return;
    ASSERT_TRUE(a.send_done());
    ASSERT_TRUE(right.client.change_memory(other.handle(), 1, ka::right_rdma_write));
    write({own.pd()}, other, 0, 1);
}

// ---- Order ----------------------------------------------------------------------------------

// A send after an RDMA write is the signal that the data is there; a write after a message that the
// peer has yet to fetch must not overtake it.
TEST_P(ShmRdma, KeepsItsPlaceAmongSends) {
    const TestMemory own(left, 200000);
    const TestMemory other(right, 200000);
    const TestMemory in(right, 200000);
    for (std::uint32_t round = 1; round <= 20; ++round) {
        fill_pattern(own.span(), round);
        b.post_receive({in.pd(0, 100000)});
        b.post_receive({in.pd(100000, 8)});
        a.post_send({own.pd(0, 100000)});
        a.post_rdma(Operation::RdmaWrite, other.pd(0, 0), {own.pd(100000, 50000)});
        a.post_send({own.pd(0, 8)});
        int polls = 0;
        std::optional<Done> signal;
        std::optional<Done> first;
        while (!signal && ++polls < 100000) {
            a.poll();
            b.poll();
            if (!first)
                first = b.receive_done();
            else
                signal = b.receive_done();
        }
        ASSERT_TRUE(signal);
        ASSERT_EQ(signal->length, 8U);
        ASSERT_EQ(matching_bytes(in.span().first(100000), round), 100000U);
        ASSERT_EQ(matching_bytes(other.span().first(50000), round, 100000), 50000U);
        ASSERT_TRUE(drive(a, b));
        for (int i = 0; i < 3; ++i)
            ASSERT_TRUE(a.send_done());
    }
}

TEST_P(ShmRdma, FenceWaitsForEarlierReads) {
    if (!may_read()) GTEST_SKIP() << "not on this level";
    const TestMemory own(left, 50000);
    const TestMemory other(right, 50000);
    const TestMemory in(right, 1000);
    fill_pattern(other.span(), 3);
    // The send carries what the read brings: only with the fence it is the new value.
    for (int i = 0; i < 3; ++i)
        b.post_receive({in.pd(static_cast<std::size_t>(i) * 100, 100)});
    fill_pattern(own.span(), 4);
    a.post_rdma(Operation::RdmaRead, other.pd(0, 0), {own.pd()});
    a.post_send({own.pd(0, 50)});
    a.post_send({own.pd(0, 50)}, {.immediate = {}, .fence = true});
    a.post_send({own.pd(0, 50)});
    ASSERT_TRUE(drive(a, b));
    for (int i = 0; i < 3; ++i)
        ASSERT_TRUE(b.receive_done()) << i;
    EXPECT_EQ(matching_bytes(in.span().first(50), direct(TestMemory::Kind::Heap) ? 3 : 4), 50U);
    EXPECT_EQ(matching_bytes(in.span().subspan(100, 50), 3), 50U);
    EXPECT_EQ(matching_bytes(in.span().subspan(200, 50), 3), 50U);
    for (std::uint64_t i = 0; i < 4; ++i) {
        const auto done = a.send_done();
        ASSERT_TRUE(done);
        EXPECT_EQ(done->cookie, i);
        EXPECT_EQ(done->errors(), 0U);
    }
}

TEST_P(ShmRdma, ManyReadsAreUnderWayAtOnce) {
    if (!may_read()) GTEST_SKIP() << "not on this level";
    const TestMemory own(left, 40 * 5000);
    const TestMemory other(right, 40 * 5000);
    fill_pattern(other.span(), 3);
    for (std::size_t i = 0; i < 40; ++i)
        a.post_rdma(Operation::RdmaRead, other.pd(i * 5000, 0), {own.pd(i * 5000, 5000)});
    // The other side reads, too.
    for (std::size_t i = 0; i < 40; ++i)
        b.post_rdma(Operation::RdmaRead, own.pd(0, 0), {other.pd(i * 5000, 0)});
    ASSERT_TRUE(drive(a, b));
    for (int i = 0; i < 40; ++i) {
        const auto done = a.send_done();
        ASSERT_TRUE(done);
        EXPECT_EQ(done->errors(), 0U);
        ASSERT_TRUE(b.send_done());
    }
    EXPECT_EQ(matching_bytes(own.span(), 3), own.size());
}

TEST_P(ShmRdma, ReadIsCutOffWhenTheTargetIsDeregisteredOnTheWay) {
    if (!may_read() || direct(TestMemory::Kind::Heap))
        GTEST_SKIP() << "only through the ring a read takes several steps";
    const TestMemory own(left, many_bytes());
    TestMemory other(right, many_bytes());
    a.post_rdma(Operation::RdmaRead, other.pd(0, 0), {own.pd()});
    b.poll();
    other.deregister();
    ASSERT_TRUE(drive(a, b));
    const auto done = a.send_done();
    ASSERT_TRUE(done);
    EXPECT_EQ(done->errors(), na::status_rdma_protection);
    EXPECT_EQ(b.take_events(), event_bits(EndpointEvent::RdmaReadRefused));
}

TEST_P(ShmRdma, WriteIsCutOffWhenTheTargetIsDeregisteredOnTheWay) {
    if (direct(TestMemory::Kind::Heap))
        GTEST_SKIP() << "only through the ring a write takes several steps";
    const TestMemory own(left, many_bytes());
    TestMemory other(right, many_bytes());
    fill_pattern(own.span(), 1);
    fill_pattern(other.span(), 2);
    a.post_rdma(Operation::RdmaWrite, other.pd(0, 0), {own.pd()});
    b.poll();
    const std::size_t written = matching_bytes(other.span(), 1);
    ASSERT_GT(written, 0U);
    ASSERT_LT(written, other.size());
    other.deregister();
    ASSERT_TRUE(drive(a, b));
    EXPECT_EQ(matching_bytes(other.span(), 1), written);
    EXPECT_EQ(b.take_events(), event_bits(EndpointEvent::RdmaWriteRefused));
    const auto done = a.send_done();
    ASSERT_TRUE(done);
    EXPECT_EQ(done->errors(), reception() ? na::status_rdma_protection : 0);
}

// Programs poll a flag word behind the data of one write, on every path.
TEST_P(ShmRdma, ShowsTheLastWordLast) {
    // In the ring the last word lies across two lines.
    constexpr std::size_t length = 64 * 46 + 4;
    constexpr std::uint32_t rounds = repeated(300);
    const auto deadline = base::Deadline::after_milliseconds(60000);
    for (const auto kind : kinds) {
        const TestMemory own(left, length);
        const TestMemory other(right, length + 8, kind);
        // The write begins anywhere and ends with an aligned word.
        const std::size_t shift =
            (8 - (reinterpret_cast<std::uint64_t>(other.data()) + length) % 8) % 8;
        auto& flag = *reinterpret_cast<std::uint64_t*>(other.data() + shift + length - 8);
        ASSERT_EQ(reinterpret_cast<std::uint64_t>(&flag) % 8, 0U);
        flag = 0;
        std::atomic<std::uint32_t> seen{0};
        std::thread target([&] {
            for (std::uint32_t round = 1; round <= rounds; ++round) {
                const std::uint64_t wanted = round * 0x0101010101010101ULL;
                const std::uint64_t old = wanted - 0x0101010101010101ULL;
                for (;;) {
                    const std::uint64_t now = std::atomic_ref(flag).load(std::memory_order_acquire);
                    if (now == wanted) break;
                    if (now != old) ADD_FAILURE() << "a torn word " << now;
                    if (deadline.expired() || HasFailure()) return;
                    sched_yield();
                }
                if (matching_bytes(other.span().subspan(shift, length - 8), round) != length - 8)
                    ADD_FAILURE() << "old bytes in round " << round;
                seen.store(round, std::memory_order_release);
            }
        });
        for (std::uint32_t round = 1; round <= rounds; ++round) {
            fill_pattern(own.span().first(length - 8), round);
            const std::uint64_t word = round * 0x0101010101010101ULL;
            std::memcpy(own.data() + length - 8, &word, 8);
            a.post_rdma(Operation::RdmaWrite, other.pd(shift, 0), {own.pd(0, length)});
            while (seen.load(std::memory_order_acquire) != round && !deadline.expired() &&
                   !HasFailure()) {
                a.poll();
                b.poll();
                sched_yield();
            }
            while (a.send_done()) {
            }
            if (deadline.expired() || HasFailure()) break;
        }
        target.join();
        EXPECT_EQ(seen.load(), rounds);
    }
}

// ---- The peer's tables
// ---------------------------------------------------------------------------

TEST_P(ShmRdma, FollowsThePeerToANewTable) {
    const TestMemory own(left, 100);
    const TestMemory first(right, 1000);
    write({own.pd()}, first, 0, 1);
    right.client.renew_table();
    const TestMemory second(right, 1000);
    right.doorbell.page().rmmt_epoch.store(right.client.rmmt_epoch());
    const int asked = left.client.tables_asked;
    if (direct(TestMemory::Kind::Heap)) {
        write({own.pd()}, second, 0, 2);
        write({own.pd()}, first, 0, 3);
        EXPECT_EQ(left.client.tables_asked, asked + 1);
    }
}

// The number of the table lies where every peer can write.
TEST_P(ShmRdma, AnEpochThatChangesAllTheTimeCostsNoMappings) {
    const TestMemory own(left, 100);
    const TestMemory other(right, 100);
    const auto mappings = [] {
        std::size_t lines = 0;
        FILE* maps = fopen("/proc/self/maps", "r");
        for (int c = fgetc(maps); c != EOF; c = fgetc(maps))
            lines += c == '\n';
        fclose(maps);
        return lines;
    };
    write({own.pd()}, other, 0, 1);
    const std::size_t before = mappings();
    for (std::uint32_t i = 0; i < 200; ++i) {
        right.doorbell.page().rmmt_epoch.store(1000 + i);
        a.post_rdma(Operation::RdmaWrite, other.pd(0, 0), {own.pd()});
        ASSERT_TRUE(drive(a, b));
        ASSERT_TRUE(a.send_done());
    }
    EXPECT_LT(mappings(), before + 50);
}

TEST_P(ShmRdma, GoesOnWithoutArenasThatTheAgentRefuses) {
    left.client.refuse_arenas = true;
    const TestMemory own(left, 50000);
    const TestMemory other(right, 50000, TestMemory::Kind::Kmem);
    for (int i = 0; i < 5; ++i) {
        write({own.pd()}, other, 0, 1);
        if (may_read()) read(other, 0, {own.pd()}, 2);
    }
    EXPECT_LE(left.client.arenas_asked, 1) << "a refusal is not asked for again and again";
}

INSTANTIATE_TEST_SUITE_P(Levels, ShmRdma,
                         testing::Values(na::unreliable, na::reliable_delivery,
                                         na::reliable_reception),
                         level_name);
INSTANTIATE_TEST_SUITE_P(Levels, ShmRdmaRefused,
                         testing::Values(na::unreliable, na::reliable_delivery,
                                         na::reliable_reception),
                         level_name);

}  // namespace
