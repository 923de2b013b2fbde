// Recurrent states of a sequence: which parts a row writes, which of them becomes the current one, which are kept as checkpoints.
//
//   a sequence owns   current (the state at `committed`)  +  spares (nobody reads them)  +  what its rows in flight write
//
// A row writes into spares first and into new parts then. Where states are written in place the part that is read comes last, and only if
// nobody else reads it and it is no checkpoint: then the row cannot be undone once its kernels ran.
#include <algorithm>
#include <utility>

#include "core/base/checked.h"
#include "core/step/state.h"

namespace quire {

// Whether the state at `position`, which the next row reads, may be overwritten by it.
bool Cache::Impl::may_overwrite(const Intent& intent, uint32_t group) const {
  const uint32_t q = intent.sequence;
  const uint64_t position = intent.position;
  const PartIndex newest = sequences.holding(q, group).newest;
  if (!facts.limits.in_place || intent.load || newest.value == kNone) return false;
  const Sequence& s = sequences.at(q);
  const bool alone = pool.refs(newest) == 1 && !pool.fenced(newest);
  if (pool.node(newest).value != kNone) return intent.give_up && s.in_flight == 0 && alone;
  if (s.in_flight == 0) return alone;
  return !s.publishing || position % facts.config->hit_alignment_tokens != 0;  // the commit of the row before may make it a checkpoint
}

// Parts that the row lacks: with what the sequence owns there are enough for every write, and for one state and its branches. Boundaries
// that are written on the way become checkpoints, not branches.
uint64_t Cache::Impl::states_wanted(const Intent& intent, uint32_t group) const {
  const Holding& h = sequences.holding(intent.sequence, group);
  const uint64_t writes = intent.load ? 1 : facts.num_writes(intent.position, intent.num_tokens);
  uint64_t want = writes + facts.limits.branches;
  if (!intent.load && facts.writes_each_token(intent.num_tokens)) {
    const uint64_t last = intent.position + intent.num_tokens - 1;
    want = facts.limits.branches + 1 + (facts.limits.branches > 0 ? last / facts.spacing - intent.position / facts.spacing : 0);
  }
  const uint64_t have = h.num_spares + (may_overwrite(intent, group) ? 1 : 0);
  return want > have ? want - have : 0;
}

void Cache::Impl::take_states(const Intent& intent, uint32_t group, RowGroup* rg, Step* step) {
  const uint32_t q = intent.sequence;
  Holding& h = sequences.holding(q, group);
  uint64_t fresh = states_wanted(intent, group);
  const uint64_t n = intent.load ? 1 : facts.num_writes(intent.position, intent.num_tokens);
  const uint64_t end = intent.position + intent.num_tokens;
  const std::span<PartIndex> spares = sequences.spares(q, group);
  const Taking taking = start_taking(q, group, intent.room);
  rg->read = h.newest;
  rg->first_write = static_cast<uint32_t>(step->writes.size());
  rg->num_writes = static_cast<uint32_t>(n);
  for (uint64_t i = 0; i < n; ++i) {
    PartIndex part(kNone);
    if (h.num_spares > 0) {
      part = spares[--h.num_spares];
    } else if (fresh > 0) {
      part = take_block(taking, step);
      --fresh;
    } else {
      part = rg->read;
      if (part.value != kNone) pool.ref(part);
      // There is no room for both: running on is worth more than a checkpoint.
      if (part.value != kNone && pool.node(part).value != kNone) published.forget(pool.node(part), GroupId(group), true);
    }
    step->writes.push_back(StateWrite{part, NodeId(kNone), intent.load ? end : facts.write_end(intent.position, intent.num_tokens, i)});
    rg->write = part;
  }
  h.newest = rg->write;
  for (; fresh > 0; --fresh) {
    const PartIndex part = take_block(taking, step);
    if (part.value != kNone) spares[h.num_spares++] = part;
  }
}

// What take_states() does for one token where there is a spare and no state is written in place.
void Cache::Impl::take_spare(uint32_t q, uint32_t group, uint64_t end, RowGroup* rg, Step* step) {
  Holding& h = sequences.holding(q, group);
  *rg = RowGroup{};
  rg->read = h.newest;
  rg->first_write = static_cast<uint32_t>(step->writes.size());
  rg->num_writes = 1;
  rg->write = h.newest = sequences.spares(q, group)[--h.num_spares];
  step->writes.push_back(StateWrite{rg->write, NodeId(kNone), end});
}

void Cache::Impl::keep_spare(uint32_t q, uint32_t group, PartIndex part) {
  Holding& h = sequences.holding(q, group);
  const uint32_t most = facts.limits.in_place ? facts.limits.branches : facts.limits.branches + 1;
  // Fenced: a row in flight of somebody who gave it up reads it.
  if (h.num_spares < most && pool.refs(part) == 1 && !pool.fenced(part) && pool.node(part).value == kNone) {
    sequences.spares(q, group)[h.num_spares++] = part;
  } else {
    release(part);
  }
}

// A sequence without tokens owns nothing.
void Cache::Impl::give_back_spares(uint32_t q) {
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    Holding& h = sequences.holding(q, g);
    while (h.num_spares > 0) release(sequences.spares(q, g)[--h.num_spares]);
  }
}

