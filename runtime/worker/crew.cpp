#include "runtime/worker/crew.hpp"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "runtime/worker/message.hpp"

namespace kiln::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A worker whose socket is closed is about to end; its status says why.
constexpr milliseconds kEndsWithin{1000};

tl::unexpected<StartFailure> start_failure(StartFailure::Kind kind, Failure failure) {
  return tl::unexpected(StartFailure{kind, std::move(failure)});
}

tl::unexpected<StartFailure> cancelled_failure() {
  return start_failure(StartFailure::Kind::kCancelled, {ErrorCode::kCancelled, "cancelled"});
}

// How the worker ended, in words that follow its name. Ends it if it has not ended yet.
std::string end_of(Child& child, const Breakdown& breakdown, milliseconds limit) {
  switch (breakdown.kind) {
    case Breakdown::Kind::kTimedOut:
      child.finish(milliseconds(0));
      return fmt::format("did not answer within {:g} s",
                         std::chrono::duration<double>(limit).count());
    case Breakdown::Kind::kGarbage:
      child.finish(milliseconds(0));
      return "answered with " + breakdown.reason;
    case Breakdown::Kind::kClosed:
      break;
  }
  return child.finish(kEndsWithin);
}

}  // namespace

Crew::Crew(const Toolchain& toolchain, const WorkerPoolOptions& options,
           const std::vector<std::string>& environment)
    : owner_(::getpid()),
      toolchain_(toolchain),
      options_(options),
      environment_(environment),
      max_workers_(std::max(options.max_workers, 1U)) {}

Crew::~Crew() {
  cancel();
  {
    Lock lock(mutex_);
    unused_.wait(lock, [this] { return visitors_ == 0; });
  }
  if (keeper_thread_.joinable()) {
    keeper_thread_.join();
  }
}

void Crew::abandon() {
  const Lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) {
    workers_.clear();  // A child of another process only closes its descriptors.
  }
}

Crew::Visit::Visit(Crew& crew) : crew_(crew) {
  const Lock lock(crew_.mutex_);
  ++crew_.visitors_;
}

Crew::Visit::~Visit() {
  const Lock lock(crew_.mutex_);
  if (--crew_.visitors_ == 0) {
    crew_.unused_.notify_all();
    crew_.keeper_.notify_one();
  }
}

// ------------------------------------------------------------------------------------------------
// Starting

Crew::Started Crew::start_first() {
  const Visit visit(*this);
  Worker* worker = nullptr;
  {
    const Lock lock(mutex_);
    worker = workers_.emplace_back(std::make_unique<Worker>()).get();
  }
  auto started = start(*worker);
  if (started) {
    rest(*worker);
  }
  return started;
}

// By the keeper, which outlives the worker: the kernel kills a worker when the thread that spawned
// it ends. Needs a worker in the list, for which the keeper stays.
Crew::Spawned Crew::spawn() {
  std::future<Spawned> spawned;
  {
    const Lock lock(mutex_);
    if (!ensure_keeper()) {
      return fail(ErrorCode::kIo, fmt::format("cannot start a thread, which starts the compile "
                                              "worker {}: is a limit on processes reached?",
                                              options_.executable));
    }
    spawned = to_spawn_.emplace_back().get_future();
    keeper_.notify_one();
  }
  return spawned.get();
}

