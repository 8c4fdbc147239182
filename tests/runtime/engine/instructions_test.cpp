// What a warm launch executes, counted: the same whatever else an engine holds, and no lock.

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/engine/ops.hpp"
#include "tests/support/count_instructions.hpp"

namespace kiln::test {
namespace {

/// A second thread, without which the C library leaves out what is atomic about its locks.
class OtherThread {
 public:
  OtherThread()
      : thread_([this](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, stop, [] { return false; });
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread thread_;
};

bool can_count() {
  const bool can = instructions_of([] {}).all != 0;
  if (!can) {
    WARN("skipped: instructions cannot be counted here");
  }
  return can;
}

/// Rows of calls that differ in their shape alone.
constexpr std::int64_t kFirstRows = 4;
constexpr std::int64_t kShapes = 41;

/// The median over some shapes: their plans lie in a hash table, and one that is not in the first
/// place that it is looked for costs a few more.
std::uint64_t median_of_shapes(const std::function<void(const ScaleCall&)>& launch) {
  std::vector<std::uint64_t> counts;
  for (std::int64_t rows = kFirstRows; rows < kFirstRows + kShapes; ++rows) {
    const ScaleCall call(rows);
    launch(call);  // Plans it, where that has not been done.
    counts.push_back(instructions_of([&] { launch(call); }).all);
  }
  std::sort(counts.begin(), counts.end());
  return counts[counts.size() / 2];
}

/// Ops, cached kernels and plans that the launches in question have nothing to do with.
void fill(Engine& engine, ScaleMachine& machine) {
  constexpr int kOps = 200;
  constexpr std::int64_t kPlans = 3000;
  for (int i = 0; i < kOps; ++i) {
    engine.register_op(scale_op("other_" + std::to_string(i)));
  }
  for (int i = 0; i < kOps; i += 10) {
    const std::string name = "other_" + std::to_string(i);
    plant(engine, name, "sm_90", machine.cache_root(), {.mark = name});
    ScaleCall().launch(engine, nullptr, {}, name.c_str());
  }
  for (std::int64_t i = 0; i < kPlans; ++i) {
    ScaleCall(kFirstRows + kShapes + i).launch(engine);
  }
}

}  // namespace

TEST_CASE("A warm launch executes as many instructions whatever else the engine holds") {
  if (!can_count()) {
    return;
  }
  ScaleMachine machine;
  Engine engine = machine.engine();
  machine.fake().set_recording(false);
  const OpHandle op = engine.op("scale");
  const ScaleCall planned;
  const Arg planned_args[] = {planned.x, planned.bias, planned.factor, planned.out};
  const Plan plan = engine.plan(op, planned_args);
  const auto launch_plan = [&] { plan.launch(planned_args, nullptr); };
  const auto launch_op = [&](const ScaleCall& call) {
    const Arg args[] = {call.x, call.bias, call.factor, call.out};
    engine.launch(op, args, nullptr);
  };
  launch_plan();
  const std::uint64_t of_plan = instructions_of(launch_plan).all;
  const std::uint64_t of_op = median_of_shapes(launch_op);
  fill(engine, machine);
  CHECK(instructions_of(launch_plan).all == of_plan);
  CHECK(median_of_shapes(launch_op) == of_op);
}

TEST_CASE("A warm launch takes no lock and writes nothing that threads share") {
  if (!can_count()) {
    return;
  }
  const OtherThread other;
  ScaleMachine machine;
  Engine engine = machine.engine();
  machine.fake().set_recording(false);
  const OpHandle op = engine.op("scale");
  const ScaleCall call;
  const Arg args[] = {call.x, call.bias, call.factor, call.out};
  const Plan plan = engine.plan(op, args);
  std::mutex mutex;
  CHECK(instructions_of([&] { const std::lock_guard lock(mutex); }).locking > 0);
  const std::uint64_t calls = machine.fake().total();
  // The fake counts its calls with an atomic; there are no others.
  CHECK(instructions_of([&] { plan.launch(args, nullptr); }).locking == 1);
  engine.launch(op, args, nullptr);
  CHECK(instructions_of([&] { engine.launch(op, args, nullptr); }).locking == 1);
  CHECK(machine.fake().total() == calls + 3);
}

}  // namespace kiln::test
