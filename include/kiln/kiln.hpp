#pragma once

/// \file
/// The C++ door: everything that a program which embeds Kiln needs, in C++17 or newer.
///
///   kiln::Engine engine;
///   kiln::Tensor x(x_ptr, kiln::DType::kBF16, {m, 512}), w(w_ptr, kiln::DType::kBF16, {128, 512}),
///       out(out_ptr, kiln::DType::kBF16, {m, 128});
///   engine.launch("n128k512_gemm_bf16", {x, w, out}, stream);
///
/// All of it is inline and stands on the C functions of kiln/kiln.h alone. So one libkiln.so, or
/// one archive, serves every compiler and every C++ library; no C++ type crosses its border, and
/// every exception is thrown, and every std::string made, by the caller's own code. Its namespace
/// has an inline one that tells these classes from those of other versions in one program.
///
/// Conventions, which hold for all of it:
///
///  1. A function that fails throws kiln::Error, and nothing else but std::bad_alloc and what a
///     callback of the caller has thrown. It then has had no effect, but where it says otherwise.
///  2. Engine, Plan and Prefetch own a handle, move, and do not copy. What was moved from may only
///     be assigned to or destroyed. Plans must not be launched after their engine was destroyed.
///  3. Members may be called from any thread, on one object from several at once, but for moving,
///     assigning to and destroying it.
///  4. Tensors are the caller's: Kiln never owns, copies or frees their memory, which must stay
///     valid until the launched work has finished. The call's CUDA context must be current.
///  5. A process that was forked after an engine has used the driver cannot use CUDA.
///  6. What kiln/kiln.h says of a C function holds for the member of its name.

#include <kiln/cpp/arg.hpp>
#include <kiln/cpp/callbacks.hpp>
#include <kiln/cpp/counters.hpp>
#include <kiln/cpp/engine.hpp>
#include <kiln/cpp/error.hpp>
#include <kiln/cpp/op_info.hpp>
#include <kiln/cpp/op_spec.hpp>
#include <kiln/cpp/options.hpp>
#include <kiln/cpp/plan.hpp>
#include <kiln/cpp/prebuild.hpp>
#include <kiln/cpp/prefetch.hpp>
#include <kiln/cpp/tensor.hpp>
#include <kiln/cpp/version.hpp>
#include <kiln/cpp/view.hpp>
#include <kiln/cpp/warmup.hpp>
