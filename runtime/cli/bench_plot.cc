// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_plot.h"

#include <algorithm>
#include <cmath>

#include "cli/svg.h"
#include "cli/text.h"

namespace moert::cli {
namespace {

// Told apart by most people with a colour deficiency (Okabe and Ito).
constexpr std::string_view kColors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                        "#e69f00", "#56b4e9", "#000000"};
constexpr double kWidth = 1120, kTop = 96, kPanelHeight = 340, kLegendLine = 20;

std::string_view ColorOf(size_t series) { return kColors[series % std::size(kColors)]; }

// One panel and its axes; positions are in pixels.
struct Panel {
  double left, width;
  double x_min, x_max, y_min, y_max;
  bool log_y;

  double Share(double value, double low, double high, bool log) const {
    return log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  }
  double X(double value) const { return left + width * Share(value, x_min, x_max, true); }
  double Y(double value) const {
    return kTop + kPanelHeight * (1 - Share(value, y_min, y_max, log_y));
  }
};

std::string Short(double value) {
  if (value >= 1e6) return Format("%gM", value / 1e6);
  return value >= 1e4 ? Format("%gk", value / 1e3) : Format("%g", value);
}

void DrawX(Svg& svg, const Panel& panel, double value, const std::string& label) {
  const double x = panel.X(value);
  svg.Line({x, kTop}, {x, kTop + kPanelHeight}, kGrid, 1);
  svg.Text({x, kTop + kPanelHeight + 18}, 12, Svg::Anchor::kMiddle, kMutedInk, label);
}

void DrawY(Svg& svg, const Panel& panel, double value, const std::string& label) {
  const double y = panel.Y(value);
  svg.Line({panel.left, y}, {panel.left + panel.width, y}, kGrid, 1);
  svg.Text({panel.left - 8, y + 4}, 12, Svg::Anchor::kEnd, kMutedInk, label);
}

void DrawNames(Svg& svg, const Panel& panel, const char* title, const char* x, const char* y) {
  svg.Text({panel.left, kTop - 14}, 14, Svg::Anchor::kStart, kInk, title, true);
  svg.Text({panel.left + panel.width / 2, kTop + kPanelHeight + 40}, 13, Svg::Anchor::kMiddle, kInk,
           x);
  svg.VerticalText({panel.left - 46, kTop + kPanelHeight / 2}, 13, kInk, y);
}

double Intensity(const PlotPoint& point) { return point.flops / point.bytes; }
double Gflops(const PlotPoint& point) { return point.flops / point.seconds / 1e9; }

// Share of the ceiling that binds at this point: the time that the ceilings allow over the time
// taken.
double ShareOfCeiling(const BenchPlot& plot, const PlotPoint& point) {
  const double allowed = std::max(point.bytes / plot.memory_gbps, point.flops / plot.gflops) / 1e9;
  return allowed / point.seconds;
}

void DrawSeries(Svg& svg, std::span<const Svg::Point> points, size_t series) {
  svg.Polyline(points, ColorOf(series), 2.5);
  for (const Svg::Point& point : points) svg.Circle(point, 4.5, ColorOf(series));
}

void DrawShares(Svg& svg, const BenchPlot& plot) {
  double least = 1e300, most = 0, top = 1;
  std::vector<double> ticks;
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) {
      const auto tokens = static_cast<double>(point.tokens);
      least = std::min(least, tokens);
      most = std::max(most, tokens);
      top = std::max(top, ShareOfCeiling(plot, point));
      if (std::find(ticks.begin(), ticks.end(), tokens) == ticks.end()) ticks.push_back(tokens);
    }
  }
  const Panel panel = {78, 430, least / 1.4, most * 1.4, 0, top * 1.04, false};
  for (int percent = 0; percent <= top * 100; percent += top > 2 ? 100 : 20) {
    DrawY(svg, panel, percent / 100.0, Format("%d %%", percent));
  }
  std::sort(ticks.begin(), ticks.end());
  double last = -100;
  for (const double tick : ticks) {
    if (panel.X(tick) - last < 34) continue;  // its number would run into the last one
    last = panel.X(tick);
    DrawX(svg, panel, tick, Short(tick));
  }
  svg.Line({panel.left, panel.Y(1)}, {panel.left + panel.width, panel.Y(1)}, kInk, 1.5, true);
  DrawNames(svg, panel, "Share of the ceiling that binds", "tokens", "share");
  for (size_t i = 0; i < plot.series.size(); ++i) {
    std::vector<Svg::Point> points;
    for (const PlotPoint& point : plot.series[i].points) {
      points.emplace_back(panel.X(static_cast<double>(point.tokens)),
                          panel.Y(ShareOfCeiling(plot, point)));
    }
    DrawSeries(svg, points, i);
  }
}

