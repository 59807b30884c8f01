// SPDX-License-Identifier: BSD-3-Clause
// Two ends of a connection and the links between them, in simulated time. One seed is one run: the
// packets that are lost, doubled, delayed, damaged, and what the programs do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "links/transport.hpp"
#include "na/net/session.hpp"
#include "na/seeded.hpp"

namespace via::test {

using base::Nanoseconds;

inline constexpr Nanoseconds microsecond = 1'000;
inline constexpr Nanoseconds millisecond = 1'000'000;

/// Chances are in 10,000.
struct LinkFaults {
    std::uint32_t drop = 0;
    std::uint32_t duplicate = 0;
    std::uint32_t corrupt = 0;
    std::uint32_t truncate = 0;
    std::uint32_t late = 0;        ///< much later than it should
    std::uint32_t full = 0;        ///< the kernel's queue refuses a train
    std::uint32_t joined = 0;      ///< what comes next with it is handed over with it
    std::uint32_t unmeasured = 0;  ///< what is handed over has no length of its datagrams with it
    std::uint32_t replay = 0;      ///< an old packet comes once more
    Nanoseconds delay = 20 * microsecond;
    Nanoseconds jitter = 5 * microsecond;
    std::uint32_t longest_packet = 0;  ///< longer ones vanish; 0: none does
    double bytes_per_second = 0;       ///< 0: any number
    std::uint32_t queue_bytes = 0;     ///< what waits for a link with a rate; more is dropped
};

struct NetworkOptions {
    std::uint32_t links = 1;
    LinkFaults faults;
    links::PolicyKind policy = links::PolicyKind::Adaptive;
    std::uint32_t reliability = na::reliable_delivery;
    std::uint32_t packet_bytes = 1400;
    bool long_packets = true;
    bool sealed = false;
    bool lends = true;
    /// What is lent is read when it arrives, not when it is sent. It has to be there then.
    bool reads_late = false;
    std::uint32_t tokens = 0;  ///< of both ends, the first of two; 0: as the seed says
};

class SimulatedNetwork {
  public:
    SimulatedNetwork(std::uint64_t seed, const NetworkOptions& options);
    ~SimulatedNetwork();

    struct Side;
    [[nodiscard]] Side& side(std::size_t index) noexcept { return *sides_[index]; }
    [[nodiscard]] Nanoseconds now() const noexcept { return now_; }
    [[nodiscard]] Random& random() noexcept { return random_; }

    /// Nothing passes in that direction (0: from side 0) until it is opened again.
    void cut(std::size_t link, std::size_t direction, bool closed) {
        cut_[link][direction] = closed;
    }
    /// Neither end has a carrier, and each host's kernel says so to whoever sends.
    void unplug(std::size_t link, bool unplugged) { unplugged_[link] = unplugged; }
    [[nodiscard]] LinkFaults& faults(std::size_t link) noexcept { return faults_[link]; }
    /// Asked about every packet that a side sends (side, link, packet): true, and it is lost.
    std::function<bool(std::size_t, std::size_t, std::span<const std::byte>)> swallows;
    /// Called with every packet that a side sends: side, link, packet.
    std::function<void(std::size_t, std::size_t, std::span<const std::byte>)> on_packet;
    /// The side does nothing until then.
    void freeze(std::size_t side, Nanoseconds until) { frozen_[side] = until; }
    /// It never does anything again.
    void crash(std::size_t side) { freeze(side, links::never); }
    /// Nothing passes on any link until then.
    void partition(Nanoseconds until) { partitioned_until_ = until; }
    /// The side's clock goes forward all at once, as after its machine stood still.
    void jump_clock(std::size_t side, Nanoseconds by) {
        clock_ahead_[side] += by;
        poll_at(now_, side);
    }
    /// A packet from elsewhere comes to a side's port.
    void inject(std::size_t side, std::size_t link, std::vector<std::byte> packet) {
        add(now_ + faults_[link].delay, side, link, std::move(packet));
    }
    /// What has happened so far: when which packets of which length were sent. One seed, one value.
    [[nodiscard]] std::uint64_t trace() const noexcept { return trace_; }

    /// Calls `step` after everything that happens, until it returns true or the time is over.
    template <class Step>
    bool run(Nanoseconds most, Step step) {
        const Nanoseconds end = now_ + most;
        while (now_ < end) {
            if (step()) return true;
            if (!advance(end)) break;
        }
        return step();
    }
    /// What the side has to do now: posts are taken, packets sent.
    void poll(std::size_t side);

