// Attention of planned records by matrix instructions: bf16 or fp16 queries over caches of the same format or of 8 bits, V up to 256 wide.
// The rows of a tile are query tokens and the query heads of one KV head alike, so that decoding fills tiles too. 64 keys at a time come to
// shared memory, K of the next while those at hand are weighed; the softmax is online, in fp32 and base 2.
//
// Two ways through a tile. Where a record has more than 16 rows, every wave takes 16 of them with all 64 keys, and weights go from the
// registers of one product to those of the next. Otherwise the waves share 16 rows: each has some of the keys, then some of the columns of
// V. Both add the same numbers in the same order: a row's result depends on its record and on logical positions only.
//
// What no row of the tile sees is not read: zeros stand for it. What a row alone does not see has weight zero.
#include "drivers/gpu/attend_rows.h"
#include "drivers/gpu/attend_stage.h"

namespace quire::gpu {
QUIRE_GPU_BEGIN
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): places in shared memory are 32 bits wide, addresses 64
#if QUIRE_GPU_MATRIX
namespace {

// A lane's part of a tile. kTiles: of 16 columns that V has at most; K and V have as many, unless they come in any way. kShared: the waves
// share 16 rows.
template <Real kReal, uint32_t kTiles, bool kShared, Way kWay>
struct Work {
  static constexpr bool kExact = kWay != Way::kAny;
  static constexpr uint32_t kPitch = kTiles * kMatrix + kPadding;
  static constexpr uint32_t kMine = kShared ? (kTiles + kWaves - 1) / kWaves : kTiles;  // tiles of V's columns that the wave has
  static constexpr uint32_t kScores = kShared ? kGroups / kWaves : kGroups;             // groups of keys that it has
  static constexpr uint32_t kGroupsOn = kShared ? kWaves : 1;
  static constexpr uint32_t kColumnsOn = kShared ? kWaves * kMatrix : kMatrix;

  const Tile& w;
  const Room& m;
  Rows mine;
  FragmentC<Matrix> o[kMine];
  FragmentC<Matrix> s[kScores];
  float top[Matrix::kRows], total[Matrix::kRows], sum[Matrix::kRows], keep[Matrix::kRows];

  QUIRE_GPU_DEVICE static uint32_t wave() { return thread_index() / kWave; }
  QUIRE_GPU_DEVICE static uint32_t lane() { return thread_index() % kWave; }
  QUIRE_GPU_DEVICE static uint32_t first_row() { return kShared ? 0 : wave() * kMatrix; }
  QUIRE_GPU_DEVICE static uint32_t first_column() { return kShared ? wave() * kMatrix : 0; }
  QUIRE_GPU_DEVICE static uint32_t group_of(uint32_t j) { return (kShared ? wave() : 0) + j * kGroupsOn; }
  QUIRE_GPU_DEVICE uint32_t pitch_k() const { return kExact ? kPitch : m.pitch_k; }
  QUIRE_GPU_DEVICE uint32_t pitch_v() const { return kExact ? kPitch : m.pitch_v; }
  QUIRE_GPU_DEVICE bool busy() const { return kShared || wave() * kMatrix < w.rows; }

  QUIRE_GPU_DEVICE void begin() {
    const drivers::AttentionOp& op = w.a.op;
    begin_rows<kMine>(w, &mine, top, total, o, [](uint32_t i) { return first_row() + Matrix::c(lane(), i).row; });
    const auto row_at = [&](uint32_t r) {
      return r < w.rows ? reinterpret_cast<int64_t>(drivers::element3(op.query, w.token + query_of(w, r), head_of(w, r), 0)) : int64_t{0};
    };
    stage<kReal>(m.q, m.pitch_k, kShared ? kMatrix : kWaves * kMatrix, w.a.job.key.head_dim, op.query.stride[2], kReal, m.direct_q, row_at);
  }

  // s = Q * K^T of the wave's rows and groups of keys.
  QUIRE_GPU_DEVICE void score() {
    QUIRE_GPU_UNROLL
    for (uint32_t j = 0; j < kScores; ++j) s[j] = {};
    if (!busy()) return;
    const auto column = [this](uint32_t d) {
      FragmentA<Matrix> x;
      load_a(&x, m.q + first_row() * pitch_k() + d, pitch_k());
      QUIRE_GPU_UNROLL
      for (uint32_t j = 0; j < kScores; ++j) {
        FragmentB<Matrix> y;
        load_b_transposed(&y, m.k + group_of(j) * kMatrix * pitch_k() + d, pitch_k());
        multiply<kReal>(&s[j], x, y);
      }
    };
    if constexpr (kExact) {
      QUIRE_GPU_UNROLL
      for (uint32_t d = 0; d < kTiles * kMatrix; d += kMatrix) column(d);
    } else {
      for (uint32_t d = 0; d < m.pitch_k - kPadding; d += kMatrix) column(d);
    }
  }