// The lowest and highest powers of ten around the values.
std::pair<double, double> Decades(double low, double high) {
  return {std::pow(10, std::floor(std::log10(low))), std::pow(10, std::ceil(std::log10(high)))};
}

void DrawRoofline(Svg& svg, const BenchPlot& plot) {
  const double ridge = plot.gflops / plot.memory_gbps;  // flops a byte where the two ceilings meet
  double x_low = ridge / 2, x_high = ridge * 2, y_low = plot.gflops;
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) {
      x_low = std::min(x_low, Intensity(point) / 1.5);
      x_high = std::max(x_high, Intensity(point) * 1.5);
      y_low = std::min(y_low, Gflops(point) / 1.5);
    }
  }
  const auto [x_min, x_max] = Decades(x_low, x_high);
  const auto [y_min, y_max] = Decades(y_low, plot.gflops * 1.2);
  const Panel panel = {640, 430, x_min, x_max, y_min, y_max, true};
  for (double x = x_min; x < x_max * 1.01; x *= 10) DrawX(svg, panel, x, Short(x));
  for (double y = y_min; y < y_max * 1.01; y *= 10) DrawY(svg, panel, y, Short(y));
  // The roof: memory on the left of the ridge, arithmetic on its right.
  const double start = std::max(x_min, y_min / plot.memory_gbps);
  const Svg::Point roof[] = {{panel.X(start), panel.Y(start * plot.memory_gbps)},
                             {panel.X(ridge), panel.Y(plot.gflops)},
                             {panel.X(x_max), panel.Y(plot.gflops)}};
  svg.Polyline(roof, kInk, 1.5);
  svg.Text({panel.left + panel.width - 6, panel.Y(plot.gflops) - 8}, 12, Svg::Anchor::kEnd, kInk,
           Format("%.0f GFLOP/s", plot.gflops));
  svg.Text({panel.left + 10, kTop + 18}, 12, Svg::Anchor::kStart, kInk,
           Format("slope: %s %.1f GB/s", plot.memory_name.c_str(), plot.memory_gbps));
  DrawNames(svg, panel, "Roofline", "operations a byte", "GFLOP/s");
  for (size_t i = 0; i < plot.series.size(); ++i) {
    std::vector<Svg::Point> points;
    for (const PlotPoint& point : plot.series[i].points) {
      points.emplace_back(panel.X(Intensity(point)), panel.Y(Gflops(point)));
    }
    DrawSeries(svg, points, i);
  }
}

}  // namespace

Status WriteBenchPlot(const std::string& path, const BenchPlot& plot) {
  const double legend = kTop + kPanelHeight + 72;
  Svg svg(kWidth, legend + kLegendLine * static_cast<double>(plot.series.size()));
  svg.Text({30, 32}, 18, Svg::Anchor::kStart, kInk, plot.title, true);
  svg.Text({30, 54}, 13, Svg::Anchor::kStart, kMutedInk, plot.subtitle);
  DrawShares(svg, plot);
  DrawRoofline(svg, plot);
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const double y = legend + kLegendLine * static_cast<double>(i);
    const Svg::Point line[] = {{78, y}, {108, y}};
    DrawSeries(svg, line, i);
    svg.Text({118, y + 4}, 13, Svg::Anchor::kStart, kInk, plot.series[i].label);
  }
  return svg.Write(path);
}

}  // namespace moert::cli
