// An engine's process that a test kills: starts a pool, prints its worker's pid, and compiles
// (argument "compile"), does nothing ("idle"), or leaves the pool's descriptors open in a child of
// its own, whose pid it prints too, and compiles ("fork").

#include <cstdio>
#include <string>
#include <thread>

#include <unistd.h>

#include "tests/runtime/worker/workers.hpp"

namespace {

[[noreturn]] void wait_for_the_end() {
  for (;;) {
    ::pause();
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace kiln;
  const std::string how = argc == 2 ? argv[1] : "";
  runtime::WorkerPoolOptions options = test::worker_options();
  options.linger = std::chrono::hours(1);
  const auto pool = test::start_pool(options);
  std::printf("%d\n", pool->pids().front());
  pid_t child = 0;
  if (how == "fork") {
    child = ::fork();
    if (child == 0) {
      wait_for_the_end();
    }
  }
  std::printf("%d\n", child);
  std::fflush(stdout);
  if (how != "idle") {
    const auto unit = test::slow_unit();
    static_cast<void>(pool->compile({&unit, 1}));
  }
  wait_for_the_end();
}
