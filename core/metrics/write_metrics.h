// The metrics of several objects as one text: quire/metrics.h.
#pragma once

#include <quire/metrics.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/memory/shard_memory.h"
#include "core/step/kv_cache.h"
#include "core/tier/tier_set.h"

namespace quire {

// The objects may be null.
struct MetricsSource {
  std::shared_ptr<Cache> cache;
  std::vector<std::string> kinds;  // of the cache's groups: see event_kinds()
  std::shared_ptr<TierSet> tiers;
  std::shared_ptr<Memory> memory;
  std::string labels;  // as read_labels returns them
};

// Any thread. Errors: INVALID_ARGUMENT (two objects of a kind with equal labels).
Result<std::string> write_metrics(std::span<const MetricsSource> sources, quire_metrics_format format);

// Its parts, by kind of object.
class Exposition;
void write_cache_metrics(std::span<const MetricsSource> sources, Exposition* out);
void write_tier_metrics(std::span<const MetricsSource> sources, Exposition* out);
void write_device_metrics(std::span<const MetricsSource> sources, Exposition* out);

}  // namespace quire
