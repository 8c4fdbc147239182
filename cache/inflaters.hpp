#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

struct ZSTD_DCtx_s;

namespace kiln::cache {

/// Decompresses zstd frames, and keeps what zstd works with for the next ones: to set that up takes
/// as long as a small frame. Thread-safe.
class Inflaters {
 public:
  /// How many bytes the frame became; 0 where it is damaged or has not this much room.
  std::size_t inflate(std::string_view frame, char* to, std::size_t room);

 private:
  struct Free {
    void operator()(ZSTD_DCtx_s* context) const noexcept;
  };
  using Context = std::unique_ptr<ZSTD_DCtx_s, Free>;

  std::mutex mutex_;
  std::vector<Context> idle_;  // Guarded by mutex_; as many as were ever in use at the same time.
};

}  // namespace kiln::cache
