// Messages to the host's log. What may happen again and again is said once.
#pragma once

#include <quire/driver.h>

#include <bitset>
#include <string>
#include <string_view>

namespace quire::file {

enum class Topic : uint8_t {
  kNoDirect,
  kNoDirectMemory,
  kNoTemporary,
  kNoSpace,
  kReadOnly,
  kDown,
  kIoError,
  kNoWatch,
  kTimes,
  kCount,
};

class Log {
 public:
  explicit Log(const quire_host_api* host) : host_(host) {}

  void say(quire_log_level level, std::string_view text) const {
    constexpr std::string_view kComponent = "connector:file";
    const quire_str component = {kComponent.data(), kComponent.size()};
    const quire_str line = {text.data(), text.size()};
    if (host_->log != nullptr) host_->log(host_->user, level, component, line);
  }
  // Until forget().
  void say_once(Topic topic, quire_log_level level, std::string_view text) {
    if (said_[static_cast<size_t>(topic)]) return;
    said_[static_cast<size_t>(topic)] = true;
    say(level, text);
  }
  void forget(Topic topic) { said_[static_cast<size_t>(topic)] = false; }

 private:
  const quire_host_api* host_;
  std::bitset<static_cast<size_t>(Topic::kCount)> said_;
};

}  // namespace quire::file
