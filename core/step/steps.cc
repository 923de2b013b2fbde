#include "core/step/steps.h"

#include <quire/load.h>

#include <algorithm>

namespace quire {
namespace {

void prepare(const Facts& facts, uint64_t rows, uint64_t columns, uint64_t writes, uint64_t zeroes, Step* step) {
  step->num_groups = facts.num_groups;
  step->rows.reserve(rows);
  step->groups.resize(rows * facts.num_groups);
  step->replaced.reserve(rows * facts.num_groups);
  step->copies.reserve(rows * columns);
  step->writes.reserve(writes);
  step->zeroes.reserve(zeroes);
}

}  // namespace

void Step::clear(uint64_t new_id) {
  id = new_id;
  num_tokens = num_slots = 0;
  rows.clear();
  writes.clear();
  replaced.clear();
  copies.clear();
  zeroes.clear();
}

Steps::Steps(const Facts& facts, uint64_t most_zeroes) {
  const Limits& limits = facts.limits;
  uint64_t columns = 0, num_writes = 0, parts_per_step = 0, parts_per_load = 0;
  for (const GroupPlan& g : facts.config->groups) {
    columns += g.ids_per_block;
    const uint64_t writes = g.is_state() ? facts.writes_per_step() : 0;
    num_writes += writes;
    parts_per_step += uint64_t{g.ids_per_block} * (limits.max_tokens / g.block_tokens + 4ull * limits.max_entries + writes);
    if (g.live.fixed) parts_per_step += uint64_t{g.ids_per_block} * limits.max_entries * g.table_blocks(0);
    parts_per_load += uint64_t{g.ids_per_block} * ((g.is_state() ? 0 : g.table_blocks(limits.max_load_tokens)) + limits.branches + 4);
  }
  ring_.resize(limits.depth);
  for (Step& step : ring_) prepare(facts, limits.max_entries, columns, num_writes, std::min(most_zeroes, parts_per_step), &step);
  loads_.resize(limits.max_loads);
  const uint64_t states = facts.has_states ? uint64_t{facts.num_groups} * (limits.branches + 1) : 0;
  for (Step& load : loads_) prepare(facts, 1, columns, states, std::min(most_zeroes, parts_per_load), &load);
}

uint32_t Steps::find(StepId id) const {
  for (uint32_t i = 0; i < num_; ++i) {
    if (at(i).id == id.value) return i;
  }
  return kNone;
}

const Step* Steps::find_any(StepId id, uint32_t* number) const {
  *number = find(id);
  if (*number != kNone) return &at(*number);
  *number = num_;  // no step comes after it
  for (const Step& load : loads_) {
    if (load.id == id.value && !load.rows.empty()) return &load;
  }
  return nullptr;
}

uint64_t Steps::num_loads() const {
  return static_cast<uint64_t>(std::count_if(loads_.begin(), loads_.end(), [](const Step& load) { return !load.rows.empty(); }));
}

Step* Steps::make_load() {
  const auto slot = std::find_if(loads_.begin(), loads_.end(), [](const Step& load) { return load.rows.empty(); });
  if (slot == loads_.end()) return nullptr;
  slot->clear(next_id_);
  return &*slot;
}

Step* Steps::find_load(StepId id) {
  const auto slot = std::find_if(loads_.begin(), loads_.end(), [id](const Step& l) { return l.id == id.value && !l.rows.empty(); });
  return slot == loads_.end() ? nullptr : &*slot;
}

void Steps::count_references(std::vector<uint32_t>* refs) const {
  const auto count = [refs](const Step& step) {
    for (const Replaced& old : step.replaced) ++(*refs)[old.old_head.value];
    for (const StateWrite& write : step.writes) {
      if (write.part.value != kNone) ++(*refs)[write.part.value];
    }
  };
  for (uint32_t i = 0; i < num_; ++i) count(at(i));
  for (const Step& load : loads_) count(load);
}

uint64_t Steps::host_bytes() const {
  uint64_t bytes = 0;
  for (const std::vector<Step>* steps : {&ring_, &loads_}) {
    for (const Step& s : *steps)
      bytes += s.rows.capacity() * sizeof(Row) + s.groups.capacity() * sizeof(RowGroup) + s.replaced.capacity() * sizeof(Replaced) +
               s.copies.capacity() * sizeof(quire_copy) + s.zeroes.capacity() * sizeof(quire_zero) +
               s.writes.capacity() * sizeof(StateWrite);
  }
  return bytes;
}

}  // namespace quire
