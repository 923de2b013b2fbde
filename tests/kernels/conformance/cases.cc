#include "tests/kernels/conformance/cases.h"

#include "tests/kernels/conformance/oracle.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <numeric>

namespace quire::conformance {

uint64_t mixed(uint64_t seed, uint64_t a, uint64_t b) {
  uint64_t z = seed * 0x9e3779b97f4a7c15ull + a * 0xbf58476d1ce4e5b9ull + b * 0x94d049bb133111ebull + 0x2545f4914f6cdd1dull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

double normal(uint64_t seed, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  const uint64_t bits = mixed(mixed(seed, a, b), c, d);
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<double>(mixed(bits, static_cast<uint64_t>(i)) >> 11) * 0x1p-53 - 0.5;
  return sum * std::sqrt(3.0);
}

quire_tensor make_tensor(Array<uint8_t>* bytes, quire_dtype dtype, std::vector<int64_t> shape, int64_t pad) {
  quire_tensor t{};
  t.dtype = dtype;
  t.device_type = shared_type();
  t.ndim = static_cast<int32_t>(shape.size());
  int64_t stride = oracle::bytes_of(dtype);
  for (int32_t d = t.ndim - 1; d >= 0; --d) {
    t.shape[d] = shape[static_cast<size_t>(d)];
    t.stride[d] = stride;
    stride = stride * t.shape[d] + (d == t.ndim - 1 ? pad : 0);
  }
  bytes->assign(static_cast<size_t>(std::max<int64_t>(stride, 1)), 0xff);
  t.data = bytes->data();
  return t;
}

void fill_normal(const quire_tensor& t, uint64_t seed, double spread) {
  const int64_t n1 = t.ndim > 1 ? t.shape[1] : 1;
  const int64_t n2 = t.ndim > 2 ? t.shape[2] : 1;
  for (int64_t i = 0; i < t.shape[0]; ++i) {
    for (int64_t j = 0; j < n1; ++j) {
      for (int64_t k = 0; k < n2; ++k) {
        char* p = static_cast<char*>(t.data) + i * t.stride[0] + j * t.stride[1] + k * t.stride[2];
        oracle::encode(t.dtype, p, spread * normal(seed, static_cast<uint64_t>(i), static_cast<uint64_t>(j), static_cast<uint64_t>(k)));
      }
    }
  }
}

namespace {

// Strides by letter, innermost outwards; returns the bytes covered.
int64_t strides_of(const Shape& shape, const Layout& layout, const std::string& order, int64_t wide, uint64_t ids, int64_t* of) {
  int64_t stride = oracle::bytes_of(shape.cache);
  for (auto letter = order.rbegin(); letter != order.rend(); ++letter) {
    const int64_t extent = *letter == 'B'   ? static_cast<int64_t>(ids)
                           : *letter == 'K' ? static_cast<int64_t>(shape.sides)
                           : *letter == 'T' ? static_cast<int64_t>(shape.block)
                           : *letter == 'H' ? static_cast<int64_t>(shape.kv_heads)
                                            : wide;
    if (*letter == 'T') stride += layout.pad_token;
    if (*letter == 'B') stride += layout.gap;
    of[static_cast<unsigned char>(*letter)] = stride;
    stride *= extent;
  }
  return stride;
}

// First elements that make logits follow the keys' first elements: in full or by a quarter, upwards or downwards, so that neighbours among
// the rows outgrow their maxima in different blocks.
void tilt_queries(const quire_tensor& query, uint64_t seed) {
  const double whole = std::sqrt(static_cast<double>(query.shape[2]));
  for (int64_t t = 0; t < query.shape[0]; ++t) {
    for (int64_t h = 0; h < query.shape[1]; ++h) {
      const uint64_t kind = mixed(seed + 8, static_cast<uint64_t>(t), static_cast<uint64_t>(h));
      oracle::encode(query.dtype, static_cast<char*>(query.data) + t * query.stride[0] + h * query.stride[1],
                     whole * ((kind & 1) != 0 ? 1.0 : 0.25) * ((kind & 2) != 0 ? 1.0 : -1.0));
    }
  }
}

}  // namespace

quire_paged_kv make_kv(Array<uint8_t>* pool, const Shape& shape, const Layout& layout, uint64_t ids) {
  quire_paged_kv kv{};
  kv.dtype = shape.cache;
  kv.num_heads = shape.kv_heads;
  kv.block_tokens = shape.block;
  kv.num_sides = shape.sides;
  kv.num_ids = ids;
  const bool apart = !layout.value_order.empty() && shape.sides == 2;
  int64_t strides[2][128] = {};
  const auto of = [&strides](uint32_t side, char letter) { return strides[side][static_cast<unsigned char>(letter)]; };
  int64_t begin[2] = {layout.lead, layout.lead};
  int64_t bytes = layout.lead;
  if (apart) {
    bytes += strides_of(shape, layout, layout.order, shape.dim_k, ids, strides[0]);
    begin[1] = bytes;
    bytes += strides_of(shape, layout, layout.value_order, shape.dim_v, ids, strides[1]);
  } else {
    // Both sides get rows of the wider one.
    const int64_t wide = shape.sides == 2 ? std::max(shape.dim_k, shape.dim_v) : shape.dim_k;
    bytes += strides_of(shape, layout, layout.order, wide, ids, strides[0]);
    std::copy_n(strides[0], 128, strides[1]);
    begin[1] += of(0, 'K');
  }
  pool->assign(static_cast<size_t>(bytes), 0xff);
  for (uint32_t s = 0; s < shape.sides; ++s) {
    quire_paged_side& side = kv.side[s];
    side.unit = of(s, 'B');
    side.stride_token = of(s, 'T');
    side.stride_head = layout.reversed_heads ? -of(s, 'H') : of(s, 'H');
    side.stride_dim = of(s, 'D');
    side.head_dim = s == 0 ? shape.dim_k : shape.dim_v;
    side.base = pool->data() + begin[s] + (layout.reversed_heads ? (shape.kv_heads - 1) * of(s, 'H') : 0);
  }
  return kv;
}

AttentionCase::AttentionCase(const Shape& s, const Layout& layout) : shape(s) {
  indptr = {0};
  int32_t longest = 1;
  uint64_t blocks = 0;
  for (const Row& r : s.rows) {
    indptr.push_back(indptr.back() + r.queries);
    lengths.push_back(r.length);
    longest = std::max(longest, r.length);
    blocks += (static_cast<uint64_t>(r.length) + s.block - 1) / s.block;
  }
  const uint64_t ids = blocks + 3;  // id 0 and two strangers own nothing
  op.kv = make_kv(&pool, s, layout, ids);
  std::vector<int32_t> order(ids - 1);
  std::iota(order.begin(), order.end(), 1);
  for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[mixed(s.id_seed, i) % (i + 1)]);
  const uint64_t pitch = (static_cast<uint64_t>(longest) + s.block - 1) / s.block + 1;
  table.assign(pitch * s.rows.size(), 0);
  size_t next = 0;
  for (size_t r = 0; r < s.rows.size(); ++r) {
    for (int32_t p = 0; p < s.rows[r].length; ++p) {
      const uint64_t column = static_cast<uint64_t>(p) / s.block;
      if (static_cast<uint32_t>(p) % s.block == 0) table[r * pitch + column] = order[next++];
      for (uint32_t side = 0; side < s.sides; ++side) {
        for (uint32_t h = 0; h < s.kv_heads; ++h) {
          for (uint32_t d = 0; d < op.kv.side[side].head_dim; ++d) {
            double value = normal(s.seed + side, r, static_cast<uint64_t>(p), h, d) * (s.cache.code == QUIRE_DTYPE_INT ? 40.0 : 1.0);
            if (s.climb != 0 && side == 0 && d == 0) value = s.climb * (p - s.rows[r].length * 0.5) / 64;
            oracle::encode(s.cache, oracle::kv_address(op.kv, side, table[r * pitch + column], p % static_cast<int32_t>(s.block), h, d),
                           value);
          }
        }
      }
    }
  }
  op.query = make_tensor(&query_, s.query, {indptr.back(), s.q_heads, s.dim_k}, 2 * oracle::bytes_of(s.query));
  fill_normal(op.query, s.seed + 7, s.spread);
  if (s.climb != 0) tilt_queries(op.query, s.seed);
  op.out = make_tensor(&out_, s.out, {indptr.back(), s.q_heads, s.dim_v}, 3 * oracle::bytes_of(s.out));
  op.lse = make_tensor(&lse_, kF32, {indptr.back(), s.q_heads}, 4);
  op.arrays.table = table.data();
  op.arrays.table_pitch = pitch;
  op.arrays.query_indptr = indptr.data();
  op.arrays.kv_len = lengths.data();
  op.arrays.num_rows = static_cast<uint32_t>(s.rows.size());
  op.flags = QUIRE_ATTENTION_CAUSAL;
  if (s.sides == 1) op.head_dim_v = s.dim_v;
}

void AttentionCase::poison(uint32_t row, int32_t first, int32_t last) {
  const auto block = static_cast<int32_t>(shape.block);
  for (int32_t p = first; p < last; ++p) {
    int32_t& id = table[row * op.arrays.table_pitch + static_cast<uint64_t>(p / block)];
    for (uint32_t side = 0; side < shape.sides; ++side) {
      for (uint32_t h = 0; h < shape.kv_heads; ++h) {
        for (uint32_t d = 0; d < op.kv.side[side].head_dim; ++d) {
          memset(oracle::kv_address(op.kv, side, id, p % block, h, d), 0xff, static_cast<size_t>(oracle::bytes_of(shape.cache)));
        }
      }
    }
  }
  for (int32_t c = (first + block - 1) / block; c < last / block; ++c) table[row * op.arrays.table_pitch + static_cast<uint64_t>(c)] = 0;
}

void AttentionCase::reset() {
  std::fill(out_.begin(), out_.end(), 0xff);
  std::fill(lse_.begin(), lse_.end(), 0xff);
}

std::vector<double> AttentionCase::out() const {
  std::vector<double> v;
  for (int64_t t = 0; t < op.out.shape[0]; ++t) {
    for (int64_t h = 0; h < op.out.shape[1]; ++h) {
      for (int64_t d = 0; d < op.out.shape[2]; ++d) v.push_back(oracle::element(op.out, t, h, d));
    }
  }
  return v;
}

std::vector<double> AttentionCase::lse() const {
  std::vector<double> v;
  for (int64_t t = 0; t < op.lse.shape[0]; ++t) {
    for (int64_t h = 0; h < op.lse.shape[1]; ++h) v.push_back(oracle::element(op.lse, t, h, 0));
  }
  return v;
}

bool AttentionCase::outputs_untouched() const {
  auto untouched = [](uint8_t b) { return b == 0xff; };
  return std::all_of(out_.begin(), out_.end(), untouched) && std::all_of(lse_.begin(), lse_.end(), untouched);
}

bool AttentionCase::padding_untouched() const {
  Array<uint8_t> covered = out_;
  for (int64_t t = 0; t < op.out.shape[0]; ++t) {
    for (int64_t h = 0; h < op.out.shape[1]; ++h) {
      const int64_t at = t * op.out.stride[0] + h * op.out.stride[1];
      std::fill_n(covered.begin() + at, op.out.shape[2] * op.out.stride[2], 0xff);
    }
  }
  return std::all_of(covered.begin(), covered.end(), [](uint8_t b) { return b == 0xff; });
}

Errors row_errors(const std::vector<double>& got, const std::vector<double>& want, uint64_t width) {
  Errors e;
  uint64_t rows = 0;
  if (got.size() != want.size()) return {std::nan(""), std::numeric_limits<double>::infinity()};
  for (size_t at = 0; at + width <= want.size(); at += width, ++rows) {
    double difference = 0;
    double norm = 0;
    for (size_t i = at; i < at + width; ++i) {
      difference += (got[i] - want[i]) * (got[i] - want[i]);
      norm += want[i] * want[i];
    }
    double relative = norm == 0 ? (difference == 0 ? 0.0 : std::numeric_limits<double>::infinity()) : std::sqrt(difference / norm);
    if (std::isnan(relative)) relative = std::numeric_limits<double>::infinity();
    e.mean += relative;
    e.worst = std::max(e.worst, relative);
  }
  if (rows != 0) e.mean /= static_cast<double>(rows);
  return e;
}

namespace {

struct Noted {
  const char* name;
  Errors errors;
  std::string mean_of, worst_of;
};

Noted* noted() {
  static Noted all[] = {{"bf16 caches", {}, "", ""}, {"other caches", {}, "", ""}};
  return all;
}

}  // namespace

void note_errors(const Shape& shape, const Errors& errors, const std::string& what) {
  if (shape.out.code != QUIRE_DTYPE_BFLOAT) return;
  Noted& n = noted()[shape.cache.code == QUIRE_DTYPE_BFLOAT ? 0 : 1];
  if (errors.mean > n.errors.mean) n.errors.mean = errors.mean, n.mean_of = what;
  if (errors.worst > n.errors.worst) n.errors.worst = errors.worst, n.worst_of = what;
}

void print_noted_errors() {
  for (const Noted* n = noted(); n != noted() + 2; ++n) {
    if (n->errors.worst == 0) continue;
    std::printf("attention in bf16, %s: largest mean error %.2e (%s), worst row %.2e (%s)\n", n->name, n->errors.mean, n->mean_of.c_str(),
                n->errors.worst, n->worst_of.c_str());
  }
}

Errors bounds(const Shape& shape) {
  // Stored values are exact to the oracle; what is left is the rounding of the output and fp32 arithmetic.
  if (shape.out.code == QUIRE_DTYPE_BFLOAT) return {4e-3, 1e-2};
  if (shape.out.bits == 16) return {5e-4, 1e-3};
  return {5e-6, 2e-5};
}

}  // namespace quire::conformance
