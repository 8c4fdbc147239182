#include "tests/c_api/axpy.h"

#include <string.h>

static const char kSource[] =
    "template <int BLOCK>\n"
    "__global__ void axpy(float a, const float* x, const float* y, float* out, long long n) {\n"
    "  const long long i = blockIdx.x * static_cast<long long>(BLOCK) + threadIdx.x;\n"
    "  if (i < n) out[i] = a * x[i] + y[i];\n"
    "}\n";

kiln_status axpy_register(kiln_engine* engine) {
  const kiln_arg_spec args[] = {
      {.name = "a", .scalar_type = KILN_TYPE_F32},
      {.name = "x", .dtypes = "f32", .shape = "n"},
      {.name = "y", .dtypes = "f32", .shape = "n"},
      {.name = "out", .dtypes = "f32", .shape = "n", .access = KILN_WRITE}};
  const kiln_param_spec params[] = {
      {.source = KILN_PARAM_SCALAR, .name = "a"},
      {.source = KILN_PARAM_DATA, .name = "x"},
      {.source = KILN_PARAM_DATA, .name = "y"},
      {.source = KILN_PARAM_DATA, .name = "out"},
      {.source = KILN_PARAM_EXPRESSION, .name = "n", .type = KILN_TYPE_I64}};
  const kiln_kernel_spec kernel = {.name = "axpy",
                                   .source = "axpy.cu",
                                   .instantiation = "axpy<256>",
                                   .params = params,
                                   .param_count = 5,
                                   .grid = {"ceil_div(n, 256)"},
                                   .block = {"256"}};
  const kiln_source source = {"axpy.cu", kSource};
  kiln_op_spec spec = KILN_INIT(kiln_op_spec);
  spec.name = "c_axpy";
  spec.summary = "out = a * x + y";
  spec.args = args;
  spec.arg_count = 4;
  spec.kernels = &kernel;
  spec.kernel_count = 1;
  spec.sources = &source;
  spec.source_count = 1;
  return kiln_register_op(engine, &spec);
}

static DLTensor vector_of(const float* data, int64_t* n, int32_t device) {
  const DLTensor tensor = {.data = (void*)data,
                           .device = {kDLCUDA, device},
                           .ndim = 1,
                           .dtype = {kDLFloat, 32, 1},
                           .shape = n};
  return tensor;
}

static const char* look(kiln_engine* engine) {
  kiln_op_info info = KILN_INIT(kiln_op_info);
  kiln_op_info last = KILN_INIT(kiln_op_info);
  kiln_op_arg_info arg = KILN_INIT(kiln_op_arg_info);
  size_t count = 0;
  if (kiln_op_count(engine, &count) != KILN_OK || count < 2)
    return "kiln_op_count";
  if (kiln_op_at(engine, count - 1, &last) != KILN_OK)
    return "kiln_op_at";
  if (strcmp(last.name, "c_axpy") != 0 || strcmp(last.family, "own") != 0)
    return "its name";
  if (kiln_op_by_name(engine, "c_axpy", &info) != KILN_OK)
    return "kiln_op_by_name";
  if (info.arg_count != 4 || info.kernel_count != 1 || info.name != last.name)
    return "its counts";
  if (kiln_op_arg_at(engine, "c_axpy", 3, &arg) != KILN_OK)
    return "kiln_op_arg_at";
  if (strcmp(arg.name, "out") != 0 || arg.access != KILN_WRITE || !arg.is_tensor)
    return "out";
  return NULL;
}

