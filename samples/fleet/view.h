// view.h: the index of one engine, kept right although messages get lost. Batches are numbered:
// what is missing can be asked for again. What cannot be had any more empties the index. Then the
// router expects too little of this engine, never something that is not there.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "fleet_index.h"

namespace fleet {

class View {
 public:
  explicit View(const Layout& layout) : index_(layout) {}

  // A batch that arrived, for the first time or again, in any order.
  void take(uint64_t number, const std::string& payload);
  // The engine said that so many batches were published.
  void expect(uint64_t batches);
  // Whether something is missing; it is to be asked for from next() on.
  bool has_gap() const { return !early_.empty() || next_ < expected_; }
  uint64_t next() const { return next_; }
  // What is missing will not come.
  void give_up();
  // The engine died: nothing is cached, and its successor counts from 0.
  void reset();

  const Index& index() const { return index_; }
  uint64_t batches() const { return batches_; }
  uint64_t given_up() const { return given_up_; }

 private:
  void use_early();

  Index index_;
  uint64_t next_ = 0;                         // number of the batch that comes next
  uint64_t expected_ = 0;                     // batches before this number were published
  std::map<uint64_t, nlohmann::json> early_;  // after a gap
  uint64_t batches_ = 0, given_up_ = 0;
};

}  // namespace fleet
