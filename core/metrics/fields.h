// Tables of metrics: one row for each number of a struct of statistics.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/metrics/exposition.h"

namespace quire {

template <typename Stats>
struct MetricField {
  MetricFamily family;  // rows of one family stand together and have the same
  const char* label;    // name="value" that tells the rows of a family apart; or empty
  double (*value)(const Stats& stats);
};

// One object's statistics and labels.
template <typename Stats>
struct Counted {
  std::string labels;
  Stats stats{};
};

template <typename Stats>
void write_fields(std::span<const MetricField<Stats>> fields, std::span<const Counted<Stats>> all, Exposition* out) {
  for (size_t i = 0; i < fields.size();) {
    const std::string_view name = fields[i].family.name;
    size_t end = i;
    while (end < fields.size() && fields[end].family.name == name) ++end;
    out->begin(fields[i].family);
    for (const Counted<Stats>& object : all) {
      for (size_t f = i; f < end; ++f) {
        std::string labels = object.labels;
        if (!labels.empty() && fields[f].label[0] != '\0') labels += ',';
        out->sample(labels + fields[f].label, fields[f].value(object.stats));
      }
    }
    i = end;
  }
}

}  // namespace quire
