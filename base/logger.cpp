#include "base/logger.hpp"

#include <utility>

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

namespace kiln {
namespace {

LogLevel to_kiln(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return LogLevel::kDebug;
    case spdlog::level::info:
      return LogLevel::kInfo;
    case spdlog::level::warn:
      return LogLevel::kWarning;
    default:
      return LogLevel::kError;
  }
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::off;
}

// The callback is documented as callable from several threads at once, so no lock is taken.
class CallbackSink final : public spdlog::sinks::sink {
 public:
  explicit CallbackSink(const LogSink& target) : sink_(target) {}
  void log(const spdlog::details::log_msg& message) override {
    const std::string text(message.payload.data(), message.payload.size());
    sink_.callback(to_kiln(message.level), text.c_str(), sink_.user);
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

 private:
  LogSink sink_;
};

}  // namespace

Logger::Logger(const LogSink& sink)
    : logger_(std::make_shared<spdlog::logger>("kiln")), seen_(std::make_shared<Seen>()) {
  if (sink.callback == nullptr) {
    logger_->set_level(spdlog::level::off);
    return;
  }
  logger_->sinks().push_back(std::make_shared<CallbackSink>(sink));
  logger_->set_level(to_spdlog(sink.level));
}

void Logger::warn_once(std::string_view key, std::string_view message) const {
  {
    const std::lock_guard lock(seen_->mutex);
    if (!seen_->keys.emplace(key).second) {
      return;
    }
  }
  logger_->warn("{}", message);
}

void Logger::info(std::string_view message) const {
  logger_->info("{}", message);
}

}  // namespace kiln
