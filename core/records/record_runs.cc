#include "core/records/record_runs.h"

#include <algorithm>
#include <numeric>

#include "core/layout/runs.h"

namespace quire {
namespace {

// Of a period. Blocks of any two plans meet sooner; a record that asks for more would only take time.
constexpr uint64_t kMostCells = 1024;

// One side of a view alone: sides may lie in planes of their own.
quire_kv_view side_of(const quire_kv_view& view, uint32_t side) {
  quire_kv_view one = view;
  one.num_sides = 1;
  one.head_dim[0] = view.head_dim[side];
  one.offset[0] = view.offset[side];
  one.stride_page[0] = view.stride_page[side];
  one.stride_block[0] = view.stride_block[side];
  one.unit[0] = view.unit[side];
  one.stride_token[0] = view.stride_token[side];
  one.stride_head[0] = view.stride_head[side];
  one.stride_dim[0] = view.stride_dim[side];
  one.codec_params.data_bytes[0] = view.codec_params.data_bytes[side];
  one.codec_params.scale_bytes[0] = view.codec_params.scale_bytes[side];
  one.codec_params.tail_bytes[0] = view.codec_params.tail_bytes[side];
  return one;
}

// Of a cache of one of the family's groups on the shard: its views, its column among all of them. nullptr: there is none.
const PlaceViews* views_of(const Config& config, uint32_t shard, const RecordFamily& family, const RecordMember& member,  //
                           const GroupPlan** group, uint32_t* column) {
  const CachePlace* const place = config.find(member.layer, member.sub);
  if (place == nullptr || !family.has(config, *place)) return nullptr;
  *column = place->column;
  for (const uint32_t g : family.groups) {
    *group = &config.groups[g];
    if (place->group.value != g) {
      *column += config.groups[g].ids_per_block;
      continue;
    }
    const PlaceViews& views = config.shards[shard].views[static_cast<size_t>(place - config.places.data())];
    return views.empty() ? nullptr : &views;
  }
  return nullptr;
}

PayloadRun payload_run(const quire_run& run, uint64_t own_base, uint64_t record_base) {
  return {run.from_region, run.from_offset - own_base, run.bytes, run.count, run.from_stride, run.to_offset - record_base, run.to_stride};
}

}  // namespace

Result<RecordRuns> RecordRuns::make(const Config& config, uint32_t shard, const RecordFamily& family, const RecordShape& shape) {
  auto record = RecordViews::make(config, shape);
  if (!record.ok()) return record.take_status();
  const GroupPlan& plan = config.groups[family.groups[0]];
  if (plan.is_state() != shape.is_state) return invalid("record: group %u has other caches", family.groups[0]);
  RecordRuns runs;
  runs.block_bytes_ = record->block_bytes;
  runs.block_tokens_ = record->block_tokens;
  runs.own_tokens_ = plan.block_tokens;
  runs.columns_ = family.columns;
  if (shape.is_state) {
    QUIRE_RETURN_IF_ERROR(runs.add_cell(0, 0, config, shard, family, shape, *record));
  } else {
    if (plan.block_tokens == 0 || record->block_tokens == 0) return invalid("record: blocks of no token");
    runs.period_ = std::lcm(uint64_t{plan.block_tokens}, uint64_t{record->block_tokens});
    const uint64_t own = plan.block_tokens, others = record->block_tokens;
    if (runs.period_ / own + runs.period_ / others > kMostCells) {
      return invalid("record: blocks of %llu tokens, here of %llu: they meet too rarely", static_cast<unsigned long long>(others),
                     static_cast<unsigned long long>(own));
    }
    for (uint64_t begin = 0, end = 0; begin < runs.period_; begin = end) {
      end = std::min((begin / own + 1) * own, (begin / others + 1) * others);
      QUIRE_RETURN_IF_ERROR(runs.add_cell(begin, end, config, shard, family, shape, *record));
    }
  }
  uint64_t bytes = 0;
  for (const Piece& piece : runs.pieces_) bytes += piece.run.bytes * piece.run.count;
  const uint64_t blocks = shape.is_state ? 1 : runs.period_ / record->block_tokens;
  runs.is_whole_ = bytes == blocks * record->block_bytes;
  return runs;
}

// Own blocks are looked at on page 1, record blocks under id 1: offsets of all others follow.
Status RecordRuns::add_cell(uint64_t begin, uint64_t end, const Config& config, uint32_t shard, const RecordFamily& family,
                            const RecordShape& shape, const RecordViews& record) {
  const size_t first = pieces_.size();
  // The same id at every place of the table: only the block in question is asked for.
  std::vector<int32_t> own_ids, record_ids;
  if (!shape.is_state) record_ids.assign(end / record.block_tokens + 1, 1);
  std::vector<quire_run> found;
  for (size_t i = 0; i < shape.members.size(); ++i) {
    uint32_t column = 0;
    const GroupPlan* group = nullptr;
    const PlaceViews* const own = views_of(config, shard, family, shape.members[i], &group, &column);
    if (own == nullptr) continue;
    const auto own_id = static_cast<int32_t>(group->parts_per_page);
    if (!shape.is_state) own_ids.assign(end / group->block_tokens + 1, own_id);
    const auto add = [&](int64_t page_stride, int64_t part_stride) {
      for (const quire_run& run : found) {
        Piece& piece = pieces_.emplace_back();
        piece.region = run.from_region;
        piece.column = column;
        piece.parts_per_page = group->parts_per_page;
        piece.page_stride = page_stride;
        piece.part_stride = part_stride;
        piece.run = payload_run(run, static_cast<uint64_t>(page_stride), record.block_bytes);
      }
      found.clear();
    };
    for (size_t t = 0; shape.is_state && t < own->states.size(); ++t) {
      QUIRE_RETURN_IF_ERROR(append_state_runs(own->states[t], own_id, record.members[i].states[t], 1, &found));
      add(own->states[t].stride_page, own->states[t].stride_part);
    }
    for (uint32_t side = 0; !shape.is_state && side < own->kv.num_sides; ++side) {
      const quire_kv_view from = side_of(own->kv, side), to = side_of(record.members[i].kv, side);
      QUIRE_RETURN_IF_ERROR(append_runs({&from, own_ids, "own"}, {&to, record_ids, "record"}, begin, end, &found));
      add(from.stride_page[0], from.stride_block[0] * static_cast<int64_t>(from.kernel_blocks_per_part));
    }
  }
  merge(first);
  cells_.push_back(Cell{begin, end, static_cast<uint32_t>(first), static_cast<uint32_t>(pieces_.size())});
  return {};
}

// Dense pieces that go on at both ends become one, of all layers.
void RecordRuns::merge(size_t first) {
  const auto begin = pieces_.begin() + static_cast<std::ptrdiff_t>(first);
  std::sort(begin, pieces_.end(), [](const Piece& a, const Piece& b) { return a.run.payload_offset < b.run.payload_offset; });
  size_t kept = first;
  for (size_t i = first; i < pieces_.size(); ++i) {
    const Piece piece = pieces_[i];
    if (kept > first) {
      Piece& last = pieces_[kept - 1];
      const bool alike = last.region == piece.region && last.column == piece.column && last.page_stride == piece.page_stride &&
                         last.part_stride == piece.part_stride && last.run.count == 1 && piece.run.count == 1;
      if (alike && last.run.offset + last.run.bytes == piece.run.offset &&
          last.run.payload_offset + last.run.bytes == piece.run.payload_offset) {
        last.run.bytes += piece.run.bytes;
        continue;
      }
    }
    pieces_[kept++] = piece;
  }
  pieces_.resize(kept);
}

// Runs that go on where the last one ended join it: neighbouring pages move as one.
void RecordRuns::emit(const Cell& cell, std::span<const int32_t> ids, size_t stride, size_t block, uint64_t payload,
                      std::vector<PayloadRun>* out) const {
  for (uint32_t i = cell.first_piece; i < cell.end_piece; ++i) {
    const Piece& piece = pieces_[i];
    const int32_t id = ids[piece.column * stride + block];
    if (id <= 0) continue;
    const uint64_t page = static_cast<uint32_t>(id) / piece.parts_per_page, part = static_cast<uint32_t>(id) % piece.parts_per_page;
    PayloadRun run = piece.run;
    run.offset += page * static_cast<uint64_t>(piece.page_stride) + part * static_cast<uint64_t>(piece.part_stride);
    run.payload_offset += payload;
    if (!out->empty() && run.count == 1) {
      PayloadRun& last = out->back();
      if (last.count == 1 && last.region == run.region && last.offset + last.bytes == run.offset &&
          last.payload_offset + last.bytes == run.payload_offset) {
        last.bytes += run.bytes;
        continue;
      }
    }
    out->push_back(run);
  }
}

void RecordRuns::tokens(uint64_t begin, uint64_t end, std::span<const int32_t> ids, uint32_t first_block, uint64_t first_record_block,
                        std::vector<PayloadRun>* out) const {
  const size_t stride = ids.size() / columns_;
  for (uint64_t period = begin / period_ * period_; period < end; period += period_) {
    for (const Cell& cell : cells_) {
      const uint64_t at = period + cell.begin;
      if (period + cell.end <= begin || at >= end) continue;
      const uint64_t block = at / own_tokens_ - first_block;
      const uint64_t payload = (at / block_tokens_ - first_record_block) * block_bytes_;
      emit(cell, ids, stride, block, payload, out);
    }
  }
}

void RecordRuns::state(std::span<const int32_t> ids, std::vector<PayloadRun>* out) const {
  emit(cells_[0], ids, ids.size() / columns_, 0, 0, out);
}

}  // namespace quire
