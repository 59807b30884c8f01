// SPDX-License-Identifier: BSD-3-Clause
// Two conversations on a connection whose every delay a seed decides: packets keep their order, and
// nothing else is certain. It has no more vbufs than were posted, refuses registrations at random,
// and RDMA reaches only what is registered.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "mvich/conversation_hot_path.hpp"

namespace via::mvich::test {

using Random = std::mt19937_64;

[[nodiscard]] inline std::uint64_t below(Random& random, std::uint64_t limit) {
    return limit == 0 ? 0 : random() % limit;
}

/// Memory of one end that peers may touch.
class SimulatedRegistrar final : public Registrar {
  public:
    SimulatedRegistrar(Random& random, unsigned refusals_percent)
        : random_(random), refusals_percent_(refusals_percent) {}
    base::Result<std::uint32_t> register_memory(void* address, std::size_t bytes) override {
        if (refuses && below(random_, 100) < refusals_percent_)
            return base::Result<std::uint32_t>(base::Code::OutOfResources, "refused");
        regions_[++last_] = {static_cast<std::byte*>(address), bytes};
        return last_;
    }
    void deregister(void*, std::uint32_t handle) noexcept override { regions_.erase(handle); }
    [[nodiscard]] bool covers(std::uint32_t handle, const void* address, std::size_t bytes) const {
        const auto found = regions_.find(handle);
        if (found == regions_.end()) return false;
        const auto* at = static_cast<const std::byte*>(address);
        return at >= found->second.first &&
               at + bytes <= found->second.first + found->second.second;
    }
    [[nodiscard]] std::size_t regions() const { return regions_.size(); }
    bool refuses = true;

  private:
    Random& random_;
    unsigned refusals_percent_;
    std::uint32_t last_ = 0;
    std::map<std::uint32_t, std::pair<std::byte*, std::size_t>> regions_;
};

struct PairOptions {
    MessageSettings settings;
    bool in_place = true;
    bool one_copy = true;  ///< if in_place
    std::uint32_t packet_bytes = 8192;
    std::uint32_t room = 4;  ///< packets under way in one direction
    unsigned refusals_percent = 0;
    std::uint32_t widest_window = 0;  ///< that a conversation may come to have
};

class SimulatedEnd;

/// As it travels, with its head apart or not.
struct SimulatedPacket {
    std::vector<std::byte> bytes;
    bool headed = false;
    na::HeadedMessage head;  ///< without its payload
};

class SimulatedLane final : public Lane {
  public:
    SimulatedLane(SimulatedEnd& own, const PairOptions& options) : own_(own), options_(options) {
        abilities_ = {
            options.packet_bytes,
            options.settings.vbuf_bytes - static_cast<std::uint32_t>(max_packet_head_bytes),
            20'000,
            options.in_place,
            options.in_place && options.one_copy,
            true,
            true};
    }
    SimulatedLane* other = nullptr;
    [[nodiscard]] const LaneAbilities& abilities() const noexcept override { return abilities_; }
    [[nodiscard]] Outcome send(std::span<const iovec> pieces, std::uint32_t bytes) override;
    [[nodiscard]] Outcome send_headed(const na::HeadedMessage& message) override;
    [[nodiscard]] Outcome read(const RdmaOrder& order) override;
    [[nodiscard]] Outcome write(const RdmaOrder& order) override;
    void recycle(Vbuf* vbuf) noexcept override;
    /// One packet for this end, or one RDMA of it, comes to pass.
    bool step(Random& random);
    void post(std::uint32_t vbufs) { posted_ += vbufs; }
    [[nodiscard]] std::uint32_t widen(std::uint32_t window) override {
        if (window >= options_.widest_window) return 0;
        const std::uint32_t more = options_.widest_window - window;
        posted_ += more;
        return more;
    }
    /// The connection is no more: what was under way is gone.
    void cut() {
        cut_ = true;
        incoming.clear();
        transfers_.clear();
    }

    std::deque<SimulatedPacket> incoming;

