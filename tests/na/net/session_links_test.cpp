// SPDX-License-Identifier: BSD-3-Clause
// Links that are cut, lose their carrier, come back, flap or carry short packets only: a stream
// over a simulated network goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "na/net/session_parts.hpp"

namespace via::test {
namespace {

using links::LinkState;

/// Links of a millisecond: what a stream of some messages moves in a second stays small.
NetworkOptions slow_options_of(std::uint32_t links) {
    NetworkOptions options = options_of(links);
    options.faults.delay = millisecond;
    return options;
}

/// Messages without end from side 0 to side 1, checked.
class Stream {
  public:
    Stream(SimulatedNetwork& network, std::size_t bytes, std::uint64_t under_way)
        : network_(network),
          bytes_(bytes),
          under_way_(under_way),
          from_(bytes * under_way),
          to_(bytes * under_way),
          last_(network.now()) {
        for (std::uint64_t i = 0; i < under_way; ++i)
            post_receive();
    }
    /// For SimulatedNetwork::run().
    void step() {
        while (const auto entry = network_.side(0).completed(network_.side(0).queues.send)) {
            ASSERT_EQ(error_of(entry), 0U);
            ++sent_;
        }
        while (const auto entry = network_.side(1).completed(network_.side(1).queues.receive)) {
            ASSERT_EQ(error_of(entry), 0U);
            ASSERT_EQ(entry->length, bytes_);
            const std::size_t slot = received_ % under_way_;
            ASSERT_EQ(matching_bytes(to_.part(slot * bytes_, bytes_), received_), bytes_)
                << "message " << received_;
            longest_gap = std::max(longest_gap, network_.now() - last_);
            last_ = network_.now();
            ++received_;
            post_receive();
        }
        // What a receiver has not taken yet must stay as it is, so one less than there is room.
        bool any = false;
        while (!stopped && posted_ < sent_ + under_way_ && posted_ < received_ + under_way_) {
            const auto data = from_.part(posted_ % under_way_ * bytes_, bytes_);
            fill_pattern(data, posted_);
            network_.side(0).post_send(data, from_.handle, std::nullopt, posted_);
            ++posted_;
            any = true;
        }
        if (any) network_.poll(0);
    }
    bool run(Nanoseconds time) {
        return network_.run(time, [&] {
            step();
            return testing::Test::HasFatalFailure();
        });
    }
    /// Everything that was sent has come, once.
    [[nodiscard]] bool finish(Nanoseconds time) {
        stopped = true;
        return network_.run(time, [&] {
            step();
            return testing::Test::HasFatalFailure() || (sent_ == posted_ && received_ == posted_);
        });
    }
    [[nodiscard]] std::uint64_t received() const noexcept { return received_; }
    void measure_gaps() {
        longest_gap = 0;
        last_ = network_.now();
    }
    Nanoseconds longest_gap = 0;
    bool stopped = false;

  private:
    void post_receive() {
        network_.side(1).post_receive(to_.part(receives_ % under_way_ * bytes_, bytes_), to_.handle,
                                      receives_);
        ++receives_;
    }

