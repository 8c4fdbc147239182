#include <array>
#include <cstdio>
#include <filesystem>

#include <fcntl.h>

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

}  // namespace
}  // namespace kiln::runtime
