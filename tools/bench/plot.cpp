#include "tools/bench/plot.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace kiln::tools::bench {
namespace {

// In pixels.
constexpr double kLabelWidth = 340;
constexpr double kPlotWidth = 620;
constexpr double kWidth = kLabelWidth + kPlotWidth + 80;
constexpr double kTop = 76;
constexpr double kRowHeight = 20;
constexpr double kBarHeight = 12;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// Whole decades around all that is drawn.
class Scale {
 public:
  explicit Scale(std::span<const Row> rows) {
    double least = 1;
    double most = 1;
    for (const Row& row : rows) {
      const Measurement& m = row.measured;
      least = std::min({least, m.device_us, m.floor_us, row.peer_us.value_or(m.device_us)});
      most = std::max({most, m.device_us, m.floor_us, row.peer_us.value_or(m.device_us)});
    }
    first_ = std::floor(std::log10(least));
    last_ = std::max(std::ceil(std::log10(most)), first_ + 1);
  }

  double x(double us) const {
    return kLabelWidth + kPlotWidth * (std::log10(us) - first_) / (last_ - first_);
  }
  /// 1, 2 and 5 of each decade.
  std::vector<double> ticks() const {
    std::vector<double> out;
    for (double decade = first_; decade < last_; ++decade) {
      for (const double digit : {1.0, 2.0, 5.0}) {
        out.push_back(digit * std::pow(10.0, decade));
      }
    }
    out.push_back(std::pow(10.0, last_));
    return out;
  }

 private:
  double first_ = 0;
  double last_ = 1;
};

std::string legend() {
  return fmt::format(
      R"(<rect x="{0}" y="36" width="24" height="{1}" class="ours"/><text x="{2}" y="46">ours</text>
<line x1="{3}" y1="34" x2="{3}" y2="50" class="floor"/><text x="{4}" y="46">floor</text>
<circle cx="{5}" cy="42" r="4" class="peer"/><text x="{6}" y="46">peer</text>
)",
      kLabelWidth, kBarHeight, kLabelWidth + 30, kLabelWidth + 90, kLabelWidth + 98,
      kLabelWidth + 160, kLabelWidth + 170);
}

std::string axis(const Scale& scale, double bottom) {
  std::string out;
  for (const double tick : scale.ticks()) {
    out +=
        fmt::format(R"(<line x1="{0:.1f}" y1="{1}" x2="{0:.1f}" y2="{2}" class="grid"/>)"
                    R"(<text x="{0:.1f}" y="{3}" text-anchor="middle" class="small">{4:g}</text>)"
                    "\n",
                    scale.x(tick), kTop, bottom, kTop - 6, tick);
  }
  return out;
}

std::string bar(const Row& row, const Scale& scale, double top) {
  const Measurement& m = row.measured;
  const double middle = top + kRowHeight / 2;
  const double end = scale.x(m.device_us);
  std::string out =
      fmt::format(R"(<text x="{0}" y="{1:.1f}" text-anchor="end">{2}</text>)"
                  R"(<rect x="{3}" y="{4:.1f}" width="{5:.1f}" height="{6}" class="ours"/>)",
                  kLabelWidth - 8, middle + 4, escaped(m.op + " " + m.shape), kLabelWidth,
                  middle - kBarHeight / 2, std::max(end - kLabelWidth, 1.0), kBarHeight);
  const double floor = scale.x(m.floor_us);
  out += fmt::format(R"(<line x1="{0:.1f}" y1="{1:.1f}" x2="{0:.1f}" y2="{2:.1f}" class="floor"/>)",
                     floor, middle - 8, middle + 8);
  double rightmost = std::max(end, floor);
  if (row.peer_us) {
    const double peer = scale.x(*row.peer_us);
    out += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="4" class="peer"/>)", peer, middle);
    rightmost = std::max(rightmost, peer);
  }
  return out + fmt::format(R"(<text x="{:.1f}" y="{:.1f}" class="small">{:.2f}</text>)"
                           "\n",
                           rightmost + 8, middle + 4, m.device_us);
}

}  // namespace

std::string plot_svg(std::span<const Row> rows, const std::string& title) {
  std::vector<Row> timed;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(timed),
               [](const Row& row) { return row.timed(); });
  const Scale scale(timed);
  const double bottom = kTop + kRowHeight * static_cast<double>(timed.size());
  std::string out = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}">
<style>text{{font:12px sans-serif;fill:#222}}.small{{font-size:10px}}.title{{font-size:14px}}
.ours{{fill:#4878a8}}.grid{{stroke:#ddd}}.floor{{stroke:#222;stroke-width:2}}.peer{{fill:#d9772b;stroke:#fff}}</style>
<rect width="100%" height="100%" fill="#fff"/>
<text x="12" y="22" class="title">{2}</text>
<text x="12" y="46">device time per call in microseconds, logarithmic</text>
)",
      kWidth, bottom + 16, escaped(title));
  out += legend() + axis(scale, bottom);
  double top = kTop;
  for (const Row& row : timed) {
    out += bar(row, scale, top);
    top += kRowHeight;
  }
  return out + "</svg>\n";
}

}  // namespace kiln::tools::bench
