// Launching, and asking about a call. What is called often is made once for an op or a plan, and
// called with nothing but the arguments.

#include <cstddef>
#include <string>
#include <utility>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <kiln/kiln.h>

#include "python/binding/arguments.hpp"
#include "python/binding/error.hpp"
#include "python/binding/exports.hpp"

namespace kiln::python {
namespace {

namespace ffi = tvm::ffi;

// What src/kiln/_calls.py hands over before the arguments of a call that says more than those.
struct Details {
  static constexpr int kCount = 8;

  explicit Details(const ffi::AnyView* given)
      : stream(reinterpret_cast<kiln_stream>(given[0].cast<std::int64_t>())) {
    if (const auto workspace = given[1].try_cast<ffi::TensorView>()) {
      options.workspace = static_cast<char*>(workspace->data_ptr()) + workspace->byte_offset();
      options.workspace_bytes = static_cast<std::size_t>(workspace->numel());
    }
    options.pdl = given[2].cast<std::int32_t>();
    options.constants_ready = given[3].cast<std::int32_t>();
    options.serialize = given[4].cast<std::int32_t>();
    options.has_priority = given[5].cast<std::int32_t>();
    options.priority = given[6].cast<std::int32_t>();
    options.memory_sync_domain = given[7].cast<std::int32_t>();
  }

  kiln_stream stream;
  kiln_launch_options options = KILN_INIT(kiln_launch_options);
};

// What is launched: an op of an engine, or a plan.
class OpTarget {
 public:
  OpTarget(Handle engine, std::string op)
      : engine_(from_handle<kiln_engine>(engine)), op_(std::move(op)) {}

  void launch(const Arguments& args, kiln_stream stream, const kiln_launch_options* options) const {
    check(kiln_launch(engine_, op_.c_str(), args.data(), args.size(), stream, options));
  }
  std::size_t workspace_bytes(const Arguments& args) const {
    std::size_t bytes = 0;
    check(kiln_workspace_bytes(engine_, op_.c_str(), args.data(), args.size(), &bytes));
    return bytes;
  }
  Arguments read(const ffi::AnyView* args, std::int32_t count) const {
    return arguments_of(engine_, op_, args, count);
  }

 private:
  kiln_engine* engine_;
  std::string op_;
};

class PlanTarget {
 public:
  explicit PlanTarget(Handle plan) : plan_(from_handle<kiln_plan>(plan)) {}

  void launch(const Arguments& args, kiln_stream stream, const kiln_launch_options* options) const {
    check(kiln_plan_launch(plan_, args.data(), args.size(), stream, options));
  }
  std::size_t workspace_bytes(const Arguments&) const {
    std::size_t bytes = 0;
    check(kiln_plan_workspace_bytes(plan_, &bytes));
    return bytes;
  }
  static Arguments read(const ffi::AnyView* args, std::int32_t count) {
    try {
      return {args, count};
    } catch (const NoArgument& wrong) {
      refuse_argument("argument " + std::to_string(wrong.index) + " of the plan", wrong);
    }
  }

