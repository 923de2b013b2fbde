// Attention of planned records by products of warpgroups, for prefill on sm_90a: bf16 or fp16 queries over pages of the same format whose
// tokens are a multiple of 16 and whose strides are multiples of 16 bytes. What lanes do with their rows is attend_mma.cu's, with the same
// numbers in the same order.
//
// A block takes a record, at most 128 rows of query tokens and heads of one KV head. Two warpgroups have 64 rows each; a wave of the third,
// which leaves them its registers, brings K and V, 64 keys at a time in boxes of 16 tokens, as far ahead as there are stages, over the ends
// of records too. A stage passes four barriers: K and V are there, K and V are done with; with K comes what is to be known of it. While V
// is multiplied, the logits of the next keys are weighed.
//
// Boxes of which no row sees anything are not asked for. Where some keys of a stage are seen and others not, K's rows of the latter give
// logits that the mask replaces, V's become zeros: their weights are zero, but what lies there may be no number.
#include "drivers/gpu/attend_rows.h"
#include "drivers/gpu/attend_stage.h"
#include "drivers/gpu/hopper.h"

namespace quire::gpu {
QUIRE_GPU_BEGIN
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): places in shared memory are 32 bits wide, addresses 64
#if QUIRE_GPU_HOPPER
namespace {

constexpr uint32_t kFlowRows = 2 * kGroupRows;
constexpr uint32_t kBoxBytes = kBoxTokens * kSwizzleColumns * 2;
constexpr uint32_t kBoxes = kKeyTile / kBoxTokens;
constexpr uint32_t kReaders = 2 * kWarpgroup / 32;  // waves that a stage is for
static_assert(kFlowThreads == 3 * kWarpgroup && kKeyTile == 64 && kFlowTile == kKeyTile * kSwizzleColumns * 2 &&
              kFlowRows == drivers::kPlanRows);

// Registers of a thread: at the launch, then of those who bring and of those who read, who would wait for ever for more than the launch has
// given. Its count is ptxas's, whose report tests/kernels/gpu/no_spills.sh reads.
constexpr uint32_t kLaunchRegisters = 168;
constexpr uint32_t kBringRegisters = 40;
constexpr uint32_t kReadRegisters = 232;
static_assert(kLaunchRegisters * kFlowThreads == kReadRegisters * 2 * kWarpgroup + kBringRegisters * kWarpgroup);

// What the readers are told of a stage. A block below 0 ends the record.
struct Told {
  int32_t block;
  uint32_t whole;  // every row sees every key
  uint64_t seen;   // keys that any row sees
};

// Shared memory: what is told and four barriers of every stage; Q of both warpgroups; stages, K before V. All sizes are known
// where this is compiled, so that one address is all that threads have to keep.
template <uint32_t kWideK, uint32_t kWideV, uint32_t kStages>
struct Flow {
  char* base;

