#include "tools/bench/report.hpp"

#include <algorithm>
#include <string>

#include "tests/support/catch.hpp"
#include "tools/bench/plot.hpp"

namespace kiln::tools::bench {
namespace {

Measurement measured(const std::string& op, double device_us, double floor) {
  Measurement out;
  out.op = op;
  out.shape = "x[8,64]";
  out.bytes = 1000;
  out.sets = 1;
  out.floor_us = floor;
  out.device_us = device_us;
  out.host_us = 3.5;
  return out;
}

PeerTable peers() {
  return PeerTable::parse(
      "| op | shape | peer device us |\n|---|---|---|\n| norm | x[8,64] | 2.5 |\n\n"
      "| what | cost |\n|---|---|\n| one graph node, empty kernel | 0.5 us; 0.4 us with PDL |\n");
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("A row says ours, the floor, the peer, and both ratios") {
  const Row row = make_row(measured("norm", 2.0, 0.5), peers(), true);
  CHECK(row.floor_ratio() == 4);
  CHECK(*row.peer_ratio() == 0.8);
  const std::string line = row_line(row, true);
  for (const char* part : {"norm", "x[8,64]", "2.000", "0.500", "4.000", "3.50", "2.50", "0.800"}) {
    CHECK(contains(line, part));
  }
  CHECK(std::count(line.begin(), line.end(), '|') == 9);
}

TEST_CASE("Header and rows have the same columns, with peers and without") {
  const Row row = make_row(measured("norm", 2.0, 0.5), peers(), true);
  for (const bool with : {true, false}) {
    const std::string header = header_lines(with);
    const std::string line = row_line(row, with);
    CHECK(header.size() == 2 * line.size());
    CHECK(std::count(header.begin(), header.end(), '|') ==
          2 * std::count(line.begin(), line.end(), '|'));
  }
}

TEST_CASE("An op that no peer serves has no peer") {
  const Row row = make_row(measured("other", 2.0, 0.5), peers(), true);
  CHECK_FALSE(row.peer_ratio());
  CHECK(to_json(row)["peer_ratio"].is_null());
  CHECK_FALSE(make_row(measured("norm", 2.0, 0.5), std::nullopt, true).peer_us);
}

TEST_CASE("A row that could not be timed says why and shows no number") {
  Measurement bad = measured("norm", 0, 0.5);
  bad.error = "no memory";
  const Row row = make_row(bad, peers(), true);
  CHECK(contains(row_line(row, true), "no memory"));
  CHECK(to_json(row)["error"] == "no memory");
  CHECK_FALSE(to_json(row).contains("device_us"));
}

TEST_CASE("A run whose empty nodes are within 5% of the table's is comparable, another is not") {
  const Calibration near = make_calibration({0.41, 0.52}, peers());
  CHECK(near.comparable());
  CHECK(contains(calibration_line(near), "4.0% off the table, comparable"));
  CHECK_FALSE(make_calibration({0.43, 0.50}, peers()).comparable());
  const Calibration far = make_calibration({0.40, 0.45}, peers());
  CHECK_FALSE(far.comparable());
  CHECK(contains(calibration_line(far), "NOT comparable"));
}

TEST_CASE("Without a table nothing is called comparable") {
  const Calibration none = make_calibration({0.41, 0.52}, std::nullopt);
  CHECK_FALSE(none.comparable());
  CHECK(contains(calibration_line(none), "no table"));
  CHECK_FALSE(to_json(none).contains("comparable"));
}

TEST_CASE("The picture has a bar and a floor for each timed row, and a mark for each peer") {
  Measurement bad = measured("norm", 0, 0.5);
  bad.error = "no memory";
  const std::vector<Row> rows = {make_row(measured("norm", 2.0, 0.5), peers(), true),
                                 make_row(measured("a<b", 90, 80), peers(), true),
                                 make_row(bad, peers(), true)};
  const std::string svg = plot_svg(rows, "on a \"card\" & PDL");
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(count_of(svg, "class=\"ours\"") == 2 + 1);  // And one in the legend.
  CHECK(count_of(svg, "class=\"floor\"") == 2 + 1);
  CHECK(count_of(svg, "class=\"peer\"") == 1 + 1);
  CHECK(contains(svg, "a&lt;b x[8,64]"));
  CHECK(contains(svg, "on a &quot;card&quot; &amp; PDL"));
  CHECK(contains(svg, ">0.1<"));  // The decades from the least floor to the largest time.
  CHECK(contains(svg, ">100<"));
  CHECK_FALSE(contains(svg, ">200<"));
}

TEST_CASE("Bars grow with the logarithm of the time") {
  const auto width = [](double us) {
    const std::vector<Row> rows = {make_row(measured("norm", us, 1), std::nullopt, true),
                                   make_row(measured("norm", 100, 1), std::nullopt, true)};
    const std::string svg = plot_svg(rows, "");
    const std::string before = "class=\"ours\"/><line";
    const std::size_t end = svg.find(before);
    const std::size_t begin = svg.rfind("width=\"", end) + 7;
    return std::stod(svg.substr(begin));
  };
  CHECK(std::abs(width(10) - width(100) / 2) < 0.2);
}

TEST_CASE("A picture of nothing is still a document") {
  CHECK(plot_svg({}, "empty").ends_with("</svg>\n"));
}

}  // namespace kiln::tools::bench
