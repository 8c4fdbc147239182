#include "tools/console.hpp"

#include <algorithm>
#include <cstdio>

#include <sys/ioctl.h>
#include <unistd.h>

namespace kiln::tools {
namespace {

constexpr std::size_t kBarCells = 24;

std::size_t terminal_width() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

void log_line(LogLevel level, const char* message, void*) {
  complain(fmt::format("{}: {}", level >= LogLevel::kError ? "error" : "warning", message));
}

}  // namespace

// A write that fails is noticed by finish_output, which asks the stream's error flag.
void print_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void print_json(const Json& value) {
  // Messages may quote bytes of a damaged file; JSON must stay valid UTF-8 all the same.
  print_out(value.dump(2, ' ', false, Json::error_handler_t::replace));
  print_out("\n");
}

void complain(std::string_view message) {
  const std::string line = fmt::format("kiln: {}{}\n", message, message.ends_with('.') ? "" : ".");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

EngineOptions engine_options(const std::string& cache_root) {
  EngineOptions options;
  options.cache_root = cache_root;
  options.log = {log_line, nullptr, LogLevel::kWarning};
  return options;
}

bool finish_output() {
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

std::string count(std::size_t n, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

Progress::Progress(bool json) {
  if (isatty(STDERR_FILENO) == 1 && (json || isatty(STDOUT_FILENO) == 1)) {
    style_ = Style::kBar;
  } else if (!json) {
    style_ = Style::kLines;
  }
}

Progress::~Progress() {
  erase_bar();
}

void Progress::step(std::size_t done, std::size_t total, std::string_view line) {
  if (style_ == Style::kLines) {
    print_out("[{:>{}}/{}] {}\n", done, fmt::formatted_size("{}", total), total, line);
  } else if (style_ == Style::kBar) {
    const std::size_t cells = total == 0 ? kBarCells : kBarCells * std::min(done, total) / total;
    std::string text =
        fmt::format("[{:<{}}] {}/{} {}", std::string(cells, '#'), kBarCells, done, total, line);
    text.resize(std::min(text.size(), terminal_width() - 1));  // A wrapped bar cannot be redrawn.
    erase_bar();
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
    bar_shown_ = true;
  }
}

void Progress::erase_bar() noexcept {
  if (bar_shown_) {
    std::fputs("\r\033[K", stderr);
    bar_shown_ = false;
  }
}

}  // namespace kiln::tools
