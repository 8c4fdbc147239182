// A warm launch allocates nothing. This file replaces operator new for its whole program, so it is
// a program of its own.

#include <cstdlib>
#include <new>

#include "tests/runtime/engine/ops.hpp"

namespace {
thread_local std::size_t allocations = 0;

void* count_and_allocate(std::size_t bytes) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void* allocate_or_throw(std::size_t bytes) {
  if (void* memory = count_and_allocate(bytes)) {
    return memory;
  }
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t bytes) {
  return allocate_or_throw(bytes);
}
void* operator new[](std::size_t bytes) {
  return allocate_or_throw(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return count_and_allocate(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return count_and_allocate(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace kiln::test {

TEST_CASE("A warm launch allocates nothing and makes exactly one driver call per kernel") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  const OpHandle op = engine.op("scale");
  const ScaleCall call;
  const Arg args[] = {call.x, call.bias, call.factor, call.out};
  engine.launch(op, args, nullptr);
  machine.fake().set_recording(false);

  const std::uint64_t calls = machine.fake().total();
  const std::size_t before = allocations;
  for (int i = 0; i < 1000; ++i) {
    engine.launch(op, args, nullptr);
  }
  CHECK(allocations == before);
  CHECK(machine.fake().total() == calls + 1000);
}

TEST_CASE("A plan's launch allocates nothing and makes exactly one driver call per kernel") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  const ScaleCall call;
  const Arg args[] = {call.x, call.bias, call.factor, call.out};
  const Plan plan = engine.plan(engine.op("scale"), args);
  machine.fake().set_recording(false);
  const std::uint64_t calls = machine.fake().total();
  const std::size_t before = allocations;
  for (int i = 0; i < 1000; ++i) {
    plan.launch(args, nullptr);
  }
  CHECK(allocations == before);
  CHECK(machine.fake().total() == calls + 1000);
}

TEST_CASE("A warm launch by name allocates nothing") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  const ScaleCall call;
  call.launch(engine);
  machine.fake().set_recording(false);
  const std::size_t before = allocations;
  call.launch(engine);
  CHECK(allocations == before);
}

TEST_CASE("A warm call of m = 0 makes no driver call and allocates nothing") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  const OpHandle op = engine.op("scale");
  const ScaleCall call(0);
  const Arg args[] = {call.x, call.bias, call.factor, call.out};
  engine.launch(op, args, nullptr);
  machine.fake().set_recording(false);
  const std::uint64_t calls = machine.fake().total();
  const std::size_t before = allocations;
  engine.launch(op, args, nullptr);
  CHECK(allocations == before);
  CHECK(machine.fake().total() == calls);
}

}  // namespace kiln::test
