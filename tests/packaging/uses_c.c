/* The least that shows that libkiln.so is found, runs, and finds its worker: uses_c DRIVER CACHE.
 */
#include <stdio.h>
#include <string.h>

#include <kiln/kiln.h>

static int complaints = 0;

static void log_line(int32_t level, const char* message, void* user) {
  (void)level;
  (void)user;
  fprintf(stderr, "kiln: %s\n", message);
  ++complaints;
}

static int fail(const char* step) {
  fprintf(stderr, "%s: %s\n", step, kiln_last_error_message());
  return 1;
}

static DLTensor matrix(int64_t* shape) {
  DLTensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.device.device_type = kDLCUDA;
  tensor.ndim = 2;
  tensor.dtype.code = kDLBfloat;
  tensor.dtype.bits = 16;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  return tensor;
}

int main(int argc, char** argv) {
  int64_t x_shape[] = {8, 512}, w_shape[] = {128, 512}, out_shape[] = {8, 128};
  const DLTensor x = matrix(x_shape), w = matrix(w_shape), out = matrix(out_shape);
  const kiln_arg args[] = {kiln_tensor("x", &x), kiln_tensor("w", &w), kiln_tensor("out", &out)};
  kiln_engine_options options = KILN_INIT(kiln_engine_options);
  kiln_counters counters = KILN_INIT(kiln_counters);
  kiln_engine* engine = NULL;
  kiln_prefetch* prefetch = NULL;
  kiln_status status;
  if (argc != 3 || kiln_version() != KILN_VERSION_NUMBER)
    return 2;
  options.driver = argv[1];
  options.cache_root = argv[2];
  options.log = log_line;
  if (kiln_engine_create(&options, &engine) != KILN_OK)
    return fail("create");
  if (kiln_prefetch_start(engine, "n128k512_gemm_bf16", args, 3, &prefetch) != KILN_OK) {
    return fail("prefetch");
  }
  status = kiln_prefetch_wait(prefetch, -1, NULL);
  kiln_prefetch_destroy(prefetch);
  if (status == KILN_ERROR_COMPILER_UNAVAILABLE) {
    printf("no NVRTC here\n");
    complaints = 0;
  } else if (status != KILN_OK) {
    return fail("compile");
  }
  if (kiln_engine_counters(engine, &counters) != KILN_OK)
    return fail("counters");
  printf("compiled %d\n", (int)counters.compiles);
  kiln_engine_destroy(engine);
  return complaints == 0 ? 0 : 3; /* A worker that was not found is a warning. */
}
