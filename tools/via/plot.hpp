// SPDX-License-Identifier: BSD-3-Clause
// A small plotter for the terminal: curves over two logarithmic axes, lines in braille dots (each
// character cell is 2 by 4 of them), measured points as symbols.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace via::tool {

/// A raster of dots, two columns and four rows to a character.
class BrailleCanvas {
  public:
    BrailleCanvas(std::size_t columns, std::size_t rows);

    [[nodiscard]] std::size_t dot_width() const { return columns_ * 2; }
    [[nodiscard]] std::size_t dot_height() const { return rows_ * 4; }
    /// Dots outside are left out. Row 0 is the top.
    void set(std::ptrdiff_t x, std::ptrdiff_t y, std::uint8_t ink);
    void line(std::ptrdiff_t x0, std::ptrdiff_t y0, std::ptrdiff_t x1, std::ptrdiff_t y1,
              std::uint8_t ink);
    /// Puts a character over the dots of the cell that holds this dot; over another one an
    /// asterisk. True: it was such a meeting.
    bool mark(std::ptrdiff_t x, std::ptrdiff_t y, std::string symbol, std::uint8_t ink);

    /// The characters of one row; with `colour` each in the colour of its last ink.
    [[nodiscard]] std::string row(std::size_t index, bool colour) const;

  private:
    struct Cell {
        std::uint8_t dots = 0;
        std::uint8_t ink = 0;
        std::string symbol;
    };
    [[nodiscard]] Cell* cell_at(std::ptrdiff_t x, std::ptrdiff_t y);
    std::size_t columns_;
    std::size_t rows_;
    std::vector<Cell> cells_;
};

struct PlotPoint {
    double x = 0;
    double y = 0;
};

struct PlotSeries {
    std::string name;
    std::string symbol;  ///< one character for the points; empty: only the line
    std::vector<PlotPoint> points;
};

struct PlotOptions {
    std::string title;
    std::string x_title;
    std::size_t columns = 64;  ///< of the area inside the axes
    std::size_t rows = 14;
    bool colour = false;
    bool x_is_bytes = true;  ///< labels such as 4k instead of 4096
};

/// Points that are not positive and finite cannot lie on logarithmic axes and are left out.
[[nodiscard]] std::string draw_plot(const std::vector<PlotSeries>& series,
                                    const PlotOptions& options);

}  // namespace via::tool
