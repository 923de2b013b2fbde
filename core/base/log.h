// Where log lines go: the engine's callback, or standard error when QUIRE_LOG asks for it, or nowhere. Nothing else in the library prints.
#pragma once

#include <quire/base.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"

namespace quire {

// The value of QUIRE_LOG: `level` or `component=level`, comma separated; levels trace debug info warn error off.
struct LogFilter {
  int32_t level = QUIRE_LOG_OFF;
  std::vector<std::pair<std::string, int32_t>> components;

  int32_t level_of(std::string_view component) const;
};

Result<LogFilter> parse_log_filter(std::string_view text);

// Thread-safe; lines are written without any lock of the caller held.
class Log {
 public:
  Log();  // writes nothing
  Log(quire_log_fn function, void* user, int32_t level);
  explicit Log(LogFilter filter);  // to standard error
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;

  bool enabled(int32_t level, std::string_view component) const { return level >= filter_.level_of(component); }
  void write(int32_t level, std::string_view component, std::string_view message) const;

 private:
  struct Sink;
  quire_log_fn function_ = nullptr;
  void* user_ = nullptr;
  LogFilter filter_;
  std::unique_ptr<Sink> sink_;
};

}  // namespace quire
