// quire_gpu_bench --driver=NAME [--modules=FOLDER] [--flags=N] [--rows=TEXT] [--small]: the benchmark table of a driver whose memory is a
// device's, opened with N as the flags of its options, as JSON on stdout. Every row is queued over a working set that no cache holds, timed
// from an idle stream to an idle stream, and compared with what the same device copies in the same process (bytes read plus written). A row
// of attention says by which kernel it went, and if its pages were refused to the copy engine, how. --rows: those whose name has the text.
// --small makes everything so small that any driver can do it: what the numbers say then is nothing, but the program is tested.
#include "tests/kernels/gpu/gpu_bench.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/conformance/with_batch.h"
#include "tests/kernels/gpu/graph.h"

namespace quire::conformance {
namespace {

struct Decode {
  std::string name;
  std::vector<int32_t> lengths;
  uint32_t group = 4;
  uint32_t page = 16;
  uint32_t queries = 1;       // per row
  uint32_t layers_apart = 1;  // layers that share a page: ids are so many blocks apart
  quire_dtype cache = kBf16;
  uint32_t kv_heads = 8, dim = 128;
};

// One step's attention over as many layers as make a working set, one call after another over the next layer.
class Attention {
 public:
  Attention(const Decode& d, uint64_t working_set) : d_(d) {
    uint64_t columns = 0, blocks = 0, tokens = 0;
    for (const int32_t n : d.lengths) {
      const uint64_t mine = (static_cast<uint64_t>(n) + d.page - 1) / d.page;
      columns = std::max(columns, mine);
      blocks += mine;
      tokens += static_cast<uint64_t>(n);
    }
    const uint64_t element = d.cache.bits / 8, row_bytes = d.dim * element,
                   side = row_bytes * d.page * d.kv_heads;  // heads outside of tokens
    const uint64_t layer_bytes = blocks * side * 2 * d.layers_apart;
    pools_ = std::max<uint64_t>(1, std::min<uint64_t>(64, working_set / std::max<uint64_t>(layer_bytes, 1) + 1));
    bytes_ = static_cast<double>(tokens) * d.kv_heads * d.dim * 2 * static_cast<double>(element);
    for (const int32_t n : d.lengths) {
      const double q = d.queries, seen = q * n - q * (q - 1) / 2;
      operations_ += 4.0 * d.dim * d.kv_heads * d.group * seen;
    }
    pool_ = std::make_unique<Block>(pools_ * layer_bytes);
    randomise(*pool_, d.cache);
    const uint64_t rows = d.lengths.size(), heads = uint64_t{d.kv_heads} * d.group, queries = rows * d.queries;
    query_ = std::make_unique<Block>(queries * heads * d.dim * 2);
    out_ = std::make_unique<Block>(queries * heads * d.dim * 2);
    randomise(*query_);
    op_.flags = QUIRE_ATTENTION_CAUSAL;
    op_.kv.dtype = d.cache;
    op_.kv.num_heads = d.kv_heads;
    op_.kv.block_tokens = d.page;
    op_.kv.num_sides = 2;
    op_.kv.num_ids = blocks;
    const auto stride = [](uint64_t n) { return static_cast<int64_t>(n); };
    for (uint32_t s = 0; s < 2; ++s) {
      op_.kv.side[s] = {
          nullptr, stride(side * 2 * d.layers_apart), stride(row_bytes), stride(row_bytes * d.page), stride(element), d.dim, 0, 0, 0, 0, 0};
    }
    side_ = side;
    layer_bytes_ = layer_bytes;
    const std::vector<int64_t> shape = {static_cast<int64_t>(queries), static_cast<int64_t>(heads), d.dim};
    op_.query = dense(*query_, kBf16, shape);
    op_.out = dense(*out_, kBf16, shape);
    op_.arrays.table_pitch = columns;
    op_.arrays.num_rows = static_cast<uint32_t>(rows);
    make_table();
    make_plan();
  }

  void attend() {
    aim(turn_++ % num_layers());
    quire_error err = fresh_error();
    require(api().attention(driver().stream, &op_, &err), d_.name.c_str(), err);
  }
  // Where the driver says so.
  static std::string kernel() { return attended_by(driver().stream); }
  uint64_t num_layers() const { return pools_ * d_.layers_apart; }
  double bytes() const { return bytes_; }
  double operations() const { return operations_; }

