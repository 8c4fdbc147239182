#pragma once

#include <string>

#include "base/result.hpp"

namespace kiln::runtime {

/// Where to look for kiln-compile-worker, in this order. Everything is passed in.
struct WorkerInputs {
  std::string option;  ///< A path that was named. An error where it cannot be used.
  /// The file that holds Kiln's code: see file_of_this_code(). Folders are looked for beside it, as
  /// they are installed and as they are built.
  std::string code_file;
};

/// The real path of the program or shared library that holds Kiln's code; empty when unknown.
std::string file_of_this_code();

/// The absolute path of the worker's executable. PATH is not asked: a program that stands in for
/// the compiler must come from where Kiln does. A failure names every place searched.
Result<std::string> find_worker(const WorkerInputs& inputs);

}  // namespace kiln::runtime
