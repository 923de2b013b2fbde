// Residency: what a pool counts equals what is seen of it from outside after every call; times are the test's own.
#include "core/pool/residency.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <random>
#include <vector>

#include "core/pool/pool.h"

namespace quire {
namespace {

constexpr int64_t kMs = 1'000'000;

Pool make(uint64_t pages, std::vector<PoolGroup> groups) {
  auto pool = Pool::create(pages, groups);
  EXPECT_TRUE(pool.ok()) << pool.status().message();
  return std::move(pool.value());
}

uint64_t sum(const Residency::Spans& spans) {
  uint64_t n = 0;
  for (const uint64_t count : spans.counts) n += count;
  return n;
}

// Where each page is, looked at after every call.
class Watch {
 public:
  explicit Watch(Pool* pool, size_t num_groups) : pool_(*pool), pages_(pool->num_pages()), want_(num_groups) {}

  void look(int64_t now) {
    for (uint32_t p = 1; p < pages_.size(); ++p) {
      Seen& seen = pages_[p];
      const Where where = pool_.group_of(PageId(p)).value == kNone ? Where::kFree
                          : pool_.evictable(PageId(p))             ? Where::kCached
                                                                   : Where::kUsed;
      if (where == seen.where) continue;
      if (seen.where == Where::kFree) {
        seen.taken = now;
        seen.group = pool_.group_of(PageId(p)).value;
      }
      if (seen.where == Where::kCached && where == Where::kUsed) add(now - seen.idle, &want_[seen.group].reuse_gap);
      if (seen.where == Where::kCached && where == Where::kFree) {
        add(now - seen.taken, &want_[seen.group].lifetime);
        add(now - seen.idle, &want_[seen.group].idle);
      }
      if (where == Where::kCached) seen.idle = now;
      seen.where = where;
    }
    for (uint32_t g = 0; g < want_.size(); ++g) {
      uint64_t used = 0, cached = 0;
      for (const Seen& seen : pages_) {
        used += seen.where == Where::kUsed && seen.group == g ? 1 : 0;
        cached += seen.where == Where::kCached && seen.group == g ? 1 : 0;
      }
      ASSERT_EQ(pool_.pages_of(GroupId(g)).used, used) << "group " << g;
      ASSERT_EQ(pool_.pages_of(GroupId(g)).cached, cached) << "group " << g;
    }
  }
  const std::vector<Residency::Counts>& want() const { return want_; }

 private:
  enum class Where : uint8_t { kFree, kUsed, kCached };
  struct Seen {
    Where where = Where::kFree;
    uint32_t group = 0;
    int64_t taken = 0, idle = 0;
  };
  static void add(int64_t span, Residency::Spans* spans) {
    size_t i = 0;
    while (i < 31 && (int64_t{1} << i) * kMs <= span) ++i;
    ++spans->counts[i];
    spans->sum_ns += static_cast<uint64_t>(span);
  }

