#include "core/layout/runs.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstring>
#include <numeric>
#include <string>

#include "core/base/checked.h"
#include "core/layout/codec.h"
#include "core/model/dtype.h"

namespace quire {
namespace {

struct Axis {
  uint64_t extent;
  int64_t from;
  int64_t to;
};

// A peer's numbers may ask for any amount of runs; this many take 256 MiB.
constexpr uint64_t kMaxRuns = uint64_t{1} << 22;

Status check_number(uint64_t runs) {
  if (runs <= kMaxRuns) return {};
  return fail(QUIRE_OUT_OF_RANGE, "more than %" PRIu64 " runs; ask for fewer tokens at once", kMaxRuns);
}

// Emits a box of grains: axes that continue the dense piece on both ends join it, the next is the count, the others are walked.
Status append_box(std::array<Axis, 4> axes, quire_run run, std::vector<quire_run>* out) {
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.from < b.from; });
  std::array<Axis, 4> outer{};
  uint32_t num_outer = 0;
  for (const Axis& axis : axes) {
    if (axis.extent == 1) continue;
    const auto bytes = static_cast<int64_t>(run.bytes);
    if (num_outer == 0 && axis.from == bytes && axis.to == bytes) {
      run.bytes *= axis.extent;
    } else {
      outer[num_outer++] = axis;
    }
  }
  run.count = 1;
  uint64_t walks = 1;
  if (num_outer != 0) {
    run.count = outer[0].extent;
    run.from_stride = outer[0].from;
    run.to_stride = outer[0].to;
  }
  for (uint32_t i = 1; i < num_outer; ++i) walks = checked_mul(walks, outer[i].extent).value_or(kMaxSize);
  QUIRE_RETURN_IF_ERROR(check_number(std::min(walks, kMaxSize - out->size()) + out->size()));
  const quire_run base = run;
  for (uint64_t n = 0; n < walks; ++n) {
    uint64_t rest = n;
    run = base;
    for (uint32_t i = 1; i < num_outer; ++i) {
      run.from_offset += rest % outer[i].extent * static_cast<uint64_t>(outer[i].from);
      run.to_offset += rest % outer[i].extent * static_cast<uint64_t>(outer[i].to);
      rest /= outer[i].extent;
    }
    out->push_back(run);
  }
  return {};
}

// Runs that continue each other on both ends become one: dense pieces first, then equal pieces at equal distance.
void merge_runs(size_t first, std::vector<quire_run>* runs) {
  const auto begin = runs->begin() + static_cast<std::ptrdiff_t>(first);
  std::sort(begin, runs->end(), [](const quire_run& a, const quire_run& b) {
    return a.from_region != b.from_region ? a.from_region < b.from_region : a.from_offset < b.from_offset;
  });
  const auto fold = [&](auto&& joins) {
    size_t kept = first;
    for (size_t i = first; i < runs->size(); ++i) {
      const quire_run run = (*runs)[i];
      if (kept != first && run.from_region == (*runs)[kept - 1].from_region && run.to_region == (*runs)[kept - 1].to_region &&
          joins(&(*runs)[kept - 1], run)) {
        continue;
      }
      (*runs)[kept++] = run;
    }
    runs->resize(kept);
  };
  fold([](quire_run* last, const quire_run& run) {
    if (last->count != 1 || run.count != 1) return false;
    if (last->from_offset + last->bytes != run.from_offset || last->to_offset + last->bytes != run.to_offset) return false;
    last->bytes += run.bytes;
    return true;
  });
  fold([](quire_run* last, const quire_run& run) {
    if (last->bytes != run.bytes) return false;
    const auto from = static_cast<int64_t>(run.from_offset - last->from_offset);
    const auto to = static_cast<int64_t>(run.to_offset - last->to_offset);
    if (last->count == 1 && run.count == 1) {
      last->count = 2;
      last->from_stride = from;
      last->to_stride = to;
      return true;
    }
    const auto reach = static_cast<int64_t>(last->count);
    if (last->count == 1 || from != reach * last->from_stride || to != reach * last->to_stride) return false;
    if (run.count != 1 && (run.from_stride != last->from_stride || run.to_stride != last->to_stride)) return false;
    last->count += run.count;
    return true;
  });
}

