// SPDX-License-Identifier: BSD-3-Clause
// Columns of text that line up, also with characters that take several bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace via::tool {

enum class Align { Left, Right };

class TextTable {
  public:
    void add_column(std::string title, Align align = Align::Right);
    /// Missing cells are empty, further ones are left out.
    void add_row(std::vector<std::string> cells);
    [[nodiscard]] std::string draw(std::string_view indent = "") const;

  private:
    struct Column {
        std::string title;
        Align align;
    };
    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

/// Columns on the screen of UTF-8 text without control characters, one a code point.
[[nodiscard]] std::size_t screen_width(std::string_view text);

/// The first `columns` code points.
[[nodiscard]] std::string_view clip(std::string_view text, std::size_t columns);

/// A share of text that may come from anywhere: control characters and broken UTF-8 become '?'.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace via::tool
