/* The first call, in C: out[m, 128] = x[m, 512] * w[128, 512]^T in bf16, of ones. */

#include <stdio.h>
#include <stdlib.h>

#include <kiln/kiln.h>

#include "examples/device.h"

enum { kM = 8, kN = 128, kK = 512 };

static const uint16_t kOne = 0x3F80; /* 1.0 in bf16. */

static void check(kiln_status status) {
  if (status != KILN_OK) {
    fprintf(stderr, "%s: %s\n", kiln_status_name(status), kiln_last_error_message());
    exit(1);
  }
}

static void print_line(int32_t level, const char* message, void* user) {
  (void)level;
  (void)user;
  fprintf(stderr, "kiln: %s\n", message);
}

/* A matrix of ones on device 0; `shape` must live as long as it. */
static DLTensor ones(int64_t shape[2]) {
  const size_t count = (size_t)(shape[0] * shape[1]);
  uint16_t* const values = malloc(count * sizeof *values);
  DLTensor tensor = {
      .device = {kDLCUDA, 0}, .ndim = 2, .dtype = {kDLBfloat, 16, 1}, .shape = shape};
  if (values == NULL)
    abort();
  for (size_t i = 0; i < count; ++i)
    values[i] = kOne;
  tensor.data = device_alloc(count * sizeof *values);
  device_upload(tensor.data, values, count * sizeof *values);
  free(values);
  return tensor;
}

int main(void) {
  int64_t x_shape[] = {kM, kK}, w_shape[] = {kN, kK}, out_shape[] = {kM, kN};
  uint16_t first = 0;
  kiln_engine* engine = NULL;
  kiln_engine_options options = KILN_INIT(kiln_engine_options);
  kiln_counters counters = KILN_INIT(kiln_counters);

  device_open();
  const DLTensor x = ones(x_shape), w = ones(w_shape), out = ones(out_shape);
  const kiln_arg args[] = {kiln_tensor("x", &x), kiln_tensor("w", &w), kiln_tensor("out", &out)};

  options.log = print_line;
  check(kiln_engine_create(&options, &engine));
  check(
      kiln_launch(engine, "n128k512_gemm_bf16", args, 3, NULL, NULL)); /* Compiles at first use. */
  device_download(&first, out.data, sizeof first);
  check(kiln_engine_counters(engine, &counters));
  printf("out[0, 0] = 0x%04X, where a GPU gives 0x4400, which is 512 in bf16\n", first);
  printf("compiled: %d, from the cache: %d\n", (int)counters.compiles, (int)counters.cache_hits);

  kiln_engine_destroy(engine);
  device_free(x.data);
  device_free(w.data);
  device_free(out.data);
  return 0;
}
