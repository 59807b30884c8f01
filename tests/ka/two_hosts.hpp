// SPDX-License-Identifier: BSD-3-Clause
// Two hosts that connect, and what became of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "ka/setup_world.hpp"

namespace via::ka::test {

inline const wire::Key open_key = wire::cluster_key("");

inline wire::SetupKind kind_of(const Flight& flight) {
    return static_cast<wire::SetupKind>(flight.bytes.at(5));
}

inline std::size_t sent(const World& world, wire::SetupKind kind) {
    return static_cast<std::size_t>(
        std::count_if(world.history.begin(), world.history.end(),
                      [&](const Flight& flight) { return kind_of(flight) == kind; }));
}

/// Two hosts; a server on the second one answers at once.
struct Two {
    World world{1};
    Host& a = world.add(1, open_key);
    Host& b = world.add(2, open_key);
    Ticket accepted = 0;
    std::uint64_t told = 0;

    [[nodiscard]] ConnectOffer asked() const {
        return net_offer(host_number(1), 6, host_number(2), 5);
    }
    [[nodiscard]] ConnectOffer answered() const {
        return net_offer(host_number(2), 5, host_number(1), 6);
    }
    void serve(bool accepting = true) {
        b.on_incoming = [this, accepting](const outcome::Incoming& incoming) {
            told = incoming.request;
            accepted = accepting ? b.accept(told, answered()) : b.reject(told);
        };
        b.wait(5, 1000 * second);
    }
    /// A server that is told and thinks about it.
    void listen() {
        b.on_incoming = [this](const outcome::Incoming& incoming) { told = incoming.request; };
        b.wait(5, 1000 * second);
    }
    Ticket connect(Nanoseconds time = 5 * second) { return a.connect(asked(), b.address(), time); }
    /// Nothing is left, after everything that could come has come.
    void expect_clean() {
        world.network = nullptr;
        world.run_for(100 * second);
        EXPECT_EQ(world.complaint, "");
        for (Host* host : {&a, &b}) {
            EXPECT_EQ(host->setup().outgoing(), 0U);
            EXPECT_EQ(host->setup().arrivals(), 0U);
            EXPECT_EQ(host->setup().remembered(), 0U);
            EXPECT_TRUE(host->setup().next_deadline().is_never());
        }
    }
};

inline void expect_failure(const Host& host, Ticket ticket, base::Code code,
                           std::string_view words) {
    const Ending* ending = host.ending(ticket);
    ASSERT_NE(ending, nullptr);
    ASSERT_TRUE(ending->failure);
    EXPECT_EQ(ending->failure->code, code) << ending->failure->sentence;
    EXPECT_NE(ending->failure->sentence.find(words), std::string::npos)
        << ending->failure->sentence;
}

inline const setup::Established* established(const Host& host, Ticket ticket) {
    const Ending* ending = host.ending(ticket);
    return ending != nullptr && ending->established ? &*ending->established : nullptr;
}

}  // namespace via::ka::test
