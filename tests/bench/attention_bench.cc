// attention/: one layer's attention of the selected driver over the C ABI. Each call attends another row or layer of a cache of at least
// 1 GiB whose pages lie in random order, so that nothing is left in a cache of the processor. Bytes are counted once: the keys and values
// attended.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "../kernels/conformance/with_batch.h"
#include "fixtures.h"

namespace quire::bench {
namespace {

// Rows of codes with scales behind them (codec RECORD); "" = plain elements.
struct Records {
  const char* name = "";
  quire_dtype data{}, scale{};
  uint32_t scale_elements = 0;
  bool any() const { return data.bits != 0; }
  int64_t data_bytes(int64_t dim) const { return dim * data.bits / 8; }
  int64_t bytes(int64_t dim) const { return data_bytes(dim) + (scale_elements == 0 ? 1 : dim / scale_elements) * scale.bits / 8; }
};

struct Args {
  std::string order;  // DESIGN §4; L and P have extent 3 where they stand right of B
  quire_dtype dtype = kBf16;
  uint32_t page = 16, group = 1, kv_tokens = 32768, queries = 1;
  int64_t kv_heads = 8, dim_k = 128, dim_v = 128;
  bool latent = false;  // one side, values inside K's rows
  Records records;
  // What D steps over, and how many of them a row has.
  int64_t item_bytes() const { return records.any() ? 1 : dtype.bits / 8; }
  int64_t items(int64_t dim) const { return records.any() ? records.bytes(dim) : dim; }
  double logical_bytes() const {
    const int64_t of_row = (items(dim_k) + (latent ? 0 : items(dim_v))) * item_bytes();
    return static_cast<double>(kv_heads) * kv_tokens * static_cast<double>(of_row);
  }
  double operations() const {
    const double n = queries;
    const double pairs = n * kv_tokens - n * (n - 1) / 2;
    return 2.0 * static_cast<double>((dim_k + dim_v) * kv_heads * group) * pairs;
  }
};

// A cache of several rows and layers, and the calls over it.
class Cache {
 public:
  explicit Cache(const Args& a) : args_(a) {
    const size_t pages_at = a.order.find('B');
    for (char letter : {'L', 'P'}) {
      const size_t at = a.order.find(letter);
      if (at != std::string::npos && at > pages_at) layers_ *= 3;
    }
    const auto row_bytes = static_cast<int64_t>(a.logical_bytes());
    rows_ = std::max<int64_t>(1, std::min<int64_t>(64, (kWorkingSet + row_bytes * layers_ - 1) / (row_bytes * layers_)));
    columns_ = (a.kv_tokens + a.page - 1) / a.page;
    lay_out();
    pool_ = std::make_unique<Tensor>(a.records.any() ? kI8 : a.dtype, std::vector<int64_t>{bytes_ / a.item_bytes()});
    query_ = std::make_unique<Tensor>(kBf16, std::vector<int64_t>{a.queries, a.kv_heads * a.group, a.dim_k});
    out_ = std::make_unique<Tensor>(kBf16, std::vector<int64_t>{a.queries, a.kv_heads * a.group, a.dim_v});
    for (uint64_t id : shuffled(static_cast<uint64_t>(rows_ * columns_), 5)) table_.push_back(static_cast<int32_t>(id));
    indptr_[1] = static_cast<int32_t>(a.queries);
    length_ = static_cast<int32_t>(a.kv_tokens);
    describe();
  }

  const Tensor& outputs() const { return *out_; }

  void attend() {
    const int64_t row = turn_ % rows_;
    const int64_t layer = turn_ / rows_ % layers_;
    ++turn_;
    for (uint32_t s = 0; s < op_.kv.num_sides; ++s) {
      op_.kv.side[s].base = pool_->data() + layer % 3 * stride('P') + layer / 3 * stride('L') + s * stride('K');
      if (stride('P') == 0) op_.kv.side[s].base = pool_->data() + layer * stride('L') + s * stride('K');
    }
    op_.arrays.table = table_.data() + row * columns_;
    quire_error err = fresh_error();
    require(quire_op_attention(device().stream, &op_, &err), err);
    finish();
  }

 private:
  int64_t stride(char letter) const { return strides_[static_cast<unsigned char>(letter)]; }

