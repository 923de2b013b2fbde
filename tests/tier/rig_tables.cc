// Arrays of a step as the rig's kernels read them, and tables as a device has them that is told only what changed.
#include <algorithm>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

template <typename T>
void fill_array(quire_step step, quire_fill_kind kind, const Engine::Target& target, uint64_t pitch, std::vector<T>* out) {
  quire_error err = QUIRE_INIT(quire_error);
  out->assign(std::max<uint64_t>(pitch, 1) * target.columns, -1);
  quire_fill f = QUIRE_INIT(quire_fill);
  f.kind = kind;
  f.group = target.group;
  f.shard = target.shard;
  f.destination = out->data();
  f.capacity = out->size();
  f.pitch = pitch;
  f.column_pitch = pitch;
  uint64_t written = 0;
  must(quire_step_fill(step, &f, sizeof f, 1, &written, &err), err, "fill");
}

}  // namespace

Engine::Arrays Engine::arrays_of(quire_step step, const Place& place) const {
  quire_error err = QUIRE_INIT(quire_error);
  quire_step_info step_info = QUIRE_INIT(quire_step_info);
  must(quire_step_get_info(step, &step_info, &err), err, "step");
  const quire_group_info& group = groups_[place.group];
  const Target target{place.group, place.shard, group.ids_per_block};
  Arrays a;
  if (group.is_state != 0) {
    fill_array(step, QUIRE_FILL_STATE_READ, target, 1, &a.read);
    fill_array(step, QUIRE_FILL_STATE_WRITE, target, 1, &a.write);
    return a;
  }
  a.pitch = group.table_pitch;
  fill_array(step, QUIRE_FILL_TABLE, target, a.pitch, &a.table);
  if (group.encoder_tokens == 0) fill_array(step, QUIRE_FILL_SLOTS, target, step_info.num_tokens, &a.slots);
  return a;
}

void Engine::upload(quire_step step, quire_sequence_id sequence) {
  quire_error err = QUIRE_INIT(quire_error);
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const quire_group_info& group = groups_[g];
    if (group.is_state != 0) continue;
    const auto place = std::find_if(places_.begin(), places_.end(), [g](const Place& p) { return p.group == g; });
    const Target target{g, place->shard, group.ids_per_block}, one{g, place->shard, 1};
    std::vector<int32_t> table, indptr, first, changed;
    fill_array(step, QUIRE_FILL_TABLE, target, group.table_pitch, &table);
    fill_array(step, QUIRE_FILL_UPDATE_INDPTR, one, 2, &indptr);
    fill_array(step, QUIRE_FILL_UPDATE_FIRST, one, 1, &first);
    const auto n = static_cast<uint64_t>(indptr[1]);
    if (n > 0) fill_array(step, QUIRE_FILL_UPDATE_INDICES, target, n, &changed);
    std::vector<int32_t>& own = uploaded_[{sequence, g}];
    own.resize(table.size(), -1);
    quire_lowering lowering = QUIRE_INIT(quire_lowering);
    must(quire_config_get_lowering(config_.get(), place->shard, g, &lowering, &err), err, "lowering");
    for (uint32_t c = 0; c < group.ids_per_block; ++c) {
      int32_t* const column = own.data() + c * group.table_pitch;
      for (uint64_t i = 0; i < n && static_cast<uint64_t>(first[0]) + i < group.table_pitch; ++i) column[first[0] + i] = changed[c * n + i];
      for (uint64_t k = 0; k < group.table_pitch; ++k) {
        const int32_t shown = table[c * group.table_pitch + k];
        const bool is_null = static_cast<uint64_t>(shown) == k % lowering.kernel_blocks_per_part * lowering.block_factor;
        if (shown > 0 && !is_null) {
          ASSERT_EQ(column[k], shown) << "group " << g << " entry " << k << " was not listed";
        }
      }
    }
  }
}

void Engine::verify() const {
  quire_error err = QUIRE_INIT(quire_error);
  EXPECT_EQ(cache_ == nullptr ? QUIRE_OK : quire_cache_verify(cache_.get(), &err), QUIRE_OK) << err.message;
}

}  // namespace quire::test
