// SPDX-License-Identifier: BSD-3-Clause
// A line of the table: what is asked of one or more pairs, and whether it holds.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "group.hpp"
#include "pair.hpp"

namespace via::bench {

/// How a row judges its pairs.
enum class Relation {
    AtMost,   ///< ours ÷ peer (or our value) must not exceed the limit
    AtLeast,  ///< must reach the limit
    Between,  ///< must reach the limit, but not exceed `most`
    Ahead,    ///< every pair's advantage must exceed 1; the row shows the worst
};

struct Row {
    std::string name;
    std::string title;
    Relation relation = Relation::AtMost;
    std::optional<double> must;  ///< none: for information
    std::optional<double> aim;
    std::string must_text;  ///< instead of the number
    std::vector<std::size_t> pairs;
    std::size_t stream_bytes =
        0;  ///< if not 0, message rates are shown as a stream of such messages
    Group group = Group::InHost;
    double most = 0;  ///< Between: the upper limit
};

enum class Verdict { Aim, Pass, Miss, Information, NotMeasured };

struct Judgement {
    Verdict verdict = Verdict::NotMeasured;
    Spread value;              ///< of the deciding pair
    std::size_t deciding = 0;  ///< index of that pair
    std::size_t ahead = 0;     ///< Ahead: pairs that are
    std::string why;           ///< NotMeasured
};

[[nodiscard]] Judgement judge(const Row& row, std::span<const Pair> pairs);

/// By how much ours is better, whatever is better for the quantity: above 1 is ahead.
[[nodiscard]] std::vector<double> advantages(const Pair& pair);

[[nodiscard]] std::string_view verdict_name(Verdict verdict);

}  // namespace via::bench
