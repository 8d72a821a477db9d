// SPDX-License-Identifier: Apache-2.0
#include "cli/load_plot.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/svg.h"
#include "cli/text.h"

namespace moert::cli {
namespace {

constexpr double kLeft = 78, kTop = 104, kGridWidth = 960, kRight = 110, kLeastWidth = 420;
constexpr double kLegendWidth = 260, kLegendHeight = 12;

struct Color {
  double red, green, blue;
};
constexpr Color kIdle = {33, 102, 172}, kEven = {247, 247, 247}, kBusy = {178, 24, 43};

std::string Mix(const Color& from, const Color& to, double share) {
  const auto part = [share](double a, double b) {
    return static_cast<int>(std::lround(a + (b - a) * share));
  };
  return Format("#%02x%02x%02x", part(from.red, to.red), part(from.green, to.green),
                part(from.blue, to.blue));
}

// `load` is 1 for an even share; `most` is the scale's end.
std::string ColorOf(double load, double most) {
  if (load < 1) return Mix(kEven, kIdle, 1 - load);
  return most > 1 ? Mix(kEven, kBusy, (load - 1) / (most - 1)) : Mix(kEven, kBusy, 0);
}

// Times the even share.
double Load(const LayerLoad& layer, size_t expert) {
  const auto total =
      static_cast<double>(std::accumulate(layer.counts.begin(), layer.counts.end(), int64_t{0}));
  if (total == 0) return 0;
  return static_cast<double>(layer.counts[expert]) * static_cast<double>(layer.counts.size()) /
         total;
}

double Busiest(const LayerLoad& layer) {
  double most = 0;
  for (size_t expert = 0; expert < layer.counts.size(); ++expert) {
    most = std::max(most, Load(layer, expert));
  }
  return most;
}

struct Cells {
  double width, height;
  int64_t labels_every;  // experts
};

Cells CellsFor(size_t layers, size_t experts) {
  Cells cells;
  cells.width = std::clamp(kGridWidth / static_cast<double>(experts), 2.0, 64.0);
  cells.height = std::clamp(640 / static_cast<double>(layers), 8.0, 32.0);
  cells.labels_every = 1;
  while (static_cast<double>(cells.labels_every) * cells.width < 26) cells.labels_every *= 2;
  return cells;
}

void DrawLayer(Svg& svg, const LayerLoad& layer, const Cells& cells, double y, double most,
               double grid_right) {
  const double baseline = y + cells.height / 2 + 4;
  const double size = std::min(12.0, cells.height - 1);
  svg.Text({kLeft - 8, baseline}, size, Svg::Anchor::kEnd, kMutedInk,
           Format("%lld", static_cast<long long>(layer.layer)));
  for (size_t expert = 0; expert < layer.counts.size(); ++expert) {
    const double x = kLeft + static_cast<double>(expert) * cells.width;
    const double load = Load(layer, expert);
    const double gap = cells.width > 6 ? 1 : 0;
    svg.Rectangle(x, y, cells.width - gap, cells.height - gap, ColorOf(load, most));
    if (cells.width < 34 || cells.height < 16) continue;
    const bool dark = load < 0.35 || load > 1 + 0.65 * (most - 1);
    svg.Text({x + cells.width / 2, baseline}, 12, Svg::Anchor::kMiddle, dark ? "#ffffff" : kInk,
             Format("%lld", static_cast<long long>(layer.counts[expert])));
  }
  svg.Text({grid_right + 12, baseline}, size, Svg::Anchor::kStart, kMutedInk,
           Format("%.1fx", Busiest(layer)));
}

void DrawLegend(Svg& svg, double y, double most) {
  constexpr int kSteps = 65;  // odd, so that one is exactly the even share
  for (int i = 0; i < kSteps; ++i) {
    const double share = static_cast<double>(i) / (kSteps - 1);
    const double load = share < 0.5 ? 2 * share : 1 + (2 * share - 1) * (most - 1);
    svg.Rectangle(kLeft + kLegendWidth * i / kSteps, y, kLegendWidth / kSteps + 0.5, kLegendHeight,
                  ColorOf(load, most));
  }
  const double baseline = y + kLegendHeight + 16;
  svg.Text({kLeft, baseline}, 12, Svg::Anchor::kStart, kMutedInk, "never");
  svg.Text({kLeft + kLegendWidth / 2, baseline}, 12, Svg::Anchor::kMiddle, kMutedInk, "even share");
  svg.Text({kLeft + kLegendWidth, baseline}, 12, Svg::Anchor::kEnd, kMutedInk,
           Format("%.1fx", most));
}

}  // namespace

Status WriteLoadPlot(const std::string& path, const std::string& title,
                     std::span<const LayerLoad> layers) {
  size_t experts = 1;
  double most = 1;
  for (const LayerLoad& layer : layers) {
    experts = std::max(experts, layer.counts.size());
    most = std::max(most, Busiest(layer));
  }
  const Cells cells = CellsFor(layers.size(), experts);
  const double grid_right = kLeft + cells.width * static_cast<double>(experts);
  const double grid_bottom = kTop + cells.height * static_cast<double>(layers.size());
  Svg svg(std::max(grid_right + kRight, kLeft + kLeastWidth), grid_bottom + 84);
  svg.Text({30, 32}, 18, Svg::Anchor::kStart, kInk, "Expert load", true);
  svg.Text({30, 54}, 13, Svg::Anchor::kStart, kMutedInk, title);
  svg.Text({kLeft, kTop - 26}, 13, Svg::Anchor::kStart, kInk, "expert");
  svg.Text({grid_right + 12, kTop - 8}, 12, Svg::Anchor::kStart, kInk, "busiest");
  svg.VerticalText({kLeft - 46, (kTop + grid_bottom) / 2}, 13, kInk, "layer");
  for (size_t expert = 0; expert < experts; expert += cells.labels_every) {
    svg.Text({kLeft + (static_cast<double>(expert) + 0.5) * cells.width, kTop - 8}, 12,
             Svg::Anchor::kMiddle, kMutedInk, Format("%zu", expert));
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    const double y = kTop + cells.height * static_cast<double>(i);
    DrawLayer(svg, layers[i], cells, y, most, grid_right);
  }
  DrawLegend(svg, grid_bottom + 30, most);
  return svg.Write(path);
}

}  // namespace moert::cli
