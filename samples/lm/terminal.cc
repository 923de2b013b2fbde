#include "terminal.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace lm {
namespace {

constexpr double kInterval = 0.1;
constexpr int kBarWidth = 30;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string number(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

std::string bar(double share, int width) {
  const int done = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
  std::string text = "[" + std::string(static_cast<size_t>(done), '=');
  if (done < width) text += ">" + std::string(static_cast<size_t>(width - done - 1), ' ');
  return text + "]";
}

std::string summary(const Scheduler& scheduler, const Kv& kv) {
  const SchedulerStats& stats = scheduler.stats();
  const quire_cache_stats cache = kv.cache().stats();
  std::string text =
      number(stats.seconds == 0 ? 0 : static_cast<double>(stats.decode_tokens) / stats.seconds,
             "%.1f tokens/s");
  text += ", " + std::to_string(stats.hit_tokens) + " hit, " +
          std::to_string(stats.prefill_tokens) + " computed";
  text += ", pages " + std::to_string(cache.pages_used) + " used, " +
          std::to_string(cache.pages_evictable) + " cached of " + std::to_string(cache.pages_total);
  if (stats.preemptions != 0) text += ", " + std::to_string(stats.preemptions) + " preempted";
  if (stats.drafted != 0)
    text += ", drafts " + std::to_string(stats.accepted) + " of " + std::to_string(stats.drafted) +
            " accepted";
  return text;
}

StatusLine::StatusLine(bool wanted) {
  const char* terminal = std::getenv("TERM");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  wanted_ = wanted && !is_dumb && ::isatty(STDERR_FILENO) != 0;
}

void StatusLine::write(const std::string& text) {
  const double time = now();
  if (!wanted_ || time - last_ < kInterval) return;
  last_ = time;
  visible_ = true;
  std::fflush(stdout);
  std::fprintf(stderr, "\r\x1b[K\x1b[2m%s\x1b[0m", text.c_str());
  std::fflush(stderr);
}

void StatusLine::clear() {
  if (!std::exchange(visible_, false)) return;
  std::fprintf(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

void StatusLine::show_loading(size_t done, size_t all) {
  write("weights " + bar(static_cast<double>(done) / static_cast<double>(all), kBarWidth));
  if (done == all) clear();
}

void StatusLine::show(const Scheduler& scheduler, const Kv& kv) {
  if (!wanted_) return;
  const Progress progress = scheduler.progress();
  if (progress.prompt_done < progress.prompt_tokens) {
    write(
        "prompt " +
        bar(static_cast<double>(progress.prompt_done) / static_cast<double>(progress.prompt_tokens),
            kBarWidth) +
        " " + std::to_string(progress.prompt_done) + " of " +
        std::to_string(progress.prompt_tokens) + " tokens");
  } else {
    write(std::to_string(progress.running) + " running, " + std::to_string(progress.waiting) +
          " waiting, " + summary(scheduler, kv));
  }
}

}  // namespace lm
