// SPDX-License-Identifier: BSD-3-Clause
// The protocol under everything a network can do, one run per seed. A failure prints its seed;
// VIA_TEST_SEED=n repeats exactly that run, VIA_TEST_SEEDS=n makes so many instead of 2000 (and of
// the tests that have fewer their share), beginning with VIA_TEST_FIRST_SEED.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <map>
#include <set>
#include <utility>

#include "base/aligned_bytes.hpp"
#include "na/net/simulated_network.hpp"

namespace via::test {
namespace {

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Calls `run(seed)` for each seed, until one fails.
template <class Run>
void each_seed(std::uint64_t seeds, Run run) {
    if (std::getenv("VIA_TEST_SEED") != nullptr) {
        run(number_from("VIA_TEST_SEED", 0));
        return;
    }
    const std::uint64_t whole = number_from("VIA_TEST_SEEDS", repeated(2000));
    seeds = std::max<std::uint64_t>(1, whole * seeds / 2000);
    const std::uint64_t first = number_from("VIA_TEST_FIRST_SEED", 1);
    std::uint64_t done = 0;
    for (; done < seeds && !testing::Test::HasFailure(); ++done)
        run(first + done);
    std::cout << testing::UnitTest::GetInstance()->current_test_info()->name() << ": " << done
              << " seeds from " << first << "\n";
}

constexpr std::size_t slot_bytes = 48 * 1024;
constexpr std::size_t slots = 24;

/// A program at one end: it sends messages, writes and reads, and checks what it gets.
class Program {
  public:
    Program(SimulatedNetwork& network, std::size_t index, std::uint64_t seed)
        : network_(network),
          side_(network.side(index)),
          index_(index),
          random_(seed * 2 + index),
          receive_(slots * slot_bytes),
          target_(slots * slot_bytes),
          source_(slot_bytes) {
        std::fill(send_.begin(), send_.end(), std::byte{0});
        fill_pattern(source_, 900 + index);
        send_handle_ = SimulatedNetwork::register_memory(send_.data(), send_.size(), 0);
        receive_handle_ = SimulatedNetwork::register_memory(receive_.data(), receive_.size(), 0);
        target_handle_ =
            SimulatedNetwork::register_memory(target_.data(), target_.size(), ka::right_rdma_write);
        source_handle_ =
            SimulatedNetwork::register_memory(source_.data(), source_.size(), ka::right_rdma_read);
        for (std::size_t i = 0; i < slots; ++i)
            post_receive();
    }
    ~Program() {
        for (const std::uint32_t handle :
             {send_handle_, receive_handle_, target_handle_, source_handle_})
            SimulatedNetwork::deregister_memory(handle);
    }

    /// Does something if it can.
    void step(Program& peer, std::uint64_t messages) {
        reap(peer);
        while (posted_ < messages && under_way_.size() < slots &&
               receives_used_ < peer.receives_posted_)
            post(peer);
    }
    [[nodiscard]] bool done(const Program& peer, std::uint64_t messages) const {
        return posted_ == messages && under_way_.empty() && receives_used_ == peer.receives_done_;
    }
    [[nodiscard]] std::uint64_t completed() const noexcept { return completed_; }

  private:
    struct Expected {
        bool write = false;
        std::uint64_t stream = 0;
        std::size_t bytes = 0;
        std::size_t slot = 0;
        std::optional<std::uint32_t> immediate;
    };
    struct UnderWay {
        enum class Kind { Send, Write, Read } kind = Kind::Send;
        std::size_t slot = 0;
        std::size_t bytes = 0;
        std::uint64_t stream = 0;
    };

    void post_receive() {
        const std::size_t slot = receives_posted_++ % slots;
        side_.post_receive(std::span(receive_).subspan(slot * slot_bytes, slot_bytes),
                           receive_handle_, slot);
    }

