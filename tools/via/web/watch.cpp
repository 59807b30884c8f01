// SPDX-License-Identifier: BSD-3-Clause
#include "web/watch.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.hpp"
#include "lab/names.hpp"
#include "web/metrics.hpp"

namespace via::tool::web {
namespace {

/// The page asks every 450 ms; a little less, so that it never finds what it has seen already.
constexpr std::int64_t least_interval_ns = 350'000'000;

}  // namespace

LiveWatch::LiveWatch(std::optional<lab::Lab> lab) : lab_(std::move(lab)) {
    seats_.push_back({{}, std::make_unique<ProcessWatch>("")});
    if (!lab_) return;
    for (unsigned host = 0; host < lab_->options().hosts; ++host)
        seats_.push_back({lab::host_name(host), std::make_unique<ProcessWatch>("")});
}

HostView LiveWatch::look_at(Seat& seat) const {
    HostView view;
    view.name = seat.host;
    std::optional<base::Result<std::vector<WatchedProcess>>> seen;
    const auto look = [&] { seen.emplace(seat.watch->look()); };
    if (seat.host.empty()) {
        look();
    } else if (const auto entered = lab_->in_host(seat.host, look); !entered) {
        view.problem = entered.error().sentence;
        return view;
    }
    if (!*seen) {
        if (!no_agent(seen->error())) view.problem = seen->error().sentence;
        return view;
    }
    view.agent = seat.watch->agent();
    for (WatchedProcess& process : seen->value())
        view.processes.push_back(with_rates(std::move(process)));
    return view;
}

void LiveWatch::look_if_old() {
    const std::int64_t now = base::monotonic_now();
    if (looked_ns_ != 0 && now - looked_ns_ < least_interval_ns) return;
    looked_ns_ = now;
    hosts_.clear();
    live_.clear();
    for (Seat& seat : seats_)
        hosts_.push_back(look_at(seat));
}

std::string LiveWatch::live() {
    const std::lock_guard guard(mutex_);
    look_if_old();
    if (live_.empty())
        live_ = live_json(hosts_, base::wall_now() / 1'000'000)
                    .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return live_;
}

std::string LiveWatch::metrics() {
    const std::lock_guard guard(mutex_);
    look_if_old();
    return metrics_text(hosts_);
}

}  // namespace via::tool::web