    SimulatedNetwork& network_;
    std::size_t bytes_;
    std::uint64_t under_way_;
    Memory from_;
    Memory to_;
    std::uint64_t posted_ = 0;
    std::uint64_t sent_ = 0;
    std::uint64_t received_ = 0;
    std::uint64_t receives_ = 0;
    Nanoseconds last_;
};

/// The link that carries most of the stream at the moment.
std::size_t busiest_link(SimulatedNetwork& network, Stream& stream) {
    const links::Transport& transport = network.side(0).transport;
    std::vector<std::uint64_t> before;
    for (std::size_t i = 0; i < transport.links(); ++i)
        before.push_back(transport.link(i).counters().sent_bytes);
    stream.run(20 * millisecond);
    std::size_t busiest = 0;
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < transport.links(); ++i) {
        const std::uint64_t bytes = transport.link(i).counters().sent_bytes - before[i];
        if (bytes > most) {
            most = bytes;
            busiest = i;
        }
    }
    EXPECT_GT(most, 20'000U) << "no link carries the stream";
    return busiest;
}

void cut_both(SimulatedNetwork& network, std::size_t link, bool closed) {
    for (const std::size_t direction : {0U, 1U})
        network.cut(link, direction, closed);
}

TEST(SessionLinks, ACutLinksPiecesMoveToTheOtherAtOnce) {
    for (const auto policy : {links::PolicyKind::Static, links::PolicyKind::OneWay,
                              links::PolicyKind::Dynamic, links::PolicyKind::Adaptive})
        for (const bool one_direction : {false, true}) {
            SCOPED_TRACE(std::string(links::name_of(policy)) +
                         (one_direction ? ", one direction" : ""));
            NetworkOptions options = slow_options_of(2);
            options.policy = policy;
            SimulatedNetwork network(7, options);
            Stream stream(network, 20'000, 4);
            stream.run(50 * millisecond);
            const std::size_t link = busiest_link(network, stream);
            stream.measure_gaps();
            if (one_direction)
                network.cut(link, 0, true);
            else
                cut_both(network, link, true);
            stream.run(300 * millisecond);
            EXPECT_LT(stream.longest_gap, 50 * millisecond);
            EXPECT_NE(network.side(0).transport.link(link).state(), LinkState::Up);
            EXPECT_TRUE(stream.finish(1'000 * millisecond));
        }
}

TEST(SessionLinks, ALinkOfWhichOnlyTheAnswersAreCutIsNoticed) {
    SimulatedNetwork network(8, slow_options_of(2));
    Stream stream(network, 20'000, 4);
    stream.run(50 * millisecond);
    stream.measure_gaps();
    network.cut(0, 1, true);
    network.run(3'000 * millisecond, [&] {
        stream.step();
        return network.side(0).transport.link(0).state() != LinkState::Up;
    });
    EXPECT_NE(network.side(0).transport.link(0).state(), LinkState::Up);
    stream.run(200 * millisecond);
    EXPECT_LT(stream.longest_gap, 50 * millisecond);
    EXPECT_TRUE(stream.finish(1'000 * millisecond));
}

TEST(SessionLinks, ALinkThatIsOpenAgainIsTakenBack) {
    NetworkOptions options = slow_options_of(2);
    options.policy = links::PolicyKind::Dynamic;  // uses every link that is free
    SimulatedNetwork network(9, options);
    Stream stream(network, 20'000, 4);
    stream.run(50 * millisecond);
    cut_both(network, 0, true);
    const links::Link& link = network.side(0).transport.link(0);
    ASSERT_TRUE(network.run(3'000 * millisecond, [&] {
        stream.step();
        return link.state() == LinkState::Down;
    }));
    cut_both(network, 0, false);
    ASSERT_TRUE(network.run(2'000 * millisecond, [&] {
        stream.step();
        return link.state() == LinkState::Up;
    }));
    const std::uint64_t bytes = link.counters().sent_bytes;
    stream.run(100 * millisecond);
    EXPECT_GT(link.counters().sent_bytes, bytes + 100'000) << "it is up but carries nothing";
    EXPECT_TRUE(stream.finish(1'000 * millisecond));
}

bool is_ping(std::span<const std::byte> packet) {
    const bool has_frames =
        (wire::decode_packet_header(packet.data()).flags & wire::packet_continues) == 0;
    return has_frames &&
           static_cast<wire::FrameType>(packet[wire::PacketHeader::bytes]) == wire::FrameType::Ping;
}

/// Link 1 works, and only one side has taken it back after it was cut: pings of the other are lost,
/// as in a crowd.
void let_only_one_side_give_up_link_1(SimulatedNetwork& network, Stream& stream, std::size_t side) {
    const links::Link& given_up = network.side(side).transport.link(1);
    const links::Link& trusted = network.side(1 - side).transport.link(1);
    cut_both(network, 1, true);
    ASSERT_TRUE(network.run(10'000 * millisecond, [&] {
        stream.step();
        return given_up.state() == LinkState::Down && trusted.state() == LinkState::Down;
    }));
    network.swallows = [side](std::size_t from, std::size_t link,
                              std::span<const std::byte> packet) {
        return from == side && link == 1 && is_ping(packet);
    };
    cut_both(network, 1, false);
    ASSERT_TRUE(network.run(10'000 * millisecond, [&] {
        stream.step();
        return trusted.state() == LinkState::Up;
    }));
    ASSERT_EQ(given_up.state(), LinkState::Down);
}

TEST(SessionLinks, EndsThatTrustDifferentLinksAgreeOnTheOneThatWorks) {
    SimulatedNetwork network(18, slow_options_of(2));
    Stream stream(network, 20'000, 4);
    stream.run(50 * millisecond);
    ASSERT_NO_FATAL_FAILURE(let_only_one_side_give_up_link_1(network, stream, 0));
    // What the sender trusts is dead now, and what the receiver trusts is what it has given up.
    cut_both(network, 0, true);
    stream.measure_gaps();
    stream.run(2'000 * millisecond);
    EXPECT_EQ(network.side(0).transport.link(1).state(), LinkState::Up);
    // The receiver says nothing on its own before it asks whether the other is alive.
    EXPECT_LT(stream.longest_gap, 1'000 * millisecond);
    EXPECT_TRUE(stream.finish(1'000 * millisecond));
}

TEST(SessionLinks, WhoOnlyAnswersDoesSoByTheLinkThatWorks) {
    SimulatedNetwork network(21, slow_options_of(2));
    Stream stream(network, 20'000, 4);
    stream.run(50 * millisecond);
    ASSERT_NO_FATAL_FAILURE(let_only_one_side_give_up_link_1(network, stream, 1));
    // The receiver sends nothing that would show it that the link it trusts is dead.
    cut_both(network, 0, true);
    stream.measure_gaps();
    stream.run(2'000 * millisecond);
    EXPECT_LT(stream.longest_gap, 100 * millisecond);
    EXPECT_EQ(network.side(1).transport.link(1).state(), LinkState::Up);
    EXPECT_NE(network.side(1).transport.link(0).state(), LinkState::Up);
    EXPECT_TRUE(stream.finish(1'000 * millisecond));
}

TEST(SessionLinks, WhenTheLastFallsThoseGivenUpAreAskedAtOnce) {
    // One is asked only twice a second after so long, and the other may fall at any time between.
    constexpr int step = sanitized ? 5 : 1;
    for (int phase = 0; phase < 20; phase += step) {
        const bool silent = phase % 2 == 0;
        SimulatedNetwork network(22, slow_options_of(2));
        Stream stream(network, 20'000, 4);
        stream.run(50 * millisecond);
        cut_both(network, 1, true);
        stream.run((4'000 + 25 * phase) * millisecond);
        ASSERT_EQ(network.side(0).transport.link(1).state(), LinkState::Down);
        cut_both(network, 1, false);
        if (silent)
            cut_both(network, 0, true);
        else
            network.unplug(0, true);
        stream.measure_gaps();
        stream.run(1'000 * millisecond);
        EXPECT_LT(stream.longest_gap, 25 * millisecond) << "phase " << phase;
        EXPECT_TRUE(stream.finish(1'000 * millisecond));
    }
}

TEST(SessionLinks, ALinkWithoutCarrierIsNotTrustedThoughNoOtherIs) {
    for (const std::size_t side : {0U, 1U}) {
        SCOPED_TRACE(side == 0 ? "the sender has given the other up" : "the receiver has");
        SimulatedNetwork network(19, slow_options_of(2));
        Stream stream(network, 20'000, 4);
        stream.run(50 * millisecond);
        ASSERT_NO_FATAL_FAILURE(let_only_one_side_give_up_link_1(network, stream, side));
        network.unplug(0, true);
        stream.measure_gaps();
        stream.run(2'000 * millisecond);
        EXPECT_NE(network.side(side).transport.link(0).state(), LinkState::Up);
        EXPECT_LT(stream.longest_gap, 200 * millisecond);
        EXPECT_TRUE(stream.finish(1'000 * millisecond));
    }
}

TEST(SessionLinks, TheFirstThatAnswersIsTakenBackWhileNoneIsUp) {
    SimulatedNetwork network(20, slow_options_of(2));
    Stream stream(network, 20'000, 4);
    stream.run(50 * millisecond);
    const links::Transport& transport = network.side(0).transport;
    for (int flap = 0; flap < 5; ++flap) {  // a link that comes and goes has to answer many times
        cut_both(network, 0, true);
        ASSERT_TRUE(network.run(10'000 * millisecond, [&] {
            stream.step();
            return transport.link(0).state() != LinkState::Up;
        }));
        cut_both(network, 0, false);
        ASSERT_TRUE(network.run(10'000 * millisecond, [&] {
            stream.step();
            return transport.link(0).state() == LinkState::Up;
        }));
    }
    // Without anything to send, only pings can show that a link works.
    ASSERT_TRUE(stream.finish(1'000 * millisecond));
    const auto becomes = [&](std::size_t link, LinkState state) {
        return network.run(1'900 * millisecond,
                           [&] { return transport.link(link).state() == state; });
    };
    cut_both(network, 0, true);
    ASSERT_TRUE(becomes(0, LinkState::Down));
    network.unplug(1, true);
    ASSERT_TRUE(becomes(1, LinkState::Down));
    ASSERT_GT(transport.link(0).answers_needed(), 8U);
    int pings = 0;
    network.on_packet = [&](std::size_t from, std::size_t link, std::span<const std::byte> packet) {
        if (from == 0 && link == 0 && is_ping(packet)) ++pings;
    };
    cut_both(network, 0, false);
    ASSERT_TRUE(becomes(0, LinkState::Up));
    EXPECT_EQ(pings, 1);
    stream.stopped = false;
    stream.run(50 * millisecond);
    EXPECT_TRUE(stream.finish(1'000 * millisecond));
}

/// Its answers are missing on all links alike, and when it wakes up they come on one before the
/// other.
TEST(SessionLinks, APeerThatStandsStillCostsNoLink) {
    for (const bool streaming : {true, false}) {
        SCOPED_TRACE(streaming);
        SimulatedNetwork network(21, options_of(2));
        Stream stream(network, 200, 1);
        stream.run(50 * millisecond);
        ASSERT_TRUE(streaming || stream.finish(1'000 * millisecond));
        const auto changes = [&] {
            return network.side(0).link_changes + network.side(1).link_changes;
        };
        const std::uint32_t before = changes();
        for (Nanoseconds time = 1; time < 150; ++time) {
            const auto side = static_cast<std::size_t>(time % 2);
            network.freeze(side, network.now() + time * millisecond);
            stream.run((time + 30) * millisecond);
            ASSERT_EQ(changes(), before) << "after " << time << " ms of side " << side;
        }
        // With both asleep in turn, each of them longer than a link is given.
        for (int i = 0; i < 20; ++i) {
            for (const std::size_t side : {0U, 1U})
                network.freeze(side, network.now() + (20 + 7 * i) * millisecond);
            stream.run((7 + 5 * i) * millisecond);
            ASSERT_EQ(changes(), before) << "round " << i;
        }
        EXPECT_TRUE(stream.finish(1'000 * millisecond));
    }
}

/// Time in which this process stood still does not count against the peer, but is no word from it.
TEST(SessionLinks, AProcessThatStoodStillHasHeardNothing) {
    SimulatedNetwork network(22, options_of(2));
    Stream stream(network, 200, 1);
    stream.run(50 * millisecond);
    const links::Transport& transport = network.side(0).transport;
    cut_both(network, 0, true);
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] {
        stream.step();
        return transport.link(0).state() != LinkState::Up;
    }));
    cut_both(network, 1, true);
    stream.run(100 * millisecond);
    network.jump_clock(0, 1'500 * millisecond);
    stream.run(100 * millisecond);
    EXPECT_NE(transport.link(0).state(), LinkState::Up);
    EXPECT_EQ(transport.link(1).state(), LinkState::Up);
    EXPECT_FALSE(transport.lost());
}

TEST(SessionLinks, AFlappingLinkIsDamped) {
    SimulatedNetwork network(10, slow_options_of(2));
    Stream stream(network, 20'000, 4);
    stream.run(50 * millisecond);
    const links::Link& link = network.side(0).transport.link(0);
    std::vector<Nanoseconds> away;
    for (int flap = 0; flap < 4; ++flap) {
        cut_both(network, 0, true);
        ASSERT_TRUE(network.run(3'000 * millisecond, [&] {
            stream.step();
            return link.state() != LinkState::Up;
        }));
        cut_both(network, 0, false);
        const Nanoseconds opened = network.now();
        ASSERT_TRUE(network.run(5'000 * millisecond, [&] {
            stream.step();
            return link.state() == LinkState::Up;
        }));
        away.push_back(network.now() - opened);
    }
    EXPECT_GT(away[1], away[0]);
    EXPECT_GT(away[2], away[1]);
    EXPECT_GT(away[3], 2 * away[0]);
    EXPECT_TRUE(stream.finish(1'000 * millisecond));
}

TEST(SessionLinks, MessagesWhoseAcknowledgementsAreLostComeOnce) {
    for (const std::uint32_t count : {1U, 2U}) {
        SCOPED_TRACE(std::to_string(count) + " links");
        SimulatedNetwork network(11, slow_options_of(count));
        Stream stream(network, 3'000, 16);
        stream.run(20 * millisecond);
        for (int i = 0; i < 5; ++i) {
            for (std::size_t link = 0; link < count; ++link)
                network.cut(link, 1, true);
            stream.run(60 * millisecond);
            for (std::size_t link = 0; link < count; ++link)
                network.cut(link, 1, false);
            stream.run(60 * millisecond);
        }
        EXPECT_GT(network.side(1).transport.link(0).counters().received_packets, 0U);
        // A message that came twice would be seen as one that is not the next.
        EXPECT_TRUE(stream.finish(2'000 * millisecond));
        EXPECT_GT(stream.received(), 30U);
    }
}

TEST(SessionLinks, ShortMessagesTakeTheFasterLinkAndChangeWhenAnotherIs) {
    SimulatedNetwork network(31, options_of(2));
    network.faults(0).delay = 200 * microsecond;
    Stream stream(network, 500, 1);
    stream.run(500 * millisecond);
    EXPECT_EQ(busiest_link(network, stream), 1U);
    network.faults(1).delay = 2 * millisecond;
    stream.run(500 * millisecond);
    EXPECT_EQ(busiest_link(network, stream), 0U);
    EXPECT_TRUE(stream.finish(1'000 * millisecond));
}

TEST(SessionLinks, ShortMessagesFollowANewPolicyAtOnce) {
    std::vector<std::size_t> bound;  // by the static policy, whatever was faster before
    for (const std::size_t slow : {0U, 1U}) {
        SimulatedNetwork network(32, options_of(2));
        network.faults(slow).delay = 2 * millisecond;
        Stream stream(network, 100, 1);
        stream.run(500 * millisecond);
        ASSERT_TRUE(stream.finish(100 * millisecond));
        Memory from(100);
        Memory to(100);
        Side& side = network.side(0);
        const auto send_one = [&] {
            network.side(1).post_receive(to.part(0, 100), to.handle, 0);
            const std::uint64_t before = side.transport.link(0).counters().sent_packets;
            side.post_send(from.part(0, 100), from.handle, std::nullopt, 0);
            network.poll(0);
            return side.transport.link(0).counters().sent_packets == before ? 1U : 0U;
        };
        EXPECT_EQ(send_one(), 1 - slow);
        side.transport.set_policy(links::PolicyKind::Static);
        bound.push_back(send_one());
    }
    EXPECT_EQ(bound[0], bound[1]);
}

TEST(SessionLinks, APathForShortPacketsOnlyWorksFromTheStart) {
    for (const bool sealed : {false, true}) {
        NetworkOptions options = slow_options_of(1);
        options.faults.longest_packet = 1280;
        options.sealed = sealed;
        SimulatedNetwork network(12, options);
        Stream stream(network, 20'000, 4);
        stream.run(500 * millisecond);
        EXPECT_TRUE(stream.finish(2'000 * millisecond));
        EXPECT_GT(stream.received(), 30U);
        EXPECT_LE(network.side(0).transport.link(0).limits().packet_bytes, 1280U);
    }
}

TEST(SessionLinks, APathForShortPacketsOnlyBesideAnother) {
    SimulatedNetwork network(13, slow_options_of(2));
    network.faults(0).longest_packet = 1280;
    Stream stream(network, 20'000, 4);
    stream.run(500 * millisecond);
    EXPECT_TRUE(stream.finish(2'000 * millisecond));
    EXPECT_EQ(network.side(0).transport.link(0).state(), LinkState::Up);
    EXPECT_LE(network.side(0).transport.link(0).limits().packet_bytes, 1280U);
    EXPECT_EQ(network.side(0).transport.link(1).limits().packet_bytes, 1400U);
}

TEST(SessionLinks, APathThatBecomesShorterIsNoticed) {
    for (const std::uint32_t count : {1U, 2U}) {
        SCOPED_TRACE(std::to_string(count) + " links");
        SimulatedNetwork network(14, slow_options_of(count));
        Stream stream(network, 20'000, 4);
        stream.run(100 * millisecond);
        for (std::size_t link = 0; link < count; ++link)
            network.faults(link).longest_packet = 1280;
        const auto& limits = network.side(0).transport.link(0).limits();
        for (int i = 0; i < 40 && limits.packet_bytes > 1280; ++i)
            stream.run(50 * millisecond);
        EXPECT_LE(limits.packet_bytes, 1280U);
        const std::uint64_t received = stream.received();
        stream.run(500 * millisecond);
        EXPECT_GT(stream.received(), received);
        // And so is one that becomes longer again.
        for (std::size_t link = 0; link < count; ++link)
            network.faults(link).longest_packet = 0;
        for (int i = 0; i < 100 && limits.packet_bytes != 1400; ++i)
            stream.run(100 * millisecond);
        EXPECT_EQ(limits.packet_bytes, 1400U);
        EXPECT_TRUE(stream.finish(2'000 * millisecond));
    }
}

}  // namespace
}  // namespace via::test
