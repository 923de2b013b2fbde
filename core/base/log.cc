#include "core/base/log.h"

#include <unistd.h>

#include <algorithm>
#include <array>

// The sink is private to this file: header-only, hidden, and never the process-wide registry of loggers.
#if __has_include(<spdlog/spdlog.h>)
#define QUIRE_WITH_SPDLOG 1
#define SPDLOG_HEADER_ONLY
#define FMT_HEADER_ONLY
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#else
#define QUIRE_WITH_SPDLOG 0
#endif

namespace quire {
namespace {

constexpr std::array<std::string_view, 6> kLevels = {"trace", "debug", "info", "warn", "error", "off"};

}  // namespace

int32_t LogFilter::level_of(std::string_view component) const {
  for (const auto& [name, its_level] : components) {
    if (component == name || (component.size() > name.size() && component.starts_with(name) && component[name.size()] == ':')) {
      return its_level;
    }
  }
  return level;
}

Result<LogFilter> parse_log_filter(std::string_view text) {
  LogFilter filter;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = item.find('=');
    const std::string_view word = equals == std::string_view::npos ? item : item.substr(equals + 1);
    const auto* found = std::find(kLevels.begin(), kLevels.end(), word);
    if (found == kLevels.end()) {
      return invalid("QUIRE_LOG: level '%.*s' is none of trace, debug, info, warn, error, off",
                     static_cast<int>(std::min<size_t>(word.size(), 64)), word.data());
    }
    const auto level = static_cast<int32_t>(found - kLevels.begin());
    if (equals == std::string_view::npos) {
      filter.level = level;
    } else {
      filter.components.emplace_back(item.substr(0, equals), level);
    }
  }
  return filter;
}

#if QUIRE_WITH_SPDLOG

struct Log::Sink {
  spdlog::logger logger{"quire", std::make_shared<spdlog::sinks::stderr_sink_mt>()};

  Sink() {
    logger.set_level(spdlog::level::trace);
    logger.set_pattern("[%Y-%m-%d %H:%M:%S.%e] [%l] %v");
  }
  void write(int32_t level, std::string_view component, std::string_view message) {
    const int bounded = std::clamp(level, static_cast<int32_t>(QUIRE_LOG_TRACE), static_cast<int32_t>(QUIRE_LOG_ERROR));
    logger.log(static_cast<spdlog::level::level_enum>(bounded), "{}: {}", component, message);
  }
};

#else

struct Log::Sink {
  void write(int32_t level, std::string_view component, std::string_view message) {
    const auto bounded =
        static_cast<size_t>(std::clamp(level, static_cast<int32_t>(QUIRE_LOG_TRACE), static_cast<int32_t>(QUIRE_LOG_ERROR)));
    std::string line = "[" + std::string(kLevels[bounded]) + "] " + std::string(component) + ": " + std::string(message) + "\n";
    if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // nowhere else to say it
  }
};

#endif

Log::Log() = default;
Log::Log(quire_log_fn function, void* user, int32_t level) : function_(function), user_(user), filter_{level, {}} {}
Log::Log(LogFilter filter) : filter_(std::move(filter)), sink_(std::make_unique<Sink>()) {}
Log::~Log() = default;
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;

void Log::write(int32_t level, std::string_view component, std::string_view message) const {
  if (!enabled(level, component)) return;
  if (function_ != nullptr) {
    function_(user_, level, quire_str{component.data(), component.size()}, quire_str{message.data(), message.size()});
  } else if (sink_ != nullptr) {
    sink_->write(level, component, message);
  }
}

}  // namespace quire
