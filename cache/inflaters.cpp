#include "cache/inflaters.hpp"

#include <utility>

#include <zstd.h>

namespace kiln::cache {

void Inflaters::Free::operator()(ZSTD_DCtx_s* context) const noexcept {
  ZSTD_freeDCtx(context);
}

std::size_t Inflaters::inflate(std::string_view frame, char* to, std::size_t room) {
  Context context;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      context = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!context) {
    context.reset(ZSTD_createDCtx());
  }
  if (!context) {
    return 0;  // No memory.
  }
  const std::size_t inflated =
      ZSTD_decompressDCtx(context.get(), to, room, frame.data(), frame.size());
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(context));
  return ZSTD_isError(inflated) != 0 ? 0 : inflated;
}

}  // namespace kiln::cache
