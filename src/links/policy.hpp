// SPDX-License-Identifier: BSD-3-Clause
// Which link takes the next train: the policies of the MNC paper, and one that measures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/clock.hpp"

namespace via::links {

/// What a policy may know of a link.
struct LinkView {
    std::size_t index = 0;
    bool up = false;
    bool short_only = false;      ///< not for bulk
    bool peer_busy = false;       ///< the receiver said that it has packets waiting there
    std::uint32_t room = 0;       ///< bytes that may be sent now
    std::uint32_t in_flight = 0;  ///< bytes sent and not acknowledged
    double rate = 0;              ///< bytes a second as measured; 0: not known
    base::Nanoseconds round_trip = 0;
    base::Nanoseconds least_round_trip = 0;  ///< of an empty link
};

enum class PolicyKind : std::uint8_t {
    Static,    ///< one link, by the connection's number
    OneWay,    ///< some links send, the others receive
    Dynamic,   ///< any free link in turn; if none is free, the busy ones in turn
    Adaptive,  ///< as much for each link as it can carry until all is there
};
[[nodiscard]] std::optional<PolicyKind> policy_named(std::string_view name) noexcept;
[[nodiscard]] const char* name_of(PolicyKind kind) noexcept;

/// What is the same for all choices of a connection.
struct PolicyTerms {
    std::uint64_t connection = 0;
    bool requester = false;  ///< this end asked for the connection
};

/// Where the next piece goes.
struct Choice {
    std::size_t link = 0;
    std::uint64_t bytes = std::numeric_limits<std::uint64_t>::max();  ///< at most
};

class Policy {
  public:
    virtual ~Policy() = default;
    /// For something long, of which `pending` bytes have not been sent yet. Empty: no link now.
    [[nodiscard]] virtual std::optional<Choice> choose(std::span<const LinkView> links,
                                                       std::uint64_t pending) = 0;
    /// The link for something short, where only the time counts.
    [[nodiscard]] virtual std::optional<std::size_t> choose_short(std::span<const LinkView> links);

  private:
    std::optional<std::size_t> last_short_;
};

[[nodiscard]] std::unique_ptr<Policy> make_policy(PolicyKind kind, const PolicyTerms& terms);

}  // namespace via::links
