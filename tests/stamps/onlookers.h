// Those who look on: a router that builds its view of a cache from events alone, and a follower that
// imports steps. Neither may see anything else than the cache shows.
#pragma once

#include <quire/events.h>
#include <quire/step.h>

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
  void follow();
  // The view must equal a snapshot of the cache.
  void compare();

 private:
  using Name = std::pair<uint32_t, std::string>;
  void apply(const quire_event& event, std::set<Name>* names) const;

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

  void compare(const TakenStep& step);

 private:
  const Plan& plan_;
  std::unique_ptr<quire_follower, Releaser<quire_follower, quire_follower_release>> follower_;
  std::vector<char> bytes_;
};

}  // namespace quire::stamps
