// SPDX-License-Identifier: BSD-3-Clause
// Looks at the processes when somebody asks, but not more often than is worth it: however many
// browsers watch, they share one look, and without any nothing is done.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lab/lab.hpp"
#include "process_watch.hpp"
#include "web/live.hpp"

namespace via::tool::web {

class LiveWatch {
  public:
    /// This host and, if there is a lab, its hosts.
    explicit LiveWatch(std::optional<lab::Lab> lab);

    /// May be called by any thread.
    [[nodiscard]] std::string live();
    [[nodiscard]] std::string metrics();

  private:
    struct Seat {
        std::string host;  ///< empty: this one
        std::unique_ptr<ProcessWatch> watch;
    };

    void look_if_old();
    [[nodiscard]] HostView look_at(Seat& seat) const;

    std::mutex mutex_;  ///< guards all
    std::optional<lab::Lab> lab_;
    std::vector<Seat> seats_;
    std::vector<HostView> hosts_;
    std::int64_t looked_ns_ = 0;
    std::string live_;  ///< of `hosts_`; empty: not made yet
};

}  // namespace via::tool::web
