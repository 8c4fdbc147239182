#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "cache/image.hpp"
#include "cache/key.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/load_failure.hpp"

namespace kiln::runtime {

/// A CUDA context. `id` is never used again by the driver, unlike the handle's address.
struct Context {
  CUcontext handle = nullptr;
  unsigned long long id = 0;
};

/// A kernel as a function of one context.
struct LoadedFunction {
  CUfunction handle = nullptr;
  int shared_limit = 0;  ///< Dynamic shared memory opted in to, in bytes; 0 for the default limit.
};

/// Every image loaded into the driver by this process, by content, and its functions by context.
///
/// Loaded libraries live until the process ends: a captured graph may hold a function long after
/// the engine that loaded it is gone, and there is no way to ask. So engines share one table, which
/// loads equal bytes once however many engines come and go, unloads only when it is told to, and is
/// itself never destroyed (at exit the driver may already be gone). It is the one piece of
/// process-wide state in Kiln. All members may be called from any thread. Not on the path of a warm
/// launch.
///
/// Who loads a function names itself as its user, by any address of its own, until leave().
class LibraryTable {
 public:
  static LibraryTable& of_process();

  struct Loaded {
    LoadedFunction* function = nullptr;  ///< Stable; change it through this table only.
    bool library_loaded = false;         ///< This call loaded the library.
  };

  /// Loads eagerly, so that a first launch never waits for the device: library, kernel, function of
  /// `context`, which must be current, and its code onto the device where the driver can be told
  /// to.
  tl::expected<Loaded, LoadFailure> load(const Driver& driver, const Context& context,
                                         const cache::Image& image, const std::string& symbol,
                                         const void* user);

  /// There is no such user any more. Its libraries stay.
  void leave(const void* user);

  /// Unloads the libraries that have this user and no other, whose functions are then gone, and
  /// says how many those were. It is no user of the others any more either.
  Result<std::size_t> unload(const Driver& driver, const void* user);

  /// Lets the function be launched with this much dynamic shared memory. Raises, never lowers.
  Status allow_shared(const Driver& driver, LoadedFunction& function, int dynamic_bytes);

 private:
  struct Library {
    CUlibrary handle = nullptr;
    std::set<const void*> users;
    // By context id and symbol.
    std::map<std::pair<unsigned long long, std::string>, std::unique_ptr<LoadedFunction>> functions;
  };
  using LibraryKey = std::tuple<const void*, cache::Digest, std::size_t>;

  std::mutex mutex_;
  std::map<LibraryKey, Library> libraries_;
};

}  // namespace kiln::runtime
