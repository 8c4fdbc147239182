#include "tests/stress/workers.hpp"

#include <array>
#include <cstdio>
#include <string>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kiln::stress {
namespace {

constexpr int kNotPermitted = 77;

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  bool open() { return pipe(ends.data()) == 0; }
  int reader() const { return ends[0]; }
  int writer() const { return ends[1]; }
};

struct Worker {
  pid_t pid = 0;
  Pipe reports;
};

// Ends this process with the code of a grandchild that lives in namespaces of its own.
void enter_namespaces(int number) {
  const std::string host = "replica-" + std::to_string(number / 2);  // Some share their name, too.
  if (unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS) != 0 ||
      sethostname(host.c_str(), host.size()) != 0) {
    _exit(kNotPermitted);
  }
  const pid_t inner = fork();
  if (inner == 0) {
    return;  // Pid 1 of the new namespace goes on.
  }
  int status = 1;
  waitpid(inner, &status, 0);
  _exit(status == 0 ? 0 : 1);
}

[[noreturn]] void be_worker(int number, Isolation isolation, const Pipe& gate, const Pipe& reports,
                            const std::function<Report(int)>& work) {
  close(gate.writer());
  close(reports.reader());
  if (isolation == Isolation::kNamespaces) {
    enter_namespaces(number);
  }
  char byte = 0;
  static_cast<void>(read(gate.reader(), &byte, 1) == 0);  // The end of the pipe opens the gate.
  const Report report = work(number);
  _exit(write(reports.writer(), &report, sizeof report) == sizeof report ? 0 : 1);
}

}  // namespace

std::optional<std::vector<Report>> run_workers(int count, Isolation isolation,
                                               const std::function<Report(int)>& work) {
  std::fflush(nullptr);
  std::vector<Report> reports;
  std::vector<Worker> workers;
  Pipe gate;
  bool started = gate.open();
  for (int number = 0; started && number < count; ++number) {
    Worker worker;
    started = worker.reports.open();
    worker.pid = started ? fork() : -1;
    if (worker.pid == 0) {
      be_worker(number, isolation, gate, worker.reports, work);
    }
    close(worker.reports.writer());
    workers.push_back(worker);
  }
  close(gate.reader());
  close(gate.writer());
  bool permitted = true;
  for (const Worker& worker : workers) {
    Report report;
    const bool told = read(worker.reports.reader(), &report, sizeof report) == sizeof report;
    close(worker.reports.reader());
    int status = 1;
    const bool ended = worker.pid > 0 && waitpid(worker.pid, &status, 0) == worker.pid;
    permitted = permitted && !(WIFEXITED(status) && WEXITSTATUS(status) == kNotPermitted);
    reports.push_back(told && ended && status == 0 ? report : Report{0, 1});
  }
  return permitted ? std::optional(reports) : std::nullopt;
}

}  // namespace kiln::stress
