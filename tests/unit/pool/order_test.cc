// The order in which pages are evicted: that of segmented LRU.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "core/pool/pool.h"

namespace quire {
namespace {

// A pool whose pages are blocks of one group, all of them cached, the first one released first.
class Cached {
 public:
  Cached(uint32_t pages, uint32_t protected_part) : pool_(made(pages + 1, protected_part)) {
    std::vector<int32_t> ids;
    for (uint32_t i = 0; i < pages; ++i) ids.push_back(take(i));
    std::reverse(ids.begin(), ids.end());
    pool_.unref_blocks(GroupId(0), ids, 0);
    std::reverse(ids.begin(), ids.end());
    ids_ = ids;
  }

  Pool& pool() { return pool_; }
  PartIndex operator[](size_t i) const { return PartIndex(static_cast<uint32_t>(ids_[i])); }
  // A page that is published.
  int32_t take(uint32_t node) {
    int32_t id = 0;
    EXPECT_EQ(pool_.take_page(GroupId(0), 1, 0, {&id, 1}).count, 1u);
    pool_.publish(PartIndex(static_cast<uint32_t>(id)), NodeId(node));
    return id;
  }
  void use(size_t i, User user, EvictionClass how = EvictionClass::kWarm) {
    pool_.ref((*this)[i], user);
    pool_.unref((*this)[i], 0, how);
  }
  // Pages as they were made, the next one to be evicted first.
  std::vector<size_t> order(const std::vector<uint32_t>& refs = {}, const std::vector<uint32_t>& spares = {}) {
    std::vector<PageId> pages(pool_.num_pages());
    pages.resize(pool_.coldest(pages));
    std::vector<size_t> out;
    for (const PageId page : pages) {
      const auto at = std::find(ids_.begin(), ids_.end(), static_cast<int32_t>(page.value));
      out.push_back(static_cast<size_t>(at - ids_.begin()));
    }
    const Status ok = pool_.verify(refs.empty() ? std::vector<uint32_t>(pool_.num_part_slots(), 0) : refs, spares);
    EXPECT_TRUE(ok.ok()) << ok.message();
    return out;
  }

 private:
  static Pool made(uint32_t pages, uint32_t protected_part) {
    auto pool = Pool::create(pages, std::vector<PoolGroup>{{1, 1}}, protected_part);
    EXPECT_TRUE(pool.ok());
    return std::move(pool.value());
  }

