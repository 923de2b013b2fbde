// Which boundary of a prompt is fetched: of each family the records that resuming there needs must
// be somewhere, and bringing them must be worth it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/tier/connector_tier.h"
#include "core/tier/sources.h"

namespace quire {

// A record that a boundary may need, and who has it.
struct WantedRecord {
  uint32_t source = 0;
  uint64_t end = 0;  // tokens
  RecordKey key{};
  uint64_t size = 0;  // as its tier says; 0: nobody has it
  uint32_t tier = 0;  // the nearest that has it
};

// Of a prompt of which `hit` tokens are here and of which tokens up to `longest` may be fetched.
// They increase.
struct Candidates {
  std::vector<uint64_t> unit_ends;   // in (0, longest]
  std::vector<uint64_t> boundaries;  // in (hit, longest]: where a sequence could resume
};
Candidates candidates_of(const TierPlan& plan, uint64_t hit, uint64_t longest);

// The records of a prompt that are asked for.
class RecordTable {
 public:
  explicit RecordTable(const Sources& sources) : sources_(sources), plan_(sources.plan()) {}

  // encoder: tokens of cross attention that are asked for; 0: none.
  void clear(uint64_t encoder = 0);
  // One that is there already stays as it is.
  void add(uint32_t source, uint64_t end, const PrefixNames& names);
  std::span<WantedRecord> records() { return records_; }
  const WantedRecord* find(uint32_t source, uint64_t end) const;
  // The tier has one of this size; 0: it has none. It must be there.
  void set_size(uint32_t source, uint64_t end, uint64_t size, uint32_t tier);

  // Ends of the records of the part's family that resuming at `boundary` needs where it has
  // its tokens up to `have`: visit(end), until it answers false. Of cross attention: all of the
  // encoder's.
  template <typename Visit>
  bool each_needed(const TierPart& part, uint64_t have, uint64_t boundary, Visit visit) const;
  // The first set of which somebody has all records that end there; none: nobody.
  std::span<const uint32_t> set_at(uint32_t family, uint64_t end) const;
  // Whether that is our own.
  bool has_own(uint32_t family, uint64_t end) const {  //
    return has_all(sources_.sets(family)[0], end);
  }
  // Whether somebody has every record that resuming there needs; families that need everything have
  // `full_hit` tokens, others nothing. bytes: by tier, added to.
  bool is_there(uint64_t full_hit, uint64_t boundary, std::span<uint64_t> bytes) const;
  // The same of states alone, or of whole units alone: the others are not asked for yet.
  bool has_states(uint64_t boundary) const;

 private:
  uint64_t place(uint32_t source, uint64_t end) const {
    return end * sources_.all().size() + source;  // unique
  }
  bool has_all(std::span<const uint32_t> set, uint64_t end) const;

  const Sources& sources_;
  const TierPlan& plan_;
  uint64_t encoder_ = 0;  // tokens
  std::vector<WantedRecord> records_;
  std::unordered_map<uint64_t, uint32_t> places_;
};

template <typename Visit>
bool RecordTable::each_needed(const TierPart& part, uint64_t have, uint64_t boundary, Visit visit) const {
  if (part.is_state) return visit(boundary);
  if (part.live.fixed) {
    bool goes_on = true;
    plan_.each_unit(encoder_, [&](uint64_t end) { goes_on = goes_on && visit(end); });
    return goes_on;
  }
  const uint64_t unit = plan_.unit_tokens();
  const uint64_t sink = std::min(part.live.sink, boundary), tail = std::max(have, part.live.tail_begin(boundary));
  for (uint64_t first = 0; first < boundary; first += unit) {
    const uint64_t end = std::min(first + unit, boundary);
    const bool sinks = first < sink && have < std::min(sink, end);
    if ((sinks || end > tail) && plan_.record_bytes(part, end) > 0 && !visit(end)) return false;
  }
  return true;
}

}  // namespace quire
