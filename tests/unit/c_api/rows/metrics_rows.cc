// Rows of quire/metrics.h.
#include <quire/metrics.h>

#include "rows.h"

namespace quire::test {
namespace {

ROW(quire_metrics_write) {
  std::vector<quire_metrics_source> sources(1);
  sources[0].cache = rig.cache.get();
  sources[0].memory = rig.memory.get();
  std::vector<char> chars(1 << 16);
  uint64_t count = 0;
  call.elements({"sources"});
  call.any({"num_sources"}).null_is_legal({"text"}).bad("format", {0, 3}, QUIRE_INVALID_ARGUMENT);
  call(sources.data(), uint64_t{1}, QUIRE_METRICS_OPENMETRICS, chars.data(), uint64_t{1 << 16}, &count);
  EXPECT_GT(count, 1000U);
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "capacity is 10",
               quire_metrics_write(sources.data(), 1, QUIRE_METRICS_OPENMETRICS, chars.data(), 10, &count, err));
  int other = 0;
  sources[0].reserved0 = &other;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "sources[0].reserved0",
               quire_metrics_write(sources.data(), 1, QUIRE_METRICS_OPENMETRICS, nullptr, 0, &count, err));
}

}  // namespace
}  // namespace quire::test
