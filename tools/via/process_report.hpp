// SPDX-License-Identifier: BSD-3-Clause
// A process as `via stat` and the page of `via web` show it: its counters, and what it did since
// the last look.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "process_watch.hpp"

namespace via::tool {

/// One process now and, if it was there before, what it did since.
struct ReportedProcess : WatchedProcess {
    std::optional<Rates> total_rates;
    std::optional<MessageRates> message_rates;
    std::map<std::size_t, Rates> vi_rates;  ///< by slot
};
[[nodiscard]] ReportedProcess with_rates(WatchedProcess watched);

/// Of a VI, or of several together.
[[nodiscard]] nlohmann::json counters_json(const ViSnapshot& vi);
[[nodiscard]] nlohmann::json rates_json(const Rates& rates);
/// The one form of a process in JSON. `most_vis`: more of its VIs are only counted
/// ("vis_left_out").
[[nodiscard]] nlohmann::json process_json(const ReportedProcess& process,
                                          std::size_t most_vis = base::CountersPage::vi_slots);

}  // namespace via::tool
