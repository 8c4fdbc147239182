// Launching, and asking about a call. What is called often is made once for an op or a plan, and
// called with nothing but the arguments.

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <kiln/kiln.h>

#include "python/binding/arguments.hpp"
#include "python/binding/engine.hpp"
#include "python/binding/error.hpp"
#include "python/binding/exports.hpp"

namespace kiln::python {
namespace {

namespace ffi = tvm::ffi;

std::size_t bytes_of(const ffi::TensorView& tensor) {
  const DLDataType dtype = tensor.dtype();
  const auto bits = static_cast<std::size_t>(tensor.numel()) * dtype.bits * dtype.lanes;
  return bits / 8;
}

// The library sees an address and a length, and nothing else of it.
void check_workspace(const ffi::TensorView& workspace, const std::string& op, DLDevice device) {
  const DLDevice found = workspace.device();
  if (found.device_type != kDLCUDA && found.device_type != kDLCUDAManaged) {
    refuse(op + ": workspace must be memory of a CUDA device, and lies on device type " +
           std::to_string(found.device_type) + " of DLPack");
  }
  if (found.device_type == kDLCUDA && device.device_type == kDLCUDA &&
      found.device_id != device.device_id) {
    refuse(op + ": workspace must lie on cuda:" + std::to_string(device.device_id) +
           " as the call's tensors do, found cuda:" + std::to_string(found.device_id));
  }
  if (!workspace.IsContiguous()) {
    refuse(op + ": workspace must be contiguous");
  }
}

// What src/kiln/_calls.py hands over before the arguments of a call that says more than those.
struct Details {
  static constexpr int kCount = 8;

  // The device is that of the call's tensors.
  Details(const ffi::AnyView* given, const std::string& op, DLDevice device)
      : stream(reinterpret_cast<kiln_stream>(given[0].cast<std::int64_t>())) {
    if (given[1].type_index() == kTVMFFIBool) {
      allocates = true;
    } else if (const auto workspace = given[1].try_cast<ffi::TensorView>()) {
      check_workspace(*workspace, op, device);
      options.workspace = static_cast<char*>(workspace->data_ptr()) + workspace->byte_offset();
      options.workspace_bytes = bytes_of(*workspace);
    }
    options.pdl = given[2].cast<std::int32_t>();
    options.constants_ready = given[3].cast<std::int32_t>();
    options.serialize = given[4].cast<std::int32_t>();
    options.has_priority = given[5].cast<std::int32_t>();
    options.priority = given[6].cast<std::int32_t>();
    options.memory_sync_domain = given[7].cast<std::int32_t>();
  }

  kiln_stream stream;
  // The call's workspace, for the producer's current stream, which is that of the call then.
  bool allocates = false;
  kiln_launch_options options = KILN_INIT(kiln_launch_options);
};

// What is launched: an op of an engine, or a plan.
class OpTarget {
 public:
  OpTarget(Engine engine, std::string op) : engine_(std::move(engine)), op_(std::move(op)) {}

  const Engine& engine() const noexcept { return engine_; }
  const std::string& op() const noexcept { return op_; }

  void launch(const Use& use, const Arguments& args, kiln_stream stream,
              const kiln_launch_options* options) const {
    check(kiln_launch(use.engine(), op_.c_str(), args.data(), args.size(), stream, options));
  }
  std::size_t workspace_bytes(const Use& use, const Arguments& args) const {
    std::size_t bytes = 0;
    check(kiln_workspace_bytes(use.engine(), op_.c_str(), args.data(), args.size(), &bytes));
    return bytes;
  }

 private:
  Engine engine_;
  std::string op_;
};

// Its functions want the engine in use, which the plan refers into.
class PlanTarget {
 public:
  explicit PlanTarget(Plan plan) : plan_(std::move(plan)) {}

  const Engine& engine() const noexcept { return plan_->engine; }
  const std::string& op() const noexcept { return plan_->op; }

  void launch(const Use&, const Arguments& args, kiln_stream stream,
              const kiln_launch_options* options) const {
    check(kiln_plan_launch(plan_->plan, args.data(), args.size(), stream, options));
  }
  std::size_t workspace_bytes(const Use&, const Arguments&) const { return workspace_bytes(); }
  std::size_t workspace_bytes() const {
    std::size_t bytes = 0;
    check(kiln_plan_workspace_bytes(plan_->plan, &bytes));
    return bytes;
  }

