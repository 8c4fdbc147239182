#include "tools/progress.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/console.hpp"

namespace kiln::tools {
namespace {

constexpr std::size_t kBarCells = 24;
constexpr std::size_t kMostLines = 100;  // Of a whole run.
constexpr std::size_t kRemembered = 64;  // Steps that a rate is taken from.

std::size_t terminal_width() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

// Whether this step is one of about kMostLines.
bool is_due(std::size_t done, std::size_t total) {
  return done * kMostLines / total != (done - 1) * kMostLines / total || total <= kMostLines;
}

}  // namespace

void Pace::step(Clock::time_point now) {
  last_.push_back(now);
  if (last_.size() > kRemembered) {
    start_ = last_.front();
    last_.pop_front();
  }
}

std::optional<double> Pace::rate() const {
  if (last_.empty()) {
    return std::nullopt;
  }
  const double seconds = std::chrono::duration<double>(last_.back() - start_).count();
  return seconds > 0 ? std::optional(static_cast<double>(last_.size()) / seconds) : std::nullopt;
}

std::string Pace::text(std::size_t done, std::size_t total) const {
  const std::optional<double> found = rate();
  if (!found) {
    return "";
  }
  const double left = static_cast<double>(total - std::min(done, total)) / *found;
  constexpr double kLongest = 1e9;
  return fmt::format("{:.{}f}/s, {} left", *found, *found < 10 ? 1 : 0,
                     clock_text(std::chrono::seconds(
                         static_cast<std::int64_t>(std::ceil(std::min(left, kLongest))))));
}

std::string clock_text(std::chrono::seconds duration) {
  const std::int64_t seconds = duration.count();
  return seconds < 3600
             ? fmt::format("{}:{:02}", seconds / 60, seconds % 60)
             : fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

Progress::Progress(bool json) : pace_(Pace::Clock::now()) {
  if (isatty(STDERR_FILENO) == 1 && (json || isatty(STDOUT_FILENO) == 1)) {
    style_ = Style::kBar;
  } else if (!json) {
    style_ = Style::kLines;
  }
}

Progress::~Progress() {
  erase_bar();
}

void Progress::step(std::size_t done, std::size_t total, std::string_view line, bool matters) {
  pace_.step(Pace::Clock::now());
  if (style_ == Style::kLines && (matters || is_due(done, total))) {
    print_line(done, total, line);
  } else if (style_ == Style::kBar) {
    if (matters) {
      erase_bar();
      print_line(done, total, line);
    }
    draw_bar(done, total, line);
  }
}

void Progress::print_line(std::size_t done, std::size_t total, std::string_view line) {
  const std::string pace = pace_.text(done, total);
  const std::string text =
      fmt::format("[{:>{}}/{}] {}{}{}\n", done, fmt::formatted_size("{}", total), total, line,
                  pace.empty() ? "" : "; ", pace);
  if (style_ == Style::kBar) {
    std::fwrite(text.data(), 1, text.size(), stderr);
  } else {
    print_out(std::string_view(text));
    std::fflush(stdout);  // Who follows a log wants to see where it is.
  }
}

void Progress::draw_bar(std::size_t done, std::size_t total, std::string_view line) {
  const std::size_t cells = total == 0 ? kBarCells : kBarCells * std::min(done, total) / total;
  std::string text = fmt::format("[{:<{}}] {}/{} {} {}", std::string(cells, '#'), kBarCells, done,
                                 total, pace_.text(done, total), line);
  text.resize(std::min(text.size(), terminal_width() - 1));  // A wrapped bar cannot be redrawn.
  erase_bar();
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  bar_shown_ = true;
}

void Progress::erase_bar() noexcept {
  if (bar_shown_) {
    std::fputs("\r\033[K", stderr);
    bar_shown_ = false;
  }
}

}  // namespace kiln::tools
