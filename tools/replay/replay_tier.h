// A tier below the cache, simulated: what quire/tier.h would keep of the sequences, without bytes.
// Units are stored when a step completes them, and evicted by age, the ends of chains first. A
// prompt that goes on beyond the cache's hit is loaded from it. Nothing takes time. Several caches
// of one plan can share a store.
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

// Bytes are those of one shard, as the pool's are. What one cache moved.
struct TierCounts {
  uint64_t loads = 0;
  uint64_t loaded_bytes = 0;
  uint64_t stored_units = 0;
  uint64_t stored_bytes = 0;
};

// Units by name, up to a number of bytes.
class UnitStore {
 public:
  explicit UnitStore(uint64_t capacity) : capacity_(capacity) {}
  UnitStore(const UnitStore&) = delete;
  UnitStore& operator=(const UnitStore&) = delete;

  // Whether it was stored: not if it is there already, or larger than all.
  bool keep(std::string name, uint64_t bytes, bool has_state);
  struct Unit {
    std::string name;
    uint64_t bytes;
    bool has_state;
  };
  const Unit* find(const std::string& name) const;
  void touch(const Unit& unit);  // it is the newest

  uint64_t capacity() const { return capacity_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t num_evicted() const { return num_evicted_; }

 private:
  using Units = std::list<Unit>;  // the newest first

  const uint64_t capacity_;
  uint64_t bytes_ = 0, num_evicted_ = 0;
  Units units_;
  std::unordered_map<std::string, Units::iterator> places_;
};

class Tier {
 public:
  // All are borrowed. The cache must take loads of whole sequences (max_load_tokens) and reports
  // its units to this tier alone from now on.
  Tier(quire_cache* cache, quire_config* config, UnitStore* store);

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
  // Where a prompt can be resumed, and how it is named up to there.
  struct Names {
    std::vector<uint64_t> ends;
    std::vector<uint8_t> digests;
  };

  uint64_t held_bytes(quire_hold_id hold) const;
  Names names_of(const std::vector<quire_symbol>& prompt, uint64_t longest) const;
  const UnitStore::Unit* find(const Names& names, uint64_t end) const;
  bool is_there(const Names& names, uint64_t full_hit, uint64_t boundary) const;
  uint64_t first_needed(const Group& group, uint64_t have, uint64_t boundary) const;
  uint64_t loaded_bytes(std::span<const uint64_t> have, uint64_t boundary) const;
  void touch(const Names& names, uint64_t boundary);

  quire_cache* cache_;
  UnitStore* store_;
  std::vector<Group> groups_;
  uint64_t grid_ = 1, unit_tokens_ = 1, look_ahead_ = 0;
  bool has_states_ = false;
  TierCounts counts_;
};

}  // namespace quire::replay
