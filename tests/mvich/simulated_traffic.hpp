// SPDX-License-Identifier: BSD-3-Clause
// Two programs that order everything a conversation can do, by seed, and look at everything they
// hear: every order ends exactly once, every message arrives once, whole and in order, windows hold
// what was written into them, and nothing is held when all is over.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "simulated_pair.hpp"

namespace via::mvich::test {

/// What a seed decides about the programs.
struct TrafficOptions {
    std::size_t messages = 30;  ///< of each end
    std::size_t remote = 20;    ///< orders on windows, of each end
    /// At the end one message after the other is asked for by its own tag, in no order at all: a
    /// program may do that, so flow control must not depend on what it asks for first.
    bool picky = false;
    bool lose_peer = false;
    bool small_order = true;  ///< small writes and reads are done in their order
};

class Traffic {
  public:
    Traffic(std::uint64_t seed, const PairOptions& options, const TrafficOptions& traffic);

    void run();

  private:
    static constexpr std::uint64_t window_key = 77;
    static constexpr std::uint64_t read_only_key = 78;
    static constexpr std::size_t cells = 4;
    static constexpr std::size_t cell_bytes = 192;
    static constexpr std::size_t atomic_cell = cells - 1;
    static constexpr std::size_t areas = 6;
    static constexpr std::size_t first_written_area = 2;
    static constexpr std::size_t area_bytes = 70'000;
    static constexpr std::uint64_t class_mask = 3;

    enum class Kind : std::uint8_t { Send, Receive, MultiReceive, Write, Read, Atomic };
    struct Order {
        Kind kind = Kind::Send;
        std::size_t number = 0;  ///< in the order of posting
        bool injected = false;
        bool silent = false;  ///< nothing is heard of it
        bool fenced = false;
        bool delivered = false;
        bool matched = false;
        bool claimed = false;  ///< for claimed_receive(): not posted yet
        int ended = 0;
        Status status = Status::Ok;
        std::vector<std::byte> bytes;
        std::vector<iovec> pieces;
        // Sends.
        Space space = Space::Tagged;
        std::uint64_t tag = 0;
        std::size_t message = 0;  ///< number of it
        // Receives.
        std::uint64_t ignore = 0;
        std::optional<std::size_t> got;
        std::size_t multi_got = 0;
        bool last_heard = false;
        // Windows.
        std::vector<std::byte> expected;  ///< of reads and fetches
        std::vector<std::byte> results;   ///< of fetches
        bool refused = false;
        std::optional<std::size_t> area;  ///< written by it alone
    };
    struct Placed {
        std::size_t buffer;  ///< number of its order
        std::size_t offset;
    };
    struct Words final : ControlListener {
        void word(const HostPort&, std::span<const std::byte> bytes) override {
            std::size_t number = 0;
            ASSERT_EQ(bytes.size(), sizeof number);
            std::memcpy(&number, bytes.data(), sizeof number);
            ASSERT_EQ(number, heard++) << "words overtake each other";
        }
        void lost(const HostPort&, Status) override {}
        std::size_t heard = 0;
    };
    struct Program {
        std::deque<Order> orders;
        std::vector<Order*> messages;  ///< sent from here, by number; null: cancelled
        std::size_t remote_orders = 0;
        std::set<std::size_t> consumed;        ///< messages of the other end
        std::map<std::size_t, Placed> placed;  ///< untagged ones
        std::vector<std::byte> window;
        std::array<std::vector<std::byte>, cells> model;  ///< of the other end's cells
        std::size_t next_area = first_written_area;
        std::size_t writes_told = 0;
        std::size_t reads_told = 0;
        std::size_t words_said = 0;
        bool lost = false;
        std::size_t orders_before_loss = 0;
        Words words;
    };

    [[nodiscard]] Random& random() { return pair_.random; }
    [[nodiscard]] static bool good() { return !testing::Test::HasFailure(); }
    [[nodiscard]] bool one_in(std::uint64_t n) { return below(random(), n) == 0; }

    [[nodiscard]] static std::byte content(std::size_t end, std::uint64_t message, std::size_t at) {
        return static_cast<std::byte>(end * 59 + message * 131 + at * 7 + (at >> 8));
    }
    [[nodiscard]] static std::byte window_content(std::size_t at) {
        return static_cast<std::byte>(at * 11 + (at >> 9));
    }

    // What the programs do, and when.

    void act(std::size_t end);
    void wander(std::uint64_t most);
    /// Sizes around the limits of packets and RDMA, and everything between.
    [[nodiscard]] std::size_t random_size();
    Order& make(std::size_t end, Kind kind);
    [[nodiscard]] static Cookie cookie_of(Order& order) { return {&order, order.number + 1}; }
    /// What is behind a fence comes only when all before it was asked for.
    [[nodiscard]] bool may_fence() const { return !traffic_.picky; }
    /// In one to three pieces.
    void cut(Order& order);
    void note(Order& order, Posted posted);
    [[nodiscard]] bool all_ordered() const;
    [[nodiscard]] bool has_claims(std::size_t end) const;
    /// Messages of the other end that did not arrive yet, in no order.
    [[nodiscard]] std::vector<std::size_t> missing(std::size_t end);
    [[nodiscard]] bool all_ended() const;
    void drain();
    [[nodiscard]] std::string state();
    /// The connection breaks; one end notices before the other.
    void lose();

    // Messages.

    void send(std::size_t end);
    [[nodiscard]] static ReceiveOrder order_of(Order& order);
    /// Of a class of tags, or any; sometimes too short for some messages.
    Order& make_receive(std::size_t end);
    void receive(std::size_t end);
    void multi_receive(std::size_t end);
    /// Peeks; and takes aside or throws away what it sees.
    void look(std::size_t end);
    void check_envelope(std::size_t end, const UnexpectedMessage& message);
    void take_claimed(std::size_t end);
    void cancel(std::size_t end);
    void say(std::size_t end);

    // Windows.

    void order_remote(std::size_t end);
    /// Places an order on the window; false: not now, and it is as if it had not been.
    bool place(std::size_t end, Order& order, RemoteOrder& ordered);
    /// [at, at + bytes) of a window, named in one piece or two.
    [[nodiscard]] std::vector<RemotePiece> remote_pieces(std::size_t at, std::size_t bytes,
                                                         std::uint64_t key);
    /// Small writes and reads at the same few places: done as if one after the other.
    void touch_cell(std::size_t end);
    /// Any size, in memory that nobody else touches meanwhile.
    void touch_area(std::size_t end);
    /// A wrong key, range or right: refused, and nothing is touched.
    void ask_too_much(std::size_t end);
    void order_atomic(std::size_t end);
    void check_windows(std::size_t end);

    // What is heard, and what is left.

    void end_once(Order& order, Status status);
    void heard(std::size_t end, const Completion& completion);
    [[nodiscard]] bool is_there(std::size_t end, std::size_t message);
    /// Has it come, and nobody has asked for it?
    [[nodiscard]] bool waits_at(std::size_t end, std::size_t message);
    void heard_of_receive(std::size_t end, Order& order, const Completion& completion);
    void cancel_receives();
    void check();
    [[nodiscard]] std::size_t cache_entries() const {
        return pair_.options().settings.cache_entries;
    }
    /// Nobody overtakes: a receive has an older message than a later receive, if it could have had
    /// that one, too.
    void check_order(std::size_t end);

    std::array<Program, 2> programs_;  // before the ends: they are told until they are gone
    SimulatedPair pair_;
    const TrafficOptions traffic_;
    std::size_t idle_ = 0;
};

}  // namespace via::mvich::test
