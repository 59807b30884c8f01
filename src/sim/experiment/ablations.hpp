// SPDX-License-Identifier: BSD-3-Clause
// What a mechanism is worth: the model without it must miss a figure of the papers, in a way that
// is stated here. Four statements are older than the model (engines that share, Berkeley VIA
// pipelined, one buffer, a bus without limits); the others were written with its answers known.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "sim/experiment/laboratory.hpp"

namespace via::sim {

struct Ablation {
    std::string_view name;       ///< one word, for scripts
    std::string_view without;    ///< what is taken away
    std::string_view quantity;   ///< what is measured with and without it
    std::string_view unit;       ///< empty: a ratio
    std::string_view statement;  ///< what must then happen
    std::string_view figure;     ///< of the papers, that then fails
    /// Where the quantity must lie with the mechanism, and where without it.
    double with_low;
    double with_high;
    double without_low;
    double without_high;
    /// True: with the mechanism.
    std::function<double(Laboratory&, bool)> question;
};
[[nodiscard]] const std::vector<Ablation>& ablations();

struct AblationResult {
    const Ablation* ablation = nullptr;
    double with = 0;
    double without = 0;

    [[nodiscard]] bool fails_as_stated() const;
};
[[nodiscard]] base::Result<std::vector<AblationResult>> run_ablations(Laboratory& laboratory);

}  // namespace via::sim
