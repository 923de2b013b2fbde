// The selective scan (Mamba1, Mamba2). A block owns some lines of a group's state from read to write: lines share b and c, a line's
// elements are spread over a few threads, which add up what it gives.
#include "drivers/gpu/state_tile.h"

namespace quire::gpu {
QUIRE_GPU_BEGIN
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): places in shared memory are 32 bits wide, addresses 64
namespace {

using drivers::load_real;
using drivers::store_real;

constexpr uint32_t kParts = kThreads / kScanTile;  // threads that share a line

struct Line {
  const ScanArgs& a;
  uint32_t row, group, head, at;  // at: its place in the head
  uint32_t column, part;          // of this thread
  bool live;                      // the line exists
  float *s, *b, *c, *sums;
};

QUIRE_GPU_DEVICE float softplus(float x) {
  // log(1 + u) by the series in u / (2 + u) <= 1/3: small results keep their relative accuracy.
  const float u = exp_of(x < 0.0f ? x : -x);
  const float t = u / (2.0f + u);
  const float y = t * t;
  float p = 2.0f / 13.0f;
  p = p * y + 2.0f / 11.0f;
  p = p * y + 2.0f / 9.0f;
  p = p * y + 2.0f / 7.0f;
  p = p * y + 2.0f / 5.0f;
  p = p * y + 2.0f / 3.0f;
  p = p * y + 2.0f;
  return (x < 0.0f ? 0.0f : x) + p * t;
}

// A step of time from what the op is given, the bias added.
QUIRE_GPU_DEVICE float limited(const drivers::SelectiveScanOp& op, float d) {
  if ((op.flags & QUIRE_SELECTIVE_SCAN_SOFTPLUS) != 0) d = softplus(d);
  d = d < op.dt_min ? op.dt_min : d;
  return op.dt_max != 0.0f && d > op.dt_max ? op.dt_max : d;
}

QUIRE_GPU_DEVICE float silu(float x) { return x / (1.0f + exp_of(-x)); }

QUIRE_GPU_DEVICE float step_of_time(const Line& w, int64_t token) {
  const drivers::SelectiveScanOp& op = w.a.op;
  float d = load_real(w.a.dt, drivers::element2(op.dt, token, w.head));
  if (op.dt_bias.data != nullptr) {
    d += load_real(w.a.dt_bias, static_cast<const char*>(op.dt_bias.data) + w.head * op.dt_bias.stride[0]);
  }
  return limited(op, d);
}

QUIRE_GPU_DEVICE float gated(const Line& w, int64_t token, float x, float out) {
  const drivers::SelectiveScanOp& op = w.a.op;
  if (op.skip.data != nullptr) {
    const int64_t at = op.skip.ndim == 2 ? w.at * op.skip.stride[1] : 0;
    out += x * load_real(w.a.skip, static_cast<const char*>(op.skip.data) + w.head * op.skip.stride[0] + at);
  }
  if (op.z.data == nullptr) return out;
  return out * silu(load_real(w.a.z, drivers::element3(op.z, token, w.head, w.at)));
}

// S <- exp(d a) S + d x b; o = S c.
QUIRE_GPU_DEVICE void step(const Line& w, int64_t token) {
  const drivers::ScanJob& j = w.a.job;
  const drivers::SelectiveScanOp& op = w.a.op;
  for (uint32_t i = thread_index(); i < j.state_dim; i += kThreads) {
    w.b[i] = load_real(w.a.b, drivers::element3(op.b, token, w.group, i));
    w.c[i] = load_real(w.a.c, drivers::element3(op.c, token, w.group, i));
  }
  sync();
  float x = 0.0f;
  float sum = 0.0f;
  if (w.live) {
    const char* a = static_cast<const char*>(op.a.data) + w.head * op.a.stride[0];
    const float d = step_of_time(w, token);
    float keep = j.per_element ? 0.0f : exp_of(d * load_real(Real::kFloat32, a));
    x = load_real(w.a.x, drivers::element3(op.x, token, w.head, w.at));
    for (uint32_t i = w.part; i < j.state_dim; i += kParts) {
      if (j.per_element) keep = exp_of(d * load_real(Real::kFloat32, a + i * op.a.stride[1]));
      const float next = keep * w.s[i * kScanTile + w.column] + d * x * w.b[i];
      w.s[i * kScanTile + w.column] = next;
      sum += next * w.c[i];
    }
  }
  w.sums[w.part * kScanTile + w.column] = sum;
  sync();
  if (w.live && w.part == 0) {
    float out = 0.0f;
    for (uint32_t p = 0; p < kParts; ++p) out += w.sums[p * kScanTile + w.column];
    store_real(w.a.out, drivers::element3(op.out, token, w.head, w.at), gated(w, token, x, out));
  }
  sync();
}

QUIRE_GPU_DEVICE void run_lines(const Line& w) {
  const drivers::ScanJob& j = w.a.job;
  const drivers::SelectiveScanOp& op = w.a.op;
  const int64_t at = w.head * j.stride_head + w.at * j.stride_line;
  const int32_t read = op.state_read[w.row];
  const char* from = read >= 0 ? drivers::state_tensor(op.state, read) + at : nullptr;
  for (uint32_t i = w.part; i < j.state_dim; i += kParts) {
    w.s[i * kScanTile + w.column] = w.live && from != nullptr ? load_real(j.state, from + i * j.stride_element) : 0.0f;
  }
  drivers::StateWrites writes(op, w.row);
  int32_t slot = -1;
  for (int64_t token = op.query_indptr[w.row];; ++token) {
    while (writes.take(token, &slot)) {
      char* to = slot >= 0 ? drivers::state_tensor(op.state, slot) + at : nullptr;
      for (uint32_t i = w.part; i < j.state_dim && w.live && to != nullptr; i += kParts) {
        store_real(j.state, to + i * j.stride_element, w.s[i * kScanTile + w.column]);
      }
    }
    if (token >= op.query_indptr[w.row + 1]) break;
    step(w, token);
  }
  sync();
}

// The same with states in registers (state_tile.h): a column is a line, its elements are spread over kParts lanes.
template <uint32_t kParts, uint32_t kRuns>
struct alignas(16) ScanStage {
  using Tile = StateTile<kParts, kRuns>;
  float b[Tile::kElements], c[Tile::kElements];
  float keep[Tile::kBlock], input[Tile::kBlock];  // of each line: exp(d a), or d where elements have their own a; d x
};

struct LineAt {
  uint32_t head, at;
  bool live;
};

struct ScanUnit {
  const ScanArgs& a;
  uint32_t row, group, first;  // first: of the block's lines, in the group
  int32_t end;                 // of the row's tokens

