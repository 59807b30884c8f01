// SPDX-License-Identifier: BSD-3-Clause
// A picture of boxes, lines and words, measured in points from the upper left corner. It is written
// as SVG by itself and as PNG by gnuplot, and looks the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace via::tool {

enum class Anchor : std::uint8_t { Start, Middle, End };

class Drawing {
  public:
    Drawing(double width, double height) : width_(width), height_(height) {}

    /// Colours as "#rrggbb"; the strength is from 0 (nothing) to 1.
    void box(double x, double y, double width, double height, std::string colour,
             double strength = 1);
    void line(double x0, double y0, double x1, double y1, std::string colour);
    /// The words stand on the line at `y`.
    void words(double x, double y, std::string text, Anchor anchor, double size);

    [[nodiscard]] std::string svg() const;
    [[nodiscard]] std::string gnuplot_script(const std::string& png_path) const;

  private:
    struct Box {
        double x, y, width, height;
        std::string colour;
        double strength;
    };
    struct Line {
        double x0, y0, x1, y1;
        std::string colour;
    };
    struct Words {
        double x, y;
        std::string text;
        Anchor anchor;
        double size;
    };
    double width_;
    double height_;
    std::vector<Box> boxes_;
    std::vector<Line> lines_;
    std::vector<Words> words_;
};

/// Text as it may stand in XML.
[[nodiscard]] std::string xml_escaped(const std::string& text);

}  // namespace via::tool
