#include "runtime/nvrtc/ptxas_log.hpp"

#include <charconv>
#include <string>

namespace kiln::runtime {
namespace {

// The number that stands before `unit`, as in "1332 bytes smem"; 0 when there is none.
int number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) {
    return 0;
  }
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') {
    --begin;
  }
  int value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

}  // namespace

// A kernel's part of the log begins at "Compiling entry function" and may go on with the properties
// of functions that it calls.
std::optional<cache::Resources> resources_from_log(std::string_view log, std::string_view symbol) {
  constexpr std::string_view kEntry = "Compiling entry function '";
  constexpr std::string_view kProperties = "Function properties for ";
  const std::string begins = std::string(kEntry).append(symbol).append("'");
  const std::size_t found = log.find(begins);
  if (found == std::string_view::npos) {
    return std::nullopt;
  }
  log.remove_prefix(found + begins.size());
  log = log.substr(0, log.find(kEntry));

  cache::Resources resources;
  bool own_properties = false;
  bool registers_seen = false;
  while (!log.empty()) {
    const std::string_view line = take_line(log);
    if (const std::size_t at = line.find(kProperties); at != std::string_view::npos) {
      own_properties = line.substr(at + kProperties.size()) == symbol;
    } else if (own_properties && line.find(" bytes stack frame") != std::string_view::npos) {
      resources.stack_bytes = number_before(line, " bytes stack frame");
      resources.spill_store_bytes = number_before(line, " bytes spill stores");
      resources.spill_load_bytes = number_before(line, " bytes spill loads");
    } else if (!registers_seen && line.find(" registers") != std::string_view::npos) {
      registers_seen = true;
      resources.registers = number_before(line, " registers");
      resources.shared_bytes = number_before(line, " bytes smem");
    }
  }
  return resources;
}

}  // namespace kiln::runtime
