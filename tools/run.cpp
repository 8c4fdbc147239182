#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "reference/bf16.hpp"
#include "runtime/driver/handles.hpp"
#include "runtime/engine_impl.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/run_case.hpp"

namespace kiln::tools {
namespace {

struct RunArgs {
  std::string op;
  std::int64_t m = 8;
  std::uint64_t seed = 1;
  std::string pdl = "on";
  bool json = false;
};

// A bf16 NaN in every element: the references of these inputs have none, so what a kernel did not
// write differs.
constexpr unsigned char kPoison = 0xFF;

/// How one output compares with its reference.
struct Comparison {
  std::string output;
  std::size_t elements = 0;
  std::size_t different = 0;
  std::size_t first = 0;  ///< Index of the first difference.
  std::uint16_t got = 0;
  std::uint16_t expected = 0;
};

Comparison compare(const HostTensor& expected, const std::vector<std::uint16_t>& got) {
  Comparison out{.output = expected.arg->name, .elements = got.size()};
  for (std::size_t i = got.size(); i-- > 0;) {
    if (!reference::same(got[i], expected.data[i])) {
      ++out.different;
      out.first = i;
      out.got = got[i];
      out.expected = expected.data[i];
    }
  }
  return out;
}

/// The case's tensors on the device: inputs as they are, outputs poisoned.
std::vector<runtime::DeviceMemory> upload(const std::shared_ptr<const runtime::Driver>& driver,
                                          const RunCase& run_case) {
  std::vector<runtime::DeviceMemory> out;
  for (const HostTensor& tensor : run_case.tensors()) {
    auto memory = value_or_throw(
        runtime::DeviceMemory::allocate(driver, std::max<std::size_t>(tensor.bytes(), 1)));
    if (tensor.arg->access == Access::kWrite) {
      value_or_throw(memory.fill(kPoison));
    } else if (!tensor.data.empty()) {
      value_or_throw(memory.upload(tensor.data.data(), tensor.bytes()));
    }
    out.push_back(std::move(memory));
  }
  return out;
}

Tensor device_view(const HostTensor& tensor, void* data) {
  switch (tensor.shape.size()) {
    case 1:
      return {data, DType::kBF16, {tensor.shape[0]}};
    case 2:
      return {data, DType::kBF16, {tensor.shape[0], tensor.shape[1]}};
    default:
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("'kiln run' handles tensors of one or two dimensions; '{}' has {}.",
                              tensor.arg->name, tensor.shape.size()));
  }
}

void launch(Engine& engine, const std::shared_ptr<const runtime::Driver>& driver,
            const RunArgs& args, const RunCase& run_case,
            const std::vector<runtime::DeviceMemory>& memory) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    tensors.push_back(device_view(run_case.tensors()[i], memory[i].data()));
  }
  const std::vector<Arg> call(tensors.begin(), tensors.end());
  const OpHandle op = engine.op(args.op);
  const std::size_t workspace_bytes = engine.workspace_bytes(op, call);
  auto workspace = value_or_throw(
      runtime::DeviceMemory::allocate(driver, std::max<std::size_t>(workspace_bytes, 1)));
  value_or_throw(workspace.fill(kPoison));

  const auto stream = value_or_throw(runtime::Stream::create(driver));
  engine.launch(
      op, call, stream.get(),
      {.pdl = args.pdl == "on", .workspace = workspace.data(), .workspace_bytes = workspace_bytes});
  value_or_throw(stream.synchronize());
}

std::vector<Comparison> compare_outputs(const RunCase& expected,
                                        const std::vector<runtime::DeviceMemory>& memory) {
  std::vector<Comparison> out;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const HostTensor& tensor = expected.tensors()[i];
    if (tensor.is_output()) {
      std::vector<std::uint16_t> got(tensor.data.size());
      if (!got.empty()) {
        value_or_throw(memory[i].download(got.data(), tensor.bytes()));
      }
      out.push_back(compare(tensor, got));
    }
  }
  return out;
}

Json to_json(const Comparison& comparison) {
  return {{"name", comparison.output},
          {"elements", comparison.elements},
          {"different", comparison.different}};
}

void print_comparison(const Comparison& c) {
  if (c.different == 0) {
    print_out("{}: all {} equal the reference bit for bit\n", c.output,
              count(c.elements, "element", "elements"));
  } else {
    print_out("{}: {} of {} differ from the reference; element {} is 0x{:04x}, expected 0x{:04x}\n",
              c.output, c.different, count(c.elements, "element", "elements"), c.first, c.got,
              c.expected);
  }
}

int run(const RunArgs& args) {
  Engine engine(engine_options());
  const Op& op = engine.op(args.op).op();
  RunCase run_case(op, args.m, args.seed);

  const auto driver = value_or_throw(engine.impl().driver());
  const runtime::DeviceInfo& device = *value_or_throw(driver->device(0));
  const auto context = value_or_throw(runtime::PrimaryContext::retain(driver, 0));
  const std::vector<runtime::DeviceMemory> memory = upload(driver, run_case);
  launch(engine, driver, args, run_case, memory);

  run_case.compute_reference(device.capability);
  const std::vector<Comparison> outputs = compare_outputs(run_case, memory);
  const bool equal = std::all_of(outputs.begin(), outputs.end(),
                                 [](const Comparison& c) { return c.different == 0; });
  if (args.json) {
    Json list = Json::array();
    for (const Comparison& output : outputs) {
      list.push_back(to_json(output));
    }
    print_json({{"op", op.name},
                {"m", args.m},
                {"seed", args.seed},
                {"pdl", args.pdl == "on"},
                {"device", device.name},
                {"compiled", engine.counters().compiles},
                {"equal", equal},
                {"outputs", list}});
  } else {
    print_out("{} with m = {}, PDL {}, on {}\n", op.name, args.m, args.pdl, device.name);
    std::for_each(outputs.begin(), outputs.end(), print_comparison);
  }
  if (!equal) {
    complain(fmt::format("{} does not agree with its reference.", op.name));
  }
  return equal ? kSuccess : kFailure;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  const auto args = std::make_shared<RunArgs>();
  CLI::App* command = app.add_subcommand(
      "run", "Launch an op on random data on the GPU and compare with the CPU reference.");
  command->add_option("op", args->op, "The op's name.")->required()->type_name("OP");
  command->add_option("--m", args->m, "Rows (default 8).")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20))
      ->type_name("N");
  command->add_option("--seed", args->seed, "Of the random data (default 1).")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  command->add_option("--pdl", args->pdl, "Programmatic dependent launch (default on).")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("on|off");
  command->add_flag("--json", args->json, "Print one JSON object.");
  command->callback([&action, args] { action = [args] { return run(*args); }; });
}

}  // namespace kiln::tools