  static_assert(kStages * (sizeof(Told) + 4 * sizeof(uint64_t)) <= kSwizzleBytes && (kStages & (kStages - 1)) == 0);
  static constexpr uint32_t kQueries = kWideK * kFlowTile;  // bytes of a warpgroup
  static constexpr uint32_t kStage = (kWideK + kWideV) * kFlowTile;
  QUIRE_GPU_DEVICE Told* told(uint32_t stage) const { return reinterpret_cast<Told*>(base) + stage; }
  QUIRE_GPU_DEVICE uint64_t* barrier(uint32_t which, uint32_t stage) const {
    return reinterpret_cast<uint64_t*>(base + kStages * sizeof(Told)) + which * kStages + stage;
  }
  QUIRE_GPU_DEVICE uint64_t* k_there(uint32_t stage) const { return barrier(0, stage); }
  QUIRE_GPU_DEVICE uint64_t* v_there(uint32_t stage) const { return barrier(1, stage); }
  QUIRE_GPU_DEVICE uint64_t* k_done(uint32_t stage) const { return barrier(2, stage); }
  QUIRE_GPU_DEVICE uint64_t* v_done(uint32_t stage) const { return barrier(3, stage); }
  QUIRE_GPU_DEVICE char* q(uint32_t group) const { return base + kSwizzleBytes + group * kQueries; }
  QUIRE_GPU_DEVICE char* k(uint32_t stage) const { return base + kSwizzleBytes + 2 * kQueries + stage * kStage; }
  QUIRE_GPU_DEVICE char* v(uint32_t stage) const { return k(stage) + kWideK * kFlowTile; }
};

template <uint32_t kWideK, uint32_t kWideV, uint32_t kStages>
QUIRE_GPU_DEVICE Flow<kWideK, kWideV, kStages> make_flow() {
  const Flow<kWideK, kWideV, kStages> f{shared() + (kSwizzleBytes - shared_address(shared()) % kSwizzleBytes) % kSwizzleBytes};
  if (thread_index() == 0) {
    for (uint32_t i = 0; i < kStages; ++i) {
      barrier_init(f.k_there(i), 1);
      barrier_init(f.v_there(i), 1);
      barrier_init(f.k_done(i), kReaders);
      barrier_init(f.v_done(i), kReaders);
    }
    barriers_are_made();
  }
  sync();
  return f;
}

// How many stages have passed: which is next, and which of its lives it is in.
template <uint32_t kStages>
struct Turn {
  uint32_t passed;
  QUIRE_GPU_DEVICE uint32_t stage() const { return passed % kStages; }
  QUIRE_GPU_DEVICE uint32_t phase() const { return passed / kStages % 2; }
};

// All tiles of the block, in the same order for those who bring and those who compute.
template <typename Each>
QUIRE_GPU_DEVICE void walk_tiles(const AttentionArgs& a, const Each& each) {
  const auto* header = static_cast<const PlanHeader*>(a.plan);
  const auto* records = reinterpret_cast<const PlanRecord*>(header + 1);
  for (uint32_t i = block_index(); i < header->num_records; i += grid_size()) {
    const PlanRecord record = records[i];
    const uint32_t heads = record.heads <= a.job.group ? record.heads : a.job.group;
    for (uint32_t h = 0; h < record.heads; h += heads) {
      for (uint32_t first = 0; first < heads * record.queries; first += kFlowRows) {
        each(tile_of(a, record, heads, record.head + h, first, kFlowRows));
      }
    }
  }
}

QUIRE_GPU_DEVICE bool any_sees(const Tile& w, int64_t key) {
  bool seen = false;
  for (uint32_t q = w.query_end; !seen && q > w.query_begin; --q) seen = sees(w, q - 1, key);
  return seen;
}

// One side of a stage, when its readers are done with what it held.
QUIRE_GPU_DEVICE void bring(const Tile& w, const TensorMap& map, char* to, uint32_t wide, uint64_t* there, uint64_t* done, uint32_t phase,
                            const Told& told, Told* tell) {
  const uint32_t box = thread_index() % 32;
  const uint64_t mask = (uint64_t{1} << kBoxTokens) - 1;
  uint32_t boxes = 0;
  for (uint32_t b = 0; b < kBoxes; ++b) boxes += (told.seen >> b * kBoxTokens & mask) != 0 ? 1 : 0;
  barrier_wait(done, phase ^ 1);
  if (elected()) {
    if (tell != nullptr) *tell = told;
    barrier_expect(there, boxes * wide * kBoxBytes);
  }
  sync_wave();
  if (box < kBoxes && (told.seen >> box * kBoxTokens & mask) != 0) {
    const drivers::AttentionOp& op = w.a.op;
    const uint32_t key = static_cast<uint32_t>(told.block) + box * kBoxTokens;
    const uint32_t column = key / op.kv.block_tokens;
    const auto page = static_cast<uint32_t>(op.table[w.record.row * op.table_pitch + column]);
    for (uint32_t c = 0; c < wide; ++c) {
      load_box(to + c * kFlowTile + box * kBoxBytes, map, there, c * kSwizzleColumns, key - column * op.kv.block_tokens, w.kv_head, page);
    }
  }
}

template <uint32_t kWideK, uint32_t kWideV, uint32_t kStages>
QUIRE_GPU_DEVICE void bring_all(const FlowArgs& a, const Flow<kWideK, kWideV, kStages>& f) {
  Turn<kStages> turn{0};
  const uint32_t lane = thread_index() % 32;
  if (elected()) {
    prefetch_map(a.key);
    prefetch_map(a.value);
  }
  walk_tiles(a.op, [&](const Tile& w) {
    const auto stage = [&](const Told& told) {
      const uint32_t s = turn.stage();
      bring(w, a.key, f.k(s), kWideK, f.k_there(s), f.k_done(s), turn.phase(), told, f.told(s));
      bring(w, a.value, f.v(s), kWideV, f.v_there(s), f.v_done(s), turn.phase(), told, nullptr);
      ++turn.passed;
    };
    for (int64_t block = w.record.kv_begin / kKeyTile * kKeyTile; block < w.record.kv_end; block += kKeyTile) {
      const Cover cover = cover_of(w, block);
      if (cover == Cover::kNone) continue;
      Told told{static_cast<int32_t>(block), cover == Cover::kAll ? 1u : 0u, ~uint64_t{0}};
      if (cover != Cover::kAll) {
        told.seen = ballot(any_sees(w, block + lane));
        told.seen |= static_cast<uint64_t>(ballot(any_sees(w, block + 32 + lane))) << 32;
      }
      if (told.seen != 0) stage(told);
    }
    stage(Told{-1, 0, 0});
  });
}

// A thread's part of 64 rows of a tile. kWideK, kWideV: tiles of 64 columns that K and V have at most, zeros behind theirs. A run of
// products is to have no loop that is not unrolled: the compiler would set them one behind the other.
template <Real kReal, uint32_t kWideK, uint32_t kWideV, uint32_t kStages>
struct Reader {
  static constexpr uint32_t kTiles = kWideV * kSwizzleColumns / kMatrix;
  static constexpr bool kAhead = kWideV < 4;  // logits of the next keys while V is multiplied: where there are registers for both

