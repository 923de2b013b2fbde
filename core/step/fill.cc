// A step's tables, slots and lists, written into the caller's memory.
#include <algorithm>
#include <array>
#include <limits>
#include <mutex>

#include "core/base/checked.h"
#include "core/step/state.h"

namespace quire {
namespace {

// Where one array of a fill goes: element (column, row, i). Not initialised: a call has room for many and uses few.
struct Target {
  void* destination;
  uint32_t first_column;
  uint32_t num_columns;
  uint64_t pitch;
  uint64_t column_pitch;

  template <typename T>
  T* row(uint32_t column, uint64_t r) const {
    return static_cast<T*>(destination) + column * column_pitch + r * pitch;
  }
};

int64_t lowered(const quire_lowering& l, int32_t id, uint64_t kernel_block) {
  auto v = static_cast<uint32_t>(id);
  return static_cast<int64_t>(v / l.parts_per_page * l.page_factor + v % l.parts_per_page * l.part_factor + kernel_block * l.block_factor);
}

}  // namespace

struct Cache::Impl::Filling {
  const Impl& m;
  const uint32_t step_number;  // in flight, oldest first
  const Step& step;
  const quire_fill& fill;
  const GroupPlan& group;
  const quire_lowering& lowering;
  Target& target;

  uint64_t kernel_blocks(const Row& row) const { return ceil_div(row.position + row.num_tokens, group.kernel_block_tokens); }
  uint64_t blocks(const Row& row) const { return ceil_div(row.position + row.num_tokens, group.block_tokens); }
  bool raw() const { return fill.kind == QUIRE_FILL_RAW_TABLE; }
  uint64_t row_length(const Row& row) const { return raw() ? blocks(row) : kernel_blocks(row); }

  // The id of a block as this step sees it: a later step in flight may have replaced it by a copy of its own.
  int32_t id_at(const Row& row, std::span<const int32_t> table, uint32_t column, uint64_t block) const {
    for (uint32_t i = step_number + 1; i < m.num_steps; ++i) {
      for (const Replaced& r : m.step_at(i).replaced) {
        if (r.block != block || r.group != fill.group || m.step_at(i).rows[r.row].sequence != row.sequence) continue;
        PartIndex part = r.old_head;
        for (uint32_t c = 0; c < column; ++c) part = m.pool.next_in_block(part);
        return m.pool.id_of(GroupId(fill.group), part).value;
      }
    }
    return table[block];
  }

  // Updates: the row's blocks that the sequence's row before did not show as they are now, whole.
  uint64_t first_update(const Row& row) const {
    const RowGroup& rg = m.row_group(step, static_cast<size_t>(&row - step.rows.data()), fill.group);
    return std::min<uint64_t>(rg.settled, blocks(row));
  }
  uint64_t num_updates(const Row& row) const { return (blocks(row) - first_update(row)) * group.kernel_blocks_per_part; }

  void updates() const {
    for (uint32_t c = 0; c < target.num_columns; ++c) {
      const uint32_t column = target.first_column + c;
      auto* out = target.row<int32_t>(c, 0);
      for (const Row& row : step.rows) {
        const bool gone = m.dropped(row);
        const std::span<const int32_t> table = m.sequences.table(row.sequence, fill.group, column);
        for (uint64_t b = first_update(row); b < blocks(row); ++b) {
          const int32_t id = gone ? 0 : id_at(row, table, column, b);
          for (uint64_t j = 0; j < group.kernel_blocks_per_part; ++j) *out++ = static_cast<int32_t>(lowered(lowering, id, j));
        }
      }
    }
  }

  // The ids of one row, lowered unless raw; rows of a dropped sequence read the null page everywhere.
  void write_row(const Row& row, uint32_t column, int32_t* out) const {
    bool gone = m.dropped(row);
    std::span<const int32_t> table = m.sequences.table(row.sequence, fill.group, column);
    if (raw()) {
      for (uint64_t b = 0; b < blocks(row); ++b) out[b] = gone ? 0 : id_at(row, table, column, b);
      return;
    }
    uint64_t r = group.kernel_blocks_per_part;
    uint64_t n = kernel_blocks(row);
    for (uint64_t k = 0; k < n;) {
      int32_t id = gone ? 0 : id_at(row, table, column, k / r);
      for (uint64_t j = 0; j < r && k < n; ++j, ++k) out[k] = static_cast<int32_t>(lowered(lowering, id, j));
    }
  }

