// failure.h: what ends the program: a message for the user, and an exit code.
#pragma once

#include <csignal>
#include <stdexcept>
#include <string>

namespace fleet {

enum ExitCode { kDone = 0, kMismatches = 1, kUsage = 2, kFailed = 3 };

struct Failure : std::runtime_error {
  explicit Failure(const std::string& message, ExitCode exit_code = kFailed)
      : std::runtime_error(message), code(exit_code) {}
  ExitCode code;
};

// Somebody pressed Ctrl-C, or sent SIGTERM.
struct Interrupted {
  int signal;
};

// The signal that arrived, or 0. Loops that wait look at it.
extern volatile std::sig_atomic_t arrived_signal;
inline void check_interrupted() {
  if (arrived_signal != 0) throw Interrupted{arrived_signal};
}

}  // namespace fleet
