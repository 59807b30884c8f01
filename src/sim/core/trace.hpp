// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "sim/core/time.hpp"

namespace via::sim {

/// What was done where, from when to when: a bar of a Gantt chart.
struct Span {
    Time begin;
    Time end;
    std::string_view lane;   ///< usually a resource
    std::string_view label;  ///< what was done
    std::uint64_t message;   ///< for which message

    bool operator==(const Span&) const = default;
};

/// Records the spans of a simulation that it is attached to, in the order in which they end.
class Trace {
  public:
    Trace() = default;
    Trace(const Trace&) = delete;
    Trace& operator=(const Trace&) = delete;

    /// The names are copied.
    void record(const Span& span);
    /// Their names live as long as the trace.
    [[nodiscard]] const std::vector<Span>& spans() const noexcept { return spans_; }
    void clear() noexcept { spans_.clear(); }

  private:
    struct Hash : std::hash<std::string_view> {
        using is_transparent = void;  // NOLINT: the library's name
    };

    [[nodiscard]] std::string_view own(std::string_view name);

    std::unordered_set<std::string, Hash, std::equal_to<>> names_;
    std::vector<Span> spans_;
};

}  // namespace via::sim
