#pragma once

#include <functional>
#include <string>

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

}  // namespace kiln::cache::test
