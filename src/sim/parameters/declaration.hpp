// SPDX-License-Identifier: BSD-3-Clause
// Which parameters a model has: each is declared once, with its unit, its range and its meaning,
// and is a member of the model's structure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "sim/parameters/parameter_text.hpp"

namespace via::sim {

template <class Structure>
struct Declaration {
    std::string_view name;
    std::string_view unit;
    double least;
    double most;
    double Structure::*place;
    std::string_view meaning;
};

/// For people: where a value of the model is from.
struct KnownParameter {
    std::string name;
    double value;
    std::string unit;
    Origin origin;
    std::string reason;
    std::string_view meaning;
};

/// What does not depend on the structure. `line` is null if the file does not have the parameter.
[[nodiscard]] base::Result<double> checked_value(std::string_view file, const ParameterLine* line,
                                                 std::string_view name, std::string_view unit,
                                                 double least, double most);
/// The first line of the file that was not declared, as an error.
[[nodiscard]] base::Result<void> refuse_unknown(std::string_view file, const ParameterLines& lines,
                                                std::span<const std::string_view> declared);

/// All declared parameters, each in its range, and nothing else.
template <class Structure>
[[nodiscard]] base::Result<Structure> read_parameters(
    std::string_view text, std::string_view file,
    std::span<const Declaration<Structure>> declarations,
    std::vector<KnownParameter>* known = nullptr) {
    auto lines = parse_parameters(text, file);
    if (!lines) return std::move(lines).error();
    std::vector<std::string_view> names;
    for (const auto& declared : declarations)
        names.push_back(declared.name);
    if (auto refused = refuse_unknown(file, lines.value(), names); !refused)
        return std::move(refused).error();
    Structure result;
    for (const auto& declared : declarations) {
        const auto found = lines.value().find(declared.name);
        const ParameterLine* line = found == lines.value().end() ? nullptr : &found->second;
        auto value =
            checked_value(file, line, declared.name, declared.unit, declared.least, declared.most);
        if (!value) return std::move(value).error();
        result.*declared.place = value.value();
        if (known != nullptr)
            known->push_back({found->first, value.value(), line->unit, line->origin, line->reason,
                              declared.meaning});
    }
    return result;
}

}  // namespace via::sim