    void post(Program& peer) {
        const std::size_t slot = posted_ % slots;
        static constexpr std::array<std::uint32_t, 5> sizes{0, 64, 1500, 9000, slot_bytes};
        const std::size_t bytes = all_middling_ ? random_.between(2'048, 9'000)
                                                : random_.below(sizes[random_.below(5)] + 1);
        const std::uint64_t stream = (posted_ + 1) * 1000 + index_;
        const auto memory = send_.subspan(slot * slot_bytes, bytes);
        std::optional<std::uint32_t> immediate;
        if (random_.one_in(3)) immediate = static_cast<std::uint32_t>(random_.next());
        UnderWay entry{UnderWay::Kind::Send, slot, bytes, stream};
        switch (random_.below(5)) {
            case 0: {
                fill_pattern(memory, stream);
                entry.kind = UnderWay::Kind::Write;
                side_.post_write(memory, send_handle_, peer.target_.data() + slot * slot_bytes,
                                 peer.target_handle_, immediate, posted_);
                if (immediate) {
                    peer.expected_.push_back({true, stream, bytes, slot, immediate});
                    ++receives_used_;
                }
                break;
            }
            case 1:
                entry.kind = UnderWay::Kind::Read;
                std::fill(memory.begin(), memory.end(), std::byte{0});
                side_.post_read(memory, send_handle_, peer.source_.data(), peer.source_handle_,
                                posted_);
                break;
            default:
                fill_pattern(memory, stream);
                side_.post_send(memory, send_handle_, immediate, posted_, random_.one_in(8));
                peer.expected_.push_back({false, stream, bytes, slot, immediate});
                ++receives_used_;
        }
        under_way_.push_back(entry);
        ++posted_;
        network_.poll(index_);
    }

    void reap(Program& peer) {
        while (const auto entry = side_.completed(side_.queues.send)) {
            ASSERT_FALSE(under_way_.empty());
            const UnderWay done = under_way_.front();
            under_way_.pop_front();
            ASSERT_EQ(entry->status & na::status_error_mask, 0U) << "send " << entry->cookie;
            ASSERT_EQ(entry->length, done.bytes);
            if (done.kind == UnderWay::Kind::Read) {
                ASSERT_EQ(
                    matching_bytes(send_.subspan(done.slot * slot_bytes, done.bytes), 901 - index_),
                    done.bytes);
            } else if (done.kind == UnderWay::Kind::Write) {
                // Its slot is not written again before this entry is reaped.
                ASSERT_EQ(matching_bytes(
                              std::span(peer.target_).subspan(done.slot * slot_bytes, done.bytes),
                              done.stream),
                          done.bytes);
            }
            ++completed_;
        }
        while (const auto entry = side_.completed(side_.queues.receive)) {
            ASSERT_FALSE(expected_.empty()) << "a message that nobody sent";
            const Expected expected = expected_.front();
            expected_.pop_front();
            ASSERT_EQ(entry->status & na::status_error_mask, 0U);
            ASSERT_EQ(entry->length, expected.bytes) << "message " << receives_done_;
            ASSERT_EQ((entry->status & na::status_immediate) != 0, expected.immediate.has_value());
            if (expected.immediate) {
                ASSERT_EQ(entry->immediate, *expected.immediate);
            }
            const auto& memory = expected.write ? target_ : receive_;
            const std::size_t slot = expected.write ? expected.slot : entry->cookie;
            if (!expected.write) {
                ASSERT_EQ(
                    matching_bytes(std::span(memory).subspan(slot * slot_bytes, expected.bytes),
                                   expected.stream),
                    expected.bytes)
                    << "message " << receives_done_;
            }
            ++receives_done_;
            post_receive();
        }
    }

