#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <kiln/engine.hpp>

#include "runtime/driver/handles.hpp"
#include "runtime/engine_impl.hpp"
#include "tools/commands.hpp"
#include "tools/compare.hpp"
#include "tools/console.hpp"
#include "tools/device_call.hpp"
#include "tools/op_case.hpp"
#include "tools/rsqrt_probe.hpp"

namespace kiln::tools {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 20;
constexpr std::int64_t kMostExtent = std::int64_t{1} << 31;

struct RunArgs {
  std::string op;
  std::int64_t m = 8;
  std::vector<std::string> dims;
  std::vector<std::string> dtypes;
  std::vector<std::string> with;
  std::uint64_t seed = 1;
  std::string pdl = "on";
  bool json = false;
};

// "NAME=VALUE" of one option; what is wrong with it is a mistake on the command line.
template <class Parse>
auto parse_pairs(const char* option, const std::vector<std::string>& texts, const Parse& parse) {
  std::map<std::string, typename decltype(parse(std::string()))::value_type> out;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    const auto value = equals == std::string::npos ? decltype(parse(std::string())){}
                                                   : parse(text.substr(equals + 1));
    if (!value || equals == 0) {
      throw CLI::ValidationError(option, fmt::format("'{}' is not understood", text));
    }
    out[text.substr(0, equals)] = *value;
  }
  return out;
}

std::optional<std::int64_t> parse_extent(const std::string& text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool number = error == std::errc() && stop == end;
  return number && value >= 0 && value <= kMostExtent ? std::optional(value) : std::nullopt;
}

std::optional<DType> parse_dtype(const std::string& text) {
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kE4M3, DType::kE8M0, DType::kU8,
                            DType::kI32, DType::kI64, DType::kBool, DType::kComplex64}) {
    if (text == dtype_name(dtype)) {
      return dtype;
    }
  }
  return std::nullopt;
}

CallRequest parse_request(const RunArgs& args) {
  CallRequest request;
  request.dims = parse_pairs("--dim", args.dims, parse_extent);
  request.dtypes = parse_pairs("--dtype", args.dtypes, parse_dtype);
  request.seed = args.seed;
  request.with = {args.with.begin(), args.with.end()};
  return request;
}

// A reference::Rsqrt. The engine has the op already.
std::vector<float> device_rsqrt(Engine& engine,
                                const std::shared_ptr<const runtime::Driver>& driver,
                                runtime::Stream& stream, const std::vector<float>& values) {
  if (values.empty()) {
    return {};
  }
  const std::size_t bytes = values.size() * sizeof(float);
  const auto count = static_cast<std::int64_t>(values.size());
  auto from = value_or_throw(runtime::DeviceMemory::allocate(driver, bytes));
  const auto to = value_or_throw(runtime::DeviceMemory::allocate(driver, bytes));
  value_or_throw(from.upload(values.data(), bytes));
  engine.launch(
      "rsqrt_probe",
      {Tensor(from.data(), DType::kF32, {count}), Tensor(to.data(), DType::kF32, {count})},
      stream.get());
  value_or_throw(stream.synchronize());
  std::vector<float> out(values.size());
  value_or_throw(to.download(out.data(), bytes));
  return out;
}

std::vector<Comparison> compare_outputs(const HostCall& expected, const DeviceCall& device) {
  std::vector<Comparison> out;
  for (std::size_t i = 0; i < expected.tensors().size(); ++i) {
    if (expected.tensors()[i].is_output()) {
      out.push_back(compare(expected.tensors()[i], device.download(i)));
    }
  }
  return out;
}

Json to_json(const Comparison& comparison) {
  return {{"name", comparison.output},
          {"elements", comparison.elements},
          {"different", comparison.different}};
}

Json describe(const HostCall& call, const RunArgs& args) {
  Json dtypes = Json::object();
  for (const HostTensor& tensor : call.tensors()) {
    dtypes[tensor.arg->name] = dtype_name(tensor.dtype);
  }
  return {{"op", call.op().name}, {"m", args.m},       {"dims", call.dims()},
          {"dtypes", dtypes},     {"seed", args.seed}, {"pdl", args.pdl == "on"},
          {"with", args.with}};
}

std::string dims_text(const HostCall& call) {
  std::string out;
  for (const auto& [symbol, value] : call.dims()) {
    out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", symbol, value);
  }
  return out;
}

int report(const RunArgs& args, const HostCall& call, const std::string& device,
           const Engine& engine, const std::vector<Comparison>& outputs) {
  const bool equal = std::all_of(outputs.begin(), outputs.end(),
                                 [](const Comparison& c) { return c.different == 0; });
  if (args.json) {
    Json out = describe(call, args);
    out["device"] = device;
    out["compiled"] = engine.counters().compiles;
    out["equal"] = equal;
    out["outputs"] = Json::array();
    for (const Comparison& output : outputs) {
      out["outputs"].push_back(to_json(output));
    }
    print_json(out);
  } else {
    print_out("{} with {}, PDL {}, on {}\n", call.op().name, dims_text(call), args.pdl, device);
    for (const Comparison& output : outputs) {
      print_out("{}\n", to_string(output));
    }
  }
  if (!equal) {
    complain(fmt::format("{} does not agree with its reference.", call.op().name));
  }
  return equal ? kSuccess : kFailure;
}

int run(const RunArgs& args, CallRequest request) {
  Engine engine(engine_options());
  engine.register_op(rsqrt_probe_op());
  const registry::BoundOp& op = engine.impl().bound(engine.op(args.op));
  const OpCase op_case = find_case(args.op);
  request.dims.try_emplace(op_case.rows, args.m);
  HostCall call(op, op_case, request);

  const auto driver = value_or_throw(engine.impl().driver());
  const runtime::DeviceInfo& device = *value_or_throw(driver->device(0));
  const auto context = value_or_throw(runtime::PrimaryContext::retain(driver, 0));
  auto stream = value_or_throw(runtime::Stream::create(driver));
  const DeviceCall device_call(engine, driver, call);
  device_call.launch(stream, args.pdl == "on");
  value_or_throw(stream.synchronize());

  op_case.reference(call, {device.capability, [&](const std::vector<float>& values) {
                             return device_rsqrt(engine, driver, stream, values);
                           }});
  return report(args, call, device.name, engine, compare_outputs(call, device_call));
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  const auto args = std::make_shared<RunArgs>();
  CLI::App* command = app.add_subcommand(
      "run", "Launch an op on random data on the GPU and compare with the CPU reference.");
  command->add_option("op", args->op, "The op's name.")->required()->type_name("OP");
  command->add_option("--m", args->m, "Rows (default 8).")
      ->check(CLI::Range(std::int64_t{0}, kMostRows))
      ->type_name("N");
  command->add_option("--dim", args->dims, "Another symbol of the op's shapes; may be repeated.")
      ->allow_extra_args(false)
      ->type_name("NAME=VALUE");
  command
      ->add_option("--dtype", args->dtypes, "Of an argument that allows several; may be repeated.")
      ->allow_extra_args(false)
      ->type_name("ARG=DTYPE");
  command->add_option("--with", args->with, "An optional argument of the op; may be repeated.")
      ->allow_extra_args(false)
      ->type_name("ARG");
  command->add_option("--seed", args->seed, "Of the random data (default 1).")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  command->add_option("--pdl", args->pdl, "Programmatic dependent launch (default on).")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("on|off");
  command->add_flag("--json", args->json, "Print one JSON object.");
  command->callback([&action, args] {
    action = [args, request = parse_request(*args)] { return run(*args, request); };
  });
}

}  // namespace kiln::tools