// Ranks that take turns row by row: row x of a view is row x * ranks + rank of the sequence.
uint64_t ranks_of(const quire_kv_view& view) { return std::max(view.context_ranks, 1u); }
// How many of the sequence's first rows a view has.
uint64_t own_rows(const quire_kv_view& view, uint64_t rows) {
  return rows <= view.context_rank ? 0 : ceil_div(rows - view.context_rank, ranks_of(view));
}

uint64_t rows_per_id(const quire_kv_view& view) { return uint64_t{view.block_tokens} * view.kernel_blocks_per_part; }

// Where row `row` of a view lies: the offset of its kernel block and its number in it. False where nothing is resident.
bool locate(const KvEnd& end, uint64_t row, uint32_t side, uint64_t* block, uint64_t* inside) {
  const quire_kv_view& view = *end.view;
  const int32_t id = end.ids[row / rows_per_id(view)];
  const uint64_t parts = view.blocks_per_page / view.kernel_blocks_per_part;
  if (id < 0 || static_cast<uint64_t>(id) < parts) return false;  // page 0 is the null page
  const uint64_t page = static_cast<uint64_t>(id) / parts;
  const uint64_t first = static_cast<uint64_t>(id) % parts * view.kernel_blocks_per_part;
  const uint64_t j = first + row % rows_per_id(view) / view.block_tokens;
  *block = static_cast<uint64_t>(view.offset[side]) + page * static_cast<uint64_t>(view.stride_page[side]) +
           j * static_cast<uint64_t>(view.stride_block[side]);
  *inside = row % view.block_tokens;
  return true;
}

Status check_ids(const KvEnd& end, uint64_t begin, uint64_t rows_end) {
  const quire_kv_view& view = *end.view;
  const uint64_t needed = ceil_div(own_rows(view, rows_end), rows_per_id(view));
  if (needed > end.ids.size()) {
    return fail(QUIRE_OUT_OF_RANGE, "%s_ids: %zu ids, tokens up to %" PRIu64 " need %" PRIu64, end.name, end.ids.size(),
                rows_end * view.tokens_per_row, needed);
  }
  const uint64_t all = view.num_pages * (view.blocks_per_page / view.kernel_blocks_per_part);
  for (uint64_t i = own_rows(view, begin) / rows_per_id(view); i < needed; ++i) {
    if (end.ids[i] < 0 || static_cast<uint64_t>(end.ids[i]) < all) continue;
    return fail(QUIRE_OUT_OF_RANGE, "%s_ids[%" PRIu64 "] = %d; the view has %" PRIu64 " ids", end.name, i, end.ids[i], all);
  }
  return {};
}

// The heads that both ends have.
struct HeadRange {
  uint32_t first = 0;
  uint32_t end = 0;
};

HeadRange shared_heads(const quire_kv_view& a, const quire_kv_view& b) {
  return {std::max(a.first_head, b.first_head), std::min(a.first_head + a.num_heads, b.first_head + b.num_heads)};
}

Status check_cuts(const KvEnd& from, const KvEnd& to, uint64_t first_row) {
  const quire_kv_view& a = *from.view;
  const quire_kv_view& b = *to.view;
  if (!cuts_between_heads(a.codec) && (a.first_head != b.first_head || a.num_heads != b.num_heads)) {
    return fail(QUIRE_NOT_REPRESENTABLE, "codec %u cannot be cut by heads: %s has heads %u..%u, %s has %u..%u", a.codec, from.name,
                a.first_head, a.first_head + a.num_heads - 1, to.name, b.first_head, b.first_head + b.num_heads - 1);
  }
  if (cuts_between_rows(a.codec)) return {};
  if (ranks_of(a) != ranks_of(b)) {
    return fail(QUIRE_NOT_REPRESENTABLE, "codec %u cannot be cut by rows: %" PRIu64 " ranks take turns in %s and %" PRIu64 " in %s",
                a.codec, ranks_of(a), from.name, ranks_of(b), to.name);
  }
  if (a.block_tokens != b.block_tokens) {
    return fail(QUIRE_NOT_REPRESENTABLE, "codec %u cannot be cut by rows: kernel blocks have %u rows in %s and %u in %s", a.codec,
                a.block_tokens, from.name, b.block_tokens, to.name);
  }
  if (first_row % (a.block_tokens * ranks_of(a)) != 0) {
    return fail(QUIRE_NOT_REPRESENTABLE, "codec %u cannot be cut by rows: token %" PRIu64 " lies inside a kernel block of %u rows", a.codec,
                first_row * a.tokens_per_row, a.block_tokens);
  }
  return {};
}

