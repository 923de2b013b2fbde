#include "tests/model/world.h"

#include <algorithm>
#include <cstring>

namespace quire::model {

quire_identity identity_of(uint32_t tenant, uint32_t flags) {
  quire_identity identity{};
  identity.struct_size = sizeof identity;
  identity.flags = flags;
  identity.salt = {kTenants[tenant].salt, std::strlen(kTenants[tenant].salt)};
  identity.adapter = {kTenants[tenant].adapter, std::strlen(kTenants[tenant].adapter)};
  identity.epoch = kTenants[tenant].epoch;
  return identity;
}

// Parts of all groups lie over one another: a page that changed hands without being written keeps the other group's stamps.
Memory::Memory(const Config& config, bool in_place) : config_(config), in_place_(in_place) {
  for (const GroupPlan& g : config.groups) {
    rows_.push_back(g.is_state() ? 1 : g.block_tokens);
    page_words_ = std::max<uint64_t>(page_words_, uint64_t{rows_.back()} * g.parts_per_page);
  }
  words_.resize(config.num_pages * page_words_);
  for (const GroupPlan& g : config.groups) page_parts_ = std::max<uint64_t>(page_parts_, g.parts_per_page);
  touched_.resize(config.num_pages * page_parts_);
  held_.resize(config.num_pages * page_parts_);
  const auto groups = static_cast<uint32_t>(config.groups.size());
  uploaded_group_ = kNone;
  for (uint32_t i = 0; i < groups && uploaded_group_ == kNone; ++i) {
    const uint32_t g = static_cast<uint32_t>(config.num_pages + i) % groups;
    if (!config.groups[g].is_state()) uploaded_group_ = g;
  }
}

void Memory::fill(Cache& cache, const PlannedStep& step, uint32_t group, std::vector<int32_t>* out) const {
  const GroupPlan& plan = config_.groups[group];
  const size_t rows = step.rows.size();
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  fill.group = group;
  uint64_t written = 0;
  if (!plan.is_state()) {
    out->resize(plan.ids_per_block * rows * step.pitch);
    fill.kind = QUIRE_FILL_RAW_TABLE;
    fill.destination = out->data();
    fill.capacity = out->size();
    fill.pitch = step.pitch;
    require_ok(cache.step_fill(step.id, fill, &written), "step_fill");
    return;
  }
  const size_t half = plan.ids_per_block * rows;
  out->resize(half + plan.ids_per_block * step.write_ends[group].size());
  for (int w = 0; w < 2; ++w) {
    fill.kind = w == 0 ? QUIRE_FILL_STATE_READ : QUIRE_FILL_STATE_WRITES;
    fill.destination = out->data() + (w == 0 ? 0 : half);
    fill.capacity = w == 0 ? half : out->size() - half;
    require_ok(cache.step_fill(step.id, fill, &written), "step_fill");
  }
}

void Memory::fill_updates(Cache& cache, PlannedStep* step) const {
  if (uploaded_group_ == kNone) return;
  uint64_t needed = 0;
  const auto take = [&](quire_fill_kind kind, std::vector<int32_t>* out, uint64_t pitch) {
    quire_fill fill{};
    fill.struct_size = sizeof fill;
    fill.group = uploaded_group_;
    fill.kind = kind;
    fill.destination = out->data();
    fill.capacity = out->size();
    fill.pitch = pitch;
    require_ok(cache.step_fill(step->id, fill, &needed), "step_fill");
  };
  step->update_indptr.resize(step->rows.size() + 1);
  take(QUIRE_FILL_UPDATE_INDPTR, &step->update_indptr, 0);
  step->update_first.resize(step->rows.size());
  take(QUIRE_FILL_UPDATE_FIRST, &step->update_first, 0);
  const auto all = static_cast<uint64_t>(step->update_indptr.back());
  step->updates.resize(std::max<uint64_t>(1, all * config_.groups[uploaded_group_].ids_per_block));
  take(QUIRE_FILL_UPDATE_INDICES, &step->updates, all);
}

// An engine that keeps its tables where its kernels are: after the lists of this step they say what the whole tables say.
void Memory::upload(const PlannedStep& step) {
  if (uploaded_group_ == kNone) return;
  const GroupPlan& plan = config_.groups[uploaded_group_];
  const auto all = static_cast<size_t>(step.update_indptr.back());
  for (size_t r = 0; r < step.rows.size(); ++r) {
    const PlannedRow& row = step.rows[r];
    for (uint32_t c = 0; c < plan.ids_per_block; ++c) {
      const size_t at = static_cast<uint32_t>(row.id.value) * plan.ids_per_block + c;
      if (at >= uploaded_.size()) uploaded_.resize(at + 1);
      std::vector<int32_t>& table = uploaded_[at];
      const auto first = static_cast<size_t>(step.update_first[r]);
      const auto begin = static_cast<size_t>(step.update_indptr[r]), n = static_cast<size_t>(step.update_indptr[r + 1]) - begin;
      if (table.size() < first + n) table.resize(first + n);
      std::copy_n(step.updates.begin() + static_cast<std::ptrdiff_t>(c * all + begin), n,
                  table.begin() + static_cast<std::ptrdiff_t>(first));
      const int32_t* whole = step.tables[uploaded_group_].data() + (c * step.rows.size() + r) * step.pitch;
      const uint64_t tail = plan.live.tail_begin(row.position) / plan.block_tokens;
      for (uint64_t b = 0; b < ceil_div(table_tokens(plan, row), plan.block_tokens); ++b) {
        if (b < tail && b * plan.block_tokens >= plan.live.sink_end(row.position)) continue;
        MODEL_REQUIRE(table[b] == whole[b], "block " + std::to_string(b) + " of sequence " + std::to_string(row.id.value) +
                                                " in a table that is uploaded by updates, first " + std::to_string(first));
      }
    }
  }
}

// Which states the rows write, and behind which tokens.
void Memory::fill_states(Cache& cache, PlannedStep* step, uint32_t group) const {
  const size_t rows = step->rows.size();
  std::vector<int32_t>& first = step->first_write[group];
  first.resize(rows + 1);
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  fill.group = group;
  fill.kind = QUIRE_FILL_STATE_WRITE_INDPTR;
  fill.destination = first.data();
  fill.capacity = rows + 1;
  uint64_t written = 0;
  require_ok(cache.step_fill(step->id, fill, &written), "step_fill");
  std::vector<int32_t>& ends = step->write_ends[group];
  ends.resize(static_cast<size_t>(first[rows]));
  fill.kind = QUIRE_FILL_STATE_WRITE_ENDS;
  fill.destination = ends.data();
  fill.capacity = ends.size();
  require_ok(cache.step_fill(step->id, fill, &written), "step_fill");
  for (size_t r = 0; r < rows; ++r) {
    const PlannedRow& row = step->rows[r];
    MODEL_REQUIRE(first[r] < first[r + 1], "a row without a state to write");
    uint64_t before = row.position;
    for (int32_t w = first[r]; w < first[r + 1]; ++w) {
      MODEL_REQUIRE(static_cast<uint64_t>(ends[static_cast<size_t>(w)]) > before, "states in order");
      before = static_cast<uint64_t>(ends[static_cast<size_t>(w)]);
    }
    MODEL_REQUIRE(before == row.position + row.num_tokens, "the last state stands behind the last token");
  }
}

// Slots say what the table says, or nothing where the block is shared.
void Memory::fill_slots(Cache& cache, PlannedStep* step, uint32_t group) const {
  const GroupPlan& plan = config_.groups[group];
  const uint32_t bt = plan.block_tokens;
  std::vector<int64_t>& slots = step->slots[group];
  slots.resize(plan.ids_per_block * step->first_token.back());
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  fill.group = group;
  fill.kind = QUIRE_FILL_SLOTS;
  fill.destination = slots.data();
  fill.capacity = slots.size();
  uint64_t written = 0;
  require_ok(cache.step_fill(step->id, fill, &written), "step_fill");
  MODEL_REQUIRE(written == slots.size(), "slots of a step");
  for (uint32_t c = 0; c < plan.ids_per_block; ++c) {
    for (size_t r = 0; r < step->rows.size(); ++r) {
      const PlannedRow& row = step->rows[r];
      const int32_t* ids = step->tables[group].data() + (c * step->rows.size() + r) * step->pitch;
      for (uint64_t p = row.position; p < row.position + row.num_tokens; ++p) {
        const int64_t slot = step->slot(group, c, r, p), wanted = int64_t{ids[p / bt]} * bt + static_cast<int64_t>(p % bt);
        const bool begun = row.position % bt != 0 && p / bt == row.position / bt;
        MODEL_REQUIRE(slot == wanted || (slot == -1 && !begun), "slot of token " + std::to_string(p) + ", group " + std::to_string(group) +
                                                                    ": " + std::to_string(slot) + ", expected " + std::to_string(wanted));
      }
    }
  }
}

void Memory::touch(PlannedStep* step, uint32_t group, int32_t id, uint64_t family, bool write) {
  if (id <= 0) return;
  const uint64_t at = part(group, id);
  std::vector<uint64_t>& families = touched_[at];
  const bool mine = std::find(families.begin(), families.end(), family) != families.end();
  MODEL_REQUIRE(!write || families.empty() || mine, "id " + std::to_string(id) + " of group " + std::to_string(group) +
                                                        " is written while a row in flight of somebody else has it");
  for (const uint64_t after : held_[at]) {
    MODEL_REQUIRE(!write || step->id.value <= after, "id " + std::to_string(id) + " of group " + std::to_string(group) +
                                                         " is written by step " + std::to_string(step->id.value) +
                                                         " while somebody holds it since step " + std::to_string(after));
  }
  if (write) step->written.push_back(at);
  if (mine && !step->touched.empty() && step->touched.back() == std::pair(at, family)) return;
  families.push_back(family);
  step->touched.emplace_back(at, family);
}

void Memory::touch_row(PlannedStep* step, size_t r, uint32_t group) {
  const GroupPlan& plan = config_.groups[group];
  const PlannedRow& row = step->rows[r];
  for (uint32_t c = 0; c < plan.ids_per_block; ++c) {
    if (plan.is_state()) {
      touch(step, group, step->state_read(group, r, c), row.family, false);
      for (int32_t w = step->first_write[group][r]; w < step->first_write[group][r + 1]; ++w) {
        touch(step, group, step->state_write(group, plan.ids_per_block, w, c), row.family, true);
      }
      continue;
    }
    const int32_t* table = step->tables[group].data() + (c * step->rows.size() + r) * step->pitch;
    const uint64_t bt = plan.block_tokens, end = ceil_div(table_tokens(plan, row), bt);
    const uint64_t written = plan.live.fixed && row.position > 0 ? end : row.position / bt;
    const uint64_t tail = plan.live.tail_begin(row.position) / bt;
    for (uint64_t b = 0; b < std::min(tail, ceil_div(plan.live.sink_end(row.position), bt)); ++b)
      touch(step, group, table[b], row.family, false);
    for (uint64_t b = tail; b < end; ++b) touch(step, group, table[b], row.family, b >= written && !step->shares(group, r, b, bt));
  }
}

void Memory::plan(Cache& cache, PlannedStep* step) {
  auto zeroes = cache.step_zeroes(step->id);
  auto copies = cache.step_copies(step->id);
  MODEL_REQUIRE(zeroes.ok() && copies.ok(), "the step is in flight");
  step->zeroes.assign(zeroes->begin(), zeroes->end());
  step->copies.assign(copies->begin(), copies->end());
  uint64_t longest = 1;
  for (const PlannedRow& row : step->rows) {
    for (const GroupPlan& g : config_.groups) longest = std::max(longest, ceil_div(table_tokens(g, row), g.block_tokens));
  }
  step->pitch = longest;
  step->tables.resize(config_.groups.size());
  step->first_write.resize(config_.groups.size());
  step->write_ends.resize(config_.groups.size());
  step->slots.resize(config_.groups.size());
  step->first_token.assign(1, 0);
  for (const PlannedRow& row : step->rows) step->first_token.push_back(step->first_token.back() + row.num_tokens);
  for (const quire_zero& z : step->zeroes) {
    const bool page = z.group == kNone;
    const uint64_t first = page ? static_cast<uint64_t>(z.id) * page_parts_ : part(z.group, z.id);
    for (uint64_t i = first; i < first + (page ? page_parts_ : 1); ++i) {
      MODEL_REQUIRE(touched_[i].empty(), "page or id " + std::to_string(z.id) + " is zeroed while a row in flight has it");
      MODEL_REQUIRE(held_[i].empty(), "page or id " + std::to_string(z.id) + " is zeroed while somebody holds it");
    }
  }
  for (uint32_t g = 0; g < config_.groups.size(); ++g) {
    if (config_.groups[g].is_state()) fill_states(cache, step, g);
    fill(cache, *step, g, &step->tables[g]);
    if (!config_.groups[g].is_state() && !config_.groups[g].live.fixed && step->have.empty()) fill_slots(cache, step, g);
    for (size_t r = 0; r < step->rows.size(); ++r) touch_row(step, r, g);
  }
  fill_updates(cache, step);
}

void Memory::done(const PlannedStep& step) {
  for (const auto& [at, family] : step.touched) {
    std::vector<uint64_t>& families = touched_[at];
    const auto found = std::find(families.begin(), families.end(), family);
    *found = families.back();
    families.pop_back();
  }
}

void Memory::compare(Cache& cache, const PlannedStep& step, const std::vector<bool>& alive) const {
  std::vector<int32_t> now;
  for (uint32_t g = 0; g < config_.groups.size(); ++g) {
    const GroupPlan& plan = config_.groups[g];
    const std::vector<int32_t>& then = step.tables[g];
    fill(cache, step, g, &now);
    for (size_t r = 0; r < step.rows.size(); ++r) {
      if (!alive[r]) continue;
      const PlannedRow& row = step.rows[r];
      for (uint32_t c = 0; c < plan.ids_per_block; ++c) {
        if (plan.is_state()) {
          bool same = now[c * step.rows.size() + r] == step.state_read(g, r, c);
          for (int32_t w = step.first_write[g][r]; w < step.first_write[g][r + 1]; ++w) {
            const size_t at = plan.ids_per_block * step.rows.size() + c * step.write_ends[g].size() + static_cast<size_t>(w);
            same = same && now[at] == then[at];
          }
          MODEL_REQUIRE(same, "states of a step in flight changed");
          continue;
        }
        const size_t first = (c * step.rows.size() + r) * step.pitch;
        const uint64_t end = ceil_div(table_tokens(plan, row), plan.block_tokens);
        for (uint64_t b = plan.live.tail_begin(row.position) / plan.block_tokens; b < end; ++b) {
          MODEL_REQUIRE(now[first + b] == then[first + b], "the table of a step in flight changed in block " + std::to_string(b));
        }
      }
    }
  }
}

// Reads what the row's first token needs, then writes its tokens, and reads those that are there. Where it writes nothing foreign may be
// left.
void Memory::run_row(const PlannedStep& step, size_t r, uint32_t group, uint32_t column) {
  const GroupPlan& plan = config_.groups[group];
  const PlannedRow& row = step.rows[r];
  const int32_t* ids = step.tables[group].data() + (column * step.rows.size() + r) * step.pitch;
  const uint64_t tail = plan.live.tail_begin(row.position), sink = plan.live.sink_end(row.position);
  const uint32_t bt = plan.block_tokens;
  const auto where = [&](uint64_t p) {
    return "group " + std::to_string(group) + " column " + std::to_string(column) + " token " + std::to_string(p) + " id " +
           std::to_string(ids[p / bt]) + " of sequence " + std::to_string(row.id.value) + " at " + std::to_string(row.position);
  };
  const auto read = [&](uint64_t first, uint64_t end) {
    for (uint64_t p = first; p < end;) {
      MODEL_REQUIRE(ids[p / bt] != 0, "not resident: " + where(p));
      const Word* words = cell(group, ids[p / bt]);
      for (const uint64_t stop = std::min(end, (p / bt + 1) * bt); p < stop; ++p, ++reads_) {
        MODEL_REQUIRE(words[p % bt].stamp == stamp(row, plan, group, column, p), "wrong content: " + where(p));
      }
    }
  };
  const uint64_t end = table_tokens(plan, row), begin = plan.live.fixed && row.position > 0 ? end : row.position;
  read(0, std::min(sink, tail));
  read(tail, begin);
  for (uint64_t p = begin; p < end;) {
    MODEL_REQUIRE(ids[p / bt] != 0, "no memory for a new token: " + where(p));
    if (step.shares(group, r, p / bt, bt)) {
      const uint64_t stop = std::min(end, (p / bt + 1) * bt);
      read(p, stop);
      p = stop;
      continue;
    }
    Word* words = cell(group, ids[p / bt]);
    for (uint32_t t = 0; t < bt; ++t) {
      MODEL_REQUIRE(words[t].writer == 0 || words[t].writer == writer(row, group), "bytes of somebody else: " + where(p));
    }
    for (const uint64_t stop = std::min(end, (p / bt + 1) * bt); p < stop; ++p) {
      words[p % bt] = {stamp(row, plan, group, column, p), writer(row, group)};
    }
  }
}

void Memory::run_tokens(const PlannedStep& step, uint32_t group) {
  const GroupPlan& plan = config_.groups[group];
  for (uint32_t c = 0; c < plan.ids_per_block; ++c) {
    for (size_t r = 0; r < step.rows.size(); ++r) {
      run_row(step, r, group, c);
    }
  }
}

void Memory::run_states(const PlannedStep& step, uint32_t group) {
  const uint32_t columns = config_.groups[group].ids_per_block;
  for (uint32_t c = 0; c < columns; ++c) {
    for (size_t r = 0; r < step.rows.size(); ++r) {
      const PlannedRow& row = step.rows[r];
      const int32_t read = step.state_read(group, r, c);
      const uint64_t wanted = row.position == 0 ? 0 : stamp(row.hashes[row.position], group, c);
      ++reads_;
      MODEL_REQUIRE((read == 0) == (row.position == 0), "state to read at " + std::to_string(row.position));
      MODEL_REQUIRE(cell(group, read)->stamp == wanted, "stale or foreign state: group " + std::to_string(group) + " column " +
                                                            std::to_string(c) + " of sequence " + std::to_string(row.id.value) + " at " +
                                                            std::to_string(row.position));
      for (int32_t w = step.first_write[group][r]; w < step.first_write[group][r + 1]; ++w) {
        const int32_t write = step.state_write(group, columns, w, c);
        MODEL_REQUIRE(write > 0 && (in_place_ || write != read), "state written where it is read");
        const auto end = static_cast<uint64_t>(step.write_ends[group][static_cast<size_t>(w)]);
        *cell(group, write) = {stamp(row.hashes[end], group, c), writer(row, group)};
      }
    }
  }
}

void Memory::prepare(const PlannedStep& step) {
  for (const quire_zero& z : step.zeroes) {
    if (z.group == kNone) {
      std::fill_n(words_.begin() + static_cast<long>(static_cast<uint64_t>(z.id) * page_words_), page_words_, Word{});
    } else {
      std::fill_n(cell(z.group, z.id), rows_[z.group], Word{});
    }
  }
  for (const quire_copy& c : step.copies) {
    const uint32_t n = c.num_tokens != 0 ? c.num_tokens : rows_[c.group];
    std::copy_n(cell(c.group, c.source) + c.first_token, n, cell(c.group, c.destination) + c.first_token);
  }
}

void Memory::run(const PlannedStep& step) {
  upload(step);
  prepare(step);
  for (uint32_t g = 0; g < config_.groups.size(); ++g) {
    config_.groups[g].is_state() ? run_states(step, g) : run_tokens(step, g);
  }
  for (uint64_t i = 0; i < page_words_; ++i) MODEL_REQUIRE(words_[i].writer == 0, "the null page was written");
}

}  // namespace quire::model