 private:
  Plan plan_;
};

// From the allocator of the library that the call's tensors came from, which frees in the order of
// its current stream; so it may be given back as soon as the launch is under way.
ffi::Tensor allocate(std::size_t bytes, DLDevice device) {
  const auto extent = static_cast<std::int64_t>(bytes);
  try {
    return ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, ffi::ShapeView(&extent, 1),
                                     DLDataType{kDLUInt, 8, 1}, device);
  } catch (const ffi::Error& error) {
    throw ffi::Error("kiln.not_made", error.message(), "");  // Which src/kiln/_short.py knows.
  }
}

// Puts what a call needs into the options. The memory must stay until the launch is under way.
template <class Target>
std::optional<ffi::Tensor> give_workspace(const Target& target, const Use& use,
                                          const Arguments& given, kiln_launch_options& options) {
  const std::size_t bytes = target.workspace_bytes(use, given);
  if (bytes == 0) {
    return std::nullopt;
  }
  const ffi::Tensor workspace = allocate(bytes, given.device());
  options.workspace = static_cast<char*>(workspace.data_ptr()) + workspace.byte_offset();
  options.workspace_bytes = bytes;
  return workspace;
}

// On the producer's current stream.
template <class Target>
void launch(const Target& target, const ffi::AnyView* args, std::int32_t count) {
  const Use use(target.engine());
  const Arguments given = arguments_of(use, target.op(), args, count);
  target.launch(use, given, given.current_stream(), nullptr);
}

template <class Target>
void launch_with_workspace(const Target& target, const ffi::AnyView* args, std::int32_t count) {
  const Use use(target.engine());
  const Arguments given = arguments_of(use, target.op(), args, count);
  kiln_launch_options options = KILN_INIT(kiln_launch_options);
  const std::optional<ffi::Tensor> workspace = give_workspace(target, use, given, options);
  target.launch(use, given, given.current_stream(), &options);
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
  const Use use(target.engine());
  const int arguments = first + Details::kCount;
  const Arguments given =
      arguments_of(use, target.op(), args.data() + arguments, args.size() - arguments);
  Details details(args.data() + first, target.op(), given.device());
  std::optional<ffi::Tensor> workspace;
  if (details.allocates) {
    workspace = give_workspace(target, use, given, details.options);
  }
  target.launch(use, given, details.stream, &details.options);
}

// What is asked of an op: the engine, the op's name, and its arguments.
class Question {
 public:
  explicit Question(const ffi::PackedArgs& args)
      : target_(args[0].cast<Engine>(), args[1].cast<std::string>()),
        use_(target_.engine()),
        given_(arguments_of(use_, target_.op(), args.data() + kOpArguments,
                            args.size() - kOpArguments)) {}

  static constexpr int kOpArguments = 2;

  const OpTarget& target() const noexcept { return target_; }
  const Use& use() const noexcept { return use_; }
  const char* op() const noexcept { return target_.op().c_str(); }
  const Arguments& given() const noexcept { return given_; }

 private:
  OpTarget target_;
  Use use_;
  Arguments given_;
};

void op_launch(const ffi::PackedArgs& args, ffi::Any*) {
  launch_detailed(OpTarget(args[0].cast<Engine>(), args[1].cast<std::string>()), args,
                  Question::kOpArguments);
}

void op_workspace_bytes(const ffi::PackedArgs& args, ffi::Any* result) {
  const Question asked(args);
  *result = static_cast<std::int64_t>(asked.target().workspace_bytes(asked.use(), asked.given()));
}

// Why not; empty when it can be used.
void op_can_use(const ffi::PackedArgs& args, ffi::Any* result) {
  const Question asked(args);
  std::int32_t usable = 0;
  const char* reason = "";
  check(kiln_can_use(asked.use().engine(), asked.op(), asked.given().data(), asked.given().size(),
                     &usable, &reason));
  *result = ffi::String(usable != 0 ? std::string() : in_words_of_python(reason));
}

void plan_create(const ffi::PackedArgs& args, ffi::Any* result) {
  const Question asked(args);
  kiln_plan* plan = nullptr;
  check(kiln_plan_create(asked.use().engine(), asked.op(), asked.given().data(),
                         asked.given().size(), &plan));
  *result = Plan(asked.target().engine(), asked.target().op(), plan);
}

void plan_launch(const ffi::PackedArgs& args, ffi::Any*) {
  launch_detailed(PlanTarget(args[0].cast<Plan>()), args, 1);
}

ffi::Function op_launcher(Engine engine, const ffi::String& op, bool workspace) {
  return launcher(OpTarget(std::move(engine), op), workspace);
}

std::int64_t plan_workspace_bytes(const Plan& plan) {
  const Use use(plan->engine);
  return static_cast<std::int64_t>(PlanTarget(plan).workspace_bytes());
}

ffi::Function plan_launcher(const Plan& plan) {
  return launcher(PlanTarget(plan), plan_workspace_bytes(plan) != 0);
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
