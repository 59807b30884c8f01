// SPDX-License-Identifier: BSD-3-Clause
// A message that came right behind another long one belongs to a stream, and whoever waits for it
// may rest. One that may be an answer does not.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "na/net/session_parts.hpp"

namespace via::test {
namespace {

class SessionStream : public testing::Test {
  protected:
    SessionStream() {
        network.run(20 * millisecond, [] { return false; });  // the link is up
        for (std::uint64_t i = 0; i < 4; ++i)
            network.side(1).post_receive(to.part(i * bytes, bytes), to.handle, i);
    }
    void post(std::size_t length) {
        network.side(0).post_send(from.part(0, length), from.handle, std::nullopt, 9);
    }
    /// Until so many messages have come. The most that was said to be missing of one of a stream.
    std::uint64_t missing_until(std::size_t messages) {
        Side& receiver = network.side(1);
        std::uint64_t most = 0;
        network.poll(0);
        EXPECT_TRUE(network.run(1'000 * millisecond, [&] {
            most = std::max(most, receiver.session.missing_of_stream());
            static_cast<void>(receiver.session.take_news());  // as at the end of a poll
            while (receiver.completed(receiver.queues.receive))
                ++come;
            return come == messages;
        }));
        return most;
    }
    static NetworkOptions in_order() {
        NetworkOptions options = options_of(1);
        options.faults.jitter = 0;
        return options;
    }

    static constexpr std::size_t bytes = 200'000;
    SimulatedNetwork network{70, in_order()};
    Memory from{bytes};
    Memory to{4 * bytes};
    std::size_t come = 0;
};

TEST_F(SessionStream, OneMessageAloneIsNone) {
    post(bytes);
    EXPECT_EQ(missing_until(1), 0U);
}

TEST_F(SessionStream, ASecondOneThatWasReadyIs) {
    post(bytes);
    post(bytes);
    const std::uint64_t missing = missing_until(2);
    EXPECT_GT(missing, bytes / 2);
    EXPECT_LT(missing, bytes);
}

TEST_F(SessionStream, ASecondOneThatMayBeAnAnswerIsNot) {
    post(bytes);
    EXPECT_EQ(missing_until(1), 0U);
    post(bytes);
    EXPECT_EQ(missing_until(2), 0U);
}

TEST_F(SessionStream, OneBehindAShortOneIsNot) {
    post(64);
    post(bytes);
    EXPECT_EQ(missing_until(2), 0U);
}

}  // namespace
}  // namespace via::test
