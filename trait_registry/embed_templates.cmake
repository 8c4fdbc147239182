# Writes a C++ source that holds every kernel template. Run at build time:
#   cmake -DROOT=kernel_templates -DFILES=a.cuh|b.cuh -DOUTPUT=embedded.cpp -P embed_templates.cmake
string(REPLACE "|" ";" files "${FILES}")
set(entries "")
foreach(file IN LISTS files)
  file(READ "${ROOT}/${file}" text)
  string(FIND "${text}" ")KILN\"" delimiter)
  if(NOT delimiter EQUAL -1)
    message(FATAL_ERROR "${file} holds the delimiter of the raw string that it is embedded in")
  endif()
  string(REGEX MATCHALL "#include \"[^\"]+\"" includes "${text}")
  list(TRANSFORM includes REPLACE "#include \"(.+)\"" "\\1 ")
  list(JOIN includes "" includes)
  string(APPEND entries "    {R\"KILN(${file})KILN\", R\"KILN(${text})KILN\", \"${includes}\"},\n")
endforeach()
list(LENGTH files count)

file(WRITE "${OUTPUT}" "// Generated from kernel_templates/ by embed_templates.cmake.
#include <array>

#include \"trait_registry/sources.hpp\"

namespace kiln::registry {
namespace {

constexpr std::array<EmbeddedSource, ${count}> kSources = {{
${entries}}};

}  // namespace

std::span<const EmbeddedSource> embedded_sources() noexcept { return kSources; }

}  // namespace kiln::registry
")
