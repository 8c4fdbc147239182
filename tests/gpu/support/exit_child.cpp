#include "tests/gpu/support/exit_child.hpp"

#include <cstdio>
#include <stdexcept>

#include "tests/gpu/support/add_op.hpp"

namespace kiln::gpu {
namespace {

struct Thrown : std::runtime_error {
  using std::runtime_error::runtime_error;
};

EngineOptions options(const std::string& cache) {
  EngineOptions options;
  options.cache_root = cache;
  return options;
}

// Statics are destroyed in the opposite order: the graph before its stream and context, and the
// engine after libcuda, which the context loads, has been through its own exit handlers.
void throw_with_a_graph_alive(const std::string& cache) {
  static Engine engine(options(cache));
  static const Context context;
  engine.register_op(add_op(kExitChildNumber));
  static const Stream stream;
  static const AddBuffer x;
  static const AddBuffer out;
  add(engine, kExitChildNumber, x, out, stream.get());
  static const Graph graph(stream, [] { add(engine, kExitChildNumber, x, out, stream.get()); });
  x.fill(1);
  graph.launch(stream);
  stream.synchronize();
  throw Thrown(out.holds(1.0F + kExitChildNumber) ? "right" : "wrong");
}

}  // namespace

int exit_with_a_graph_alive(const std::string& cache) {
  try {
    throw_with_a_graph_alive(cache);
  } catch (const Thrown& thrown) {
    return thrown.what() == std::string("right") ? kExitChildCode : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}

}  // namespace kiln::gpu
