// Writes the arrays of a step into the caller's memory. A source describes the step: LiveStep for a
// cache, StepImage for a follower.
//
//   config(), num_rows(), num_tokens()   of the step
//   position(r), end(r), num_tokens(r)   of a row: tokens [position, end)
//   encoder(r)                           tokens that its cross attention reads; a row at position 0
//                                        also writes them
//   read_ids(r, g, column, first, ids)   ids of a token table's blocks from `first` on, as many as
//                                        there is room for; 0: not resident
//   settled(r, g)                        blocks before this one have not changed since the
//                                        sequence's previous row
//   here(r, g)                           blocks before this one are cached, but for one that an
//                                        earlier row began: nothing is written to them
//   state_read(r, g, put), state_write(r, g, put)
//                                        put(column, id) for every column; id -1: none
//   num_writes(r, g), write_end(r, g, i), write(r, g, i, put)
//                                        all states that a row writes
#pragma once

#include <quire/step.h>

#include <algorithm>
#include <array>
#include <span>

#include "core/base/checked.h"
#include "core/base/divisor.h"
#include "core/base/status.h"
#include "core/plan/cache_config.h"
#include "core/step/id_pieces.h"

namespace quire {

// The destination of one array of a fill: element (column, row, i). Not initialised, because a call
// has room for many and uses few.
struct FillTarget {
  void* destination;
  uint32_t first_column;
  uint32_t num_columns;
  uint64_t pitch;
  uint64_t column_pitch;

  template <typename T>
  T* row(uint32_t column, uint64_t r) const {
    return static_cast<T*>(destination) + column * column_pitch + r * pitch;
  }
  // Does nothing for a column of the group that the fill does not request.
  template <typename T>
  void put(uint32_t column, uint64_t at, T value) const {
    if (column >= first_column && column < first_column + num_columns) row<T>(column - first_column, 0)[at] = value;
  }
};

// What quire_lowering defines: page * page_factor + part * part_factor, both of the id. Where
// page_factor = parts_per_page * part_factor, this is id * part_factor.
class Lowering {
 public:
  explicit Lowering(const quire_lowering& l)
      : factor_(l.part_factor),
        more_per_page_(l.page_factor - l.parts_per_page * l.part_factor),  // modulo 2^64
        page_(l.parts_per_page) {}

  bool is_plain() const { return more_per_page_ == 0; }
  // Only with is_plain().
  uint64_t plain(int32_t id) const { return static_cast<uint32_t>(id) * factor_; }
  uint64_t operator()(int32_t id) const {
    const auto v = static_cast<uint32_t>(id);
    return v * factor_ + page_.quotient(v) * more_per_page_;
  }

 private:
  uint64_t factor_;
  uint64_t more_per_page_;  // it can be negative
  Divisor page_;
};

template <typename Source>
struct Filling {
  const Source& source;
  const quire_fill& fill;
  const GroupPlan& group;
  const quire_lowering& lowering;
  FillTarget& target;
  const Divisor by_block, by_kernel_block;  // lengths have 31 bits

  // All are borrowed.
  Filling(const Source& of, const quire_fill& f, FillTarget* t)
      : source(of),
        fill(f),
        group(of.config().groups[f.group]),
        lowering(of.config().shards[f.shard].lowering[f.group]),
        target(*t),
        by_block(group.block_tokens),
        by_kernel_block(group.kernel_block_tokens) {}

  size_t rows() const { return source.num_rows(); }
  // What arrays of fixed shape have: rows and tokens behind those of the step are empty.
  uint64_t shape_rows() const { return std::max<uint64_t>(rows(), fill.num_rows); }
  uint64_t shape_tokens() const { return std::max<uint64_t>(source.num_tokens(), fill.num_tokens); }
  uint64_t length(size_t r) const { return group.live.fixed ? source.encoder(r) : source.end(r); }
  // The first token that the row writes.
  uint64_t first_new(size_t r) const { return group.live.fixed && source.position(r) > 0 ? length(r) : source.position(r); }
  uint64_t num_new(size_t r) const { return length(r) - first_new(r); }
  uint64_t kernel_blocks(size_t r) const { return up(by_kernel_block, length(r)); }
  uint64_t blocks(size_t r) const { return up(by_block, length(r)); }
  static uint64_t up(const Divisor& by, uint64_t tokens) {
    if (tokens == 0) return 0;
    return by.quotient(static_cast<uint32_t>(tokens) - 1) + 1;
  }
  bool raw() const { return fill.kind == QUIRE_FILL_RAW_TABLE; }
  uint64_t row_length(size_t r) const { return raw() ? blocks(r) : kernel_blocks(r); }

