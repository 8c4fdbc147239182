#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "tests/fake_driver/fake_driver.hpp"

// What the handles point to, and the fake's one state. Handles are addresses of these, so a wrong
// one is found by looking it up.
struct CUctx_st {
  int device = 0;
  unsigned long long id = 0;
};
struct CUstream_st {
  CUcontext context = nullptr;
  bool capturing = false;
  bool spoiled = false;
  bool blocking = false;
};
struct CUlib_st {
  std::string image;
  bool loaded = true;
};
struct CUkern_st {
  CUlibrary library = nullptr;
  std::string symbol;
};
struct CUfunc_st {
  CUkernel kernel = nullptr;
  CUcontext context = nullptr;
  bool resident = false;
  std::map<int, int> attributes;
};

namespace kiln::fake {

class State final : public Control {
 public:
  void set_devices(std::vector<Device> devices) override;
  void set_version(int version) override;
  CUcontext make_context(int device) override;
  void set_current(CUcontext context) override;
  CUstream make_stream(CUcontext context) override;
  CUstream make_blocking_stream(CUcontext context) override;
  void set_capturing(CUstream stream, bool capturing) override;
  bool spoiled(CUstream stream) override;
  void fail(const std::string& function, CUresult result, int times) override;
  void refuse_images(const std::string& part) override;
  void describe_kernel(const std::string& symbol, std::vector<std::size_t> param_bytes) override;
  void set_static_shared(const std::string& symbol, int bytes) override;
  void on_launch(std::function<void(const Launch&)> kernel) override;
  void set_event_milliseconds(float milliseconds) override;
  void add_memory(std::uint64_t address, std::uint64_t bytes, int device) override;
  std::vector<std::string> calls() override;
  std::size_t count(const std::string& function) override;
  std::vector<Launch> launches() override;
  void forget_calls() override;
  void set_recording(bool on) override;
  std::uint64_t total() override { return total_.load(); }
  int function_attribute(const std::string& symbol, CUfunction_attribute attribute) override;
  CUstreamCaptureMode capture_mode() override;
  std::vector<CUstreamCaptureMode> load_capture_modes() override;

  /// Records a call; the failure that was asked for it, else success.
  CUresult enter(const char* function);
  /// For a call that captures forbid: unless this thread's mode allows it, it fails, and every
  /// capture under way is spoiled. With the mutex held.
  CUresult forbidden_by_captures();

  std::mutex mutex;  ///< Guards what follows.
  std::vector<Device> devices{Device{}};
  int version = 13000;
  std::list<CUctx_st> contexts;
  std::map<int, CUcontext> primary_contexts;
  std::list<CUstream_st> streams;
  std::list<CUlib_st> libraries;
  std::list<CUkern_st> kernels;
  std::list<CUfunc_st> functions;
  std::vector<std::string> refused_parts;
  std::map<std::string, std::vector<std::size_t>> signatures;
  std::map<std::string, int> static_shared;
  struct Memory {
    std::uint64_t address;
    std::uint64_t bytes;
    int device;
  };
  std::vector<Memory> memory;
  std::vector<Launch> launches_;
  std::vector<CUstreamCaptureMode> load_modes;
  std::function<void(const Launch&)> kernel;
  float event_milliseconds = 0.1F;

  std::atomic<bool> recording{true};
  std::atomic<pid_t> process{0};  ///< That called cuInit first.

 private:
  std::atomic<std::uint64_t> total_{0};
  std::vector<std::string> calls_;                            // Guarded by mutex.
  std::map<std::string, std::pair<CUresult, int>> failures_;  // Guarded by mutex.
};

/// Never destroyed: threads may still launch while the process exits.
State& state();

/// Of the calling thread. Not thread_local: a program of many tests opens many copies of this
/// library, and LeakSanitizer cannot follow that many modules with thread-local storage.
CUcontext& current_context();
CUstreamCaptureMode& thread_capture_mode();

}  // namespace kiln::fake
