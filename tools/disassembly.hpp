#pragma once

/// \file
/// The code of an entry for people to read: its PTX, compiled anew from what its key holds, and its
/// SASS, where nvdisasm is there to write it.

#include <string>
#include <utility>

#include "base/result.hpp"
#include "cache/entry.hpp"
#include "runtime/nvrtc/compiler.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::tools {

/// What the entry was compiled from, out of its key. A failure when the key is of another version
/// of Kiln, whose fields may have meant something else.
Result<registry::CompileUnit> unit_of(const cache::Entry& entry);

/// Writes PTX with this machine's NVRTC.
class PtxWriter {
 public:
  static Result<PtxWriter> make();
  /// Of the entry's own kernel. Preceded by a comment where another NVRTC made the entry.
  Result<std::string> write(const cache::Entry& entry) const;

 private:
  explicit PtxWriter(runtime::Nvrtc nvrtc) : nvrtc_(std::move(nvrtc)) {}
  runtime::Nvrtc nvrtc_;
};

/// The path of nvdisasm: in CUDA_HOME and CUDA_PATH, along PATH, in /usr/local/cuda. A failure
/// names them.
Result<std::string> find_nvdisasm();

/// Has nvdisasm write the SASS of every kernel of the cubin.
Status write_sass(const std::string& nvdisasm, const std::string& cubin, const std::string& sass);

}  // namespace kiln::tools
