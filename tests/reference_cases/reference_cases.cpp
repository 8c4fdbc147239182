#include "tests/reference_cases/reference_cases.hpp"

#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reference/norm.hpp"
#include "tools/op_case.hpp"
#include "trait_registry/registry.hpp"

// A test loads these by name.
#define KILN_CASE_API __attribute__((visibility("default")))

namespace kiln {
namespace {

using Json = nlohmann::json;

std::string& last_error() {
  static std::string text;
  return text;
}

/// Runs `body`; 1, or 0 when it threw.
template <class Body>
int guarded(const Body& body) noexcept {
  try {
    body();
    return 1;
  } catch (const std::exception& error) {
    last_error() = error.what();
    return 0;
  }
}

DType dtype_of(const std::string& name) {
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kE4M3, DType::kE8M0, DType::kU8,
                            DType::kI32, DType::kI64, DType::kBool, DType::kComplex64}) {
    if (name == dtype_name(dtype)) {
      return dtype;
    }
  }
  throw Error(ErrorCode::kInvalidArgument, "there is no dtype '" + name + "'");
}

tools::CallRequest request_of(const Json& json) {
  tools::CallRequest out;
  out.dims = json.at("dims").get<std::map<std::string, std::int64_t>>();
  out.with = json.at("with").get<std::set<std::string>>();
  for (const auto& [arg, name] : json.at("dtypes").items()) {
    out.dtypes[arg] = dtype_of(name.get<std::string>());
  }
  return out;
}

/// With no inputs of its own: the caller sets them all.
tools::OpCase case_of(const Json& json, const std::set<std::string>& with) {
  tools::OpCase out = tools::find_case(json.at("op").get<std::string>());
  for (const auto& [arg, value] : json.at("scalars").items()) {
    out.scalars[arg] = value.get<double>();
  }
  out.with = with;  // Where the request names none, none is meant.
  return out;
}

class Case {
 public:
  explicit Case(const Json& json)
      : request_(request_of(json)), case_(case_of(json, request_.with)) {
    const registry::BoundOp& op = **ops_.find(case_.op);
    for (const ArgSpec& arg : op.op.args) {
      case_.fills[arg.name] = [](const auto&...) {};
    }
    call_ = std::make_unique<tools::HostCall>(op, case_, request_);
  }

  void set(const char* arg, const void* data, std::size_t bytes) {
    const auto* const first = static_cast<const std::byte*>(data);
    call_->store(arg, std::vector<std::byte>(first, first + bytes));
  }
  void get(const char* arg, void* data, std::size_t bytes) const {
    const std::vector<std::byte>& found = call_->tensor(arg).data;
    if (found.size() != bytes) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("'{}' has {} bytes, and {} were asked for", arg, found.size(), bytes));
    }
    std::memcpy(data, found.data(), bytes);
  }
  void run(int major, int minor) {
    case_.reference(*call_, {{major, minor}, reference::exact_rsqrt});
  }

 private:
  registry::Registry ops_;
  tools::CallRequest request_;
  tools::OpCase case_;
  std::unique_ptr<tools::HostCall> call_;
};

}  // namespace
}  // namespace kiln

extern "C" {

KILN_CASE_API void* kiln_case_create(const char* request) {
  std::unique_ptr<kiln::Case> out;
  kiln::guarded([&] { out = std::make_unique<kiln::Case>(kiln::Json::parse(request)); });
  return out.release();
}

KILN_CASE_API void kiln_case_destroy(void* call) {
  const std::unique_ptr<kiln::Case> gone(static_cast<kiln::Case*>(call));
}

KILN_CASE_API const char* kiln_case_error() {
  return kiln::last_error().c_str();
}

KILN_CASE_API int kiln_case_set(void* call, const char* arg, const void* data, std::size_t bytes) {
  return kiln::guarded([&] { static_cast<kiln::Case*>(call)->set(arg, data, bytes); });
}

KILN_CASE_API int kiln_case_get(void* call, const char* arg, void* data, std::size_t bytes) {
  return kiln::guarded([&] { static_cast<const kiln::Case*>(call)->get(arg, data, bytes); });
}

KILN_CASE_API int kiln_case_run(void* call, int major, int minor) {
  return kiln::guarded([&] { static_cast<kiln::Case*>(call)->run(major, minor); });
}
}
