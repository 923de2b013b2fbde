// What reserve wants to do for one entry, before anything has changed.
#pragma once

#include <span>

#include "core/base/ids.h"
#include "core/prefix/index.h"
#include "core/step/facts.h"

namespace quire {

// Where parts may come from besides the page that the sequence is filling; each also allows what
// stands before it.
enum class AllocFrom : uint8_t {
  kPages,   // free and evictable pages
  kHoles,   // holes in other pages of the group
  kCached,  // cached parts in pages of the group that are in use: evicted block by block
};

// A cached block behind the hit, shared because another group has less (see cached_ahead.h).
struct Adopted {
  uint32_t group = 0;
  uint32_t block = 0;
  PartIndex head{kNone};
};

struct EntryPlan {
  uint32_t sequence = kNone;
  bool match = false;
  bool load = false;  // a connector brings the tokens
  bool chunk_stop = false;
  Match found;
  uint64_t most = UINT64_MAX;  // tokens of the hit
  // Where groups that need everything would resume and the others cannot. 0: nowhere.
  uint64_t branch_point = 0;
  uint64_t position = 0;
  uint32_t num_tokens = 0;
  KeptBoundaries kept;   // that the row has a state for
  uint32_t encoder = 0;  // tokens that the sequence begins with
  uint64_t end = 0;      // tokens that must have slots, look-ahead included
  AllocFrom room = AllocFrom::kPages;
  bool stays = false;                // in blocks that the row before it showed: no table changes
  uint64_t shown = 0;                // Sequence::shown after it
  bool held = false;                 // the hit's place, whose pin or unit was given up for it
  bool give_up = false;              // states that are kept may be overwritten by their only user
  std::span<const Adopted> adopted;  // by group and block; for this entry only

  bool takes_cached() const { return match || !adopted.empty(); }
};

}  // namespace quire
