// SPDX-License-Identifier: Apache-2.0
// A small SVG writer: shapes and text at pixel positions, for the pictures of bench and forward.
#ifndef MOERT_CLI_SVG_H_
#define MOERT_CLI_SVG_H_

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cli/status.h"

namespace moert::cli {

class Svg {
 public:
  enum class Anchor { kStart, kMiddle, kEnd };
  using Point = std::pair<double, double>;

  Svg(double width, double height);

  void Rectangle(double x, double y, double width, double height, std::string_view fill);
  void Line(Point from, Point to, std::string_view color, double width, bool dashed = false);
  void Polyline(std::span<const Point> points, std::string_view color, double width);
  void Circle(Point center, double radius, std::string_view fill);
  // `y` is the baseline; `bold` is for titles.
  void Text(Point at, double size, Anchor anchor, std::string_view color, std::string_view text,
            bool bold = false);
  // Turned to read from bottom to top.
  void VerticalText(Point at, double size, std::string_view color, std::string_view text);

  Status Write(const std::string& path) const;

 private:
  std::string body_;
};

constexpr std::string_view kInk = "#222222";
constexpr std::string_view kMutedInk = "#666666";
constexpr std::string_view kGrid = "#dddddd";

}  // namespace moert::cli

#endif  // MOERT_CLI_SVG_H_
