#include "tests/kernels/conformance/coded_case.h"

#include "tests/kernels/conformance/coded_oracle.h"
#include "tests/kernels/conformance/open_driver.h"
#include "tests/kernels/conformance/oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace quire::conformance {

CodedCase::CodedCase(const Scheme& scheme, const Heads& heads, uint32_t sides, uint32_t block, std::vector<int32_t> lengths,
                     quire_dtype query)
    : scheme_(scheme), heads_(heads), lengths_(std::move(lengths)), query_type_(query) {
  uint64_t blocks = 0;
  for (const int32_t length : lengths_) {
    const uint64_t own = (static_cast<uint64_t>(length) + block - 1) / block;
    blocks += own;
    pitch_ = std::max(pitch_, own);
  }
  place(sides, block, blocks + 2);
  std::vector<int32_t> order(blocks + 1);
  std::iota(order.begin(), order.end(), 1);
  for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[mixed(5, i) % (i + 1)]);
  table_.assign(pitch_ * lengths_.size(), 0);
  size_t next = 0;
  for (size_t r = 0; r < lengths_.size(); ++r) {
    for (uint64_t c = 0; c * block < static_cast<uint64_t>(lengths_[r]); ++c) table_[r * pitch_ + c] = order[next++];
  }
}

int32_t CodedCase::id_of(size_t r, int32_t p) const { return table_[r * pitch_ + static_cast<uint64_t>(p) / kv.block_tokens]; }

double CodedCase::source(uint32_t side, size_t r, int32_t p, uint32_t head, uint32_t d) const {
  const auto at = static_cast<uint64_t>(p);
  double value = normal(11 + side, r, at, head, d);
  if (at % 4 == 1) value *= 1e-3;
  if ((at + d) % 37 == 0) value *= 20;
  if (at % 9 == 8) value = 0;
  uint32_t bits = 0;
  oracle::encode(query_type_, &bits, value);
  return oracle::decode(query_type_, &bits);
}

void CodedCase::write_row(const quire_tensor& t, int64_t i, uint32_t side, size_t r, int32_t p) const {
  for (uint32_t head = 0; head < kv.num_heads; ++head) {
    for (uint32_t d = 0; d < kv.side[side].head_dim; ++d) {
      char* to = static_cast<char*>(t.data) + i * t.stride[0] + head * t.stride[1] + d * t.stride[2];
      oracle::encode(query_type_, to, source(side, r, p, head, d));
    }
  }
}

quire_code CodedCase::append(const std::vector<int32_t>& from, const std::vector<int32_t>& to, quire_error* err) {
  int64_t tokens = 0;
  for (size_t r = 0; r < from.size(); ++r) tokens += to[r] - from[r];
  Array<uint8_t> bytes[2];
  WithBatch<quire_kv_append> op{};
  Array<int64_t> slots;
  for (uint32_t side = 0; side < kv.num_sides; ++side) {
    const quire_tensor t = make_tensor(&bytes[side], query_type_, {tokens, kv.num_heads, kv.side[side].head_dim}, 8);
    (side == 0 ? op.key : op.value) = t;
    slots.clear();
    for (size_t r = 0; r < from.size(); ++r) {
      for (int32_t p = from[r]; p < to[r]; ++p) {
        write_row(t, static_cast<int64_t>(slots.size()), side, r, p);
        slots.push_back(int64_t{id_of(r, p)} * kv.block_tokens + p % static_cast<int32_t>(kv.block_tokens));
      }
    }
  }
  op.arrays.slots = slots.data();
  op.set_tokens(static_cast<uint64_t>(tokens));
  op.kv = kv;
  op.scale_k = scale_k;
  op.scale_v = scale_v;
  const quire_code code = driver().api->kv_append(driver().stream, &op, err);
  if (code != QUIRE_OK) return code;
  EXPECT_EQ(driver().api->stream_synchronize(driver().stream, -1, err), QUIRE_OK);
  op.kv = mirrored();
  oracle::append(op);
  return QUIRE_OK;
}

quire_paged_kv CodedCase::mirrored() {
  quire_paged_kv other = kv;
  for (quire_paged_side& side : other.side) {
    if (side.base != nullptr) side.base = mirror.data() + (static_cast<uint8_t*>(side.base) - pool.data());
  }
  return other;
}

