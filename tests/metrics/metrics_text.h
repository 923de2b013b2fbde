// The text of metrics, as a scraper reads it. Written apart from what writes it.
#pragma once

#include <gtest/gtest.h>
#include <quire/metrics.h>

#include <map>
#include <string>
#include <vector>

namespace quire::test {

struct Family {
  std::string type, unit, help;
  std::map<std::string, double> samples;  // by what stands before the value
};

// All that quire_metrics_write gives.
std::string write(const std::vector<quire_metrics_source>& sources, quire_metrics_format format);
// By name. Fails where a family comes in two pieces, a sample has no family or stands twice, or a
// line is none.
std::map<std::string, Family> read(const std::string& text, quire_metrics_format format);

}  // namespace quire::test
