#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <unistd.h>

#include "base/result.hpp"
#include "cache/entry.hpp"
#include "cache/key.hpp"

namespace kiln::runtime {

/// Single flight: at most one thread at a time makes a kernel, and the others wait for what comes
/// of it. Remembers kernels that cannot be compiled, so that each costs one compile, and entries
/// that no directory took. All members may be called from any thread.
class FlightTable {
 public:
  /// The right and duty of one thread to make one kernel. Others wait until it ends: land it with
  /// what came of it; one that just ends (an error that concerns its thread alone) lets the next
  /// waiter try.
  class Flight {
   public:
    Flight(FlightTable& table, const cache::Digest& key) noexcept : table_(&table), key_(key) {}
    Flight(Flight&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)), key_(other.key_) {}
    Flight& operator=(Flight&&) = delete;
    ~Flight();

    /// The kernel was found or made. One that is `kept` is handed out for as long as the table
    /// lives; another can be found again where it is stored.
    void land(std::shared_ptr<const cache::Entry> entry, bool kept);
    /// It cannot be made. Remembered until forget_failures().
    void fail(Failure failure);

   private:
    FlightTable* table_;
    cache::Digest key_;
  };

  /// What join() gives: exactly one of these.
  struct Joined {
    std::optional<Flight> flight;               ///< The caller makes the kernel.
    std::shared_ptr<const cache::Entry> entry;  ///< Another thread just did, or it is kept.
    std::optional<Failure> failure;             ///< It cannot be made.
  };

  /// Waits while another thread makes the kernel.
  Joined join(const cache::Digest& key);
  /// The flight if nobody is at it and nothing is known of it. Never waits.
  std::optional<Flight> try_lead(const cache::Digest& key);

  std::shared_ptr<const cache::Entry> kept(const cache::Digest& key);
  void forget_failures();

 private:
  /// One kernel's present flight, shared by those who wait for it.
  struct State {
    /// False in a process forked off meanwhile, which has none of the threads that could end it.
    bool is_ours() const noexcept { return process == getpid(); }

    pid_t process = getpid();
    bool ended = false;
    std::shared_ptr<const cache::Entry> entry;
  };

  void end(const cache::Digest& key, std::shared_ptr<const cache::Entry> entry);

  std::mutex mutex_;  // Guards everything below.
  std::condition_variable landed_;
  std::map<cache::Digest, std::shared_ptr<State>> flying_;
  std::map<cache::Digest, std::shared_ptr<const cache::Entry>> kept_;
  std::map<cache::Digest, Failure> failures_;
};

}  // namespace kiln::runtime
