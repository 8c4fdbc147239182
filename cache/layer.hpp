#pragma once

/// \file
/// What a lookup needs of a place that holds entries, be it a directory or one file of many.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "cache/entry.hpp"
#include "cache/file_system.hpp"
#include "cache/inventory.hpp"
#include "cache/key.hpp"
#include "cache/layout.hpp"

namespace kiln::cache {

/// Why a layer gave nothing.
struct LayerFailure {
  enum class Kind : std::uint8_t {
    kAbsent,      ///< It holds no such thing: an ordinary miss.
    kUnreadable,  ///< The disk failed; asking again may help.
    kRejected,    ///< Something is there that will never do.
  };
  Kind kind = Kind::kAbsent;
  std::string place;   ///< The path that it is about.
  std::string reason;  ///< For a message: "Permission denied (EACCES)", "it is truncated".
};
template <class T>
using Layered = tl::expected<T, LayerFailure>;

/// An entry's file, byte for byte; nobody has looked into it yet.
struct LayerBytes {
  EntryFile bytes;
  FileId file;                           ///< The file they came from.
  std::chrono::nanoseconds modified{0};  ///< Of that file, as in FileStatus.
};

/// One place of entries, as a lookup sees it. Thread-safe.
class Layer {
 public:
  Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer() = default;

  /// The path by which people know it; tells the layers of a store apart.
  virtual const std::string& name() const noexcept = 0;

  /// Whether what lies here may be used at all. Asked before every other question, so a yes must
  /// cost nothing; a no may be asked again.
  virtual Layered<void> check() = 0;

  /// The toolchains that have entries for a target, newest first.
  virtual Layered<std::vector<ToolchainFolder>> toolchains(const std::string& target) = 0;

  /// Names an entry in messages, whether it exists or not.
  virtual std::string place(const EntryAddress& address) const = 0;
  virtual Layered<LayerBytes> read(const EntryAddress& address) = 0;

  /// Every entry, sorted by place, read and checked.
  virtual std::vector<ListedEntry> list() = 0;
  virtual StoreUsage usage() = 0;
};

}  // namespace kiln::cache