  QUIRE_GPU_DEVICE LineAt line(uint32_t place) const {
    const drivers::ScanJob& j = a.job;
    const uint32_t lines = j.heads / j.groups * j.head_dim;
    const bool live = first + place < lines;
    const uint32_t line = group * lines + (live ? first + place : 0);
    if (j.head_dim == 1) return {line, 0, live};
    return {line / j.head_dim, line % j.head_dim, live};
  }
};

QUIRE_GPU_DEVICE float optional_value(Real real, const quire_tensor& t, int64_t at, bool live) {
  return t.data != nullptr && live ? value_of(real, fetch_one(real, static_cast<const char*>(t.data) + at)) : 0.0f;
}

// What a thread does of a block's lines. As the one that stages: kStaged lines of its team's token. As the one in which sums end: kGiven
// lines of one token.
template <uint32_t kParts, uint32_t kRuns, bool kPerElement>
struct ScanTile {
  using Tile = StateTile<kParts, kRuns>;
  using Stage = ScanStage<kParts, kRuns>;
  static constexpr uint32_t kVector = (Tile::kElements + kTeam - 1) / kTeam;
  static constexpr uint32_t kStaged = Tile::kBlock / kTeam;
  static constexpr uint32_t kGiven = 4 * kTileStage / kParts;
  static_assert(sizeof(Stage) <= kScanStageFloats * 4 && kTileStage == kTeams && kGiven * kParts == 16);

