// Recurrent states: gated delta (GDN, KDA) and the short convolution. A block owns its columns of a state from read to write, so reading
// and writing the same slot is safe; the state is widened to fp32 once, runs through all tokens of the row, and is written once.
#include "drivers/gpu/state_tile.h"

namespace quire::gpu {
QUIRE_GPU_BEGIN
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): places in shared memory are 32 bits wide, addresses 64
namespace {

using drivers::load_real;
using drivers::store_real;

constexpr uint32_t kParts = kThreads / kDeltaTile;  // threads that share a column

struct Columns {
  const DeltaArgs& a;
  uint32_t row, head, first;  // first column
  uint32_t column, part;      // of this thread
  bool live;                  // the column exists
  float *s, *q, *k, *decay, *sums, *waves;
};

// Over the parts of a column, in every thread of it.
QUIRE_GPU_DEVICE float column_sum(const Columns& w, float mine) {
  w.sums[w.part * kDeltaTile + w.column] = mine;
  sync();
  float sum = 0.0f;
  for (uint32_t p = 0; p < kParts; ++p) sum += w.sums[p * kDeltaTile + w.column];
  sync();
  return sum;
}

QUIRE_GPU_DEVICE float block_sum(const Columns& w, float mine) {
  mine = wave_sum(mine);
  if (thread_index() % kWave == 0) w.waves[thread_index() / kWave] = mine;
  sync();
  float sum = 0.0f;
  for (uint32_t i = 0; i < kThreads / kWave; ++i) sum += w.waves[i];
  sync();
  return sum;
}

// A query or key row to shared memory, times factor, normalised where asked.
QUIRE_GPU_DEVICE void load_vector(const Columns& w, Real real, const quire_tensor& t, int64_t token, int64_t head, float factor,
                                  float* out) {
  const drivers::GatedDeltaJob& j = w.a.job;
  float squares = 0.0f;
  for (uint32_t i = thread_index(); i < j.dim_k; i += kThreads) {
    out[i] = load_real(real, drivers::element3(t, token, head, i));
    squares += out[i] * out[i];
  }
  if ((w.a.op.flags & QUIRE_GATED_DELTA_L2NORM) != 0) factor *= inverse_root(block_sum(w, squares) + 1e-6f);
  for (uint32_t i = thread_index(); i < j.dim_k; i += kThreads) out[i] *= factor;
}

QUIRE_GPU_DEVICE void load_token(const Columns& w, int64_t token) {
  const drivers::GatedDeltaJob& j = w.a.job;
  const drivers::GatedDeltaOp& op = w.a.op;
  const int64_t head_k = w.head / (j.heads_v / j.heads_k);
  load_vector(w, w.a.query, op.query, token, head_k, j.scale, w.q);
  load_vector(w, w.a.key, op.key, token, head_k, 1.0f, w.k);
  for (uint32_t i = thread_index(); i < j.dim_k; i += kThreads) {
    const char* gate = j.per_channel ? drivers::element3(op.gate, token, w.head, i) : drivers::element2(op.gate, token, w.head);
    w.decay[i] = exp_of(load_real(Real::kFloat32, gate));
  }
  sync();
}

// S <- decay S; S += k (beta (v - S^T k))^T; o = S^T q.
QUIRE_GPU_DEVICE void step(const Columns& w, int64_t token) {
  const drivers::GatedDeltaJob& j = w.a.job;
  const drivers::GatedDeltaOp& op = w.a.op;
  float recalled = 0.0f;
  for (uint32_t i = w.part; i < j.dim_k; i += kParts) recalled += w.k[i] * w.decay[i] * w.s[i * kDeltaTile + w.column];
  recalled = column_sum(w, recalled);
  float delta = 0.0f;
  if (w.live) {
    const float v = load_real(w.a.value, drivers::element3(op.value, token, w.head, w.first + w.column));
    delta = (v - recalled) * load_real(Real::kFloat32, drivers::element2(op.beta, token, w.head));
  }
  float out = 0.0f;
  for (uint32_t i = w.part; i < j.dim_k; i += kParts) {
    const float next = w.decay[i] * w.s[i * kDeltaTile + w.column] + w.k[i] * delta;
    w.s[i * kDeltaTile + w.column] = next;
    out += w.q[i] * next;
  }
  out = column_sum(w, out);
  if (w.live && w.part == 0) {
    store_real(w.a.out, drivers::element3(op.out, token, w.head, w.first + w.column), out);
  }
}

QUIRE_GPU_DEVICE void run_columns(const Columns& w) {
  const drivers::GatedDeltaJob& j = w.a.job;
  const drivers::GatedDeltaOp& op = w.a.op;
  const int64_t at = w.head * j.stride_head + static_cast<int64_t>(w.first + w.column) * j.stride_v;
  const int32_t read = op.state_read[w.row];
  const char* from = read >= 0 ? drivers::state_tensor(op.state, read) + at : nullptr;
  for (uint32_t i = w.part; i < j.dim_k; i += kParts) {
    w.s[i * kDeltaTile + w.column] = w.live && from != nullptr ? load_real(j.state, from + i * j.stride_k) : 0.0f;
  }
  drivers::StateWrites writes(op, w.row);
  int32_t slot = -1;
  for (int64_t token = op.query_indptr[w.row];; ++token) {
    while (writes.take(token, &slot)) {
      char* to = slot >= 0 ? drivers::state_tensor(op.state, slot) + at : nullptr;
      for (uint32_t i = w.part; i < j.dim_k && w.live && to != nullptr; i += kParts) {
        store_real(j.state, to + i * j.stride_k, w.s[i * kDeltaTile + w.column]);
      }
    }
    if (token >= op.query_indptr[w.row + 1]) break;
    load_token(w, token);
    step(w, token);
  }
  sync();
}

// The same with states in registers (state_tile.h): the elements of a column are spread over 16 lanes.
using DeltaTile = StateTile<16, 2>;
static_assert(DeltaTile::kElements == kTileElements && DeltaTile::kBlock == kTileColumns && kTileStage == kTeams);

// What a token brings, in shared memory.
struct alignas(16) DeltaStage {
  float q[kTileElements], k[kTileElements], decay[kTileElements], v[kTileColumns];
  float beta, overlap;  // overlap: q k
};
static_assert(sizeof(DeltaStage) == kDeltaStageFloats * 4);

// The same in a team's registers, on its way.
struct DeltaToken {
  static constexpr uint32_t kEach = kTileElements / kTeam;
  uint32_t q[kEach], k[kEach], gate[kEach], v, beta;
};

struct TileUnit {
  const DeltaArgs& a;
  uint32_t row, head, first;  // first column
  int64_t end;                // of the row's tokens
};

QUIRE_GPU_DEVICE void fetch_token(const TileUnit& w, int64_t token, DeltaToken* raw) {
  const drivers::GatedDeltaJob& j = w.a.job;
  const drivers::GatedDeltaOp& op = w.a.op;
  *raw = {};
  if (token >= w.end) return;
  const int64_t head_k = w.head / (j.heads_v / j.heads_k);
  fetch<DeltaToken::kEach>(w.a.query, drivers::element2(op.query, token, head_k), op.query.stride[2], j.dim_k, raw->q);
  fetch<DeltaToken::kEach>(w.a.key, drivers::element2(op.key, token, head_k), op.key.stride[2], j.dim_k, raw->k);
  fetch<DeltaToken::kEach>(Real::kFloat32, drivers::element2(op.gate, token, w.head), j.per_channel ? op.gate.stride[2] : 0, j.dim_k,
                           raw->gate);
  fetch<1>(w.a.value, drivers::element3(op.value, token, w.head, w.first), op.value.stride[2], j.dim_v - w.first, &raw->v);
  raw->beta = load_aligned<uint32_t>(drivers::element2(op.beta, token, w.head));
}

QUIRE_GPU_DEVICE void stage_token(const TileUnit& w, const DeltaToken& raw, DeltaStage* to) {
  const drivers::GatedDeltaOp& op = w.a.op;
  const uint32_t lane = team_lane();
  float q[DeltaToken::kEach];
  float k[DeltaToken::kEach];
  float sums[3] = {};  // q q, k k, q k
  QUIRE_GPU_UNROLL
  for (uint32_t i = 0; i < DeltaToken::kEach; ++i) {
    q[i] = value_of(w.a.query, raw.q[i]);
    k[i] = value_of(w.a.key, raw.k[i]);
    sums[0] = multiply_add(q[i], q[i], sums[0]);
    sums[1] = multiply_add(k[i], k[i], sums[1]);
    sums[2] = multiply_add(q[i], k[i], sums[2]);
  }
  QUIRE_GPU_UNROLL
  for (uint32_t i = 0; i < 3; ++i) sums[i] = team_sum(sums[i]);
  const bool normal = (op.flags & QUIRE_GATED_DELTA_L2NORM) != 0;
  const float factor_q = normal ? w.a.job.scale * inverse_root(sums[0] + 1e-6f) : w.a.job.scale;
  const float factor_k = normal ? inverse_root(sums[1] + 1e-6f) : 1.0f;
  QUIRE_GPU_UNROLL
  for (uint32_t i = 0; i < DeltaToken::kEach; ++i) {
    to->q[lane + i * kTeam] = q[i] * factor_q;
    to->k[lane + i * kTeam] = k[i] * factor_k;
    to->decay[lane + i * kTeam] = exp_of(drivers::float_of_bits(raw.gate[i]));
  }
  to->v[lane] = value_of(w.a.value, raw.v);
  if (lane == 0) {
    to->beta = drivers::float_of_bits(raw.beta);
    to->overlap = sums[2] * factor_q * factor_k;
  }
}

// With D the decayed state and d = beta (v - D^T k): S = D + k d^T, and S^T q = D^T q + (q k) d, so that both sums are of D and are added
// up over the lanes together.
QUIRE_GPU_DEVICE void step(const TileUnit& w, const DeltaStage& from, int64_t token, DeltaTile* t) {
  const drivers::GatedDeltaOp& op = w.a.op;
  const uint32_t lane = team_lane();
  Quad k[2];
  float x[8] = {};  // D^T k of the thread's columns, D^T q
  QUIRE_GPU_UNROLL
  for (uint32_t r = 0; r < 2; ++r) {
    const uint32_t i = DeltaTile::first_element(r);
    k[r] = load_aligned<Quad>(from.k + i);
    const auto q = load_aligned<Quad>(from.q + i);
    const auto decay = load_aligned<Quad>(from.decay + i);
    QUIRE_GPU_UNROLL
    for (uint32_t e = 0; e < 4; ++e) {
      QUIRE_GPU_UNROLL
      for (uint32_t c = 0; c < 4; ++c) {
        const float s = t->s[r][e][c] * decay.x[e];
        t->s[r][e][c] = s;
        x[c] = multiply_add(k[r].x[e], s, x[c]);
        x[4 + c] = multiply_add(q.x[e], s, x[4 + c]);
      }
    }
  }
  fold<8, 16, 2>(x);
  // Lane bit 4: a sum with q. Bits 3 and 2: of which column. Bit 1: both lanes have it.
  const uint32_t mine = lane / 4 % 4;
  const uint32_t column = DeltaTile::first_column() + mine;
  const float gap = (from.v[column] - x[0]) * from.beta;
  float d[4];
  QUIRE_GPU_UNROLL
  for (uint32_t c = 0; c < 4; ++c) {
    const uint32_t lane_of = thread_index() % kWave / kTeam * kTeam + DeltaTile::group() + c * 4;
    d[c] = drivers::float_of_bits(shuffle(drivers::bits_of_float(gap), lane_of));
  }
  QUIRE_GPU_UNROLL
  for (uint32_t r = 0; r < 2; ++r) {
    QUIRE_GPU_UNROLL
    for (uint32_t e = 0; e < 4; ++e) {
      QUIRE_GPU_UNROLL
      for (uint32_t c = 0; c < 4; ++c) t->s[r][e][c] = multiply_add(k[r].x[e], d[c], t->s[r][e][c]);
    }
  }
  if ((lane & 18) == 16 && w.first + column < w.a.job.dim_v) {
    const float own = mine < 2 ? (mine == 0 ? d[0] : d[1]) : mine == 2 ? d[2] : d[3];
    store_value(w.a.out, drivers::element3(op.out, token, w.head, w.first + column), multiply_add(from.overlap, own, x[0]));
  }
}

// *turn: which half of the stages comes next. A half is written again only behind the barrier of the other, so one barrier is enough.
QUIRE_GPU_DEVICE void run_tile(const TileUnit& w, DeltaStage* stages, uint32_t* turn) {
  const drivers::GatedDeltaJob& j = w.a.job;
  const drivers::GatedDeltaOp& op = w.a.op;
  const uint32_t column = w.first + DeltaTile::first_column();
  const uint32_t columns = column >= j.dim_v ? 0 : j.dim_v - column < 4 ? j.dim_v - column : 4;
  const TilePlace place{j.state, w.a.order == TileOrder::kElements, j.stride_v, j.stride_k, columns, j.dim_k};
  const int64_t at = w.head * j.stride_head + column * j.stride_v;
  const int32_t read = op.state_read[w.row];
  DeltaTile tile;
  tile.load(place, read >= 0 ? drivers::state_tensor(op.state, read) + at : nullptr);
  const int64_t begin = op.query_indptr[w.row];
  DeltaToken next;
  fetch_token(w, begin + team_index(), &next);
  drivers::StateWrites writes(op, w.row);
  const DeltaStage* stage = stages;
  for (int64_t token = begin;; ++token) {
    int32_t slot = -1;
    while (writes.take(token, &slot)) {
      if (slot >= 0) tile.store(place, drivers::state_tensor(op.state, slot) + at);
    }
    if (token >= w.end) break;
    const auto i = static_cast<uint32_t>(token - begin) % kTileStage;
    if (i == 0) {
      stage = stages + *turn;
      stage_token(w, next, stages + *turn + team_index());
      *turn = kTileStage - *turn;
      sync();
      fetch_token(w, token + kTileStage + team_index(), &next);
    }
    step(w, stage[i], token, &tile);
  }
}

// Blocks that go through tiles.
QUIRE_GPU_DEVICE void run_tiles(const DeltaArgs& a) {
  const drivers::GatedDeltaJob& j = a.job;
  const uint32_t tiles = (j.dim_v + kTileColumns - 1) / kTileColumns;
  uint32_t turn = 0;
  for (uint64_t i = block_index(); i < uint64_t{a.op.num_rows} * j.heads_v * tiles; i += grid_size()) {
    const auto row = static_cast<uint32_t>(i / tiles / j.heads_v);
    const TileUnit w{a, row, static_cast<uint32_t>(i / tiles % j.heads_v), static_cast<uint32_t>(i % tiles) * kTileColumns,
                     a.op.query_indptr[row + 1]};
    run_tile(w, reinterpret_cast<DeltaStage*>(shared()), &turn);
  }
}

constexpr uint32_t kNarrowTaps = 4;
constexpr uint32_t kAhead = 8;  // tokens whose inputs are on their way

// Inputs of kAhead tokens from `token` on, as they are in memory, or widened where they can't be read so.
QUIRE_GPU_DEVICE void fetch_inputs(const Conv1dArgs& a, int64_t token, int64_t end, int64_t channel, uint32_t* bits) {
  QUIRE_GPU_UNROLL
  for (uint32_t i = 0; i < kAhead; ++i) {
    bits[i] = 0;
    if (token + i >= end) continue;
    const char* at = drivers::element2(a.op.input, token + i, channel);
    bits[i] = a.even ? fetch_one(a.input, at) : drivers::bits_of_float(load_real(a.input, at));
  }
}

// A thread has a channel: its newest inputs, the newest last, and their taps, both at the end of kMost places.
template <uint32_t kMost>
QUIRE_GPU_DEVICE void run_channel(const Conv1dArgs& a, uint32_t row, int64_t channel) {
  const drivers::Conv1dOp& op = a.op;
  const uint32_t first = kMost - a.job.width;
  const Real state = drivers::real_of(op.state.dtype);
  const Real kept = a.even ? a.input : Real::kFloat32;
  const int32_t read = op.state_read[row];
  const int64_t end = op.query_indptr[row + 1];
  int64_t token = op.query_indptr[row];
  uint32_t ahead[kAhead];
  fetch_inputs(a, token, end, channel, ahead);
  float x[kMost];
  float taps[kMost];
  QUIRE_GPU_UNROLL
  for (uint32_t i = 0; i < kMost; ++i) {
    x[i] = taps[i] = 0.0f;
    if (i < first) continue;
    taps[i] = load_real(a.weight, drivers::element2(op.weight, channel, i - first));
    if (i + 1 < kMost && read >= 0) {
      x[i] = load_real(state, drivers::state_tensor(op.state, read) + (i - first) * op.state.stride[0] + channel * op.state.stride[1]);
    }
  }
  float bias = 0.0f;
  if (op.bias.data != nullptr) bias = load_real(a.bias, static_cast<const char*>(op.bias.data) + channel * op.bias.stride[0]);
  drivers::StateWrites writes(op, row);
  uint32_t next[kAhead] = {};
  for (uint32_t n = 0;; ++token, n = (n + 1) % kAhead) {
    int32_t slot = -1;
    while (writes.take(token, &slot)) {
      QUIRE_GPU_UNROLL
      for (uint32_t i = 0; i + 1 < kMost; ++i) {
        if (i < first || slot < 0) continue;
        char* to = drivers::state_tensor(op.state, slot) + (i - first) * op.state.stride[0] + channel * op.state.stride[1];
        store_real(state, to, fresh(x[i]));
      }
    }
    if (token >= end) break;
    if (n == 0) {
      QUIRE_GPU_UNROLL
      for (uint32_t i = 0; i < kAhead; ++i) next[i] = ahead[i];
      fetch_inputs(a, token + kAhead, end, channel, ahead);
    }
    x[kMost - 1] = value_of(kept, next[0]);
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i + 1 < kAhead; ++i) next[i] = next[i + 1];
    float sum = bias;
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i < kMost; ++i) {
      if (i >= first) sum += taps[i] * x[i];
    }
    if ((op.flags & QUIRE_CONV1D_SILU) != 0) sum = sum / (1.0f + exp_of(-sum));
    char* to = drivers::element2(op.out, token, channel);
    a.even ? store_value(a.out, to, sum) : store_real(a.out, to, sum);
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i + 1 < kMost; ++i) x[i] = x[i + 1];
  }
}

}  // namespace

