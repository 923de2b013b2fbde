#include "core/metrics/write_metrics.h"

#include <cinttypes>
#include <set>
#include <tuple>

#include "core/metrics/exposition.h"

namespace quire {

Result<std::string> write_metrics(std::span<const MetricsSource> sources, quire_metrics_format format) {
  std::set<std::tuple<std::string_view, std::string_view, uint32_t>> seen;  // labels, kind, shard
  for (size_t i = 0; i < sources.size(); ++i) {
    const MetricsSource& s = sources[i];
    const auto add = [&](const char* kind, uint32_t shard) -> Status {
      if (seen.emplace(s.labels, kind, shard).second) return {};
      return invalid("sources[%zu].labels: another %s has them, too", i, kind);
    };
    if (s.cache != nullptr) QUIRE_RETURN_IF_ERROR(add("cache", 0));
    if (s.tiers != nullptr) QUIRE_RETURN_IF_ERROR(add("set of tiers", 0));
    if (s.memory != nullptr) QUIRE_RETURN_IF_ERROR(add("memory of this shard", s.memory->shard()));
  }
  std::string text;
  Exposition out(format, &text);
  write_cache_metrics(sources, &out);
  write_tier_metrics(sources, &out);
  write_device_metrics(sources, &out);
  out.end();
  return text;
}

}  // namespace quire
