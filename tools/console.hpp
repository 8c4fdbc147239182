#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <kiln/engine.hpp>

namespace kiln::tools {

/// Keeps fields in the order in which they are written here, which is the order they are read in.
using Json = nlohmann::ordered_json;

/// Results go to stdout, and nothing else does, so that --json output can be piped.
void print_out(std::string_view text);
template <class... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  print_out(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}
void print_json(const Json& value);

/// A message of the library's in the words of who types commands, and makes no engine of his own.
std::string in_words_of_the_command(std::string message);

/// One plain sentence on stderr, "kiln: " in front and a full stop at the end, in
/// the words of the command.
void complain(std::string_view message);

/// Options of the engine that a subcommand works with: the library's warnings and errors go to
/// stderr. An empty cache root means the environment decides, a relative one is of the working
/// directory.
EngineOptions engine_options(const std::string& cache_root = {});

/// Flushes stdout; false when what was printed could not be written (a full disk, a closed pipe).
bool finish_output();

/// "1 entry", "3 entries".
std::string count(std::size_t n, std::string_view one, std::string_view many);

}  // namespace kiln::tools
