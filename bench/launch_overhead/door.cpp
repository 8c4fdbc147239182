#include "bench/launch_overhead/door.hpp"

#include <memory>

#include <kiln/kiln.hpp>

namespace kiln::bench {
namespace {

constexpr const char* kOp = "n128k512_gemm_bf16";

EngineOptions options_of(const std::string& cache_root, const std::string& driver) {
  EngineOptions options;
  options.cache_root = cache_root;
  options.driver = driver;
  return options;
}

struct Calls {
  Calls(const EngineOptions& options, const std::vector<void*>& tensors, std::int64_t rows)
      : x(tensors[0], DType::kBF16, {rows, 512}),
        w(tensors[1], DType::kBF16, {128, 512}),
        out(tensors[2], DType::kBF16, {rows, 128}),
        engine(options),
        plan(engine.plan(kOp, {x, w, out})) {}
  Tensor x;
  Tensor w;
  Tensor out;
  Engine engine;
  Plan plan;
};

}  // namespace

DoorBatches door_batches(const std::string& cache_root, const std::string& driver,
                         const std::vector<void*>& tensors, std::int64_t rows) {
  const auto calls = std::make_shared<Calls>(options_of(cache_root, driver), tensors, rows);
  return {[calls](int times, void* stream) {
            for (int i = 0; i < times; ++i) {
              calls->plan.launch({calls->x, calls->w, calls->out}, stream);
            }
          },
          [calls](int times, void* stream) {
            for (int i = 0; i < times; ++i) {
              calls->engine.launch(kOp, {calls->x, calls->w, calls->out}, stream);
            }
          }};
}

}  // namespace kiln::bench
