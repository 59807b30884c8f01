// SPDX-License-Identifier: BSD-3-Clause
// What is done to a link is really done to the packets on it.
#include <errno.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <set>

#include "lab/lab.hpp"
#include "lab/test_sockets.hpp"

namespace via::lab {
namespace {

using test::HostSocket;

constexpr std::uint64_t marker = 1'000'000;

class LinkTest : public ::testing::Test {
  protected:
    void SetUp() override {
        if (const auto possible = Lab::possible(); !possible)
            GTEST_SKIP() << possible.error().sentence;
        auto lab = Lab::up({.name = {}, .links = 1});
        ASSERT_TRUE(lab) << lab.error().sentence;
        lab_ = std::make_unique<Lab>(std::move(lab).value());
        a_ = std::make_unique<HostSocket>(*lab_, "a", 0);
        b_ = std::make_unique<HostSocket>(*lab_, "b", 0);
        a_->connect_to(*b_);
        b_->connect_to(*a_);
        ASSERT_EQ(a_->send(0), 0);  // they know each other's hardware address from here on
        ASSERT_TRUE(b_->receive(test::patience()));
    }

    [[nodiscard]] LabLink link() const { return lab_->link(0); }

    /// `count` from a to b, one by one; then a marker over the mended link. What came before it.
    std::vector<HostSocket::Datagram> send_and_mend(std::uint64_t count) {
        for (std::uint64_t number = 1; number <= count; ++number)
            EXPECT_EQ(a_->send(number), 0);
        const auto mended = link().change([](LinkState& state) { state = LinkState(); });
        EXPECT_TRUE(mended) << mended.error().sentence;
        EXPECT_EQ(a_->send(marker), 0);
        auto all = b_->receive_until(marker);
        EXPECT_FALSE(all.empty());
        if (!all.empty()) {
            EXPECT_EQ(all.back().number, marker);
            all.pop_back();
        }
        return all;
    }
    [[nodiscard]] bool passes(HostSocket& from, HostSocket& to, bool expected) const {
        static_cast<void>(from.send(++probe_));
        const base::Deadline deadline = expected ? test::patience() : test::a_moment();
        while (const auto datagram = to.receive(deadline))
            if (datagram->number == probe_) return true;
        return false;
    }

