#include "cache/lock_table.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "cache/writer.hpp"

namespace kiln::cache {
namespace {

constexpr std::size_t kLineBytes = 128;
constexpr WaitClock::Duration kFirstPause = std::chrono::milliseconds(1);
constexpr WaitClock::Duration kLongestPause = std::chrono::milliseconds(50);

double in_seconds(WaitClock::Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

using Line = std::array<char, kLineBytes>;

// Allocates nothing, since it is called where no exception could go.
Line line_of(const Writer& holder, std::uint64_t beats) {
  Line line;
  line.fill(' ');
  line.back() = '\n';
  fmt::format_to_n(line.begin(), line.size() - 1, "{} {} {:016x} {} ", holder.host, holder.pid,
                   holder.random, beats);
  return line;
}

// The name of a holder from its line, which anybody who may lock could have written.
struct HolderName {
  std::string shown = "an unknown holder";
  std::string id;  // Tells this holding of the lock from all others.
};

HolderName holder_of(std::string_view line) {
  const auto is_plain = [](char c) { return c > ' ' && c <= '~'; };
  std::array<std::string_view, 3> words;  // Host, pid, random part.
  for (std::string_view& word : words) {
    const auto end = line.find(' ');
    if (end == 0 || end == std::string_view::npos) {
      return {};
    }
    word = line.substr(0, end);
    if (!std::all_of(word.begin(), word.end(), is_plain)) {
      return {};
    }
    line.remove_prefix(end + 1);
  }
  return {fmt::format("pid {} on host {}", words[1], words[0]), std::string(words[2])};
}

}  // namespace

// ------------------------------------------------------------------------------------------------
// Holding

class CompileLock::Holder {
 public:
  Holder(FileSystem& file_system, OpenFile file, std::chrono::milliseconds beat_every)
      : file_system_(file_system), file_(std::move(file)), beat_every_(beat_every) {
    beat();
    try {
      beating_ = std::jthread([this](const std::stop_token& stop) { keep_beating(stop); });
    } catch (const std::system_error&) {
      // A process limit. Waiters will take this holder for a stopped one if it takes long.
    }
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() {
    if (beating_.joinable()) {
      beating_.request_stop();
      beating_.join();
    }
    // Before the close, which gives the lock back only if no forked child has the handle.
    static_cast<void>(file_system_.unlock(file_.get()));
  }

 private:
  void beat() {
    const Line line = line_of(writer_, beats_++);
    // A beat that cannot be written is one that nobody sees.
    static_cast<void>(file_system_.write_at(file_.get(), {line.data(), line.size()}, 0));
  }

  void keep_beating(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    const auto stopped = [&stop] { return stop.stop_requested(); };
    while (!wake_.wait_for(lock, stop, beat_every_, stopped) && !stopped()) {
      beat();
    }
  }

  FileSystem& file_system_;
  OpenFile file_;
  const std::chrono::milliseconds beat_every_;
  const Writer writer_ = this_writer();
  std::uint64_t beats_ = 0;
  std::mutex mutex_;  // Only for waiting.
  std::condition_variable_any wake_;
  std::jthread beating_;
};

CompileLock::CompileLock() noexcept = default;
CompileLock::CompileLock(std::unique_ptr<Holder> holder) noexcept : holder_(std::move(holder)) {}
CompileLock::CompileLock(CompileLock&& other) noexcept = default;
CompileLock& CompileLock::operator=(CompileLock&& other) noexcept = default;
CompileLock::~CompileLock() = default;

// ------------------------------------------------------------------------------------------------
// Waiting

/// One wait for one lock.
class LockTable::Wait {
 public:
  Wait(LockTable& table, const std::string& path, FileSystem::Handle handle)
      : table_(table),
        path_(path),
        handle_(handle),
        start_(table.clock_->now()),
        looked_at_(start_) {}

  /// Whether the lock was taken in the end.
  bool run() {
    for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      const auto locked = table_.file_system_.try_lock(handle_);
      if (locked) {
        return true;
      }
      if (locked.error() != EWOULDBLOCK) {
        table_.warn_unusable(path_, locked.error());
        return false;
      }
      if (!is_worth_waiting()) {
        return false;
      }
      table_.clock_->sleep(pause);
    }
  }

