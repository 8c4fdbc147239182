#pragma once

/// \file
/// Replaces operator new for the whole program that includes it, in one file of it, and counts what
/// this thread allocates: `allocations`.

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t allocations = 0;

void* count_and_allocate(std::size_t bytes) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void* allocate_or_throw(std::size_t bytes) {
  if (void* memory = count_and_allocate(bytes)) {
    return memory;
  }
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t bytes) {
  return allocate_or_throw(bytes);
}
void* operator new[](std::size_t bytes) {
  return allocate_or_throw(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return count_and_allocate(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return count_and_allocate(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
