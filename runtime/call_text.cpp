#include "runtime/call_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::runtime {
namespace {

std::string tensor_text(const DLTensor& tensor) {
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  DType dtype{};
  std::string text =
      fmt::format("{}[{}]", dtype_from_dlpack(tensor.dtype, dtype) ? dtype_name(dtype) : "unknown",
                  fmt::join(std::span(tensor.shape, rank), ", "));
  if (tensor.strides != nullptr) {
    text += fmt::format(" strides [{}]", fmt::join(std::span(tensor.strides, rank), ", "));
  }
  return text +
         fmt::format(" at {}", static_cast<const void*>(static_cast<const char*>(tensor.data) +
                                                        tensor.byte_offset));
}

std::string arg_text(const Arg& arg) {
  switch (arg.kind()) {
    case Arg::Kind::kTensor:
      return tensor_text(arg.tensor());
    case Arg::Kind::kInteger:
      return fmt::format("{}", arg.integer());
    case Arg::Kind::kReal:
      return fmt::format("{}", arg.real());
    case Arg::Kind::kAbsent:
      break;
  }
  return "left out";
}

}  // namespace

std::string call_text(const registry::BoundOp& bound, std::span<const Arg> args, CUstream stream,
                      const LaunchOptions& options) {
  std::string text = bound.op.name + ":";
  for (std::size_t i = 0; i < args.size(); ++i) {
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", bound.op.args[i].name, arg_text(args[i]));
  }
  text += fmt::format("; stream {}", static_cast<const void*>(stream));
  if (options.workspace != nullptr) {
    text += fmt::format("; workspace {} of {} bytes", options.workspace, options.workspace_bytes);
  }
  text += options.pdl ? "" : "; pdl off";
  text += options.serialize ? "; serialized" : "";
  return text + (options.constants_ready ? "" : "; constants not ready");
}

}  // namespace kiln::runtime
