// The text of metrics: OpenMetrics 1.0, or Prometheus' own form. Families come one after the other,
// each with all its samples.
#pragma once

#include <quire/metrics.h>

#include <span>
#include <string>
#include <string_view>

namespace quire {

enum class MetricType : uint8_t { kCounter, kGauge, kHistogram, kInfo };
inline constexpr auto kCounter = MetricType::kCounter;
inline constexpr auto kGauge = MetricType::kGauge;

struct MetricFamily {
  const char* name;  // without quire_ and without what the type appends; ends with the unit, if any
  MetricType type;
  const char* unit;  // "seconds", "bytes" or empty
  const char* help;  // one line without escapes
};

class Exposition {
 public:
  Exposition(quire_metrics_format format, std::string* out) : is_open_(format == QUIRE_METRICS_OPENMETRICS), out_(out) {}

  // What follows belongs to this family. One without samples does not appear.
  void begin(const MetricFamily& family) { family_ = family, has_head_ = false; }
  // labels: as add_label writes them. An info's value is 1.
  void sample(std::string_view labels, double value);
  // latency: as base/latency.h counts; sum_ns of all.
  void histogram(std::string_view labels, std::span<const uint64_t> latency, uint64_t sum_ns);
  void end();

 private:
  void head();
  void line(std::string_view suffix, std::string_view labels, std::string_view more, double value);

  const bool is_open_;
  std::string* out_;
  MetricFamily family_{};
  bool has_head_ = false;
};

}  // namespace quire
