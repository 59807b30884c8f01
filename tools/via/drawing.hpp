// SPDX-License-Identifier: BSD-3-Clause
// A picture of boxes, lines, curves and words, measured in points from the upper left corner. It is
// written as SVG by itself and as PNG by gnuplot, and looks the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace via::tool {

enum class Anchor : std::uint8_t { Start, Middle, End };

struct Spot {
    double x = 0;
    double y = 0;
};

class Drawing {
  public:
    Drawing(double width, double height) : width_(width), height_(height) {}

    /// Colours as "#rrggbb"; the strength is from 0 (nothing) to 1.
    void box(double x, double y, double width, double height, std::string colour,
             double strength = 1);
    void line(double x0, double y0, double x1, double y1, std::string colour);
    /// Dashes: lengths of strokes and gaps, such as "6 3"; empty: none.
    void curve(std::vector<Spot> spots, std::string colour, double width, std::string dashes = {});
    /// Who points at it in a page reads the hint.
    void dot(double x, double y, double radius, std::string colour, std::string hint = {});
    /// The words stand on the line at `y`.
    void words(double x, double y, std::string text, Anchor anchor, double size);

    [[nodiscard]] std::string svg() const;
    /// To stand in a page: no background, words in the page's colour, as wide as there is room.
    /// There colours may also be what the page's style defines, such as "var(--ink)". The title is
    /// for who can not see it.
    [[nodiscard]] std::string svg_in_page(const std::string& title) const;
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
    struct Curve {
        std::vector<Spot> spots;
        std::string colour;
        double width;
        std::string dashes;
    };
    struct Dot {
        double x, y, radius;
        std::string colour;
        std::string hint;
    };
    [[nodiscard]] std::string shapes() const;

    double width_;
    double height_;
    std::vector<Box> boxes_;
    std::vector<Line> lines_;
    std::vector<Curve> curves_;
    std::vector<Dot> dots_;
    std::vector<Words> words_;
};

/// Text as it may stand in XML.
[[nodiscard]] std::string xml_escaped(const std::string& text);

}  // namespace via::tool
