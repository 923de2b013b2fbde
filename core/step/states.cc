#include "core/step/states.h"

#include <algorithm>
#include <utility>

namespace quire {

// Whether the state at `position`, which the next row reads, may be overwritten by it.
bool States::may_overwrite(const EntryPlan& plan, uint32_t group) const {
  const uint32_t q = plan.sequence;
  const uint64_t position = plan.position;
  const PartIndex newest = sequences_.holding(q, group).newest;
  if (!facts_.limits.in_place || plan.load || newest.value == kNone) return false;
  const Sequence& s = sequences_.at(q);
  const bool alone = pool_.refs(newest) == 1 && !pool_.fenced(newest);
  if (pool_.node(newest).value != kNone) return plan.give_up && s.in_flight == 0 && alone;
  if (s.in_flight == 0) return alone;
  return !s.publishing || position % facts_.config->hit_alignment_tokens != 0;  // the commit of the row before may make it a checkpoint
}

// Parts that the row lacks: with what the sequence owns there are enough for every write, and for one state and its branches. Boundaries
// that are written on the way become checkpoints, not branches.
uint64_t States::states_wanted(const EntryPlan& plan, uint32_t group) const {
  const Holding& h = sequences_.holding(plan.sequence, group);
  const uint64_t writes = plan.load ? 1 : facts_.num_writes(plan.position, plan.num_tokens, plan.kept);
  uint64_t want = writes + facts_.limits.branches;
  if (!plan.load && facts_.writes_each_token(plan.num_tokens)) {
    const uint64_t last = plan.position + plan.num_tokens - 1;
    want = facts_.limits.branches + 1 + (facts_.limits.branches > 0 ? last / facts_.spacing - plan.position / facts_.spacing : 0);
  }
  const uint64_t have = h.num_spares + (may_overwrite(plan, group) ? 1 : 0);
  return want > have ? want - have : 0;
}

void States::take_states(const EntryPlan& plan, uint32_t group, RowGroup* rg, Step* step) {
  const uint32_t q = plan.sequence;
  Holding& h = sequences_.holding(q, group);
  uint64_t fresh = states_wanted(plan, group);
  const uint64_t n = plan.load ? 1 : facts_.num_writes(plan.position, plan.num_tokens, plan.kept);
  const uint64_t end = plan.position + plan.num_tokens;
  const std::span<PartIndex> spares = sequences_.spares(q, group);
  const Taking taking = fresh > 0 ? blocks_.start_taking(q, group, plan.room) : Taking{};
  rg->read = h.newest;
  rg->first_write = static_cast<uint32_t>(step->writes.size());
  rg->num_writes = static_cast<uint32_t>(n);
  uint64_t at = plan.position;
  for (uint64_t i = 0; i < n; ++i) {
    PartIndex part(kNone);
    if (h.num_spares > 0) {
      part = spares[--h.num_spares];
    } else if (fresh > 0) {
      part = blocks_.take_block(taking, step);
      --fresh;
    } else {
      part = rg->read;
      if (part.value != kNone) pool_.ref(part);
      // There is no room for both: running on is worth more than a checkpoint.
      if (part.value != kNone && pool_.node(part).value != kNone) published_.forget(pool_.node(part), GroupId(group), true);
    }
    at = plan.load ? end : facts_.next_write(at, plan.position, plan.num_tokens, plan.kept);
    step->writes.push_back(StateWrite{part, NodeId(kNone), at});
    rg->write = part;
  }
  h.newest = rg->write;
  for (; fresh > 0; --fresh) {
    const PartIndex part = blocks_.take_block(taking, step);
    if (part.value != kNone) spares[h.num_spares++] = part;
  }
}

// Not inlined: reserve() has no registers left for it.
[[gnu::noinline]] void States::take_spare(uint32_t q, uint32_t group, uint64_t end, RowGroup* rg, Step* step) {
  Holding& h = sequences_.holding(q, group);
  const PartIndex part = sequences_.spares(q, group)[--h.num_spares];
  *rg = RowGroup{};
  rg->read = h.newest;
  rg->write = h.newest = part;
  rg->first_write = static_cast<uint32_t>(step->writes.size());
  rg->num_writes = 1;
  step->writes.push_back(StateWrite{part, NodeId(kNone), end});
}

bool States::keeps_spare(uint32_t q, uint32_t group, PartIndex part, bool after_chunk) {
  Holding& h = sequences_.holding(q, group);
  const uint32_t most = facts_.limits.in_place || after_chunk ? facts_.limits.branches : facts_.limits.branches + 1;
  // Fenced: a row in flight of somebody who gave it up reads it.
  if (h.num_spares >= most || pool_.refs(part) != 1 || pool_.fenced(part) || pool_.node(part).value != kNone) return false;
  sequences_.spares(q, group)[h.num_spares++] = part;
  return true;
}

// A sequence without tokens owns nothing.
void States::give_back_spares(uint32_t q) {
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    Holding& h = sequences_.holding(q, g);
    while (h.num_spares > 0) blocks_.release(sequences_.spares(q, g)[--h.num_spares]);
  }
}