  const ScanUnit& w;
  LineAt one_staged, one_given;
  float a[kPerElement ? kRuns : 1][4][4];
  uint32_t raw_b[kVector], raw_c[kVector], raw_dt[kStaged], raw_x[kStaged], raw_given[kGiven], raw_z[kGiven];
  float add[kGiven], gate[kGiven];  // of the stage that is computed: x skip, and the factor that z gives
  float y[kTileStage * 4];

  // NOLINTNEXTLINE(clang-analyzer-optin.cplusplus.UninitializedObject): registers that are written before they are read
  explicit QUIRE_GPU_DEVICE ScanTile(const ScanUnit& unit) : w(unit) {}

  // The token of a stage of which this thread gives outputs, and of which lines.
  static QUIRE_GPU_DEVICE int32_t given_token() { return static_cast<int32_t>(team_lane() / 8); }
  static QUIRE_GPU_DEVICE uint32_t given_line(uint32_t i) { return Tile::first_column() + (kParts == 16 ? team_lane() / 2 % 4 : i); }

  // Where there are several, they are computed anew: kept, they and their places in tensors would take more registers than the state.
  QUIRE_GPU_DEVICE LineAt staged(uint32_t i) const {
    if constexpr (kStaged == 1) return {fresh(one_staged.head), fresh(one_staged.at), one_staged.live};
    return w.line(fresh(team_lane()) + i * kTeam);
  }
  QUIRE_GPU_DEVICE LineAt given(uint32_t i) const {
    if constexpr (kGiven == 1) return {fresh(one_given.head), fresh(one_given.at), one_given.live};
    return w.line(fresh(given_line(0)) + i);
  }

  QUIRE_GPU_DEVICE void begin() {
    const drivers::SelectiveScanOp& op = w.a.op;
    one_staged = w.line(team_lane());
    one_given = w.line(given_line(0));
    if constexpr (kPerElement) {
      QUIRE_GPU_UNROLL
      for (uint32_t c = 0; c < 4; ++c) {
        const LineAt l = w.line(Tile::first_column() + c);
        QUIRE_GPU_UNROLL
        for (uint32_t e = 0; e < kRuns * 4; ++e) {
          const uint32_t i = Tile::first_element(e / 4) + e % 4;
          a[e / 4][e % 4][c] =
              optional_value(Real::kFloat32, op.a, l.head * op.a.stride[0] + i * op.a.stride[1], l.live && i < w.a.job.state_dim);
        }
      }
    }
  }