// Rows that both ends have: `count` of them, apart by so many rows of either view.
struct Rows {
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t count = 0;
  uint64_t from_step = 1;
  uint64_t to_step = 1;
};

// One side of rows that lie in one kernel block at either end.
Status append_rows(const KvEnd& from, const KvEnd& to, uint32_t side, const Rows& rows, HeadRange heads, std::vector<quire_run>* out) {
  const quire_kv_view& a = *from.view;
  const quire_kv_view& b = *to.view;
  uint64_t from_row = 0;
  uint64_t to_row = 0;
  quire_run run{a.region, b.region, 0, 0, 0, 1, 0, 0, 0};
  if (!locate(from, rows.from, side, &run.from_offset, &from_row) || !locate(to, rows.to, side, &run.to_offset, &to_row)) return {};
  Grain grain = grain_of(a, side);
  const Grain other = grain_of(b, side);
  if (other.items > grain.items) grain = other;  // the finer one
  run.bytes = grain.bytes;
  run.from_offset += from_row * static_cast<uint64_t>(a.stride_token[side]) +
                     uint64_t{heads.first - a.first_head} * static_cast<uint64_t>(a.stride_head[side]);
  run.to_offset += to_row * static_cast<uint64_t>(b.stride_token[side]) +
                   uint64_t{heads.first - b.first_head} * static_cast<uint64_t>(b.stride_head[side]);
  const uint64_t num_heads = uint64_t{heads.end} - heads.first;
  const int64_t from_stride = a.stride_token[side] * static_cast<int64_t>(rows.from_step);
  const int64_t to_stride = b.stride_token[side] * static_cast<int64_t>(rows.to_step);
  return append_box({{{grain.rows == 1 ? rows.count : 1, from_stride, to_stride},
                      {grain.heads == 1 ? num_heads : 1, a.stride_head[side], b.stride_head[side]},
                      {grain.items, a.stride_dim[side], b.stride_dim[side]},
                      {1, 0, 0}}},
                    run, out);
}

// All rows [first, last) of a sequence that both ends have, kernel block by kernel block.
Status walk_rows(const KvEnd& from, const KvEnd& to, uint64_t first, uint64_t last, HeadRange heads, std::vector<quire_run>* out) {
  const quire_kv_view& a = *from.view;
  const quire_kv_view& b = *to.view;
  const uint64_t step = std::lcm(ranks_of(a), ranks_of(b));
  // The first row of both turns: at most as many tries as b has ranks.
  uint64_t row = own_rows(a, first) * ranks_of(a) + a.context_rank;
  for (uint64_t tries = 0; row % ranks_of(b) != b.context_rank; ++tries, row += ranks_of(a)) {
    if (tries == ranks_of(b)) return {};  // the ends take different turns
  }
  Rows rows;
  rows.from_step = step / ranks_of(a);
  rows.to_step = step / ranks_of(b);
  const auto in_block = [](uint64_t at, uint64_t stride, uint64_t block) { return ceil_div(block - at % block, stride); };
  while (row < last) {
    rows.from = row / ranks_of(a);
    rows.to = row / ranks_of(b);
    rows.count = std::min(
        {ceil_div(last - row, step), in_block(rows.from, rows.from_step, a.block_tokens), in_block(rows.to, rows.to_step, b.block_tokens)});
    for (uint32_t side = 0; side < a.num_sides; ++side) QUIRE_RETURN_IF_ERROR(append_rows(from, to, side, rows, heads, out));
    row += rows.count * step;
  }
  return {};
}

// The part of a state's sharded dimension that both ranks hold: [begin, end) of the whole, and where it starts at each end.
struct Slice {
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t extent = 0;
};

// What a rank holds of one part: `extent` rows from `begin` of the model's. Ranks side by side may hold the same.
struct Held {
  uint64_t at = 0;  // in the rank's tensor
  uint64_t begin = 0;
  uint64_t extent = 0;
};

Held held_by(const quire_state_view& view, uint64_t part, uint64_t repeats, uint64_t at) {
  const uint64_t extent = part / view.num_ranks;
  return {at, extent * (view.rank / repeats), extent};
}

