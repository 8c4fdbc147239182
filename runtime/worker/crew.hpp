#pragma once

#include <chrono>
#include <condition_variable>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "base/result.hpp"
#include "runtime/nvrtc/toolchain.hpp"
#include "runtime/worker/child.hpp"
#include "runtime/worker/pool.hpp"

namespace kiln::runtime {

/// One worker of a crew.
struct Worker {
  std::unique_ptr<Child> child;  ///< None while it is being spawned.
  bool busy = true;              ///< Starting counts as busy.
  unsigned compiles = 0;
  std::chrono::steady_clock::time_point idle_since;
};

/// The workers of one pool in one process: starts them, lends each to one thread at a time, stops
/// the idle ones. Thread-safe. A thread of its own, the keeper, spawns the workers and lives longer
/// than they do, so that a worker may be tied to the life of the thread that spawned it.
class Crew {
 public:
  Crew(const Toolchain& toolchain, const WorkerPoolOptions& options,
       const std::vector<std::string>& environment);
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  /// Cancels, waits for the threads that use it to leave, and reaps every worker.
  ~Crew();

  pid_t owner() const noexcept { return owner_; }
  /// In a process forked off from the owner, where no other thread lives: lets go of what was
  /// inherited. Nothing else may be called after it; the memory is not given back, since a thread
  /// that does not exist here may have held the mutex.
  void abandon();

  /// The answer to a hello.
  using Started = tl::expected<std::vector<Target>, StartFailure>;
  /// Starts one worker and leaves it idle.
  Started start_first();

  /// Counts one thread in for its life. No crew ends before it.
  class Visit {
   public:
    explicit Visit(Crew& crew);
    ~Visit();
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    Crew& crew_;
  };

  /// A worker for the calling thread: an idle one, else a new one while there are fewer than the
  /// most, else the next that becomes idle. It must be given back or lost.
  tl::expected<Worker*, StartFailure> take();
  void give_back(Worker& worker);
  /// Ends a worker with which the exchange broke down, and says how it ended.
  std::string lose(Worker& worker, const Breakdown& breakdown, std::chrono::milliseconds limit);

  void cancel();
  void resume();
  bool cancelled() const;
  void set_max_workers(unsigned max_workers);
  std::vector<pid_t> pids() const;
  WorkerCounters counters() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Workers = std::list<std::unique_ptr<Worker>>;

  using Spawned = Result<std::unique_ptr<Child>>;
  Spawned spawn();
  Started start(Worker& worker);
  Exchange<std::vector<Target>> shake_hands(Worker& worker, Failure& refused);
  Worker* newest_idle();
  std::unique_ptr<Worker> remove(Worker& worker);
  void rest(Worker& worker);
  Workers take_idle_beyond(std::size_t most);
  Workers take_expired();
  bool ensure_keeper();
  void keep();

  const pid_t owner_;
  const Toolchain toolchain_;
  const WorkerPoolOptions options_;
  const std::vector<std::string> environment_;

  mutable std::mutex mutex_;        // Guards what follows.
  std::condition_variable free_;    // A worker became idle or ended; the crew is cancelled.
  std::condition_variable keeper_;  // There is something new to spawn or keep, or nothing at all.
  std::condition_variable unused_;  // The last visitor left.
  Workers workers_;
  unsigned max_workers_;
  unsigned visitors_ = 0;
  bool cancelled_ = false;
  WorkerCounters counters_;
  std::list<std::promise<Spawned>> to_spawn_;
  bool keeping_ = false;  // The keeper runs, and will look at workers_ once more.
  std::thread keeper_thread_;
};

}  // namespace kiln::runtime
