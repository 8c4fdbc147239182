#include "runtime/nvrtc/source_key.hpp"

#include <string>
#include <utility>

namespace kiln::runtime {

cache::SourceKey source_key(const registry::CompileUnit& unit) {
  std::string target = to_string(unit.target);
  cache::KeyWriter key("kiln.source", kSourceKeyVersion);
  key.text("target", target);
  key.list("options", unit.options);
  key.text("instantiation", unit.name_expression);
  key.text("template name", unit.main.name);
  key.text("template", unit.main.text);
  for (const SourceFile& header : unit.headers) {
    key.text("header name", header.name);
    key.text("header", header.text);
  }
  return {std::move(target), std::move(key).take()};
}

}  // namespace kiln::runtime