void append_slices(const Held& from, const Held& to, std::vector<Slice>* out) {
  const uint64_t begin = std::max(from.begin, to.begin);
  const uint64_t end = std::min(from.begin + from.extent, to.begin + to.extent);
  if (begin < end) out->push_back({from.at + begin - from.begin, to.at + begin - to.begin, end - begin});
}

uint64_t repeats_of(const quire_state_view& view, uint32_t part) { return std::max(view.shard_repeats[part], 1u); }
bool is_one_part(const quire_state_view& view) {
  return std::all_of(view.shard_parts, view.shard_parts + 4, [](uint32_t part) { return part == 0; });
}

// Extent of the sharded dimension in the whole model.
uint64_t whole_extent(const quire_state_view& view) {
  if (is_one_part(view)) return view.shape[view.shard_dim - 1] * view.num_ranks;
  uint64_t sum = 0;
  for (uint32_t k = 0; k < 4; ++k) sum += view.shard_parts[k] / repeats_of(view, k);
  return sum;
}

std::string numbers(const char* field, uint64_t x, uint64_t y) {
  return std::string(field) + " is " + std::to_string(x) + " and " + std::to_string(y);
}

Status state_base(const quire_state_view& view, int32_t id, const char* name, uint64_t* offset) {
  const uint64_t all = view.num_pages * view.parts_per_page;
  if (id < 0 || static_cast<uint64_t>(id) >= all)
    return fail(QUIRE_OUT_OF_RANGE, "%s_id = %d; the view has %" PRIu64 " ids", name, id, all);
  const auto at = static_cast<uint64_t>(id);
  *offset = static_cast<uint64_t>(view.offset) + at / view.parts_per_page * static_cast<uint64_t>(view.stride_page) +
            at % view.parts_per_page * static_cast<uint64_t>(view.stride_part);
  return {};
}

}  // namespace

std::string difference_of_rows(const quire_kv_view& a, const quire_kv_view& b) {
  if (a.num_sides != b.num_sides) return numbers("num_sides", a.num_sides, b.num_sides);
  for (uint32_t side = 0; side < a.num_sides; ++side) {
    if (a.head_dim[side] != b.head_dim[side]) return numbers("head_dim", a.head_dim[side], b.head_dim[side]);
  }
  if (a.model_heads != b.model_heads) return numbers("model_heads", a.model_heads, b.model_heads);
  if (a.tokens_per_row != b.tokens_per_row) return numbers("tokens_per_row", a.tokens_per_row, b.tokens_per_row);
  if (!same_dtype(a.dtype, b.dtype)) {
    return "dtype is {code " + std::to_string(a.dtype.code) + ", bits " + std::to_string(a.dtype.bits) + "} and {code " +
           std::to_string(b.dtype.code) + ", bits " + std::to_string(b.dtype.bits) + "}";
  }
  if (a.codec != b.codec) return numbers("codec", a.codec, b.codec);
  quire_codec_params x = a.codec_params;
  quire_codec_params y = b.codec_params;
  x.block_alignment = y.block_alignment = 0;  // padding is not content
  if (std::memcmp(&x, &y, sizeof x) != 0) return "codec_params differ";
  const bool blocks = a.codec == QUIRE_CODEC_BLOCK_SPLIT && a.num_heads > 1 && a.block_tokens > 1 && b.num_heads > 1 && b.block_tokens > 1;
  const auto rows_outer = [](const quire_kv_view& view) { return view.stride_token[0] > view.stride_head[0]; };
  if (blocks && rows_outer(a) != rows_outer(b)) return "the order of T and H inside a block differs";
  return {};
}

std::string difference_of_states(const quire_state_view& a, const quire_state_view& b) {
  if (!same_dtype(a.dtype, b.dtype)) return "dtype differs";
  if (a.ndim != b.ndim) return numbers("ndim", a.ndim, b.ndim);
  for (uint32_t k = 0; k < a.ndim; ++k) {
    const uint64_t x = k + 1 == a.shard_dim ? whole_extent(a) : a.shape[k];
    const uint64_t y = k + 1 == b.shard_dim ? whole_extent(b) : b.shape[k];
    if (x != y) return numbers(("shape[" + std::to_string(k) + "]").c_str(), x, y);
  }
  if (a.shard_dim != b.shard_dim) return numbers("shard_dim", a.shard_dim, b.shard_dim);
  for (uint32_t k = 0; k < 4; ++k) {
    const uint64_t x = a.shard_parts[k] / repeats_of(a, k);
    const uint64_t y = b.shard_parts[k] / repeats_of(b, k);
    if (x != y) return numbers("shard_parts", x, y);
  }
  return {};
}

