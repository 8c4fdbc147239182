#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace kiln::cache {

/// Who writes. Two writers are never the same, whatever hosts, containers or forks they are in: the
/// names of containers, and the pids in them, repeat, so that the random part decides.
struct Writer {
  std::string host;  ///< Letters, digits, '-' and '_' only, at most 64.
  pid_t pid = 0;
  std::uint64_t random = 0;
};

/// This process, with a new random part at each call.
Writer this_writer();

/// "<host>.<pid>.<random>.tmp".
std::string temporary_name(const Writer& writer);
/// Whether temporary_name() gives such names.
bool is_temporary_name(std::string_view name);

}  // namespace kiln::cache
