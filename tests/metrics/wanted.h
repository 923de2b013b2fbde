// The samples that a text must have, from statistics. Written apart from what writes them.
#pragma once

#include <quire/tier.h>

#include <map>
#include <string>

namespace quire::test {

class Wanted {
 public:
  void cache(const quire_cache_stats& cache);
  void tiers(const quire_tiers_stats& tiers);
  void tier(uint32_t index, const quire_tier_stats& tier);
  void connector(const std::string& label, const quire_connector_stats& tickets, const quire_connector_health& health);

  std::map<std::string, double> samples;

 private:
  void counter(const std::string& name, uint64_t value, const std::string& labels = "") {
    samples["quire_" + name + "_total" + (labels.empty() ? "" : "{" + labels + "}")] = static_cast<double>(value);
  }
  void gauge(const std::string& name, double value, const std::string& labels = "") {
    samples["quire_" + name + (labels.empty() ? "" : "{" + labels + "}")] = value;
  }
};

}  // namespace quire::test