// Of a worker in the list, which a failure takes out again.
Crew::Started Crew::start(Worker& worker) {
  auto child = spawn();
  if (!child) {
    remove(worker);
    return start_failure(StartFailure::Kind::kNoWorker, std::move(child.error()));
  }
  {
    const Lock lock(mutex_);
    worker.child = std::move(*child);
    if (cancelled_) {
      worker.child->kill();
    }
  }
  Failure refused;
  auto targets = shake_hands(worker, refused);
  if (targets && refused.message.empty()) {
    const Lock lock(mutex_);
    ++counters_.started;
    return std::move(*targets);
  }
  const auto gone = remove(worker);
  if (cancelled()) {
    return cancelled_failure();
  }
  if (!targets) {
    const std::string end = end_of(*gone->child, targets.error(), options_.start_timeout);
    return start_failure(StartFailure::Kind::kNoWorker,
                         {ErrorCode::kCompilerLost,
                          fmt::format("the compile worker {} {}", options_.executable, end)});
  }
  const bool no_nvrtc = refused.code == ErrorCode::kCompilerUnavailable;
  if (!no_nvrtc) {
    refused = {ErrorCode::kCompilerLost, fmt::format("the compile worker {} cannot be used: {}",
                                                     options_.executable, refused.message)};
  }
  return start_failure(no_nvrtc ? StartFailure::Kind::kNoCompiler : StartFailure::Kind::kNoWorker,
                       refused);
}

Exchange<std::vector<Target>> Crew::shake_hands(Worker& worker, Failure& refused) {
  Channel& channel = worker.child->channel();
  const Deadline deadline = steady_clock::now() + options_.start_timeout;
  // Where it cannot be sent, what came before the other side ended says more.
  static_cast<void>(channel.send(encode_hello({build_text(), toolchain_}), deadline));
  const auto payload = channel.receive(MessageType::kHelloReply, deadline);
  if (!payload) {
    return tl::unexpected(payload.error());
  }
  auto reply = decode_hello_reply(*payload);
  if (!reply) {
    return tl::unexpected(Breakdown{Breakdown::Kind::kGarbage, reply.error().message});
  }
  if (!reply->targets) {
    refused = std::move(reply->targets.error());
    return std::vector<Target>();
  }
  return std::move(*reply->targets);
}

// ------------------------------------------------------------------------------------------------
// Lending

tl::expected<Worker*, StartFailure> Crew::take() {
  bool may_start = true;
  for (Lock lock(mutex_);;) {
    if (cancelled_) {
      return cancelled_failure();
    }
    if (Worker* const idle = newest_idle(); idle != nullptr) {
      idle->busy = true;
      lock.unlock();
      if (!idle->child->channel().idle_is_over()) {
        return idle;
      }
      remove(*idle)->child->finish(kEndsWithin);  // Nothing was asked of it, so nothing is lost.
      lock.lock();
    } else if (may_start && workers_.size() < max_workers_) {
      Worker* const worker = workers_.emplace_back(std::make_unique<Worker>()).get();
      lock.unlock();
      const auto started = start(*worker);
      if (started) {
        return worker;
      }
      lock.lock();
      // There may be no room for another process; those that run will do.
      if (workers_.empty() || started.error().kind != StartFailure::Kind::kNoWorker) {
        return tl::unexpected(started.error());
      }
      may_start = false;
    } else if (workers_.empty()) {
      may_start = true;
    } else {
      free_.wait(lock);
    }
  }
}

void Crew::give_back(Worker& worker) {
  ++worker.compiles;  // Its borrower's until rest().
  rest(worker);
}

void Crew::rest(Worker& worker) {
  {
    const Lock lock(mutex_);
    if (!cancelled_ && workers_.size() <= max_workers_ &&
        worker.compiles < std::max(options_.recycle_after, 1U) && ensure_keeper()) {
      worker.idle_since = steady_clock::now();
      worker.busy = false;
      free_.notify_one();
      keeper_.notify_one();
      return;
    }
  }
  remove(worker);
}

std::string Crew::lose(Worker& worker, const Breakdown& breakdown, milliseconds limit) {
  const auto gone = remove(worker);
  {
    const Lock lock(mutex_);
    counters_.lost += cancelled_ ? 0 : 1;
  }
  return end_of(*gone->child, breakdown, limit);
}

Worker* Crew::newest_idle() {
  Worker* newest = nullptr;
  for (const auto& worker : workers_) {
    if (!worker->busy && (newest == nullptr || worker->idle_since > newest->idle_since)) {
      newest = worker.get();
    }
  }
  return newest;
}