Status append_runs(const KvEnd& from, const KvEnd& to, uint64_t begin, uint64_t end, std::vector<quire_run>* out) {
  const quire_kv_view& a = *from.view;
  const quire_kv_view& b = *to.view;
  QUIRE_RETURN_IF_ERROR(check_view(a, from.name));
  QUIRE_RETURN_IF_ERROR(check_view(b, to.name));
  const std::string difference = difference_of_rows(a, b);
  if (!difference.empty()) return invalid("%s and %s do not hold the same rows: %s", from.name, to.name, difference.c_str());
  if (begin > end) return invalid("begin = %" PRIu64 "; must be at most end = %" PRIu64, begin, end);
  if (begin % a.tokens_per_row != 0 || end % a.tokens_per_row != 0) {
    return invalid("tokens [%" PRIu64 ", %" PRIu64 ") cut rows of %u tokens", begin, end, a.tokens_per_row);
  }
  const uint64_t first = begin / a.tokens_per_row;
  uint64_t last = end / a.tokens_per_row;
  QUIRE_RETURN_IF_ERROR(check_ids(from, first, last));
  QUIRE_RETURN_IF_ERROR(check_ids(to, first, last));
  const HeadRange heads = shared_heads(a, b);
  if (first == last || heads.first >= heads.end) return {};
  QUIRE_RETURN_IF_ERROR(check_cuts(from, to, first));
  if (!cuts_between_rows(a.codec)) last = round_up(last, a.block_tokens * ranks_of(a));
  QUIRE_RETURN_IF_ERROR(check_number((last - first) / a.block_tokens + (last - first) / b.block_tokens));
  const size_t before = out->size();
  QUIRE_RETURN_IF_ERROR(walk_rows(from, to, first, last, heads, out));
  merge_runs(before, out);
  return {};
}

Status append_state_runs(const quire_state_view& from, int32_t from_id, const quire_state_view& to, int32_t to_id,
                         std::vector<quire_run>* out) {
  QUIRE_RETURN_IF_ERROR(check_view(from, "from"));
  QUIRE_RETURN_IF_ERROR(check_view(to, "to"));
  const std::string difference = difference_of_states(from, to);
  if (!difference.empty()) return invalid("from and to are not the same tensor: %s", difference.c_str());
  quire_run run{from.region, to.region, 0, 0, 0, 1, 0, 0, 0};
  QUIRE_RETURN_IF_ERROR(state_base(from, from_id, "from", &run.from_offset));
  QUIRE_RETURN_IF_ERROR(state_base(to, to_id, "to", &run.to_offset));
  // Rows of the sharded dimension: what is right of it is dense, what is left of it repeats.
  const uint32_t dim = from.shard_dim == 0 ? 0 : from.shard_dim - 1;
  const auto step = static_cast<uint64_t>(from.stride[dim]);
  uint64_t repeats = 1;
  for (uint32_t k = 0; k < dim; ++k) repeats *= from.shape[k];
  std::vector<Slice> slices;
  if (from.shard_dim == 0) {
    slices.push_back({0, 0, from.shape[0]});
  } else if (is_one_part(from)) {
    append_slices(held_by(from, whole_extent(from), 1, 0), held_by(to, whole_extent(to), 1, 0), &slices);
  } else {
    Held x;
    Held y;
    for (uint32_t k = 0; k < 4; ++k) {
      x = held_by(from, from.shard_parts[k], repeats_of(from, k), x.at + x.extent);
      y = held_by(to, to.shard_parts[k], repeats_of(to, k), y.at + y.extent);
      append_slices(x, y, &slices);
    }
  }
  const size_t before = out->size();
  for (const Slice& slice : slices) {
    quire_run own = run;
    own.bytes = step;
    own.from_offset += slice.from * step;
    own.to_offset += slice.to * step;
    const Axis rows{slice.extent, from.stride[dim], to.stride[dim]};
    const Axis outside{repeats, static_cast<int64_t>(from.shape[dim] * step), static_cast<int64_t>(to.shape[dim] * step)};
    QUIRE_RETURN_IF_ERROR(append_box({{rows, outside, {1, 0, 0}, {1, 0, 0}}}, own, out));
  }
  merge_runs(before, out);
  return {};
}

}  // namespace quire
