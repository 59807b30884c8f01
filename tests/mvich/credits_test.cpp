// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/credits.hpp"

#include <gtest/gtest.h>

#include <array>
#include <deque>

#include "na/seeded.hpp"

using via::mvich::CreditAccount;
using via::test::Random;
using via::test::repeated;

namespace {

enum class Kind { Data, Control, Noop };

struct SentPacket {
    Kind kind;
    std::uint32_t credits;
};

/// One end of a connection, and what is under way to it.
struct End {
    CreditAccount account;
    std::deque<SentPacket> coming;
    std::uint32_t data_left = 0;     // to be sent
    std::uint32_t control_left = 0;  // to be sent
    std::uint32_t held = 0;          // vbufs of messages that wait for a receive

    [[nodiscard]] std::uint32_t noops_coming() const {
        return static_cast<std::uint32_t>(
            std::count_if(coming.begin(), coming.end(),
                          [](const SentPacket& each) { return each.kind == Kind::Noop; }));
    }
};

/// A connection without loss, whose ends do what they may in any order.
class Connection {
  public:
    Connection(std::uint64_t seed, std::array<std::uint32_t, 2> windows, std::uint32_t preserve,
               std::uint32_t messages)
        : random_(seed) {
        const bool ride = !random_.one_in(4);
        for (std::size_t i = 0; i < 2; ++i) {
            ends_[i].account = CreditAccount(windows[1 - i], windows[i], preserve, preserve, ride);
            ends_[i].data_left = random_.one_in(5) ? 0 : messages;
            ends_[i].control_left = random_.below(messages + 1);
        }
        send_often_ = random_.between(1, 20);
        deliver_often_ = random_.between(1, 20);
        release_often_ = random_.between(1, 20);
        noop_often_ = random_.between(1, 20);
    }

    /// Until all is sent and no vbuf is held.
    void run() {
        // Every step that does something sends, delivers or releases one of a bounded number.
        std::uint32_t idle = 0;
        for (std::uint32_t step = 0; !done(); ++step) {
            ASSERT_LT(step, 1'000'000U);
            idle = one_step() ? 0 : idle + 1;
            check();
            if (testing::Test::HasFatalFailure()) return;
            if (idle < 200) continue;
            ASSERT_TRUE(any_step()) << "nothing can happen any more: " << state();
            idle = 0;
        }
        EXPECT_LE(noops_sent_, packets_sent_);
    }

  private:
    [[nodiscard]] std::string state() const {
        std::string text;
        for (const End& end : ends_)
            text += "remote " + std::to_string(end.account.remote()) + " in use " +
                    std::to_string(end.account.in_use()) + " owed " +
                    std::to_string(end.account.owed()) + " window " +
                    std::to_string(end.account.window()) + " data " +
                    std::to_string(end.data_left) + " control " + std::to_string(end.control_left) +
                    "; ";
        return text;
    }
    [[nodiscard]] bool done() const {
        for (const End& end : ends_)
            if (end.data_left != 0 || end.control_left != 0 || !end.coming.empty()) return false;
        return true;
    }
    bool one_step() {
        const std::size_t which = random_.below(2);
        const std::uint32_t choice =
            random_.below(2 * send_often_ + deliver_often_ + release_often_ + noop_often_ + 1);
        if (choice < send_often_) return send(which, Kind::Data);
        if (choice < 2 * send_often_) return send(which, Kind::Control);
        if (choice < 2 * send_often_ + deliver_often_) return deliver(which);
        if (choice < 2 * send_often_ + deliver_often_ + release_often_) return release(which);
        if (choice < 2 * send_often_ + deliver_often_ + release_often_ + noop_often_)
            return noop(which);
        // Mostly by as much again as there is.
        if (widened_ < 4) {
            ++widened_;
            CreditAccount& account = ends_[which].account;
            account.widen(random_.one_in(3) ? 1 : account.window());
            return true;
        }
        return false;
    }
    bool any_step() {
        for (std::size_t which = 0; which < 2; ++which)
            if (send(which, Kind::Data) || send(which, Kind::Control) || deliver(which) ||
                release(which) || noop(which))
                return true;
        return false;
    }
    bool send(std::size_t which, Kind kind) {
        End& end = ends_[which];
        std::uint32_t& left = kind == Kind::Data ? end.data_left : end.control_left;
        if (left == 0) return false;
        if (!(kind == Kind::Data ? end.account.may_send_data() : end.account.may_send_control()))
            return false;
        --left;
        end.account.sent();
        ends_[1 - which].coming.push_back({kind, end.account.take_riding()});
        ++packets_sent_;
        return true;
    }
    bool noop(std::size_t which) {
        End& end = ends_[which];
        if (!end.account.noop_due()) return false;
        const std::uint32_t credits = end.account.take_owed();
        EXPECT_NE(credits, 0U);
        ends_[1 - which].coming.push_back({Kind::Noop, credits});
        ++noops_sent_;
        return true;
    }
    bool deliver(std::size_t which) {
        End& end = ends_[which];
        if (end.coming.empty()) return false;
        const SentPacket packet = end.coming.front();
        end.coming.pop_front();
        end.account.granted(packet.credits);
        if (packet.kind == Kind::Noop) return true;
        end.account.arrived();
        if (packet.kind == Kind::Control || random_.one_in(2))
            end.account.released();
        else
            ++end.held;
        return true;
    }
    bool release(std::size_t which) {
        End& end = ends_[which];
        if (end.held == 0) return false;
        --end.held;
        end.account.released();
        return true;
    }
    void check() const {
        for (std::size_t i = 0; i < 2; ++i) {
            const End& end = ends_[i];
            const auto coming = static_cast<std::uint32_t>(end.coming.size());
            const std::uint32_t noops = end.noops_coming();
            ASSERT_FALSE(end.account.overdrawn()) << state();
            ASSERT_EQ(end.account.in_use(), end.held);
            ASSERT_LE(coming - noops + end.account.in_use(), end.account.window()) << state();
            ASSERT_LE(noops, end.account.noop_vbufs()) << state();
            // No credit is lost or made: all are with the peer, under way, in use or owed.
            std::uint32_t told = 0;
            for (const SentPacket& packet : ends_[1 - i].coming)
                told += packet.credits;
            ASSERT_EQ(ends_[1 - i].account.remote() + told + (coming - noops),
                      end.account.peer_has())
                << state();
        }
    }