  // What the stage that begins with `token` needs; it need not be there before it is used.
  QUIRE_GPU_DEVICE void fetch_stage(int32_t token) {
    const drivers::SelectiveScanOp& op = w.a.op;
    const auto team = static_cast<int32_t>(team_index());
    const bool there = team < w.end - token;
    const int64_t own = int64_t{token} + team;
    const uint32_t size = there ? w.a.job.state_dim : 0;
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i < kVector; ++i) raw_b[i] = raw_c[i] = 0;
    fetch<kVector>(w.a.b, drivers::element2(op.b, own, w.group), op.b.stride[2], size, raw_b);
    fetch<kVector>(w.a.c, drivers::element2(op.c, own, w.group), op.c.stride[2], size, raw_c);
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i < kStaged; ++i) {
      const LineAt l = staged(i);
      raw_dt[i] = raw_x[i] = 0;
      if (!l.live || !there) continue;
      raw_dt[i] = fetch_one(w.a.dt, drivers::element2(op.dt, own, l.head));
      raw_x[i] = fetch_one(w.a.x, drivers::element3(op.x, own, l.head, l.at));
    }
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i < kGiven; ++i) {
      const LineAt l = given(i);
      raw_given[i] = raw_z[i] = 0;
      if (!l.live || given_token() >= w.end - token) continue;
      if (op.skip.data != nullptr) raw_given[i] = fetch_one(w.a.x, drivers::element3(op.x, token + given_token(), l.head, l.at));
      if (op.z.data != nullptr) {
        raw_z[i] = fetch_one(w.a.z, drivers::element3(op.z, token + given_token(), l.head, l.at));
      }
    }
  }

  QUIRE_GPU_DEVICE void put(Stage* to) {
    const drivers::SelectiveScanOp& op = w.a.op;
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i < kVector; ++i) {
      const uint32_t e = team_lane() + i * kTeam;
      if (e >= Tile::kElements) continue;
      to->b[e] = value_of(w.a.b, raw_b[i]);
      to->c[e] = value_of(w.a.c, raw_c[i]);
    }
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i < kStaged; ++i) {
      const LineAt l = staged(i);
      const float bias = optional_value(w.a.dt_bias, op.dt_bias, l.head * op.dt_bias.stride[0], l.live);
      const float d = limited(op, value_of(w.a.dt, raw_dt[i]) + bias);
      const float decay = kPerElement ? 0.0f : optional_value(Real::kFloat32, op.a, l.head * op.a.stride[0], l.live);
      to->keep[team_lane() + i * kTeam] = kPerElement ? d : exp_of(d * decay);
      to->input[team_lane() + i * kTeam] = d * value_of(w.a.x, raw_x[i]);
    }
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i < kGiven; ++i) {
      const LineAt l = given(i);
      const int64_t at = l.head * op.skip.stride[0] + (op.skip.ndim == 2 ? l.at * op.skip.stride[1] : 0);
      add[i] = value_of(w.a.x, raw_given[i]) * optional_value(w.a.skip, op.skip, at, l.live);
      gate[i] = op.z.data != nullptr ? silu(value_of(w.a.z, raw_z[i])) : 1.0f;
    }
  }

  // Token t of a stage; its sums are still spread over lanes.
  QUIRE_GPU_DEVICE void step(const Stage& from, uint32_t t, Tile* tile) {
    const auto keep = load_aligned<Quad>(from.keep + Tile::first_column());
    const auto input = load_aligned<Quad>(from.input + Tile::first_column());
    QUIRE_GPU_UNROLL
    for (uint32_t r = 0; r < kRuns; ++r) {
      const auto b = load_aligned<Quad>(from.b + Tile::first_element(r));
      const auto c = load_aligned<Quad>(from.c + Tile::first_element(r));
      QUIRE_GPU_UNROLL
      for (uint32_t e = 0; e < 4; ++e) {
        QUIRE_GPU_UNROLL
        for (uint32_t i = 0; i < 4; ++i) {
          const float f = kPerElement ? exp_of(keep.x[i] * a[kPerElement ? r : 0][e][i]) : keep.x[i];
          const float s = multiply_add(f, tile->s[r][e][i], input.x[i] * b.x[e]);
          tile->s[r][e][i] = s;
          y[t * 4 + i] = multiply_add(s, c.x[e], y[t * 4 + i]);
        }
      }
    }
  }

  QUIRE_GPU_DEVICE void give(int32_t token) {
    const drivers::SelectiveScanOp& op = w.a.op;
    fold<kTileStage * 4, 16, kTeam / kParts>(y);
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i < kGiven; ++i) {
      const LineAt l = given(i);
      if (!l.live || given_token() >= w.end - token) continue;
      store_value(w.a.out, drivers::element3(op.out, token + given_token(), l.head, l.at), (y[i] + add[i]) * gate[i]);
    }
  }
};