std::unique_ptr<Worker> Crew::remove(Worker& worker) {
  const Lock lock(mutex_);
  const auto place = std::find_if(workers_.begin(), workers_.end(),
                                  [&](const auto& each) { return each.get() == &worker; });
  auto removed = std::move(*place);
  workers_.erase(place);
  free_.notify_all();
  keeper_.notify_one();
  return removed;
}

// ------------------------------------------------------------------------------------------------
// Stopping

// What is taken out of the list is killed and reaped after the mutex is free again.

void Crew::cancel() {
  Workers idle;
  const Lock lock(mutex_);
  cancelled_ = true;
  idle = take_idle_beyond(0);
  for (const auto& worker : workers_) {
    if (worker->child != nullptr) {
      worker->child->kill();  // Its borrower sees the end and reaps it.
    }
  }
  free_.notify_all();
  keeper_.notify_one();
}

void Crew::resume() {
  const Lock lock(mutex_);
  cancelled_ = false;
}

bool Crew::cancelled() const {
  const Lock lock(mutex_);
  return cancelled_;
}

void Crew::set_max_workers(unsigned max_workers) {
  Workers surplus;
  const Lock lock(mutex_);
  max_workers_ = std::max(max_workers, 1U);
  surplus = take_idle_beyond(max_workers_);
  free_.notify_all();
  keeper_.notify_one();
}

Crew::Workers Crew::take_idle_beyond(std::size_t most) {
  Workers taken;
  for (auto worker = workers_.begin(); worker != workers_.end() && workers_.size() > most;) {
    const auto next = std::next(worker);
    if (!(*worker)->busy) {
      taken.splice(taken.end(), workers_, worker);
    }
    worker = next;
  }
  return taken;
}

Crew::Workers Crew::take_expired() {
  Workers taken;
  const auto now = steady_clock::now();
  for (auto worker = workers_.begin(); worker != workers_.end();) {
    const auto next = std::next(worker);
    if (!(*worker)->busy && (*worker)->idle_since + options_.linger <= now) {
      taken.splice(taken.end(), workers_, worker);
    }
    worker = next;
  }
  return taken;
}

// Whether somebody spawns workers, and stops idle ones when their time is over. Needs the mutex.
bool Crew::ensure_keeper() {
  if (keeping_) {
    return true;
  }
  if (keeper_thread_.joinable()) {
    keeper_thread_.join();  // It has given the mutex back for good.
  }
  try {
    keeper_thread_ = std::thread([this] { keep(); });
    keeping_ = true;
  } catch (const std::system_error&) {
    // A limit on processes, which threads count for, too.
  }
  return keeping_;
}

void Crew::keep() {
  Lock lock(mutex_);
  // While there are visitors, also for a worker that has left the list and whose end they look at.
  while (!workers_.empty() || visitors_ > 0) {
    if (!to_spawn_.empty()) {
      auto asked = std::move(to_spawn_.front());
      to_spawn_.pop_front();
      lock.unlock();
      try {
        asked.set_value(Child::spawn(options_.executable, environment_));
      } catch (...) {
        asked.set_exception(std::current_exception());
      }
      lock.lock();
      continue;
    }
    if (Workers expired = take_expired(); !expired.empty()) {
      lock.unlock();
      expired.clear();
      lock.lock();
      continue;
    }
    auto wake = steady_clock::time_point::max();
    for (const auto& worker : workers_) {
      wake = worker->busy ? wake : std::min(wake, worker->idle_since + options_.linger);
    }
    if (wake == steady_clock::time_point::max()) {
      keeper_.wait(lock);
    } else {
      keeper_.wait_until(lock, wake);
    }
  }
  keeping_ = false;
}

std::vector<pid_t> Crew::pids() const {
  const Lock lock(mutex_);
  std::vector<pid_t> pids;
  for (const auto& worker : workers_) {
    if (worker->child != nullptr) {
      pids.push_back(worker->child->pid());
    }
  }
  return pids;
}

WorkerCounters Crew::counters() const {
  const Lock lock(mutex_);
  return counters_;
}

}  // namespace kiln::runtime
