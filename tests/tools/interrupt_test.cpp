#include "tools/interrupt.hpp"

#include <csignal>
#include <functional>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.hpp"

namespace kiln::tools {
namespace {

// How a forked child ended that ran `body`.
int status_of_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGINT, SIG_DFL);  // Not what the test framework does at one.
    signal(SIGTERM, SIG_DFL);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

void wait_for_stop(const Interrupt& interrupt) {
  while (!interrupt.stop_token().stop_requested()) {
    std::this_thread::yield();
  }
}

TEST_CASE("The first signal asks for a stop and is told apart by its exit code") {
  const int number = GENERATE(SIGINT, SIGTERM);
  const int status = status_of_child([&] {
    const Interrupt interrupt;
    if (interrupt.signal() != 0 || interrupt.stop_token().stop_requested()) {
      return 1;
    }
    kill(getpid(), number);
    wait_for_stop(interrupt);
    return interrupt.signal() == number ? interrupt.exit_code() : 1;
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 128 + number);
}

TEST_CASE("The second signal kills") {
  const int status = status_of_child([]() -> int {
    const Interrupt interrupt;
    kill(getpid(), SIGINT);
    wait_for_stop(interrupt);
    kill(getpid(), SIGTERM);
    for (;;) {
      pause();
    }
  });
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}

TEST_CASE("A signal that is ignored stays ignored") {
  const int status = status_of_child([] {
    signal(SIGINT, SIG_IGN);
    const Interrupt interrupt;
    kill(getpid(), SIGINT);
    kill(getpid(), SIGTERM);
    wait_for_stop(interrupt);
    return interrupt.signal() == SIGTERM ? 0 : 1;
  });
  CHECK(status == 0);
}

TEST_CASE("After its life signals do what they did before") {
  const int status = status_of_child([] {
    { const Interrupt interrupt; }
    kill(getpid(), SIGTERM);
    return 0;
  });
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}

}  // namespace
}  // namespace kiln::tools
