#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

#include <kiln/log.hpp>

namespace spdlog {
class logger;  // Its headers take most of a compile, so only logger.cpp includes them.
}

namespace kiln {

/// An spdlog logger whose only sink is the embedder's callback. Shared by the parts of one engine.
/// Thread-safe.
class Logger {
 public:
  explicit Logger(const LogSink& sink);

  /// Warns once for each distinct `key` in this logger's life: a fleet's log must not repeat
  /// itself.
  void warn_once(std::string_view key, std::string_view message) const;

  /// For modes that the embedder turned on to see what happens.
  void info(std::string_view message) const;

 private:
  struct Seen {
    std::mutex mutex;
    std::unordered_set<std::string> keys;
  };
  std::shared_ptr<spdlog::logger> logger_;
  std::shared_ptr<Seen> seen_;
};

}  // namespace kiln
