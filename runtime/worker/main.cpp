// kiln-compile-worker: NVRTC in a process of its own, at the other end of an engine's socket. A
// crash or a hang of the compiler then costs this process, and several compile side by side.

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <kiln/version.hpp>

#include "runtime/worker/channel.hpp"
#include "runtime/worker/child.hpp"
#include "runtime/worker/message.hpp"

namespace kiln::runtime {
namespace {

constexpr int kExitNotAsked = 2;
constexpr int kExitGarbage = 3;
constexpr int kExitFailed = 4;

// A parent that died before it said hello may have left its end of the socket open in a child of
// its own.
constexpr std::chrono::seconds kHelloWithin{60};

// A terminal sends Ctrl-C to the engine and its workers alike; what it means is the engine's
// decision. The engine blocks these signals until they are ignored here.
void set_signals() {
  for (int signal = 1; signal < NSIG; ++signal) {
    ::signal(signal, signal == SIGINT || signal == SIGPIPE ? SIG_IGN : SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void close_inherited() {
  constexpr unsigned kFirst = kWorkerSocket + 1;
#ifdef SYS_close_range
  if (::syscall(SYS_close_range, kFirst, ~0U, 0U) == 0) {
    return;
  }
#endif
  rlimit limit{};
  const bool known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (1U << 20);
  for (int descriptor = kFirst; descriptor < (known ? static_cast<int>(limit.rlim_cur) : 1 << 20);
       ++descriptor) {
    ::close(descriptor);
  }
}

// Where there is a driver, NVRTC keeps what it compiled in a cache of its own, below the user's
// home directory and without a check of what it reads back. Kiln's cache is to be the only one.
void forbid_second_cache() {
  ::setenv("CUDA_CACHE_DISABLE", "1", 1);
}

// A compiler that crashes leaves no file behind.
void forbid_core_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) == 0) {
    limit.rlim_cur = 0;
    ::setrlimit(RLIMIT_CORE, &limit);
  }
}

// The engine's process, which made the socket: the parent, unless that is gone already.
pid_t engine_process() {
  ucred maker{};
  socklen_t size = sizeof maker;
  const bool known = ::getsockopt(kWorkerSocket, SOL_SOCKET, SO_PEERCRED, &maker, &size) == 0;
  return known && maker.pid > 0 ? maker.pid : ::getppid();
}

// Also where this process is stopped by then, which only the kernel can see to. It acts at the end
// of the thread that started this process, which is that of a crew's keeper, or of the engine.
void die_with_engine(pid_t engine) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != engine) {
    ::_exit(0);  // It was gone before it could be told.
  }
}

// Ends this process when its parent is gone or has let go of it, also in the middle of a compile
// and where a sandbox refuses die_with_engine(). The parent's end of the socket may live on in a
// child that it forked, hence the look at the parent itself.
[[noreturn]] void watch_parent(int socket, pid_t parent) {
  constexpr int kLookEveryMs = 1000;
  for (;;) {
    pollfd watched{socket, POLLRDHUP, 0};
    const int ready = ::poll(&watched, 1, kLookEveryMs);
    if (ready > 0 || ::getppid() != parent) {
      ::_exit(0);
    }
  }
}

// What an engine may ask of this build, and the NVRTC that it named.
Result<Nvrtc> load(const Hello& hello) {
  if (hello.build != build_text()) {
    return fail(ErrorCode::kInternal, fmt::format("this worker is of another build ({}) than the "
                                                  "library that started it ({})",
                                                  build_text(), hello.build));
  }
  return Nvrtc::load(hello.toolchain);
}

int serve(Channel& channel, const Nvrtc& nvrtc) {
  for (;;) {
    const auto payload = channel.receive(MessageType::kCompile, kNoDeadline);
    if (!payload) {
      return payload.error().kind == Breakdown::Kind::kClosed ? 0 : kExitGarbage;
    }
    const auto units = decode_compile(*payload);
    if (!units) {
      return kExitGarbage;
    }
    if (!channel.send(encode_compile_reply({nvrtc.compile(*units)}), kNoDeadline)) {
      return 0;
    }
  }
}

int run(Channel& channel) {
  const pid_t engine = engine_process();
  die_with_engine(engine);
  set_signals();
  close_inherited();
  forbid_core_files();
  forbid_second_cache();
  // NVRTC writes the working directory into line information, and a cubin names no place.
  if (::chdir("/") != 0) {
    return kExitFailed;
  }
  ::fcntl(kWorkerSocket, F_SETFD, FD_CLOEXEC);
  std::thread([engine] { watch_parent(kWorkerSocket, engine); }).detach();

  const auto payload =
      channel.receive(MessageType::kHello, std::chrono::steady_clock::now() + kHelloWithin);
  const auto hello = payload ? decode_hello(*payload) : fail(ErrorCode::kInternal, "");
  if (!hello) {
    // Whatever version the engine speaks, it learns this one from the header of the answer.
    static_cast<void>(channel.send(
        encode_hello_reply({fail(ErrorCode::kInternal, "the worker did not understand the hello")}),
        std::chrono::steady_clock::now() + kHelloWithin));
    return kExitGarbage;
  }
  const auto nvrtc = load(*hello);
  HelloReply reply{std::vector<Target>()};
  if (nvrtc) {
    reply.targets = nvrtc->targets();
  } else {
    reply.targets = tl::unexpected(nvrtc.error());
  }
  const bool told = channel.send(encode_hello_reply(reply), kNoDeadline).has_value();
  return nvrtc && told ? serve(channel, *nvrtc) : 0;
}

bool started_by_an_engine(int argc, char** argv) {
  int type = 0;
  socklen_t size = sizeof type;
  return argc == 2 && std::strcmp(argv[1], kWorkerArgument) == 0 &&
         ::getsockopt(kWorkerSocket, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

}  // namespace
}  // namespace kiln::runtime

int main(int argc, char** argv) {
  using namespace kiln::runtime;
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("kiln-compile-worker %s, protocol version %u\n", KILN_VERSION, kProtocolVersion);
    return 0;
  }
  if (!started_by_an_engine(argc, argv)) {
    std::fputs(
        "kiln-compile-worker compiles CUDA kernels for a process that uses Kiln, which starts it "
        "by itself; it does nothing when started by hand.\n",
        stderr);
    return kExitNotAsked;
  }
  int code = kExitFailed;
  // Open to the end: closing it would look to the watch like the end of the parent.
  Channel channel{Descriptor(kWorkerSocket)};
  try {
    code = run(channel);
  } catch (const std::exception&) {
    // Out of memory or threads. The engine sees the exit code.
  }
  // Not exit(): NVRTC's threads and the watch may still run.
  ::_exit(code);
}