  private:
    SimulatedEnd& own_;
    const PairOptions& options_;
    LaneAbilities abilities_;
    std::uint32_t posted_ = 0;  ///< not in_place: vbufs ready
    bool cut_ = false;
    struct Rdma {
        RdmaOrder order;
        bool is_write;
    };
    std::deque<Rdma> transfers_;
};

class SimulatedEnd final : public Listener {
  public:
    SimulatedEnd(Random& random, const PairOptions& options)
        : registrar(random, options.refusals_percent),
          lane(*this, options),
          receives(this),
          options_(options) {
        registrar.refuses = false;
        vbufs = std::make_unique<VbufPool>(
            registrar,
            VbufPool::Geometry{options.settings.vbuf_bytes, options.settings.vbufs_per_region,
                               options.settings.vbuf_regions});
        registrations = std::make_unique<RegistrationCache>(
            registrar, RegistrationCache::Limits{options.settings.cache_entries, 1U << 30});
        around.receives = &receives;
        around.vbufs = vbufs.get();
        around.registrations = registrations.get();
        around.windows = &windows;
        around.listener = this;
        around.settings = &options_.settings;
        around.counters = &counters;
        conversation = std::make_unique<Conversation>(around, HostPort{});
        conversation->peer = 0;
    }
    void open() {
        const std::uint32_t window = options_.settings.credits + options_.settings.credit_preserve;
        lane.post(window + CreditAccount::noop_vbufs(options_.settings.credit_preserve));
        conversation->open(lane, window);
    }
    void done(const Completion& completion) override {
        if (on_done) on_done(completion);
    }
    // What a device does for its endpoints.
    void receive(const ReceiveOrder& order) {
        const bool multi = (order.flags & order_multi_receive) != 0;
        UnexpectedMessage* message = receives.find(order);
        if (message == nullptr) {
            receives.post(order);
            return;
        }
        if (!multi) {
            give(*message, *receives.make(order));
            return;
        }
        PostedReceive& buffer = receives.post(order);
        for (; message != nullptr; message = receives.find(order)) {
            const std::uint64_t left = buffer.pieces.bytes() - buffer.used;
            const bool spends = message->total >= left || left - message->total < buffer.least_free;
            give(*message, buffer);
            if (spends) break;
        }
    }
    void give(UnexpectedMessage& message, PostedReceive& to) {
        const UnexpectedMessage taken = message;
        receives.remove(message);
        conversation->receive(taken, to);
    }
    void discard(UnexpectedMessage& message) {
        conversation->discard(message);
        receives.remove(message);
    }
    /// False: there is none that can be cancelled.
    bool cancel_receive(const void* context) {
        PostedReceive* receive = receives.cancel(context);
        if (receive != nullptr) receives.destroy(receive);
        return receive != nullptr;
    }

    SimulatedRegistrar registrar;
    SimulatedLane lane;
    ReceiveQueue receives;
    std::unique_ptr<VbufPool> vbufs;
    std::unique_ptr<RegistrationCache> registrations;
    WindowTable windows;
    base::MessageCounters counters;
    Surroundings around;
    std::unique_ptr<Conversation> conversation;
    std::function<void(const Completion&)> on_done;

