// The store of the host connector by example and against a model: chunks, order of use, leases, places of threads that are gone.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <thread>

#include "plugins/host/host_worker.h"
#include "tests/connectors/host_store_rig.h"

namespace quire::host {
namespace {

const Patience kPatient;

// Takes the lock as long as it lives.
struct Guard {
  explicit Guard(Store& store) : own(store) { EXPECT_EQ(own.lock(kPatient), Locked::kYes); }
  ~Guard() { own.unlock(); }
  Store& own;
};

TEST(HostStore, ObjectsTakeWholeChunksAndLeaveNoGaps) {
  StoreRig rig(16);
  const Guard guard(rig.store());
  Place* const place = rig.store().claim();
  ASSERT_TRUE(rig.put(place, 1, 1));
  ASSERT_TRUE(rig.put(place, 2, kTestChunk));
  ASSERT_TRUE(rig.put(place, 3, kTestChunk + 1));
  ASSERT_TRUE(rig.put(place, 4, 12 * kTestChunk));
  EXPECT_EQ(rig.store().header().free_chunks, 0u);
  EXPECT_TRUE(rig.sound());
  // Every other chunk is free; an object of all of them fits.
  for (uint64_t key = 1; key <= 4; ++key) ASSERT_TRUE(rig.store().remove(rig.name(key)));
  for (uint64_t key = 1; key <= 16; ++key) ASSERT_TRUE(rig.put(place, key, 100));
  for (uint64_t key = 1; key <= 16; key += 2) ASSERT_TRUE(rig.store().remove(rig.name(key)));
  EXPECT_TRUE(rig.put(place, 99, 8 * kTestChunk));
  EXPECT_EQ(rig.store().header().num_evicted, 0u);
  EXPECT_TRUE(rig.sound());
  rig.store().release(place);
}

TEST(HostStore, TheLeastRecentObjectMakesRoom) {
  StoreRig rig(4);
  const Guard guard(rig.store());
  Place* const place = rig.store().claim();
  for (uint64_t key = 1; key <= 4; ++key) ASSERT_TRUE(rig.put(place, key, 10));
  rig.store().touch(rig.find(1), rig.use());
  EXPECT_EQ(rig.order(), (std::vector<uint64_t>{1, 4, 3, 2}));
  ASSERT_TRUE(rig.put(place, 5, 10));
  EXPECT_EQ(rig.order(), (std::vector<uint64_t>{5, 1, 4, 3}));
  ASSERT_TRUE(rig.put(place, 6, 3 * kTestChunk)) << "as many as it takes";
  EXPECT_EQ(rig.order(), (std::vector<uint64_t>{6, 5}));
  EXPECT_EQ(rig.store().header().num_evicted, 4u);
  EXPECT_TRUE(rig.sound());
  rig.store().release(place);
}

// Uses that come late keep their place in the order, whatever was used meanwhile.
TEST(HostStore, OrderIsByNumberOfUseNotByTime) {
  StoreRig rig(400);
  const Guard guard(rig.store());
  Place* const place = rig.store().claim();
  std::vector<uint64_t> numbers;
  for (uint64_t i = 1; i <= 200; ++i) numbers.push_back(i);
  std::mt19937_64 rng(7);
  for (const bool hinted : {true, false}) {
    std::shuffle(numbers.begin(), numbers.end(), rng);
    UseHint hint;
    for (const uint64_t number : numbers) {
      UseHint none;
      int64_t room_at = 0;
      const Use use = {number + (hinted ? 0 : 1000), hinted ? &hint : &none};
      const uint64_t key = number + (hinted ? 0 : 1000);
      ASSERT_EQ(rig.store().begin_store(place, rig.name(key), 1, use, 0, &room_at), Begun::kYes);
      ASSERT_TRUE(rig.store().publish(place, use));
    }
    ASSERT_TRUE(rig.sound());
  }
  EXPECT_EQ(rig.order().front(), 1200u);
  EXPECT_EQ(rig.order().back(), 1u);
  rig.store().touch(rig.find(1100), {3, nullptr});
  EXPECT_EQ(rig.store().record(rig.find(1100)).use, 1100u) << "an earlier use does not make it older";
  rig.store().release(place);
}

TEST(HostStore, LeasesAndLoadsKeepObjects) {
  StoreRig rig(4);
  const Guard guard(rig.store());
  Place* const place = rig.store().claim();
  Place* const reader = rig.store().claim();
  for (uint64_t key = 1; key <= 4; ++key) ASSERT_TRUE(rig.put(place, key, 10));
  rig.store().lease(rig.find(1), 1000);
  rig.store().lease(rig.find(1), 500);  // does not shorten it
  ASSERT_NE(rig.store().begin_load(reader, rig.name(2), rig.use()), kNone);
  rig.store().lease(rig.find(4), 2000);
  ASSERT_TRUE(rig.put(place, 5, 10, 999)) << "in the place of 3";
  rig.store().lease(rig.find(5), 3000);
  int64_t room_at = 0;
  EXPECT_EQ(rig.store().begin_store(place, rig.name(6), 1, rig.use(), 999, &room_at), Begun::kNoRoom);
  EXPECT_EQ(room_at, 1000) << "the first lease ends";
  EXPECT_TRUE(rig.has(1) && rig.has(2) && rig.has(4) && rig.has(5)) << "nothing went in vain";
  EXPECT_EQ(rig.store().begin_store(place, rig.name(6), 4 * kTestChunk, rig.use(), 5000, &room_at), Begun::kNoRoom);
  EXPECT_EQ(room_at, 5000) << "no lease is in the way, a load is";
  EXPECT_TRUE(rig.has(1) && rig.has(2) && rig.has(4) && rig.has(5)) << "nothing went in vain";
  EXPECT_EQ(rig.store().begin_store(place, rig.name(6), 1, rig.use(), 1000, &room_at), Begun::kYes);
  rig.store().abandon(place);
  EXPECT_FALSE(rig.has(1));
  rig.store().end_load(reader);
  EXPECT_TRUE(rig.put(place, 7, 4 * kTestChunk, 5000));
  EXPECT_TRUE(rig.sound());
  rig.store().release(reader);
  rig.store().release(place);
}

TEST(HostStore, WhatIsRemovedWhileItIsLoadedGoesWithItsLastReader) {
  StoreRig rig(4);
  const Guard guard(rig.store());
  Place* const place = rig.store().claim();
  Place* const first = rig.store().claim();
  Place* const second = rig.store().claim();
  ASSERT_TRUE(rig.put(place, 1, 3 * kTestChunk));
  const uint32_t record = rig.store().begin_load(first, rig.name(1), rig.use());
  ASSERT_EQ(rig.store().begin_load(second, rig.name(1), rig.use()), record);
  ASSERT_TRUE(rig.store().remove(rig.name(1)));
  EXPECT_FALSE(rig.has(1));
  EXPECT_EQ(rig.store().header().free_chunks, 1u);
  ASSERT_TRUE(rig.put(place, 1, 10)) << "the key is free";
  EXPECT_EQ(rig.begin(place, 2, 3 * kTestChunk), Begun::kNoRoom);
  rig.store().end_load(first);
  EXPECT_EQ(rig.begin(place, 2, 3 * kTestChunk), Begun::kNoRoom);
  rig.store().end_load(second);
  EXPECT_TRUE(rig.put(place, 2, 3 * kTestChunk));
  EXPECT_TRUE(rig.sound());
  for (Place* const own : {place, first, second}) rig.store().release(own);
}

TEST(HostStore, AnObjectIsSeenWhenItIsPublishedAndTheFasterStoreWins) {
  StoreRig rig(8);
  const Guard guard(rig.store());
  Place* const slow = rig.store().claim();
  Place* const fast = rig.store().claim();
  ASSERT_EQ(rig.begin(slow, 1, 10), Begun::kYes);
  EXPECT_FALSE(rig.has(1));
  EXPECT_FALSE(rig.store().remove(rig.name(1)));
  ASSERT_EQ(rig.begin(fast, 1, 5000), Begun::kYes) << "nobody waits for a store that may fail";
  ASSERT_TRUE(rig.store().publish(fast, rig.use()));
  EXPECT_FALSE(rig.store().publish(slow, rig.use()));
  EXPECT_EQ(rig.store().record(rig.find(1)).object_bytes, 5000u);
  EXPECT_EQ(rig.store().header().free_chunks, 6u);
  EXPECT_EQ(rig.begin(slow, 1, 10), Begun::kExists);
  ASSERT_EQ(rig.begin(slow, 2, 10), Begun::kYes);
  rig.store().abandon(slow);
  EXPECT_EQ(rig.store().header().free_chunks, 6u);
  EXPECT_TRUE(rig.sound());
  rig.store().release(fast);
  rig.store().release(slow);
}

TEST(HostStore, PlacesAreCounted) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends a process of which a thread has more than 64 locks";
#endif
  StoreRig rig(4);
  const Guard guard(rig.store());
  std::set<Place*> places;
  while (Place* const place = rig.store().claim()) ASSERT_TRUE(places.insert(place).second);
  EXPECT_EQ(places.size(), kMaxPlaces);
  rig.store().release(*places.begin());
  EXPECT_EQ(rig.store().claim(), *places.begin());
  for (Place* const place : places) rig.store().release(place);
}

// A thread that ends without a word: its load and its store end with it, and nothing of them is left.
TEST(HostStore, WorkOfThreadsThatAreGoneEnds) {
  StoreRig rig(8);
  const auto leave_work = [&](uint64_t loaded, uint64_t stored, uint64_t chunks) {
    std::thread([&] {
      const Guard guard(rig.store());
      ASSERT_NE(rig.store().begin_load(rig.store().claim(), rig.name(loaded), rig.use()), kNone);
      ASSERT_EQ(rig.begin(rig.store().claim(), stored, chunks * kTestChunk), Begun::kYes);
    }).join();
  };
  Place* place = nullptr;
  {
    const Guard guard(rig.store());
    place = rig.store().claim();
    ASSERT_TRUE(rig.put(place, 1, 2 * kTestChunk));
  }
  leave_work(1, 2, 5);
  {
    const Guard guard(rig.store());
    EXPECT_EQ(rig.store().header().free_chunks, 1u);
    EXPECT_TRUE(rig.put(place, 3, 6 * kTestChunk)) << "a store that lacks room looks for threads that are gone";
    EXPECT_TRUE(rig.has(1)) << "which was enough";
    EXPECT_FALSE(rig.has(2));
    EXPECT_TRUE(rig.sound());
    EXPECT_TRUE(rig.put(place, 4, 2 * kTestChunk)) << "nobody loads 1";
  }
  leave_work(4, 5, 6);
  const Guard guard(rig.store());
  EXPECT_EQ(rig.store().header().free_chunks, 0u);
  Place* const other = rig.store().claim();
  EXPECT_EQ(rig.store().header().free_chunks, 6u) << "and so does a new one";
  EXPECT_TRUE(rig.sound());
  rig.store().release(other);
  rig.store().release(place);
}

// Random calls, a model, and the whole structure looked at after each.
TEST(HostStore, EqualsAModel) {
  StoreRig rig(64);
  const Guard guard(rig.store());
  std::mt19937_64 rng(20261125);
  const auto below = [&](uint64_t n) { return rng() % n; };
  std::vector<Place*> places;
  for (int i = 0; i < 6; ++i) places.push_back(rig.store().claim());
  std::map<Place*, uint64_t> writes;  // place -> key
  std::map<Place*, uint64_t> loads;
  std::map<uint64_t, uint64_t> model;  // key -> bytes, without what was evicted
  uint64_t evicted = 0;
  for (int step = 0; step < 20'000; ++step) {
    Place* const place = places[below(places.size())];
    const uint64_t key = below(60);
    if (writes.count(place) != 0) {
      const uint64_t own = writes[place];
      if (below(4) == 0) {
        rig.store().abandon(place);
      } else if (rig.store().publish(place, rig.use())) {
        ASSERT_EQ(model.count(own), 0u);
        model[own] = rig.store().record(rig.find(own)).object_bytes;
      }
      writes.erase(place);
    } else if (loads.count(place) != 0) {
      rig.store().end_load(place);
      loads.erase(place);
    } else if (below(3) == 0) {
      ASSERT_EQ(rig.store().remove(rig.name(key)), model.erase(key) != 0);
    } else if (below(2) == 0) {
      const bool there = rig.store().begin_load(place, rig.name(key), rig.use()) != kNone;
      ASSERT_EQ(there, model.count(key) != 0);
      if (there) loads[place] = key;
    } else {
      const Begun begun = rig.begin(place, key, 1 + below(20 * kTestChunk));
      if (model.count(key) != 0) {
        ASSERT_EQ(begun, Begun::kExists);
      }
      if (begun == Begun::kYes) writes[place] = key;
      for (auto at = model.begin(); at != model.end();) {
        const bool gone = !rig.has(at->first);
        evicted += gone ? 1 : 0;
        at = gone ? model.erase(at) : std::next(at);
      }
    }
    ASSERT_TRUE(rig.sound()) << "step " << step;
    ASSERT_EQ(rig.store().header().num_objects, model.size());
    ASSERT_EQ(rig.store().header().num_evicted, evicted);
  }
  EXPECT_GT(evicted, 100u);
  for (const auto& [place, key] : writes) rig.store().abandon(place);
  for (const auto& [place, key] : loads) rig.store().end_load(place);
  for (Place* const place : places) rig.store().release(place);
}

}  // namespace
}  // namespace quire::host
