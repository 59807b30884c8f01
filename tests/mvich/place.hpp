// SPDX-License-Identifier: BSD-3-Clause
// An endpoint on a real device, and what it was told; alone or as one of several processes.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/counters.hpp"
#include "mvich/device.hpp"

namespace via::mvich {

inline constexpr base::Nanoseconds patience = 30'000'000'000;

/// Whichever thread makes progress tells it.
class Notebook final : public Listener {
  public:
    void done(const Completion& completion) override {
        {
            const std::lock_guard guard(mutex_);
            completions_.push_back(completion);
        }
        if (also) also(completion);
    }
    [[nodiscard]] std::optional<Completion> take(Happened what) {
        const std::lock_guard guard(mutex_);
        for (auto i = completions_.begin(); i != completions_.end(); ++i)
            if (i->what == what) {
                const Completion found = *i;
                completions_.erase(i);
                return found;
            }
        return std::nullopt;
    }
    [[nodiscard]] std::size_t count() const {
        const std::lock_guard guard(mutex_);
        return completions_.size();
    }
    std::function<void(const Completion&)> also;

  private:
    mutable std::mutex mutex_;
    std::deque<Completion> completions_;
};

inline std::shared_ptr<Device> open_device() {
    auto device = Device::open();
    if (!device) {
        ADD_FAILURE() << device.error().sentence;
        return nullptr;
    }
    return device.value();
}

inline std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
    std::vector<std::byte> data;
    data.reserve(bytes + 1);  // also of nothing there is a pointer
    data.resize(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        data[i] = static_cast<std::byte>(seed + i * 13 + (i >> 9));
    return data;
}

/// What this process has counted, for a failure whose cause is not seen in what the test asks for.
inline std::string account() {
    std::ostringstream text;
    const auto sum = [](const auto& counters) {
        return std::accumulate(counters.begin(), counters.end(), std::uint64_t{0},
                               [](std::uint64_t so_far, const base::Counter& counter) {
                                   return so_far + counter.get();
                               });
    };
    const base::CountersPage& page = base::Counters::get().page();
    const base::MessageCounters& messages = page.messages;
    text << "sent by eager, r3, rget, rput:";
    for (const auto& protocol : messages.sent)
        text << ' ' << sum(protocol);
    text << "; received " << messages.received.get() << ", unexpected " << messages.unexpected.get()
         << ", noops " << messages.noops_sent.get() << '/' << messages.noops_received.get()
         << ", fallbacks " << messages.fallbacks.get();
    const std::uint32_t slots = page.vi_slots_ready.load();
    for (std::uint32_t i = 0; i < slots; ++i) {
        const base::ViCounters& vi = page.vis[i];
        if (i != 0 && vi.in_use.get() == 0) continue;
        text << "; VI " << i << " state " << vi.state.get() << " peer " << vi.peer_pid.get()
             << " sent " << sum(vi.sent_messages) << " received " << sum(vi.received_messages)
             << " rdma writes " << vi.rdma_writes.get() << " reads " << vi.rdma_reads.get()
             << " stalls " << vi.send_stalls.get() << " in error " << vi.completed_in_error.get();
    }
    return text.str();
}

/// A device, an endpoint on it and what it was told.
struct Place {
    explicit Place(std::shared_ptr<Device> on, HostPort name = loopback()) : device(std::move(on)) {
        Device::EndpointOptions options;
        options.name = name;
        options.book = book;
        options.listener = &notes;
        auto made = device->create_endpoint(options);
        if (made)
            endpoint = std::move(made).value();
        else
            ADD_FAILURE() << made.error().sentence;
    }
    explicit Place(HostPort name = loopback()) : Place(open_device(), name) {}
    static HostPort loopback() {
        HostPort name;
        name.host = {127, 0, 0, 1};
        return name;
    }
    Posted send(Peer to, const void* data, std::size_t bytes, std::uint64_t tag,
                std::uint32_t flags = 0) {
        const iovec piece{const_cast<void*>(data), bytes};
        SendOrder order;
        order.to = to;
        order.tag = tag;
        order.flags = flags;
        order.pieces = {&piece, 1};
        order.cookie.context = const_cast<void*>(data);
        return endpoint->send(order);
    }
    Posted receive(Peer from, void* data, std::size_t bytes, std::uint64_t tag,
                   std::uint64_t ignore = 0) {
        const iovec piece{data, bytes};
        ReceiveOrder order;
        order.from = from;
        order.tag = tag;
        order.ignore = ignore;
        order.pieces = {&piece, 1};
        order.cookie.context = data;
        return endpoint->receive(order);
    }
    /// Makes progress until it is so. False: it never came to be.
    template <class Condition>
    [[nodiscard]] bool until(Condition condition, base::Nanoseconds span = patience) {
        const base::Deadline deadline = base::Deadline::after(span);
        while (!condition()) {
            if (deadline.expired()) return false;
            device->progress();
        }
        return true;
    }
    /// The next completion of this kind, or a failure.
    Completion wait_for(Happened what) {
        std::optional<Completion> found;
        if (!until([&] { return (found = notes.take(what)).has_value(); })) {
            ADD_FAILURE() << "nothing has happened; process " << getpid() << ": " << account();
            Completion nothing;
            nothing.status = Status::NoMessage;
            return nothing;
        }
        return *found;
    }

    std::shared_ptr<Device> device;
    std::shared_ptr<AddressBook> book = std::make_shared<AddressBook>();
    Notebook notes;
    std::unique_ptr<Endpoint> endpoint;
};

}  // namespace via::mvich