  const Pool& pool_;
  std::vector<Seen> pages_;
  std::vector<Residency::Counts> want_;  // [group]
};

void expect_equal(const Residency::Spans& got, const Residency::Spans& want, const char* what) {
  EXPECT_EQ(got.counts, want.counts) << what;
  EXPECT_EQ(got.sum_ns, want.sum_ns) << what;
}

// Blocks are taken, published, released, used again and evicted at random, at times that go on by up to a minute.
void run(const std::vector<PoolGroup>& groups, uint64_t seed) {
  SCOPED_TRACE("QUIRE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  Pool pool = make(24, groups);
  ASSERT_EQ(pool.residency.sample(), 1U);
  Watch watch(&pool, groups.size());
  struct Held {
    GroupId group;
    int32_t id;
  };
  std::vector<Held> held;
  uint32_t node = 0;
  int64_t now = 0;
  for (int step = 0; step < 4000; ++step) {
    now += static_cast<int64_t>(random() % (60'000 * kMs)) >> (random() % 24);
    pool.residency.set_time(now);
    switch (random() % 5) {
      case 0:
      case 1: {
        const GroupId group(static_cast<uint32_t>(random() % groups.size()));
        std::vector<int32_t> ids(1 + random() % groups[group.value].parts_per_page);
        const Taken taken = pool.take_page(group, 1 + random() % 3, 1, ids);
        for (uint32_t i = 0; i < taken.count; ++i) {
          held.push_back({group, ids[i]});
          if (random() % 4 != 0) pool.publish(pool.index_of(group, PartId(ids[i])), NodeId(node++));
        }
        break;
      }
      case 2:
        if (!held.empty()) {
          const size_t i = random() % held.size();
          pool.unref(pool.index_of(held[i].group, PartId(held[i].id)), 0);
          held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
        }
        break;
      case 3: {  // a cached block is used again
        const PageId page = pool.oldest_evictable();
        std::vector<PartIndex> heads(8, PartIndex(kNone));
        if (page.value == kNone || pool.cached_heads(page, heads) == 0) break;
        pool.ref(heads[0]);
        held.push_back({pool.group_of(page), pool.id_of(pool.group_of(page), heads[0]).value});
        break;
      }
      default: {
        const PageId page = pool.oldest_evictable();
        std::vector<PartIndex> heads(8, PartIndex(kNone));
        if (page.value == kNone || pool.free_pages() > 3) break;
        const uint32_t n = pool.cached_heads(page, heads);
        for (uint32_t i = 0; i < n; ++i) pool.unpublish(heads[i]);
      }
    }
    watch.look(now);
  }
  const Residency::Counts all = pool.residency.counts();
  EXPECT_GT(sum(all.lifetime), 100U);
  EXPECT_GT(sum(all.reuse_gap), 100U);
  uint64_t lifetimes = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    SCOPED_TRACE(g);
    const Residency::Counts& got = pool.residency.counts(g);
    EXPECT_GT(sum(got.lifetime), 0U);
    expect_equal(got.lifetime, watch.want()[g].lifetime, "lifetime");
    expect_equal(got.idle, watch.want()[g].idle, "idle");
    expect_equal(got.reuse_gap, watch.want()[g].reuse_gap, "reuse gap");
    lifetimes += sum(got.lifetime);
  }
  EXPECT_EQ(sum(all.lifetime), lifetimes);
}

TEST(Residency, IsWhatIsSeenFromOutside) {
  const char* given = std::getenv("QUIRE_SEED");
  for (uint64_t i = 0; i < 8; ++i) {
    const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : i + 1;
    run({{1, 1}}, seed);
    run({{1, 1}, {1, 1}, {1, 1}}, seed);  // every page is a block
    run({{4, 1}, {1, 1}}, seed);
    run({{8, 1}, {2, 1}, {3, 1}}, seed);
  }
}

TEST(Residency, PagesThatAreRecycledAreEvictedAndTaken) {
  Pool pool = make(4, {{1, 1}, {1, 1}});
  std::vector<int32_t> ids(3);
  for (int32_t& id : ids) {
    pool.take_page(GroupId(0), 1, 1, {&id, 1});
    pool.publish(pool.index_of(GroupId(0), PartId(id)), NodeId(static_cast<uint32_t>(id)));
  }
  pool.residency.set_time(5 * kMs);
  pool.unref_blocks(GroupId(0), ids, 0);
  pool.residency.set_time(12 * kMs);
  const auto evict = [](NodeId, GroupId) { return true; };
  ASSERT_EQ(pool.recycle(
                GroupId(1), 1, ids, evict, [](PageId) {}, [](NodeId, NodeId) {}),
            3U);
  EXPECT_EQ(pool.pages_of(GroupId(0)).cached, 0U);
  EXPECT_EQ(pool.pages_of(GroupId(0)).used, 0U);
  EXPECT_EQ(pool.pages_of(GroupId(1)).used, 3U);
  const Residency::Counts& got = pool.residency.counts(0);
  EXPECT_EQ(got.lifetime.counts[4], 3U);  // 12 ms: less than 16
  EXPECT_EQ(got.lifetime.sum_ns, 36 * kMs);
  EXPECT_EQ(got.idle.counts[3], 3U);  // 7 ms: less than 8
  EXPECT_EQ(got.idle.sum_ns, 21 * kMs);
  // They are taken now, by the other group.
  pool.publish(pool.index_of(GroupId(1), PartId(ids[0])), NodeId(9));
  pool.unref_blocks(GroupId(1), {ids.data(), 1}, 0);
  EXPECT_EQ(pool.pages_of(GroupId(1)).cached, 1U);
  EXPECT_EQ(pool.pages_of(GroupId(1)).used, 2U);
  pool.residency.set_time(13 * kMs);
  pool.unpublish(pool.index_of(GroupId(1), PartId(ids[0])));
  EXPECT_EQ(got.lifetime.sum_ns, 36 * kMs);
  EXPECT_EQ(pool.residency.counts(1).lifetime.sum_ns, 1 * kMs);
  EXPECT_EQ(pool.residency.counts().lifetime.sum_ns, 37 * kMs);
}

TEST(Residency, WhatAResetForgotIsNotCounted) {
  Pool pool = make(4, {{1, 1}});
  int32_t id = 0;
  pool.take_page(GroupId(0), 1, 1, {&id, 1});
  const PartIndex head = pool.index_of(GroupId(0), PartId(id));
  pool.publish(head, NodeId(1));
  pool.unref(head, 0);
  pool.residency.set_time(kMs);
  EXPECT_EQ(pool.pages_of(GroupId(0)).cached, 1U);
  pool.retire_all();
  EXPECT_EQ(pool.pages_of(GroupId(0)).cached, 0U);  // it is free to others
  pool.swap_stale();
  pool.unpublish(head);
  pool.swap_stale();
  EXPECT_EQ(pool.pages_of(GroupId(0)).cached, 0U);
  EXPECT_EQ(pool.pages_of(GroupId(0)).used, 0U);
  EXPECT_EQ(sum(pool.residency.counts().lifetime), 0U);
  EXPECT_EQ(sum(pool.residency.counts().idle), 0U);
}

TEST(Residency, OfLargePoolsOnePageIn64IsCounted) {
  for (const auto& [pages, sample] : {std::pair{2000U, 1U}, {5000U, 4U}, {70'000U, 64U}, {300'000U, 64U}}) {
    Pool pool = make(pages, {{1, 1}});
    ASSERT_EQ(pool.residency.sample(), sample);
    for (uint32_t i = 1; i < pages; ++i) {
      int32_t id = 0;
      ASSERT_EQ(pool.take_page(GroupId(0), 1, 1, {&id, 1}).count, 1U);
      pool.publish(pool.index_of(GroupId(0), PartId(id)), NodeId(i));
      pool.unref(pool.index_of(GroupId(0), PartId(id)), 0);
    }
    while (pool.oldest_evictable().value != kNone) pool.unpublish(PartIndex(pool.oldest_evictable().value));
    EXPECT_EQ(sum(pool.residency.counts().lifetime), pages / sample - (sample == 1 ? 1 : 0));
  }
}

TEST(Residency, AClockThatGoesBackCountsNothingNegative) {
  Pool pool = make(4, {{1, 1}});
  pool.residency.set_time(50 * kMs);
  int32_t id = 0;
  pool.take_page(GroupId(0), 1, 1, {&id, 1});
  const PartIndex head = pool.index_of(GroupId(0), PartId(id));
  pool.publish(head, NodeId(1));
  pool.unref(head, 0);
  pool.residency.set_time(kMs);
  pool.unpublish(head);
  EXPECT_EQ(pool.residency.counts().lifetime.counts[0], 1U);
  EXPECT_EQ(pool.residency.counts().lifetime.sum_ns, 0U);
}

}  // namespace
}  // namespace quire
