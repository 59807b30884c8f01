// SPDX-License-Identifier: BSD-3-Clause
// The papers' mechanisms, each with the setting that takes it away from the real stack and the
// measurement that shows what it is worth.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace via::tool {

/// What measures it: `via pingpong` and `via window` with VIPL, fi_pingpong for messages.
enum class Yardstick : std::uint8_t { OneWay, Stream, FabricOneWay };

/// Where: two cores of this host, or two hosts of a lab with links of these rates.
struct AblationPlace {
    std::vector<std::string> link_rates;  ///< one for each link, as `via lab rate` takes it
    [[nodiscard]] bool lab() const noexcept { return !link_rates.empty(); }
};

struct MechanismSwitch {
    std::string_view name;       ///< for --only
    std::string_view paper;      ///< MyVIA, MVICH or MNC
    std::string_view mechanism;  ///< in a few words
    std::string_view measure;    ///< what is measured, for people
    Yardstick yardstick;
    AblationPlace place;
    std::vector<std::string> arguments;       ///< of the measurement, both ways
    std::vector<std::string> with_arguments;  ///< only with the mechanism
    std::vector<std::string> without_arguments;
    std::vector<std::string> without_settings;  ///< "NAME=value"
    std::vector<std::string> settings{};        ///< both ways
};

[[nodiscard]] const std::vector<MechanismSwitch>& mechanism_switches();

/// The figure in what a measurement printed: microseconds, or megabytes or messages a second.
[[nodiscard]] base::Result<double> measured_figure(Yardstick yardstick, std::string_view output);
[[nodiscard]] std::string_view figure_unit(Yardstick yardstick) noexcept;

/// Both ways, measured in turn.
struct AblationValues {
    std::vector<double> with;
    std::vector<double> without;
};

struct AblationVerdict {
    double with = 0;  ///< medians
    double without = 0;
    double worth = 0;   ///< how many times better with it
    double lowest = 0;  ///< of the pairs that were measured one after the other
    double highest = 0;
    bool clear = false;  ///< every pair says the same
};

/// Equally many of both, at least one.
[[nodiscard]] AblationVerdict judge(Yardstick yardstick, const AblationValues& values);

[[nodiscard]] nlohmann::json to_json(const MechanismSwitch& mechanism,
                                     const AblationValues& values);

}  // namespace via::tool
