#include <array>
#include <cstdio>
#include <filesystem>

#include <fcntl.h>
#include <sys/socket.h>

#include "runtime/worker/child.hpp"
#include "runtime/worker/descriptor.hpp"
#include "tests/runtime/worker/workers.hpp"
#include "tests/support/catch.hpp"

namespace kiln::runtime {
namespace {

/// kiln_worker_parent, running; killed at the end at the latest.
class Parent {
 public:
  explicit Parent(const char* how) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    const Descriptor theirs(ends[1]);
    const std::string program =
        (std::filesystem::path(file_of_this_code()).parent_path() / "kiln_worker_parent").string();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(theirs.get(), STDOUT_FILENO);
      ::execl(program.c_str(), program.c_str(), how, nullptr);
      ::_exit(127);
    }
    FILE* const lines = ::fdopen(ends[0], "r");
    const int read = std::fscanf(lines, "%d %d", &worker_, &child_);
    std::fclose(lines);
    REQUIRE(read == 2);
  }
  Parent(const Parent&) = delete;
  Parent& operator=(const Parent&) = delete;
  ~Parent() {
    kill();
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
    }
  }

  pid_t worker() const { return worker_; }
  pid_t child() const { return child_; }
  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(std::exchange(pid_, 0), nullptr, 0);
    }
  }

 private:
  pid_t pid_ = 0;
  pid_t worker_ = 0;
  pid_t child_ = 0;
};

TEST_CASE("An idle worker goes when its engine's process is killed") {
  Parent parent("idle");
  REQUIRE_FALSE(test::is_gone(parent.worker()));
  parent.kill();
  CHECK(test::comes_true([&] { return test::is_gone(parent.worker()); }));
}

TEST_CASE("A worker in the middle of a compile goes when its engine's process is killed") {
  Parent parent("compile");
  REQUIRE(test::comes_to_compile(parent.worker()));
  parent.kill();
  CHECK(test::comes_true([&] { return test::is_gone(parent.worker()); }));
}

TEST_CASE("A worker goes with its engine's process though a child of that holds the socket") {
  Parent parent("fork");
  REQUIRE(parent.child() > 0);
  REQUIRE(test::comes_to_compile(parent.worker()));
  parent.kill();
  CHECK(test::comes_true([&] { return test::is_gone(parent.worker()); }));
  CHECK_FALSE(test::is_gone(parent.child()));
}

TEST_CASE("A stopped worker goes when its engine's process is killed, idle or at a compile") {
  for (const char* how : {"idle", "compile", "fork"}) {
    CAPTURE(how);
    Parent parent(how);
    if (how != std::string("idle")) {
      REQUIRE(test::comes_to_compile(parent.worker()));
    }
    REQUIRE(::kill(parent.worker(), SIGSTOP) == 0);
    REQUIRE(test::comes_true([&] { return test::process_state(parent.worker()) == 'T'; }));
    parent.kill();
    const bool gone = test::comes_true([&] { return test::is_gone(parent.worker()); });
    if (!gone) {
      ::kill(parent.worker(), SIGKILL);
    }
    CHECK(gone);
  }
}

TEST_CASE("A worker whose engine was gone before it came up leaves, though the socket is open") {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const Descriptor ours(ends[0]);
  const Descriptor theirs(ends[1]);
  const std::string program = test::worker_options().executable;
  // The socket is this process's, the parent another one: as if that had adopted an orphan.
  const pid_t other = ::fork();
  if (other == 0) {
    const pid_t worker = ::fork();
    if (worker == 0) {
      ::dup2(theirs.get(), kWorkerSocket);
      ::fcntl(kWorkerSocket, F_SETFD, 0);  // Which dup2 leaves alone where it was there already.
      ::execl(program.c_str(), program.c_str(), kWorkerArgument, nullptr);
      ::_exit(127);
    }
    int status = 0;
    ::waitpid(worker, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 126);
  }
  int status = -1;
  CHECK(::waitpid(other, &status, 0) == other);
  CHECK(status == 0);
}

}  // namespace
}  // namespace kiln::runtime
