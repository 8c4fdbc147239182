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
/// process-wide state in Kiln. All members may be called from any thread, and those about different
/// images wait for the driver alone. Not on the path of a warm launch.
///
/// Who loads a function names itself as its user, by any address of its own, until leave().
class LibraryTable {
 public:
  static LibraryTable& of_process();

  struct Loaded {
    LoadedFunction* function = nullptr;  ///< Stable; change it through this table only.
    /// This call loaded the library, or is the first for which load_ahead() has.
    bool library_loaded = false;
  };

  /// Loads the library of an image for which load() will be called: about half of its time, for
  /// which the driver needs no context. What fails here is left for load() to find. Until that is
  /// called the library has no user, so that no unload() is for it.
  void load_ahead(const Driver& driver, const cache::Image& image);

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
    std::mutex mutex;            // Guards the rest. May be taken while the table's is held.
    CUlibrary handle = nullptr;  // Null until it is loaded.
    bool told_of = false;        // Some Loaded::library_loaded was of it.
    bool unloaded = false;       // It is in the table no more.
    std::set<const void*> users;
    // By context id and symbol.
    std::map<std::pair<unsigned long long, std::string>, std::unique_ptr<LoadedFunction>> functions;
  };
  using LibraryKey = std::tuple<const void*, cache::Digest, std::size_t>;
  /// A library of the table, with its mutex.
  struct Held {
    std::shared_ptr<Library> library;
    std::unique_lock<std::mutex> lock;
  };

  /// The image's, loaded or not.
  Held hold(const Driver& driver, const cache::Image& image);

  std::mutex mutex_;  // Guards the map and LoadedFunction::shared_limit. Not held in a load.
  std::map<LibraryKey, std::shared_ptr<Library>> libraries_;
};

}  // namespace kiln::runtime
