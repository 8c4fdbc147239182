#pragma once

/// \file
/// Engines and plans as Python holds them: objects that are counted, so that none goes under a
/// call.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include <sys/types.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/optional.h>

#include <kiln/kiln.h>

#include "python/binding/error.hpp"

namespace kiln::python {

/// The library's engine and how long it lives: until it was closed and the last call that uses it
/// is over. Whoever ends it does so without Python's lock, which threads of the engine may want for
/// a log line, and on no such thread.
class EngineLife : public std::enable_shared_from_this<EngineLife> {
 public:
  explicit EngineLife(tvm::ffi::Optional<tvm::ffi::Function> log);

  void create(kiln_engine_options& options);

  /// False once it was closed; else it stays until as many leave.
  bool enter() noexcept {
    std::uint64_t seen = state_.load(std::memory_order_relaxed);
    do {
      if ((seen & kClosed) != 0) [[unlikely]] {
        return false;
      }
    } while (!state_.compare_exchange_weak(seen, seen + kUser, std::memory_order_acquire,
                                           std::memory_order_relaxed));
    return true;
  }
  void leave() noexcept {
    if (left_last()) [[unlikely]] {
      destroy();
    }
  }
  void close() noexcept;
  /// The same, where the engine must not be ended on this thread.
  void close_elsewhere() noexcept;

  kiln_engine* engine() const noexcept { return engine_; }

  /// Closes every engine of the process, and returns when no thread of ours is in Python or on its
  /// way there. None goes there from then on: while the interpreter goes, a thread that asks for
  /// its lock is ended in a way that C++ does not survive.
  static void end_all() noexcept;

 private:
  static constexpr std::uint64_t kClosed = 1;
  static constexpr std::uint64_t kUser = 2;

  static void log_line(std::int32_t level, const char* message, void* user);

  bool left_last() noexcept {
    return state_.fetch_sub(kUser, std::memory_order_acq_rel) == (kUser | kClosed);
  }
  /// Whether it was open, and is this caller's to leave.
  bool shut() noexcept;
  void destroy() noexcept;
  void destroy_elsewhere() noexcept;
  /// It is never freed, nor what it holds.
  void stay() noexcept;

  const pid_t process_;  // A forked child has none of the threads that ending it would wait for.
  kiln_engine* engine_ = nullptr;
  tvm::ffi::Optional<tvm::ffi::Function> log_;
  std::atomic<std::uint64_t> state_{kUser};  // Its owner's, until it is closed.
};

/// While it lives no line goes to Python from this thread, which has an exception of Python's
/// pending.
class NoLines {
 public:
  NoLines() noexcept;
  ~NoLines();
  NoLines(const NoLines&) = delete;
  NoLines& operator=(const NoLines&) = delete;
};

class EngineObject : public tvm::ffi::Object {
 public:
  explicit EngineObject(std::shared_ptr<EngineLife> made) : life(std::move(made)) {}
  // Python lets go of what it holds with its lock taken.
  ~EngineObject() { life->close_elsewhere(); }
  EngineObject(const EngineObject&) = delete;
  EngineObject& operator=(const EngineObject&) = delete;

  std::shared_ptr<EngineLife> life;

  static constexpr bool _type_mutable = true;  // NOLINT: the library's name
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("kiln.Engine", EngineObject, tvm::ffi::Object);
};

class Engine : public tvm::ffi::ObjectRef {
 public:
  explicit Engine(std::shared_ptr<EngineLife> life)
      : ObjectRef(tvm::ffi::make_object<EngineObject>(std::move(life))) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Engine, tvm::ffi::ObjectRef, EngineObject);
};

/// One call's use of an engine, which a close() meanwhile does not end.
class Use {
 public:
  explicit Use(const Engine& engine) : life_(*engine->life) {
    if (!life_.enter()) [[unlikely]] {
      refuse("the engine was closed");
    }
  }
  ~Use() { life_.leave(); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  kiln_engine* engine() const noexcept { return life_.engine(); }

 private:
  EngineLife& life_;  // Of the object that the caller holds.
};

class PlanObject : public tvm::ffi::Object {
 public:
  PlanObject(Engine of, std::string op_name, kiln_plan* made)
      : engine(std::move(of)), op(std::move(op_name)), plan(made) {}
  ~PlanObject() { kiln_plan_destroy(plan); }
  PlanObject(const PlanObject&) = delete;
  PlanObject& operator=(const PlanObject&) = delete;

  Engine engine;
  std::string op;
  kiln_plan* plan;

  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("kiln.Plan", PlanObject, tvm::ffi::Object);
};

class Plan : public tvm::ffi::ObjectRef {
 public:
  Plan(Engine engine, std::string op, kiln_plan* plan)
      : ObjectRef(tvm::ffi::make_object<PlanObject>(std::move(engine), std::move(op), plan)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Plan, tvm::ffi::ObjectRef, PlanObject);
};

}  // namespace kiln::python
