// SPDX-License-Identifier: BSD-3-Clause
#include "sim/parameters/declaration.hpp"

#include <algorithm>
#include <cstdio>

namespace via::sim {
namespace {

std::string text_of(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}

}  // namespace

base::Result<double> checked_value(std::string_view file, const ParameterLine* line,
                                   std::string_view name, std::string_view unit, double least,
                                   double most) {
    const auto complain = [&](const std::string& sentence) {
        std::string place(file);
        if (line != nullptr) place += ":" + std::to_string(line->line);
        return base::Result<double>(base::Code::InvalidArgument, place + ": " + sentence);
    };
    const std::string quoted(name);
    if (line == nullptr)
        return complain(quoted + " is missing; expected `" + quoted + " = value " +
                        std::string(unit) + " origin \"reason\"`");
    if (line->unit != unit)
        return complain(quoted + " is given in `" + line->unit + "`; its unit is " +
                        std::string(unit));
    if (line->value < least || line->value > most)
        return complain(quoted + " is " + text_of(line->value) + " " + std::string(unit) +
                        "; it must be from " + text_of(least) + " to " + text_of(most));
    return line->value;
}

base::Result<void> refuse_unknown(std::string_view file, const ParameterLines& lines,
                                  std::span<const std::string_view> declared) {
    const std::pair<const std::string, ParameterLine>* first = nullptr;
    for (const auto& entry : lines) {
        if (std::find(declared.begin(), declared.end(), entry.first) != declared.end()) continue;
        if (first == nullptr || entry.second.line < first->second.line) first = &entry;
    }
    if (first == nullptr) return {};
    return base::Result<void>(base::Code::InvalidArgument,
                              std::string(file) + ":" + std::to_string(first->second.line) +
                                  ": there is no parameter " + first->first);
}

}  // namespace via::sim
