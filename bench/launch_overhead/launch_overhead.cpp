// What a launch costs the host, in turn, in one run: a bare cuLaunchKernelEx with the same
// function, attributes and parameters; a plan of the C++ door, of the C interface, and of the
// classes behind both; an engine of the door, by name, and of those classes, by op handle. With
// --threads also what the same costs on several threads at once, each with a stream of its own. On
// a GPU, or with --fake on the tests' driver, which only counts.

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <dlfcn.h>
#include <fmt/format.h>

#include <kiln/engine.hpp>
#include <kiln/kiln.h>

#include "bench/launch_overhead/door.hpp"
#include "runtime/driver/handles.hpp"
#include "runtime/engine_impl.hpp"
#include "tests/fake_driver/fake_driver.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::bench {
namespace {

constexpr int kBatch = 2000;
constexpr int kBatches = 31;
constexpr std::int64_t kRows = 8;

/// A GPU with its primary context, or the fake one, current on a thread, and a stream of it.
struct Place {
  std::optional<runtime::PrimaryContext> context;
  std::optional<runtime::Stream> stream;
  CUstream handle = nullptr;

  void synchronize() const {
    if (stream) {
      value_or_throw(stream->synchronize());
    }
  }
};

/// The tests' driver and a context of it.
struct Fake {
  fake::Control* control = nullptr;  ///< Null where there is a GPU instead.
  CUcontext context = nullptr;
};

Fake load_fake(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  auto* const control =
      library != nullptr
          ? reinterpret_cast<fake::ControlFunction>(dlsym(library, fake::kControlSymbol))
          : nullptr;
  if (control == nullptr) {
    throw Error(ErrorCode::kIo, path + " is not the tests' driver");
  }
  control()->set_recording(false);
  return {control(), control()->make_context(0)};
}

Place enter(const std::shared_ptr<const runtime::Driver>& driver, const Fake& fake) {
  Place place;
  if (fake.control != nullptr) {
    fake.control->set_current(fake.context);
    return place;
  }
  place.context.emplace(value_or_throw(runtime::PrimaryContext::retain(driver, 0)));
  place.stream.emplace(value_or_throw(runtime::Stream::create(driver)));
  place.handle = place.stream->get();
  return place;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// The call's only kernel, launched without any help. Stays where it is made.
class RawLaunch {
 public:
  RawLaunch(const runtime::Driver& driver, const runtime::PlanStep& step, CUstream stream,
            const std::vector<void*>& tensors)
      : launch_(driver.api().cuLaunchKernelEx), function_(step.function) {
    x_ = tensors[0];
    w_ = tensors[1];
    out_ = tensors[2];
    attribute_.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute_.value.programmaticStreamSerializationAllowed = 1;
    const Geometry& geometry = step.geometry;
    config_ = {geometry.grid.x,
               geometry.grid.y,
               geometry.grid.z,
               geometry.block.x,
               geometry.block.y,
               geometry.block.z,
               geometry.dynamic_shared_bytes,
               stream,
               &attribute_,
               step.pdl ? 1U : 0U};
  }
  RawLaunch(const RawLaunch&) = delete;
  RawLaunch& operator=(const RawLaunch&) = delete;
  void operator()() {
    if (launch_(&config_, function_, pointers_.data(), nullptr) != CUDA_SUCCESS) {
      throw Error(ErrorCode::kDriverError, "cuLaunchKernelEx failed");
    }
  }

 private:
  decltype(runtime::DriverApi::cuLaunchKernelEx) launch_;
  CUfunction function_;
  // As the template declares them.
  void* x_ = nullptr;
  std::int64_t x_row_stride_ = 512;
  void* w_ = nullptr;
  void* out_ = nullptr;
  std::int32_t rows_ = kRows;
  bool constants_early_ = true;
  std::array<void*, 6> pointers_{&x_, &x_row_stride_, &w_, &out_, &rows_, &constants_early_};
  CUlaunchAttribute attribute_{};
  CUlaunchConfig config_{};
};

/// The same call as a plan of the C interface, with an engine of its own.
class CPlan {
 public:
  CPlan(const EngineOptions& like, const Tensor& x, const Tensor& w, const Tensor& out)
      : args_{kiln_tensor("x", &x.dlpack()), kiln_tensor("w", &w.dlpack()),
              kiln_tensor("out", &out.dlpack())} {
    kiln_engine_options options = KILN_INIT(kiln_engine_options);
    options.cache_root = like.cache_root.empty() ? nullptr : like.cache_root.c_str();
    options.driver = like.driver.empty() ? nullptr : like.driver.c_str();
    check(kiln_engine_create(&options, &engine_));
    check(kiln_plan_create(engine_, "n128k512_gemm_bf16", args_.data(), args_.size(), &plan_));
  }
  CPlan(const CPlan&) = delete;
  CPlan& operator=(const CPlan&) = delete;
  ~CPlan() {
    kiln_plan_destroy(plan_);
    kiln_engine_destroy(engine_);
  }
  void operator()(CUstream stream) const {
    check(kiln_plan_launch(plan_, args_.data(), args_.size(), stream, nullptr));
  }

 private:
  static void check(kiln_status status) {
    if (status != KILN_OK) {
      throw Error(static_cast<ErrorCode>(status), kiln_last_error_message());
    }
  }
  std::array<kiln_arg, 3> args_;
  kiln_engine* engine_ = nullptr;
  kiln_plan* plan_ = nullptr;
};

/// One way of launching, and what its batches took.
struct Way {
  const char* name;
  Batch batch;
  std::vector<double> ns{};
};

double batch_ns(const Place& place, const Batch& batch) {
  place.synchronize();
  const auto start = std::chrono::steady_clock::now();
  batch(kBatch, place.handle);
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
  place.synchronize();
  return taken.count() / kBatch;
}

template <class Launch>
Batch batch_of(Launch launch) {
  return [launch](int times, void* stream) {
    for (int i = 0; i < times; ++i) {
      launch(static_cast<CUstream>(stream));
    }
  };
}

void compare(const Place& place, std::vector<Way> ways) {
  for (int batch = 0; batch < kBatches; ++batch) {
    for (Way& way : ways) {
      way.ns.push_back(batch_ns(place, way.batch));
    }
  }
  const double base = median(ways.front().ns);
  for (const Way& way : ways) {
    const double ns = median(way.ns);
    fmt::print("{:24} {:9.1f} ns a launch, of which {:7.1f} above the bare call, ratio {:.3f}\n",
               way.name, ns, ns - base, ns / base);
  }
}

using Enter = std::function<Place()>;

/// Of each batch, on so many threads at once.
std::vector<double> ns_on_threads(const Batch& batch, int threads, const Enter& enter) {
  std::vector<double> ns;
  std::mutex mutex;  // Guards ns.
  std::barrier together(threads);
  const auto launch = [&] {
    const Place place = enter();
    for (int i = 0; i < kBatches; ++i) {
      together.arrive_and_wait();
      const double taken = batch_ns(place, batch);
      const std::lock_guard lock(mutex);
      ns.push_back(taken);
    }
  };
  {
    std::vector<std::jthread> all;
    while (all.size() < static_cast<std::size_t>(threads)) {
      all.emplace_back(launch);
    }
  }
  return ns;
}

void compare_threads(const std::vector<Way>& ways, int threads, const Enter& enter) {
  for (const Way& way : ways) {
    const double alone = median(ns_on_threads(way.batch, 1, enter));
    const double beside = median(ns_on_threads(way.batch, threads, enter));
    fmt::print("{:24} {:9.1f} ns a launch on one thread, {:9.1f} on each of {}, ratio {:.3f}\n",
               way.name, alone, beside, threads, beside / alone);
  }
}

int run(const std::string& fake, int threads) {
  const test::TempDir dir;
  EngineOptions options;
  options.driver = fake;
  if (std::getenv("KILN_CACHE_DIR") == nullptr) {
    options.cache_root = dir.str("root");
  }
  Engine engine(options);
  const auto driver = value_or_throw(engine.impl().driver());
  const Fake fake_driver = fake.empty() ? Fake() : load_fake(fake);
  const Enter enter_place = [&] { return enter(driver, fake_driver); };
  const Place place = enter_place();
  std::vector<runtime::DeviceMemory> memory;
  std::vector<void*> tensors;
  if (fake.empty()) {
    for (const std::int64_t elements : {kRows * 512, std::int64_t{128} * 512, kRows * 128}) {
      const auto bytes = static_cast<std::size_t>(elements) * sizeof(std::uint16_t);
      memory.push_back(value_or_throw(runtime::DeviceMemory::allocate(driver, bytes)));
      tensors.push_back(memory.back().data());
    }
  } else {
    for (std::uint64_t address = 0x1000000; tensors.size() < 3; address += 0x1000000) {
      tensors.push_back(reinterpret_cast<void*>(address));
    }
  }
  const Tensor x(tensors[0], DType::kBF16, {kRows, 512});
  const Tensor w(tensors[1], DType::kBF16, {128, 512});
  const Tensor out(tensors[2], DType::kBF16, {kRows, 128});
  const Arg args[] = {x, w, out};
  const OpHandle op = engine.op("n128k512_gemm_bf16");
  const Plan plan = engine.plan(op, args);
  engine.launch(op, args, place.handle);
  const auto call = value_or_throw(engine.impl().launcher().plan(Engine::Impl::bound(op), args));
  const CPlan c_plan(options, x, w, out);

  const DoorBatches door = door_batches(options.cache_root, fake, tensors, kRows);
  const Batch raw = [&](int times, void* stream) {
    RawLaunch launch(*driver, call->plan->steps().front(), static_cast<CUstream>(stream), tensors);
    for (int i = 0; i < times; ++i) {
      launch();
    }
  };
  const std::vector<Way> ways = {
      {"cuLaunchKernelEx", raw},
      {"plan.launch", door.plan},
      {"kiln_plan_launch", batch_of([&](CUstream stream) { c_plan(stream); })},
      {"plan.launch, inside", batch_of([&](CUstream stream) { plan.launch(args, stream); })},
      {"engine.launch", door.engine},
      {"engine.launch, inside",
       batch_of([&](CUstream stream) { engine.launch(op, args, stream); })}};
  compare(place, ways);
  if (threads > 1) {
    compare_threads(ways, threads, enter_place);
  }
  return 0;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  CLI::App app("Times launches against the bare driver call.");
  std::string fake;
  app.add_option("--fake", fake, "path of the tests' driver");
  int threads = 0;
  app.add_option("--threads", threads, "also on so many threads at once");
  CLI11_PARSE(app, argc, argv);
  try {
    return kiln::bench::run(fake, threads);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
