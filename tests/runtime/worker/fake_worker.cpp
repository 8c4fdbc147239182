// A program in the place of the worker that misbehaves as KILN_FAKE_WORKER says.

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "runtime/worker/channel.hpp"
#include "runtime/worker/child.hpp"
#include "runtime/worker/message.hpp"

namespace kiln::runtime {
namespace {

void send(const std::string& bytes) {
  static_cast<void>(::write(kWorkerSocket, bytes.data(), bytes.size()) >= 0);
}

[[noreturn]] void hang() {
  for (;;) {
    ::pause();
  }
}

// One byte of a sound frame's header changed.
std::string spoiled(std::string frame, std::size_t offset, char value) {
  frame[offset] = value;
  return frame;
}

std::string refusal(ErrorCode code) {
  return encode_hello_reply({fail(code, "the fake worker's reason")});
}

void answer_hello(std::string_view how) {
  const std::string good = encode_hello_reply({std::vector<Target>{{9, 0, TargetSuffix::kArch}}});
  if (how == "garbage") {
    send(std::string(100, 'g'));
  } else if (how == "huge") {
    send(spoiled(good, 23, '\x10'));
  } else if (how == "version") {
    send(spoiled(good, 8, '\x07'));
  } else if (how == "other build") {
    send(refusal(ErrorCode::kInternal));
  } else if (how == "no NVRTC") {
    send(refusal(ErrorCode::kCompilerUnavailable));
  } else if (how == "half") {
    send(good.substr(0, good.size() / 2));
    ::_exit(5);
  } else if (how == "hang") {
    hang();
  } else {
    send(good);
  }
}

void answer_compile(std::string_view how) {
  if (how == "compile: garbage") {
    send(std::string(100, 'g'));
  } else if (how == "compile: damaged") {
    send(spoiled(encode_compile_reply({CompiledProgram()}), kFrameHeaderBytes, '\x09'));
  } else if (how == "compile: no kernel") {
    send(encode_compile_reply({CompiledProgram()}));
  } else if (how == "compile: exit") {
    ::_exit(0);
  } else if (how == "compile: hang") {
    hang();
  }
}

}  // namespace
}  // namespace kiln::runtime

int main() {
  using namespace kiln::runtime;
  const char* const variable = std::getenv("KILN_FAKE_WORKER");
  const std::string how = variable == nullptr ? "" : variable;
  if (how == "exit") {
    ::_exit(3);
  }
  Channel channel{Descriptor(kWorkerSocket)};
  static_cast<void>(channel.receive(MessageType::kHello, kNoDeadline));
  answer_hello(how);
  while (channel.receive(MessageType::kCompile, kNoDeadline)) {
    answer_compile(how);
  }
  return 0;
}