  void tables() const {
    for (uint32_t c = 0; c < target.num_columns; ++c) {
      for (size_t r = 0; r < step.rows.size(); ++r) {
        auto* out = target.row<int32_t>(c, r);
        write_row(step.rows[r], target.first_column + c, out);
        std::fill(out + row_length(step.rows[r]), out + target.pitch, static_cast<int32_t>(fill.fill_value));
      }
    }
  }

  void indices() const {
    for (uint32_t c = 0; c < target.num_columns; ++c) {
      auto* out = target.row<int32_t>(c, 0);
      for (const Row& row : step.rows) {
        write_row(row, target.first_column + c, out);
        out += row_length(row);
      }
    }
  }

  void slots() const {
    for (uint32_t c = 0; c < target.num_columns; ++c) {
      auto* out = target.row<int64_t>(c, 0);
      for (const Row& row : step.rows) {
        bool gone = m.dropped(row);
        std::span<const int32_t> table = m.sequences.table(row.sequence, fill.group, target.first_column + c);
        for (uint64_t p = row.position; p < row.position + row.num_tokens; ++p) {
          int32_t id = gone ? 0 : id_at(row, table, target.first_column + c, p / group.block_tokens);
          uint64_t in_block = p % group.block_tokens;
          int64_t k = lowered(lowering, id, in_block / group.kernel_block_tokens);
          *out++ = id == 0 ? -1 : k * group.kernel_block_tokens + static_cast<int64_t>(in_block % group.kernel_block_tokens);
        }
      }
    }
  }

  void states(bool write) const {
    for (size_t r = 0; r < step.rows.size(); ++r) {
      const RowGroup& rg = m.row_group(step, r, fill.group);
      bool gone = m.dropped(step.rows[r]);
      PartIndex part = write ? rg.write : rg.read;
      if (gone && !write) part = PartIndex(kNone);
      for (uint32_t c = 0; c < group.ids_per_block; ++c) {
        int32_t id = part.value == kNone ? 0 : m.pool.id_of(GroupId(fill.group), part).value;
        int64_t value = part.value == kNone && write ? -1 : lowered(lowering, id, 0);
        if (c >= target.first_column && c < target.first_column + target.num_columns) {
          target.row<int32_t>(c - target.first_column, 0)[r] = static_cast<int32_t>(value);
        }
        if (part.value != kNone) part = m.pool.next_in_block(part);
      }
    }
  }

  // Every state that the rows write.
  void writes(bool ends) const {
    uint64_t at = 0;
    for (size_t r = 0; r < step.rows.size(); ++r) {
      const RowGroup& rg = m.row_group(step, r, fill.group);
      for (uint32_t i = 0; i < rg.num_writes; ++i, ++at) {
        const StateWrite& write = step.writes[rg.first_write + i];
        PartIndex part = write.part;
        if (ends) static_cast<int32_t*>(fill.destination)[at] = static_cast<int32_t>(write.end);
        for (uint32_t c = 0; c < group.ids_per_block && !ends; ++c) {
          const int64_t value = part.value == kNone ? -1 : lowered(lowering, m.pool.id_of(GroupId(fill.group), part).value, 0);
          if (c >= target.first_column && c < target.first_column + target.num_columns)
            target.row<int32_t>(c - target.first_column, 0)[at] = static_cast<int32_t>(value);
          if (part.value != kNone) part = m.pool.next_in_block(part);
        }
      }
    }
  }

  uint64_t num_writes() const {
    uint64_t n = 0;
    for (size_t r = 0; r < step.rows.size(); ++r) n += m.row_group(step, r, fill.group).num_writes;
    return n;
  }

