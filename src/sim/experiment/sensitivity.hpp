// SPDX-License-Identifier: BSD-3-Clause
// How much the headline figures depend on values that nobody has printed.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "sim/experiment/figures.hpp"

namespace via::sim {

/// What a tenth less and a tenth more of one parameter does to one figure.
struct Influence {
    std::string file;
    KnownParameter parameter;
    bool open = false;  ///< no source was found for it; otherwise only its exact value is unknown
    const Figure* figure = nullptr;
    double model = 0;         ///< with the value as it is
    double less_percent = 0;  ///< change of the figure when the value is a tenth smaller
    double more_percent = 0;  ///< when it is a tenth greater

    [[nodiscard]] double greatest() const;
};

/// Of all values whose origin is `fitted` or `guessed`, except whole numbers such as buffers; those
/// that move a headline figure at all, the greatest influence first.
[[nodiscard]] base::Result<std::vector<Influence>> headline_influences();

}  // namespace via::sim