  void lay_out() {
    bytes_ = args_.item_bytes();
    const size_t pages_at = args_.order.find('B');
    for (size_t i = args_.order.size(); i-- > 0;) {
      const char c = args_.order[i];
      int64_t extent = 1;
      if (c == 'B') extent = rows_ * columns_;
      if (c == 'K') extent = args_.latent ? 1 : 2;
      if (c == 'T') extent = args_.page;
      if (c == 'H') extent = args_.kv_heads;
      if (c == 'D') extent = args_.items(std::max(args_.dim_k, args_.dim_v));
      if ((c == 'L' || c == 'P') && i > pages_at) extent = 3;
      strides_[static_cast<unsigned char>(c)] = extent == 1 && (c == 'L' || c == 'P') ? 0 : bytes_;
      bytes_ *= extent;
    }
  }

  void describe() {
    op_.flags = QUIRE_ATTENTION_CAUSAL;
    op_.kv.dtype = args_.dtype;
    op_.kv.num_heads = static_cast<uint32_t>(args_.kv_heads);
    op_.kv.block_tokens = args_.page;
    op_.kv.num_sides = args_.latent ? 1 : 2;
    op_.kv.num_ids = static_cast<uint64_t>(rows_ * columns_);
    for (uint32_t s = 0; s < op_.kv.num_sides; ++s) {
      op_.kv.side[s] = {nullptr,
                        stride('B'),
                        stride('T'),
                        stride('H'),
                        stride('D'),
                        static_cast<uint32_t>(s == 0 ? args_.dim_k : args_.dim_v),
                        0,
                        0,
                        0,
                        0,
                        0};
    }
    if (args_.records.any()) describe_records();
    if (args_.latent) op_.head_dim_v = static_cast<uint32_t>(args_.dim_v);
    op_.query = query_->tensor;
    op_.out = out_->tensor;
    op_.arrays.table_pitch = static_cast<uint64_t>(columns_);
    op_.arrays.query_indptr = indptr_;
    op_.arrays.kv_len = &length_;
    op_.arrays.num_rows = 1;
  }

  void describe_records() {
    op_.kv.codec = QUIRE_CODEC_RECORD;
    op_.kv.data_dtype = args_.records.data;
    op_.kv.scale_dtype = args_.records.scale;
    op_.kv.scale_elements = args_.records.scale_elements;
    for (uint32_t s = 0; s < op_.kv.num_sides; ++s) {
      quire_paged_side& side = op_.kv.side[s];
      side.stride_dim = 0;
      side.scales_offset = args_.records.data_bytes(side.head_dim);
      side.scales_stride_token = side.stride_token;
      side.scales_stride_head = side.stride_head;
    }
  }

