#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <kiln/target.hpp>

#include "base/result.hpp"

namespace kiln::runtime {

/// The GNU build id of a 64-bit ELF image in hex; empty when it has none or is no such image.
std::string build_id(std::string_view image);

/// What identifies a library file: its GNU build id in hex, or "xxh3:" and the XXH3-128 of its
/// content. Fails with kIo when the file cannot be read.
Result<std::string> library_id(const std::string& path);

/// Checks that `image` is a CUDA ELF for `target` that holds the kernel `symbol`. The base
/// architecture is read from e_flags, the suffix from the -arch text in .note.nv.tkinfo; an image
/// without that note (older NVRTC) is taken at its word. Any bytes are safe to pass; a failure is
/// kCompileFailed.
Status check_cubin(std::string_view image, std::string_view symbol, const Target& target);

}  // namespace kiln::runtime