  Pool pool_;
  std::vector<int32_t> ids_;
};

using Order = std::vector<size_t>;

TEST(EvictionOrder, PagesThatWereHitGoAfterThoseThatWereNot) {
  Cached cached(8, 2);
  cached.use(1, User::kRequest);
  cached.use(0, User::kOther);
  EXPECT_EQ(cached.order(), (Order{2, 3, 4, 5, 6, 7, 0, 1}));
  cached.use(2, User::kOther);  // it is released later than the one that was hit, and goes before
  EXPECT_EQ(cached.order(), (Order{3, 4, 5, 6, 7, 0, 2, 1}));
}

TEST(EvictionOrder, WhereTooManyWereHitTheOldestCountsAsIfItWasNot) {
  Cached cached(6, 3);  // two of six
  for (const size_t i : {3u, 1u, 4u}) cached.use(i, User::kRequest);
  cached.use(0, User::kOther);
  EXPECT_EQ(cached.order(), (Order{2, 5, 3, 0, 1, 4})) << "3 is not protected any more";
  cached.use(3, User::kOther);
  EXPECT_EQ(cached.order(), (Order{2, 5, 0, 3, 1, 4})) << "nor when it is used otherwise";
  cached.use(3, User::kRequest);
  EXPECT_EQ(cached.order(), (Order{2, 5, 0, 1, 4, 3}));
}

TEST(EvictionOrder, WithoutProtectedPagesItIsThatOfLastUse) {
  Cached cached(4, 0);
  cached.use(1, User::kRequest);
  cached.use(0, User::kOther);
  EXPECT_EQ(cached.order(), (Order{2, 3, 1, 0}));
}

TEST(EvictionOrder, APageThatWasTakenAnewWasNotHit) {
  Cached cached(4, 1);
  cached.use(0, User::kRequest);
  cached.pool().unpublish(cached[0]);  // evicted
  const int32_t again = cached.take(0);
  ASSERT_EQ(again, static_cast<int32_t>(cached[0].value));
  cached.use(1, User::kRequest);
  cached.pool().unref_blocks(GroupId(0), std::vector<int32_t>{again}, 0);
  EXPECT_EQ(cached.order(), (Order{2, 3, 0, 1}));
}

TEST(EvictionOrder, AColdPageWasNotHit) {
  Cached cached(4, 1);
  cached.pool().ref(cached[2], User::kRequest);
  cached.pool().ref(cached[2], User::kCopier);
  cached.pool().unref(cached[2], 0, EvictionClass::kWarm);
  cached.pool().unref(cached[2], 0, EvictionClass::kCold);
  EXPECT_EQ(cached.order(), (Order{0, 1, 3, 2})) << "a user was there in between";
  cached.use(2, User::kCopier, EvictionClass::kCold);
  EXPECT_EQ(cached.order(), (Order{2, 0, 1, 3}));
  cached.use(3, User::kRequest);
  cached.use(2, User::kOther);
  EXPECT_EQ(cached.order(), (Order{0, 1, 2, 3}));
}

TEST(EvictionOrder, AResetForgetsWhatIsProtected) {
  Cached cached(6, 2);
  for (const size_t i : {0u, 1u, 2u}) cached.use(i, User::kRequest);
  cached.pool().retire_all();
  EXPECT_TRUE(cached.order().empty());
  cached.pool().swap_stale();  // emptied as evictable pages are
  for (const size_t i : {3u, 0u}) cached.pool().unpublish(cached[i]);
  cached.pool().swap_stale();
  for (uint32_t i = 0; i < 2; ++i) {
    const int32_t id = cached.take(i);
    cached.pool().unref(PartIndex(static_cast<uint32_t>(id)), 0);
  }
  EXPECT_EQ(cached.order(), (Order{0, 3}));
  cached.use(0, User::kRequest);
  cached.use(3, User::kOther);
  EXPECT_EQ(cached.order(), (Order{3, 0}));
}

TEST(EvictionOrder, APageThatComesBeforeAllOthersIsAChange) {
  for (const bool run : {false, true}) {
    Cached cached(5, 1);
    for (const size_t i : {0u, 1u, 2u}) cached.use(i, User::kRequest);
    for (const size_t i : {3u, 4u}) cached.pool().ref(cached[i]);
    const std::vector<int32_t> ids{static_cast<int32_t>(cached[4].value), static_cast<int32_t>(cached[3].value)};
    const uint64_t before = cached.pool().counts().order_changes;
    if (run) {
      cached.pool().unref_blocks(GroupId(0), ids, 0);
    } else {
      for (const size_t i : {3u, 4u}) cached.pool().unref(cached[i], 0);
    }
    EXPECT_EQ(cached.order(), (Order{3, 4, 0, 1, 2}));
    EXPECT_EQ(cached.pool().counts().order_changes, before + 1) << "3 is the next one";
  }
}

TEST(EvictionOrder, WhatTakesThePlaceOfAProtectedPageIsProtected) {
  Cached cached(6, 2);
  for (const size_t i : {1u, 2u}) cached.use(i, User::kRequest);
  cached.pool().take_place_of(cached[3], cached[1]);
  EXPECT_EQ(cached.order(), (Order{0, 4, 5, 3, 1, 2}));
  cached.use(0, User::kOther);
  EXPECT_EQ(cached.order(), (Order{4, 5, 0, 3, 1, 2})) << "3 is the first that is protected";
  cached.pool().take_place_of(cached[1], cached[4]);
  cached.use(5, User::kOther);
  EXPECT_EQ(cached.order(), (Order{1, 4, 0, 5, 3, 2})) << "1 is not protected any more";
}

TEST(EvictionOrder, APageThatWasHitIsProtectedWhenItsSpareEnds) {
  Cached cached(5, 2);
  std::vector<uint32_t> lives;
  for (const size_t i : {0u, 1u}) lives.push_back(cached.pool().spare(cached.pool().page_of(cached[i])));
  cached.use(0, User::kRequest);
  std::vector<uint32_t> spares(6, 0);
  spares[cached[0].value] = spares[cached[1].value] = 1;
  EXPECT_EQ(cached.order({}, spares), (Order{2, 3, 4}));
  for (const size_t i : {0u, 1u}) cached.pool().end_spare(cached.pool().page_of(cached[i]), lives[i]);
  EXPECT_EQ(cached.order(), (Order{2, 3, 4, 1, 0}));
  static_cast<void>(cached.pool().spare(cached.pool().page_of(cached[0])));  // protected and spared
  cached.pool().retire_all();
  EXPECT_TRUE(cached.order().empty());
}

// The same as a list.
struct Naive {
  struct Page {
    uint32_t refs = 0;
    bool hit = false, warm = false;
  };
  std::vector<Page> pages;
  std::vector<size_t> order;
  size_t part = 0;

