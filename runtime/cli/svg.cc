// SPDX-License-Identifier: Apache-2.0
#include "cli/svg.h"

#include "cli/file.h"
#include "cli/text.h"

namespace moert::cli {
namespace {

std::string Escape(std::string_view text) {
  std::string escaped;
  for (const char c : OneLine(text)) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

int Length(std::string_view text) { return static_cast<int>(text.size()); }

}  // namespace

Svg::Svg(double width, double height) {
  body_ = Format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
      "%.0f\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n",
      width, height, width, height);
  Rectangle(0, 0, width, height, "#ffffff");
}

void Svg::Rectangle(double x, double y, double width, double height, std::string_view fill) {
  body_ += Format("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.2f\" fill=\"%.*s\"/>\n", x,
                  y, width, height, Length(fill), fill.data());
}

void Svg::Line(Point from, Point to, std::string_view color, double width, bool dashed) {
  body_ += Format(
      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%.*s\" stroke-width=\"%.1f\""
      "%s/>\n",
      from.first, from.second, to.first, to.second, Length(color), color.data(), width,
      dashed ? " stroke-dasharray=\"5 4\"" : "");
}

void Svg::Polyline(std::span<const Point> points, std::string_view color, double width) {
  body_ += "<polyline points=\"";
  for (const auto& [x, y] : points) body_ += Format("%.1f,%.1f ", x, y);
  body_ += Format("\" fill=\"none\" stroke=\"%.*s\" stroke-width=\"%.1f\"/>\n", Length(color),
                  color.data(), width);
}

void Svg::Circle(Point center, double radius, std::string_view fill) {
  body_ += Format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%.*s\" stroke=\"#ffffff\"/>\n",
                  center.first, center.second, radius, Length(fill), fill.data());
}

void Svg::Text(Point at, double size, Anchor anchor, std::string_view color, std::string_view text,
               bool bold) {
  const char* place = anchor == Anchor::kStart    ? "start"
                      : anchor == Anchor::kMiddle ? "middle"
                                                  : "end";
  body_ += Format(
      "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" text-anchor=\"%s\" "
      "fill=\"%.*s\"%s>%s</text>\n",
      at.first, at.second, size, place, Length(color), color.data(),
      bold ? " font-weight=\"bold\"" : "", Escape(text).c_str());
}

void Svg::VerticalText(Point at, double size, std::string_view color, std::string_view text) {
  body_ += Format(
      "<text transform=\"translate(%.1f %.1f) rotate(-90)\" font-size=\"%.1f\" "
      "text-anchor=\"middle\" fill=\"%.*s\">%s</text>\n",
      at.first, at.second, size, Length(color), color.data(), Escape(text).c_str());
}

Status Svg::Write(const std::string& path) const {
  const std::string_view parts[] = {body_, "</svg>\n"};
  return WriteWholeFile(path, parts);
}

}  // namespace moert::cli
