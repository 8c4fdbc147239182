#pragma once

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "runtime/worker/find_worker.hpp"
#include "runtime/worker/pool.hpp"
#include "tests/runtime/nvrtc/units.hpp"

namespace kiln::test {

inline runtime::Toolchain machine_toolchain() {
  auto found = runtime::find_toolchain(runtime::ToolchainInputs::from_environment(""));
  if (!found) {
    throw std::runtime_error(found.error().message);
  }
  return std::move(*found);
}

/// With the worker of this build tree, which find_worker finds from here.
inline runtime::WorkerPoolOptions worker_options() {
  const auto found = runtime::find_worker({"", runtime::file_of_this_code()});
  if (!found) {
    throw std::runtime_error(found.error().message);
  }
  runtime::WorkerPoolOptions options;
  options.executable = *found;
  return options;
}

inline tl::expected<std::unique_ptr<runtime::WorkerPool>, runtime::StartFailure> try_start_pool(
    const runtime::Toolchain& toolchain, const runtime::WorkerPoolOptions& options) {
  auto pool = runtime::WorkerPool::make(toolchain, options);
  if (auto started = pool->start_first(); !started) {
    return tl::unexpected(std::move(started.error()));
  }
  return pool;
}

inline std::unique_ptr<runtime::WorkerPool> start_pool(const runtime::WorkerPoolOptions& options) {
  auto pool = try_start_pool(machine_toolchain(), options);
  if (!pool) {
    throw std::runtime_error(pool.error().failure.message);
  }
  return std::move(*pool);
}

/// A unit whose compile takes seconds, with time to do something to its worker. `number` tells one
/// from another.
inline registry::CompileUnit slow_unit(int number = 0) {
  registry::CompileUnit unit = make_unit(R"(
template <int N, int Number>
__global__ void slow(float* data) {
  float x[8];
  for (int i = 0; i < 8; ++i) x[i] = data[threadIdx.x * 8 + i] + Number;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    x[i % 8] = x[(i + 3) % 8] * data[i] + x[(i * 7 + 1) % 8] / data[i + 1];
    data[i] = x[i % 8];
  }
}
)",
                                         "slow<600, " + std::to_string(number) + ">");
  unit.label = "slow_op number=" + std::to_string(number);
  return unit;
}

/// Waits for something that must come to be; how long it takes says nothing.
template <class Condition>
bool comes_true(const Condition& condition) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// The fields of /proc/PID/stat after the name; empty when there is no such process.
inline std::vector<std::string> process_fields(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(") ");
  std::vector<std::string> fields;
  std::istringstream rest(name_end == std::string::npos ? "" : line.substr(name_end + 2));
  for (std::string field; rest >> field;) {
    fields.push_back(field);
  }
  return fields;
}

inline char process_state(pid_t pid) {
  const auto fields = process_fields(pid);
  return fields.empty() ? '-' : fields.front().front();
}

/// Whether a process has ended, be it waited for or not.
inline bool is_gone(pid_t pid) {
  const char state = process_state(pid);
  return state == '-' || state == 'Z' || state == 'X';
}

/// User time in clock ticks.
inline long cpu_ticks(pid_t pid) {
  const auto fields = process_fields(pid);
  return fields.size() > 11 ? std::stol(fields[11]) : 0;
}

/// Whether a process comes to work: only a compile takes a worker 0.3 s.
inline bool comes_to_compile(pid_t pid) {
  const long before = cpu_ticks(pid);
  return comes_true([&] { return cpu_ticks(pid) > before + 30; });
}

inline bool has_children() {
  return ::waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD;
}

inline std::size_t open_descriptors() {
  const std::filesystem::directory_iterator listed("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(listed), end(listed)));
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace kiln::test