    std::unique_ptr<Lab> lab_;
    std::unique_ptr<HostSocket> a_;
    std::unique_ptr<HostSocket> b_;
    mutable std::uint64_t probe_ = 2'000'000;
};

std::set<std::uint64_t> numbers(const std::vector<HostSocket::Datagram>& datagrams) {
    std::set<std::uint64_t> result;
    for (const auto& datagram : datagrams)
        result.insert(datagram.number);
    return result;
}

TEST_F(LinkTest, LossDropsAboutAsManyAsAskedFor) {
    const auto set = link().loss(all_parts / 2, "a");
    ASSERT_TRUE(set) << set.error().sentence;
    const auto got = send_and_mend(2000);
    // A coin would have to be thrown for ages to leave these bounds.
    EXPECT_GT(got.size(), 700u);
    EXPECT_LT(got.size(), 1300u);
    EXPECT_EQ(numbers(got).size(), got.size());
}

TEST_F(LinkTest, LossHasADirection) {
    ASSERT_TRUE(link().loss(all_parts, "a"));
    EXPECT_FALSE(passes(*a_, *b_, false));
    EXPECT_TRUE(passes(*b_, *a_, true));
    const auto ends = link().ends();
    ASSERT_TRUE(ends);
    EXPECT_EQ(ends.value()[0].sends.loss, all_parts);
    EXPECT_EQ(ends.value()[1].sends.loss, 0u);
}

TEST_F(LinkTest, DuplicateDoubles) {
    const auto set = link().duplicate(all_parts, "a");
    ASSERT_TRUE(set) << set.error().sentence;
    const auto got = send_and_mend(500);
    EXPECT_EQ(got.size(), 1000u);
    EXPECT_EQ(numbers(got).size(), 500u);
}

TEST_F(LinkTest, OffloadOffLetsChanceMeetEachPacketOfATrain) {
    constexpr std::uint64_t trains = 100;
    constexpr std::uint64_t length = 10;
    ASSERT_TRUE(link().offload(false));
    ASSERT_TRUE(link().loss(all_parts / 2, "a"));
    for (std::uint64_t train = 0; train < trains; ++train)
        ASSERT_EQ(a_->send_train(train * length, length, 1000), 0);
    const auto got = numbers(send_and_mend(0));
    std::uint64_t torn = 0;
    for (std::uint64_t train = 0; train < trains; ++train) {
        std::uint64_t arrived = 0;
        for (std::uint64_t i = 0; i < length; ++i)
            arrived += got.count(train * length + i);
        torn += arrived > 0 && arrived < length;
    }
    EXPECT_GT(torn, trains / 2);
}

TEST_F(LinkTest, ACutLinkCarriesNothingAndComesBack) {
    ASSERT_TRUE(link().down());
    EXPECT_EQ(a_->send(5), ENETUNREACH);
    EXPECT_FALSE(b_->receive(test::a_moment()));
    EXPECT_FALSE(link().end(0).value().up);
    ASSERT_TRUE(link().up());
    EXPECT_TRUE(passes(*a_, *b_, true));
    EXPECT_TRUE(passes(*b_, *a_, true));
}

TEST_F(LinkTest, OneSideCanBeSwitchedOffAlone) {
    ASSERT_TRUE(link().down("b"));
    const auto ends = link().ends();
    ASSERT_TRUE(ends);
    EXPECT_TRUE(ends.value()[0].up);
    EXPECT_FALSE(ends.value()[0].carrier);
    EXPECT_FALSE(ends.value()[1].up);
    EXPECT_FALSE(passes(*a_, *b_, false));
    ASSERT_TRUE(link().up("b"));
    EXPECT_TRUE(passes(*a_, *b_, true));
}

TEST_F(LinkTest, SilenceHasNoSignAndADirection) {
    ASSERT_TRUE(link().silent(true, "b"));
    EXPECT_TRUE(passes(*a_, *b_, true));
    EXPECT_EQ(b_->send(5), 0) << "the sender must not be told";
    EXPECT_FALSE(passes(*b_, *a_, false));
    EXPECT_TRUE(link().end(1).value().carrier);
    ASSERT_TRUE(link().silent(true));
    EXPECT_FALSE(passes(*a_, *b_, false));
    ASSERT_TRUE(link().silent(false));
    EXPECT_TRUE(passes(*a_, *b_, true));
    EXPECT_TRUE(passes(*b_, *a_, true));
}

TEST_F(LinkTest, RateLimitsHowMuchGoesThrough) {
    constexpr std::uint64_t bits = 8'000'000;
    constexpr std::size_t bytes = 1000;
    const auto set = link().rate(bits, "a");
    ASSERT_TRUE(set) << set.error().sentence;
    const base::Nanoseconds start = base::machine_now();
    std::uint64_t arrived = 0;
    while (base::machine_now() - start < 300'000'000) {
        static_cast<void>(a_->send(7, bytes));  // EAGAIN: the queue is full, as it should be
        while (b_->receive(base::Deadline::after(0)))
            arrived += bytes;
    }
    const double seconds = static_cast<double>(base::machine_now() - start) / 1e9;
    // The bucket (128 KB) and what the rate lets through, with air. Without a limit it is ten times
    // as much on any machine.
    EXPECT_LT(static_cast<double>(arrived), 131'072 + 1.5 * seconds * bits / 8);
    EXPECT_GT(arrived, 50'000u);
    ASSERT_TRUE(link().rate(0, "a"));
    EXPECT_TRUE(passes(*a_, *b_, true));
}

TEST_F(LinkTest, CorruptionReachesTheReceiver) {
    const auto set = link().corrupt(all_parts, "a");
    ASSERT_TRUE(set) << set.error().sentence;
    constexpr std::uint64_t count = 100;
    for (std::uint64_t number = 0; number < count; ++number)
        ASSERT_EQ(a_->send(number), 0);
    // None is lost: the checksum fits again.
    std::uint64_t damaged = 0;
    for (std::uint64_t number = 0; number < count; ++number) {
        const auto got = b_->receive(test::patience());
        ASSERT_TRUE(got) << "after " << number;
        EXPECT_EQ(got->bytes, 100u);
        // A damaged number makes the rest look wrong too.
        damaged += !got->intact || got->number != number;
    }
    EXPECT_EQ(damaged, count);
    EXPECT_TRUE(passes(*b_, *a_, true)) << "the other direction is good";
    ASSERT_TRUE(link().corrupt(0, "a"));
    EXPECT_TRUE(passes(*a_, *b_, true));
}

TEST_F(LinkTest, ASmallShareOfCorruptionIsASmallShare) {
    ASSERT_TRUE(link().corrupt(all_parts / 10, "a"));
    constexpr std::uint64_t count = 2000;
    for (std::uint64_t number = 0; number < count; ++number)
        ASSERT_EQ(a_->send(number), 0);
    std::uint64_t damaged = 0;
    for (std::uint64_t number = 0; number < count; ++number) {
        const auto got = b_->receive(test::patience());
        ASSERT_TRUE(got) << "after " << number;
        damaged += !got->intact;
    }
    EXPECT_GT(damaged, 80u);
    EXPECT_LT(damaged, 400u);
}

TEST_F(LinkTest, ReorderLetsOthersOvertake) {
    const auto set = link().reorder(all_parts / 10, "a");
    ASSERT_TRUE(set) << set.error().sentence;
    constexpr std::uint64_t count = 2000;
    for (std::uint64_t number = 0; number < count; ++number)
        ASSERT_EQ(a_->send(number), 0);
    std::uint64_t late = 0;
    std::uint64_t highest = 0;
    for (std::uint64_t number = 0; number < count; ++number) {
        const auto got = b_->receive(test::patience());
        ASSERT_TRUE(got) << "after " << number;
        EXPECT_TRUE(got->intact);
        late += got->number < highest;
        highest = std::max(highest, got->number);
    }
    EXPECT_GT(late, 0u);
    EXPECT_LT(late, 400u);
}

TEST_F(LinkTest, DelayHoldsEveryPacketAndKeepsTheirOrder) {
    constexpr base::Nanoseconds delay = 20'000'000;
    const auto set = link().delay(delay, "a");
    ASSERT_TRUE(set) << set.error().sentence;
    const base::Nanoseconds start = base::machine_now();
    for (std::uint64_t number = 0; number < 50; ++number)
        ASSERT_EQ(a_->send(number), 0);
    for (std::uint64_t number = 0; number < 50; ++number) {
        const auto got = b_->receive(test::patience());
        ASSERT_TRUE(got);
        EXPECT_EQ(got->number, number);
        EXPECT_TRUE(got->intact);
    }
    EXPECT_GE(base::machine_now() - start, delay);
    ASSERT_TRUE(link().delay(0, "a"));
    EXPECT_TRUE(passes(*a_, *b_, true));
    EXPECT_TRUE(processes_in(lab_->space("a").value()).empty()) << "the relay has gone";
}

TEST_F(LinkTest, ADelayedLinkCanBeLimitedLostAndSilencedToo) {
    ASSERT_TRUE(link().change([](LinkState& state) {
        state.delay = 1'000'000;
        state.rate = 100'000'000;
        state.duplicate = all_parts;
    }));
    ASSERT_EQ(a_->send(1), 0);
    ASSERT_TRUE(b_->receive(test::patience()));
    ASSERT_TRUE(b_->receive(test::patience())) << "the double";
    ASSERT_TRUE(link().silent(true));
    EXPECT_FALSE(passes(*a_, *b_, false));
    ASSERT_TRUE(link().silent(false));
    EXPECT_TRUE(passes(*b_, *a_, true));
}

TEST_F(LinkTest, MtuBindsBothEndsAndTheRelay) {
    const int no_fragments = IP_PMTUDISC_DO;
    setsockopt(a_->fd(), IPPROTO_IP, IP_MTU_DISCOVER, &no_fragments, sizeof no_fragments);
    EXPECT_EQ(a_->send(1, 4000), EMSGSIZE);
    ASSERT_TRUE(link().delay(100'000));
    ASSERT_TRUE(link().mtu(9000));
    EXPECT_EQ(link().end(1).value().mtu, 9000u);
    EXPECT_EQ(a_->send(2, 4000), 0);
    const auto got = b_->receive(test::patience());
    ASSERT_TRUE(got);
    EXPECT_EQ(got->bytes, 4000u);
    EXPECT_TRUE(got->intact);
    EXPECT_FALSE(link().mtu(1000));
    EXPECT_FALSE(link().mtu(70'000));
}

TEST_F(LinkTest, WhatCannotBeIsRefused) {
    const auto both = link().change([](LinkState& state) {
        state.corrupt = all_parts;
        state.reorder = all_parts;
    });
    ASSERT_FALSE(both);
    EXPECT_EQ(both.error().code, base::Code::InvalidArgument);
    const auto nobody = link().loss(1, "c");
    ASSERT_FALSE(nobody);
    EXPECT_NE(nobody.error().sentence.find("no host 'c'"), std::string::npos);
    EXPECT_FALSE(lab_->find_link(1));
    EXPECT_TRUE(lab_->find_link(0));
}

}  // namespace
}  // namespace via::lab
