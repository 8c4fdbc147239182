// Launching: by op, and by plan.

#include <span>
#include <string>

#include <fmt/format.h>

#include "c_api/arguments.hpp"
#include "c_api/guard.hpp"
#include "c_api/handles.hpp"

namespace kiln::c_api {
namespace {

[[noreturn]] void refuse_count(const kiln_plan& plan, std::size_t count) {
  refuse(fmt::format("{}: the plan was made with {} arguments, and {} came", plan.op, plan.given,
                     count));
}

OpHandle find(kiln_engine* engine, const char* op) {
  return required(engine, "engine").engine.op(&required(op, "op"));
}

// Kept until the thread asks again: see kiln_can_use.
thread_local bool reason_ended = false;
thread_local KeptText reason_text(reason_ended);

}  // namespace
}  // namespace kiln::c_api

using namespace kiln::c_api;

[[gnu::hot]] kiln_status kiln_launch(kiln_engine* engine, const char* op, const kiln_arg* args,
                                     size_t arg_count, kiln_stream stream,
                                     const kiln_launch_options* options) {
  return guard([&]() __attribute__((always_inline)) {
    const kiln::OpHandle handle = find(engine, op);
    const Arguments all = arguments(handle.op(), args, arg_count);
    if (options == nullptr) [[likely]] {
      engine->engine.launch(handle, all.span(), stream, kNoOptions);
    } else {
      engine->engine.launch(handle, all.span(), stream, launch_options(*options));
    }
  });
}

kiln_status kiln_workspace_bytes(kiln_engine* engine, const char* op, const kiln_arg* args,
                                 size_t arg_count, size_t* bytes) {
  return guard([&] {
    const kiln::OpHandle handle = find(engine, op);
    required(bytes, "bytes") =
        engine->engine.workspace_bytes(handle, arguments(handle.op(), args, arg_count).span());
  });
}

kiln_status kiln_can_use(kiln_engine* engine, const char* op, const kiln_arg* args,
                         size_t arg_count, int32_t* usable, const char** reason) {
  return guard([&] {
    const kiln::OpHandle handle = find(engine, op);
    int32_t& answer = required(usable, "usable");
    kiln::CanUse can =
        engine->engine.can_use(handle, arguments(handle.op(), args, arg_count).span());
    answer = can.ok ? 1 : 0;
    if (reason != nullptr) {
      *reason = can.ok ? "" : reason_ended ? kTooLate : reason_text.keep(std::move(can.reason));
    }
  });
}

kiln_status kiln_plan_create(kiln_engine* engine, const char* op, const kiln_arg* args,
                             size_t arg_count, kiln_plan** plan) {
  return guard([&] {
    const kiln::OpHandle handle = find(engine, op);
    kiln_plan*& made = required(plan, "plan");
    const kiln::Op& described = handle.op();
    const std::size_t all = described.args.size();
    const Order order = order_of(described, args, arg_count);
    made = new kiln_plan{engine->engine.plan(handle, Arguments(all, args, arg_count, order).span()),
                         arg_count,
                         all,
                         are_in_order(described, args, arg_count),
                         described.name,
                         order};
  });
}

void kiln_plan_destroy(kiln_plan* plan) {
  delete plan;
}

[[gnu::hot]] kiln_status kiln_plan_launch(const kiln_plan* plan, const kiln_arg* args,
                                          size_t arg_count, kiln_stream stream,
                                          const kiln_launch_options* options) {
  return guard([&]() __attribute__((always_inline)) {
    const kiln_plan& made = required(plan, "plan");
    if (arg_count != made.given) [[unlikely]] {
      refuse_count(made, arg_count);
    }
    require_array(args, arg_count, "args");
    const Arguments all = made.in_order ? Arguments(made.all, args, arg_count)
                                        : Arguments(made.all, args, arg_count, made.order);
    if (options == nullptr) [[likely]] {
      made.plan.launch(all.span(), stream, kNoOptions);
    } else {
      made.plan.launch(all.span(), stream, launch_options(*options));
    }
  });
}

kiln_status kiln_plan_workspace_bytes(const kiln_plan* plan, size_t* bytes) {
  return guard([&] { required(bytes, "bytes") = required(plan, "plan").plan.workspace_bytes(); });
}