  // Updates: the row's blocks that the sequence's row before did not show as they are now, whole.
  uint64_t first_update(size_t r) const { return std::min<uint64_t>(source.settled(r, fill.group), blocks(r)); }
  uint64_t num_updates(size_t r) const { return (blocks(r) - first_update(r)) * group.kernel_blocks_per_part; }

  template <typename Take>
  void each_piece(size_t r, uint32_t column, uint64_t first, uint64_t end, const Take& take) const {
    quire::each_piece(source, TableStretch{r, fill.group, column, first, end}, take);
  }

  // The kernel blocks of each id; returns the end.
  int32_t* write_lowered(const Lowering& lower, std::span<const int32_t> ids, int32_t* out) const {
    const uint64_t per_part = group.kernel_blocks_per_part, step = lowering.block_factor;
    if (per_part == 1 && lower.is_plain()) {
      for (const int32_t id : ids) *out++ = static_cast<int32_t>(lower.plain(id));
      return out;
    }
    for (const int32_t id : ids) {
      const uint64_t first = lower(id);
      for (uint64_t j = 0; j < per_part; ++j) *out++ = static_cast<int32_t>(first + j * step);
    }
    return out;
  }

  void updates() const {
    const Lowering lower(lowering);
    for (uint32_t c = 0; c < target.num_columns; ++c) {
      auto* out = target.row<int32_t>(c, 0);
      const auto put = [&](auto ids) { out = write_lowered(lower, ids, out); };
      for (size_t r = 0; r < rows(); ++r) {
        each_piece(r, target.first_column + c, first_update(r), blocks(r), put);
      }
    }
  }

  // The ids of one row, lowered unless raw.
  void write_row(const Lowering& lower, size_t r, uint32_t column, int32_t* out) const {
    if (raw()) return source.read_ids(r, fill.group, column, 0, {out, blocks(r)});
    const uint64_t per_part = group.kernel_blocks_per_part;
    const uint64_t whole = kernel_blocks(r) / per_part, rest = kernel_blocks(r) % per_part;
    each_piece(r, column, 0, whole, [&](auto ids) { out = write_lowered(lower, ids, out); });
    // Of the last block no more than has tokens.
    each_piece(r, column, whole, blocks(r), [&](auto ids) {
      uint64_t at = lower(ids[0]);
      for (uint64_t j = 0; j < rest; ++j) {
        *out++ = static_cast<int32_t>(at);
        at += lowering.block_factor;
      }
    });
  }

  void tables() const {
    const Lowering lower(lowering);
    for (uint32_t c = 0; c < target.num_columns; ++c) {
      for (size_t r = 0; r < rows(); ++r) {
        auto* out = target.row<int32_t>(c, r);
        write_row(lower, r, target.first_column + c, out);
        std::fill(out + row_length(r), out + target.pitch, static_cast<int32_t>(fill.fill_value));
      }
      std::fill(target.row<int32_t>(c, rows()), target.row<int32_t>(c, shape_rows()), 0);
    }
  }

  void indices() const {
    const Lowering lower(lowering);
    for (uint32_t c = 0; c < target.num_columns; ++c) {
      auto* out = target.row<int32_t>(c, 0);
      for (size_t r = 0; r < rows(); ++r) {
        write_row(lower, r, target.first_column + c, out);
        out += row_length(r);
      }
    }
  }

  // Slots of tokens [begin, end) of the block whose first kernel block is `first`; returns the end.
  int64_t* write_slots(uint64_t first, uint64_t begin, uint64_t end, int64_t* out) const {
    const uint64_t size = group.kernel_block_tokens;
    for (uint64_t j = size == group.block_tokens ? 0 : begin / size; begin < end; ++j) {
      const uint64_t stop = std::min(end, (j + 1) * size);
      const uint64_t slot = (first + j * lowering.block_factor) * size + begin - j * size;
      for (uint64_t i = 0; i < stop - begin; ++i) out[i] = static_cast<int64_t>(slot + i);
      out += stop - begin;
      begin = stop;
    }
    return out;
  }

