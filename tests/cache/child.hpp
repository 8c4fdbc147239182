#pragma once

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kiln::cache::test {

/// Runs `body` in a forked child and gives what it returned: empty for success, else the problem.
/// The child leaves without running anything of the test framework.
inline std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) {
    return "pipe failed";
  }
  const pid_t child = fork();
  if (child == 0) {
    const std::string problem = body();
    const auto written = write(ends[1], problem.data(), problem.size());
    _exit(problem.empty() && written == 0 ? 0 : 1);
  }
  close(ends[1]);
  std::string problem;
  char buffer[512];
  for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof buffer)) > 0;) {
    problem.append(buffer, static_cast<std::size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0 && problem.empty()) {
    problem = "the child died with status " + std::to_string(status);
  }
  return problem;
}

/// The same as another user. Needs to be root.
inline std::string as_user(uid_t uid, const std::function<std::string()>& body) {
  return in_child([&]() -> std::string {
    if (setgid(uid) != 0 || setuid(uid) != 0) {
      return "cannot become another user";
    }
    return body();
  });
}

/// Runs `body` with each number below `count` in a child of its own, all at once; gives how many
/// returned a problem or died.
inline int failures_of_children(int count, const std::function<std::string(int)>& body) {
  std::vector<pid_t> children;
  for (int number = 0; number < count; ++number) {
    const pid_t child = fork();
    if (child == 0) {
      _exit(body(number).empty() ? 0 : 1);
    }
    children.push_back(child);
  }
  int failures = 0;
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    failures += status != 0 ? 1 : 0;
  }
  return failures;
}

/// A forked child that makes ready, says so, and then sleeps until it is killed.
class SleepingChild {
 public:
  /// `body` runs in the child, which keeps what it returns. Gives no child that is not ready.
  template <class Body>
  explicit SleepingChild(const Body& body) {
    int ends[2];
    if (pipe(ends) != 0) {
      return;
    }
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      [[maybe_unused]] const auto kept = body();
      const char byte = 1;
      const bool told = write(ends[1], &byte, 1) == 1;
      while (told) {
        pause();
      }
      _exit(1);
    }
    close(ends[1]);
    char byte = 0;
    ready_ = read(ends[0], &byte, 1) == 1;
    close(ends[0]);
  }
  SleepingChild(const SleepingChild&) = delete;
  SleepingChild& operator=(const SleepingChild&) = delete;
  ~SleepingChild() { kill(); }

  bool ready() const { return ready_; }
  pid_t pid() const { return pid_; }
  /// Returns once the child no longer runs.
  void stop() const {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    waitpid(pid_, &status, WUNTRACED);
  }
  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      int status = 0;
      waitpid(pid_, &status, 0);
      pid_ = 0;
    }
  }

 private:
  pid_t pid_ = 0;
  bool ready_ = false;
};

}  // namespace kiln::cache::test
