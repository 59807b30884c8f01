// SPDX-License-Identifier: BSD-3-Clause
#include "text_table.hpp"

#include <algorithm>
#include <array>

namespace via::tool {
namespace {

bool is_continuation(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// Bytes of the well-formed, printable character at the start of `text`; 0 if there is none.
std::size_t character_bytes(std::string_view text) {
    const auto byte_at = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
    const unsigned char first = byte_at(0);
    if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
    std::size_t bytes = 0;
    std::uint32_t code = 0;
    if ((first & 0xE0) == 0xC0) {
        bytes = 2;
        code = first & 0x1FU;
    } else if ((first & 0xF0) == 0xE0) {
        bytes = 3;
        code = first & 0x0FU;
    } else if ((first & 0xF8) == 0xF0) {
        bytes = 4;
        code = first & 0x07U;
    } else {
        return 0;
    }
    if (text.size() < bytes) return 0;
    for (std::size_t i = 1; i < bytes; ++i) {
        if (!is_continuation(text[i])) return 0;
        code = code << 6 | (byte_at(i) & 0x3FU);
    }
    constexpr std::array<std::uint32_t, 5> shortest{0, 0, 0x80, 0x800, 0x10000};
    const bool overlong = code < shortest[bytes];
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    const bool control = code >= 0x80 && code < 0xA0;  // terminals obey these too
    const bool direction = (code >= 0x200B && code <= 0x200F) ||
                           (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
    return overlong || surrogate || control || direction || code > 0x10FFFF ? 0 : bytes;
}

std::string pad(const std::string& text, std::size_t width, Align align) {
    const std::size_t own = screen_width(text);
    const std::string blanks(width > own ? width - own : 0, ' ');
    return align == Align::Left ? text + blanks : blanks + text;
}

}  // namespace

void TextTable::add_column(std::string title, Align align) {
    columns_.push_back({std::move(title), align});
}

void TextTable::add_row(std::vector<std::string> cells) {
    cells.resize(columns_.size());
    rows_.push_back(std::move(cells));
}

std::string TextTable::draw(std::string_view indent) const {
    std::vector<std::size_t> widths;
    for (std::size_t column = 0; column < columns_.size(); ++column) {
        std::size_t width = screen_width(columns_[column].title);
        for (const auto& row : rows_)
            width = std::max(width, screen_width(row[column]));
        widths.push_back(width);
    }
    std::string text;
    const auto add_line = [&](const auto& cell_of) {
        std::string line(indent);
        for (std::size_t column = 0; column < columns_.size(); ++column) {
            if (column != 0) line += "  ";
            line += pad(cell_of(column), widths[column], columns_[column].align);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    };
    add_line([&](std::size_t column) { return columns_[column].title; });
    for (const auto& row : rows_)
        add_line([&](std::size_t column) { return row[column]; });
    return text;
}

std::size_t screen_width(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char byte) { return !is_continuation(byte); }));
}

std::string_view clip(std::string_view text, std::size_t columns) {
    std::size_t end = 0;
    while (end < text.size()) {
        if (!is_continuation(text[end])) {
            if (columns == 0) break;
            --columns;
        }
        ++end;
    }
    return text.substr(0, end);
}

std::string printable(std::string_view text) {
    std::string result;
    while (!text.empty()) {
        const std::size_t bytes = character_bytes(text);
        if (bytes == 0)
            result += '?';
        else
            result += text.substr(0, bytes);
        text.remove_prefix(std::max<std::size_t>(bytes, 1));
    }
    return result;
}

}  // namespace via::tool
