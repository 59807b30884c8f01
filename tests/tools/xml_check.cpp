// SPDX-License-Identifier: BSD-3-Clause
#include "xml_check.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace via::tool::test {
namespace {

constexpr std::string_view blanks = " \t\r\n";

std::string_view name_at(std::string_view text) {
    return text.substr(0, text.find_first_of(" \t\r\n/>="));
}

void skip_blanks(std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
}

/// The inside of a tag after its name: name="value" as often as it likes.
std::string attribute_fault(std::string_view text) {
    for (;;) {
        skip_blanks(text);
        if (text.empty()) return "";
        const std::string name(name_at(text));
        text.remove_prefix(name.size());
        skip_blanks(text);
        const bool has_value = text.starts_with('=');
        if (has_value) text.remove_prefix(1);
        skip_blanks(text);
        if (name.empty() || !has_value || (!text.starts_with('"') && !text.starts_with('\'')))
            return "an attribute without a value: " + name;
        const char quote = text.front();
        text.remove_prefix(1);
        const auto end = text.find(quote);
        if (end == std::string_view::npos) return "a value that does not end: " + name;
        if (text.substr(0, end).find('<') != std::string_view::npos) return "a < in " + name;
        text.remove_prefix(end + 1);
    }
}

std::string words_fault(std::string_view text) {
    static constexpr std::array<std::string_view, 5> known{"&amp;", "&lt;", "&gt;", "&quot;",
                                                           "&apos;"};
    for (auto at = text.find('&'); at != std::string_view::npos; at = text.find('&', at + 1)) {
        bool is_known = text.substr(at).starts_with("&#");
        for (const std::string_view each : known)
            is_known = is_known || text.substr(at).starts_with(each);
        if (!is_known) return "a bare &";
    }
    return "";
}

}  // namespace

std::string xml_fault(const std::string& whole) {
    std::string_view text = whole;
    std::vector<std::string> open;
    bool had_root = false;
    if (text.starts_with("<?xml"))
        text.remove_prefix(std::min(text.find("?>"), text.size() - 2) + 2);
    while (!text.empty()) {
        const auto less = text.find('<');
        const std::string_view words = text.substr(0, less);
        if (open.empty() && words.find_first_not_of(blanks) != std::string_view::npos)
            return "words outside of everything";
        if (std::string fault = words_fault(words); !fault.empty()) return fault;
        if (less == std::string_view::npos) break;
        text.remove_prefix(less);
        if (text.starts_with("<!--")) {
            const auto end = text.find("-->");
            if (end == std::string_view::npos) return "a comment that does not end";
            text.remove_prefix(end + 3);
            continue;
        }
        const auto greater = text.find('>');
        if (greater == std::string_view::npos) return "a tag that does not end";
        std::string_view tag = text.substr(1, greater - 1);
        text.remove_prefix(greater + 1);
        if (tag.starts_with("!") || tag.starts_with("?")) continue;
        if (tag.starts_with("/")) {
            if (open.empty() || open.back() != tag.substr(1))
                return "</" + std::string(tag.substr(1)) + "> ends nothing";
            open.pop_back();
            continue;
        }
        const bool closed = tag.ends_with("/");
        if (closed) tag.remove_suffix(1);
        const std::string name(name_at(tag));
        if (name.empty()) return "a tag without a name";
        if (std::string fault = attribute_fault(tag.substr(name.size())); !fault.empty())
            return fault;
        if (open.empty() && had_root) return "a second root, " + name;
        had_root = true;
        if (!closed) open.push_back(name);
    }
    if (!open.empty()) return "<" + open.back() + "> is not closed";
    return had_root ? "" : "nothing";
}

}  // namespace via::tool::test
