// Counters, and what ops there are.

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "c_api/guard.hpp"
#include "c_api/handles.hpp"
#include "c_api/sized.hpp"

namespace kiln::c_api {
namespace {

kiln_counters to_c(const Counters& counters) {
  return {.struct_size = sizeof(kiln_counters),
          .compiles = counters.compiles,
          .cache_hits = counters.cache_hits,
          .cache_misses = counters.cache_misses,
          .cache_bytes_read = counters.cache_bytes_read,
          .cache_publishes = counters.cache_publishes,
          .cache_bytes_written = counters.cache_bytes_written,
          .cache_write_failures = counters.cache_write_failures,
          .rejected_entries = counters.rejected_entries,
          .removed_temporaries = counters.removed_temporaries,
          .trimmed_files = counters.trimmed_files,
          .libraries_loaded = counters.libraries_loaded};
}

kiln_op_info to_c(const Op& op) {
  return {.struct_size = sizeof(kiln_op_info),
          .name = op.name.c_str(),
          .family = op.family.c_str(),
          .summary = op.summary.c_str(),
          .arg_count = op.args.size(),
          .min_compute_capability = op.min_compute_capability,
          .kernel_count = static_cast<int32_t>(op.kernels.size())};
}

kiln_op_arg_info to_c(const ArgSpec& arg) {
  return {.struct_size = sizeof(kiln_op_arg_info),
          .name = arg.name.c_str(),
          .summary = arg.summary.c_str(),
          .is_tensor = arg.is_tensor() ? 1 : 0,
          .optional = arg.optional ? 1 : 0,
          .access = static_cast<int32_t>(arg.access),
          .constant = arg.constant ? 1 : 0};
}

// Kept until the thread asks again: see kiln_cache_layer_at and kiln_device_targets.
thread_local bool path_ended = false;
thread_local KeptText layer_path(path_ended);
thread_local bool list_ended = false;
thread_local KeptText target_list(list_ended);

std::string joined(const std::vector<Target>& targets) {
  std::vector<std::string> names;
  for (const Target& target : targets) {
    names.push_back(to_string(target));
  }
  return fmt::format("{}", fmt::join(names, ","));
}

static_assert(KILN_READ == static_cast<int>(Access::kRead) &&
              KILN_WRITE == static_cast<int>(Access::kWrite) &&
              KILN_READ_WRITE == static_cast<int>(Access::kReadWrite));

const Op& find(kiln_engine* engine, const char* op) {
  return required(engine, "engine").engine.op(&required(op, "op")).op();
}

}  // namespace
}  // namespace kiln::c_api

using namespace kiln::c_api;

kiln_status kiln_engine_counters(kiln_engine* engine, kiln_counters* counters) {
  return guard([&] {
    write_sized(to_c(required(engine, "engine").engine.counters()), counters, "counters");
  });
}

kiln_status kiln_cache_layer_count(kiln_engine* engine, size_t* count) {
  return guard([&] {
    required(count, "count") = required(engine, "engine").engine.counters().cache_layers.size();
  });
}

kiln_status kiln_cache_layer_at(kiln_engine* engine, size_t index, kiln_cache_layer* layer) {
  return guard([&] {
    std::vector<kiln::Counters::Layer> layers =
        required(engine, "engine").engine.counters().cache_layers;
    if (index >= layers.size()) {
      refuse(fmt::format("index is {}, and there are {} cache layers", index, layers.size()));
    }
    checked_size(&required(layer, "layer"), "layer");
    write_sized(
        kiln_cache_layer{.struct_size = sizeof(kiln_cache_layer),
                         .path = path_ended ? "" : layer_path.keep(std::move(layers[index].path)),
                         .hits = layers[index].hits},
        layer, "layer");
  });
}

kiln_status kiln_device_targets(kiln_engine* engine, const char** targets) {
  return guard([&] {
    kiln::Engine& made = required(engine, "engine").engine;
    const char*& list = required(targets, "targets");
    std::string names = joined(made.device_targets());
    list = list_ended ? "" : target_list.keep(std::move(names));
  });
}

kiln_status kiln_op_count(kiln_engine* engine, size_t* count) {
  return guard(
      [&] { required(count, "count") = required(engine, "engine").engine.op_names().size(); });
}

kiln_status kiln_op_at(kiln_engine* engine, size_t index, kiln_op_info* info) {
  return guard([&] {
    const std::vector<std::string> names = required(engine, "engine").engine.op_names();
    if (index >= names.size()) {
      refuse(fmt::format("index is {}, and there are {} ops", index, names.size()));
    }
    write_sized(to_c(engine->engine.op(names[index]).op()), info, "info");
  });
}

kiln_status kiln_op_by_name(kiln_engine* engine, const char* op, kiln_op_info* info) {
  return guard([&] { write_sized(to_c(find(engine, op)), info, "info"); });
}

kiln_status kiln_op_arg_at(kiln_engine* engine, const char* op, size_t index,
                           kiln_op_arg_info* info) {
  return guard([&] {
    const kiln::Op& found = find(engine, op);
    if (index >= found.args.size()) {
      refuse(fmt::format("index is {}, and {} has {} arguments", index, found.name,
                         found.args.size()));
    }
    write_sized(to_c(found.args[index]), info, "info");
  });
}