static const char* get_ready(kiln_engine* engine, const kiln_arg* args) {
  const kiln_call call = {"c_axpy", args, 4};
  kiln_warmup_request request = KILN_INIT(kiln_warmup_request);
  kiln_warmup_report report = KILN_INIT(kiln_warmup_report);
  kiln_prefetch* prefetch = NULL;
  int32_t ready = 0;
  if (kiln_prefetch_start(engine, "c_axpy", args, 4, &prefetch) != KILN_OK)
    return "prefetch";
  if (kiln_prefetch_wait(prefetch, -1, &ready) != KILN_OK || !ready)
    return "kiln_prefetch_wait";
  ready = 0;
  if (kiln_prefetch_poll(prefetch, &ready) != KILN_OK || !ready)
    return "kiln_prefetch_poll";
  kiln_prefetch_destroy(prefetch);
  request.calls = &call;
  request.call_count = 1;
  if (kiln_warmup(engine, &request, &report) != KILN_OK)
    return "kiln_warmup";
  if (report.prepared != 1 || report.failed != 0 || report.loaded != 1)
    return "the warm-up report";
  return NULL;
}

static const char* launch(kiln_engine* engine, const kiln_arg* args, kiln_stream stream) {
  kiln_launch_options options = KILN_INIT(kiln_launch_options);
  kiln_plan* plan = NULL;
  size_t bytes = 1;
  int32_t usable = 0;
  const char* reason = NULL;
  const char* wrong = NULL;
  options.pdl = KILN_OFF;
  if (kiln_can_use(engine, "c_axpy", args, 4, &usable, &reason) != KILN_OK || !usable)
    return "use";
  if (*reason != '\0')
    return "the reason";
  if (kiln_workspace_bytes(engine, "c_axpy", args, 4, &bytes) != KILN_OK || bytes != 0)
    return "ws";
  if (kiln_launch(engine, "c_axpy", args, 4, stream, NULL) != KILN_OK)
    return "kiln_launch";
  if (kiln_plan_create(engine, "c_axpy", args, 4, &plan) != KILN_OK)
    return "kiln_plan_create";
  if (kiln_plan_workspace_bytes(plan, &bytes) != KILN_OK || bytes != 0)
    wrong = "the plan's bytes";
  if (kiln_plan_launch(plan, args, 4, stream, NULL) != KILN_OK)
    wrong = "kiln_plan_launch";
  if (kiln_plan_launch(plan, args, 4, stream, &options) != KILN_OK)
    wrong = "without PDL";
  kiln_plan_destroy(plan);
  return wrong;
}

static const char* use(kiln_engine* engine, const axpy_data* data) {
  int64_t n = data->n;
  const DLTensor x = vector_of(data->x, &n, data->device);
  const DLTensor y = vector_of(data->y, &n, data->device);
  const DLTensor out = vector_of(data->out, &n, data->device);
  /* Not in the op's order. */
  const kiln_arg args[] = {kiln_tensor("out", &out), kiln_tensor("x", &x), kiln_tensor("y", &y),
                           kiln_real("a", 2.0)};
  kiln_counters counters = KILN_INIT(kiln_counters);
  const char* wrong = NULL;
  if (axpy_register(engine) != KILN_OK)
    return "kiln_register_op";
  if (axpy_register(engine) != KILN_ERROR_DUPLICATE_OP)
    return "a second op of one name";
  if ((wrong = look(engine)) != NULL)
    return wrong;
  if ((wrong = get_ready(engine, args)) != NULL)
    return wrong;
  if ((wrong = launch(engine, args, data->stream)) != NULL)
    return wrong;
  if (kiln_engine_counters(engine, &counters) != KILN_OK)
    return "kiln_engine_counters";
  if (counters.libraries_loaded != 1)
    return "the counters";
  return kiln_forget_compile_failures(engine) == KILN_OK ? NULL : "kiln_forget_compile_failures";
}

const char* axpy_run(const kiln_engine_options* options, const axpy_data* data) {
  kiln_engine* engine = NULL;
  const char* wrong = NULL;
  if (kiln_version() != KILN_VERSION_NUMBER)
    return "kiln_version";
  if (strcmp(kiln_status_name(KILN_ERROR_IO), "io") != 0)
    return "kiln_status_name";
  if (kiln_engine_create(options, &engine) != KILN_OK)
    return "kiln_engine_create";
  wrong = use(engine, data);
  kiln_engine_destroy(engine);
  return wrong;
}
