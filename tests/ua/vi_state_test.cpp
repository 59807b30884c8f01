// SPDX-License-Identifier: BSD-3-Clause
#include "ua/vi_state.hpp"

#include <gtest/gtest.h>

using namespace via::ua;

namespace {

struct Row {
    ViState from;
    ViEvent event;
    bool allowed;
    ViState to;
    bool flush;
};

// Every state and every event: what is not written here does not exist.
constexpr Row table[] = {
    {ViState::Idle, ViEvent::ConnectStarted, true, ViState::ConnectPending, false},
    {ViState::Idle, ViEvent::ConnectSucceeded, false, ViState::Idle, false},
    {ViState::Idle, ViEvent::ConnectFailed, false, ViState::Idle, false},
    {ViState::Idle, ViEvent::Disconnected, true, ViState::Idle, true},
    {ViState::Idle, ViEvent::ConnectionLost, false, ViState::Idle, false},
    {ViState::ConnectPending, ViEvent::ConnectStarted, false, ViState::ConnectPending, false},
    {ViState::ConnectPending, ViEvent::ConnectSucceeded, true, ViState::Connected, false},
    {ViState::ConnectPending, ViEvent::ConnectFailed, true, ViState::Idle, false},
    {ViState::ConnectPending, ViEvent::Disconnected, true, ViState::Idle, true},
    {ViState::ConnectPending, ViEvent::ConnectionLost, false, ViState::ConnectPending, false},
    {ViState::Connected, ViEvent::ConnectStarted, false, ViState::Connected, false},
    {ViState::Connected, ViEvent::ConnectSucceeded, false, ViState::Connected, false},
    {ViState::Connected, ViEvent::ConnectFailed, false, ViState::Connected, false},
    {ViState::Connected, ViEvent::Disconnected, true, ViState::Idle, true},
    {ViState::Connected, ViEvent::ConnectionLost, true, ViState::Error, true},
    {ViState::Error, ViEvent::ConnectStarted, false, ViState::Error, false},
    {ViState::Error, ViEvent::ConnectSucceeded, false, ViState::Error, false},
    {ViState::Error, ViEvent::ConnectFailed, false, ViState::Error, false},
    {ViState::Error, ViEvent::Disconnected, true, ViState::Idle, true},
    {ViState::Error, ViEvent::ConnectionLost, false, ViState::Error, false},
};
static_assert(std::size(table) == 4 * 5);

TEST(ViState, FollowsTheTable) {
    for (const Row& row : table) {
        const ViTransition step = transition(row.from, row.event);
        SCOPED_TRACE("state " + std::to_string(static_cast<int>(row.from)) + " event " +
                     std::to_string(static_cast<int>(row.event)));
        EXPECT_EQ(step.allowed, row.allowed);
        EXPECT_EQ(step.next, row.to);
        EXPECT_EQ(step.flush, row.flush);
    }
}

TEST(ViState, NamesEveryPairOnce) {
    for (std::size_t i = 0; i < std::size(table); ++i)
        for (std::size_t j = 0; j < i; ++j)
            EXPECT_FALSE(table[i].from == table[j].from && table[i].event == table[j].event);
}

// The only way out of Error, and Idle is the only way back into a connection.
TEST(ViState, LeavesErrorByDisconnectOnly) {
    for (const ViEvent event : {ViEvent::ConnectStarted, ViEvent::ConnectSucceeded,
                                ViEvent::ConnectFailed, ViEvent::ConnectionLost})
        EXPECT_EQ(transition(ViState::Error, event).next, ViState::Error);
    EXPECT_EQ(transition(ViState::Error, ViEvent::Disconnected).next, ViState::Idle);
}

TEST(ViState, DoesNothingOnAnUnknownEvent) {
    const ViTransition step = transition(ViState::Connected, static_cast<ViEvent>(99));
    EXPECT_FALSE(step.allowed);
    EXPECT_EQ(step.next, ViState::Connected);
    EXPECT_FALSE(step.flush);
}

}  // namespace