 private:
  const kiln_plan* plan_;
};

// From the allocator of the library that the call's tensors came from, which frees in the order of
// its current stream; so it may be given back as soon as the launch is under way.
ffi::Tensor allocate(std::size_t bytes, DLDevice device) {
  const auto extent = static_cast<std::int64_t>(bytes);
  return ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, ffi::ShapeView(&extent, 1),
                                   DLDataType{kDLUInt, 8, 1}, device);
}

// On the producer's current stream.
template <class Target>
void launch(const Target& target, const ffi::AnyView* args, std::int32_t count) {
  const Arguments given = target.read(args, count);
  target.launch(given, given.current_stream(), nullptr);
}

template <class Target>
void launch_with_workspace(const Target& target, const ffi::AnyView* args, std::int32_t count) {
  const Arguments given = target.read(args, count);
  const std::size_t bytes = target.workspace_bytes(given);
  if (bytes == 0) {
    target.launch(given, given.current_stream(), nullptr);
    return;
  }
  const ffi::Tensor workspace = allocate(bytes, given.device());
  kiln_launch_options options = KILN_INIT(kiln_launch_options);
  options.workspace = static_cast<char*>(workspace.data_ptr()) + workspace.byte_offset();
  options.workspace_bytes = bytes;
  target.launch(given, given.current_stream(), &options);
}

template <class Target>
ffi::Function launcher(Target target, bool workspace) {
  if (workspace) {
    return ffi::Function::FromPacked(
        [target = std::move(target)](const ffi::AnyView* args, std::int32_t count, ffi::Any*) {
          launch_with_workspace(target, args, count);
        });
  }
  return ffi::Function::FromPacked(
      [target = std::move(target)](const ffi::AnyView* args, std::int32_t count, ffi::Any*) {
        launch(target, args, count);
      });
}

template <class Target>
void launch_detailed(const Target& target, const ffi::PackedArgs& args, int first) {
  const Details details(args.data() + first);
  const int arguments = first + Details::kCount;
  target.launch(target.read(args.data() + arguments, args.size() - arguments), details.stream,
                &details.options);
}

// The first two arguments of what is asked of an op: the engine, and the op's name.
constexpr int kOpArguments = 2;

OpTarget op_of(const ffi::PackedArgs& args) {
  return {args[0].cast<Handle>(), args[1].cast<std::string>()};
}

Arguments arguments_of(const ffi::PackedArgs& args) {
  return op_of(args).read(args.data() + kOpArguments, args.size() - kOpArguments);
}

void op_launch(const ffi::PackedArgs& args, ffi::Any*) {
  launch_detailed(op_of(args), args, kOpArguments);
}

void op_workspace_bytes(const ffi::PackedArgs& args, ffi::Any* result) {
  *result = static_cast<std::int64_t>(op_of(args).workspace_bytes(arguments_of(args)));
}

// Why not; empty when it can be used.
void op_can_use(const ffi::PackedArgs& args, ffi::Any* result) {
  const auto op = args[1].cast<std::string>();
  const Arguments given = arguments_of(args);
  std::int32_t usable = 0;
  const char* reason = "";
  check(kiln_can_use(from_handle<kiln_engine>(args[0].cast<Handle>()), op.c_str(), given.data(),
                     given.size(), &usable, &reason));
  *result = ffi::String(usable != 0 ? "" : reason);
}

void plan_create(const ffi::PackedArgs& args, ffi::Any* result) {
  const auto op = args[1].cast<std::string>();
  const Arguments given = arguments_of(args);
  kiln_plan* plan = nullptr;
  check(kiln_plan_create(from_handle<kiln_engine>(args[0].cast<Handle>()), op.c_str(), given.data(),
                         given.size(), &plan));
  *result = to_handle(plan);
}

void plan_launch(const ffi::PackedArgs& args, ffi::Any*) {
  launch_detailed(PlanTarget(args[0].cast<Handle>()), args, 1);
}

ffi::Function op_launcher(Handle engine, const ffi::String& op, bool workspace) {
  return launcher(OpTarget(engine, op), workspace);
}

ffi::Function plan_launcher(Handle plan) {
  const Arguments none(nullptr, 0);
  return launcher(PlanTarget(plan), PlanTarget(plan).workspace_bytes(none) != 0);
}

std::int64_t plan_workspace_bytes(Handle plan) {
  return static_cast<std::int64_t>(PlanTarget(plan).workspace_bytes(Arguments(nullptr, 0)));
}

void plan_destroy(Handle plan) {
  kiln_plan_destroy(from_handle<kiln_plan>(plan));
}

}  // namespace
}  // namespace kiln::python

KILN_EXPORT_PACKED(op_launch, kiln::python::op_launch)
KILN_EXPORT_PACKED(op_workspace_bytes, kiln::python::op_workspace_bytes)
KILN_EXPORT_PACKED(op_can_use, kiln::python::op_can_use)
KILN_EXPORT_PACKED(plan_create, kiln::python::plan_create)
KILN_EXPORT_PACKED(plan_launch, kiln::python::plan_launch)
KILN_EXPORT_TYPED(op_launcher, kiln::python::op_launcher)
KILN_EXPORT_TYPED(plan_launcher, kiln::python::plan_launcher)
KILN_EXPORT_TYPED(plan_workspace_bytes, kiln::python::plan_workspace_bytes)
KILN_EXPORT_TYPED(plan_destroy, kiln::python::plan_destroy)