void CodedCase::prepare(const std::vector<int32_t>& kv_len, const std::vector<int32_t>& queries, Step* step) const {
  for (size_t r = 0; r < kv_len.size(); ++r) {
    step->kv_len.push_back(kv_len[r]);
    step->indptr.push_back(step->indptr.back() + queries[r]);
  }
  quire_attention& op = step->op;
  const uint32_t dim_v = kv.num_sides == 1 ? heads_.dim_v : kv.side[1].head_dim;
  op.kv = kv;
  op.head_dim_v = dim_v;
  op.flags = QUIRE_ATTENTION_CAUSAL;
  op.query = make_tensor(&step->query, query_type_, {step->indptr.back(), heads_.query, kv.side[0].head_dim}, 4);
  fill_normal(op.query, 77);
  op.out = make_tensor(&step->out, query_type_, {step->indptr.back(), heads_.query, dim_v}, 0);
  op.lse = make_tensor(&step->lse, kF32, {step->indptr.back(), heads_.query}, 0);
  quire_batch& batch = step->op.arrays;
  batch.table = table_.data();
  batch.table_pitch = pitch_;
  batch.query_indptr = step->indptr.data();
  batch.kv_len = step->kv_len.data();
  batch.num_rows = static_cast<uint32_t>(kv_len.size());
}

quire_paged_kv CodedCase::plain(quire_dtype type, bool decoded, const std::vector<int32_t>& lengths, Array<uint8_t>* bytes) const {
  Shape shape;
  shape.kv_heads = kv.num_heads;
  shape.dim_k = kv.side[0].head_dim;
  shape.dim_v = kv.num_sides == 1 ? heads_.dim_v : kv.side[1].head_dim;
  shape.block = kv.block_tokens;
  shape.sides = kv.num_sides;
  shape.cache = type;
  const quire_paged_kv made = make_kv(bytes, shape, {}, kv.num_ids);
  each(lengths, [&](uint32_t side, size_t r, int32_t p, uint32_t head, uint32_t d) {
    const double value = decoded ? value_of(side, r, p, head, d) : source(side, r, p, head, d);
    oracle::encode(type, oracle::kv_address(made, side, id_of(r, p), p % static_cast<int32_t>(kv.block_tokens), head, d), value);
  });
  return made;
}

double CodedCase::value_of(uint32_t side, size_t r, int32_t p, uint32_t head, uint32_t d) const {
  return static_cast<float>(oracle::coded_element(kv, side, id_of(r, p), p % static_cast<int32_t>(kv.block_tokens), head, d));
}

double CodedCase::step_of(uint32_t side, size_t r, int32_t p, uint32_t head, uint32_t d) const {
  const double was = source(side, r, p, head, d);
  return oracle::coded_step(kv, side, id_of(r, p), p % static_cast<int32_t>(kv.block_tokens), head, d, was);
}

// Rows as the codecs lay them; some bytes that nobody owns between the blocks.
void CodedCase::place(uint32_t sides, uint32_t block, uint64_t ids) {
  kv.codec = scheme_.split ? QUIRE_CODEC_BLOCK_SPLIT : QUIRE_CODEC_RECORD;
  kv.dtype = kBf16;
  kv.num_heads = heads_.kv;
  kv.block_tokens = block;
  kv.num_sides = sides;
  kv.num_ids = ids;
  kv.data_dtype = scheme_.data;
  kv.scale_dtype = scheme_.scale;
  kv.tail_dtype = scheme_.tail;
  kv.scale_elements = scheme_.scale_elements;
  int64_t unit = 0;
  int64_t begin[2] = {};
  for (uint32_t s = 0; s < sides; ++s) {
    quire_paged_side& side = kv.side[s];
    side.head_dim = s == 0 ? heads_.dim_k : heads_.dim_v;
    side.tail_dim = scheme_.tail_dim;
    const int64_t codes = side.head_dim - side.tail_dim;
    const int64_t data = codes * scheme_.data.bits / 8;
    const int64_t run = scheme_.scale_elements == 0 ? codes : scheme_.scale_elements;
    const int64_t scales = scheme_.scale.bits == 0 ? 0 : (codes + run - 1) / run * oracle::bytes_of(scheme_.scale) + scheme_.more_scales;
    const int64_t tail = side.tail_dim == 0 ? 0 : side.tail_dim * oracle::bytes_of(scheme_.tail);
    const int64_t row = data + tail + (scheme_.split ? 0 : scales);
    const int64_t rows = int64_t{block} * heads_.kv;
    begin[s] = unit;
    side.stride_head = row;
    side.stride_token = row * heads_.kv;
    side.tail_offset = scheme_.split ? data : data + scales;
    side.scales_offset = scheme_.split ? rows * row : data;
    side.scales_stride_head = scheme_.split ? scales : row;
    side.scales_stride_token = (scheme_.split ? scales : row) * heads_.kv;
    unit += rows * (row + (scheme_.split ? scales : 0));
  }
  unit += 24;
  pool.assign(static_cast<size_t>(unit) * ids, 0xff);
  mirror = pool;
  for (uint32_t s = 0; s < sides; ++s) kv.side[s].unit = unit, kv.side[s].base = pool.data() + begin[s];
}

}  // namespace quire::conformance