  // Of a row's tokens [at, end).
  int64_t* slots_between(const Lowering& lower, size_t r, uint32_t column,  //
                         uint64_t at, uint64_t end, int64_t* out) const {
    if (at == end) return out;
    const uint64_t size = group.block_tokens, first = by_block.quotient(static_cast<uint32_t>(at));
    uint64_t block = first * size;  // its first token
    each_piece(r, target.first_column + column, first, up(by_block, end), [&](auto ids) {
      for (const int32_t id : ids) {
        const uint64_t from = at - block, to = std::min(size, end - block);
        if (id == 0) {
          out = std::fill_n(out, to - from, int64_t{-1});
        } else {
          out = write_slots(lower(id), from, to, out);
        }
        at = block += size;
      }
    });
    return out;
  }

  void slots() const {
    const Lowering lower(lowering);
    const uint64_t size = group.block_tokens;
    for (uint32_t c = 0; c < target.num_columns; ++c) {
      auto* out = target.row<int64_t>(c, 0);
      for (size_t r = 0; r < rows(); ++r) {
        uint64_t at = first_new(r), end = length(r);
        const uint64_t here = source.here(r, fill.group) * size, shared = up(by_block, at) * size;
        if (shared < here) {
          out = slots_between(lower, r, c, at, shared, out);
          at = std::min(here, end);
          out = std::fill_n(out, at - shared, int64_t{-1});
        }
        out = slots_between(lower, r, c, at, end, out);
      }
      auto* end = target.row<int64_t>(c, 0) + fill.num_tokens;
      if (out < end) std::fill(out, end, int64_t{-1});
    }
  }

  // One entry per row: id 0 is the null page's.
  void pad(int32_t id) const {
    for (uint32_t c = 0; c < target.num_columns; ++c) {
      std::fill_n(static_cast<int32_t*>(target.destination) + c * target.column_pitch + rows(), shape_rows() - rows(), id);
    }
  }

  // The null page's state is read where there is none; nothing is written there.
  void reads() const {
    const Lowering lower(lowering);
    for (size_t r = 0; r < rows(); ++r) {
      const auto put = [&](uint32_t column, int32_t id) {
        const uint64_t state = lower(std::max(id, 0));
        target.put(column, r, static_cast<int32_t>(state));
      };
      source.state_read(r, fill.group, put);
    }
    pad(0);
  }
  static int32_t written(const Lowering& lower, int32_t id) {
    if (id < 0) return -1;
    return static_cast<int32_t>(lower(id));
  }

  void last_writes() const {
    const Lowering lower(lowering);
    for (size_t r = 0; r < rows(); ++r) {
      const auto put = [&](uint32_t c, int32_t id) { target.put(c, r, written(lower, id)); };
      source.state_write(r, fill.group, put);
    }
    pad(-1);
  }

  // Every state that the rows write.
  void writes(bool ends) const {
    const Lowering lower(lowering);
    uint64_t at = 0;
    const auto put = [&](uint32_t c, int32_t id) { target.put(c, at, written(lower, id)); };
    for (size_t r = 0; r < rows(); ++r) {
      for (uint32_t i = 0; i < source.num_writes(r, fill.group); ++i, ++at) {
        if (ends) {
          static_cast<int32_t*>(fill.destination)[at] = static_cast<int32_t>(source.write_end(r, fill.group, i));
          continue;
        }
        source.write(r, fill.group, i, put);
      }
    }
  }

  uint64_t num_writes() const {
    uint64_t n = 0;
    for (size_t r = 0; r < rows(); ++r) n += source.num_writes(r, fill.group);
    return n;
  }

