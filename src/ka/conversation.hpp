// SPDX-License-Identifier: BSD-3-Clause
// Talking to the kernel agent over a socket that nobody else uses: reading one message, and asking
// one thing after the other while an attachment is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/message_socket.hpp"
#include "base/result.hpp"
#include "ka/holdings.hpp"
#include "ka/protocol.hpp"

namespace via::ka {

struct AgentMessage {
    Reply reply;
    base::FdList fds;
    bool fds_lost = false;  ///< this process could not take all descriptors
};

/// One message, not waiting. Timeout: nothing is there. ConnectionLost: the agent is gone, and
/// everything it said before has been read.
[[nodiscard]] base::Result<AgentMessage> read_agent_message(const base::UniqueFd& socket);

class Conversation {
  public:
    Conversation(const base::UniqueFd& socket, base::Deadline deadline)
        : socket_(socket), deadline_(deadline) {}

    template <class Body>
    [[nodiscard]] base::Result<AgentMessage> ask(const Body& body, std::span<const int> fds = {}) {
        return ask_encoded(encode(++last_id_, body), fds);
    }
    /// Without waiting for the reply; it is among the unclaimed messages.
    [[nodiscard]] base::Result<void> tell(std::span<const std::byte> message);

    /// Everything that the agent knew of the process, up to RestoreDone.
    [[nodiscard]] base::Result<void> restore(const Holdings& holdings);

    /// What came and was no reply to ask().
    [[nodiscard]] std::deque<AgentMessage>& unclaimed() noexcept { return unclaimed_; }

  private:
    [[nodiscard]] base::Result<AgentMessage> ask_encoded(std::span<const std::byte> message,
                                                         std::span<const int> fds);
    template <class Body>
    [[nodiscard]] base::Result<void> demand(const Body& body, std::span<const int> fds = {}) {
        auto answer = ask(body, fds);
        if (!answer) return std::move(answer).error();
        return {};
    }

    const base::UniqueFd& socket_;
    base::Deadline deadline_;
    std::uint64_t last_id_ = std::uint64_t{1} << 63;  // apart from the ids of the client's calls
    std::deque<AgentMessage> unclaimed_;
};

}  // namespace via::ka
