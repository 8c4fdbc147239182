#pragma once

#include <string>
#include <string_view>

#include <kiln/target.hpp>

#include "base/result.hpp"

namespace kiln::runtime {

/// The GNU build id of a 64-bit ELF image in hex; empty when it has none or is no such image.
std::string build_id(std::string_view image);

/// What identifies a shared library's file: its GNU build id in hex, or "xxh3:" and the XXH3-128 of
/// its content. Fails with kIo when the file cannot be read or is no 64-bit ELF file.
Result<std::string> library_id(const std::string& path);

/// Whether the file's bytes hold `text`. False for a file that cannot be read.
bool file_contains(const std::string& path, std::string_view text);

/// Checks that `image` is a CUDA ELF for `target` that defines the function `symbol`. The base
/// architecture is read from e_flags, the suffix from the -arch text in .note.nv.tkinfo; an image
/// without that text (older NVRTC) is taken at its word. Any bytes are safe to pass. A failure has
/// code kCompileFailed.
Status check_cubin(std::string_view image, std::string_view symbol, const Target& target);

}  // namespace kiln::runtime
