// SPDX-License-Identifier: BSD-3-Clause
#include "drawing.hpp"

#include <fmt/format.h>

#include <utility>

#include "result_files.hpp"

namespace via::tool {
namespace {

const char* svg_name(Anchor anchor) {
    switch (anchor) {
        case Anchor::Middle:
            return "middle";
        case Anchor::End:
            return "end";
        case Anchor::Start:
            break;
    }
    return "start";
}

const char* gnuplot_name(Anchor anchor) {
    switch (anchor) {
        case Anchor::Middle:
            return "center";
        case Anchor::End:
            return "right";
        case Anchor::Start:
            break;
    }
    return "left";
}

}  // namespace

std::string xml_escaped(const std::string& text) {
    std::string escaped;
    for (const char letter : text) {
        switch (letter) {
            case '&':
                escaped += "&amp;";
                break;
            case '<':
                escaped += "&lt;";
                break;
            case '>':
                escaped += "&gt;";
                break;
            case '"':
                escaped += "&quot;";
                break;
            default:
                escaped += letter;
        }
    }
    return escaped;
}

void Drawing::box(double x, double y, double width, double height, std::string colour,
                  double strength) {
    boxes_.push_back({x, y, width, height, std::move(colour), strength});
}

void Drawing::line(double x0, double y0, double x1, double y1, std::string colour) {
    lines_.push_back({x0, y0, x1, y1, std::move(colour)});
}

void Drawing::curve(std::vector<Spot> spots, std::string colour, double width, std::string dashes) {
    curves_.push_back({std::move(spots), std::move(colour), width, std::move(dashes)});
}

void Drawing::dot(double x, double y, double radius, std::string colour, std::string hint) {
    dots_.push_back({x, y, radius, std::move(colour), std::move(hint)});
}

void Drawing::words(double x, double y, std::string text, Anchor anchor, double size) {
    words_.push_back({x, y, std::move(text), anchor, size});
}

std::string Drawing::svg() const {
    return fmt::format(
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
               "viewBox=\"0 0 {0:g} {1:g}\" font-family=\"sans-serif\">\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
               width_, height_) +
           shapes() + "</svg>\n";
}

std::string Drawing::svg_in_page(const std::string& title) const {
    return fmt::format(
               "<svg viewBox=\"0 0 {:g} {:g}\" role=\"img\" font-family=\"sans-serif\" "
               "fill=\"currentColor\"><title>{}</title>\n",
               width_, height_, xml_escaped(title)) +
           shapes() + "</svg>\n";
}

std::string Drawing::shapes() const {
    std::string text;
    for (const Line& line : lines_)
        text += fmt::format(
            "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n",
            line.x0, line.y0, line.x1, line.y1, line.colour);
    for (const Box& box : boxes_)
        text += fmt::format(
            "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\" "
            "fill-opacity=\"{:g}\"/>\n",
            box.x, box.y, box.width, box.height, box.colour, box.strength);
    for (const Curve& curve : curves_) {
        text += "<polyline points=\"";
        for (const Spot& spot : curve.spots)
            text += fmt::format("{:.1f},{:.1f} ", spot.x, spot.y);
        text += fmt::format("\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:g}\"", curve.colour,
                            curve.width);
        if (!curve.dashes.empty()) text += fmt::format(" stroke-dasharray=\"{}\"", curve.dashes);
        text += "/>\n";
    }
    for (const Dot& dot : dots_) {
        text += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\" fill=\"{}\"", dot.x,
                            dot.y, dot.radius, dot.colour);
        text +=
            dot.hint.empty() ? "/>\n" : "><title>" + xml_escaped(dot.hint) + "</title></circle>\n";
    }
    for (const Words& words : words_)
        text += fmt::format(
            "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\" text-anchor=\"{}\">{}</text>\n",
            words.x, words.y, words.size, svg_name(words.anchor), xml_escaped(words.text));
    return text;
}

std::string Drawing::gnuplot_script(const std::string& png_path) const {
    std::string script = fmt::format(
        "set terminal pngcairo size {0:.0f},{1:.0f} noenhanced font \"sans,9\"\n"
        "set output {2}\n"
        "unset border\nunset tics\nunset key\n"
        "set lmargin 0\nset rmargin 0\nset tmargin 0\nset bmargin 0\n"
        "set xrange [0:{0:.0f}]\nset yrange [{1:.0f}:0]\n",
        width_, height_, gnuplot_quoted(png_path));
    for (const Line& line : lines_)
        script +=
            fmt::format("set arrow from {:.1f},{:.1f} to {:.1f},{:.1f} nohead back lc rgb \"{}\"\n",
                        line.x0, line.y0, line.x1, line.y1, line.colour);
    for (const Box& box : boxes_)
        script += fmt::format(
            "set object rectangle from {:.2f},{:.1f} to {:.2f},{:.1f} front fc rgb \"{}\" "
            "fs transparent solid {:g} noborder\n",
            box.x, box.y, box.x + box.width, box.y + box.height, box.colour, box.strength);
    for (const Curve& curve : curves_) {
        for (std::size_t next = 1; next < curve.spots.size(); ++next) {
            const Spot& from = curve.spots[next - 1];
            const Spot& to = curve.spots[next];
            script += fmt::format(
                "set arrow from {:.1f},{:.1f} to {:.1f},{:.1f} nohead front lw {:g} lc rgb "
                "\"{}\"{}\n",
                from.x, from.y, to.x, to.y, curve.width, curve.colour,
                curve.dashes.empty() ? "" : " dashtype 2");
        }
    }
    for (const Dot& dot : dots_)
        script += fmt::format(
            "set object circle at {:.1f},{:.1f} size {:g} front fc rgb \"{}\" fs solid noborder\n",
            dot.x, dot.y, dot.radius, dot.colour);
    // gnuplot sets words around their middle, and counts a point as more than a pixel.
    for (const Words& words : words_)
        script += fmt::format("set label {} at {:.1f},{:.1f} {} front font \"sans,{:.1f}\"\n",
                              gnuplot_quoted(words.text), words.x, words.y - words.size * 0.35,
                              gnuplot_name(words.anchor), words.size * 0.75);
    return script + "plot NaN notitle\n";
}

}  // namespace via::tool
