#pragma once

/// \file
/// Counts the instructions that a call executes, exactly, with the processor's trap flag: it raises
/// SIGTRAP after each. x86-64 only, and without sanitizers, whose own instructions would count; one
/// thread of the process at a time.

#include <csignal>
#include <cstdint>
#include <string_view>

#include <ucontext.h>

namespace kiln::test {

struct Instructions {
  std::uint64_t all = 0;  ///< 0 where they cannot be counted.
  /// Those that lock the bus for a read and a write: atomics that write, locks of any kind.
  std::uint64_t locking = 0;
};

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

inline volatile std::uint64_t counted_all = 0;
inline volatile std::uint64_t counted_locking = 0;

/// Whether the instruction at `code` has a lock prefix, or is an exchange with memory, which locks
/// without one.
inline bool locks(const unsigned char* code) noexcept {
  constexpr std::string_view kPrefixes("\x2E\x36\x3E\x26\x64\x65\x66\x67\xF2\xF3");
  constexpr unsigned char kLock = 0xF0;
  while (*code != kLock &&
         (kPrefixes.find(static_cast<char>(*code)) != kPrefixes.npos || (*code & 0xF0) == 0x40)) {
    ++code;
  }
  const bool is_exchange = code[0] == 0x86 || code[0] == 0x87;
  const bool of_registers = (code[1] & 0xC0) == 0xC0;
  return code[0] == kLock || (is_exchange && !of_registers);
}

inline void count_step(int, siginfo_t*, void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  counted_all = counted_all + 1;
  // The one that comes next.
  if (locks(reinterpret_cast<const unsigned char*>(registers[REG_RIP]))) {
    counted_locking = counted_locking + 1;
  }
}

// Each steps over the red zone, where the compiler may keep values below the stack's end.
[[gnu::noinline]] inline void set_trap_flag() {
  asm volatile(
      "lea -128(%%rsp), %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::
          : "memory", "cc");
}
[[gnu::noinline]] inline void clear_trap_flag() {
  asm volatile(
      "lea -128(%%rsp), %%rsp\n pushfq\n andq $~0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::
          : "memory", "cc");
}

/// Of one call; a few of the counting itself are among them, always the same.
template <class Call>
Instructions instructions_of(const Call& call) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_sigaction = &count_step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, &before);
  counted_all = 0;
  counted_locking = 0;
  set_trap_flag();
  call();
  clear_trap_flag();
  sigaction(SIGTRAP, &before, nullptr);
  return {counted_all, counted_locking};
}

#else

template <class Call>
Instructions instructions_of(const Call&) {
  return {};
}

#endif

}  // namespace kiln::test