  void lengths() const {
    auto* out = static_cast<int32_t*>(fill.destination);
    int64_t sum = 0;
    const bool cumulative = fill.kind == QUIRE_FILL_QUERY_INDPTR || fill.kind == QUIRE_FILL_TABLE_INDPTR ||
                            fill.kind == QUIRE_FILL_STATE_WRITE_INDPTR || fill.kind == QUIRE_FILL_UPDATE_INDPTR ||
                            fill.kind == QUIRE_FILL_SLOTS_INDPTR;
    if (cumulative) *out++ = 0;
    for (size_t r = 0; r < rows(); ++r) {
      auto n = static_cast<int64_t>(length(r));
      if (fill.kind == QUIRE_FILL_SLOTS_INDPTR) n = static_cast<int64_t>(num_new(r));
      if (fill.kind == QUIRE_FILL_QUERY_INDPTR) n = source.num_tokens(r);
      if (fill.kind == QUIRE_FILL_TABLE_INDPTR) n = static_cast<int64_t>(kernel_blocks(r));
      if (fill.kind == QUIRE_FILL_UPDATE_INDPTR) n = static_cast<int64_t>(num_updates(r));
      if (fill.kind == QUIRE_FILL_UPDATE_FIRST) n = static_cast<int64_t>(first_update(r) * group.kernel_blocks_per_part);
      if (fill.kind == QUIRE_FILL_STATE_WRITE_INDPTR) n = source.num_writes(r, fill.group);
      sum += n;
      *out++ = static_cast<int32_t>(cumulative ? sum : n);
    }
    std::fill_n(out, shape_rows() - rows(), cumulative ? static_cast<int32_t>(sum) : 0);
  }

  void positions() const {
    auto* out = static_cast<int32_t*>(fill.destination);
    for (size_t r = 0; r < rows(); ++r) {
      for (uint64_t p = source.position(r); p < source.end(r); ++p) *out++ = static_cast<int32_t>(p);
    }
    std::fill_n(out, shape_tokens() - source.num_tokens(), 0);
  }

  // Elements that the array needs. Sets the pitches. Errors: kinds that do not fit the group,
  // pitches that are too small.
  Result<uint64_t> measure();
  Status measure_table();
  Status fits() const;
  void write() const;

