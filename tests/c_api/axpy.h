#pragma once

/* An engine's use of Kiln, in C: for a test with the fake driver and one on a device. */

#include <kiln/kiln.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the data lies; `n` floats each. */
typedef struct axpy_data {
  float* x;
  float* y;
  float* out;
  int64_t n;
  int32_t device;
  kiln_stream stream;
} axpy_data;

/* Registers out = a * x + y as an op of its own. */
kiln_status axpy_register(kiln_engine* engine);

/* Every function of kiln.h once, in the order in which an engine comes to them. Launches three
 * times. NULL, or which step went wrong; kiln_last_error_message says more. */
const char* axpy_run(const kiln_engine_options* options, const axpy_data* data);

#ifdef __cplusplus
}
#endif
