// The command's own kernels, with a real NVRTC.
#include "tools/bench/probes.hpp"

#include <kiln/engine.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"
#include "tools/rsqrt_probe.hpp"

namespace kiln::tools {

TEST_CASE("The probes compile, and the empty node waits exactly when it is under PDL") {
  const test::TempDir dir;
  EngineOptions options;
  options.cache_root = dir.str();
  Engine engine(options);
  engine.register_op(rsqrt_probe_op());
  engine.register_op(bench::empty_op());
  engine.register_op(bench::delay_op());
  for (const char* target : {"sm_90a", "sm_100a"}) {
    for (const char* op : {"rsqrt_probe", "bench_empty", "bench_delay"}) {
      for (const Variant& variant : engine.variants(engine.op(op), parse_target(target))) {
        const KernelInfo kernel = engine.compile(variant);
        INFO(kernel.name);
        CHECK(kernel.cubin_bytes > 0);
        CHECK(kernel.spill_bytes == 0);
        CHECK(kernel.pdl_wait == (variant.traits[kPdlTrait] != 0));
      }
    }
  }
}

}  // namespace kiln::tools