  // Weights instead of logits, and what they change: top, and what remains of earlier sums. Shared rows meet once.
  QUIRE_GPU_DEVICE void weigh_block(int64_t block, bool whole) {
    float peak[Matrix::kRows];
    QUIRE_GPU_UNROLL
    for (uint32_t r = 0; r < Matrix::kRows; ++r) peak[r] = -infinity();
    if (!busy()) return;
    const bool plain = plain_logits(w);
    const float scale = scale_of_logits(w, plain);
    QUIRE_GPU_UNROLL
    for (uint32_t j = 0; j < kScores; ++j) mask(w, mine, static_cast<int32_t>(block + group_of(j) * kMatrix), plain, whole, &s[j], peak);
    QUIRE_GPU_UNROLL
    for (uint32_t r = 0; r < Matrix::kRows; ++r) peak[r] = row_max<Matrix>(peak[r]);
    if constexpr (kShared) {
      QUIRE_GPU_UNROLL
      for (uint32_t r = 0; r < Matrix::kRows; ++r) m.peaks[wave() * kMatrix + mine.row[r]] = peak[r];
      sync();
      QUIRE_GPU_UNROLL
      for (uint32_t r = 0; r < Matrix::kRows; ++r) {
        for (uint32_t v = 0; v < kWaves; ++v) {
          peak[r] = larger(m.peaks[v * kMatrix + mine.row[r]], peak[r]);
        }
      }
    }
    float base[Matrix::kRows];
    raise(peak, scale, top, keep, base);
    QUIRE_GPU_UNROLL
    for (uint32_t j = 0; j < kScores; ++j) add_weights(j, scale, base);
  }

  // Sums are taken by lane and group of 16 keys, groups in their order, over lanes at the end: in both ways through a tile.
  QUIRE_GPU_DEVICE void add_weights(uint32_t j, float scale, const float* base) {
    float part[Matrix::kRows];
    weigh(&s[j], scale, base, part);
    const uint32_t group = group_of(j);
    QUIRE_GPU_UNROLL
    for (uint32_t r = 0; r < Matrix::kRows; ++r) {
      if constexpr (kShared) {
        m.parts[(group * Matrix::kRows + r) * kWave + lane()] = part[r];
      } else {
        sum[r] = j == 0 ? part[r] : sum[r] + part[r];
      }
    }
    if constexpr (kShared) {
      QUIRE_GPU_UNROLL
      for (uint32_t i = 0; i < Matrix::kC; ++i) {
        const Place at = Matrix::c(lane(), i);
        m.p[at.row * kPitchP + group * kMatrix + at.column] = static_cast<uint16_t>(pair<kReal>(s[j].x[i], 0.0f));
      }
    }
  }