bool States::commit_states(Step* step, size_t r, uint32_t accepted) {
  const Row& row = step->rows[r];
  bool overwritten = false;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    if (!facts_.groups[g].state) continue;
    const RowGroup& rg = step->group(r, g);
    Holding& h = sequences_.holding(row.sequence, g);
    for (StateWrite& write : step->writes_of(rg)) {
      if (accepted == 0) overwritten = overwritten || (rg.read.value != kNone && write.part == rg.read);
      if (accepted == 0 || write.end != row.position + accepted) continue;
      h.current = write.part;
      write.part = PartIndex(kNone);
    }
    if (accepted < row.num_tokens) h.newest = h.current;
  }
  return !overwritten;
}

// What the row leaves over becomes spare when nobody else reads it, the deepest first. After a chunk of a prompt, one less: a
// sequence that waits owns one state. What is too many, or became a checkpoint, is given up at once: later rows of the sequence begin with
// states that this one wrote last or that come after it.
void States::retire_states(Step* step, size_t r, bool accepted) {
  const uint32_t q = step->rows[r].sequence;
  const bool chunk = !facts_.writes_each_token(step->rows[r].num_tokens);
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    if (!facts_.groups[g].state) continue;
    const RowGroup& rg = step->group(r, g);
    const std::span<StateWrite> writes = step->writes_of(rg);
    for (size_t i = writes.size(); i > 0; --i) {
      const PartIndex part = writes[i - 1].part;
      writes[i - 1].part = PartIndex(kNone);
      if (part.value != kNone && !keeps_spare(q, g, part)) blocks_.release_passed(part);
    }
    if (accepted && rg.read.value != kNone && !keeps_spare(q, g, rg.read, chunk)) blocks_.release_passed(rg.read);
  }
}

// What commit_states() and retire_states() do for a row of one token that is kept and keeps nothing else.
void States::swap_states(Step* step, size_t r) {
  const uint32_t q = step->rows[r].sequence;
  for (const uint32_t g : facts_.state_groups) {
    const RowGroup& rg = step->group(r, g);
    sequences_.holding(q, g).current = std::exchange(step->writes[rg.first_write].part, PartIndex(kNone));
    if (rg.read.value != kNone && !keeps_spare(q, g, rg.read)) blocks_.release_passed(rg.read);
  }
}

// True: the state that the row read is also one that it writes.
bool States::undo_states(Step* step, size_t r, uint32_t group) {
  const uint32_t q = step->rows[r].sequence;
  const RowGroup& rg = step->group(r, group);
  sequences_.holding(q, group).newest = rg.read;
  bool overwritten = false;
  for (StateWrite& write : step->writes_of(rg)) {
    const PartIndex part = write.part;
    write.part = PartIndex(kNone);
    if (part.value == kNone) continue;
    overwritten = overwritten || part == rg.read;
    if (!keeps_spare(q, group, part)) blocks_.release_passed(part);
  }
  return overwritten;
}

void States::drop_states(Step* step, size_t r) {
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    if (!facts_.groups[g].state) continue;
    for (StateWrite& write : step->writes_of(step->group(r, g))) {
      if (write.part.value != kNone) blocks_.release(write.part);
      write.part = PartIndex(kNone);
    }
  }
}

bool States::overwrites_current(uint32_t q) const {
  for (uint32_t i = 0; i < steps_.num_in_flight() && facts_.limits.in_place; ++i) {
    const Step& step = steps_.at(i);
    for (size_t r = 0; r < step.rows.size(); ++r) {
      if (step.rows[r].sequence != q || Steps::dropped(sequences_, step.rows[r])) continue;
      for (uint32_t g = 0; g < facts_.num_groups; ++g) {
        const RowGroup& rg = step.group(r, g);
        const PartIndex current = sequences_.holding(q, g).current;
        if (facts_.groups[g].state && current.value != kNone && rg.write == current) return true;
      }
    }
  }
  return false;
}

}  // namespace quire
