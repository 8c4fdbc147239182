#include "runtime/worker/pool.hpp"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "runtime/worker/child.hpp"
#include "runtime/worker/crew.hpp"
#include "runtime/worker/message.hpp"

namespace kiln::runtime {
namespace {

constexpr std::size_t kAttempts = 2;

using std::chrono::steady_clock;

std::string label_of(std::span<const registry::CompileUnit> units) {
  return units.size() == 1
             ? units.front().label
             : fmt::format("{} and {} more in one program", units.front().label, units.size() - 1);
}

// One question and its answer.
Exchange<CompileReply> ask(Channel& channel, const std::string& frame, std::size_t kernels,
                           Deadline deadline) {
  if (const auto sent = channel.send(frame, deadline); !sent) {
    return tl::unexpected(sent.error());
  }
  const auto payload = channel.receive(MessageType::kCompileReply, deadline);
  if (!payload) {
    return tl::unexpected(payload.error());
  }
  auto reply = decode_compile_reply(*payload);
  if (!reply) {
    return tl::unexpected(Breakdown{Breakdown::Kind::kGarbage, reply.error().message});
  }
  if (reply->program && reply->program->kernels.size() != kernels) {
    return tl::unexpected(
        Breakdown{Breakdown::Kind::kGarbage, fmt::format("{} kernels where {} were asked for",
                                                         reply->program->kernels.size(), kernels)});
  }
  return std::move(*reply);
}

}  // namespace

std::unique_ptr<WorkerPool> WorkerPool::make(const Toolchain& toolchain,
                                             const WorkerPoolOptions& options) {
  return std::unique_ptr<WorkerPool>(new WorkerPool(toolchain, options));
}

tl::expected<void, StartFailure> WorkerPool::start_first() {
  auto started = crew().start_first();
  if (!started) {
    return tl::unexpected(std::move(started.error()));
  }
  targets_ = std::move(*started);
  return {};
}

WorkerPool::WorkerPool(Toolchain toolchain, WorkerPoolOptions options)
    : toolchain_(std::move(toolchain)),
      options_(std::move(options)),
      environment_(copy_of_environment()),
      max_workers_(options_.max_workers),
      crew_(new Crew(toolchain_, options_, environment_)) {}

WorkerPool::~WorkerPool() {
  Crew* const crew = crew_.load();
  if (crew->owner() == ::getpid()) {
    delete crew;
  } else {
    crew->abandon();
  }
}

// After a fork, the crew that was inherited belongs to the parent: another thread may have held
// its mutex, and its workers answer to somebody else.
Crew& WorkerPool::crew() const {
  Crew* current = crew_.load();
  if (current->owner() == ::getpid()) {
    return *current;
  }
  auto own = std::make_unique<Crew>(toolchain_, options_, environment_);
  own->set_max_workers(max_workers_);
  if (cancelled_) {
    own->cancel();
  }
  if (crew_.compare_exchange_strong(current, own.get())) {
    current->abandon();
    return *own.release();
  }
  return *current;  // Another thread of this process was quicker.
}

Result<CompiledProgram> WorkerPool::compile(std::span<const registry::CompileUnit> units) const {
  if (const Status usable = check_program(units); !usable) {
    return tl::unexpected(usable.error());
  }
  const auto frame = encode_compile(units);
  if (!frame) {
    return tl::unexpected(frame.error());
  }
  Crew& crew = this->crew();
  const Crew::Visit visit(crew);
  std::vector<std::string> ends;
  bool any_started = false;
  while (ends.size() < kAttempts) {
    auto worker = crew.take();
    if (!worker && worker.error().kind == StartFailure::Kind::kNoCompiler) {
      return tl::unexpected(worker.error().failure);
    }
    if (worker) {
      any_started = true;
      auto reply = ask((*worker)->child->channel(), *frame, units.size(),
                       steady_clock::now() + options_.compile_timeout);
      if (reply) {
        crew.give_back(**worker);
        return std::move(reply->program);
      }
      ends.push_back("the compile worker " +
                     crew.lose(**worker, reply.error(), options_.compile_timeout));
    } else {
      ends.push_back(worker.error().failure.message);
    }
    if (crew.cancelled()) {
      return fail(ErrorCode::kCancelled,
                  fmt::format("compiling {} was cancelled", label_of(units)));
    }
    options_.logger.warn_once("worker.lost:" + units.front().label,
                              fmt::format("compiling {}: {}{}", label_of(units), ends.back(),
                                          ends.size() < kAttempts ? "; trying once more" : ""));
  }
  return tl::unexpected(lost(label_of(units), ends, any_started));
}

// A machine that has no room for a process now may have some later, so that is not the kernel's
// fault.
Failure WorkerPool::lost(const std::string& label, const std::vector<std::string>& ends,
                         bool any_started) const {
  return {any_started ? ErrorCode::kCompilerLost : ErrorCode::kCompilerUnavailable,
          fmt::format("compiling {} was given up after {} attempts: {}. NVRTC {} ({}) may be "
                      "unable to compile this kernel, or the machine short of memory. If it only "
                      "takes long, raise EngineOptions::compile_timeout; "
                      "EngineOptions::compile_in_process (KILN_COMPILE_IN_PROCESS=1) compiles in "
                      "the engine's own process, which a crash then ends.",
                      label, ends.size(), fmt::join(ends, "; then "), toolchain_.version(),
                      toolchain_.nvrtc_path)};
}

void WorkerPool::cancel() {
  cancelled_ = true;
  crew().cancel();
}

void WorkerPool::resume() {
  cancelled_ = false;
  crew().resume();
}

void WorkerPool::set_max_workers(unsigned max_workers) {
  max_workers_ = max_workers;
  crew().set_max_workers(max_workers);
}

std::vector<pid_t> WorkerPool::pids() const {
  return crew().pids();
}

WorkerCounters WorkerPool::counters() const {
  return crew().counters();
}

}  // namespace kiln::runtime