  void lengths() const {
    auto* out = static_cast<int32_t*>(fill.destination);
    int64_t sum = 0;
    bool cumulative = fill.kind == QUIRE_FILL_QUERY_INDPTR || fill.kind == QUIRE_FILL_TABLE_INDPTR ||
                      fill.kind == QUIRE_FILL_STATE_WRITE_INDPTR || fill.kind == QUIRE_FILL_UPDATE_INDPTR;
    if (cumulative) *out++ = 0;
    for (const Row& row : step.rows) {
      int64_t n = static_cast<int64_t>(row.position + row.num_tokens);
      if (fill.kind == QUIRE_FILL_QUERY_INDPTR) n = row.num_tokens;
      if (fill.kind == QUIRE_FILL_TABLE_INDPTR) n = static_cast<int64_t>(kernel_blocks(row));
      if (fill.kind == QUIRE_FILL_UPDATE_INDPTR) n = static_cast<int64_t>(num_updates(row));
      if (fill.kind == QUIRE_FILL_UPDATE_FIRST) n = static_cast<int64_t>(first_update(row) * group.kernel_blocks_per_part);
      if (fill.kind == QUIRE_FILL_STATE_WRITE_INDPTR)
        n = m.row_group(step, static_cast<size_t>(&row - step.rows.data()), fill.group).num_writes;
      sum += n;
      *out++ = static_cast<int32_t>(cumulative ? sum : n);
    }
  }

  void positions() const {
    auto* out = static_cast<int32_t*>(fill.destination);
    for (const Row& row : step.rows) {
      for (uint64_t p = row.position; p < row.position + row.num_tokens; ++p) *out++ = static_cast<int32_t>(p);
    }
  }

  // Elements the array needs; sets the pitches. 0 with an error for kinds that do not fit the group.
  Result<uint64_t> measure();
  Status fits() const;
  void write() const;

