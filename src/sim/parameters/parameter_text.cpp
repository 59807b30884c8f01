// SPDX-License-Identifier: BSD-3-Clause
#include "sim/parameters/parameter_text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace via::sim {
namespace {

using base::Error;
using base::Result;

constexpr std::array<std::pair<std::string_view, Origin>, 5> origins{
    {{"paper", Origin::Paper},
     {"source", Origin::Source},
     {"derived", Origin::Derived},
     {"fitted", Origin::Fitted},
     {"guessed", Origin::Guessed}}};

constexpr std::string_view blanks = " \t\r";

std::string_view trimmed(std::string_view text) {
    const auto first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// Takes the next word off the front.
std::string_view next_word(std::string_view& text) {
    text = trimmed(text);
    const auto end = std::min(text.find_first_of(blanks), text.size());
    const std::string_view word = text.substr(0, end);
    text = trimmed(text.substr(end));
    return word;
}

bool is_name(std::string_view text) {
    return !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") ==
                                std::string_view::npos;
}

/// What is wrong is said without the place; the caller knows that.
Result<std::pair<std::string, ParameterLine>> parse_line(std::string_view line) {
    using Parsed = Result<std::pair<std::string, ParameterLine>>;
    const auto complain = [](std::string sentence) {
        return Parsed(base::Code::InvalidArgument, std::move(sentence));
    };
    const auto equals = line.find('=');
    if (equals == std::string_view::npos)
        return complain("expected `name = value unit origin \"reason\"`, got `" +
                        std::string(line) + "`");
    const std::string_view name = trimmed(line.substr(0, equals));
    if (!is_name(name)) return complain("`" + std::string(name) + "` is no name of a parameter");
    std::string_view rest = line.substr(equals + 1);

    const std::string_view number = next_word(rest);
    ParameterLine result;
    const auto [end, failure] =
        std::from_chars(number.data(), number.data() + number.size(), result.value);
    if (failure != std::errc() || end != number.data() + number.size() ||
        !std::isfinite(result.value))
        return complain("the value of " + std::string(name) + " is `" + std::string(number) +
                        "`, which is no number");
    result.unit = next_word(rest);
    if (result.unit.empty()) return complain(std::string(name) + " has no unit");
    const std::string_view origin = next_word(rest);
    bool known = false;
    for (const auto& [text, value] : origins)
        if (text == origin) {
            result.origin = value;
            known = true;
        }
    if (!known)
        return complain("the origin of " + std::string(name) + " is `" + std::string(origin) +
                        "`; it must be paper, source, derived, fitted or guessed");
    if (rest.size() < 3 || rest.front() != '"' || rest.back() != '"')
        return complain(std::string(name) +
                        " has no reason: say in quotes where the value is from");
    result.reason = rest.substr(1, rest.size() - 2);
    return std::pair{std::string(name), std::move(result)};
}

}  // namespace

std::string_view origin_name(Origin origin) noexcept {
    for (const auto& [text, value] : origins)
        if (value == origin) return text;
    return "unknown";
}

Result<ParameterLines> parse_parameters(std::string_view text, std::string_view file) {
    ParameterLines result;
    int number = 0;
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size());
        const std::string_view line = trimmed(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        ++number;
        if (line.empty() || line.front() == '#') continue;
        const std::string place = std::string(file) + ":" + std::to_string(number) + ": ";
        auto parsed = parse_line(line);
        if (!parsed) return Error{parsed.error().code, place + parsed.error().sentence};
        auto& [name, value] = parsed.value();
        value.line = number;
        const auto [where, fresh] = result.emplace(name, std::move(value));
        if (!fresh)
            return Error{base::Code::InvalidArgument, place + name + " has been given in line " +
                                                          std::to_string(where->second.line) +
                                                          " already"};
    }
    return result;
}

}  // namespace via::sim
