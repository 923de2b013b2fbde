#include "tests/stamps/uses_in_flight.h"

#include <algorithm>
#include <string>

namespace quire::stamps {

UsesInFlight::UsesInFlight(const Plan* plan) : plan_(*plan), ids_(plan->groups.size()) {
  for (uint32_t g = 0; g < plan_.groups.size(); ++g) {
    shards_.push_back(shard_with(plan_, g));
    quire_lowering l = QUIRE_INIT(quire_lowering);
    demand(quire_config_get_lowering(plan_.config.get(), shards_[g], g, &l, nullptr) == QUIRE_OK, "lowering");
    for (uint64_t v = 0; v < plan_.info.num_pages * l.parts_per_page; ++v) {
      for (uint64_t k = 0; k < l.kernel_blocks_per_part; ++k) {
        const uint64_t lowered = v / l.parts_per_page * l.page_factor + v % l.parts_per_page * l.part_factor + k * l.block_factor;
        ids_[g].emplace(static_cast<int64_t>(lowered), static_cast<int32_t>(v));
      }
    }
  }
}

int32_t UsesInFlight::id_of(uint32_t group, int64_t lowered) const {
  const auto found = ids_[group].find(lowered);
  demand(found != ids_[group].end(), "a lowered id of no id");
  return found->second;
}

void UsesInFlight::add(uint32_t group, int64_t lowered, uint64_t family, bool writes, std::vector<Use>* uses) const {
  const int32_t id = id_of(group, lowered);
  const uint64_t page = static_cast<uint64_t>(id) / plan_.groups[group].parts_per_page;
  if (page != 0) uses->push_back({page, id, group, family, writes});
}

void UsesInFlight::add_tokens(const TakenStep& step, uint32_t group, size_t r, std::vector<Use>* uses) const {
  const TakenRow& row = step.rows[r];
  const quire_group_info& info = plan_.groups[group];
  const quire_batch& batch = step.shards[shards_[group]].batches[group];
  const auto block = static_cast<uint64_t>(info.kernel_block_tokens);
  uint64_t from = 0;
  if (info.chunk != 0) from = row.position / info.chunk * info.chunk;
  if (info.window != 0 && info.encoder_tokens == 0) from = row.position + 1 > info.window ? row.position + 1 - info.window : 0;
  const auto length = static_cast<uint64_t>(batch.kv_len[r]);
  const bool cross = info.encoder_tokens != 0;
  // A load has no slots for what is cached.
  const auto has_slots = [&](uint32_t column, uint64_t begin, uint64_t end) {
    const int64_t* slots = batch.slots + column * batch.slots_column_pitch + batch.query_indptr[r];
    return std::any_of(slots + (begin - row.position), slots + (end - row.position), [](int64_t slot) { return slot >= 0; });
  };
  for (uint32_t c = 0; c < batch.num_columns; ++c) {
    const int32_t* table = batch.table + c * batch.table_column_pitch + r * batch.table_pitch;
    for (uint64_t k = 0; k * block < length; ++k) {
      const uint64_t begin = k * block, end = std::min(begin + block, length);
      const bool writes = cross ? row.position == 0 : end > row.position && has_slots(c, std::max(begin, row.position), end);
      const bool reads = begin < info.sink_tokens || end > from;
      if (reads || writes) add(group, table[k], row.family, writes, uses);
    }
  }
}

void UsesInFlight::add_states(const TakenStep& step, uint32_t group, size_t r, std::vector<Use>* uses) const {
  const quire_batch& batch = step.shards[shards_[group]].batches[group];
  const bool lists = batch.state_write_indptr != nullptr;
  const auto first = lists ? static_cast<uint64_t>(batch.state_write_indptr[r]) : r;
  const auto last = lists ? static_cast<uint64_t>(batch.state_write_indptr[r + 1]) : r + 1;
  for (uint32_t c = 0; c < batch.num_columns; ++c) {
    const int32_t read = batch.state_read[c * batch.state_read_column_pitch + r];
    if (read >= 0) add(group, read, step.rows[r].family, false, uses);
    for (uint64_t i = first; i < last; ++i) {
      const int32_t write = batch.state_write[c * batch.state_write_column_pitch + i];
      if (write >= 0) add(group, write, step.rows[r].family, true, uses);
    }
  }
}

std::vector<UsesInFlight::Use> UsesInFlight::uses_of(const TakenStep& step) const {
  std::vector<Use> uses;
  for (uint32_t g = 0; g < plan_.groups.size(); ++g) {
    for (size_t r = 0; r < step.rows.size(); ++r) {
      plan_.groups[g].is_state != 0 ? add_states(step, g, r, &uses) : add_tokens(step, g, r, &uses);
    }
  }
  return uses;
}

void UsesInFlight::begin(const TakenStep& step) {
  // A page that is zeroed as a whole is nobody's yet.
  for (const quire_zero& z : step.zeroes) {
    const auto at = pages_.find(static_cast<uint64_t>(z.id));
    demand(z.group != 0xffffffffu || at == pages_.end() || at->second.empty(), "a step zeroes a page that a step in flight uses");
  }
  std::vector<Use> uses = uses_of(step);
  for (const Use& use : uses) pages_[use.page].push_back(use);
  for (const Use& use : uses) {
    for (const Use& other : pages_[use.page]) {
      if (other.group == use.group && (other.id != use.id || other.family == use.family || !use.writes)) continue;
      throw Mismatch("group " + std::to_string(use.group) + " uses id " + std::to_string(use.id) + ", page " + std::to_string(use.page) +
                     ", which a step in flight uses as id " + std::to_string(other.id) + " of group " + std::to_string(other.group));
    }
  }
  steps_[step.step.id] = std::move(uses);
}

void UsesInFlight::end(const TakenStep& step) {
  const auto found = steps_.find(step.step.id);
  if (found == steps_.end()) return;
  for (const Use& use : found->second) {
    std::vector<Use>& page = pages_[use.page];
    const auto same = std::find_if(page.begin(), page.end(), [&](const Use& other) {
      return other.id == use.id && other.group == use.group && other.family == use.family && other.writes == use.writes;
    });
    *same = page.back();
    page.pop_back();
  }
  steps_.erase(found);
}

}  // namespace quire::stamps