  // Whether the array can be written; the elements it needs and where they go.
  static Status check(const Source& source, const quire_fill& fill, FillTarget* target, uint64_t* needed);
};

template <typename Source>
Status Filling<Source>::fits() const {
  bool per_state = fill.kind == QUIRE_FILL_STATE_READ || fill.kind == QUIRE_FILL_STATE_WRITE ||
                   fill.kind == QUIRE_FILL_STATE_WRITE_INDPTR || fill.kind == QUIRE_FILL_STATE_WRITES ||
                   fill.kind == QUIRE_FILL_STATE_WRITE_ENDS;
  bool per_token_group = fill.kind == QUIRE_FILL_TABLE || fill.kind == QUIRE_FILL_RAW_TABLE || fill.kind == QUIRE_FILL_TABLE_INDPTR ||
                         fill.kind == QUIRE_FILL_TABLE_INDICES || fill.kind == QUIRE_FILL_SLOTS || fill.kind == QUIRE_FILL_UPDATE_INDPTR ||
                         fill.kind == QUIRE_FILL_UPDATE_FIRST || fill.kind == QUIRE_FILL_UPDATE_INDICES ||
                         fill.kind == QUIRE_FILL_SLOTS_INDPTR;
  if (per_state == group.is_state() || (!per_state && !per_token_group)) return {};
  return invalid("kind: %d does not fit group %u, which %s", fill.kind, fill.group, group.is_state() ? "keeps states" : "has token tables");
}

template <typename Source>
Status Filling<Source>::measure_table() {
  uint64_t longest = 0;
  for (size_t r = 0; r < rows(); ++r) longest = std::max(longest, row_length(r));
  const unsigned long long pitch = fill.pitch, most = longest, all = shape_rows();  // to print
  if (pitch < most) {
    return fail(QUIRE_OUT_OF_RANGE, "pitch: %llu, the longest row has %llu entries", pitch, most);
  }
  const auto plane = checked_mul(shape_rows(), fill.pitch);
  if (!plane) {
    return fail(QUIRE_OUT_OF_RANGE, "pitch: %llu, times %llu rows is beyond 63 bits", pitch, all);
  }
  target.column_pitch = *plane;
  return {};
}

template <typename Source>
Result<uint64_t> Filling<Source>::measure() {
  const uint64_t shape = shape_rows();
  QUIRE_RETURN_IF_ERROR(fits());
  const auto sum = [&](auto of_row) {
    uint64_t n = 0;
    for (size_t r = 0; r < rows(); ++r) n += of_row(r);
    return n;
  };
  target.pitch = fill.pitch;
  switch (fill.kind) {
    case QUIRE_FILL_TABLE:
    case QUIRE_FILL_RAW_TABLE:
      QUIRE_RETURN_IF_ERROR(measure_table());
      break;
    case QUIRE_FILL_TABLE_INDICES:
      target.column_pitch = std::max(sum([&](size_t r) { return row_length(r); }), fill.pitch);
      break;
    case QUIRE_FILL_UPDATE_INDICES:
      target.column_pitch = std::max(sum([&](size_t r) { return num_updates(r); }), fill.pitch);
      break;
    case QUIRE_FILL_SLOTS:
      target.column_pitch = std::max(sum([&](size_t r) { return num_new(r); }), fill.pitch);
      target.column_pitch = std::max<uint64_t>(target.column_pitch, fill.num_tokens);
      break;
    case QUIRE_FILL_STATE_READ:
    case QUIRE_FILL_STATE_WRITE:
      target.column_pitch = std::max(shape, fill.pitch);
      break;
    case QUIRE_FILL_STATE_WRITES:
      target.column_pitch = std::max(num_writes(), fill.pitch);
      break;
    case QUIRE_FILL_STATE_WRITE_ENDS:
      return num_writes();
    case QUIRE_FILL_KV_LEN:
    case QUIRE_FILL_UPDATE_FIRST:
      return shape;
    case QUIRE_FILL_STATE_WRITE_INDPTR:
    case QUIRE_FILL_UPDATE_INDPTR:
    case QUIRE_FILL_TABLE_INDPTR:
    case QUIRE_FILL_QUERY_INDPTR:
    case QUIRE_FILL_SLOTS_INDPTR:
      return shape + 1;
    case QUIRE_FILL_POSITIONS:
      return shape_tokens();
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

template <typename Source>
Status Filling<Source>::check(const Source& source, const quire_fill& fill, FillTarget* target, uint64_t* needed) {
  const Config& config = source.config();
  if (fill.group >= config.groups.size()) return fail(QUIRE_OUT_OF_RANGE, "group: %u of %zu", fill.group, config.groups.size());
  if (fill.shard >= config.shards.size()) return fail(QUIRE_OUT_OF_RANGE, "shard: %u of %zu", fill.shard, config.shards.size());
  const uint32_t columns = config.groups[fill.group].ids_per_block;
  if (fill.first_column >= columns || fill.num_columns > columns - fill.first_column) {
    return fail(QUIRE_OUT_OF_RANGE, "columns: [%u, +%u) of %u", fill.first_column, fill.num_columns, columns);
  }
  if (fill.num_rows != 0 && fill.num_rows < source.num_rows())
    return fail(QUIRE_OUT_OF_RANGE, "num_rows: %u, the step has %zu", fill.num_rows, static_cast<size_t>(source.num_rows()));
  if (fill.num_tokens != 0 && fill.num_tokens < source.num_tokens())
    return fail(QUIRE_OUT_OF_RANGE, "num_tokens: %u, the step has %llu", fill.num_tokens,
                static_cast<unsigned long long>(source.num_tokens()));
  *target = {fill.destination, fill.first_column, fill.num_columns != 0 ? fill.num_columns : columns - fill.first_column, 0, 0};
  auto measured = Filling(source, fill, target).measure();
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

template <typename Source>
void Filling<Source>::write() const {
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
      return reads();
    case QUIRE_FILL_STATE_WRITE:
      return last_writes();
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

// All of fills, or none; written has as many elements.
template <typename Source>
Status fill_step(const Source& source, std::span<const quire_fill> fills, uint64_t* written) {
  std::array<FillTarget, QUIRE_MAX_FILLS> targets;  // the caller passes no more
  Status refused;
  for (size_t i = 0; i < fills.size(); ++i) {
    Status status = Filling<Source>::check(source, fills[i], &targets[i], &written[i]);
    if (status.ok() || !refused.ok()) continue;
    refused = fills.size() == 1 ? std::move(status) : fail(status.code(), "fills[%zu].%s", i, status.message().c_str());
  }
  if (!refused.ok()) return refused;
  for (size_t i = 0; i < fills.size(); ++i) Filling<Source>(source, fills[i], &targets[i]).write();
  return {};
}

}  // namespace quire
