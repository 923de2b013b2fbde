// quire/metrics.h
#include <quire/metrics.h>

#include <cinttypes>

#include "core/c_api/handles.h"
#include "core/metrics/labels.h"
#include "core/metrics/write_metrics.h"

namespace c_api = quire::c_api;
using quire::Status;

namespace {

constexpr uint64_t kMaxSources = 4096;
constexpr uint64_t kMaxLabels = 4096;  // bytes

Status read_source(const quire_metrics_source& from, uint64_t i, quire::MetricsSource* to) {
  const auto named = [i](const char* field) { return "sources[" + std::to_string(i) + "]." + field; };
  if (from.reserved0 != nullptr) return quire::invalid("sources[%" PRIu64 "].reserved0 must be NULL", i);
  if (from.cache != nullptr) {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(from.cache, named("cache").c_str()));
    to->cache = from.cache->object;
    to->kinds = from.cache->event_kinds;
  }
  if (from.tiers != nullptr) {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(from.tiers, named("tiers").c_str()));
    to->tiers = from.tiers->object;
  }
  if (from.memory != nullptr) {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(from.memory, named("memory").c_str()));
    to->memory = from.memory->object;
  }
  QUIRE_RETURN_IF_ERROR(c_api::check_text(from.labels, named("labels").c_str(), kMaxLabels));
  auto labels = quire::read_labels(c_api::text_of(from.labels));
  if (!labels.ok()) return quire::invalid("sources[%" PRIu64 "].%s", i, labels.status().message().c_str());
  to->labels = std::move(*labels);
  return {};
}

}  // namespace

quire_code quire_metrics_write(const quire_metrics_source* sources, uint64_t num_sources, quire_metrics_format format, char* text,
                               uint64_t capacity, uint64_t* count, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_array(sources, num_sources, "sources"));
    if (num_sources > kMaxSources) return quire::invalid("num_sources is %" PRIu64 ", at most %" PRIu64, num_sources, kMaxSources);
    if (format != QUIRE_METRICS_OPENMETRICS && format != QUIRE_METRICS_PROMETHEUS) return quire::invalid("format is %d", format);
    QUIRE_RETURN_IF_ERROR(c_api::check_two_call(text, capacity, count));
    std::vector<quire::MetricsSource> own(num_sources);
    for (uint64_t i = 0; i < num_sources; ++i) QUIRE_RETURN_IF_ERROR(read_source(sources[i], i, &own[i]));
    auto written = quire::write_metrics(own, format);
    if (!written.ok()) return written.take_status();
    const std::string& all = *written;
    return c_api::write_two_call(std::span<const char>(all.data(), all.size()), text, capacity, count);
  });
}