  const Tile& w;
  const Flow<kWideK, kWideV, kStages>& f;
  Rows mine;
  FragmentC<Matrix> o[kTiles];
  FragmentC<Matrix> s[kGroups];
  FragmentA<Matrix> p[kGroups];
  float top[Matrix::kRows], total[Matrix::kRows], keep[Matrix::kRows];

  QUIRE_GPU_DEVICE static uint32_t thread() { return thread_index() % kWarpgroup; }
  QUIRE_GPU_DEVICE static uint32_t first_row() { return thread_index() / kWarpgroup * kGroupRows; }
  QUIRE_GPU_DEVICE float* sums_s() { return &s[0].x[0]; }
  QUIRE_GPU_DEVICE float* sums_o() { return &o[0].x[0]; }
  QUIRE_GPU_DEVICE char* rows_q() const { return f.q(thread_index() / kWarpgroup); }

  // The wave is done with one side of a stage.
  QUIRE_GPU_DEVICE static void release(uint64_t* done) {
    sync_wave();
    if (elected()) barrier_arrive(done);
  }
  QUIRE_GPU_DEVICE Told take(const Turn<kStages>& turn) const {
    barrier_wait(f.k_there(turn.stage()), turn.phase());
    return *f.told(turn.stage());
  }

  QUIRE_GPU_DEVICE void begin() {
    begin_rows<kTiles>(w, &mine, top, total, o, [](uint32_t i) { return first_row() + Sm90::d(thread(), i).row; });
    stage_queries();
  }

  // Q's rows as the products want them; zeros behind the last row and the last column.
  QUIRE_GPU_DEVICE void stage_queries() {
    const quire_tensor& query = w.a.op.query;
    const uint32_t dim = w.a.job.key.head_dim;
    const bool direct = comes_by_sixteens(query, dim);
    const uint32_t columns = kWideK * kSwizzleColumns / 8;
    wait_for_warpgroup();  // the products of the tile before have read theirs
    for (uint32_t i = thread(); i < kGroupRows * columns; i += kWarpgroup) {
      const uint32_t row = i / columns;
      const uint32_t d = i % columns * 8;
      const uint32_t r = first_row() + row;
      char* to = rows_q() + d / kSwizzleColumns * kFlowTile + row * 128 + ((d % kSwizzleColumns / 8) ^ (row % 8)) * 16;
      const char* from =
          r < w.rows ? reinterpret_cast<const char*>(drivers::element3(query, w.token + query_of(w, r), head_of(w, r), 0)) : nullptr;
      if (direct) {
        const bool wanted = from != nullptr && d < dim;
        copy_async(to, wanted ? from + d * 2 : nullptr, wanted);
        continue;
      }
      for (uint32_t e = 0; e < 8; ++e) {
        uint16_t x = 0;
        if (from != nullptr && d + e < dim) __builtin_memcpy(&x, from + static_cast<int64_t>(d + e) * query.stride[2], 2);
        __builtin_memcpy(to + e * 2, &x, 2);
      }
    }
    commit_copies();
    await_copies<0>();
    fence_async();
    wait_for_warpgroup();
  }