    /// Registers memory for both sides' RMMT and returns its handle.
    [[nodiscard]] static std::uint32_t register_memory(void* address, std::uint64_t bytes,
                                                       std::uint32_t rights, std::uint32_t tag = 1);
    static void deregister_memory(std::uint32_t handle);
    [[nodiscard]] static ka::RmmtView rmmt();

  private:
    /// Bytes of a packet that are read when it arrives.
    struct Lent {
        std::size_t at;
        std::span<const std::byte> memory;
    };
    struct Event {
        Nanoseconds time;
        std::uint64_t order;
        std::size_t side;
        std::size_t link;
        std::vector<std::byte> packet;  ///< empty: the side polls
        std::vector<Lent> lent;
        bool operator<(const Event& other) const noexcept {
            return time != other.time ? time > other.time : order > other.order;
        }
    };
    bool advance(Nanoseconds end);
    void join_with_next(Event& event);
    static void read_lent(Event& event) noexcept;
    void add(Nanoseconds time, std::size_t side, std::size_t link, std::vector<std::byte> packet,
             std::vector<Lent> lent = {});
    void poll_at(Nanoseconds time, std::size_t side);
    [[nodiscard]] links::SendOutcome send(std::size_t from, std::size_t link,
                                          std::span<const iovec> parts, std::size_t lent,
                                          std::uint32_t packet_bytes);
    void carry(std::size_t from, std::size_t link, std::vector<std::byte> packet,
               std::vector<Lent> lent);
    [[nodiscard]] bool happens(std::uint32_t chance) { return random_.below(10'000) < chance; }
    [[nodiscard]] Nanoseconds clock_of(std::size_t side) const noexcept {
        return now_ + clock_ahead_[side];
    }
    void note(std::uint64_t value) noexcept { trace_ = (trace_ ^ value) * 0x100000001B3ULL; }

    std::uint64_t seed_;
    Random random_;
    NetworkOptions options_;
    std::vector<LinkFaults> faults_;
    std::vector<std::array<bool, 2>> cut_;
    std::vector<bool> unplugged_;
    std::vector<std::array<Nanoseconds, 2>> free_at_;  ///< links with a rate
    std::array<Nanoseconds, 2> frozen_{};
    std::array<Nanoseconds, 2> clock_ahead_{};
    Nanoseconds partitioned_until_ = 0;
    std::uint64_t trace_ = 0xCBF29CE484222325ULL;
    std::array<Nanoseconds, 2> next_poll_{links::never, links::never};
    std::vector<std::vector<std::byte>> old_packets_;
    std::priority_queue<Event> events_;
    std::uint64_t events_added_ = 0;
    Nanoseconds now_ = 1'000'000'000;
    std::array<std::unique_ptr<Side>, 2> sides_;
};

struct SimulatedNetwork::Side : links::Output {
    Side(SimulatedNetwork& network, std::size_t index, const NetworkOptions& options);
    links::SendOutcome send(std::size_t link, std::span<const iovec> parts,
                            std::uint32_t packet_bytes) override {
        return network_.send(index_, link, parts, parts.size(), packet_bytes);
    }
    links::SendOutcome lend(std::size_t link, std::span<const iovec> parts, std::size_t lent,
                            std::uint32_t packet_bytes) override {
        ++lent_trains;
        return network_.send(index_, link, parts, lent, packet_bytes);
    }
    std::uint32_t packet_bytes(std::size_t) override { return 1200; }
    void link_changed(std::size_t, links::LinkState, links::LinkState) override { ++link_changes; }

    /// As the user agent posts.
    void post_send(std::span<const std::byte> data, std::uint32_t handle,
                   std::optional<std::uint32_t> immediate, std::uint64_t cookie,
                   bool fence = false);
    void post_write(std::span<const std::byte> data, std::uint32_t handle, const void* target,
                    std::uint32_t target_handle, std::optional<std::uint32_t> immediate,
                    std::uint64_t cookie);
    void post_read(std::span<std::byte> place, std::uint32_t handle, const void* source,
                   std::uint32_t source_handle, std::uint64_t cookie);
    void post_receive(std::span<std::byte> place, std::uint32_t handle, std::uint64_t cookie);
    /// The next completed entry of a queue.
    [[nodiscard]] std::optional<na::WorkEntry> completed(na::WorkQueue& queue);

    SimulatedNetwork& network_;
    std::size_t index_;
    std::unique_ptr<base::ViCounters> counters;
    na::QueuePair queues;
    na::net::Session session;
    links::Transport transport;
    std::uint32_t link_changes = 0;
    std::uint64_t lent_trains = 0;
    std::uint64_t plain_sends_ = 0;
};

}  // namespace via::test
