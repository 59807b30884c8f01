// SPDX-License-Identifier: BSD-3-Clause
#include "size_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <utility>

namespace via::tool {
namespace {

constexpr std::uint64_t kilo = 1024;

constexpr std::array<std::pair<char, std::uint64_t>, 3> size_suffixes{
    {{'g', kilo* kilo* kilo}, {'m', kilo* kilo}, {'k', kilo}}};

base::Error bad_size(std::string_view text, std::string_view why) {
    return {
        base::Code::InvalidArgument,
        fmt::format("'{}' is not a size: {}; write a whole number such as 8, 4k or 1m", text, why)};
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (;;) {
        const std::size_t end = text.find(separator);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return parts;
        text.remove_prefix(end + 1);
    }
}

base::Result<void> append_range(std::string_view text, std::vector<std::uint64_t>& sizes) {
    const std::vector<std::string_view> parts = split(text, ':');
    if (parts.size() > 3) return bad_size(text, "a range is FIRST:LAST or FIRST:LAST:FACTOR");
    const auto first = parse_size(parts[0]);
    if (!first) return first.error();
    const auto last = parse_size(parts[1]);
    if (!last) return last.error();
    std::uint64_t factor = 2;
    if (parts.size() == 3) {
        const auto given = parse_size(parts[2]);
        if (!given) return given.error();
        factor = given.value();
    }
    if (first.value() == 0) return bad_size(text, "a range cannot start at 0");
    if (factor < 2) return bad_size(text, "the factor of a range must be at least 2");
    if (last.value() < first.value()) return bad_size(text, "a range must go upwards");
    for (std::uint64_t size = first.value(); size <= last.value();) {
        sizes.push_back(size);
        if (size > std::numeric_limits<std::uint64_t>::max() / factor) break;
        size *= factor;
    }
    return {};
}

}  // namespace

base::Result<std::uint64_t> parse_size(std::string_view text) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc::result_out_of_range) return bad_size(text, "it is too large");
    if (error != std::errc{}) return bad_size(text, "it does not start with a digit");
    std::string suffix(end, text.data() + text.size());
    std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    if (suffix.empty() || suffix == "b") return number;
    for (const auto& [letter, factor] : size_suffixes) {
        const std::string unit(1, letter);
        if (suffix != unit && suffix != unit + "b" && suffix != unit + "ib") continue;
        if (number > std::numeric_limits<std::uint64_t>::max() / factor)
            return bad_size(text, "it is too large");
        return number * factor;
    }
    return bad_size(text, "the suffix is not k, m or g");
}

base::Result<std::vector<std::uint64_t>> parse_size_list(std::string_view text) {
    std::vector<std::uint64_t> sizes;
    for (const std::string_view part : split(text, ',')) {
        if (part.find(':') != std::string_view::npos) {
            if (auto done = append_range(part, sizes); !done) return std::move(done).error();
        } else {
            const auto size = parse_size(part);
            if (!size) return size.error();
            sizes.push_back(size.value());
        }
        if (sizes.size() > max_sizes)
            return bad_size(text, fmt::format("it names more than {} sizes", max_sizes));
    }
    return sizes;
}

std::string format_size(std::uint64_t bytes) {
    for (const auto& [letter, factor] : size_suffixes)
        if (bytes != 0 && bytes % factor == 0) return fmt::format("{}{}", bytes / factor, letter);
    return fmt::format("{}", bytes);
}

}  // namespace via::tool
