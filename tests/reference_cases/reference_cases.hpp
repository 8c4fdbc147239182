#pragma once

/// \file
/// The C++ references of the built-in ops on inputs of the caller's choice, for a test in another
/// language: one shared object, whose functions it calls by name. Not thread safe.

#include <cstddef>

extern "C" {

/// One call of one op, as `kiln run` makes it. `request` is a JSON object: "op"; "dims", a value
/// for each symbol of its shapes; "dtypes", by argument; "scalars", by argument; and "with", the
/// optional arguments that are given. Null on failure.
void* kiln_case_create(const char* request);
void kiln_case_destroy(void* call);

/// Why the last of these functions failed.
const char* kiln_case_error();

/// Elements of a tensor, contiguous. Each fails, with 0, unless `bytes` is the tensor's size; an
/// output has one after kiln_case_run.
int kiln_case_set(void* call, const char* arg, const void* data, std::size_t bytes);
int kiln_case_get(void* call, const char* arg, void* data, std::size_t bytes);

/// Runs the reference, as for a device of compute capability major.minor, with 1 / sqrt in place of
/// the device's approximate instruction.
int kiln_case_run(void* call, int major, int minor);
}
