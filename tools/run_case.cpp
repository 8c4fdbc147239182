#include "tools/run_case.hpp"

#include <array>
#include <random>
#include <string_view>

#include <fmt/format.h>

#include <kiln/error.hpp>

#include "reference/bf16.hpp"
#include "reference/gemm.hpp"

namespace kiln::tools {
namespace {

using Tensors = std::vector<HostTensor>;
using Reference = void (*)(Tensors&, ComputeCapability);

template <class Gemm>
void run_gemm(Gemm* gemm, Tensors& tensors, ComputeCapability device) {
  const HostTensor& x = tensors[0];
  gemm(x.data.data(), x.shape[1], tensors[1].data.data(), tensors[2].data.data(), x.shape[0],
       reference::vector_elements(device.major * 10 + device.minor));
}

struct NamedReference {
  std::string_view op;
  Reference compute;
};
constexpr std::array<NamedReference, 2> kReferences = {{
    {"n128k512_gemm_bf16",
     [](Tensors& tensors, ComputeCapability device) {
       run_gemm(reference::n128k512_gemm_bf16, tensors, device);
     }},
    {"n32k5120_gemm_bf16",
     [](Tensors& tensors, ComputeCapability device) {
       run_gemm(reference::n32k5120_gemm_bf16, tensors, device);
     }},
}};

Reference find_reference(std::string_view op) {
  for (const NamedReference& entry : kReferences) {
    if (entry.op == op) {
      return entry.compute;
    }
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("'kiln run' has no reference to compare '{}' with.", op));
}

// Normal values around zero, as activations and weights are.
void fill_random(HostTensor& tensor, std::mt19937_64& generator) {
  std::normal_distribution<float> normal(0.0F, 1.0F);
  for (std::uint16_t& value : tensor.data) {
    value = reference::to_bf16(normal(generator));
  }
}

}  // namespace

RunCase::RunCase(const Op& op, std::int64_t m, std::uint64_t seed) {
  compute_ = find_reference(op.name);
  std::mt19937_64 generator(seed);
  for (const ArgSpec& arg : op.args) {
    HostTensor& tensor = tensors_.emplace_back();
    tensor.arg = &arg;
    std::size_t elements = 1;
    for (const Dim& dim : arg.shape) {
      tensor.shape.push_back(dim.symbol.empty() ? dim.value : m);
      elements *= static_cast<std::size_t>(tensor.shape.back());
    }
    tensor.data.resize(elements);
    if (arg.access != Access::kWrite) {
      fill_random(tensor, generator);
    }
  }
}

void RunCase::compute_reference(ComputeCapability device) {
  compute_(tensors_, device);
}

}  // namespace kiln::tools
