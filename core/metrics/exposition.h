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
  // Element i of counts: spans of less than 2^i units; those of elements first to last are bounds
  // of buckets. sum_ns of all.
  struct Buckets {
    size_t first, last;
    double units_per_second;
  };
  // As base/latency.h counts: 8 microseconds to 67 seconds.
  static constexpr Buckets kLatency = {3, 26, 1e6};
  // As pool/residency.h: 1 millisecond to 70 minutes.
  static constexpr Buckets kResidency = {0, 22, 1e3};
  void histogram(std::string_view labels, std::span<const uint64_t> counts, uint64_t sum_ns,  //
                 const Buckets& buckets = kLatency);
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