  private:
    const PairOptions& options_;
};

inline Lane::Outcome SimulatedLane::send(std::span<const iovec> pieces, std::uint32_t bytes) {
    if (cut_) return Outcome::Gone;
    if (other->incoming.size() >= options_.room) return Outcome::NoRoom;
    std::vector<std::byte> packet;
    for (const iovec& piece : pieces) {
        const auto* from = static_cast<const std::byte*>(piece.iov_base);
        packet.insert(packet.end(), from, from + piece.iov_len);
    }
    EXPECT_EQ(packet.size(), bytes);
    EXPECT_LE(packet.size(), abilities_.packet_bytes);
    other->incoming.push_back({std::move(packet), false, {}});
    return Outcome::Done;
}

inline Lane::Outcome SimulatedLane::send_headed(const na::HeadedMessage& message) {
    EXPECT_TRUE(options_.in_place);
    EXPECT_TRUE(message.head_bytes == 8 || message.head_bytes == 16);
    EXPECT_LE(message.payload_bytes, abilities_.packet_bytes);
    if (cut_) return Outcome::Gone;
    if (other->incoming.size() >= options_.room) return Outcome::NoRoom;
    const auto* from = static_cast<const std::byte*>(message.payload);
    other->incoming.push_back({{from, from + message.payload_bytes}, true, message});
    return Outcome::Done;
}

inline Lane::Outcome SimulatedLane::read(const RdmaOrder& order) {
    if (cut_) return Outcome::Gone;
    if (transfers_.size() >= 2) return Outcome::NoRoom;
    transfers_.push_back({order, false});
    return Outcome::Done;
}

inline Lane::Outcome SimulatedLane::write(const RdmaOrder& order) {
    if (cut_) return Outcome::Gone;
    if (transfers_.size() >= 2) return Outcome::NoRoom;
    transfers_.push_back({order, true});
    return Outcome::Done;
}

inline void SimulatedLane::recycle(Vbuf* vbuf) noexcept {
    own_.vbufs->give(vbuf);
    ++posted_;
}

inline bool SimulatedLane::step(Random& random) {
    if (!transfers_.empty() && below(random, 2) == 0) {
        const Rdma rdma = transfers_.front();
        transfers_.pop_front();
        const RdmaOrder& order = rdma.order;
        EXPECT_TRUE(own_.registrar.covers(order.local_handle, order.local, order.bytes));
        EXPECT_TRUE(other->own_.registrar.covers(
            order.remote_handle, reinterpret_cast<void*>(order.remote), order.bytes));
        EXPECT_LE(order.bytes, abilities_.rdma_bytes);
        auto* remote = reinterpret_cast<std::byte*>(order.remote);
        if (rdma.is_write)
            std::memcpy(remote, order.local, order.bytes);
        else
            std::memcpy(order.local, remote, order.bytes);
        own_.conversation->rdma_done(order.token, true);
        return true;
    }
    if (incoming.empty()) return !transfers_.empty();
    const SimulatedPacket& front = incoming.front();
    const std::vector<std::byte>& packet = front.bytes;
    if (options_.in_place) {
        const auto arrival =
            front.headed ? own_.conversation->headed_packet(front.head.note, front.head.head,
                                                            front.head.head_bytes, packet)
                         : own_.conversation->packet(packet, nullptr);
        EXPECT_NE(arrival, Conversation::Arrival::Broken);
        EXPECT_NE(arrival, Conversation::Arrival::Kept);
        if (arrival == Conversation::Arrival::NotNow) return false;
        incoming.pop_front();
        return true;
    }
    EXPECT_NE(posted_, 0U) << "a packet found no vbuf";
    if (posted_ == 0) return false;
    Vbuf* vbuf = own_.vbufs->take();
    if (vbuf == nullptr) return false;
    --posted_;
    vbuf->owner = this;
    std::memcpy(vbuf->packet, packet.data(), packet.size());
    vbuf->bytes = static_cast<std::uint32_t>(packet.size());
    incoming.pop_front();
    switch (own_.conversation->packet({vbuf->packet, vbuf->bytes}, vbuf)) {
        case Conversation::Arrival::Passed:
        case Conversation::Arrival::Taken:
            recycle(vbuf);
            break;
        case Conversation::Arrival::Kept:
            break;
        case Conversation::Arrival::NotNow:
        case Conversation::Arrival::Broken:
            ADD_FAILURE() << "a packet of our own was not understood";
            recycle(vbuf);
            break;
    }
    return true;
}

/// The two of them.
class SimulatedPair {
  public:
    SimulatedPair(std::uint64_t seed, const PairOptions& options)
        : random(seed),
          options_(options),
          ends{SimulatedEnd(random, options_), SimulatedEnd(random, options_)} {
        ends[0].lane.other = &ends[1].lane;
        ends[1].lane.other = &ends[0].lane;
        ends[0].open();
        ends[1].open();
        for (SimulatedEnd& end : ends)
            end.registrar.refuses = true;
    }
    /// Something happens at one of the ends. False: there was nothing to do there.
    bool step() {
        SimulatedEnd& end = ends[below(random, 2)];
        const bool moved = end.lane.step(random);
        // A program that does not poll sends nothing.
        if (below(random, 3) != 0) return end.conversation->flush() || moved;
        return moved;
    }
    /// Until nothing moves any more.
    void settle() {
        std::size_t steps = 0;
        for (int quiet = 0; quiet < 200 && steps < 10'000'000; ++steps)
            quiet = step() ? 0 : quiet + 1;
    }
    /// The connection breaks; the ends have not noticed yet.
    void cut() {
        for (SimulatedEnd& end : ends)
            end.lane.cut();
    }

    [[nodiscard]] const PairOptions& options() const noexcept { return options_; }

    Random random;

  private:
    PairOptions options_;

  public:
    SimulatedEnd ends[2];
};

}  // namespace via::mvich::test