  // o = keep * o + weights * V.
  QUIRE_GPU_DEVICE void gather() {
    if (!busy()) return;
    QUIRE_GPU_UNROLL
    for (uint32_t r = 0; r < Matrix::kRows; ++r) {
      if constexpr (kShared) {
        sum[r] = m.parts[r * kWave + lane()];
        QUIRE_GPU_UNROLL
        for (uint32_t g = 1; g < kGroups; ++g) sum[r] += m.parts[(g * Matrix::kRows + r) * kWave + lane()];
      }
      total[r] = total[r] * keep[r] + sum[r];
    }
    QUIRE_GPU_UNROLL
    for (uint32_t n = 0; n < kMine; ++n) {
      QUIRE_GPU_UNROLL
      for (uint32_t i = 0; i < Matrix::kC; ++i) o[n].x[i] *= keep[Matrix::slot(i)];
    }
    QUIRE_GPU_UNROLL
    for (uint32_t g = 0; g < kGroups; ++g) {
      FragmentA<Matrix> x;
      if constexpr (kShared) {
        load_a(&x, m.p + g * kMatrix, kPitchP);
      } else {
        x = as_a<kReal>(s[g]);
      }
      QUIRE_GPU_UNROLL
      for (uint32_t n = 0; n < kMine; ++n) {
        const uint32_t column = first_column() + n * kColumnsOn;
        if (kExact ? column < kTiles * kMatrix : column < m.pitch_v - kPadding) {
          FragmentB<Matrix> y;
          load_b(&y, m.v + g * kMatrix * pitch_v() + column, pitch_v());
          multiply<kReal>(&o[n], x, y);
        }
      }
    }
  }
};

template <Real kReal, uint32_t kTiles, bool kShared, Way kWay>
QUIRE_GPU_DEVICE void attend_tile(const Tile& w, const Room& m) {
  using MyWork = Work<kReal, kTiles, kShared, kWay>;
  MyWork work{w, m, {}, {}, {}, {}, {}, {}, {}};
  work.begin();
  uint32_t slot = 0;
  bool whole = false;
  int64_t block = find_block(w, m, slot, w.record.kv_begin / kKeyTile * kKeyTile, &whole);
  if (block < w.record.kv_end) stage_keys<kReal, kWay, kTiles * kMatrix>(w, m, slot);
  commit_copies();
  while (block < w.record.kv_end) {
    stage_values<kReal, kWay, kTiles * kMatrix>(w, m, slot);
    commit_copies();
    await_copies<1>();
    sync();  // Q and K are there
    work.score();
    bool next_whole = false;
    const int64_t next = find_block(w, m, slot ^ 1, block + kKeyTile, &next_whole);  // K has been read, if there is a next one
    if (next < w.record.kv_end) stage_keys<kReal, kWay, kTiles * kMatrix>(w, m, slot ^ 1);
    commit_copies();
    work.weigh_block(block, whole);
    await_copies<1>();
    sync();  // V is there; so are parts and P
    work.gather();
    sync();  // V, P and parts have been read
    block = next;
    whole = next_whole;
    slot ^= 1;
  }
  await_copies<0>();
  if (work.busy()) finish<kReal, MyWork::kMine>(w, work.mine, work.o, work.top, work.total, work.first_column(), MyWork::kColumnsOn);
  sync();
}

template <Real kReal, uint32_t kTiles, bool kMixed, Way kWay>
QUIRE_GPU_DEVICE void attend_records(const AttentionArgs& a) {
  const auto* header = static_cast<const PlanHeader*>(a.plan);
  const auto* records = reinterpret_cast<const PlanRecord*>(header + 1);
  constexpr uint32_t kRows = kMixed ? kWaves * kMatrix : kMatrix;
  const Room m = make_room(a, kReal, kRows);
  for (uint32_t i = block_index(); i < header->num_records; i += grid_size()) {
    const PlanRecord& record = records[i];
    const uint32_t heads = record.heads <= a.job.group ? record.heads : a.job.group;
    for (uint32_t h = 0; h < record.heads; h += heads) {
      for (uint32_t first = 0; first < heads * record.queries; first += kRows) {
        const Tile w = tile_of(a, record, heads, record.head + h, first, kRows);
        if constexpr (kMixed) {
          if (w.rows > kMatrix) {
            attend_tile<kReal, kTiles, false, kWay>(w, m);
            continue;
          }
        }
        attend_tile<kReal, kTiles, true, kWay>(w, m);
      }
    }
  }
}

// Decoding has code of its own for what most caches are; not on AMD's, where nobody has measured what it costs in registers.
#if defined(QUIRE_GPU_HIP) || defined(QUIRE_GPU_RDNA) || (defined(QUIRE_GPU_EMULATION) && QUIRE_WAVE == 64)
constexpr bool kOwnWays = false;
#else
constexpr bool kOwnWays = true;
#endif

template <Real kReal, uint32_t kTiles, bool kMixed>
QUIRE_GPU_DEVICE void attend_all(const AttentionArgs& a) {
  if constexpr (kOwnWays && !kMixed) {
    const Way way = way_of(a, kReal, kTiles * kMatrix);
    if (way == Way::kHalves) return attend_records<kReal, kTiles, kMixed, Way::kHalves>(a);
    if (way == Way::kBytes) return attend_records<kReal, kTiles, kMixed, Way::kBytes>(a);
  }
  attend_records<kReal, kTiles, kMixed, Way::kAny>(a);
}

}  // namespace
#endif

#if QUIRE_GPU_MATRIX
#define QUIRE_GPU_MATRIX_KERNEL(name, real, tiles, mixed, blocks) \
  QUIRE_GPU_KERNEL_WIDE(name, AttentionArgs, blocks) { attend_all<Real::real, tiles, mixed>(a); }
#else  // not launched by a driver that knows its device
#define QUIRE_GPU_MATRIX_KERNEL(name, real, tiles, mixed, blocks) \
  QUIRE_GPU_KERNEL_WIDE(name, AttentionArgs, blocks) {            \
    static_cast<void>(a);                                         \
    trap();                                                       \
  }
#endif
QUIRE_GPU_MATRIX_KERNELS(QUIRE_GPU_MATRIX_KERNEL)
#undef QUIRE_GPU_MATRIX_KERNEL

// Decoding: while a block waits for V or multiplies it, K of the next keys is on its way, and the other way round; so at all times a block
// has at least one side of 64 keys in flight, and a multiprocessor as many as it holds blocks: for heads of 64 elements 4 x 64 x 64 x 2
// bytes = 32 KiB, for 128 and for 256, of which two blocks fit, 64 KiB. 24 KiB are what an H100's bandwidth times its latency asks of each
// of its multiprocessors.
#define QUIRE_GPU_IN_FLIGHT(name, real, tiles, mixed, blocks) static_assert((mixed) || (blocks)*kKeyTile * (tiles)*kMatrix * 2 >= 24 << 10);
QUIRE_GPU_MATRIX_KERNELS(QUIRE_GPU_IN_FLIGHT)
#undef QUIRE_GPU_IN_FLIGHT

#if defined(QUIRE_GPU_HIP)
// What the host reads of the code object that a device has taken: 1 where the kernels above are more than a trap.
extern "C" __device__ __attribute__((used)) uint32_t quire_gpu_matrix = QUIRE_GPU_MATRIX;
#endif

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
