// SPDX-License-Identifier: BSD-3-Clause
// What `via tune` found, for people and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "settings_file.hpp"
#include "tune/judgement.hpp"

namespace via::tool {

/// For each setting the two ways side by side, what follows, and before beside after.
[[nodiscard]] std::string draw_studies(const std::vector<SettingStudy>& studies);
[[nodiscard]] nlohmann::json to_json(const std::vector<SettingStudy>& studies);

/// What is to be stored: accepted changes; with `all` every value that was chosen.
[[nodiscard]] NewSettings values_to_store(const std::vector<SettingStudy>& studies, bool all);

}  // namespace via::tool
