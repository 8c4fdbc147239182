#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "runtime/prebuild.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "trait_registry/target.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::tools {
namespace {

const char* access_name(Access access) {
  switch (access) {
    case Access::kRead:
      return "read";
    case Access::kWrite:
      return "write";
    case Access::kReadWrite:
      return "read_write";
  }
  return "unknown";
}

const char* scalar_name(ScalarType type) {
  switch (type) {
    case ScalarType::kI32:
      return "i32";
    case ScalarType::kI64:
      return "i64";
    case ScalarType::kF32:
      return "f32";
    case ScalarType::kBool:
      return "bool";
  }
  return "unknown";
}

Json describe(const ArgSpec& arg) {
  Json out = {{"name", arg.name}, {"summary", arg.summary}};
  if (!arg.is_tensor()) {
    out["scalar"] = scalar_name(arg.scalar);
    out["optional"] = arg.optional;
    return out;
  }
  Json dtypes = Json::array();
  for (const DType dtype : arg.dtypes) {
    dtypes.push_back(dtype_name(dtype));
  }
  Json shape = Json::array();
  for (const Dim& dim : arg.shape) {
    shape.push_back(dim.kind == Dim::Kind::kFixed ? Json(dim.value) : Json(dim.text()));
  }
  out["dtypes"] = std::move(dtypes);
  out["shape"] = std::move(shape);
  out["layout"] = arg.layout == Layout::kContiguous ? "contiguous" : "row_strided";
  out["alignment"] = arg.alignment;
  out["access"] = access_name(arg.access);
  out["constant"] = arg.constant;
  out["optional"] = arg.optional;
  out["host_memory"] = arg.host_memory;
  return out;
}

std::vector<std::string> spellings(const TraitSpec& trait) {
  std::vector<std::string> out;
  for (const std::int64_t value : trait.domain) {
    out.push_back(trait.spell(value));
  }
  return out;
}

std::vector<std::string> served_targets(const Op& op) {
  std::vector<std::string> out;
  for (const registry::KnownTarget& known : registry::known_targets()) {
    if (registry::serves(op, known.target)) {
      out.push_back(to_string(known.target));
    }
  }
  return out;
}

Json describe(const Op& op) {
  Json out = {{"name", op.name}, {"family", op.family}, {"summary", op.summary}};
  out["args"] = Json::array();
  for (const ArgSpec& arg : op.args) {
    out["args"].push_back(describe(arg));
  }
  out["traits"] = Json::array();
  for (const TraitSpec& trait : op.traits) {
    out["traits"].push_back(
        {{"name", trait.name}, {"summary", trait.summary}, {"values", spellings(trait)}});
  }
  out["archs"] = served_targets(op);
  out["min_compute_capability"] = op.min_compute_capability;
  out["workspace"] = static_cast<bool>(op.workspace);
  out["kernels"] = Json::array();
  out["sources"] = Json::array();
  for (const KernelSpec& kernel : op.kernels) {
    out["kernels"].push_back(kernel.name);
    if (std::find(out["sources"].begin(), out["sources"].end(), kernel.source) ==
        out["sources"].end()) {
      out["sources"].push_back(kernel.source);
    }
  }
  return out;
}

void print_op(const Op& op) {
  std::string traits;
  for (const TraitSpec& trait : op.traits) {
    traits += fmt::format("{}{} {{{}}}", traits.empty() ? "" : ", ", trait.name,
                          fmt::join(spellings(trait), " "));
  }
  print_out("{}  ({})\n    {}\n", op.name, op.family, op.summary);
  print_out("    traits: {}\n", traits.empty() ? "none" : traits);
  print_out("    archs:  {}\n", fmt::join(served_targets(op), " "));
}

std::string describe_line(const ArgSpec& arg) {
  const char* const optional = arg.optional ? ", optional" : "";
  if (!arg.is_tensor()) {
    return fmt::format("{}{}", scalar_name(arg.scalar), optional);
  }
  std::vector<const char*> dtypes;
  for (const DType dtype : arg.dtypes) {
    dtypes.push_back(dtype_name(dtype));
  }
  std::vector<std::string> shape;
  for (const Dim& dim : arg.shape) {
    shape.push_back(dim.text());
  }
  return fmt::format("{} [{}], {}{}", fmt::join(dtypes, " or "), fmt::join(shape, ", "),
                     access_name(arg.access), optional);
}

void print_args(const Op& op) {
  for (const ArgSpec& arg : op.args) {
    print_out("    {}: {}{}{}\n", arg.name, describe_line(arg), arg.summary.empty() ? "" : "; ",
              arg.summary);
  }
}

// The ops that the globs name, all without one. A glob that names none is a mistake.
std::vector<std::string> named_ops(const Engine& engine, const std::vector<std::string>& globs) {
  std::vector<std::string> names = engine.op_names();
  for (const std::string& glob : globs) {
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string& name) { return runtime::is_named({glob}, name); })) {
      engine.op(glob);  // Throws, and knows what is near.
    }
  }
  std::erase_if(names, [&](const std::string& name) { return !runtime::is_named(globs, name); });
  return names;
}

int list_ops(const std::vector<std::string>& globs, bool json) {
  const Engine engine(engine_options());
  Json all = Json::array();
  for (const std::string& name : named_ops(engine, globs)) {
    const Op& op = engine.op(name).op();
    if (json) {
      all.push_back(describe(op));
      continue;
    }
    print_op(op);
    if (!globs.empty()) {
      print_args(op);
    }
  }
  if (json) {
    print_json(all);
  }
  return kSuccess;
}

}  // namespace

void add_ops(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("ops", "List the registered ops, or describe those that are named.");
  const auto globs = std::make_shared<std::vector<std::string>>();
  const auto json = std::make_shared<bool>(false);
  command->add_option("op", *globs, "Names or globs: these alone, with their arguments.")
      ->type_name("GLOB...");
  command->add_flag("--json", *json, "Print a JSON list.");
  command->callback(
      [&action, globs, json] { action = [globs, json] { return list_ops(*globs, *json); }; });
}

}  // namespace kiln::tools