  void use(size_t i, bool request) {
    if (pages[i].refs++ == 0) std::erase(order, i);
    pages[i].hit = pages[i].hit || (request && part > 0);
  }
  void release(size_t i, bool cold) {
    Page& page = pages[i];
    if (--page.refs > 0) return;
    page.warm = page.warm || !cold;
    if (!page.warm) {
      page.hit = false;
      order.insert(order.begin(), i);
      return;
    }
    const auto hit = [this](size_t p) { return pages[p].hit; };
    const auto first_hit = [&] { return std::find_if(order.begin(), order.end(), hit); };
    order.insert(page.hit ? order.end() : first_hit(), i);
    if (!page.hit) return;
    const auto num_hit = [&] { return static_cast<size_t>(std::count_if(order.begin(), order.end(), hit)); };
    while (num_hit() * part > order.size()) pages[*first_hit()].hit = false;
  }
  // The first one is evicted, and taken anew.
  size_t recycle() {
    const size_t i = order.front();
    order.erase(order.begin());
    pages[i] = {1, false, false};
    return i;
  }
};

TEST(EvictionOrder, IsThatOfAList) {
  uint64_t most = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 rng(seed);
    const auto num = static_cast<uint32_t>(3 + rng() % 30);
    const auto part = static_cast<uint32_t>(rng() % 5);
    Cached cached(num, part);
    std::vector<std::vector<int32_t>> kept;
    Naive naive;
    naive.part = part;
    for (size_t i = 0; i < num; ++i) naive.order.push_back(i);
    naive.pages.resize(num, {0, false, true});
    for (int op = 0; op < 200; ++op) {
      std::vector<int32_t> ids;
      std::vector<size_t> numbers;
      for (size_t i = rng() % num, n = 1 + rng() % 6; n > 0 && i < num; i += 1 + rng() % 2, --n) {
        ids.push_back(static_cast<int32_t>(cached[i].value));
        numbers.push_back(i);
      }
      const User user = rng() % 2 == 0 ? User::kRequest : User::kOther;
      const auto how = rng() % 5 == 0 ? EvictionClass::kCold : EvictionClass::kWarm;
      cached.pool().ref_blocks(GroupId(0), ids, user);
      for (size_t i = numbers.size(); i > 0; --i) naive.use(numbers[i - 1], user == User::kRequest);
      std::vector<int32_t> taken(rng() % 3);
      const size_t room = std::min(taken.size(), naive.order.size());
      const auto evict = [](NodeId, GroupId) { return true; };
      const auto nothing = [](auto...) {};
      taken.resize(cached.pool().recycle(GroupId(0), 0, taken, evict, nothing, nothing));
      ASSERT_EQ(taken.size(), room);
      for (const int32_t id : taken) {
        ASSERT_EQ(static_cast<uint32_t>(id), cached[naive.recycle()].value);
        cached.pool().publish(PartIndex(static_cast<uint32_t>(id)), NodeId(7));
      }
      kept.push_back(ids);
      kept.push_back(taken);
      std::shuffle(kept.begin(), kept.end(), rng);
      for (; kept.size() > 6 || (!kept.empty() && rng() % 3 > 0); kept.pop_back()) {
        const std::vector<int32_t> some = kept.back();
        cached.pool().unref_blocks(GroupId(0), some, 0, how);
        for (size_t i = some.size(); i > 0; --i) {
          size_t number = 0;
          while (static_cast<int32_t>(cached[number].value) != some[i - 1]) ++number;
          naive.release(number, how == EvictionClass::kCold);
        }
      }
      std::vector<uint32_t> refs(cached.pool().num_part_slots(), 0);
      for (size_t i = 0; i < num; ++i) refs[cached[i].value] = naive.pages[i].refs;
      ASSERT_EQ(cached.order(refs), naive.order);
      const auto hit = [&](size_t i) { return naive.pages[i].hit; };
      most = std::max<uint64_t>(most, std::count_if(naive.order.begin(), naive.order.end(), hit));
    }
  }
  EXPECT_GT(most, 10u) << "protected at once";
}

}  // namespace
}  // namespace quire
