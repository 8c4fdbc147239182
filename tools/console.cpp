#include "tools/console.hpp"

#include <cstdio>

#include "tools/paths.hpp"

namespace kiln::tools {
namespace {

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

std::string in_words_of_the_command(std::string message) {
  constexpr std::string_view kOption = " or name the file in EngineOptions::driver";
  if (const std::size_t at = message.find(kOption); at != std::string::npos) {
    message.erase(at, kOption.size());
  }
  return message;
}

void complain(std::string_view message) {
  const std::string line =
      fmt::format("kiln: {}{}\n", in_words_of_the_command(std::string(message)),
                  message.ends_with('.') ? "" : ".");
  std::fflush(stdout);  // Where both go to one file, what was said before comes before.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

EngineOptions engine_options(const std::string& cache_root) {
  EngineOptions options;
  options.cache_root = cache_root.empty() ? cache_root : absolute_path(cache_root);
  options.log = {log_line, nullptr, LogLevel::kWarning};
  return options;
}

bool finish_output() {
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

std::string count(std::size_t n, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

}  // namespace kiln::tools