    SimulatedNetwork& network_;
    SimulatedNetwork::Side& side_;
    std::size_t index_;
    Random random_;
    const bool all_middling_ = random_.one_in(4);
    /// It begins with a page in each run, as pieces that are lent end where pages do.
    base::AlignedBytes send_memory_ = base::aligned_bytes(slots * slot_bytes);
    std::span<std::byte> send_{send_memory_.get(), slots* slot_bytes};
    std::vector<std::byte> receive_;
    std::vector<std::byte> target_;
    std::vector<std::byte> source_;
    std::uint32_t send_handle_ = 0;
    std::uint32_t receive_handle_ = 0;
    std::uint32_t target_handle_ = 0;
    std::uint32_t source_handle_ = 0;
    std::deque<UnderWay> under_way_;
    std::deque<Expected> expected_;
    std::uint64_t posted_ = 0;
    std::uint64_t completed_ = 0;
    std::uint64_t receives_used_ = 0;  ///< of the peer's
    std::uint64_t receives_posted_ = 0;
    std::uint64_t receives_done_ = 0;
};

NetworkOptions random_options(Random& random) {
    NetworkOptions options;
    options.links = random.between(1, 3);
    options.policy = static_cast<links::PolicyKind>(random.below(4));
    options.reliability = random.one_in(2) ? na::reliable_delivery : na::reliable_reception;
    options.packet_bytes = random.one_in(3) ? 8900 : 1400;
    options.sealed = random.one_in(4);
    LinkFaults& faults = options.faults;
    const auto sometimes = [&](std::uint32_t most) {
        return random.one_in(2) ? random.below(most + 1) : 0;
    };
    faults.drop = sometimes(500);
    faults.duplicate = sometimes(300);
    faults.corrupt = sometimes(200);
    faults.truncate = sometimes(100);
    faults.late = sometimes(200);
    faults.full = sometimes(1000);
    faults.joined = 2 * sometimes(5000);
    faults.unmeasured = 2 * sometimes(5000);
    faults.replay = sometimes(200);
    faults.delay = random.between(2, 300) * microsecond;
    // Long packets come through only where datagrams keep their order.
    faults.jitter = random.one_in(3) ? 0 : random.below(100) * microsecond;
    options.reads_late = random.one_in(2);
    return options;
}

/// What happens to the network and its ends while they work. One calamity at a time, and shorter
/// than what counts as silence, or the connection would be lost by right.
class Trouble {
  public:
    Trouble(SimulatedNetwork& network, Random& random)
        : network_(network),
          random_(random),
          next_(network.now() + random.below(3000) * microsecond) {}

