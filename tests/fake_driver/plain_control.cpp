// What a test that is no C++ program sets and reads: Control, as plain functions.

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/fake_driver/state.hpp"

#define KILN_FAKE extern "C" __attribute__((visibility("default")))

namespace kiln::fake {
namespace {

/// As the ctypes structure of python/tests/machine.py.
struct PlainLaunch {
  char symbol[256];
  void* stream;
  unsigned grid[3];
  unsigned block[3];
  int attributes;
};

}  // namespace
}  // namespace kiln::fake

using kiln::fake::state;

/// Makes a new context of the device current on this thread.
KILN_FAKE void* kiln_fake_enter(int device);
void* kiln_fake_enter(int device) {
  const CUcontext context = state().make_context(device);
  state().set_current(context);
  return context;
}

/// Null for none.
KILN_FAKE void kiln_fake_set_current(void* context);
void kiln_fake_set_current(void* context) {
  state().set_current(static_cast<CUcontext>(context));
}

/// A stream of this thread's context.
KILN_FAKE void* kiln_fake_make_stream();
void* kiln_fake_make_stream() {
  return state().make_stream(kiln::fake::current_context());
}

KILN_FAKE void kiln_fake_add_memory(std::uint64_t address, std::uint64_t bytes, int device);
void kiln_fake_add_memory(std::uint64_t address, std::uint64_t bytes, int device) {
  state().add_memory(address, bytes, device);
}

KILN_FAKE void kiln_fake_forget_calls();
void kiln_fake_forget_calls() {
  state().forget_calls();
}

KILN_FAKE void kiln_fake_set_recording(int on);
void kiln_fake_set_recording(int on) {
  state().set_recording(on != 0);
}

KILN_FAKE std::size_t kiln_fake_launch_count();
std::size_t kiln_fake_launch_count() {
  return state().launches().size();
}

KILN_FAKE void kiln_fake_launch(std::size_t index, kiln::fake::PlainLaunch* out);
void kiln_fake_launch(std::size_t index, kiln::fake::PlainLaunch* out) {
  const kiln::fake::Launch launch = state().launches().at(index);
  *out = {};
  launch.symbol.copy(out->symbol, sizeof(out->symbol) - 1);
  out->stream = launch.stream;
  std::copy(std::begin(launch.grid), std::end(launch.grid), out->grid);
  std::copy(std::begin(launch.block), std::end(launch.block), out->block);
  out->attributes = static_cast<int>(launch.attributes.size());
}
