// terminal.h: a status line on standard error while the engine works, if that is a terminal.
#pragma once

#include <string>

#include "scheduler.h"

namespace lm {

class StatusLine {
 public:
  explicit StatusLine(bool wanted);
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // A bar while prompts are computed, otherwise speed, hits and pages. At most ten times a second.
  void show(const Scheduler& scheduler, const Kv& kv);
  // Weights that are packed.
  void show_loading(size_t done, size_t all);
  // Removes it, so that text can be written.
  void clear();
  bool is_shown() const { return wanted_; }

 private:
  void write(const std::string& text);

  bool wanted_ = false;
  bool visible_ = false;
  double last_ = 0;
  double decode_seconds_ = 0;
};

// "12 of 400 pages", "31.2 tokens/s", ...: the numbers of a run in one line.
std::string summary(const Scheduler& scheduler, const Kv& kv);
// [=====>    ]
std::string bar(double share, int width);

}  // namespace lm
