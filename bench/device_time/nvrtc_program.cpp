#include "bench/device_time/nvrtc_program.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace kiln::bench {
namespace {

void destroy_program(nvrtcProgram program) {
  nvrtcDestroyProgram(&program);
}
using ProgramHandle = Owner<nvrtcProgram, destroy_program>;

ProgramHandle create_program(const std::string& source, const HeaderSet& headers) {
  std::vector<const char*> names;
  std::vector<const char*> contents;
  for (const auto& [name, content] : headers) {
    names.push_back(name.c_str());
    contents.push_back(content.c_str());
  }
  ProgramHandle program;
  check(nvrtcCreateProgram(program.out(), source.c_str(), "bench.cu",
                           static_cast<int>(headers.size()), contents.data(), names.data()),
        "nvrtcCreateProgram");
  return program;
}

}  // namespace

void add_headers(const std::string& root, HeaderSet& headers) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".cuh") {
      std::ifstream file(entry.path(), std::ios::binary);
      headers[entry.path().lexically_relative(root).generic_string()] =
          std::string(std::istreambuf_iterator<char>(file), {});
    }
  }
}

Program::Program(const std::string& source, const std::vector<std::string>& names,
                 const HeaderSet& headers, const std::string& target) {
  const ProgramHandle program = create_program(source, headers);
  for (const std::string& name : names) {
    check(nvrtcAddNameExpression(program.get(), name.c_str()), "nvrtcAddNameExpression");
  }
  const std::string arch = "-arch=" + target;
  const char* options[] = {arch.c_str(), "-std=c++17", "--no-source-include", "--ptxas-options=-v"};
  const nvrtcResult result =
      nvrtcCompileProgram(program.get(), static_cast<int>(std::size(options)), options);
  std::size_t size = 0;
  check(nvrtcGetProgramLogSize(program.get(), &size), "nvrtcGetProgramLogSize");
  log_.resize(size);
  check(nvrtcGetProgramLog(program.get(), log_.data()), "nvrtcGetProgramLog");
  if (result != NVRTC_SUCCESS) {
    throw std::runtime_error("compiling for " + target + " failed:\n" + log_);
  }
  check(nvrtcGetCUBINSize(program.get(), &size), "nvrtcGetCUBINSize");
  cubin_.resize(size);
  check(nvrtcGetCUBIN(program.get(), cubin_.data()), "nvrtcGetCUBIN");
  for (const std::string& name : names) {
    const char* lowered = nullptr;
    check(nvrtcGetLoweredName(program.get(), name.c_str(), &lowered), "nvrtcGetLoweredName");
    lowered_[name] = lowered;
  }
}

void Program::load() {
  check(cuLibraryLoadData(library_.out(), cubin_.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cuLibraryLoadData");
}

CUfunction Program::kernel(const std::string& name) const {
  CUkernel kernel = nullptr;
  check(cuLibraryGetKernel(&kernel, library_.get(), lowered_.at(name).c_str()),
        "cuLibraryGetKernel");
  CUfunction function = nullptr;
  check(cuKernelGetFunction(&function, kernel), "cuKernelGetFunction");
  return function;
}

}  // namespace kiln::bench