  Args args_;
  int64_t layers_ = 1, rows_ = 1, columns_ = 0, bytes_ = 0;
  int64_t strides_[128] = {};
  std::unique_ptr<Tensor> pool_, query_, out_;
  std::vector<int32_t> table_;
  int32_t indptr_[2] = {};
  int32_t length_ = 0;
  WithBatch<quire_attention> op_{};
  int64_t turn_ = 0;
};

// `beside`: the same work in another layout or format, taken in turns; `name` counts how many times as fast this one is (median).
void run(benchmark::State& state, const Args& a, const std::string& name, const Args* beside) {
  Cache cache(a);
  std::unique_ptr<Cache> other;
  if (beside != nullptr) other = std::make_unique<Cache>(*beside);
  const bool arithmetic = a.queries > 1 || a.latent;
  const Ceiling kind = arithmetic ? Ceiling::kMatrix : Ceiling::kRead;
  Pairs pairs(kind, arithmetic ? a.operations() : a.logical_bytes());
  Pairs others(kind, 1);
  std::vector<double> ratios;
  std::vector<double> cpu_ratios;
  cache.attend();
  state.counters["sum"] = magnitudes(cache.outputs());
  if (other) other->attend();
  double best = 1e30;
  for (auto _ : state) {
    const double seconds = pairs.run([&] { cache.attend(); });
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
    if (other) {
      const double share = pairs.last_share();
      ratios.push_back(others.run([&] { other->attend(); }) / seconds);
      cpu_ratios.push_back(others.last_share() / share);
    }
  }
  report(state, kind, pairs);
  if (!arithmetic) {
    state.counters["TFLOPs"] = a.operations() / best * 1e-12;
    state.counters["of_matrix"] = a.operations() / best * 1e-12 / ceiling(Ceiling::kMatrix);
  }
  state.counters["tokens_per_s"] = a.kv_tokens / best;
  if (other) {
    state.counters[name] = median(ratios);
    state.counters["cpu_" + name] = median(cpu_ratios);
  }
}

void add(const char* kind, const Args& a, int64_t rounds, const std::string& compare = "", const Args& beside = {}) {
  const char* dtype = a.dtype.code == QUIRE_DTYPE_BFLOAT ? "bf16"
                      : a.dtype.bits == 32               ? "f32"
                      : a.dtype.bits == 16               ? "f16"
                      : a.dtype.code == QUIRE_DTYPE_INT  ? "int8"
                                                         : "fp8_e4m3";
  if (a.records.any()) dtype = a.records.name;
  std::string name = std::string("attention/") + kind + "/" + dtype + "/" + a.order;
  if (a.queries > 1) {
    name += "/q:" + std::to_string(a.queries);
  } else {
    name += "/page:" + std::to_string(a.page) + "/G:" + std::to_string(a.group);
  }
  name += "/ctx:" + std::to_string(a.kv_tokens);
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) { run(s, a, compare, compare.empty() ? nullptr : &beside); })
      ->UseManualTime()
      ->Iterations(rounds)
      ->Unit(benchmark::kMillisecond);
}

Args decode(const std::string& order, uint32_t page, uint32_t group, quire_dtype dtype = kBf16) {
  Args a;
  a.order = order;
  a.page = page;
  a.group = group;
  a.dtype = dtype;
  return a;
}

const bool kRegistered = [] {
  for (uint32_t group : {1u, 2u, 4u, 8u, 16u}) add("decode", decode("LPBJKHTD", 16, group), 60);
  for (const char* order : {"BPJKHTD", "BPJKTHD"}) add("decode", decode(order, 16, 2), 60);
  for (uint32_t group : {1u, 4u, 8u}) {
    const Args compact = decode("LPBJKHTD", 528, group);
    add("decode", compact, 30);
    // Token-major, values behind their keys, packed layers, all layers of a page together (tokens or heads outermost).
    for (const char* order : {"LPBJKTHD", "LPBJTHKD", "LBJPKTHD", "BJLPKTHD", "BJKHLPTD"}) {
      add("decode", decode(order, 528, group), 30, "of_compact", compact);
    }
  }
  for (quire_dtype dtype : {kE4m3, kI8}) {
    for (uint32_t group : {1u, 8u}) {
      add("decode", decode("LPBJKHTD", 16, group, dtype), 40, "of_bf16", decode("LPBJKHTD", 16, group));
    }
  }
  const Records schemes[] = {{"int8_rows", kI8, kF32, 0},
                             {"int4_rows", {QUIRE_DTYPE_INT, 4, 1}, kF32, 0},
                             {"fp8_rows", kE4m3, kF32, 0},
                             {"nvfp4", {QUIRE_DTYPE_FLOAT4_E2M1FN, 4, 1}, kE4m3, 16}};
  for (const Records& records : schemes) {
    for (uint32_t group : {1u, 8u}) {
      Args a = decode("LPBJKHTD", 16, group);
      a.records = records;
      add("decode", a, 40, "of_bf16", decode("LPBJKHTD", 16, group));
    }
  }
  for (quire_dtype dtype : {kF16, kF32}) add("decode", decode("LPBJKHTD", 16, 4, dtype), 20);
  for (const char* order : {"LPBJKHTD", "LBJPKTHD"}) {
    Args a = decode(order, 16, 4);
    a.kv_tokens = 4096;
    a.queries = 512;
    add("prefill", a, 25);
  }
  Args latent = decode("LPBJTHD", 64, 128);
  latent.latent = true;
  latent.kv_heads = 1;
  latent.dim_k = 576;
  latent.dim_v = 512;
  latent.kv_tokens = 8192;
  add("mla_decode", latent, 25);
  return true;
}();

}  // namespace
}  // namespace quire::bench
