#pragma once

/// \file
/// Logging goes to a callback that the embedder sets. Without one, Kiln prints nothing.

namespace kiln {

enum class LogLevel : int { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

/// Receives one finished line without a newline. May be called from any thread, at the same time
/// from several; `message` is valid only during the call. It must not throw.
using LogCallback = void (*)(LogLevel level, const char* message, void* user);

/// Where an engine's log lines go, and from which level on.
struct LogSink {
  LogCallback callback = nullptr;
  void* user = nullptr;  ///< Handed to the callback; must stay valid as long as the engine.
  LogLevel level = LogLevel::kWarning;
};

}  // namespace kiln
