// SPDX-License-Identifier: BSD-3-Clause
// MNC: which of several links carries the next message. A NIC is BUSY while it fetches from its
// host or receives, else FREE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace via::sim {

enum class LinkPolicy : std::uint8_t {
    Static,  ///< a process is bound to one link
    OneWay,  ///< half of the links only send, the others only receive
    Dynamic  ///< any link for anything; a free one is taken
};
[[nodiscard]] std::optional<LinkPolicy> link_policy(std::string_view name);

class LinkChoice {
  public:
    LinkChoice(LinkPolicy policy, std::size_t links) : policy_(policy), links_(links) {}

    /// May this policy cut a long message? Then the other side's state is asked for first.
    [[nodiscard]] bool cuts() const noexcept {
        return policy_ == LinkPolicy::Dynamic && links_ > 1;
    }
    /// For a short message: one link. `busy` is the state of this side's.
    [[nodiscard]] std::size_t for_short(std::uint32_t process, const std::vector<bool>& busy);
    /// For a long one: all that are free at both sides, or one that is not.
    [[nodiscard]] std::vector<std::size_t> for_long(std::uint32_t process,
                                                    const std::vector<bool>& busy,
                                                    const std::vector<bool>& busy_there);

  private:
    [[nodiscard]] std::size_t next_in_turn() noexcept { return turn_++ % links_; }

    LinkPolicy policy_;
    std::size_t links_;
    std::size_t turn_ = 0;
};

}  // namespace via::sim