    Random random_;
    std::array<End, 2> ends_;
    std::uint32_t send_often_;
    std::uint32_t deliver_often_;
    std::uint32_t release_often_;
    std::uint32_t noop_often_;
    std::uint32_t widened_ = 0;
    std::uint32_t packets_sent_ = 0;
    std::uint32_t noops_sent_ = 0;
};

}  // namespace

TEST(Credits, NeverMorePacketsThanVbufsAndNoDeadlock) {
    const std::uint32_t seeds = repeated(30);
    for (const std::uint32_t first : {1U, 2U, 3U, 4U, 7U, 8U, 32U})
        for (const std::uint32_t second : {1U, 2U, 5U, 8U, 32U})
            for (std::uint32_t preserve = 0; preserve <= 4; ++preserve)
                for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
                    SCOPED_TRACE(testing::Message()
                                 << "windows " << first << " and " << second << ", preserve "
                                 << preserve << ", seed " << seed);
                    Connection(seed, {first, second}, preserve, 60).run();
                    if (testing::Test::HasFailure()) return;
                }
}

TEST(Credits, WithoutPiggybackingOnlyNoopsBringThem) {
    CreditAccount account(8, 8, 1, 1, false);
    for (int i = 0; i < 3; ++i)
        account.passed();
    EXPECT_EQ(account.take_riding(), 0U);
    EXPECT_EQ(account.owed(), 3U);
    EXPECT_EQ(account.take_owed(), 3U);
}

TEST(Credits, TheLastAreForControlPackets) {
    CreditAccount account(3, 3, 1);
    EXPECT_TRUE(account.may_send_data());
    account.sent();
    account.sent();
    EXPECT_FALSE(account.may_send_data());
    EXPECT_TRUE(account.may_send_control());
    account.sent();
    EXPECT_FALSE(account.may_send_control());
    account.granted(2);
    EXPECT_TRUE(account.may_send_data());
}

TEST(Credits, AWindowOfOneIsForDataToo) {
    CreditAccount account(1, 1, 1);
    EXPECT_TRUE(account.may_send_data());
    account.sent();
    EXPECT_FALSE(account.may_send_control());
}

TEST(Credits, ANoopIsDueAtHalfOfTheWindowOrWhenThePeerMayStop) {
    CreditAccount account(8, 8, 1);
    for (int i = 0; i < 3; ++i) {
        account.arrived();
        account.released();
        EXPECT_FALSE(account.noop_due());
    }
    account.arrived();
    account.released();
    EXPECT_TRUE(account.noop_due());
    EXPECT_EQ(account.take_owed(), 4U);
    EXPECT_FALSE(account.noop_due());
    for (int i = 0; i < 6; ++i)
        account.arrived();
    EXPECT_FALSE(account.noop_due());  // nothing is owed
    account.released();
    EXPECT_FALSE(account.noop_due());  // the peer has two
    account.arrived();
    EXPECT_TRUE(account.noop_due());
}

TEST(Credits, ThePeerStarvesWhenTheWindowIsHeld) {
    CreditAccount account(4, 4, 1);
    for (int i = 0; i < 2; ++i)
        account.arrived();
    EXPECT_FALSE(account.peer_starves());
    account.arrived();
    EXPECT_TRUE(account.peer_starves());
    account.released();
    EXPECT_FALSE(account.peer_starves());
}

TEST(Credits, APeerThatSendsMoreThanItMayIsSeen) {
    CreditAccount account(2, 2, 0);
    account.arrived();
    account.arrived();
    EXPECT_FALSE(account.overdrawn());
    account.arrived();
    EXPECT_TRUE(account.overdrawn());
}

TEST(Credits, OnePacketBringsWhatItsHeadCanSay) {
    CreditAccount account(1, 0, 0);
    account.widen(100'000);
    EXPECT_EQ(account.take_owed(), 0xFFFFU);
    EXPECT_EQ(account.take_owed(), 100'000U - 0xFFFFU);
    EXPECT_EQ(account.take_owed(), 0U);
}
