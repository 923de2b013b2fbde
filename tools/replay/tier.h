// A tier below the cache, simulated: what quire/tier.h would keep of the sequences, without bytes.
// Units are stored when a step completes them, and evicted by age, the ends of chains first. A
// prompt that goes on beyond the cache's hit is loaded from it. Nothing takes time.
#pragma once

#include <quire/config.h>
#include <quire/load.h>

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace quire::replay {

// Bytes are those of one shard, as the pool's are.
struct TierCounts {
  uint64_t loads = 0;
  uint64_t loaded_bytes = 0;
  uint64_t stored_units = 0;
  uint64_t stored_bytes = 0;
  uint64_t evicted_units = 0;
  uint64_t bytes = 0;  // now
};

class Tier {
 public:
  // Both are borrowed. The cache must take loads of whole sequences (max_load_tokens) and reports
  // its units to this tier alone from now on.
  Tier(quire_cache* cache, quire_config* config, uint64_t capacity);

  // Takes what became complete since the last call.
  void store();

  // Loads what the tier has of a prompt, of which at most `longest` tokens, into a sequence without
  // tokens. Tokens that the sequence has then; 0: as before, the tier has no longer prefix than the
  // cache. Nothing: there is no room for what it has. *result: of the match.
  std::optional<uint64_t> fetch(quire_sequence_id sequence, const std::vector<quire_symbol>& prompt, uint64_t longest, uint64_t full_tokens,
                                quire_reserve_result* result);

  uint64_t unit_tokens() const { return unit_tokens_; }
  const TierCounts& counts() const { return counts_; }

 private:
  struct Group {
    quire_group_info info;
    uint64_t bytes;  // of an id
  };
  struct Unit {
    std::string name;
    uint64_t bytes;
    bool has_state;
  };
  using Units = std::list<Unit>;  // the newest first

  // Where a prompt can be resumed, and how it is named up to there.
  struct Names {
    std::vector<uint64_t> ends;
    std::vector<uint8_t> digests;
  };

  uint64_t held_bytes(quire_hold_id hold) const;
  void keep(const quire_unit& unit, uint64_t bytes);
  Names names_of(const std::vector<quire_symbol>& prompt, uint64_t longest) const;
  const Unit* find(const Names& names, uint64_t end) const;
  bool is_there(const Names& names, uint64_t full_hit, uint64_t boundary) const;
  uint64_t first_needed(const Group& group, uint64_t have, uint64_t boundary) const;
  uint64_t loaded_bytes(std::span<const uint64_t> have, uint64_t boundary) const;
  void touch(const Names& names, uint64_t boundary);

  quire_cache* cache_;
  std::vector<Group> groups_;
  uint64_t capacity_, grid_ = 1, unit_tokens_ = 1, look_ahead_ = 0;
  bool has_states_ = false;
  Units units_;
  std::unordered_map<std::string, Units::iterator> places_;
  TierCounts counts_;
};

}  // namespace quire::replay
