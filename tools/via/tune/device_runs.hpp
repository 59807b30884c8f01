// SPDX-License-Identifier: BSD-3-Clause
// The device itself, measured by the code of `via pingpong` and `via window` under several settings
// in turn. Settings are read once by a process, so each setting and round has its own two.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "cpu_choice.hpp"
#include "terms.hpp"
#include "tune/judgement.hpp"

namespace via::tool {

using Environment = std::vector<std::pair<std::string, std::string>>;  ///< NAME, value

struct DevicePoint {
    MemoryKind memory = MemoryKind::Kmem;
    std::uint64_t bytes = 0;
};

struct DeviceRunPlan {
    std::string device = "shm0";
    CpuPair cpus;
    std::uint32_t rounds = 9;
    double seconds = 0.003;  ///< for each single measurement
    bool fresh = true;       ///< each message is written before it is sent
    std::function<void()> on_step = [] {};
};

/// One setting with the points that it is measured at.
struct DeviceSetting {
    Environment environment;
    std::vector<DevicePoint> points;
};

/// Round by round all settings, in changing order: result[setting][point].
[[nodiscard]] base::Result<std::vector<std::vector<PointCosts>>> measure_in_turn(
    const std::vector<DeviceSetting>& settings, const DeviceRunPlan& plan);

}  // namespace via::tool
