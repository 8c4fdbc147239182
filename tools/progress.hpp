#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace kiln::tools {

/// How fast steps are done, going by the last of them: what was found ready at first says nothing
/// of how long the rest will take.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Pace(Clock::time_point start) : start_(start) {}

  void step(Clock::time_point now);
  /// Steps in a second; nothing before the first, or when no time has passed.
  std::optional<double> rate() const;
  /// "3.2/s, 0:41 left"; empty while there is no rate.
  std::string text(std::size_t done, std::size_t total) const;

 private:
  Clock::time_point start_;
  std::deque<Clock::time_point> last_;
};

/// "0:07", "12:30", "3:05:00".
std::string clock_text(std::chrono::seconds duration);

/// How a long command shows where it is: a bar that redraws itself on a terminal, else (JSON
/// without a terminal) nothing, else plain lines: one a step, or about a hundred where there are
/// more steps than that. Used from one thread at a time.
class Progress {
 public:
  explicit Progress(bool json);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// A line that matters is printed whatever the number of steps.
  void step(std::size_t done, std::size_t total, std::string_view line, bool matters = false);

 private:
  enum class Style { kNone, kLines, kBar };
  void print_line(std::size_t done, std::size_t total, std::string_view line);
  void draw_bar(std::size_t done, std::size_t total, std::string_view line);
  void erase_bar() noexcept;

  Style style_ = Style::kNone;
  bool bar_shown_ = false;
  Pace pace_;
};

}  // namespace kiln::tools