  // The fill of a step; *target lives as long as it.
  static Filling of(const Impl& m, uint32_t number, const Step& step, const quire_fill& fill, Target* target) {
    return {m, number, step, fill, m.plan(fill.group), m.config->shards[fill.shard].lowering[fill.group], *target};
  }
  // Whether the array can be written; the elements it needs and where they go.
  static Status check(const Impl& m, uint32_t number, const Step& step, const quire_fill& fill, Target* target, uint64_t* needed);
};

Status Cache::Impl::Filling::fits() const {
  bool per_state = fill.kind == QUIRE_FILL_STATE_READ || fill.kind == QUIRE_FILL_STATE_WRITE ||
                   fill.kind == QUIRE_FILL_STATE_WRITE_INDPTR || fill.kind == QUIRE_FILL_STATE_WRITES ||
                   fill.kind == QUIRE_FILL_STATE_WRITE_ENDS;
  bool per_token_group = fill.kind == QUIRE_FILL_TABLE || fill.kind == QUIRE_FILL_RAW_TABLE || fill.kind == QUIRE_FILL_TABLE_INDPTR ||
                         fill.kind == QUIRE_FILL_TABLE_INDICES || fill.kind == QUIRE_FILL_SLOTS || fill.kind == QUIRE_FILL_UPDATE_INDPTR ||
                         fill.kind == QUIRE_FILL_UPDATE_FIRST || fill.kind == QUIRE_FILL_UPDATE_INDICES;
  if (per_state == group.is_state() || (!per_state && !per_token_group)) return {};
  return invalid("kind: %d does not fit group %u, which %s", fill.kind, fill.group, group.is_state() ? "keeps states" : "has token tables");
}

Result<uint64_t> Cache::Impl::Filling::measure() {
  const uint64_t rows = step.rows.size();
  uint64_t longest = 0, sum = 0, updates = 0;
  QUIRE_RETURN_IF_ERROR(fits());
  for (const Row& row : step.rows) {
    longest = std::max(longest, row_length(row));
    sum += row_length(row);
    if (fill.kind == QUIRE_FILL_UPDATE_INDICES) updates += num_updates(row);
  }
  target.pitch = fill.pitch;
  switch (fill.kind) {
    case QUIRE_FILL_TABLE:
    case QUIRE_FILL_RAW_TABLE:
      if (fill.pitch < longest)
        return fail(QUIRE_OUT_OF_RANGE, "pitch: %llu, the longest row has %llu entries", static_cast<unsigned long long>(fill.pitch),
                    static_cast<unsigned long long>(longest));
      if (auto plane = checked_mul(rows, fill.pitch)) {
        target.column_pitch = *plane;
      } else {
        return fail(QUIRE_OUT_OF_RANGE, "pitch: %llu, times %llu rows is beyond 63 bits", static_cast<unsigned long long>(fill.pitch),
                    static_cast<unsigned long long>(rows));
      }
      break;
    case QUIRE_FILL_TABLE_INDICES:
      target.column_pitch = std::max(sum, fill.pitch);
      break;
    case QUIRE_FILL_UPDATE_INDICES:
      target.column_pitch = std::max(updates, fill.pitch);
      break;
    case QUIRE_FILL_SLOTS:
      target.column_pitch = std::max<uint64_t>(step.num_tokens, fill.pitch);
      break;
    case QUIRE_FILL_STATE_READ:
    case QUIRE_FILL_STATE_WRITE:
      target.column_pitch = std::max(rows, fill.pitch);
      break;
    case QUIRE_FILL_STATE_WRITES:
      target.column_pitch = std::max(num_writes(), fill.pitch);
      break;
    case QUIRE_FILL_STATE_WRITE_ENDS:
      return num_writes();
    case QUIRE_FILL_STATE_WRITE_INDPTR:
      return rows + 1;
    case QUIRE_FILL_KV_LEN:
    case QUIRE_FILL_UPDATE_FIRST:
      return rows;
    case QUIRE_FILL_UPDATE_INDPTR:
    case QUIRE_FILL_TABLE_INDPTR:
    case QUIRE_FILL_QUERY_INDPTR:
      return rows + 1;
    case QUIRE_FILL_POSITIONS:
      return uint64_t{step.num_tokens};
    default:
      return invalid("kind: %d is unknown", fill.kind);
  }
  uint64_t least = target.column_pitch;
  if (fill.column_pitch != 0) target.column_pitch = fill.column_pitch;
  if (target.column_pitch < least)
    return fail(QUIRE_OUT_OF_RANGE, "column_pitch: %llu, at least %llu", static_cast<unsigned long long>(fill.column_pitch),
                static_cast<unsigned long long>(least));
  auto all = checked_mul(target.column_pitch, target.num_columns - 1);
  auto total = all ? checked_add(*all, least) : all;
  if (!total) {
    return fail(QUIRE_OUT_OF_RANGE, "pitch %llu, column_pitch %llu: %u columns are beyond 63 bits",
                static_cast<unsigned long long>(fill.pitch), static_cast<unsigned long long>(fill.column_pitch), target.num_columns);
  }
  return *total;
}

Status Cache::Impl::Filling::check(const Impl& m, uint32_t number, const Step& step, const quire_fill& fill, Target* target,
                                   uint64_t* needed) {
  if (fill.group >= m.num_groups()) return fail(QUIRE_OUT_OF_RANGE, "group: %u of %u", fill.group, m.num_groups());
  if (fill.shard >= m.config->shards.size()) return fail(QUIRE_OUT_OF_RANGE, "shard: %u of %zu", fill.shard, m.config->shards.size());
  const uint32_t columns = m.plan(fill.group).ids_per_block;
  if (fill.first_column >= columns || fill.num_columns > columns - fill.first_column) {
    return fail(QUIRE_OUT_OF_RANGE, "columns: [%u, +%u) of %u", fill.first_column, fill.num_columns, columns);
  }
  *target = {fill.destination, fill.first_column, fill.num_columns != 0 ? fill.num_columns : columns - fill.first_column, 0, 0};
  auto measured = of(m, number, step, fill, target).measure();
  if (!measured.ok()) return measured.take_status();
  *needed = *measured;
  if (fill.capacity < *needed)
    return fail(QUIRE_OUT_OF_RANGE, "capacity: %llu elements, %llu needed", static_cast<unsigned long long>(fill.capacity),
                static_cast<unsigned long long>(*needed));
  if (fill.destination == nullptr) return invalid("destination: NULL");
  const uint64_t element = fill.kind == QUIRE_FILL_SLOTS ? sizeof(int64_t) : sizeof(int32_t);
  if (reinterpret_cast<uintptr_t>(fill.destination) % element != 0) {
    return invalid("destination: %p is not aligned to the %llu bytes of an element", fill.destination,
                   static_cast<unsigned long long>(element));
  }
  if (fill.fill_value != static_cast<int32_t>(fill.fill_value)) {
    return fail(QUIRE_OUT_OF_RANGE, "fill_value: %lld does not fit 32 bits", static_cast<long long>(fill.fill_value));
  }
  return {};
}

void Cache::Impl::Filling::write() const {
  switch (fill.kind) {
    case QUIRE_FILL_TABLE:
    case QUIRE_FILL_RAW_TABLE:
      return tables();
    case QUIRE_FILL_TABLE_INDICES:
      return indices();
    case QUIRE_FILL_UPDATE_INDICES:
      return updates();
    case QUIRE_FILL_SLOTS:
      return slots();
    case QUIRE_FILL_STATE_READ:
      return states(false);
    case QUIRE_FILL_STATE_WRITE:
      return states(true);
    case QUIRE_FILL_STATE_WRITES:
      return writes(false);
    case QUIRE_FILL_STATE_WRITE_ENDS:
      return writes(true);
    case QUIRE_FILL_POSITIONS:
      return positions();
    default:
      return lengths();
  }
}

Status Cache::step_fill(StepId id, std::span<const quire_fill> fills, uint64_t* written) {
  std::shared_lock lock(impl_->mutex);
  const Impl& m = *impl_;
  uint32_t number = 0;
  const Step* step = m.step_of(id, &number);
  if (step == nullptr) return fail(QUIRE_NOT_FOUND, "step: %llu is not in flight", static_cast<unsigned long long>(id.value));
  std::array<Target, QUIRE_MAX_FILLS> targets;  // the caller passes no more
  Status refused;
  for (size_t i = 0; i < fills.size(); ++i) {
    Status status = Impl::Filling::check(m, number, *step, fills[i], &targets[i], &written[i]);
    if (status.ok() || !refused.ok()) continue;
    refused = fills.size() == 1 ? std::move(status) : fail(status.code(), "fills[%zu].%s", i, status.message().c_str());
  }
  if (!refused.ok()) return refused;
  for (size_t i = 0; i < fills.size(); ++i) Impl::Filling::of(m, number, *step, fills[i], &targets[i]).write();
  return {};
}

Status Cache::step_info(StepId id, quire_step_info* info) {
  std::shared_lock lock(impl_->mutex);
  uint32_t number = 0;
  const Step* step = impl_->step_of(id, &number);
  if (step == nullptr) return fail(QUIRE_NOT_FOUND, "step: %llu is not in flight", static_cast<unsigned long long>(id.value));
  info->num_rows = static_cast<uint32_t>(step->rows.size());
  info->num_tokens = step->num_tokens;
  info->num_copies = step->copies.size();
  info->num_zeroes = step->zeroes.size();
  return {};
}

Result<std::span<const quire_copy>> Cache::step_copies(StepId id) {
  std::shared_lock lock(impl_->mutex);
  uint32_t number = 0;
  const Step* step = impl_->step_of(id, &number);
  if (step == nullptr) return fail(QUIRE_NOT_FOUND, "step: %llu is not in flight", static_cast<unsigned long long>(id.value));
  return std::span<const quire_copy>(step->copies);
}

Result<std::span<const quire_zero>> Cache::step_zeroes(StepId id) {
  std::shared_lock lock(impl_->mutex);
  uint32_t number = 0;
  const Step* step = impl_->step_of(id, &number);
  if (step == nullptr) return fail(QUIRE_NOT_FOUND, "step: %llu is not in flight", static_cast<unsigned long long>(id.value));
  return std::span<const quire_zero>(step->zeroes);
}

}  // namespace quire
