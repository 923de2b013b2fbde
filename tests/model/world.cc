#include "tests/model/world.h"

namespace quire::model {

std::vector<uint64_t>& Memory::cell(uint32_t group, uint32_t, int32_t id) {
  const GroupPlan& plan = config_.groups[group];
  auto v = static_cast<uint32_t>(id);
  Page& page = pages_[v / plan.parts_per_page];
  if (page.group != group) {  // another group's bytes: nothing of ours is left
    page.group = group;
    page.parts.clear();
  }
  auto& stamps = page.parts[{v % plan.parts_per_page, 0}];
  stamps.resize(plan.is_state() ? 1 : plan.block_tokens, 0);
  return stamps;
}

// What belongs at a position: a function of identity and of every symbol up to and including it.
uint64_t Memory::stamp(const PlannedRow& row, uint32_t group, uint64_t tokens) {
  uint64_t h = mix(0x5151, group);
  for (char c : row.salt) h = mix(h, static_cast<uint8_t>(c));
  for (uint64_t i = 0; i < tokens; ++i) h = mix(h, row.tokens[i]);
  return h | 1;
}

std::string Memory::check_row(const PlannedRow& row, uint32_t group, uint32_t column, const int32_t* ids) {
  const GroupPlan& plan = config_.groups[group];
  uint64_t tail = plan.live.tail_begin(row.position);
  uint64_t sink = plan.live.sink_end(row.position);
  uint64_t h = mix(0x5151, group);
  for (char c : row.salt) h = mix(h, static_cast<uint8_t>(c));
  for (uint64_t p = 0; p < row.position; ++p) {
    h = mix(h, row.tokens[p]);
    if (p < tail && p >= sink) continue;
    int32_t id = ids[p / plan.block_tokens];
    uint64_t found = id == 0 ? 0 : cell(group, column, id)[p % plan.block_tokens];
    ++reads_;
    if (found != mix(h | 1, column)) {
      return "group " + std::to_string(group) + " column " + std::to_string(column) + " position " + std::to_string(p) + " id " +
             std::to_string(id) + ": wrong content for sequence " + std::to_string(row.id.value) + " at " + std::to_string(row.position);
    }
  }
  return {};
}

std::string Memory::run_tokens(Cache& cache, const PlannedStep& step, uint32_t group) {
  const GroupPlan& plan = config_.groups[group];
  uint64_t longest = 1;
  for (const PlannedRow& row : step.rows) longest = std::max(longest, ceil_div(row.position + row.num_tokens, plan.block_tokens));
  std::vector<int32_t> table(plan.ids_per_block * step.rows.size() * longest);
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  fill.kind = QUIRE_FILL_RAW_TABLE;
  fill.group = group;
  fill.destination = table.data();
  fill.capacity = table.size();
  fill.pitch = longest;
  uint64_t written = 0;
  Status filled = cache.step_fill(step.id, fill, &written);
  if (!filled.ok()) return filled.message();
  for (uint32_t c = 0; c < plan.ids_per_block; ++c) {
    for (size_t r = 0; r < step.rows.size(); ++r) {
      const PlannedRow& row = step.rows[r];
      const int32_t* ids = table.data() + (c * step.rows.size() + r) * longest;
      bool gone = true;
      for (uint64_t b = 0; b < longest; ++b) gone = gone && ids[b] == 0;
      if (gone) continue;  // finished or preempted while in flight
      std::string wrong = check_row(row, group, c, ids);
      if (!wrong.empty()) return wrong;
      for (uint64_t p = row.position; p < row.position + row.num_tokens; ++p) {
        int32_t id = ids[p / plan.block_tokens];
        if (id == 0) return "group " + std::to_string(group) + ": no memory for a new token";
        cell(group, c, id)[p % plan.block_tokens] = mix(stamp(row, group, p + 1), c);
      }
    }
  }
  return {};
}

std::string Memory::run_states(Cache& cache, const PlannedStep& step, uint32_t group) {
  const GroupPlan& plan = config_.groups[group];
  size_t rows = step.rows.size();
  std::vector<int32_t> ids[2];
  for (int w = 0; w < 2; ++w) {
    ids[w].resize(plan.ids_per_block * rows);
    quire_fill fill{};
    fill.struct_size = sizeof fill;
    fill.kind = w == 0 ? QUIRE_FILL_STATE_READ : QUIRE_FILL_STATE_WRITE;
    fill.group = group;
    fill.destination = ids[w].data();
    fill.capacity = ids[w].size();
    uint64_t written = 0;
    Status filled = cache.step_fill(step.id, fill, &written);
    if (!filled.ok()) return filled.message();
  }
  for (uint32_t c = 0; c < plan.ids_per_block; ++c) {
    for (size_t r = 0; r < rows; ++r) {
      const PlannedRow& row = step.rows[r];
      int32_t read = ids[0][c * rows + r], write = ids[1][c * rows + r];
      if (read == 0 && row.position > 0) continue;  // finished or preempted while in flight: nobody looks at the result
      uint64_t found = read == 0 ? 0 : cell(group, c, read)[0];
      uint64_t wanted = row.position == 0 ? 0 : mix(stamp(row, group, row.position), c);
      ++reads_;
      if (found != wanted) {
        return "group " + std::to_string(group) + " column " + std::to_string(c) + ": stale or foreign state for sequence " +
               std::to_string(row.id.value) + " at " + std::to_string(row.position);
      }
      if (write == read || write == 0) return "group " + std::to_string(group) + ": state written where it is read";
      if (write > 0) cell(group, c, write)[0] = mix(stamp(row, group, row.position + row.num_tokens), c);
    }
  }
  return {};
}

std::string Memory::run(Cache& cache, const PlannedStep& step) {
  auto zeroes = cache.step_zeroes(step.id);
  auto copies = cache.step_copies(step.id);
  if (!zeroes.ok() || !copies.ok()) return "the step is not in flight";
  for (const quire_zero& z : *zeroes) {
    if (z.group == kNone) {
      pages_[static_cast<uint32_t>(z.id)] = Page{};
    } else {
      for (uint64_t& s : cell(z.group, z.column, z.id)) s = 0;
    }
  }
  for (const quire_copy& c : *copies) {
    std::vector<uint64_t> from = cell(c.group, c.column, c.source);
    std::vector<uint64_t>& to = cell(c.group, c.column, c.destination);
    uint32_t n = c.num_tokens != 0 ? c.num_tokens : static_cast<uint32_t>(from.size());
    std::copy_n(from.begin() + c.first_token, n, to.begin() + c.first_token);
  }
  for (uint32_t g = 0; g < config_.groups.size(); ++g) {
    std::string wrong = config_.groups[g].is_state() ? run_states(cache, step, g) : run_tokens(cache, step, g);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace quire::model