  // s = Q * K^T, begun.
  QUIRE_GPU_DEVICE void score(uint32_t stage) {
    const uint64_t q = describe_rows(fresh(shared_address(rows_q())));
    const uint64_t k = describe_rows(fresh(shared_address(f.k(stage))));
    hold<kGroups * Matrix::kC>(sums_s());
    products_begin();
    QUIRE_GPU_UNROLL
    for (uint32_t d = 0; d < kWideK * kSwizzleColumns; d += kMatrix) {
      const uint32_t at = d / kSwizzleColumns * kFlowTile + d % kSwizzleColumns * 2;
      multiply_group<kReal, kKeyTile, false>(sums_s(), moved(q, at), moved(k, at), d != 0);
    }
    products_commit();
  }

  // Weights instead of logits; what they change.
  QUIRE_GPU_DEVICE void weigh_block(const Told& told) {
    float peak[Matrix::kRows], base[Matrix::kRows], sum[Matrix::kRows] = {};
    const bool plain = plain_logits(w);
    const float scale = scale_of_logits(w, plain);
    QUIRE_GPU_UNROLL
    for (uint32_t r = 0; r < Matrix::kRows; ++r) peak[r] = -infinity();
    QUIRE_GPU_UNROLL
    for (uint32_t j = 0; j < kGroups; ++j)
      mask(w, mine, told.block + static_cast<int32_t>(j * kMatrix), plain, told.whole != 0, &s[j], peak);
    QUIRE_GPU_UNROLL
    for (uint32_t r = 0; r < Matrix::kRows; ++r) peak[r] = row_max<Matrix>(peak[r]);
    raise(peak, scale, top, keep, base);
    QUIRE_GPU_UNROLL
    for (uint32_t j = 0; j < kGroups; ++j) {
      float part[Matrix::kRows];
      weigh(&s[j], scale, base, part);
      QUIRE_GPU_UNROLL
      for (uint32_t r = 0; r < Matrix::kRows; ++r) sum[r] += part[r];
    }
    QUIRE_GPU_UNROLL
    for (uint32_t r = 0; r < Matrix::kRows; ++r) total[r] = total[r] * keep[r] + sum[r];
  }

  QUIRE_GPU_DEVICE void round_weights() {
    QUIRE_GPU_UNROLL
    for (uint32_t j = 0; j < kGroups; ++j) p[j] = as_a<kReal>(s[j]);
  }

  // o = keep * o, before any product is begun; after the first blocks a row's largest logit seldom changes.
  QUIRE_GPU_DEVICE void shrink() {
    bool less = false;
    QUIRE_GPU_UNROLL
    for (uint32_t r = 0; r < Matrix::kRows; ++r) less = less || keep[r] != 1.0f;
    if (ballot(less) != 0) {
      QUIRE_GPU_UNROLL
      for (uint32_t n = 0; n < kTiles; ++n) {
        QUIRE_GPU_UNROLL
        for (uint32_t i = 0; i < Matrix::kC; ++i) o[n].x[i] *= keep[Matrix::slot(i)];
      }
    }
    hold<kTiles * Matrix::kC>(sums_o());
  }

  // o += weights * V, begun.
  QUIRE_GPU_DEVICE void gather(const Turn<kStages>& turn, uint64_t seen) {
    barrier_wait(f.v_there(turn.stage()), turn.phase());
    char* v = f.v(turn.stage());
    if (seen != ~uint64_t{0}) {
      // Both warpgroups write the same zeros, each before its own products.
      for (uint32_t i = thread(); i < kWideV * kKeyTile * 8; i += kWarpgroup) {
        if ((seen >> (i / 8 % kKeyTile) & 1) != 0) continue;
        __builtin_memset(__builtin_assume_aligned(v + i * 16, 16), 0, 16);
      }
      fence_async();
      wait_for_warpgroup();
    }
    const uint64_t columns = describe_columns(fresh(shared_address(v)), kFlowTile);
    products_begin();
    QUIRE_GPU_UNROLL
    for (uint32_t g = 0; g < kGroups; ++g) {
      multiply_group<kReal, kTiles * kMatrix, true>(sums_o(), p[g], moved(columns, g * kMatrix * 128), true);
    }
    products_commit();
  }

