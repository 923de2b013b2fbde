#include "plugins/ucx/ucx_log.h"

#include <signal.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <mutex>

namespace quire::ucx {
namespace {

thread_local const Log* t_log = nullptr;

ucs_log_func_rc_t take(const char* /*file*/, unsigned /*line*/, const char* /*function*/, ucs_log_level_t /*level*/,
                       const ucs_log_component_config_t* /*config*/, const char* message, va_list arguments) {
  if (t_log == nullptr) return UCS_LOG_FUNC_RC_CONTINUE;
  char line[400];
  const int bytes = std::vsnprintf(line, sizeof line, message, arguments);
  if (bytes > 0) t_log->say(QUIRE_LOG_DEBUG, {"UCX: ", {line, std::min<size_t>(static_cast<size_t>(bytes), sizeof line - 1)}});
  return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

void Log::say(quire_log_level level, std::initializer_list<std::string_view> texts) const {
  constexpr std::string_view kComponent = "connector:ucx";
  char line[400];
  size_t bytes = 0;
  for (const std::string_view text : texts) {
    for (size_t i = 0; i < text.size() && bytes < sizeof line; ++i) line[bytes++] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
  }
  if (host_->log != nullptr) host_->log(host_->user, level, {kComponent.data(), kComponent.size()}, {line, bytes});
}

// Once: what the host sets afterwards stays.
void give_signals_back() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const int signal : {SIGHUP, SIGILL, SIGBUS, SIGFPE, SIGSEGV}) ucs_debug_disable_signal(signal);
  });
}

Quiet::Quiet(const Log* log) : before_(t_log) {
  static std::once_flag once;
  std::call_once(once, [] { ucs_log_push_handler(take); });
  t_log = log;
}

Quiet::~Quiet() { t_log = before_; }

}  // namespace quire::ucx
