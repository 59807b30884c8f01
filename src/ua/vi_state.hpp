// SPDX-License-Identifier: BSD-3-Clause
// The states of a VI, as a pure function. The numbers are VIPL's.
#pragma once

#include <cstdint>

namespace via::ua {

enum class ViState : std::uint8_t { Idle = 0, Connected = 1, ConnectPending = 2, Error = 3 };

enum class ViEvent : std::uint8_t {
    ConnectStarted,  ///< request, accept or peer request
    ConnectSucceeded,
    ConnectFailed,   ///< rejected, timed out, no match, cancelled
    Disconnected,    ///< by this side
    ConnectionLost,  ///< by the peer, by its death, or by an error on a reliable connection
};

struct ViTransition {
    bool allowed;
    ViState next;
    bool flush;  ///< every outstanding descriptor completes
};

[[nodiscard]] constexpr ViTransition transition(ViState state, ViEvent event) noexcept {
    switch (event) {
        case ViEvent::ConnectStarted:
            return {state == ViState::Idle,
                    state == ViState::Idle ? ViState::ConnectPending : state, false};
        case ViEvent::ConnectSucceeded:
            return {state == ViState::ConnectPending,
                    state == ViState::ConnectPending ? ViState::Connected : state, false};
        case ViEvent::ConnectFailed:
            return {state == ViState::ConnectPending,
                    state == ViState::ConnectPending ? ViState::Idle : state, false};
        case ViEvent::Disconnected:
            return {true, ViState::Idle, true};
        case ViEvent::ConnectionLost:
            return {state == ViState::Connected,
                    state == ViState::Connected ? ViState::Error : state,
                    state == ViState::Connected};
    }
    return {false, state, false};
}

}  // namespace via::ua
