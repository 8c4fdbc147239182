#pragma once

/// \file
/// What a warm-up and a prebuild tell their caller on the way.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <kiln/cpp/error.hpp>
#include <kiln/kiln.h>

namespace kiln {
inline namespace abi0 {

/// Called after each kernel or call, from any thread, one at a time: done, total, its name. What it
/// throws ends the work after the compiles under way, and comes out of the function that does it.
using ProgressCallback = std::function<void(std::size_t, std::size_t, const char*)>;

/// What could not be had, and why.
struct Failed {
  std::string name;
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

namespace detail {

/// C calls back, and no exception may pass through C: the first one is kept, ends the work, and is
/// thrown again when C has returned.
class Callbacks {
 public:
  explicit Callbacks(const ProgressCallback& progress) : progress_(progress) {}
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  template <class CRequest>
  void set(CRequest& c) noexcept {
    c.progress = progress_ ? &Callbacks::progress : nullptr;
    c.failed = &Callbacks::failed;
    c.stop = &Callbacks::stop;
    c.user = this;
  }

  /// What failed on the way; throws what a callback has thrown, and what kept it all from being
  /// done. Where something has failed the status is the first one's, and says nothing more.
  std::vector<Failed> finish(kiln_status status) {
    if (thrown_ != nullptr) {
      std::rethrow_exception(thrown_);
    }
    if (failed_.empty()) {
      check(status);
    }
    return std::move(failed_);
  }

 private:
  template <class Call>
  void guarded(Call&& call) noexcept {
    if (thrown_ == nullptr) {
      try {
        call();
      } catch (...) {
        thrown_ = std::current_exception();
      }
    }
  }
  static void progress(std::size_t done, std::size_t total, const char* name, void* user) noexcept {
    auto& self = *static_cast<Callbacks*>(user);
    self.guarded([&] { self.progress_(done, total, name); });
  }
  static void failed(const char* name, kiln_status status, const char* message,
                     void* user) noexcept {
    auto& self = *static_cast<Callbacks*>(user);
    self.guarded([&] { self.failed_.push_back({name, static_cast<ErrorCode>(status), message}); });
  }
  static std::int32_t stop(void* user) noexcept {
    return static_cast<const Callbacks*>(user)->thrown_ != nullptr ? 1 : 0;
  }

  const ProgressCallback& progress_;
  std::exception_ptr thrown_;
  std::vector<Failed> failed_;
};

}  // namespace detail
}  // namespace abi0
}  // namespace kiln
