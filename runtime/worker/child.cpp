#include "runtime/worker/child.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/file_system.hpp"

extern char** environ;

namespace kiln::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// SIGKILL ends a process at once unless the kernel itself is stuck, as on a dead network mount.
constexpr milliseconds kDiesWithin{5000};

// By number: newer than the oldest C library that Kiln runs with.
Descriptor open_pidfd([[maybe_unused]] pid_t pid) {
#ifdef SYS_pidfd_open
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
#else
  return Descriptor();
#endif
}

bool send_kill([[maybe_unused]] int pidfd) {
#ifdef SYS_pidfd_send_signal
  return ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0) == 0;
#else
  return false;
#endif
}

class FileActions {
 public:
  FileActions() { ::posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;

  // The socket first: it may lie where a standard stream goes. A dup onto itself is inherited, too.
  int prepare(int socket) {
    int error = ::posix_spawn_file_actions_adddup2(&actions_, socket, kWorkerSocket);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      if (error == 0) {
        error = ::posix_spawn_file_actions_addopen(&actions_, stream, "/dev/null", O_RDWR, 0);
      }
    }
    return error;
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

class Attributes {
 public:
  Attributes() { ::posix_spawnattr_init(&attributes_); }
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  // Default handling of every signal. The two that the worker ignores stay blocked until it does.
  int prepare() {
    sigset_t all;
    sigset_t blocked;
    sigfillset(&all);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGPIPE);
    int error = ::posix_spawnattr_setsigdefault(&attributes_, &all);
    if (error == 0) {
      error = ::posix_spawnattr_setsigmask(&attributes_, &blocked);
    }
    return error != 0 ? error
                      : ::posix_spawnattr_setflags(&attributes_,
                                                   POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

// Pointers into `strings`, with the null that ends them.
std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& text : strings) {
    result.push_back(const_cast<char*>(text.c_str()));
  }
  result.push_back(nullptr);
  return result;
}

// 0 or an errno.
int start(const std::string& path, const std::vector<std::string>& environment, int socket,
          pid_t& pid) {
  FileActions actions;
  Attributes attributes;
  if (const int error = actions.prepare(socket); error != 0) {
    return error;
  }
  if (const int error = attributes.prepare(); error != 0) {
    return error;
  }
  const std::vector<std::string> arguments{path, kWorkerArgument};
  return ::posix_spawn(&pid, path.c_str(), actions.get(), attributes.get(),
                       pointers(arguments).data(), pointers(environment).data());
}

std::string end_text(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) {
    return fmt::format("exited with code {}", info.si_status);
  }
  const char* const name = ::sigabbrev_np(info.si_status);
  return name == nullptr ? fmt::format("was killed by signal {}", info.si_status)
                         : fmt::format("was killed by SIG{} ({})", name, info.si_status);
}

}  // namespace

std::vector<std::string> copy_of_environment() {
  std::vector<std::string> copy;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    copy.emplace_back(*variable);
  }
  return copy;
}

Result<std::unique_ptr<Child>> Child::spawn(const std::string& path,
                                            const std::vector<std::string>& environment) {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail(ErrorCode::kIo, fmt::format("cannot make a socket for the compile worker {}: {}",
                                            path, cache::errno_text(errno)));
  }
  Descriptor ours(ends[0]);
  const Descriptor theirs(ends[1]);
  pid_t pid = -1;
  if (const int error = start(path, environment, theirs.get(), pid); error != 0) {
    return fail(ErrorCode::kIo, fmt::format("cannot start the compile worker {}: {}", path,
                                            cache::errno_text(error)));
  }
  return std::unique_ptr<Child>(new Child(pid, std::move(ours)));
}

Child::Child(pid_t pid, Descriptor socket)
    : owner_(::getpid()), pid_(pid), pidfd_(open_pidfd(pid)), channel_(std::move(socket)) {
  channel_.watch(pidfd_.get());
}

Child::~Child() {
  finish(milliseconds(0));
}

bool Child::is_mine() const noexcept {
  return ::getpid() == owner_;
}

void Child::kill() const noexcept {
  if (!is_mine() || !end_.empty() || (pidfd_.get() >= 0 && send_kill(pidfd_.get()))) {
    return;
  }
  // By number only while it is still there to be waited for: another part of this process may have
  // reaped it, and the number may then be a stranger's.
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
    ::kill(pid_, SIGKILL);
  }
}

// By the pidfd where that works, since a number that somebody else reaped may be another child's.
int Child::wait_without_blocking(siginfo_t& info) const noexcept {
  constexpr auto kByPidfd = static_cast<idtype_t>(3);  // P_PIDFD, Linux 5.4.
  if (pidfd_.get() >= 0) {
    const int got = ::waitid(kByPidfd, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG);
    if (got == 0 || errno != EINVAL) {
      return got;
    }
  }
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG);
}

// Whether it has ended, now or before. Where SIGCHLD is ignored, or somebody else waits for every
// child, there is no status to be had, which also means that it has ended.
bool Child::reap() {
  siginfo_t info{};
  const int got = wait_without_blocking(info);
  if (got == 0 && info.si_pid == pid_) {
    left_cleanly_ = info.si_code == CLD_EXITED && info.si_status == 0;
    end_ = end_text(info);
  } else if (got != 0 && errno == ECHILD) {
    end_ = "ended, how is not known: another part of this process has waited for it";
  }
  return !end_.empty();
}

bool Child::wait_for_end(milliseconds limit) {
  const auto until = steady_clock::now() + limit;
  for (milliseconds pause(1); !reap(); pause = std::min(2 * pause, milliseconds(50))) {
    const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
    if (left <= milliseconds(0)) {
      return false;
    }
    pollfd watched{pidfd_.get(), POLLIN, 0};
    if (watched.fd < 0 || ::poll(&watched, 1, static_cast<int>(left.count())) != 0) {
      std::this_thread::sleep_for(std::min(pause, left));
    }
  }
  return true;
}

std::string Child::finish(milliseconds grace) {
  if (is_mine() && end_.empty() && !wait_for_end(grace)) {
    kill();
    if (!wait_for_end(kDiesWithin)) {
      end_ = "could not be killed";
    }
  }
  channel_.close();
  pidfd_.close();
  channel_.watch(-1);
  return end_;
}

}  // namespace kiln::runtime
