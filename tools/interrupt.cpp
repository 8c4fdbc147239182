#include "tools/interrupt.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <initializer_list>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace kiln::tools {
namespace {

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction now {};
    const bool ignored = sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
    if (!ignored) {
      sigaddset(&set, number);
    }
  }
  return set;
}

sigset_t block(const sigset_t& signals) {
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  return before;
}

}  // namespace

Interrupt::Interrupt()
    : watched_(watched_signals()),
      mask_before_(block(watched_)),
      signals_(signalfd(-1, &watched_, SFD_CLOEXEC)),
      end_(eventfd(0, EFD_CLOEXEC)) {
  if (signals_.get() < 0 || end_.get() < 0) {
    // Too many open files, say: then a signal ends the process as if nobody watched.
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
    return;
  }
  watcher_ = std::jthread([this] { watch(); });
}

Interrupt::~Interrupt() {
  if (watcher_.joinable()) {
    const std::uint64_t one = 1;
    while (write(end_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
    watcher_.join();
  }
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

void Interrupt::watch() {
  std::array<pollfd, 2> both = {{{signals_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}}};
  signalfd_siginfo info{};
  while (both[0].revents == 0) {
    if (poll(both.data(), both.size(), -1) < 0 && errno != EINTR) {
      break;
    }
    if (both[1].revents != 0) {
      return;
    }
  }
  if (read(signals_.get(), &info, sizeof info) == sizeof info) {
    signal_ = static_cast<int>(info.ssi_signo);
    source_.request_stop();
  }
  // The next one finds this thread willing, and nothing to stop it from killing the process.
  pthread_sigmask(SIG_UNBLOCK, &watched_, nullptr);
  while (poll(&both[1], 1, -1) < 0 && errno == EINTR) {
  }
}

}  // namespace kiln::tools
