// The planner's bounds, which callers size plans by, hold for steps whose rows cost about a share each, whatever the number of threads.
#include "drivers/common/planner.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire::conformance {
namespace {

TEST(Planner, BoundsHoldForRowsThatCostAboutAShare) {
  for (const uint32_t workers : {1u, 2u, 3u, 4u, 5u, 8u, 64u, 132u}) {
    for (const uint32_t heads : {1u, 4u, 64u}) {
      for (const uint32_t group : {1u, 4u}) {
        for (const int32_t queries : {1, 3, 8}) {
          for (uint32_t percent = 50; percent <= 140; percent += 5) {
            const uint32_t rows = 1 + 4 * workers * percent / 100 / heads;
            std::vector<int32_t> indptr(rows + 1);
            for (uint32_t r = 0; r <= rows; ++r) indptr[r] = static_cast<int32_t>(r) * queries;
            const std::vector<int32_t> lengths(rows, 321);
            for (const uint32_t window : {0u, 130u, 194u, 256u, 258u, 300u}) {
              drivers::PlanShape s{indptr.data(), lengths.data(), rows,    QUIRE_ATTENTION_CAUSAL,   window, 0, 0,
                                   heads * group, heads,          workers, heads > 1 && queries == 1};
              const drivers::PlanBounds b = drivers::plan_bounds(rows, static_cast<uint64_t>(indptr[rows]), heads * group, workers);
              std::vector<drivers::PlanRecord> records(b.records);
              std::vector<drivers::PlanMerge> merges(b.merges);
              drivers::Planner planner(s, b.partial_rows);
              const drivers::Planner::Batch n = planner.next(records.data(), b.records, merges.data(), b.merges);
              ASSERT_TRUE(planner.done()) << workers << " workers, " << heads << " KV heads, groups of " << group << ", " << rows
                                          << " rows of " << queries << ", window " << window;
              ASSERT_LE(n.partial_rows, b.partial_rows);
              ASSERT_GE(n.records, rows * heads / (s.sweep ? heads : 1));
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire::conformance
