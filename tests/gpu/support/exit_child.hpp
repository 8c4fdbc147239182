#pragma once

#include <string>

namespace kiln::gpu {

/// The first argument that makes the test program a child of the test of process exit; the second
/// is the cache's folder.
inline constexpr const char* kExitChildFlag = "--exit-with-a-graph-alive";
inline constexpr int kExitChildNumber = 203;  ///< Of its add_op.
inline constexpr int kExitChildCode = 5;      ///< What it exits with when all went as planned.

/// Launches a graph, throws with engine, graph and stream alive, and leaves them to the end of the
/// process. Returns what main is to return.
int exit_with_a_graph_alive(const std::string& cache);

}  // namespace kiln::gpu