  // A tile's stages up to the one that ends it.
  QUIRE_GPU_DEVICE void read(Turn<kStages>& turn) {
    if constexpr (kAhead) {
      read_ahead(turn);
    } else {
      for (Told now = take(turn); now.block >= 0; now = take(turn)) {
        weigh_first(turn, now);
        finish_stage(turn, now.seen);
        ++turn.passed;
      }
    }
    pass(turn);
  }

  QUIRE_GPU_DEVICE void read_ahead(Turn<kStages>& turn) {
    Told now = take(turn);
    if (now.block < 0) return;
    weigh_first(turn, now);
    Turn<kStages> at = turn;
    ++turn.passed;
    for (Told next = take(turn); next.block >= 0; next = take(turn)) {
      shrink();
      score(turn.stage());
      gather(at, now.seen);
      products_await<1>();
      hold<kGroups * Matrix::kC>(sums_s());
      release(f.k_done(turn.stage()));
      weigh_block(next);
      products_await<0>();
      hold<kTiles * Matrix::kC>(sums_o());
      release(f.v_done(at.stage()));
      round_weights();
      now = next;
      at = turn;
      ++turn.passed;
    }
    finish_stage(at, now.seen);
  }

  QUIRE_GPU_DEVICE void weigh_first(const Turn<kStages>& turn, const Told& told) {
    score(turn.stage());
    products_await<0>();
    hold<kGroups * Matrix::kC>(sums_s());
    release(f.k_done(turn.stage()));
    weigh_block(told);
    round_weights();
  }

  QUIRE_GPU_DEVICE void finish_stage(const Turn<kStages>& turn, uint64_t seen) {
    shrink();
    gather(turn, seen);
    products_await<0>();
    hold<kTiles * Matrix::kC>(sums_o());
    release(f.v_done(turn.stage()));
  }

  QUIRE_GPU_DEVICE void pass(Turn<kStages>& turn) const {
    barrier_wait(f.v_there(turn.stage()), turn.phase());
    release(f.k_done(turn.stage()));
    release(f.v_done(turn.stage()));
    ++turn.passed;
  }
  // No row of the tile is this warpgroup's.
  QUIRE_GPU_DEVICE void pass_all(Turn<kStages>& turn) const {
    while (take(turn).block >= 0) pass(turn);
    pass(turn);
  }
};

template <Real kReal, uint32_t kWideK, uint32_t kWideV, uint32_t kStages>
QUIRE_GPU_DEVICE void attend_flow(const FlowArgs& a) {
  const Flow<kWideK, kWideV, kStages> f = make_flow<kWideK, kWideV, kStages>();
  if (thread_index() >= 2 * kWarpgroup) {
    set_registers<kBringRegisters, false>();
    if (thread_index() < 2 * kWarpgroup + 32) bring_all(a, f);
  } else {
    set_registers<kReadRegisters, true>();
    Turn<kStages> turn{0};
    walk_tiles(a.op, [&](const Tile& w) {
      using MyReader = Reader<kReal, kWideK, kWideV, kStages>;
      MyReader reader{w, f, {}, {}, {}, {}, {}, {}, {}};
      if (MyReader::first_row() >= w.rows) {
        reader.pass_all(turn);
        return;
      }
      reader.begin();
      reader.read(turn);
      finish<kReal, MyReader::kTiles>(w, reader.mine, reader.o, reader.top, reader.total, 0, kMatrix);
    });
  }
}

}  // namespace
#endif

#if QUIRE_GPU_HOPPER
#define QUIRE_GPU_FLOW_KERNEL(name, real, wide_k, wide_v, stages) \
  QUIRE_GPU_KERNEL_SIZED(name, FlowArgs, kFlowThreads, 1) { attend_flow<Real::real, wide_k, wide_v, stages>(a); }
#else  // not launched by a driver that knows its device
#define QUIRE_GPU_FLOW_KERNEL(name, real, wide_k, wide_v, stages) \
  QUIRE_GPU_KERNEL_SIZED(name, FlowArgs, kFlowThreads, 1) {       \
    static_cast<void>(a);                                         \
    trap();                                                       \
  }
#endif
QUIRE_GPU_FLOW_KERNELS(QUIRE_GPU_FLOW_KERNEL)
#undef QUIRE_GPU_FLOW_KERNEL

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
