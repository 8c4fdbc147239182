// Engines: made from what src/kiln/_engine.py wrote down as JSON, and looked into.

#include "python/binding/engine.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/string.h>

#include <kiln/kiln.h>

#include "python/binding/error.hpp"
#include "python/binding/exports.hpp"
#include "python/binding/json.hpp"

namespace kiln::python {
namespace {

namespace ffi = tvm::ffi;

using Options = kiln_engine_options;
template <class T>
using Fields = std::map<std::string, T Options::*>;

const Fields<const char*> kPaths = {
    {"cache_root", &Options::cache_root}, {"nvrtc", &Options::nvrtc},
    {"driver", &Options::driver},         {"compile_worker", &Options::compile_worker},
    {"record", &Options::record},         {"trace", &Options::trace},
};
const Fields<std::int32_t> kNumbers = {
    {"cache_group_shared", &Options::cache_group_shared},
    {"cache_allow_world_writable", &Options::cache_allow_world_writable},
    {"exact_toolchain", &Options::exact_toolchain},
    {"jit", &Options::jit},
    {"compile_in_process", &Options::compile_in_process},
    {"compile_jobs", &Options::compile_jobs},
    {"pdl", &Options::pdl},
    {"check", &Options::check},
    {"log_level", &Options::log_level},
    {"capture_misses", &Options::capture_misses},
};
const Fields<std::int64_t> kTimes = {
    {"compile_timeout_seconds", &Options::compile_timeout_seconds},
    {"compile_wait_seconds", &Options::compile_wait_seconds},
};
const Fields<std::uint64_t> kLimits = {
    {"cache_max_bytes", &Options::cache_max_bytes},
    {"cache_max_age_seconds", &Options::cache_max_age_seconds},
};

template <class T>
bool set(Options& options, const Fields<T>& fields, const std::string& name, Json& value) {
  const auto field = fields.find(name);
  if (field == fields.end()) {
    return false;
  }
  if constexpr (std::is_same_v<T, const char*>) {
    restore_path(value);
    options.*(field->second) = value.get_ref<const std::string&>().c_str();
  } else {
    options.*(field->second) = value.get<T>();
  }
  return true;
}

std::vector<const char*> paths(Json& list) {
  std::for_each(list.begin(), list.end(), restore_path);
  return texts(list);
}

Engine engine_create(const ffi::String& described, ffi::Optional<ffi::Function> log) {
  Json json = Json::parse(std::string(described));
  Options options = KILN_INIT(kiln_engine_options);
  std::vector<const char*> layers;
  std::vector<const char*> keys;
  for (auto& [name, value] : json.items()) {
    if (name == "layers") {
      layers = paths(value);
    } else if (name == "trusted_keys") {
      keys = paths(value);
    } else if (!set(options, kPaths, name, value) && !set(options, kNumbers, name, value) &&
               !set(options, kTimes, name, value) && !set(options, kLimits, name, value)) {
      refuse("an engine has no option \"" + name + "\"");
    }
  }
  options.layers = layers.data();
  options.layer_count = layers.size();
  options.trusted_keys = keys.data();
  options.trusted_key_count = keys.size();
  const auto life = std::make_shared<EngineLife>(std::move(log));
  life->create(options);
  return Engine(life);
}

// What uses it meanwhile finishes, and the last of that ends it.
void engine_close(const Engine& engine) {
  engine->life->close();
}

// For who held it in Python: ends it here, without Python's lock, where nobody else is about to use
// it. Else that is left to the last of those.
void engine_release(const Engine& engine) {
  constexpr int kOnlyCaller = 2;  // Python's, and the argument's.
  if (engine.use_count() <= kOnlyCaller) {
    engine->life->close();
  }
}

void engines_end() {
  EngineLife::end_all();
}

ffi::String engine_counters(const Engine& engine) {
  const Use use(engine);
  kiln_counters counters = KILN_INIT(kiln_counters);
  check(kiln_engine_counters(use.engine(), &counters));
  const Json json = {{"compiles", counters.compiles},
                     {"cache_hits", counters.cache_hits},
                     {"cache_misses", counters.cache_misses},
                     {"cache_bytes_read", counters.cache_bytes_read},
                     {"cache_publishes", counters.cache_publishes},
                     {"cache_bytes_written", counters.cache_bytes_written},
                     {"cache_write_failures", counters.cache_write_failures},
                     {"rejected_entries", counters.rejected_entries},
                     {"removed_temporaries", counters.removed_temporaries},
                     {"trimmed_files", counters.trimmed_files},
                     {"libraries_loaded", counters.libraries_loaded}};
  return json.dump();
}

// Path and hits of each, as JSON.
ffi::String engine_cache_layers(const Engine& engine) {
  const Use use(engine);
  std::size_t count = 0;
  check(kiln_cache_layer_count(use.engine(), &count));
  Json layers = Json::array();
  for (std::size_t i = 0; i < count; ++i) {
    kiln_cache_layer layer = KILN_INIT(kiln_cache_layer);
    check(kiln_cache_layer_at(use.engine(), i, &layer));
    layers.push_back({path_in_json(layer.path), layer.hits});
  }
  return layers.dump();
}

// With commas between them.
ffi::String engine_device_targets(const Engine& engine) {
  const Use use(engine);
  const char* targets = "";
  check(kiln_device_targets(use.engine(), &targets));
  return targets;
}

ffi::String engine_op_names(const Engine& engine) {
  const Use use(engine);
  std::size_t count = 0;
  check(kiln_op_count(use.engine(), &count));
  Json names = Json::array();
  for (std::size_t i = 0; i < count; ++i) {
    kiln_op_info info = KILN_INIT(kiln_op_info);
    check(kiln_op_at(use.engine(), i, &info));
    names.push_back(info.name);
  }
  return names.dump();
}

// engine, streams
void engine_unload(const ffi::PackedArgs& args, ffi::Any* result) {
  std::vector<kiln_stream> streams;
  for (int i = 1; i < args.size(); ++i) {
    streams.push_back(reinterpret_cast<kiln_stream>(args[i].cast<std::int64_t>()));
  }
  std::size_t unloaded = 0;
  const auto engine = args[0].cast<Engine>();
  const Use use(engine);
  check(kiln_unload(use.engine(), streams.data(), streams.size(), &unloaded));
  *result = static_cast<std::int64_t>(unloaded);
}

void engine_forget_compile_failures(const Engine& engine) {
  const Use use(engine);
  check(kiln_forget_compile_failures(use.engine()));
}

std::int64_t library_version() {
  return kiln_version();
}

}  // namespace
}  // namespace kiln::python

KILN_EXPORT_PACKED(engine_unload, kiln::python::engine_unload)
KILN_EXPORT_TYPED(engine_create, kiln::python::engine_create)
KILN_EXPORT_TYPED(engine_close, kiln::python::engine_close)
KILN_EXPORT_TYPED(engine_release, kiln::python::engine_release)
KILN_EXPORT_TYPED(engines_end, kiln::python::engines_end)
KILN_EXPORT_TYPED(engine_counters, kiln::python::engine_counters)
KILN_EXPORT_TYPED(engine_cache_layers, kiln::python::engine_cache_layers)
KILN_EXPORT_TYPED(engine_device_targets, kiln::python::engine_device_targets)
KILN_EXPORT_TYPED(engine_op_names, kiln::python::engine_op_names)
KILN_EXPORT_TYPED(engine_forget_compile_failures, kiln::python::engine_forget_compile_failures)
KILN_EXPORT_TYPED(library_version, kiln::python::library_version)
