// Of memories, and of the devices that they are on.
#include <map>
#include <set>

#include "core/metrics/fields.h"
#include "core/metrics/labels.h"
#include "core/metrics/write_metrics.h"

namespace quire {
namespace {

struct Shard {
  uint64_t bytes = 0;
  Memory::Counts counts;
};

constexpr MetricField<Shard> kOfShard[] = {
    {{"memory_bytes", kGauge, "bytes", "Bytes of the shard's regions."}, "", [](const Shard& s) { return double(s.bytes); }},
    {{"prepared_steps", kCounter, "", "Steps whose zeroes and copies were queued."},
     "",
     [](const Shard& s) { return double(s.counts.prepared_steps); }},
    {{"memory_zeroed_bytes", kCounter, "bytes", "Bytes that steps zeroed."},
     "",
     [](const Shard& s) { return double(s.counts.zeroed_bytes); }},
    {{"memory_copied_bytes", kCounter, "bytes", "Bytes that steps copied."},
     "",
     [](const Shard& s) { return double(s.counts.copied_bytes); }},
};

std::string device_labels(const MetricsSource& source) {
  std::string labels = source.labels;
  const Device& device = source.memory->device();
  add_label("driver", device.driver().name(), &labels);
  add_label("device", std::to_string(device.info().device_id), &labels);
  return labels;
}

}  // namespace

void write_device_metrics(std::span<const MetricsSource> sources, Exposition* out) {
  std::vector<Counted<Shard>> shards;
  std::map<std::string, std::set<const Device*>> devices;  // by labels: each may have been opened several times
  for (const MetricsSource& source : sources) {
    if (source.memory == nullptr) continue;
    std::string labels = device_labels(source);
    devices[labels].insert(&source.memory->device());
    add_label("shard", std::to_string(source.memory->shard()), &labels);
    shards.push_back({labels, {source.memory->num_bytes(), source.memory->counts()}});
  }
  out->begin({"device", MetricType::kInfo, "", "A device and its driver."});
  for (const auto& [labels, opened] : devices) {
    std::string more = labels;
    add_label("device_name", (*opened.begin())->info().name, &more);
    out->sample(more, 1);
  }
  write_fields<Shard>(kOfShard, shards, out);
  out->begin({"ops", kCounter, "", "Ops of the driver that the engine called, by name and by whether they were queued."});
  for (const auto& [labels, opened] : devices) {
    for (size_t i = 0; i < kOpNames.size(); ++i) {
      OpCounts::Count sum;
      for (const Device* device : opened) {
        const OpCounts::Count count = device->op_counts().of(static_cast<CountedOp>(i));
        sum.queued += count.queued, sum.failed += count.failed;
      }
      std::string more = labels;
      add_label("op", kOpNames[i], &more);
      std::string failed = more;
      add_label("result", "queued", &more);
      add_label("result", "failed", &failed);
      out->sample(more, double(sum.queued));
      out->sample(failed, double(sum.failed));
    }
  }
}

}  // namespace quire
