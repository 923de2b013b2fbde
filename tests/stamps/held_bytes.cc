// Bytes that are held, and bytes that come late.
#include "tests/stamps/held_bytes.h"

#include <algorithm>

#include "tests/stamps/stamped_bytes.h"

namespace quire::stamps {

// Visits the rows of tokens before held.tokens, whole ones only, with the position of their last token.
template <typename Visit>
void StampedBytes::each_held_row(const HeldBytes& held, const ShardBytes& shard, const RowPlace& place, const Visit& visit) const {
  const HeldBlocks& group = held.groups[place.group];
  const uint64_t size = plan_.groups[place.group].block_tokens;
  for (uint64_t b = group.first; b < group.first + group.blocks; ++b) {
    const int32_t id = group.id(place.column, b);
    const uint64_t begin = b * size, tokens = held.tokens > begin ? std::min(held.tokens - begin, size) : 0;
    if (id == 0 || place.cross) continue;
    each_row(shard, place, id, 0, tokens, [&](const std::byte* at, uint64_t row) {
      if ((row + 1) * place.ratio <= tokens) visit(at, begin + (row + 1) * place.ratio - 1);
    });
  }
}

const std::byte* StampedBytes::held_state(const HeldBytes& held, const ShardBytes& shard, const StatePlace& place) const {
  const int32_t id = held.groups[place.group].id(place.column, 0);
  if (id == 0) return nullptr;
  const quire_lowering& l = shard.lowering[place.group];
  const auto v = static_cast<uint64_t>(id);
  return place.base + static_cast<int64_t>(v / l.parts_per_page * l.page_factor + v % l.parts_per_page * l.part_factor) * place.unit;
}

std::vector<uint64_t> StampedBytes::held_values(const HeldBytes& held) const {
  std::vector<uint64_t> values;
  for (const ShardBytes& shard : shards_) {
    for (const RowPlace& place : shard.rows) {
      each_held_row(held, shard, place, [&](const std::byte* at, uint64_t) { values.push_back(place.load(at)); });
    }
    for (const StatePlace& place : shard.states) {
      uint64_t value = 0;
      const std::byte* at = held_state(held, shard, place);
      if (at != nullptr) std::memcpy(&value, at, sizeof value);
      values.push_back(value);
    }
  }
  return values;
}

void StampedBytes::check_held(const HeldBytes& held, const TakenRow& text) {
  for (const ShardBytes& shard : shards_) {
    for (const RowPlace& place : shard.rows) {
      each_held_row(held, shard, place, [&](const std::byte* at, uint64_t p) {
        const uint64_t expected = stamp(place, text, p), found = place.load(at);
        if (!fits(place, p, expected, found)) report("a held token", place.layer, place.group, text, p, expected, found);
        count(place, 1);
      });
    }
    for (const StatePlace& place : shard.states) {
      const std::byte* at = held_state(held, shard, place);
      if (at == nullptr) continue;
      uint64_t found = 0;
      std::memcpy(&found, at, sizeof found);
      const uint64_t expected = stamped(text.hashes[held.end], place.salt);
      if (found != expected) report("a held state", place.layer, place.group, text, held.end, expected, found);
    }
  }
}

bool StampedBytes::is_null(uint32_t shard, uint32_t group, uint64_t kernel_block, int32_t lowered) const {
  const quire_lowering& l = shards_[shard].lowering[group];
  return static_cast<uint64_t>(lowered) == kernel_block % l.kernel_blocks_per_part * l.block_factor;
}

void StampedBytes::check_shared(const TakenStep& load) {
  const TakenRow& row = load.rows[0];
  for (size_t s = 0; s < shards_.size(); ++s) {
    for (const RowPlace& place : shards_[s].rows) {
      if (place.cross) continue;
      const quire_batch& batch = load.shards[s].batches[place.group];
      const int32_t* table = batch.table + place.column * batch.table_column_pitch;
      const auto slots = slots_of(place, batch, load, 0);
      for (uint64_t i = 0; i < slots.size(); ++i) {
        const uint64_t p = row.position + i, block = p / place.kernel_block;
        if (slots[i] >= 0 || is_null(static_cast<uint32_t>(s), place.group, block, table[block])) continue;
        const std::byte* at = slot_of(place, int64_t{table[block]} * place.kernel_block + static_cast<int64_t>(p % place.kernel_block), p);
        if (at == nullptr) continue;
        const uint64_t expected = stamp(place, row, p), found = place.load(at);
        if (!fits(place, p, expected, found))
          report("a token that is said to be cached", place.layer, place.group, row, p, expected, found);
        count(place, 1);
      }
    }
  }
}

bool StampedBytes::lost_row(const RowPlace& place, uint64_t position, std::span<const quire_load_failure> failures) {
  bool lost = false;  // a row came if all of its tokens did
  for (uint64_t t = 0; t < place.ratio && t <= position; ++t) lost = lost || fails(failures, place.group, position - t);
  return lost;
}

void StampedBytes::write_late(const LateLoad& late, Dice& dice) {
  const TakenRow& row = late.load.rows[0];
  for (size_t s = 0; s < shards_.size(); ++s) {
    for (const RowPlace& place : shards_[s].rows) {
      if (place.beside) continue;
      const auto slots = slots_of(place, late.load.shards[s].batches[place.group], late.load, 0);
      for (uint64_t i = 0; i < slots.size(); ++i) {
        const uint64_t p = (place.cross ? 0 : row.position) + i;
        std::byte* at = slot_of(place, slots[i], p);
        // Of a row of several tokens the hold has the block of its last one.
        const bool mine = at != nullptr && fails(late.failures, place.group, p);
        if (mine && dice.percent(30)) put(place, row, at, dice.roll());
      }
    }
    for (const StatePlace& place : shards_[s].states) {
      bool lost = false;
      for (uint64_t p = row.position; p < row.end; ++p) lost = lost || fails(late.failures, place.group, p);
      const int32_t id = written_state(place, late.load.shards[s].batches[place.group]);
      if (!lost || id < 0 || place.beside || !dice.percent(30)) continue;
      const uint64_t value = dice.roll();
      std::memcpy(place.base + id * place.unit, &value, sizeof value);
    }
  }
}

}  // namespace quire::stamps