 private:
  void make_table() {
    const std::vector<int32_t> ids = shuffled(op_.kv.num_ids);
    const uint64_t columns = op_.arrays.table_pitch;
    std::vector<int32_t> table(d_.lengths.size() * columns, 0);
    for (uint64_t r = 0, next = 0; r < d_.lengths.size(); ++r) {
      for (uint64_t c = 0; c * d_.page < static_cast<uint64_t>(d_.lengths[r]); ++c) table[r * columns + c] = ids[next++];
    }
    table_ = put(table.data(), table.size() * 4);
    op_.arrays.table = reinterpret_cast<const int32_t*>(table_->data());
  }
  // Made by the host once, as for all layers of a step; the kernels find everything in the device's memory.
  void make_plan() {
    Array<int32_t> indptr(d_.lengths.size() + 1), lengths(d_.lengths.begin(), d_.lengths.end());
    for (uint64_t r = 0; r < indptr.size(); ++r) indptr[r] = static_cast<int32_t>(r * d_.queries);
    op_.arrays.query_indptr = indptr.data();
    op_.arrays.kv_len = lengths.data();
    aim(0);
    quire_error err = fresh_error();
    uint64_t plan_bytes = 0, workspace_bytes = 0;
    const auto longest = static_cast<uint64_t>(*std::max_element(lengths.begin(), lengths.end()));
    require(api().attention_workspace(driver().device, op_.arrays.num_rows, static_cast<uint64_t>(indptr.back()), longest,
                                      d_.kv_heads * d_.group, d_.dim, &plan_bytes, &workspace_bytes, &err),
            "attention_workspace", err);
    Array<uint64_t> plan(plan_bytes / 8 + 1);
    require(api().attention_plan(driver().device, &op_, plan.data(), plan_bytes, &err), "attention_plan", err);
    plan_ = put(plan.data(), plan_bytes);
    workspace_ = std::make_unique<Block>(workspace_bytes);
    indptr_ = put(indptr.data(), indptr.size() * 4);
    lengths_ = put(lengths.data(), lengths.size() * 4);
    op_.plan = plan_->data();
    op_.plan_bytes = plan_bytes;
    op_.workspace = workspace_->data();
    op_.workspace_bytes = workspace_->bytes();
    op_.arrays.query_indptr = reinterpret_cast<const int32_t*>(indptr_->data());
    op_.arrays.kv_len = reinterpret_cast<const int32_t*>(lengths_->data());
  }
  void aim(uint64_t layer) {
    char* base = pool_->data() + layer / d_.layers_apart * layer_bytes_ + layer % d_.layers_apart * side_ * 2;
    op_.kv.side[0].base = base;
    op_.kv.side[1].base = base + side_;
  }

