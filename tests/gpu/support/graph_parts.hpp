#pragma once

/// \file
/// What a captured graph holds.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/gpu/support/gpu.hpp"

namespace kiln::gpu {

inline int driver_version() {
  int version = 0;
  KILN_CU(cuDriverGetVersion, &version);
  return version;
}

/// Whether graphs here have programmatic edges, and can be asked for them.
inline bool has_programmatic_edges() {
  return driver_version() >= 12030 && Gpu::instance().target().major >= 9;
}

/// A dependency of a graph. From driver 12.3 on.
struct Edge {
  CUgraphNode from;
  CUgraphNode to;
  bool programmatic;
};

inline std::vector<Edge> edges_of(const Graph& graph) {
  // By its versioned name: what cuda.h calls it differs between CUDA 12 and 13.
  using GetEdges =
      CUresult (*)(CUgraph, CUgraphNode*, CUgraphNode*, CUgraphEdgeData*, std::size_t*);
  const auto get_edges = reinterpret_cast<GetEdges>(symbol("cuGraphGetEdges_v2"));
  std::size_t count = 0;
  check("cuGraphGetEdges_v2", get_edges(graph.get(), nullptr, nullptr, nullptr, &count));
  std::vector<CUgraphNode> from(count);
  std::vector<CUgraphNode> to(count);
  std::vector<CUgraphEdgeData> data(count);
  check("cuGraphGetEdges_v2", get_edges(graph.get(), from.data(), to.data(), data.data(), &count));
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < count; ++i) {
    edges.push_back({from[i], to[i], data[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC});
  }
  return edges;
}

/// Whether each edge of a chain is programmatic, in the chain's order. Empty for any other graph.
inline std::vector<bool> programmatic_edges(const Graph& chain) {
  const std::vector<Edge> edges = edges_of(chain);
  const auto ends_at = [&](CUgraphNode node) {
    return std::any_of(edges.begin(), edges.end(), [&](const Edge& e) { return e.to == node; });
  };
  auto next = std::find_if(edges.begin(), edges.end(),
                           [&](const Edge& edge) { return !ends_at(edge.from); });
  std::vector<bool> programmatic;
  while (next != edges.end() && programmatic.size() < edges.size()) {
    programmatic.push_back(next->programmatic);
    const CUgraphNode end = next->to;
    next = std::find_if(edges.begin(), edges.end(),
                        [&](const Edge& edge) { return edge.from == end; });
  }
  return programmatic.size() == edges.size() ? programmatic : std::vector<bool>{};
}

/// An attribute of the graph's only node, a kernel.
inline CUlaunchAttributeValue attribute_of_only_node(const Graph& graph, CUlaunchAttributeID id) {
  CUgraphNode node = nullptr;
  std::size_t count = 1;
  KILN_CU(cuGraphGetNodes, graph.get(), &node, &count);
  CUlaunchAttributeValue value{};
  KILN_CU(cuGraphKernelNodeGetAttribute, node, id, &value);
  return value;
}

}  // namespace kiln::gpu
