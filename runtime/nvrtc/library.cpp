#include "runtime/nvrtc/library.hpp"

#include <memory>

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include "runtime/nvrtc/elf.hpp"

namespace kiln::runtime {
namespace {

auto unavailable(std::string message) {
  return fail(ErrorCode::kCompilerUnavailable, std::move(message));
}

// A library that stays loaded to the end of the process: NVRTC keeps threads and state that outlive
// any one user of it.
Result<void*> open_for_good(const std::string& path, const Toolchain& toolchain) {
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();
    return unavailable(fmt::format("cannot load NVRTC {} ({} with {}): {}", toolchain.version(),
                                   toolchain.nvrtc_path, toolchain.builtins_path,
                                   reason == nullptr ? "no reason given" : reason));
  }
  return handle;
}

// The path of the library that is loaded under `name`; empty when none is.
std::string loaded_as(const std::string& name) {
  void* const handle = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  link_map* map = nullptr;
  if (handle == nullptr || ::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) {
    return {};
  }
  std::string path = map->l_name == nullptr ? "" : map->l_name;
  ::dlclose(handle);
  return path;
}

// libnvrtc opens its builtins by name, and the loader answers with what is loaded under that name.
// That must be the file this toolchain's key was made from.
Status check_builtins(const Toolchain& toolchain) {
  const std::string name = fmt::format("libnvrtc-builtins.so.{}", toolchain.version());
  const std::string loaded = loaded_as(name);
  if (loaded.empty()) {
    return unavailable(fmt::format("{} is NVRTC {} and needs {}, but {} is not that library",
                                   toolchain.nvrtc_path, toolchain.version(), name,
                                   toolchain.builtins_path));
  }
  if (loaded == toolchain.builtins_path) {
    return {};
  }
  const auto id = library_id(loaded);
  if (!id || *id != toolchain.builtins_id) {
    return unavailable(fmt::format(
        "{} would use {}, which this process has loaded already, rather than {} from beside it. "
        "Set KILN_NVRTC to the libnvrtc that belongs to the loaded one.",
        toolchain.nvrtc_path, loaded, toolchain.builtins_path));
  }
  return {};
}

Status check_version(const NvrtcApi& api, const Toolchain& toolchain) {
  int major = 0;
  int minor = 0;
  if (api.version(&major, &minor) != NVRTC_SUCCESS || major != toolchain.major ||
      minor != toolchain.minor) {
    return unavailable(
        fmt::format("{} is NVRTC {}.{}, but the builtins library beside it is {}; "
                    "both must be of one version",
                    toolchain.nvrtc_path, major, minor, toolchain.builtins_path));
  }
  return {};
}

}  // namespace

Result<NvrtcApi> NvrtcApi::resolve(void* handle) {
  NvrtcApi api;
  std::string missing;
  const auto take = [handle, &missing](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr && missing.empty()) {
      missing = name;
    }
  };
  take(api.version, "nvrtcVersion");
  take(api.error_string, "nvrtcGetErrorString");
  take(api.architecture_count, "nvrtcGetNumSupportedArchs");
  take(api.architectures, "nvrtcGetSupportedArchs");
  take(api.create_program, "nvrtcCreateProgram");
  take(api.destroy_program, "nvrtcDestroyProgram");
  take(api.add_name_expression, "nvrtcAddNameExpression");
  take(api.compile_program, "nvrtcCompileProgram");
  take(api.lowered_name, "nvrtcGetLoweredName");
  take(api.log_size, "nvrtcGetProgramLogSize");
  take(api.log, "nvrtcGetProgramLog");
  take(api.cubin_size, "nvrtcGetCUBINSize");
  take(api.cubin, "nvrtcGetCUBIN");
  take(api.ptx_size, "nvrtcGetPTXSize");
  take(api.ptx, "nvrtcGetPTX");
  if (!missing.empty()) {
    return unavailable("it has no function " + missing);
  }
  return api;
}

Result<Nvrtc> Nvrtc::load(const Toolchain& toolchain) {
  // Builtins first: libnvrtc then finds it loaded, wherever the loader would have looked.
  const auto builtins = open_for_good(toolchain.builtins_path, toolchain);
  if (!builtins) {
    return tl::unexpected(builtins.error());
  }
  const auto handle = open_for_good(toolchain.nvrtc_path, toolchain);
  if (!handle) {
    return tl::unexpected(handle.error());
  }
  const auto api = NvrtcApi::resolve(*handle);
  if (!api) {
    return unavailable(
        fmt::format("{} cannot be used: {}", toolchain.nvrtc_path, api.error().message));
  }
  if (const Status version = check_version(*api, toolchain); !version) {
    return tl::unexpected(version.error());
  }
  if (const Status checked = check_builtins(toolchain); !checked) {
    return tl::unexpected(checked.error());
  }
  int count = 0;
  std::vector<int> architectures;
  if (api->architecture_count(&count) == NVRTC_SUCCESS && count > 0) {
    architectures.resize(static_cast<std::size_t>(count));
    if (api->architectures(architectures.data()) != NVRTC_SUCCESS) {
      architectures.clear();
    }
  }
  if (architectures.empty()) {
    return unavailable(toolchain.nvrtc_path + " does not say which architectures it compiles for");
  }
  return Nvrtc(std::make_shared<const Library>(Library{toolchain, *api, std::move(architectures)}));
}

}  // namespace kiln::runtime
