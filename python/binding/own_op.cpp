// An op of the caller's own, from what src/kiln/_own_op.py wrote down as JSON.

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <kiln/kiln.h>

#include "python/binding/engine.hpp"
#include "python/binding/error.hpp"
#include "python/binding/exports.hpp"
#include "python/binding/json.hpp"

namespace kiln::python {
namespace {

namespace ffi = tvm::ffi;

std::int32_t number(const Json& object, const char* name) {
  return object.value(name, std::int32_t{0});
}

kiln_arg_spec arg_spec(const Json& json) {
  kiln_arg_spec spec{};
  spec.name = text(json, "name");
  spec.summary = text(json, "summary");
  spec.dtypes = text(json, "dtypes");
  spec.shape = text(json, "shape");
  spec.scalar_type = number(json, "scalar_type");
  spec.access = number(json, "access");
  spec.flags = number(json, "flags");
  spec.alignment = number(json, "alignment");
  return spec;
}

kiln_param_spec param_spec(const Json& json) {
  kiln_param_spec spec{};
  spec.source = number(json, "source");
  spec.axis = number(json, "axis");
  spec.type = number(json, "type");
  spec.name = text(json, "name");
  return spec;
}

void set_extents(const Json& json, const char* name, const char* (&extents)[3]) {
  const auto found = json.find(name);
  for (std::size_t i = 0; found != json.end() && i < found->size() && i < 3; ++i) {
    extents[i] = (*found)[i].get_ref<const std::string&>().c_str();
  }
}

// The structs of kiln.h, which refer to each other and to the JSON.
class OpSpec {
 public:
  explicit OpSpec(const Json& json) {
    for (const Json& arg : json.at("args")) {
      args_.push_back(arg_spec(arg));
    }
    for (const Json& kernel : json.at("kernels")) {
      add_kernel(kernel);
    }
    for (const auto& [name, source] : json.at("sources").items()) {
      names_.push_back(name);
      sources_.push_back(
          {names_.back().c_str(),
           source.is_null() ? nullptr : source.get_ref<const std::string&>().c_str()});
    }
    options_ = texts(json.at("options"));
    fill(json);
  }
  OpSpec(const OpSpec&) = delete;
  OpSpec& operator=(const OpSpec&) = delete;

  const kiln_op_spec& spec() const noexcept { return spec_; }

 private:
  void add_kernel(const Json& json) {
    std::vector<kiln_param_spec>& params = params_.emplace_back();
    for (const Json& param : json.at("params")) {
      params.push_back(param_spec(param));
    }
    kiln_kernel_spec kernel{};
    kernel.name = text(json, "name");
    kernel.source = text(json, "source");
    kernel.instantiation = text(json, "instantiation");
    kernel.params = params.data();
    kernel.param_count = params.size();
    set_extents(json, "grid", kernel.grid);
    set_extents(json, "block", kernel.block);
    set_extents(json, "cluster", kernel.cluster);
    kernel.dynamic_shared_bytes = text(json, "dynamic_shared_bytes");
    kernel.cooperative = number(json, "cooperative");
    kernels_.push_back(kernel);
  }

  void fill(const Json& json) {
    spec_.name = text(json, "name");
    spec_.family = text(json, "family");
    spec_.summary = text(json, "summary");
    spec_.args = args_.data();
    spec_.arg_count = args_.size();
    spec_.kernels = kernels_.data();
    spec_.kernel_count = kernels_.size();
    spec_.sources = sources_.data();
    spec_.source_count = sources_.size();
    spec_.options = options_.data();
    spec_.option_count = options_.size();
    spec_.workspace_bytes = text(json, "workspace_bytes");
    spec_.min_compute_capability = number(json, "min_compute_capability");
    spec_.pdl = number(json, "pdl");
    spec_.source_directory = text(json, "source_directory");
  }

  std::vector<kiln_arg_spec> args_;
  std::deque<std::vector<kiln_param_spec>> params_;
  std::vector<kiln_kernel_spec> kernels_;
  std::deque<std::string> names_;
  std::vector<kiln_source> sources_;
  std::vector<const char*> options_;
  kiln_op_spec spec_ = KILN_INIT(kiln_op_spec);
};

void register_op(const Engine& engine, const ffi::String& described) {
  Json json = Json::parse(std::string(described));
  if (json.at("source_directory").is_string()) {
    restore_path(json.at("source_directory"));
  }
  const OpSpec spec(json);
  const Use use(engine);
  check(kiln_register_op(use.engine(), &spec.spec()));
}

}  // namespace
}  // namespace kiln::python

KILN_EXPORT_TYPED(register_op, kiln::python::register_op)
