// Those who look on: a router that builds its view of a cache from events alone, a follower that
// imports steps, and a device that keeps tables and receives only what changed. None may see
// anything else than the cache shows.
#pragma once

#include <quire/events.h>
#include <quire/step.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/stamps/taken_step.h"

namespace quire::stamps {

// What a router thinks can be found: names of blocks by group.
class EventView {
 public:
  // Starts the recording. The cache must be new.
  explicit EventView(quire_cache* cache);

  // Reads the events since the last call. A name must not be stored twice nor removed while absent.
  // Events that the ring has lost are made up for by a snapshot.
  void follow();
  // The view must equal a snapshot of the cache.
  void compare();

 private:
  using Name = std::pair<uint32_t, std::string>;
  void apply(const quire_event& event, std::set<Name>* names) const;
  // What the cache says can be found; next: the number of the event after it.
  std::set<Name> snapshot(uint64_t* next);

  quire_cache* cache_;
  uint64_t next_ = 0;
  std::set<Name> names_;
  std::vector<quire_event> events_;
  std::vector<uint64_t> data_;
};

// Takes steps over as bytes. Its answers must be the leader's, bit for bit.
class FollowedSteps {
 public:
  FollowedSteps(const Plan* plan, const quire_cache_options& options);

  void compare(const TakenStep& step, Dice& dice);

 private:
  const Plan& plan_;
  std::unique_ptr<quire_follower, Releaser<quire_follower, quire_follower_release>> follower_;
  std::vector<char> bytes_;
};

// Tables of one group as lists of updates make them. An engine uploads the lists of a step when it
// launches it, so those of a step that was aborted before never arrive. What a row reads must be in
// its step's table, too.
class UploadedTables {
 public:
  // group: one that has tables.
  UploadedTables(const Plan* plan, uint32_t group) : plan_(*plan), group_(group) {}

  // Takes the lists of a new step or load.
  void take(const TakenStep& step);
  // Of every step that is carried out, in their order.
  void upload(const TakenStep& step);
  // The step was aborted.
  void drop(const TakenStep& step) { lists_.erase(step.step.id); }

 private:
  struct Lists {
    std::vector<int32_t> indptr;
    std::vector<int32_t> first;
    std::vector<int32_t> changed;
  };
  std::vector<int32_t> ask(const TakenStep& step, quire_fill_kind kind) const;
  void compare(const TakenStep& step, size_t row, uint32_t column, const std::vector<int32_t>& table) const;

  const Plan& plan_;
  const uint32_t group_;
  std::map<uint64_t, Lists> lists_;  // by step
  // By sequence and column.
  std::map<std::pair<quire_sequence_id, uint32_t>, std::vector<int32_t>> tables_;
};

}  // namespace quire::stamps