QUIRE_GPU_KERNEL_WIDE(delta, DeltaArgs, 6) {
  if (a.order != TileOrder::kNone) {
    run_tiles(a);
    return;
  }
  const drivers::GatedDeltaJob& j = a.job;
  const uint32_t tiles = (j.dim_v + kDeltaTile - 1) / kDeltaTile;
  const uint64_t all = uint64_t{a.op.num_rows} * j.heads_v * tiles;
  auto* s = reinterpret_cast<float*>(shared());
  float* q = s + uint64_t{j.dim_k} * kDeltaTile;
  for (uint64_t i = block_index(); i < all; i += grid_size()) {
    const uint32_t first = static_cast<uint32_t>(i % tiles) * kDeltaTile;
    const uint32_t column = thread_index() % kDeltaTile;
    const Columns w{a,
                    static_cast<uint32_t>(i / tiles / j.heads_v),
                    static_cast<uint32_t>(i / tiles % j.heads_v),
                    first,
                    column,
                    thread_index() / kDeltaTile,
                    first + column < j.dim_v,
                    s,
                    q,
                    q + j.dim_k,
                    q + 2 * j.dim_k,
                    q + 3 * j.dim_k,
                    q + 3 * j.dim_k + kThreads};
    run_columns(w);
  }
}

QUIRE_GPU_KERNEL_WIDE(conv1d, Conv1dArgs, 5) {
  const uint32_t tiles = (a.job.channels + kThreads - 1) / kThreads;
  for (uint64_t i = block_index(); i < uint64_t{a.op.num_rows} * tiles; i += grid_size()) {
    const auto row = static_cast<uint32_t>(i / tiles);
    const auto channel = static_cast<int64_t>(i % tiles * kThreads + thread_index());
    if (channel >= a.job.channels) continue;
    a.job.width <= kNarrowTaps ? run_channel<kNarrowTaps>(a, row, channel) : run_channel<kMaxConvTaps>(a, row, channel);
  }
}

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
