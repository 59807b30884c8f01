// SPDX-License-Identifier: BSD-3-Clause
// UCX's own measuring program over shared memory (posix) and CMA, both sides pinned.
#pragma once

#include <string>
#include <string_view>

#include "bare/bare_limits.hpp"
#include "probe.hpp"

namespace via::bench {

class Ucx {
  public:
    explicit Ucx(bare::CorePair cores);

    [[nodiscard]] Probe latency(std::size_t bytes) const;
    [[nodiscard]] Probe message_rate(std::size_t bytes) const;
    [[nodiscard]] Probe stream(std::size_t bytes) const;
    [[nodiscard]] std::string version() const;

  private:
    bare::CorePair cores_;
    std::string missing_;
};

/// One column of what ucx_perftest -v prints: a line of names, then a line of numbers. `column_end`
/// is how the column's name ends.
[[nodiscard]] base::Result<double> ucx_column(std::string_view output, std::string_view column_end);

}  // namespace via::bench