    void step() {
        if (network_.now() < next_) return;
        next_ = network_.now() + random_.below(30'000) * microsecond;
        const std::size_t links = network_.side(0).transport.links();
        const std::size_t link = random_.below(static_cast<std::uint32_t>(links));
        switch (random_.below(7)) {
            case 0:
                // One link stays open.
                if (links > 1 && link != 0)
                    network_.cut(link, random_.below(2), !random_.one_in(3));
                break;
            case 1:
                if (links > 1 && link != 0) {
                    const bool closed = !random_.one_in(3);
                    network_.cut(link, 0, closed);
                    network_.cut(link, 1, closed);
                }
                break;
            case 2:
                if (calamity())
                    network_.freeze(random_.below(2),
                                    network_.now() + random_.below(1'200'000) * microsecond);
                break;
            case 3:
                if (calamity())
                    network_.partition(network_.now() + random_.below(900'000) * microsecond);
                break;
            case 4:
                // From nothing to two minutes.
                if (calamity())
                    network_.jump_clock(
                        random_.below(2),
                        random_.below(random_.one_in(2) ? 3'000 : 120'000) * millisecond);
                break;
            case 5:
                if (links > 1 && link != 0) network_.unplug(link, !random_.one_in(3));
                break;
            default:
                network_.faults(link).drop = random_.below(800);
        }
    }

  private:
    [[nodiscard]] bool calamity() {
        if (network_.now() < next_calamity_) return false;
        next_calamity_ = network_.now() + 5'000 * millisecond;
        return true;
    }

    SimulatedNetwork& network_;
    Random& random_;
    Nanoseconds next_;
    Nanoseconds next_calamity_ = 0;
};

/// One run; returns its trace.
std::uint64_t run_seed(std::uint64_t seed) {
    SCOPED_TRACE("VIA_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    SimulatedNetwork network(random.next(), random_options(random));
    Program first(network, 0, seed);
    Program second(network, 1, seed);
    const std::uint64_t messages = random.between(5, 60);
    Trouble trouble(network, random);
    const bool troubled = random.one_in(2);
    const bool finished = network.run(60'000 * millisecond, [&] {
        first.step(second, messages);
        second.step(first, messages);
        if (testing::Test::HasFatalFailure()) return true;
        if (troubled) trouble.step();
        return first.done(second, messages) && second.done(first, messages);
    });
    if (testing::Test::HasFatalFailure()) return network.trace();
    EXPECT_TRUE(finished) << "not finished: " << first.completed() << " and " << second.completed()
                          << " of " << messages << " are";
    EXPECT_FALSE(network.side(0).session.halted());
    EXPECT_FALSE(network.side(1).session.halted());
    return network.trace();
}

/// Every message exactly once, in order, bit for bit, whatever the network does.
TEST(SessionSimulation, EveryMessageOnceInOrderBitForBit) {
    each_seed(2000, [](std::uint64_t seed) { run_seed(seed); });
}

/// Of two links one after the other is cut, unplugged or deaf in one direction for a while, in the
/// midst of a stream that fills them. One is always open.
class CutsInTurn {
  public:
    CutsInTurn(SimulatedNetwork& network, Random& random)
        : network_(network), random_(random), next_(network.now() + pause()) {}

    void step() {
        if (network_.now() < next_) return;
        next_ = network_.now() + pause();
        if (std::exchange(cut_, !cut_)) {
            network_.cut(link_, 0, false);
            network_.cut(link_, 1, false);
            network_.unplug(link_, false);
            return;
        }
        if (!random_.one_in(4)) link_ = 1 - link_;
        const std::uint32_t kind = random_.below(4);
        if (kind == 3) {
            network_.unplug(link_, true);
            return;
        }
        for (const std::size_t direction : {0U, 1U})
            if (kind != direction) network_.cut(link_, direction, true);
    }

  private:
    [[nodiscard]] Nanoseconds pause() {
        return random_.below(random_.one_in(2) ? 50'000 : 900'000) * microsecond;
    }

    SimulatedNetwork& network_;
    Random& random_;
    Nanoseconds next_;
    bool cut_ = false;
    std::size_t link_ = 0;
};

void stream_while_links_are_cut(std::uint64_t seed) {
    SCOPED_TRACE("VIA_TEST_SEED=" + std::to_string(seed));
    Random random(seed + 3'000'000);
    NetworkOptions options;
    options.links = 2;
    options.policy = static_cast<links::PolicyKind>(random.below(4));
    options.faults.bytes_per_second = static_cast<double>(random.between(2, 60)) * 1e6;
    options.faults.queue_bytes = random.between(100, 2'500) * 1024;
    options.faults.jitter = 0;
    options.faults.joined = random.one_in(2) ? 9'000 : 0;
    SimulatedNetwork network(random.next(), options);
    Program first(network, 0, seed);
    Program second(network, 1, seed);
    constexpr std::uint64_t messages = 3'000;
    // The slowest link has a second's worth in its queue.
    constexpr Nanoseconds longest_stall = 3'000 * millisecond;
    CutsInTurn cuts(network, random);
    Nanoseconds went_on = network.now();
    std::uint64_t completed = 0;
    bool finished = false;
    network.run(1'000'000 * millisecond, [&] {
        first.step(second, messages);
        second.step(first, messages);
        cuts.step();
        const std::uint64_t completed_now = first.completed() + second.completed();
        if (completed_now != std::exchange(completed, completed_now)) went_on = network.now();
        finished = first.done(second, messages) && second.done(first, messages);
        return finished || testing::Test::HasFatalFailure() ||
               network.now() - went_on > longest_stall;
    });
    EXPECT_TRUE(finished) << "nothing went on for 3 s: " << first.completed() << " and "
                          << second.completed() << " of " << messages << " are done";
    EXPECT_FALSE(network.side(0).session.halted());
    EXPECT_FALSE(network.side(1).session.halted());
}

TEST(SessionSimulation, AStreamGoesOnOverTheLinkThatIsLeft) {
    each_seed(20, stream_while_links_are_cut);
    // The receiver answered by a link that was dead, because it had given up the other.
    stream_while_links_are_cut(202'910);
}

/// A failure can be had again: the same seed does the same, packet by packet.
TEST(SessionSimulation, OneSeedIsOneRun) {
    std::set<std::uint64_t> traces;
    for (std::uint64_t seed = 1; seed <= repeated(50); ++seed) {
        const std::uint64_t trace = run_seed(seed);
        EXPECT_EQ(trace, run_seed(seed)) << "seed " << seed;
        traces.insert(trace);
    }
    EXPECT_EQ(traces.size(), repeated(50)) << "different seeds do the same";
}

/// A peer crashes and a new one comes at the same address, with the same tokens even: the one that
/// was connected to the old one loses its connection, the new connection is not disturbed by what
/// is still sent over the old one, nor the other way round.
TEST(SessionSimulation, WhoComesBackAtTheSameAddressIsAnother) {
    each_seed(200, [](std::uint64_t seed) {
        SCOPED_TRACE("VIA_TEST_SEED=" + std::to_string(seed));
        Random random(seed + 2'000'000);
        NetworkOptions options = random_options(random);
        options.tokens = static_cast<std::uint32_t>(random.between(1, 1'000'000));
        SimulatedNetwork before(random.next(), options);
        SimulatedNetwork after(random.next(), options);
        struct Stray {
            std::size_t to;
            std::size_t link;
            std::vector<std::byte> packet;
        };
        std::vector<Stray> strays_of_before;
        std::vector<Stray> strays_of_after;
        const auto record = [&random](std::vector<Stray>& strays) {
            return [&strays, &random](std::size_t from, std::size_t link,
                                      std::span<const std::byte> packet) {
                if (strays.size() < 4'000 && random.one_in(2))
                    strays.push_back({1 - from, link, {packet.begin(), packet.end()}});
            };
        };
        Program old_first(before, 0, seed);
        Program old_second(before, 1, seed);
        before.on_packet = record(strays_of_before);
        // Idle or in the middle of it.
        const Nanoseconds crash_after = random.below(3'000) * microsecond;
        before.run(crash_after, [&] {
            old_first.step(old_second, 60);
            old_second.step(old_first, 60);
            return testing::Test::HasFatalFailure();
        });
        if (testing::Test::HasFatalFailure()) return;
        before.crash(1);
        // The new one is there at once. Packets of the one connection come to the other as well.
        Program first(after, 0, seed + 1);
        Program second(after, 1, seed + 1);
        after.on_packet = record(strays_of_after);
        const std::uint64_t messages = random.between(5, 30);
        const auto carry_over = [](std::vector<Stray>& from, SimulatedNetwork& to) {
            for (Stray& stray : from)
                to.inject(stray.to, stray.link, std::move(stray.packet));
            from.clear();
        };
        const Nanoseconds crashed = before.now();
        Nanoseconds lost = 0;
        bool finished = false;
        for (int slice = 0; slice < 60'000 && !(finished && lost != 0); ++slice) {
            if (lost == 0 &&
                before.run(millisecond, [&] { return before.side(0).transport.lost(); }))
                lost = before.now();
            finished = finished || after.run(millisecond, [&] {
                first.step(second, messages);
                second.step(first, messages);
                return testing::Test::HasFatalFailure() ||
                       (first.done(second, messages) && second.done(first, messages));
            });
            if (testing::Test::HasFatalFailure()) return;
            carry_over(strays_of_before, after);
            carry_over(strays_of_after, before);
        }
        ASSERT_TRUE(finished) << "the new connection: " << first.completed() << " and "
                              << second.completed() << " of " << messages;
        ASSERT_FALSE(after.side(0).session.halted());
        ASSERT_FALSE(after.side(1).session.halted());
        ASSERT_NE(lost, 0) << "the old connection lives on";
        // What was on its way when the peer died counts as its last word.
        ASSERT_LE(lost - crashed, 2'200 * millisecond);
        ASSERT_TRUE(before.side(0).session.peer_closed());
    });
}

/// Unreliable: what arrives is whole and in order, and nothing comes twice.
TEST(SessionSimulation, UnreliableMessagesAreWholeOrMissing) {
    each_seed(300, [](std::uint64_t seed) {
        SCOPED_TRACE("VIA_TEST_SEED=" + std::to_string(seed));
        Random random(seed + 1'000'000);
        NetworkOptions options = random_options(random);
        options.reliability = na::unreliable;
        SimulatedNetwork network(random.next(), options);
        auto& sender = network.side(0);
        auto& receiver = network.side(1);
        constexpr std::uint64_t messages = 60;
        constexpr std::size_t most = 6000;
        std::vector<std::byte> from(messages * most);
        std::vector<std::byte> to(messages * most);
        const std::uint32_t from_handle =
            SimulatedNetwork::register_memory(from.data(), from.size(), 0);
        const std::uint32_t to_handle = SimulatedNetwork::register_memory(to.data(), to.size(), 0);
        std::vector<std::size_t> sizes;
        for (std::uint64_t i = 0; i < messages; ++i) {
            receiver.post_receive(std::span(to).subspan(i * most, most), to_handle, i);
            sizes.push_back(8 + random.below(most - 7));
            const auto data = std::span(from).subspan(i * most, sizes.back());
            fill_pattern(data, i);
            sender.post_send(data, from_handle, static_cast<std::uint32_t>(i), i);
        }
        network.poll(0);
        std::uint64_t sent = 0;
        std::uint64_t received = 0;
        std::int64_t last = -1;
        network.run(3'000 * millisecond, [&] {
            while (const auto entry = sender.completed(sender.queues.send)) {
                EXPECT_EQ(entry->status & na::status_error_mask, 0U);
                ++sent;
            }
            while (const auto entry = receiver.completed(receiver.queues.receive)) {
                const std::uint32_t which = entry->immediate;
                EXPECT_GT(std::int64_t{which}, last);
                last = which;
                EXPECT_EQ(entry->length, sizes[which]);
                EXPECT_EQ(matching_bytes(std::span(to).subspan(entry->cookie * most, entry->length),
                                         which),
                          entry->length);
                ++received;
            }
            return false;
        });
        EXPECT_EQ(sent, messages) << "a send waits for something";
        EXPECT_LE(received, messages);
        if (options.faults.drop + options.faults.corrupt + options.faults.truncate +
                options.faults.late + options.faults.jitter ==
            0) {
            EXPECT_EQ(received, messages);
        }
        SimulatedNetwork::deregister_memory(from_handle);
        SimulatedNetwork::deregister_memory(to_handle);
    });
}

/// MNC's receiver state: it rides on the acknowledgements.
TEST(SessionSimulation, ABusyReceiverSaysSo) {
    SimulatedNetwork network(1, {});
    std::vector<std::byte> memory(64);
    const std::uint32_t handle = SimulatedNetwork::register_memory(memory.data(), memory.size(), 0);
    for (const bool busy : {true, false}) {
        network.side(1).transport.set_busy(busy);
        network.side(1).post_receive(memory, handle, 0);
        network.side(0).post_send(memory, handle, std::nullopt, 0);
        network.poll(0);
        ASSERT_TRUE(network.run(1'000 * millisecond, [&] {
            return network.side(0).completed(network.side(0).queues.send).has_value();
        }));
        EXPECT_EQ(network.side(0).transport.link(0).peer_busy, busy);
    }
    SimulatedNetwork::deregister_memory(handle);
}

/// A peer that falls silent is noticed, and not before its time.
TEST(SessionSimulation, ASilentPeerIsLostAfterTheTimeSet) {
    each_seed(50, [](std::uint64_t seed) {
        SCOPED_TRACE("VIA_TEST_SEED=" + std::to_string(seed));
        Random random(seed);
        NetworkOptions options = random_options(random);
        options.faults.drop = 0;
        SimulatedNetwork network(random.next(), options);
        network.run(3'000 * millisecond, [&] { return false; });
        EXPECT_FALSE(network.side(0).transport.lost()) << "an idle connection was given up";
        const Nanoseconds cut_at = network.now();
        for (std::size_t link = 0; link < options.links; ++link)
            network.cut(link, 1, true);
        network.run(10'000 * millisecond, [&] { return network.side(0).transport.lost(); });
        EXPECT_TRUE(network.side(0).transport.lost());
        EXPECT_LE(network.now() - cut_at, 2'100 * millisecond);
        EXPECT_TRUE(network.side(0).session.peer_closed());
    });
}

}  // namespace
}  // namespace via::test