bool Cache::Impl::commit_states(Step* step, size_t r, uint32_t accepted) {
  const Row& row = step->rows[r];
  bool overwritten = false;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    if (!facts.groups[g].state) continue;
    const RowGroup& rg = step->group(r, g);
    Holding& h = sequences.holding(row.sequence, g);
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

// A state is worth keeping where its boundary can be hit, and where one of the reasons of quire_cache_options.keep_states holds.
bool Cache::Impl::worth_keeping(const Row& row, uint64_t end) const {
  if (!facts.joint.divides(end)) return false;
  if ((facts.limits.keep & QUIRE_KEEP_EVERY) != 0 && end % facts.spacing == 0) return true;
  if (asked_for(row, end)) return true;
  return end == row.position + row.num_tokens && (facts.limits.keep & QUIRE_KEEP_CHUNK_END) != 0 && row.num_tokens > 1;
}

// By somebody who knows more than its place: the engine, or who was there before.
bool Cache::Impl::asked_for(const Row& row, uint64_t end) const {
  if (end != row.position + row.num_tokens) return false;
  return ((facts.limits.keep & QUIRE_KEEP_PROMPT_END) != 0 && row.prompt_end) ||
         ((facts.limits.keep & QUIRE_KEEP_JUNCTION) != 0 && row.junction) || ((facts.limits.keep & QUIRE_KEEP_ASKED) != 0 && row.keep);
}

// A state is kept inside blocks of groups that need everything: what they have of them so far can be hit, and is copied by who goes on.
void Cache::Impl::publish_tails(uint32_t q) {
  const Sequence& s = sequences.at(q);
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    if (!facts.groups[g].whole || !facts.groups[g].grows || facts.groups[g].block.divides(s.committed)) continue;
    // A later row in flight may have replaced it by a copy that is not written yet.
    const PartIndex head = committed_head(q, g, static_cast<uint32_t>(facts.groups[g].block.quotient(s.committed)));
    if (head.value == kNone || pool.node(head).value != kNone || index.block_at(s.node, GroupId(g)).value != kNone) continue;
    published.publish(q, s.node, g, head);
  }
}

// What the row leaves over becomes spare when nobody else reads it, the deepest first.
void Cache::Impl::retire_states(Step* step, size_t r, bool accepted) {
  const uint32_t q = step->rows[r].sequence;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    if (!facts.groups[g].state) continue;
    const RowGroup& rg = step->group(r, g);
    const std::span<StateWrite> writes = step->writes_of(rg);
    for (size_t i = writes.size(); i > 0; --i) {
      const PartIndex part = writes[i - 1].part;
      writes[i - 1].part = PartIndex(kNone);
      if (part.value != kNone) keep_spare(q, g, part);
    }
    if (accepted && rg.read.value != kNone) keep_spare(q, g, rg.read);
  }
}

// What commit_states() and retire_states() do for a row of one token that is kept and keeps nothing else.
void Cache::Impl::swap_states(Step* step, size_t r) {
  const uint32_t q = step->rows[r].sequence;
  for (const uint32_t g : facts.state_groups) {
    const RowGroup& rg = step->group(r, g);
    sequences.holding(q, g).current = std::exchange(step->writes[rg.first_write].part, PartIndex(kNone));
    if (rg.read.value != kNone) keep_spare(q, g, rg.read);
  }
}

// True: the state that the row read is also one that it writes.
bool Cache::Impl::undo_states(Step* step, size_t r, uint32_t group) {
  const uint32_t q = step->rows[r].sequence;
  const RowGroup& rg = step->group(r, group);
  sequences.holding(q, group).newest = rg.read;
  bool overwritten = false;
  for (StateWrite& write : step->writes_of(rg)) {
    const PartIndex part = write.part;
    write.part = PartIndex(kNone);
    if (part.value == kNone) continue;
    overwritten = overwritten || part == rg.read;
    keep_spare(q, group, part);
  }
  return overwritten;
}

void Cache::Impl::drop_states(Step* step, size_t r) {
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    if (!facts.groups[g].state) continue;
    for (StateWrite& write : step->writes_of(step->group(r, g))) {
      if (write.part.value != kNone) release(write.part);
      write.part = PartIndex(kNone);
    }
  }
}

// Sequences whose state an abort cannot vouch for start again, from what was kept.
void Cache::Impl::empty_lost(uint32_t first, uint32_t end) {
  for (uint32_t i = first; i < end; ++i) {
    for (const Row& row : steps.at(i).rows) {
      if (Steps::dropped(sequences, row) || !sequences.at(row.sequence).lost) continue;
      reset_sequence(row.sequence);
    }
  }
}

bool Cache::Impl::overwrites_current(uint32_t q) const {
  for (uint32_t i = 0; i < steps.num_in_flight() && facts.limits.in_place; ++i) {
    const Step& step = steps.at(i);
    for (size_t r = 0; r < step.rows.size(); ++r) {
      if (step.rows[r].sequence != q || Steps::dropped(sequences, step.rows[r])) continue;
      for (uint32_t g = 0; g < facts.num_groups; ++g) {
        const RowGroup& rg = step.group(r, g);
        const PartIndex current = sequences.holding(q, g).current;
        if (facts.groups[g].state && current.value != kNone && rg.write == current) return true;
      }
    }
  }
  return false;
}

}  // namespace quire
