#pragma once

/// \file
/// CUDA sources in memory: those embedded in the library, and who includes whom.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/op.hpp>

#include "base/result.hpp"

namespace kiln::registry {

/// One file of kernel_templates/, embedded at build time.
struct EmbeddedSource {
  std::string_view name;  ///< Path relative to kernel_templates/, which is what #include says.
  std::string_view text;
  std::string_view includes;  ///< Names of the files that it includes, with a blank after each.
};

/// All of them, sorted by name.
std::span<const EmbeddedSource> embedded_sources() noexcept;

/// Null when there is none of that name.
const EmbeddedSource* find_embedded(std::string_view name) noexcept;

/// One #include directive, or one __has_include in the condition of an #if or #elif.
struct IncludeDirective {
  enum class Form : unsigned char { kQuoted, kAngled, kComputed /**< named by a macro */ };
  Form form = Form::kQuoted;
  bool probe = false;      ///< A __has_include: a file that is nowhere is an answer, not an error.
  std::string_view name;   ///< Between the delimiters; empty when computed. Points into the text.
  std::size_t offset = 0;  ///< Of `name` in the text.
  int line = 0;            ///< From 1.
};

/// The #include directives and __has_include probes of a source, in order. Text inside comments,
/// string literals (raw ones too) and `#if 0` groups is skipped. Other conditions are not
/// evaluated, since only the compiler can: an include under one counts as an include. Not seen: a
/// directive whose first words are split by a backslash-newline in mid-word, or spelled with a
/// digraph; such a file then fails to compile.
std::vector<IncludeDirective> scan_includes(std::string_view text);

/// The file of that name among `sources`, else among the embedded ones, else kInvalidArgument.
Result<SourceFile> find_source(std::string_view name, std::span<const SourceFile> sources);

/// The files that `main` includes, transitively, among `sources` and the embedded ones; sorted by
/// name. A quoted or computed include that resolves to nothing is an error that names file and
/// line; an angle-bracket include counts only when it names one of the files. A file that is only
/// probed for counts as included, since its being there can change the code.
Result<std::vector<SourceFile>> include_closure(const SourceFile& main,
                                                std::span<const SourceFile> sources);

}  // namespace kiln::registry
