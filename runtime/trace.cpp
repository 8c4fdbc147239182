#include "runtime/trace.hpp"

#include <cerrno>
#include <cmath>
#include <exception>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/file_system.hpp"
#include "runtime/recorder.hpp"

namespace kiln::runtime {
namespace {

constexpr mode_t kMode = 0666;  // As readable as the umask says.
constexpr int kLockTries = 500;
constexpr std::chrono::milliseconds kBetweenTries{2};

std::string quoted(std::string_view text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

double microseconds(Trace::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

// An flock that ends with the scope; it is held for one short write.
class FileLock {
 public:
  explicit FileLock(int handle) : handle_(handle) {
    for (int i = 0; i < kLockTries && !held_; ++i) {
      held_ = flock(handle, LOCK_EX | LOCK_NB) == 0;
      if (!held_) {
        std::this_thread::sleep_for(kBetweenTries);
      }
    }
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() {
    if (held_) {
      flock(handle_, LOCK_UN);
    }
  }
  bool held() const noexcept { return held_; }

 private:
  int handle_;
  bool held_ = false;
};

}  // namespace

TraceArgs& TraceArgs::add_raw(std::string_view key, std::string_view json) {
  json_ += fmt::format("{}{}:{}", json_.empty() ? "" : ",", quoted(key), json);
  return *this;
}
TraceArgs& TraceArgs::add(std::string_view key, std::string_view value) {
  return add_raw(key, quoted(value));
}
TraceArgs& TraceArgs::add(std::string_view key, bool value) {
  return add_raw(key, value ? "true" : "false");
}
TraceArgs& TraceArgs::add(std::string_view key, double value) {
  // JSON knows neither infinity nor NaN.
  return add_raw(key, std::isfinite(value) ? fmt::format("{}", value) : "null");
}
TraceArgs& TraceArgs::add_integer(std::string_view key, std::int64_t value) {
  return add_raw(key, std::to_string(value));
}

Trace::Trace(const std::string& path, const Logger& logger) : logger_(logger) {
  // Now, since an engine reads the environment when it is made and never again.
  ToolRange::tool_listens();
  if (path.empty()) {
    return;
  }
  path_ = with_process_id(path);
  const std::string problem = open();
  if (!problem.empty()) {
    stop(problem);
    return;
  }
  on_ = true;
  write_process_name();
}

std::string Trace::open() {
  // O_NONBLOCK: a pipe without a reader must not hold the engine up.
  file_ = Descriptor(::open(
      path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, kMode));
  if (file_.get() < 0) {
    return cache::errno_text(errno);
  }
  const FileLock lock(file_.get());
  return lock.held() ? begin_array() : "it stays locked";
}

std::string Trace::begin_array() const {
  struct stat status {};
  if (fstat(file_.get(), &status) != 0) {
    return cache::errno_text(errno);
  }
  if (!S_ISREG(status.st_mode)) {
    return "it is not a regular file";
  }
  if (status.st_size == 0) {
    constexpr std::string_view kBegin = "[\n";
    const bool begun =
        write(file_.get(), kBegin.data(), kBegin.size()) == static_cast<ssize_t>(kBegin.size());
    return begun ? "" : cache::errno_text(errno);
  }
  char first = 0;
  const bool array = pread(file_.get(), &first, 1, 0) == 1 && first == '[';
  return array ? "" : "it holds something else";
}

void Trace::write_complete(std::string_view name, std::string_view category,
                           Clock::time_point start, const TraceArgs& args) noexcept {
  try {
    const Clock::time_point end = Clock::now();
    write_line(fmt::format(
        R"({{"name":{},"cat":{},"ph":"X","ts":{:.3f},"dur":{:.3f},"pid":{},"tid":{},"args":{{{}}}}})",
        quoted(name), quoted(category), microseconds(start.time_since_epoch()),
        microseconds(end - start), getpid(), gettid(), args.json()));
  } catch (const std::exception& error) {
    stop(error.what());
  }
}

void Trace::write_process_name() {
  write_line(
      fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})",
                  getpid(), gettid(), quoted(program_invocation_short_name)));
}

// One write, so that the lines of threads and processes do not mix.
void Trace::write_line(const std::string& line) {
  const std::string bytes = line + ",\n";
  ssize_t written = 0;
  do {
    written = write(file_.get(), bytes.data(), bytes.size());
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(bytes.size())) {
    stop(written < 0 ? cache::errno_text(errno) : "the disk took only a part of an event");
  }
}

void Trace::stop(std::string_view why) {
  on_ = false;
  logger_.warn_once("trace", fmt::format("trace: no events are written to {}: {}.", path_, why));
}

}  // namespace kiln::runtime
