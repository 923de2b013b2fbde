// A step in flight as its cache sees it now: what fills and exports read (see filling.h).
#pragma once

#include <span>

#include "core/pool/pool.h"
#include "core/step/steps.h"

namespace quire {

// A row of a sequence that is gone reads the null page everywhere, and still writes where it did.
struct LiveStep {
  const Facts& facts;
  const Steps& steps;
  const Sequences& sequences;
  const Pool& pool;
  const uint32_t step_number;  // in flight, oldest first
  const Step& step;

  const Config& config() const { return *facts.config; }
  size_t num_rows() const { return step.rows.size(); }
  uint32_t num_tokens() const { return step.num_tokens; }
  uint64_t position(size_t r) const { return step.rows[r].position; }
  uint32_t num_tokens(size_t r) const { return step.rows[r].num_tokens; }
  uint64_t end(size_t r) const { return step.rows[r].position + step.rows[r].num_tokens; }
  uint32_t encoder(size_t r) const { return step.rows[r].encoder; }

  // Ids as this step sees them: a later step in flight may have replaced blocks by copies of its
  // own.
  void read_ids(size_t r, uint32_t g, uint32_t c, uint64_t first, std::span<int32_t> ids) const;
  uint64_t settled(size_t r, uint32_t group) const { return step.rows[r].stays ? UINT64_MAX : step.group(r, group).settled; }

  uint64_t here(size_t r, uint32_t group) const {  //
    return step.rows[r].stays ? 0 : step.group(r, group).here;
  }

  template <typename Put>
  void each_id(uint32_t group, PartIndex part, const Put& put) const {
    for (uint32_t c = 0; c < facts.plan(group).ids_per_block; ++c) {
      put(c, part.value == kNone ? -1 : pool.id_of(GroupId(group), part).value);
      if (part.value != kNone) part = pool.next_in_block(part);
    }
  }
  template <typename Put>
  void state_read(size_t r, uint32_t group, const Put& put) const {
    each_id(group, Steps::dropped(sequences, step.rows[r]) ? PartIndex(kNone) : step.group(r, group).read, put);
  }
  template <typename Put>
  void state_write(size_t r, uint32_t group, const Put& put) const {
    each_id(group, step.group(r, group).write, put);
  }
  // Rows may write several states each.
  bool writes_lists() const { return facts.limits.branches > 0 || facts.limits.at_blocks; }
  uint32_t num_writes(size_t r, uint32_t group) const { return step.group(r, group).num_writes; }
  const StateWrite& write_at(size_t r, uint32_t group, uint32_t i) const { return step.writes[step.group(r, group).first_write + i]; }
  uint64_t write_end(size_t r, uint32_t group, uint32_t i) const { return write_at(r, group, i).end; }
  template <typename Put>
  void write(size_t r, uint32_t group, uint32_t i, const Put& put) const {
    each_id(group, write_at(r, group, i).part, put);
  }
};

}  // namespace quire
