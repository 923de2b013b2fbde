#include "tests/stamps/stamped_bytes.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/stamps/ledger.h"

namespace quire::stamps {
namespace {

uint64_t load(const std::byte* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void store(std::byte* at, uint64_t value) { std::memcpy(at, &value, sizeof value); }

// A stamp of two: of the tokens, and of the symbol after them.
uint64_t drafted(uint64_t tokens, uint64_t next) { return (tokens >> 32 << 32) | (next >> 32); }

constexpr uint64_t kRubbish = 0xbadbadbadbadbadbull;

}  // namespace

bool fails(std::span<const quire_load_failure> failures, uint32_t group, uint64_t token) {
  return std::any_of(failures.begin(), failures.end(), [&](const quire_load_failure& f) {
    return f.group == group && token >= f.first_token && token - f.first_token < f.num_tokens;
  });
}

StampedBytes::StampedBytes(const Plan* plan) : plan_(*plan) {
  shards_.resize(plan_.info.num_shards);
  for (uint32_t s = 0; s < plan_.info.num_shards; ++s) {
    add_shard(s);
    for (size_t layer = 0; layer < plan_.layers.size(); ++layer) add_places(s, layer);
  }
}

void StampedBytes::add_shard(uint32_t s) {
  quire_error err = QUIRE_INIT(quire_error);
  ShardBytes& shard = shards_[s];
  uint64_t count = 0;
  (void)quire_config_list_regions(plan_.config.get(), s, nullptr, sizeof(quire_region_info), 0, &count, &err);
  shard.infos.assign(count, QUIRE_INIT(quire_region_info));
  must_call(quire_config_list_regions(plan_.config.get(), s, shard.infos.data(), sizeof(quire_region_info), count, &count, &err), err,
            "regions");
  for (const quire_region_info& info : shard.infos) {
    shard.regions.emplace_back(info.bytes);
    shard.tags.emplace_back(info.bytes / tag_bytes() + 2);
  }
  for (uint32_t g = 0; g < plan_.groups.size(); ++g) {
    shard.lowering.push_back(QUIRE_INIT(quire_lowering));
    must_call(quire_config_get_lowering(plan_.config.get(), s, g, &shard.lowering.back(), &err), err, "lowering");
  }
}

std::vector<quire_memory_binding> StampedBytes::bindings(uint32_t s) {
  std::vector<quire_memory_binding> all;
  for (uint32_t r = 0; r < shards_[s].regions.size(); ++r) {
    auto& region = shards_[s].regions[r];
    quire_memory_binding binding{};
    binding.struct_size = sizeof binding;
    binding.region = r;
    binding.address = region.data();
    binding.bytes = region.size();
    binding.device_type = QUIRE_DEVICE_CPU;
    all.push_back(binding);
  }
  return all;
}

void StampedBytes::add_places(uint32_t s, size_t index) {
  quire_error err = QUIRE_INIT(quire_error);
  const quire_layer& layer = plan_.layers[index];
  const quire_layer_place& at = plan_.places[index];
  ShardBytes& shard = shards_[s];
  const auto number = static_cast<uint32_t>(index);
  if (layer.kind == QUIRE_LAYER_STATE) {
    for (uint32_t t = 0; t < layer.num_state_tensors; ++t) {
      quire_state_view view = QUIRE_INIT(quire_state_view);
      const quire_code code = quire_config_get_state_view(plan_.config.get(), s, layer.layer, layer.sub, t, &view, &err);
      if (code == QUIRE_NOT_FOUND) return;  // another stage has it
      must_call(code, err, "view of a state");
      demand(view.group == at.group && view.column == at.column, "a view is of the layer's place");
      const uint64_t salt = chained(chained(0x5a5a, index), 100 + t);
      std::byte* const base = shard.regions[view.region].data() + view.offset;
      const uint32_t cut = view.shard_dim - 1;  // along which ranks have slices
      const uint64_t slices = plan_.by_head && view.shard_dim != 0 ? view.shape[cut] : 1;
      for (uint64_t i = 0; i < slices; ++i) {
        const uint64_t slice = view.rank * slices + i;
        shard.states.push_back({number, view.group, view.column, base + (slices > 1 ? static_cast<int64_t>(i) * view.stride[cut] : 0),
                                view.unit, plan_.by_head ? chained(salt, view.shard_dim != 0 ? slice : 0) : salt, i > 0});
      }
    }
    return;
  }
  for (RowPlace& place : row_places(plan_, s, number)) {
    place.region = shard.regions[place.region_number].data();
    place.base = shard.regions[place.region_number].data() + place.offset;
    place.tags = shard.tags[place.region_number].data();
    shard.rows.push_back(place);
  }
}

void StampedBytes::zero_page(ShardBytes* shard, uint64_t page) {
  for (size_t r = 0; r < shard->regions.size(); ++r) {
    const quire_region_info& info = shard->infos[r];
    const uint64_t plane = info.bytes / std::max<uint64_t>(info.num_planes, 1);
    for (uint64_t p = 0; p < info.num_planes; ++p) {
      const uint64_t first = p * plane + page * info.page_stride;
      std::memset(shard->regions[r].data() + first, 0, info.page_stride);
      std::fill_n(shard->tags[r].begin() + static_cast<long>(first / tag_bytes()), info.page_stride / tag_bytes(), 0);
    }
  }
}

void StampedBytes::zero(const quire_zero& z) {
  for (ShardBytes& shard : shards_) {
    if (z.group == 0xffffffffu) {
      zero_page(&shard, static_cast<uint64_t>(z.id));
      continue;
    }
    for (const RowPlace& place : shard.rows) {
      if (place.group != z.group || place.column != z.column) continue;
      each_row(shard, place, z.id, 0, plan_.groups[z.group].block_tokens, [&](std::byte* at, uint64_t) {
        place.store(at, 0);
        place.mark(at, 0);
      });
    }
    for (const StatePlace& place : shard.states) {
      if (place.group != z.group || place.column != z.column) continue;
      const quire_lowering& l = shard.lowering[z.group];
      const auto v = static_cast<uint64_t>(z.id);
      store(place.base + static_cast<int64_t>(v / l.parts_per_page * l.page_factor + v % l.parts_per_page * l.part_factor) * place.unit, 0);
    }
  }
}

void StampedBytes::copy(const quire_copy& c) {
  const uint64_t block = plan_.groups[c.group].block_tokens;
  const uint64_t end = c.num_tokens == 0 ? block : c.first_token + c.num_tokens;
  demand(end <= block || plan_.groups[c.group].is_state != 0, "a copy ends behind its block");
  for (ShardBytes& shard : shards_) {
    const quire_lowering& l = shard.lowering[c.group];
    const auto at = [&](const StatePlace& place, int32_t id) {
      const auto v = static_cast<uint64_t>(id);
      return place.base + static_cast<int64_t>(v / l.parts_per_page * l.page_factor + v % l.parts_per_page * l.part_factor) * place.unit;
    };
    for (const RowPlace& place : shard.rows) {
      if (place.group != c.group || place.column != c.column) continue;
      std::vector<std::pair<uint64_t, uint32_t>> values;
      each_row(shard, place, c.source, c.first_token, end,
               [&](const std::byte* row, uint64_t) { values.emplace_back(place.load(row), place.tag(row)); });
      size_t next = 0;
      each_row(shard, place, c.destination, c.first_token, end, [&](std::byte* row, uint64_t) {
        place.store(row, values[next].first);
        place.mark(row, values[next++].second);
      });
    }
    for (const StatePlace& place : shard.states) {
      if (place.group == c.group && place.column == c.column) store(at(place, c.destination), load(at(place, c.source)));
    }
  }
}

void StampedBytes::prepare(TakenStep* step) {
  if (step->prepared) return;
  step->prepared = true;
  for (const quire_zero& z : step->zeroes) zero(z);
  for (const quire_copy& c : step->copies) copy(c);
}

// Where the row of a token is written; NULL if this shard does not write it with this token.
std::byte* StampedBytes::slot_of(const RowPlace& place, int64_t slot, uint64_t position) {
  if (slot < 0 || position % place.ratio != place.ratio - 1) return nullptr;
  const uint64_t row = static_cast<uint64_t>(slot) % place.kernel_block / place.ratio;
  if (row % place.ranks != place.rank) return nullptr;
  return place.base + slot / place.kernel_block * place.unit + place.row_offset(row / place.ranks);
}

uint64_t StampedBytes::stamp(const RowPlace& place, const TakenRow& row, uint64_t position) {
  if (place.cross) return place.narrowed(stamped(chained(row.encoder_hash, position), place.salt));
  const uint64_t own = stamped(row.hashes[position + 1], place.salt);
  return place.draft ? drafted(own, stamped(row.hashes[position + 2], place.salt)) : place.narrowed(own);
}

// Whether a stamp is as good as the expected one. Sequences that go on differently share the block
// before: what a draft layer has of its last token is of the symbol with which the first of them
// went on.
bool StampedBytes::fits(const RowPlace& place, uint64_t position, uint64_t expected, uint64_t found) const {
  if (!place.draft || (position + 1) % plan_.groups[place.group].block_tokens != 0) return found == expected;
  return found >> 32 == expected >> 32;
}

uint32_t StampedBytes::tag_of(const RowPlace& place, const TakenRow& row) {
  return static_cast<uint32_t>(chained(row.hashes[0], place.group)) | 1;
}

void StampedBytes::put(const RowPlace& place, const TakenRow& row, std::byte* at, uint64_t value) {
  place.store(at, value);
  place.mark(at, tag_of(place, row));
}

// Nothing of others is in the kernel block of a slot.
void StampedBytes::check_block(const RowPlace& place, const TakenRow& row, int64_t slot, uint64_t position) const {
  if (ignores_owners_) return;
  const uint32_t own = tag_of(place, row);
  const int64_t first = slot / place.kernel_block * place.kernel_block;
  for (int64_t t = place.ratio - 1; t < place.kernel_block; t += place.ratio) {
    const std::byte* at = slot_of(place, first + t, static_cast<uint64_t>(t));
    if (at == nullptr || place.tag(at) == 0 || place.tag(at) == own) continue;
    report("foreign bytes in a block", place.layer, place.group, row, position, own, place.tag(at));
  }
}

// Slots of the tokens that a row writes: those that it computes, or all of its encoder's.
std::span<const int64_t> StampedBytes::slots_of(const RowPlace& place, const quire_batch& batch, const TakenStep& step, size_t row) {
  const int64_t* column = batch.slots + place.column * batch.slots_column_pitch;
  if (!place.cross) return {column + batch.query_indptr[row], column + batch.query_indptr[row + 1]};
  uint64_t first = 0;
  for (size_t r = 0; r < row; ++r) first += step.rows[r].position == 0 ? step.rows[r].encoder : 0;
  return {column + first, step.rows[row].position == 0 ? step.rows[row].encoder : 0};
}

void StampedBytes::write_row(const RowPlace& place, const quire_batch& batch, const TakenStep& step, size_t r) {
  const TakenRow& row = step.rows[r];
  const auto slots = slots_of(place, batch, step, r);
  const int32_t* table = batch.table + place.column * batch.table_column_pitch + r * batch.table_pitch;
  const uint64_t first = place.cross ? 0 : row.position;
  for (uint64_t i = 0; i < slots.size(); ++i) {
    const uint64_t p = first + i;
    const int64_t shown = int64_t{table[p / place.kernel_block]} * place.kernel_block + static_cast<int64_t>(p % place.kernel_block);
    if (slots[i] >= 0 && slots[i] != shown) {
      report("slot", place.layer, place.group, row, p, static_cast<uint64_t>(shown), static_cast<uint64_t>(slots[i]));
    }
    if (slots[i] >= 0 && (i == 0 || p % place.kernel_block == 0)) check_block(place, row, slots[i], p);
    if (std::byte* at = slot_of(place, slots[i], p)) put(place, row, at, stamp(place, row, p));
  }
  if (place.draft) write_ahead(place, batch, step, r);
}

// Drafts write rubbish behind the row, as far as its last block reaches.
void StampedBytes::write_ahead(const RowPlace& place, const quire_batch& batch, const TakenStep& step, size_t r) {
  const auto slots = slots_of(place, batch, step, r);
  const uint64_t end = step.rows[r].end, ahead = std::max(plan_.layers[place.layer].look_ahead, 1u);
  if (slots.back() < 0) return;
  for (uint64_t p = end; p < end + ahead && p % place.kernel_block != 0; ++p) {
    if (std::byte* at = slot_of(place, slots.back() + static_cast<int64_t>(p - end + 1), p)) put(place, step.rows[r], at, kRubbish);
  }
}

void StampedBytes::read_range(const RowPlace& place, const int32_t* table, const TakenRow& row, uint64_t from, uint64_t to) {
  if (place.plain()) {
    for (uint64_t p = from; p < to;) {
      const uint64_t k = p / place.kernel_block, end = std::min<uint64_t>((k + 1) * place.kernel_block, to);
      const std::byte* block = place.base + table[k] * place.unit;
      for (; p < end; ++p) {
        const uint64_t expected = stamp(place, row, p);
        const uint64_t found = load(block + static_cast<int64_t>(p - k * place.kernel_block) * place.stride);
        if (found != expected && !fits(place, p, expected, found)) [[unlikely]]
          report("token", place.layer, place.group, row, p, expected, found);
      }
    }
    count(place, to > from ? to - from : 0);
    return;
  }
  // Whole rows of the range: each is computed with its last token.
  for (uint64_t p = (from + place.ratio - 1) / place.ratio * place.ratio + place.ratio - 1; p < to; p += place.ratio) {
    const int64_t slot = int64_t{table[p / place.kernel_block]} * place.kernel_block + static_cast<int64_t>(p % place.kernel_block);
    const std::byte* at = slot_of(place, slot, p);
    if (at == nullptr) continue;
    count(place, 1);
    const uint64_t expected = stamp(place, row, p), found = place.load(at);
    if (!fits(place, p, expected, found)) report("row", place.layer, place.group, row, p, expected, found);
  }
}

// All that attention may see from any token of the row.
void StampedBytes::read_row(const RowPlace& place, const quire_batch& batch, const TakenStep& step, size_t r) {
  const TakenRow& row = step.rows[r];
  const quire_layer& layer = plan_.layers[place.layer];
  const int32_t* table = batch.table + place.column * batch.table_column_pitch + r * batch.table_pitch;
  const uint64_t length = place.cross ? row.encoder : row.end;
  if (static_cast<uint64_t>(batch.kv_len[r]) != length) {
    report("length", place.layer, place.group, row, row.position, length, static_cast<uint64_t>(batch.kv_len[r]));
  }
  uint64_t from = 0;
  if (layer.kind == QUIRE_LAYER_CHUNKED) {
    from = row.position / layer.window * layer.window;
  } else if (layer.window != 0) {
    from = row.position + 1 > layer.window ? row.position + 1 - layer.window : 0;
    const uint64_t head = std::min<uint64_t>({layer.sink_tokens, row.end, from});
    read_range(place, table, row, 0, head);
  }
  read_range(place, table, row, from, length);
}

void StampedBytes::run_state(const StatePlace& place, const quire_batch& batch, const TakenStep& step, size_t r) {
  const TakenRow& row = step.rows[r];
  const int32_t id = batch.state_read[place.column * batch.state_read_column_pitch + r];
  const uint64_t expected = row.position == 0 ? 0 : stamped(row.hashes[row.position], place.salt);
  const uint64_t found = id < 0 ? 0 : load(place.base + id * place.unit);
  ++reads_;
  if (found != expected) report("state", place.layer, place.group, row, row.position, expected, found);
  const int32_t* writes = batch.state_write + place.column * batch.state_write_column_pitch;
  const bool lists = batch.state_write_indptr != nullptr;
  const uint64_t first = lists ? static_cast<uint64_t>(batch.state_write_indptr[r]) : r;
  const uint64_t last = lists ? static_cast<uint64_t>(batch.state_write_indptr[r + 1]) : r + 1;
  for (uint64_t i = first; i < last; ++i) {
    const uint64_t end = lists ? static_cast<uint64_t>(batch.state_write_ends[i]) : row.end;
    if (end < row.position || end > row.end) report("end of a state", place.layer, place.group, row, row.position, row.end, end);
    if (writes[i] < 0) continue;
    if (writes[i] == 0) report("write to the null state", place.layer, place.group, row, row.position, 1, 0);
    store(place.base + writes[i] * place.unit, stamped(row.hashes[end], place.salt));
  }
}

void StampedBytes::run(TakenStep* step) {
  prepare(step);
  step->ran = true;
  for (size_t s = 0; s < shards_.size(); ++s) {
    const ShardArrays& arrays = step->shards[s];
    for (const RowPlace& place : shards_[s].rows) {
      const quire_batch& batch = arrays.batches[place.group];
      for (size_t r = 0; r < step->rows.size(); ++r) write_row(place, batch, *step, r);
      for (size_t r = 0; r < step->rows.size(); ++r) read_row(place, batch, *step, r);
    }
    for (const StatePlace& place : shards_[s].states) {
      const quire_batch& batch = arrays.batches[place.group];
      const size_t rows = step->rows.size();
      const bool backwards = step->step.id % 2 != 0;  // rows run in any order
      for (size_t r = 0; r < rows; ++r) run_state(place, batch, *step, backwards ? rows - 1 - r : r);
    }
  }
}

// Whether nothing keeps the block of a token once there are `end` tokens.
bool StampedBytes::dead_behind(uint32_t g, uint64_t position, uint64_t end) const {
  const quire_group_info& group = plan_.groups[g];
  uint64_t tail = 0;
  if (group.chunk != 0) tail = end / group.chunk * group.chunk;
  if (group.window != 0 && end + 1 > group.window) tail = end + 1 - group.window;
  tail -= std::min(tail, plan_.retained);
  const uint64_t block = position / group.block_tokens * group.block_tokens;
  return group.encoder_tokens == 0 && block >= group.sink_tokens && block + group.block_tokens <= tail;
}

void StampedBytes::bring(const TakenStep& load, std::span<const quire_load_failure> failures) {
  check_shared(load);
  const TakenRow& row = load.rows[0];
  for (size_t s = 0; s < shards_.size(); ++s) {
    for (const RowPlace& place : shards_[s].rows) {
      const auto slots = slots_of(place, load.shards[s].batches[place.group], load, 0);
      for (uint64_t i = 0; i < slots.size(); ++i) {
        const uint64_t p = (place.cross ? 0 : row.position) + i;
        std::byte* at = slot_of(place, slots[i], p);
        // The block that the load begins in was there before.
        const bool fresh = i >= plan_.groups[place.group].block_tokens;
        demand(slots[i] < 0 || !fresh || !dead_behind(place.group, p, row.end), "a load has slots for what nobody needs");
        if (slots[i] >= 0 && (i == 0 || p % place.kernel_block == 0)) check_block(place, row, slots[i], p);
        if (at == nullptr) continue;
        put(place, row, at, lost_row(place, p, failures) ? kRubbish : stamp(place, row, p));
      }
    }
    for (const StatePlace& place : shards_[s].states) {
      const int32_t id = written_state(place, load.shards[s].batches[place.group]);
      bool lost = false;
      for (uint64_t p = row.position; p < row.end; ++p) lost = lost || fails(failures, place.group, p);
      if (id >= 0) store(place.base + id * place.unit, lost ? kRubbish : stamped(row.hashes[row.end], place.salt));
    }
  }
}

int32_t StampedBytes::written_state(const StatePlace& place, const quire_batch& batch) {
  const int64_t at = batch.state_write_indptr != nullptr ? batch.state_write_indptr[1] - 1 : 0;
  return batch.state_write[static_cast<int64_t>(place.column * batch.state_write_column_pitch) + at];
}

void StampedBytes::correct_drafts(const TakenStep& step, size_t r, uint64_t token, const History& text) {
  for (size_t s = 0; s < shards_.size(); ++s) {
    for (const RowPlace& place : shards_[s].rows) {
      if (!place.draft) continue;
      const auto slots = slots_of(place, step.shards[s].batches[place.group], step, r);
      if (std::byte* at = slot_of(place, slots[token - step.rows[r].position], token)) {
        store(at, drafted(stamped(text.hashes()[token + 1], place.salt), stamped(text.hashes()[token + 2], place.salt)));
      }
    }
  }
}

void StampedBytes::report(const char* what, uint32_t layer, uint32_t group, const TakenRow& row, uint64_t position, uint64_t expected,
                          uint64_t found) const {
  char text[320];
  std::snprintf(text, sizeof text, "%s of sequence %llx, position %llu, row [%llu, %llu), layer %u, group %u: expected %llx, found %llx",
                what, static_cast<unsigned long long>(row.id), static_cast<unsigned long long>(position),
                static_cast<unsigned long long>(row.position), static_cast<unsigned long long>(row.end), layer, group,
                static_cast<unsigned long long>(expected), static_cast<unsigned long long>(found));
  throw Mismatch(text);
}

}  // namespace quire::stamps