  Decode d_;
  uint64_t pools_ = 1, side_ = 0, layer_bytes_ = 0, turn_ = 0;
  double bytes_ = 0, operations_ = 0;
  std::unique_ptr<Block> pool_, query_, out_, table_, plan_, workspace_, indptr_, lengths_;
  WithBatch<quire_attention> op_{};
};

void attention(const Decode& d, uint64_t working_set, int rounds) {
  if (!want(d.name)) return;
  Attention a(d, working_set);
  const bool prefill = d.queries > 1;
  const Seconds s = measure([&] { a.attend(); }, rounds);
  print(d.name, s, prefill ? 0 : a.bytes(), prefill ? a.operations() : 0, a.kernel());
}

// The same with every layer's call recorded once and replayed, on an engine's stream; no row where the device has no graphs.
void replayed(const Decode& d, uint64_t working_set, int rounds) {
  quire_device_info info{};
  info.struct_size = sizeof info;
  quire_error err = fresh_error();
  require(api().device_info(driver().device, &info, &err), "device_info", err);
  const std::unique_ptr<Graphs> graphs = want(d.name) ? Graphs::open(info.device_type) : nullptr;
  if (graphs == nullptr) return;
  Attention a(d, working_set);
  quire_driver_stream* const own = driver().stream;
  require(api().stream_create(driver().device, graphs->native(), &driver().stream, &err), "stream_create", err);
  for (uint64_t i = 0; i < a.num_layers(); ++i) {
    graphs->record();
    a.attend();
    graphs->keep();
  }
  uint64_t turn = 0;
  const Seconds s = measure([&] { graphs->launch(turn++ % a.num_layers()); }, rounds);
  print(d.name, s, a.bytes(), 0, a.kernel());
  api().stream_destroy(driver().stream);
  driver().stream = own;
}

// Strided pages beside compact ones, in turns; the median of the pairs' ratios.
void strided(uint64_t working_set, int rounds) {
  Decode d{"attention/decode/bf16/HND/page:528/layers:3", std::vector<int32_t>(8, scale().tokens(33792)), 8, 528, 1, 3};
  if (!want(d.name)) return;
  Decode compact = d;
  compact.layers_apart = 1;
  Attention one(d, working_set), other(compact, working_set);
  std::vector<double> ratios, times;
  for (int i = 0; i < rounds; ++i) {
    const Seconds mine = measure([&] { one.attend(); }, 1), theirs = measure([&] { other.attend(); }, 1);
    ratios.push_back(theirs.best / mine.best);
    times.push_back(mine.best);
  }
  std::sort(ratios.begin(), ratios.end());
  std::sort(times.begin(), times.end());
  const Seconds s{times.front(), times[times.size() / 2]};
  print(d.name, s, one.bytes(), 0, one.kernel());
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.4f", ratios[ratios.size() / 2]);
  print("\"name\": \"" + d.name + "/of_compact\", \"ratio\": " + ratio);
}

void append(uint64_t tokens, int rounds) {
  if (!want("copy/append/bf16")) return;
  constexpr uint64_t kHeads = 8, kDim = 128, kPage = 16, kRow = kHeads * kDim * 2;
  const uint64_t ids = tokens / kPage;
  Block pool(tokens * kRow * 2), key(tokens * kRow), value(tokens * kRow);
  randomise(key);
  randomise(value);
  std::vector<int64_t> order(tokens);
  const std::vector<int32_t> pages = shuffled(ids);
  for (uint64_t t = 0; t < tokens; ++t)
    order[t] = static_cast<int64_t>(pages[t / kPage]) * static_cast<int64_t>(kPage) + static_cast<int64_t>(t % kPage);
  const std::unique_ptr<Block> slots = put(order.data(), tokens * 8);
  WithBatch<quire_kv_append> op{};
  op.kv.dtype = kBf16;
  op.kv.num_heads = kHeads;
  op.kv.block_tokens = kPage;
  op.kv.num_sides = 2;
  op.kv.num_ids = ids;
  for (uint32_t s = 0; s < 2; ++s) {
    op.kv.side[s] = {pool.data() + s * kPage * kRow,
                     static_cast<int64_t>(2 * kPage * kRow),
                     static_cast<int64_t>(kDim * 2),
                     static_cast<int64_t>(kPage * kDim * 2),
                     2,
                     kDim,
                     0,
                     0,
                     0,
                     0,
                     0};
  }
  op.key = dense(key, kBf16, {static_cast<int64_t>(tokens), kHeads, kDim});
  op.value = dense(value, kBf16, {static_cast<int64_t>(tokens), kHeads, kDim});
  op.arrays.slots = reinterpret_cast<const int64_t*>(slots->data());
  op.set_tokens(tokens);
  const auto call = [&] {
    quire_error failed = fresh_error();
    require(api().kv_append(driver().stream, &op, &failed), "kv_append", failed);
  };
  print("copy/append/bf16", measure(call, rounds), static_cast<double>(tokens * kRow * 4), 0);
}

// Pages to other pages, and pages of one head's tokens to staging memory in order.
void pages(const char* name, uint64_t bytes, uint64_t run, bool in_order, int rounds) {
  if (!want(name)) return;
  Block from(bytes), to(bytes);
  randomise(from);
  const uint64_t n = bytes / run;
  const std::vector<int32_t> source = shuffled(n);
  std::vector<quire_copy_run> runs;
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t at = in_order ? i : static_cast<uint64_t>(source[(i + n / 2) % n]);
    runs.push_back({address(from.data()) + static_cast<uint64_t>(source[i]) * run, address(to.data()) + at * run, run});
  }
  print(name, measure([&] { copy(runs); }, rounds), 2.0 * static_cast<double>(n * run), 0);
}

void rows() {
  const uint64_t set = scale().set;
  const int rounds = scale().rounds;
  const auto tokens = [&](uint64_t n) { return scale().tokens(n); };
  const auto decode = [&](const std::string& name, std::vector<int32_t> lengths, uint32_t group) {
    attention({"attention/decode/bf16/HND/page:16/G:" + std::to_string(group) + "/" + name, std::move(lengths), group}, set, rounds);
  };
  for (const uint32_t group : {4u, 8u}) {
    decode("ctx:8x32k", std::vector<int32_t>(8, tokens(32768)), group);
    decode("ctx:64x8k", std::vector<int32_t>(64, tokens(8192)), group);
    decode("ctx:1x32k", {tokens(32768)}, group);
  }
  decode("ctx:1x1k", {tokens(1024)}, 8);
  replayed({"attention/decode/bf16/HND/page:16/G:8/ctx:1x1k/graph", {tokens(1024)}, 8}, set, rounds);
  std::vector<int32_t> skewed(32, tokens(4096));
  skewed[7] = tokens(131072);
  decode("ctx:1x128k+31x4k", skewed, 8);
  attention({"attention/decode/fp8/HND/page:16/G:8/ctx:8x32k", std::vector<int32_t>(8, tokens(32768)), 8, 16, 1, 1, kFp8}, set, rounds);
  strided(set, rounds);
  const auto prefill = static_cast<uint32_t>(tokens(8192));
  attention({"attention/prefill/bf16/HND/q:8192/ctx:8192", {tokens(8192)}, 4, 16, prefill}, set, rounds);
  attention({"attention/prefill/bf16/HND/q:8192/ctx:8192/page:528/layers:3", {tokens(8192)}, 4, 528, prefill, 3}, set, rounds);
  append(static_cast<uint64_t>(tokens(65536)), rounds);
  pages("copy/page/run:65536", set, 65536, false, rounds);
  pages("copy/gather/run:4096", set / 4, 4096, true, rounds);
  state_rows();
}

}  // namespace
}  // namespace quire::conformance

