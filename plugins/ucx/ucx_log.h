// To the log of the host. What UCX says on threads of a connector goes there, too.
#pragma once

#include <quire/connector.h>

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace quire::ucx {

class Log {
 public:
  explicit Log(const quire_host_api* host) : host_(host) {}
  // One line of these texts. What cannot be printed is shown as '?'. Takes no memory.
  void say(quire_log_level level, std::initializer_list<std::string_view> texts) const;
  int64_t now() const { return host_->now(host_->user); }

 private:
  const quire_host_api* host_;
};

// UCX catches signals when it is loaded: those of errors, and SIGHUP. They are the host's again.
void give_signals_back();

// In its life UCX, which writes to the standard output, is silent on this thread: what it says goes
// to the log as debugging.
class Quiet {
 public:
  explicit Quiet(const Log* log);
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  const Log* before_;
};

}  // namespace quire::ucx
