#include "runtime/nvrtc/source_key.hpp"

#include <string>
#include <utility>

namespace kiln::runtime {
namespace {

// About what a key's material takes beyond the sources' texts.
constexpr std::size_t kOtherBytes = 2048;

}  // namespace

std::vector<std::string> compile_options(const registry::CompileUnit& unit) {
  // Verbosity is written into the image's note, so it is either always there or never.
  std::vector<std::string> options = {"--gpu-architecture=" + to_string(unit.target),
                                      "--no-source-include", "--ptxas-options=-v"};
  options.insert(options.end(), unit.options.begin(), unit.options.end());
  return options;
}

cache::SourceKey source_key(const registry::CompileUnit& unit) {
  std::string target = to_string(unit.target);
  cache::KeyWriter key("kiln.source", kSourceKeyVersion);
  std::size_t texts = unit.main.text.size();
  for (const SourceFile& header : unit.headers) {
    texts += header.text.size();
  }
  key.reserve(texts + kOtherBytes);
  key.text("target", target);
  key.list("options", compile_options(unit));
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
