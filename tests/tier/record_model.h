// Which boundary a fetch can bring, worked out from the records that are there: from what their
// headers say, and from what the layers of a model need. It shares no code with the core.
#pragma once

#include <quire/tier.h>

#include <array>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/tier/tier_rig.h"

namespace quire::test {

class RecordModel {
 public:
  RecordModel(const Engine& engine, std::vector<quire_layer> layers);

  // A record that is there.
  void add(const std::vector<uint8_t>& record);
  // All that a store has.
  void add_all(const FakeStore& store);
  // None is there any more; which kinds of records there can be is still known.
  void forget() { records_.clear(); }
  // The largest boundary of the text at which every group has what it needs; of boundaries inside
  // units the last four that have states are considered.
  uint64_t largest_boundary(const Text& text) const;

 private:
  using Name = std::array<uint8_t, 32>;
  struct Kind {  // of records: of the same layers and heads
    std::string shape;
    bool is_state = false;
    uint32_t layer = 0;
    friend bool operator<(const Kind& a, const Kind& b) { return a.shape < b.shape; }
  };
  struct Need {
    bool whole = false, any = false;  // whether all of it is there; whether there is any
  };
  bool has(const Kind& kind, uint64_t first, uint64_t end, const std::vector<Name>& names) const;
  bool has_states(uint64_t boundary, const std::vector<Name>& names) const;
  Need need(const Kind& kind, uint64_t boundary, const std::vector<Name>& names) const;

  const Engine& engine_;
  std::vector<quire_layer> layers_;
  uint64_t unit_;
  std::set<Kind> kinds_;
  std::set<std::tuple<std::string, uint64_t, uint64_t, Name>> records_;
};

}  // namespace quire::test
