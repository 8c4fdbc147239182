#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/logger.hpp"
#include "cache/directory_layer.hpp"
#include "cache/entry.hpp"
#include "cache/key.hpp"
#include "cache/layer.hpp"
#include "cache/rejects.hpp"

namespace kiln::cache {

/// Which toolchain's entries a read-only layer may serve when a compiler is at hand.
enum class Match : std::uint8_t { kExact, kAny };

/// What is asked for.
struct Query {
  std::span<const SourceKey> sources;  ///< In order of preference, one per target.
  /// The compiler at hand. Null when there is none: any toolchain's entry will do.
  const ToolchainKey* toolchain = nullptr;
  /// Skips entries of later toolchain majors where any toolchain will do.
  std::optional<int> max_toolchain_major;
  bool asked_before = false;  ///< A miss was counted already.
};

/// A found entry. It passed every check of the store.
struct Hit {
  Entry entry;
  std::string path;         ///< Layer::place() of where it was found.
  FileId file;              ///< So that rejecting it spares a newer file of the same name.
  std::size_t layer = 0;    ///< Which layer, counted in the order in which they are asked.
  std::uint64_t bytes = 0;  ///< Size of the entry's file.
  std::chrono::nanoseconds modified{0};  ///< As in LayerBytes.
};

/// A store's layers and the order in which they are asked. Thread-safe once the layers are in.
class LayerStack {
 public:
  LayerStack(Match match, const Logger& logger, Rejects& rejects)
      : match_(match), logger_(logger), rejects_(rejects) {}

  /// Asked after those added before.
  void add(std::unique_ptr<Layer> layer) { layers_.push_back(std::move(layer)); }
  /// The one layer whose entries this store makes itself, so that only its own toolchain's count.
  DirectoryLayer& add_writable(std::unique_ptr<DirectoryLayer> layer);

  const std::vector<std::unique_ptr<Layer>>& all() const noexcept { return layers_; }

  /// As Store::lookup.
  std::optional<Hit> find(const Query& query);
  bool is_writable(std::size_t layer) const { return layers_[layer].get() == writable_; }
  /// As Store::reject.
  void reject(const Hit& hit, std::string_view reason);

 private:
  std::optional<Hit> find_in(std::size_t layer, const SourceKey& source, const Query& query);
  std::optional<Hit> open(std::size_t layer, const EntryAddress& address, const SourceKey& source,
                          const Query& query);
  std::vector<ToolchainFolder> candidates(Layer& layer, const std::string& target,
                                          const Query& query);
  /// The root that a rejected entry of this layer may be moved within.
  const Layout* home(std::size_t layer) const;
  void report(const LayerFailure& failure);

  const Match match_;
  const Logger& logger_;
  Rejects& rejects_;
  std::vector<std::unique_ptr<Layer>> layers_;
  const DirectoryLayer* writable_ = nullptr;  // One of layers_, or null.
};

}  // namespace kiln::cache