 private:
  bool is_worth_waiting() {
    if (table_.stop_waiting_.load()) {
      return false;
    }
    const auto now = table_.clock_->now();
    const auto waited = now - start_;
    look_for_beat(now);
    if (waited >= table_.times_.warn_after) {
      warn_waiting(waited);
    }
    if (table_.is_stopped(path_, *line_)) {
      return false;  // This process has waited for it before, and it has not moved since.
    }
    if (quiet_ >= table_.times_.stale_after) {
      warn_given_up(waited, fmt::format("has not moved for {:.0f} s", in_seconds(quiet_)));
      table_.note_stopped(path_, *line_);
      return false;
    }
    if (waited >= table_.times_.wait_limit) {
      warn_given_up(waited, "still has it, and this is the limit");
      return false;
    }
    return true;
  }

  // Sums up how long the line has stayed the same. Two looks far apart mean that this process was
  // stopped itself, so what lies between them says little about the holder.
  void look_for_beat(WaitClock::Duration now) {
    const WaitClock::Duration read_every = table_.times_.read_every;
    if (line_ && now - looked_at_ < read_every) {
      return;
    }
    std::string line(kLineBytes, '\0');
    const auto count = table_.file_system_.read_at(handle_, line.data(), line.size(), 0);
    line.resize(count.value_or(0));
    if (line_ == line) {
      quiet_ += std::min(now - looked_at_, 2 * read_every);
    } else {
      quiet_ = WaitClock::Duration(0);
      line_ = std::move(line);
    }
    looked_at_ = now;
  }

  // Once for each holding of the lock, however many threads wait for it.
  void warn_waiting(WaitClock::Duration waited) {
    const HolderName holder = holder_of(*line_);
    table_.logger_.warn_once(
        fmt::format("cache.wait:{}:{}", path_, holder.id),
        fmt::format("cache: waiting since {:.0f} s for {}, which compiles and has {}.",
                    in_seconds(waited), holder.shown, path_));
  }

  void warn_given_up(WaitClock::Duration waited, std::string_view reason) {
    const HolderName holder = holder_of(*line_);
    table_.logger_.warn_once(
        fmt::format("cache.given_up:{}:{}", path_, holder.id),
        fmt::format("cache: after {:.0f} s this process no longer waits for {}: {} {}. It compiles "
                    "for itself.",
                    in_seconds(waited), path_, holder.shown, reason));
  }

  LockTable& table_;
  const std::string& path_;
  const FileSystem::Handle handle_;
  const WaitClock::Duration start_;
  WaitClock::Duration looked_at_;
  WaitClock::Duration quiet_{0};
  std::optional<std::string> line_;
};

LockTable::LockTable(FileSystem& file_system, Layout layout, Publisher& publisher, Logger logger,
                     const LockTimes& times, std::shared_ptr<WaitClock> clock)
    : file_system_(file_system),
      layout_(std::move(layout)),
      publisher_(publisher),
      logger_(std::move(logger)),
      times_(times),
      clock_(clock ? std::move(clock) : std::make_shared<SteadyWaitClock>()) {}

bool LockTable::is_stopped(const std::string& path, const std::string& line) {
  const std::lock_guard lock(stopped_mutex_);
  const auto found = stopped_.find(path);
  return found != stopped_.end() && found->second == line;
}

void LockTable::note_stopped(const std::string& path, const std::string& line) {
  const std::lock_guard lock(stopped_mutex_);
  stopped_[path] = line;
}

std::string LockTable::path_of(const Digest& source, const Digest& toolchain) const {
  return fmt::format("{}/{:02x}", layout_.locks(), (source.high ^ toolchain.high) >> 56U);
}

void LockTable::warn_unusable(const std::string& path, int error) {
  logger_.warn_once("cache.lock",
                    fmt::format("cache: {} cannot be locked: {}. Processes that miss the same "
                                "kernel at once may each compile it; this is said once.",
                                path, errno_text(error)));
}

CompileLock LockTable::acquire(const Digest& source, const Digest& toolchain) {
  const std::string path = path_of(source, toolchain);
  if (!publisher_.make_folder(layout_.locks())) {
    return {};  // Publishing will meet the same obstacle, and tells of it.
  }
  const auto handle = file_system_.open_lock(path, publisher_.file_mode());
  if (!handle) {
    warn_unusable(path, handle.error());
    return {};
  }
  OpenFile file(file_system_, *handle);
  // Who cannot open it for want of this mode compiles for itself: no reason to give up our lock.
  static_cast<void>(publisher_.share(file.get(), path));
  if (!Wait(*this, path, file.get()).run()) {
    return {};
  }
  return CompileLock(
      std::make_unique<CompileLock::Holder>(file_system_, std::move(file), times_.beat_every));
}

}  // namespace kiln::cache
