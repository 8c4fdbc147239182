#include "tests/fake_driver/state.hpp"

#include <algorithm>
#include <thread>

#include <unistd.h>

namespace kiln::fake {
namespace {

struct ThreadState {
  CUcontext context = nullptr;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};

ThreadState& this_thread() {
  static std::mutex mutex;
  static auto* const threads = new std::map<std::thread::id, ThreadState>();
  const std::lock_guard lock(mutex);
  return (*threads)[std::this_thread::get_id()];
}

}  // namespace

State& state() {
  static State* const state = new State();
  return *state;
}

CUcontext& current_context() {
  return this_thread().context;
}

CUstreamCaptureMode& thread_capture_mode() {
  return this_thread().capture_mode;
}

CUresult State::enter(const char* function) {
  total_.fetch_add(1, std::memory_order_relaxed);
  if (!recording.load(std::memory_order_relaxed)) {
    return CUDA_SUCCESS;
  }
  if (const pid_t first = process.load(); first != 0 && first != getpid()) {
    return CUDA_ERROR_NOT_INITIALIZED;  // As the real one after a fork.
  }
  const std::lock_guard lock(mutex);
  calls_.emplace_back(function);
  const auto failure = failures_.find(function);
  if (failure != failures_.end() && failure->second.second > 0) {
    --failure->second.second;
    return failure->second.first;
  }
  return CUDA_SUCCESS;
}

void State::set_devices(std::vector<Device> value) {
  const std::lock_guard lock(mutex);
  devices = std::move(value);
}

void State::set_version(int value) {
  const std::lock_guard lock(mutex);
  version = value;
}

CUcontext State::make_context(int device) {
  const std::lock_guard lock(mutex);
  contexts.push_back({device, contexts.size() + 1});
  return &contexts.back();
}

void State::set_current(CUcontext context) {
  current_context() = context;
}

CUstream State::make_stream(CUcontext context) {
  const std::lock_guard lock(mutex);
  streams.push_back({.context = context});
  return &streams.back();
}

CUstream State::make_blocking_stream(CUcontext context) {
  const std::lock_guard lock(mutex);
  streams.push_back({.context = context, .blocking = true});
  return &streams.back();
}

void State::set_capturing(CUstream stream, bool capturing) {
  const std::lock_guard lock(mutex);
  stream->capturing = capturing;
  stream->spoiled = stream->spoiled && !capturing;
}

bool State::spoiled(CUstream stream) {
  const std::lock_guard lock(mutex);
  return stream->spoiled;
}

CUresult State::forbidden_by_captures() {
  constexpr int kRelaxedModeLoads = 12030;
  if (thread_capture_mode() == CU_STREAM_CAPTURE_MODE_RELAXED && version >= kRelaxedModeLoads) {
    return CUDA_SUCCESS;
  }
  CUresult result = CUDA_SUCCESS;
  for (CUstream_st& stream : streams) {
    if (stream.capturing) {
      stream.spoiled = true;
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  return result;
}

void State::fail(const std::string& function, CUresult result, int times) {
  const std::lock_guard lock(mutex);
  failures_[function] = {result, times};
}

void State::refuse_images(const std::string& part) {
  const std::lock_guard lock(mutex);
  refused_parts.push_back(part);
}

void State::describe_kernel(const std::string& symbol, std::vector<std::size_t> param_bytes) {
  const std::lock_guard lock(mutex);
  signatures[symbol] = std::move(param_bytes);
}

void State::set_static_shared(const std::string& symbol, int bytes) {
  const std::lock_guard lock(mutex);
  static_shared[symbol] = bytes;
}

void State::on_launch(std::function<void(const Launch&)> value) {
  const std::lock_guard lock(mutex);
  kernel = std::move(value);
}

void State::set_event_milliseconds(float value) {
  const std::lock_guard lock(mutex);
  event_milliseconds = value;
}

void State::add_memory(std::uint64_t address, std::uint64_t bytes, int device) {
  const std::lock_guard lock(mutex);
  memory.push_back({address, bytes, device});
}

std::vector<std::string> State::calls() {
  const std::lock_guard lock(mutex);
  return calls_;
}

std::size_t State::count(const std::string& function) {
  const std::lock_guard lock(mutex);
  return static_cast<std::size_t>(std::count(calls_.begin(), calls_.end(), function));
}

std::vector<Launch> State::launches() {
  const std::lock_guard lock(mutex);
  return launches_;
}

void State::forget_calls() {
  const std::lock_guard lock(mutex);
  calls_.clear();
  launches_.clear();
}

void State::set_recording(bool on) {
  recording.store(on);
}

int State::function_attribute(const std::string& symbol, CUfunction_attribute attribute) {
  const std::lock_guard lock(mutex);
  for (const CUfunc_st& function : functions) {
    const auto found = function.attributes.find(attribute);
    if (function.kernel->symbol == symbol && found != function.attributes.end()) {
      return found->second;
    }
  }
  return -1;
}

CUstreamCaptureMode State::capture_mode() {
  return thread_capture_mode();
}

std::vector<CUstreamCaptureMode> State::load_capture_modes() {
  const std::lock_guard lock(mutex);
  return load_modes;
}

}  // namespace kiln::fake
