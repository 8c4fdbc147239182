#include "runtime/flight_table.hpp"

namespace kiln::runtime {

FlightTable::Flight::~Flight() {
  if (table_ != nullptr) {
    table_->end(key_, nullptr);
  }
}

void FlightTable::Flight::land(std::shared_ptr<const cache::Entry> entry, bool kept) {
  FlightTable& table = *std::exchange(table_, nullptr);
  if (kept) {
    const std::lock_guard lock(table.mutex_);
    table.kept_.emplace(key_, entry);
  }
  table.end(key_, std::move(entry));
}

void FlightTable::Flight::fail(Failure failure) {
  FlightTable& table = *std::exchange(table_, nullptr);
  {
    const std::lock_guard lock(table.mutex_);
    table.failures_.emplace(key_, std::move(failure));
  }
  table.end(key_, nullptr);
}

void FlightTable::end(const cache::Digest& key, std::shared_ptr<const cache::Entry> entry) {
  {
    const std::lock_guard lock(mutex_);
    const auto flying = flying_.find(key);
    if (flying == flying_.end()) {
      return;  // Of a parent's thread, and a forked child's own flight took its place and ended.
    }
    flying->second->ended = true;
    flying->second->entry = std::move(entry);
    flying_.erase(flying);
  }
  landed_.notify_all();
}

FlightTable::Joined FlightTable::join(const cache::Digest& key) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (const auto failed = failures_.find(key); failed != failures_.end()) {
      return {std::nullopt, nullptr, failed->second};
    }
    if (const auto known = kept_.find(key); known != kept_.end()) {
      return {std::nullopt, known->second, std::nullopt};
    }
    std::shared_ptr<State>& flying = flying_[key];
    if (flying == nullptr || !flying->is_ours()) {
      flying = std::make_shared<State>();
      return {Flight(*this, key), nullptr, std::nullopt};
    }
    const std::shared_ptr<State> awaited = flying;
    landed_.wait(lock, [&] { return awaited->ended; });
    if (awaited->entry != nullptr) {
      return {std::nullopt, awaited->entry, std::nullopt};
    }
  }
}

std::optional<FlightTable::Flight> FlightTable::try_lead(const cache::Digest& key) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<State>& flying = flying_[key];
  const bool free = flying == nullptr || !flying->is_ours();
  if (!free || failures_.contains(key) || kept_.contains(key)) {
    if (flying == nullptr) {
      flying_.erase(key);
    }
    return std::nullopt;
  }
  flying = std::make_shared<State>();
  return std::make_optional<Flight>(*this, key);
}

std::shared_ptr<const cache::Entry> FlightTable::kept(const cache::Digest& key) {
  const std::lock_guard lock(mutex_);
  const auto known = kept_.find(key);
  return known != kept_.end() ? known->second : nullptr;
}

void FlightTable::forget_failures() {
  const std::lock_guard lock(mutex_);
  failures_.clear();
}

}  // namespace kiln::runtime
