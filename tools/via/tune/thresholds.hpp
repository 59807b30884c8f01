// SPDX-License-Identifier: BSD-3-Clause
// The shm device's thresholds: measured on the device with each path forced, chosen, and measured
// again beside those that hold now.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "tune/device_runs.hpp"
#include "tune/judgement.hpp"

namespace via::tool {

/// The settings that are tuned, as numbers.
struct Thresholds {
    bool inline_frames = true;            ///< VIA_SHM_INLINE
    std::uint64_t chunk_bytes = 0;        ///< VIA_SHM_CHUNK_BYTES
    std::uint64_t kmem_bytes = 0;         ///< VIA_SHM_KMEM_BYTES
    std::uint64_t single_copy_bytes = 0;  ///< VIA_SHM_SINGLE_COPY_BYTES
};
/// Those that hold in this process.
[[nodiscard]] Thresholds current_thresholds();
/// As variables, which override the settings file.
[[nodiscard]] Environment as_environment(const Thresholds& thresholds);

struct TunePlan {
    DeviceRunPlan runs;
    std::uint32_t effect_rounds = 15;
    bool quick = false;
    std::function<void(std::string_view stage, std::size_t steps)> on_stage = [](std::string_view,
                                                                                 std::size_t) {};
};

/// All settings, in the order in which they were studied.
[[nodiscard]] base::Result<std::vector<SettingStudy>> study_thresholds(const Thresholds& now,
                                                                       const TunePlan& plan);

}  // namespace via::tool