int main(int argc, char** argv) {
  namespace q = quire::conformance;
  std::string name;
  std::string folder = QUIRE_MODULE_DIR;
  std::string wanted;
  uint64_t flags = 0;
  bool small = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--driver=", 0) == 0) name = argument.substr(9);
    if (argument.rfind("--modules=", 0) == 0) folder = argument.substr(10);
    if (argument.rfind("--flags=", 0) == 0) flags = std::strtoull(argument.c_str() + 8, nullptr, 0);
    if (argument.rfind("--rows=", 0) == 0) wanted = argument.substr(7);
    if (argument == "--small") small = true;
  }
  if (name.empty()) {
    std::fprintf(stderr, "usage: quire_gpu_bench --driver=NAME [--modules=FOLDER] [--flags=N] [--rows=TEXT] [--small]\n");
    return 2;
  }
  bool absent = false;
  const std::string problem = q::open_driver(folder, name, flags, &absent);
  if (!problem.empty()) {
    std::fprintf(stderr, "driver %s: %s\n", name.c_str(), problem.c_str());
    return absent ? 77 : 2;
  }
  quire_device_info info{};
  info.struct_size = sizeof info;
  quire_error err = q::fresh_error();
  q::require(q::driver().api->device_info(q::driver().device, &info, &err), "device_info", err);
  std::printf("{\n  \"driver\": \"%s\",\n  \"device\": \"%s\",\n  \"flags\": %llu,\n  \"small\": %s,\n", name.c_str(), info.name,
              static_cast<unsigned long long>(flags), small ? "true" : "false");
  q::begin_table(small, wanted);
  q::rows();
  q::end_table();
  q::close_driver();
  return 0;
}
