// SPDX-License-Identifier: BSD-3-Clause
// The simulator behind the page: what can be chosen, one run as a timeline, and curves over sizes
// with the points that the papers print. Only what the catalogue names is simulated: a browser can
// name no files.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.hpp"

namespace via::tool::web {

using Query = std::multimap<std::string, std::string>;

class Simulator {
  public:
    static constexpr std::uint64_t most_bytes = 1U << 20;
    static constexpr std::uint64_t most_messages = 32;
    static constexpr std::size_t most_stages = 4000;

    [[nodiscard]] nlohmann::json catalogue() const;

    // One at a time. InvalidArgument: the query is at fault, and the sentence says how; Timeout:
    // others' runs took too long.

    /// machine, nic, firmware, bytes and, for streams, messages and clock.
    [[nodiscard]] base::Result<nlohmann::json> run(const Query& query);
    /// machine, nic, firmware and, for streams, clock.
    [[nodiscard]] base::Result<nlohmann::json> curves(const Query& query);

  private:
    std::timed_mutex turn_;
    std::map<std::string, nlohmann::json> answered_;  ///< curves, by what they are of
};

}  // namespace via::tool::web
