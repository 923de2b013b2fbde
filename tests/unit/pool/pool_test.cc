// The pool against a naive model: random takes, references, publications and releases; verify() after each.
#include "core/pool/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

namespace quire {
namespace {

Pool make(uint64_t pages, std::vector<PoolGroup> groups, uint32_t protected_part = 0) {
  auto pool = Pool::create(pages, groups, protected_part);
  EXPECT_TRUE(pool.ok()) << pool.status().message();
  return std::move(pool.value());
}

PartIndex take_one(Pool& pool, uint32_t group, uint64_t owner) {
  int32_t id = 0;
  const Taken t = pool.take_page(GroupId(group), owner, 0, {&id, 1});
  return t.count == 0 ? PartIndex(kNone) : pool.index_of(GroupId(group), PartId(id));
}

// Another part of the page of `first`, which group 0 and owner 1 took.
PartIndex take_beside(Pool& pool, PartIndex first) {
  int32_t id = 0;
  EXPECT_EQ(pool.take_claimed(pool.page_of(first), GroupId(0), 1, 0, {&id, 1}).count, 1u);
  return pool.index_of(GroupId(0), PartId(id));
}

TEST(Pool, NullPageIsNeverGiven) {
  Pool pool = make(4, {{1, 1}});
  for (int i = 0; i < 3; ++i) EXPECT_NE(pool.page_of(take_one(pool, 0, 1)).value, 0u);
  EXPECT_EQ(take_one(pool, 0, 1).value, kNone);
  EXPECT_EQ(pool.available_pages(), 0u);
}

TEST(Pool, EvictionOrderIsTheOrderOfLastRelease) {
  Pool pool = make(6, {{1, 1}});
  std::vector<PartIndex> blocks;
  for (uint32_t i = 0; i < 5; ++i) {
    blocks.push_back(take_one(pool, 0, 1));
    pool.publish(blocks[i], NodeId(i));
  }
  for (int i : {3, 0, 4, 1, 2}) pool.unref(blocks[static_cast<size_t>(i)], 0);
  pool.ref(blocks[0]);  // used again: youngest now
  pool.unref(blocks[0], 0);
  for (int i : {3, 4, 1, 2, 0}) {
    PageId oldest = pool.oldest_evictable();
    EXPECT_EQ(oldest, pool.page_of(blocks[static_cast<size_t>(i)]));
    pool.unpublish(blocks[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(pool.free_pages(), 5u);
}

TEST(Pool, ColdPagesGoFirst) {
  Pool pool = make(6, {{1, 1}});
  std::vector<PartIndex> blocks;
  for (uint32_t i = 0; i < 5; ++i) {
    blocks.push_back(take_one(pool, 0, 1));
    pool.publish(blocks[i], NodeId(i));
  }
  for (size_t i : {0u, 1u}) pool.unref(blocks[i], 0);
  for (size_t i : {2u, 3u}) pool.unref(blocks[i], 0, EvictionClass::kCold);
  pool.unref(blocks[4], 0);
  pool.ref(blocks[2]);  // used again: no longer cold
  pool.unref(blocks[2], 0);
  for (size_t i : {3u, 0u, 1u, 4u, 2u}) {
    EXPECT_EQ(pool.oldest_evictable(), pool.page_of(blocks[i])) << i;
    pool.unpublish(blocks[i]);
  }
}

TEST(Pool, APageWithAWarmPartIsWarm) {
  Pool pool = make(4, {{2, 1}});
  const PartIndex a = take_one(pool, 0, 1);
  const PartIndex b = take_beside(pool, a);
  const PartIndex c = take_one(pool, 0, 2);
  for (PartIndex p : {a, b, c}) pool.publish(p, NodeId(p.value));
  pool.unref(a, 0);
  pool.unref(b, 0, EvictionClass::kCold);
  EXPECT_EQ(pool.oldest_evictable(), pool.page_of(a));
  pool.unref(c, 0, EvictionClass::kCold);
  EXPECT_EQ(pool.oldest_evictable(), pool.page_of(c)) << "all of it is cold";
}

TEST(Pool, APageIsAsYoungAsItsYoungestPart) {
  Pool pool = make(4, {{2, 1}});
  PartIndex a = take_one(pool, 0, 1);
  const PartIndex b = take_beside(pool, a);
  PartIndex c = take_one(pool, 0, 2);
  for (PartIndex p : {a, b, c}) pool.publish(p, NodeId(p.value));
  pool.unref(a, 0);
  pool.unref(c, 0);
  EXPECT_EQ(pool.oldest_evictable(), pool.page_of(c)) << "the first page still has a referenced part";
  pool.unref(b, 0);
  EXPECT_EQ(pool.oldest_evictable(), pool.page_of(c));
  EXPECT_EQ(pool.available_pages(), 3u);
}

TEST(Pool, FencedBlocksAreNeitherFreeNorEvictable) {
  Pool pool = make(3, {{1, 1}});
  PartIndex a = take_one(pool, 0, 1);
  PartIndex b = take_one(pool, 0, 1);
  pool.publish(b, NodeId(9));
  pool.unref(a, 5);
  pool.unref(b, 6);
  EXPECT_EQ(pool.available_pages(), 0u);
  pool.pass_fences(5);
  EXPECT_EQ(pool.free_pages(), 1u);
  pool.ref(b);
  pool.unref(b, 8);  // used again meanwhile: the later fence counts
  pool.pass_fences(6);
  EXPECT_EQ(pool.available_pages(), 1u);
  pool.pass_fences(8);
  EXPECT_EQ(pool.available_pages(), 2u);
}

TEST(Pool, ForeignBytesAreReported) {
  Pool pool = make(2, {{1, 1}, {1, 1}});
  int32_t id = 0;
  const std::span<int32_t> ids(&id, 1);
  const auto give_back = [&] { pool.unref(pool.index_of(GroupId(0), PartId(id)), 0); };
  EXPECT_TRUE(pool.take_page(GroupId(0), 1, 7, ids).foreign_bytes) << "never written";
  give_back();
  EXPECT_FALSE(pool.take_page(GroupId(0), 1, 7, ids).foreign_bytes);
  give_back();
  EXPECT_TRUE(pool.take_page(GroupId(0), 1, 8, ids).foreign_bytes) << "another root";
  give_back();
  EXPECT_TRUE(pool.take_page(GroupId(1), 1, 8, ids).foreign_bytes) << "another group";
}

TEST(Pool, ACallTakesWhatOnePageHas) {
  Pool pool = make(4, {{3, 1}, {1, 1}});
  std::vector<int32_t> ids(8);
  const Taken page = pool.take_page(GroupId(0), 1, 7, std::span(ids).first(2));
  EXPECT_EQ(page.count, 2u);
  EXPECT_TRUE(page.page_is_new && page.foreign_bytes);
  const PageId first = pool.page_of(pool.index_of(GroupId(0), PartId(ids[0])));
  EXPECT_EQ(pool.take_claimed(first, GroupId(0), 2, 7, std::span(ids).subspan(2)).count, 0u) << "somebody else's claim";
  const Taken rest = pool.take_claimed(first, GroupId(0), 1, 8, std::span(ids).subspan(2));
  EXPECT_EQ(rest.count, 1u) << "the page has three parts";
  EXPECT_TRUE(rest.foreign_bytes && !rest.page_is_new) << "of another root";
  EXPECT_EQ(pool.take_holes(GroupId(0), 7, std::span(ids).subspan(3)).count, 0u);
  pool.unref(pool.index_of(GroupId(0), PartId(ids[1])), 0);
  const Taken hole = pool.take_holes(GroupId(0), 7, std::span(ids).subspan(3));
  EXPECT_EQ(hole.count, 1u);
  EXPECT_TRUE(hole.foreign_bytes) << "two roots have written the page since";
  EXPECT_EQ(ids[3], ids[1]);
  EXPECT_EQ(pool.take_page(GroupId(0), 1, 7, std::span(ids).subspan(4)).count, 3u);
  const Status ok = pool.verify(std::vector<uint32_t>(pool.num_part_slots(), 0));
  EXPECT_FALSE(ok.ok()) << "six references are held";
}

TEST(Pool, LinkedPartsLiveAndDieTogether) {
  Pool pool = make(3, {{4, 3}});
  std::vector<int32_t> ids(3);
  ASSERT_EQ(pool.take_page(GroupId(0), 1, 0, ids).count, 3u);
  pool.link(GroupId(0), ids);
  const PartIndex head = pool.index_of(GroupId(0), PartId(ids[0]));
  PartIndex part = head;
  for (const int32_t id : ids) {
    EXPECT_EQ(part, pool.index_of(GroupId(0), PartId(id)));
    EXPECT_EQ(pool.head_of(part), head);
    EXPECT_EQ(pool.refs(part), part == head ? 1u : 0u);
    part = pool.next_in_block(part);
  }
  EXPECT_EQ(part.value, kNone);
  EXPECT_EQ(pool.counts().held_parts, 3u);
  pool.unref(head, 0);
  EXPECT_EQ(pool.counts().held_parts, 0u);
  EXPECT_EQ(pool.free_pages(), 2u);
}

// Random walk; the model is a list of blocks with their references.
class Walk {
 public:
  explicit Walk(uint64_t seed) : rng_(seed) {
    for (uint64_t g = 0, n = 1 + rng_() % 3; g < n; ++g) {
      groups_.push_back({1 + static_cast<uint32_t>(rng_() % 5), 1 + static_cast<uint32_t>(rng_() % 3)});
    }
    pool_ = std::make_unique<Pool>(make(6 + rng_() % 20, groups_, static_cast<uint32_t>(rng_() % 4)));
  }

  void act() {
    uint64_t op = rng_() % 8;
    if (op < 2) return take(static_cast<uint32_t>(rng_() % groups_.size()));
    if (op == 6) {
      pool_->pass_fences(step_++);
      for (Block& b : blocks_) b.fence = 0;
    } else if (op == 7) {
      take_all(GroupId(static_cast<uint32_t>(rng_() % groups_.size())));
    } else if (!blocks_.empty()) {
      change(blocks_[rng_() % blocks_.size()], op);
    }
    std::erase_if(blocks_, [](const Block& b) { return b.refs == 0 && b.fence == 0 && !b.published; });
  }

  void check() const {
    std::vector<uint32_t> refs(pool_->num_part_slots(), 0);
    for (const Block& b : blocks_) refs[b.head.value] = b.refs;
    for (const Block& b : blocks_) ASSERT_EQ(pool_->fenced(b.head), b.fence != 0);
    Status ok = pool_->verify(refs);
    ASSERT_TRUE(ok.ok()) << ok.message();
    PoolCounts c = pool_->counts();
    ASSERT_EQ(c.free_pages + c.evictable_pages + c.used_pages + 1, pool_->num_pages());
  }

 private:
  struct Block {
    PartIndex head;
    uint32_t refs = 1;
    bool published = false;
    uint64_t fence = 0;
  };

  // One block, of parts wherever they are.
  void take(uint32_t g) {
    const GroupId group(g);
    std::vector<int32_t> ids(groups_[g].ids_per_block);
    size_t n = 0;
    while (n < ids.size()) {
      const std::span<int32_t> rest = std::span(ids).subspan(n, 1 + rng_() % (ids.size() - n));
      Taken t = pool_->take_page(group, 1, 0, rest);
      if (t.count == 0) t = pool_->take_holes(group, 0, rest);
      if (t.count == 0) break;
      n += t.count;
    }
    if (n == 0) return;
    pool_->link(group, std::span(ids).first(n));
    blocks_.push_back(Block{pool_->index_of(group, PartId(ids[0]))});
  }

  // References of half of a group's blocks, in any order.
  void take_all(GroupId group) {
    std::vector<int32_t> ids;
    std::shuffle(blocks_.begin(), blocks_.end(), rng_);
    for (Block& b : blocks_) {
      if (rng_() % 4 == 0) ids.push_back(0);
      if (pool_->group_of(pool_->page_of(b.head)) != group || rng_() % 2 == 0) continue;
      ids.push_back(pool_->id_of(group, b.head).value);
      ++b.refs;
    }
    pool_->ref_blocks(group, ids, rng_() % 2 == 0 ? User::kRequest : User::kOther);
  }

  void change(Block& block, uint64_t op) {
    if (op == 2) {
      pool_->ref(block.head, rng_() % 2 == 0 ? User::kRequest : User::kOther);
      ++block.refs;
    } else if (op == 3 && !block.published && block.refs > 0) {
      pool_->publish(block.head, NodeId(block.head.value));
      block.published = true;
    } else if (op == 4 && block.refs > 0) {
      uint64_t fence = rng_() % 2 == 0 ? 0 : step_;
      pool_->unref(block.head, fence);
      if (--block.refs <= 1) block.fence = std::max(block.fence, fence);
    } else if (op == 5 && block.published) {
      pool_->unpublish(block.head);
      block.published = false;
    }
  }

  std::mt19937_64 rng_;
  std::vector<PoolGroup> groups_;
  std::unique_ptr<Pool> pool_;
  std::vector<Block> blocks_;
  uint64_t step_ = 1;
};

// Some blocks are not published, some pages are spared, some blocks have users, some wait for a fence, and the pool has copied one.
TEST(Pool, ReferencesOfManyBlocksLeaveWhatThoseOfEachWouldLeave) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto run = [&](bool together, std::vector<PageId>* order) {
      std::mt19937_64 rng(seed);
      Pool pool = make(40, {{1, 1}, {1, 1}}, static_cast<uint32_t>(rng() % 4));
      std::vector<PartIndex> heads;
      for (uint32_t i = 0; i < 30; ++i) heads.push_back(take_one(pool, i % 7 == 0 ? 1 : 0, 1));
      std::vector<uint32_t> refs(pool.num_part_slots(), 0), spares(40, 0);
      for (const PartIndex head : heads) {
        pool.publish(head, NodeId(head.value));
        if (rng() % 6 == 0) spares[head.value] = pool.spare(pool.page_of(head)) == Spares::kDeclined ? 0 : 1;
      }
      if (rng() % 3 > 0) std::shuffle(heads.begin(), heads.end(), rng);
      for (const PartIndex head : heads) {
        if (rng() % 8 == 0) pool.ref(head);
        if (rng() % 3 == 0) {
          pool.ref(head, User::kRequest);
          pool.unref(head, 0);
        }
        pool.unref(head, rng() % 9 == 0 ? 5 : 0, rng() % 3 == 0 ? EvictionClass::kCold : EvictionClass::kWarm);
      }
      const auto copy_some = [&] {
        for (const PartIndex head : heads) {
          if (pool.refs(head) > 0 || pool.fenced(head) || rng() % 7 > 0) continue;
          pool.ref(head, User::kCopier);
          pool.unref(head, 0, EvictionClass::kCold);
        }
      };
      copy_some();
      std::vector<int32_t> ids;
      for (const PartIndex head : heads) {
        if (rng() % 3 > 0 && pool.group_of(pool.page_of(head)).value == 0) ids.push_back(static_cast<int32_t>(head.value));
        if (rng() % 5 == 0) ids.push_back(0);
      }
      if (rng() % 2 == 0) std::reverse(ids.begin(), ids.end());
      const User user = rng() % 2 == 0 ? User::kRequest : User::kOther;
      if (together) pool.ref_blocks(GroupId(0), ids, user);
      for (size_t i = ids.size(); !together && i > 0; --i) {
        if (ids[i - 1] != 0) pool.ref(PartIndex(static_cast<uint32_t>(ids[i - 1])), user);
      }
      copy_some();
      if (rng() % 2 == 0) {
        const EvictionClass how = rng() % 4 == 0 ? EvictionClass::kCold : EvictionClass::kWarm;
        if (together) pool.unref_blocks(GroupId(0), ids, 0, how);
        for (size_t i = ids.size(); !together && i > 0; --i) {
          if (ids[i - 1] != 0) pool.unref(PartIndex(static_cast<uint32_t>(ids[i - 1])), 0, how);
        }
      }
      for (const PartIndex head : heads) refs[head.value] = pool.refs(head);
      const Status ok = pool.verify(refs, spares);
      EXPECT_TRUE(ok.ok()) << ok.message();
      order->resize(40);
      order->resize(pool.coldest(*order));
      return pool.counts();
    };
    std::vector<PageId> order, right_order;
    const PoolCounts counts = run(true, &order), right = run(false, &right_order);
    ASSERT_EQ(order, right_order);
    EXPECT_EQ(counts.evictable_pages, right.evictable_pages);
    EXPECT_EQ(counts.used_pages, right.used_pages);
    EXPECT_EQ(counts.held_parts, right.held_parts);
    EXPECT_EQ(counts.order_changes, right.order_changes);
  }
}

TEST(Pool, SparedPagesAreEvictedLastAndAgeFromTheEndOfTheSpare) {
  Pool pool = make(6, {{1, 1}});
  std::vector<PartIndex> heads;
  for (uint32_t i = 0; i < 3; ++i) {
    heads.push_back(take_one(pool, 0, 1));
    pool.publish(heads.back(), NodeId(i));
  }
  const PageId spared = pool.page_of(heads[0]), second = pool.page_of(heads[1]), third = pool.page_of(heads[2]);
  const uint32_t life = pool.spare(spared);  // while it is in use
  EXPECT_EQ(pool.spare(spared), life);
  for (const PartIndex head : heads) pool.unref(head, 0);
  EXPECT_EQ(pool.oldest_evictable(), second);
  const uint32_t life_of_second = pool.spare(second);  // while it is evictable
  EXPECT_EQ(pool.oldest_evictable(), third);
  EXPECT_EQ(pool.available_pages(), 5u) << "a spared page can be had like any other";
  pool.unpublish(heads[2]);
  EXPECT_EQ(pool.oldest_evictable(), spared) << "of the spared ones the oldest";
  pool.end_spare(second, life_of_second);
  EXPECT_EQ(pool.oldest_evictable(), second);
  pool.end_spare(spared, life);
  EXPECT_TRUE(pool.spares().has(spared.value)) << "somebody else spares it, too";
  pool.end_spare(spared, life);
  EXPECT_EQ(pool.oldest_evictable(), second) << "the other one went to the end of the order";
  std::vector<uint32_t> spares(6, 0);
  const std::vector<uint32_t> refs(pool.num_part_slots(), 0);
  EXPECT_TRUE(pool.verify(refs, spares).ok());
  spares[1] = 1;
  EXPECT_FALSE(pool.verify(refs, spares).ok());
}

TEST(Pool, ASpareEndsWhenThePageBecomesFree) {
  Pool pool = make(4, {{1, 1}});
  const PartIndex head = take_one(pool, 0, 1);
  pool.publish(head, NodeId(1));
  const PageId page = pool.page_of(head);
  const uint32_t life = pool.spare(page);
  pool.unref(head, 0);
  pool.unpublish(head);  // evicted
  EXPECT_FALSE(pool.spares().has(page.value));
  const PartIndex again = take_one(pool, 0, 1);
  ASSERT_EQ(pool.page_of(again), page);
  EXPECT_FALSE(pool.spares().has(page.value)) << "what lies there now is somebody else's";
  const uint32_t other = pool.spare(page);
  pool.end_spare(page, life);
  EXPECT_TRUE(pool.spares().has(page.value)) << "who spared it before has nothing to end";
  pool.end_spare(page, other);
  EXPECT_FALSE(pool.spares().has(page.value));
}

TEST(Pool, RandomWalkKeepsEveryInvariant) {
  for (uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Walk walk(seed);
    for (int op = 0; op < 400 && !HasFailure(); ++op) {
      walk.act();
      walk.check();
    }
  }
}

}  // namespace
}  // namespace quire
