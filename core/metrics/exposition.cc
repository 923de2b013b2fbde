#include "core/metrics/exposition.h"

#include <array>
#include <charconv>

#include "core/base/latency.h"

namespace quire {
namespace {

static_assert(Exposition::kLatency.last + 1 < kLatencies);

void add_number(double value, std::string* out) {
  std::array<char, 32> text{};
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const bool is_whole = value >= 0 && value < kExact && value == static_cast<double>(static_cast<uint64_t>(value));
  const auto end = is_whole ? std::to_chars(text.data(), text.data() + text.size(), static_cast<uint64_t>(value))
                            : std::to_chars(text.data(), text.data() + text.size(), value);
  out->append(text.data(), end.ptr);
}

const char* type_name(MetricType type, bool is_open) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
    case MetricType::kInfo:
      break;
  }
  return is_open ? "info" : "gauge";
}

const char* suffix_of(MetricType type) {
  if (type == MetricType::kCounter) return "_total";
  return type == MetricType::kInfo ? "_info" : "";
}

}  // namespace

void Exposition::head() {
  if (has_head_) return;
  has_head_ = true;
  // In OpenMetrics a family has no suffix, in the other form it is called as its samples are.
  const std::string name = std::string("quire_") + family_.name + (is_open_ ? "" : suffix_of(family_.type));
  *out_ += "# HELP " + name + " " + family_.help + "\n";
  *out_ += "# TYPE " + name + " " + type_name(family_.type, is_open_) + "\n";
  if (is_open_ && family_.unit[0] != '\0') *out_ += "# UNIT " + name + " " + family_.unit + "\n";
}

void Exposition::line(std::string_view suffix, std::string_view labels, std::string_view more, double value) {
  *out_ += "quire_";
  out_->append(family_.name).append(suffix);
  if (!labels.empty() || !more.empty()) {
    *out_ += '{';
    out_->append(labels);
    if (!labels.empty() && !more.empty()) *out_ += ',';
    out_->append(more);
    *out_ += '}';
  }
  *out_ += ' ';
  add_number(value, out_);
  *out_ += '\n';
}

void Exposition::sample(std::string_view labels, double value) {
  head();
  line(suffix_of(family_.type), labels, "", value);
}

void Exposition::histogram(std::string_view labels, std::span<const uint64_t> counts, uint64_t sum_ns, const Buckets& buckets) {
  head();
  uint64_t count = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    count += counts[i];
    if (i < buckets.first || i > buckets.last) continue;
    std::string bucket = "le=\"";
    add_number(static_cast<double>(uint64_t{1} << i) / buckets.units_per_second, &bucket);
    bucket += '"';
    line("_bucket", labels, bucket, static_cast<double>(count));
  }
  line("_bucket", labels, "le=\"+Inf\"", static_cast<double>(count));
  line("_sum", labels, "", static_cast<double>(sum_ns) / 1e9);
  line("_count", labels, "", static_cast<double>(count));
}

void Exposition::end() {
  if (is_open_) *out_ += "# EOF\n";
}

}  // namespace quire