// *turn: which half of the stages comes next. A half is written again only behind the barrier of the other, so one barrier is enough.
template <uint32_t kParts, uint32_t kRuns, bool kPerElement>
QUIRE_GPU_DEVICE void run_tile(const ScanUnit& w, uint32_t* turn) {
  using Tile = StateTile<kParts, kRuns>;
  constexpr auto kStep = static_cast<int32_t>(kTileStage);
  const drivers::ScanJob& j = w.a.job;
  const drivers::SelectiveScanOp& op = w.a.op;
  const LineAt l = w.line(Tile::first_column());
  const uint32_t left = l.live ? j.heads / j.groups * j.head_dim - w.first - Tile::first_column() : 0;
  const TilePlace place{j.state, w.a.order == TileOrder::kElements, w.a.line, j.stride_element, left < 4 ? left : 4, j.state_dim};
  const int64_t offset = l.head * j.stride_head + l.at * j.stride_line;
  const int32_t read = op.state_read[w.row];
  Tile tile;
  tile.load(place, read >= 0 ? drivers::state_tensor(op.state, read) + offset : nullptr);
  drivers::StateWrites writes(op, w.row);
  ScanTile<kParts, kRuns, kPerElement> t(w);
  t.begin();
  int32_t token = op.query_indptr[w.row];  // the first of its stage
  t.fetch_stage(token);
  const ScanStage<kParts, kRuns>* stage = nullptr;
  for (int32_t at = token;;) {
    int32_t slot = -1;
    while (writes.take(at, &slot)) {
      if (slot >= 0) tile.store(place, drivers::state_tensor(op.state, slot) + offset);
    }
    if (at >= w.end) break;
    if (at == token) {
      auto* next = reinterpret_cast<ScanStage<kParts, kRuns>*>(shared()) + *turn;
      stage = next;
      *turn = kTileStage - *turn;
      t.put(next + team_index());
      sync();
      t.fetch_stage(w.end - token > kStep ? token + kStep : w.end);
      QUIRE_GPU_UNROLL
      for (float& y : t.y) y = 0.0f;
    }
    const int32_t stop = w.end - token > kStep ? token + kStep : w.end;
    const int32_t until = writes.due() < stop ? static_cast<int32_t>(writes.due()) : stop;
    QUIRE_GPU_UNROLL
    for (int32_t i = 0; i < kStep; ++i) {
      if (token + i >= at && token + i < until) t.step(stage[i], static_cast<uint32_t>(i), &tile);
    }
    at = until;
    if (at == stop) {
      t.give(token);
      token = stop;
    }
  }
}

template <uint32_t kParts, uint32_t kRuns, bool kPerElement>
QUIRE_GPU_DEVICE void run_tiles(const ScanArgs& a) {
  constexpr uint32_t kLines = StateTile<kParts, kRuns>::kBlock;
  const drivers::ScanJob& j = a.job;
  const uint32_t tiles = (j.heads / j.groups * j.head_dim + kLines - 1) / kLines;
  uint32_t turn = 0;
  for (uint64_t i = block_index(); i < uint64_t{a.op.num_rows} * j.groups * tiles; i += grid_size()) {
    const auto row = static_cast<uint32_t>(i / tiles / j.groups);
    const ScanUnit w{a, row, static_cast<uint32_t>(i / tiles % j.groups), static_cast<uint32_t>(i % tiles) * kLines,
                     a.op.query_indptr[row + 1]};
    run_tile<kParts, kRuns, kPerElement>(w, &turn);
  }
}

}  // namespace

QUIRE_GPU_KERNEL_WIDE(scan, ScanArgs, 3) {
  const drivers::ScanJob& j = a.job;
  if (a.order != TileOrder::kNone) {
    j.per_element ? run_tiles<4, 1, true>(a) : j.state_dim <= kTileElements / 2 ? run_tiles<16, 1, false>(a) : run_tiles<16, 2, false>(a);
    return;
  }
  const uint32_t group_lines = j.heads / j.groups * j.head_dim;
  const uint32_t tiles = (group_lines + kScanTile - 1) / kScanTile;
  const uint64_t all = uint64_t{a.op.num_rows} * j.groups * tiles;
  auto* s = reinterpret_cast<float*>(shared());
  float* b = s + uint64_t{j.state_dim} * kScanTile;
  for (uint64_t i = block_index(); i < all; i += grid_size()) {
    const uint32_t column = thread_index() % kScanTile;
    const uint32_t group = static_cast<uint32_t>(i / tiles % j.groups);
    const uint32_t place = static_cast<uint32_t>(i % tiles) * kScanTile + column;
    const bool live = place < group_lines;
    const uint32_t line = group * group_lines + (live ? place : 0);
    const Line w{a,
                 static_cast<uint32_t>(i / tiles / j.groups),
                 group,
                 line / j.head_dim,
                 line % j.head_dim,
                 column,
                 thread_index() / kScanTile,
                 live,
                 s,
                 b,
                 b + j.state_dim,
                 b + 2 * j.state_dim};
    run_lines(w);
  }
}

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
