#include "hybrid_engine.h"

#include <algorithm>
#include <chrono>

namespace quire::bench {
namespace {

// Calls of the library whose failure ends the process.
template <typename... Arguments, typename... Given>
void must(quire_code (*call)(Arguments...), Given... given) {
  quire_error err = fresh_error();
  require(call(given..., &err), err);
}

quire_tensor first_rows(const Tensor& tensor, uint32_t rows) {
  quire_tensor t = tensor.tensor;
  t.shape[0] = rows;
  return t;
}

// Of rows [channels]: [heads, dim] from this channel on.
quire_tensor heads_of(const Tensor& tensor, uint32_t rows, uint64_t first, uint64_t heads, uint64_t dim) {
  quire_tensor t = first_rows(tensor, rows);
  t.data = tensor.data() + first * 2;
  t.ndim = 3;
  t.shape[1] = static_cast<int64_t>(heads);
  t.shape[2] = static_cast<int64_t>(dim);
  t.stride[2] = 2;
  t.stride[1] = static_cast<int64_t>(dim) * 2;
  return t;
}

}  // namespace

struct HybridEngine::Layer {
  bool is_state = false;
  quire_attention attention{};
  quire_paged_state delta{}, conv{};
  uint64_t heads_k = 0, heads_v = 0, dim = 0, channels = 0;
};

// For one step of the longest chunk.
struct HybridEngine::Inputs {
  Tensor query, key, value, attended;          // attention
  Tensor conv_in, conv_out, taps, gate, beta;  // gated delta
  Tensor out;

  Inputs(const quire_layer& a, const Layer& s, int64_t tokens, int64_t width)
      : query(kBf16, {tokens, a.num_q_heads, a.head_dim_k}),
        key(kBf16, {tokens, a.num_kv_heads, a.head_dim_k}),
        value(kBf16, {tokens, a.num_kv_heads, a.head_dim_v}),
        attended(kBf16, {tokens, a.num_q_heads, a.head_dim_v}),
        conv_in(kBf16, {tokens, static_cast<int64_t>(s.channels)}),
        conv_out(kBf16, {tokens, static_cast<int64_t>(s.channels)}),
        taps(kBf16, {static_cast<int64_t>(s.channels), width}),
        gate(kF32, {tokens, static_cast<int64_t>(s.heads_v)}, -0.2f, -0.05f),
        beta(kF32, {tokens, static_cast<int64_t>(s.heads_v)}, 0.2f, 0.8f),
        out(kBf16, {tokens, static_cast<int64_t>(s.heads_v), static_cast<int64_t>(s.dim)}) {}
};

HybridEngine::HybridEngine(const HybridOptions& options) : options_(options) {
  auto of_runtime = client::sized<quire_runtime_options>();
  const std::string folder = QUIRE_MODULES;
  of_runtime.header_abi = QUIRE_ABI_VERSION;
  of_runtime.connector_path = client::to_str(folder);
  of_runtime.num_threads = options.threads;
  quire_runtime* runtime = nullptr;
  must(quire_runtime_create, &of_runtime, &runtime);
  runtime_.reset(runtime);
  make_layers();

  auto plan = client::sized<quire_plan_options>();
  plan.memory_bytes = &options_.pool_bytes;
  plan.num_memory_bytes = 1;
  plan.max_model_len = options.max_len;
  plan.max_tokens_in_flight = 2 * uint64_t{options.chunk};
  config_ = client::plan(model_.get(), plan);
  auto of_config = client::sized<quire_config_info>();
  must(quire_config_get_info, config_.get(), &of_config);
  batches_.resize(of_config.num_groups);

  auto of_cache = client::sized<quire_cache_options>();
  of_cache.max_sequences = options.sequences;
  of_cache.max_tokens_per_step = static_cast<uint32_t>(options.max_len) + options.chunk;
  of_cache.max_load_tokens = options.max_len;
  quire_cache* cache = nullptr;
  must(quire_cache_create, runtime, config_.get(), &of_cache, &cache);
  cache_.reset(cache);
  quire_device* device = nullptr;
  must(quire_device_open, runtime, uint32_t{0}, &device);
  device_.reset(device);
  must(quire_stream_create, device, uint32_t{0}, &stream_);
  must(quire_memory_create, device, config_.get(), uint32_t{0}, &memory_);

  uint32_t index = 0;
  for (Layer& layer : layers_) {
    if (layer.is_state) {
      must(quire_memory_get_paged_state, memory_, index, uint32_t{0}, uint32_t{0}, &layer.conv);
      must(quire_memory_get_paged_state, memory_, index, uint32_t{0}, uint32_t{1}, &layer.delta);
      if (layer.conv.shape[0] > layer.conv.shape[1]) {  // kept as [channels, taps]
        std::swap(layer.conv.shape[0], layer.conv.shape[1]);
        std::swap(layer.conv.stride[0], layer.conv.stride[1]);
      }
    } else {
      must(quire_memory_get_paged_kv, memory_, index, uint32_t{0}, &layer.attention.kv);
    }
    ++index;
  }
}

HybridEngine::~HybridEngine() {
  close_tier();
  quire_memory_release(memory_);
  quire_stream_release(stream_);
}

void HybridEngine::make_layers() {
  const client::Model whole = client::read_model(std::string(QUIRE_SAMPLE_MODELS) + "/qwen3-next-80b.json");
  std::vector<quire_layer> first;
  const quire_layer* attention = nullptr;
  for (uint32_t i = 0; i < options_.layers; ++i) {
    auto layer = client::sized<quire_layer>();
    must(quire_model_get_layer, whole.get(), i, &layer);
    first.push_back(layer);
    Layer& own = layers_.emplace_back();
    own.is_state = layer.kind == QUIRE_LAYER_STATE;
    if (own.is_state) {
      own.heads_v = layer.state[1].shape[0];
      own.dim = layer.state[1].shape[1];
      own.channels = std::max(layer.state[0].shape[0], layer.state[0].shape[1]);
      own.heads_k = (own.channels / own.dim - own.heads_v) / 2;
    } else {
      own.attention.struct_size = sizeof own.attention;
      must(quire_attention_from_layer, &layer, &own.attention);
    }
  }
  for (const quire_layer& layer : first) attention = layer.kind == QUIRE_LAYER_FULL ? &layer : attention;
  const quire_state_tensor& conv = first[0].state[0];
  inputs_ =
      std::make_unique<Inputs>(*attention, layers_[0], options_.chunk, static_cast<int64_t>(std::min(conv.shape[0], conv.shape[1]) + 1));
  quire_model* model = nullptr;
  must(quire_model_create, first.data(), uint64_t{sizeof(quire_layer)}, uint64_t{first.size()}, options_.max_len, &model);
  model_.reset(model);
}

quire_sequence_info HybridEngine::info(quire_sequence_id sequence) const {
  auto info = client::sized<quire_sequence_info>();
  must(quire_sequence_get_info, cache_.get(), sequence, &info);
  return info;
}

quire_sequence_id HybridEngine::open() {
  quire_sequence_id sequence = 0;
  must(quire_sequence_create, cache_.get(), nullptr, &sequence);
  return sequence;
}

void HybridEngine::finish(quire_sequence_id sequence) { must(quire_sequence_finish, cache_.get(), sequence); }

void HybridEngine::forget() { must(quire_cache_reset, cache_.get()); }

void HybridEngine::run(quire_step step, bool kernels) {
  must(quire_memory_prepare_step, memory_, step, stream_);
  auto options = client::sized<quire_batch_options>();
  uint64_t needed = 0;
  for (bool fits = false; !fits;) {
    options.memory = arrays_.data();
    options.bytes = arrays_.size() * sizeof arrays_[0];
    quire_error err = fresh_error();
    const quire_code code = quire_step_get_batch(step, &options, batches_.data(), sizeof batches_[0], batches_.size(), &needed, &err);
    fits = needed <= options.bytes;
    if (fits) require(code, err);
    if (!fits) arrays_.resize(2 * needed / sizeof arrays_[0] + 1);
  }
  for (size_t i = 0; kernels && i < layers_.size(); ++i) run_layer(layers_[i], batches_[0].num_tokens);
  must(quire_stream_synchronize, stream_, int64_t{-1});
}

void HybridEngine::run_layer(const Layer& layer, uint32_t tokens) {
  const Inputs& in = *inputs_;
  if (!layer.is_state) {
    const quire_batch* const batch = &batches_[layer.attention.kv.group];
    auto append = client::sized<quire_kv_append>();
    append.kv = layer.attention.kv;
    append.batch = batch;
    append.key = first_rows(in.key, tokens);
    append.value = first_rows(in.value, tokens);
    must(quire_op_kv_append, stream_, &append);
    quire_attention op = layer.attention;
    op.batch = batch;
    op.query = first_rows(in.query, tokens);
    op.out = first_rows(in.attended, tokens);
    return must(quire_op_attention, stream_, &op);
  }
  auto conv = client::sized<quire_conv1d>();
  conv.flags = QUIRE_CONV1D_SILU;
  conv.state = layer.conv;
  conv.batch = &batches_[layer.conv.group];
  conv.input = first_rows(in.conv_in, tokens);
  conv.weight = in.taps.tensor;
  conv.out = first_rows(in.conv_out, tokens);
  must(quire_op_conv1d, stream_, &conv);
  const uint64_t keys = layer.heads_k * layer.dim;
  auto delta = client::sized<quire_gated_delta>();
  delta.flags = QUIRE_GATED_DELTA_V_MAJOR | QUIRE_GATED_DELTA_L2NORM;
  delta.state = layer.delta;
  delta.batch = &batches_[layer.delta.group];
  delta.query = heads_of(in.conv_out, tokens, 0, layer.heads_k, layer.dim);
  delta.key = heads_of(in.conv_out, tokens, keys, layer.heads_k, layer.dim);
  delta.value = heads_of(in.conv_out, tokens, 2 * keys, layer.heads_v, layer.dim);
  delta.gate = first_rows(in.gate, tokens);
  delta.beta = first_rows(in.beta, tokens);
  delta.out = first_rows(in.out, tokens);
  must(quire_op_gated_delta, stream_, &delta);
}

void HybridEngine::compute(quire_sequence_id sequence, const Prompt& prompt, bool kernels) {
  for (quire_sequence_info at = info(sequence); at.committed < prompt.size(); at = info(sequence)) {
    quire_reserve_entry entry{};
    entry.sequence = sequence;
    entry.symbols_position = entry.symbols_offset = at.known;
    entry.num_symbols = static_cast<uint32_t>(prompt.size() - at.known);
    entry.num_tokens = static_cast<uint32_t>(std::min<uint64_t>(options_.chunk, prompt.size() - at.committed));
    entry.flags = (at.known == 0 ? QUIRE_ENTRY_MATCH : 0) | (at.committed + entry.num_tokens == prompt.size() ? QUIRE_ENTRY_PROMPT_END : 0);
    quire_reserve_result result{};
    quire_step step{};
    quire_error err = fresh_error();
    require(quire_reserve(cache_.get(), &entry, 1, prompt.data(), prompt.size(), &result, &step, &err), err);
    if (result.code != QUIRE_OK) throw client::Failure(result.code, "a chunk of a prompt was refused");
    run(step, kernels);
    const bool ends = result.position + result.num_tokens == prompt.size();
    const quire_symbol next = 1;
    const quire_commit_entry commit = {sequence, prompt.size(), 0, ends ? 1u : 0u, result.num_tokens};
    must(quire_commit, step, &commit, uint64_t{1}, &next, uint64_t{ends});
    run_tiers(0, nullptr);
  }
}

void HybridEngine::decode(std::span<const quire_sequence_id> sequences) {
  std::vector<quire_reserve_entry> entries(sequences.size());
  std::vector<quire_reserve_result> results(sequences.size());
  std::vector<quire_commit_entry> commits(sequences.size());
  const std::vector<quire_symbol> symbols(sequences.size(), 1);
  for (size_t i = 0; i < sequences.size(); ++i) {
    entries[i].sequence = sequences[i];
    entries[i].num_tokens = 1;
  }
  quire_step step{};
  quire_error err = fresh_error();
  require(quire_reserve(cache_.get(), entries.data(), entries.size(), nullptr, 0, results.data(), &step, &err), err);
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (results[i].code != QUIRE_OK) throw client::Failure(results[i].code, "a token was refused");
    commits[i] = {sequences[i], results[i].position + 1, i, 1, 1};
  }
  run(step);
  must(quire_commit, step, commits.data(), uint64_t{commits.size()}, symbols.data(), uint64_t{symbols.size()});
  run_tiers(0, nullptr);
}

void HybridEngine::open_tier(const HybridTier& tier) {
  must(quire_connector_open, runtime_.get(), client::to_str(tier.connector), client::to_str(tier.config), &connector_);
  quire_tier own{};
  own.connector = connector_;
  own.reasons = tier.is_peers ? 0 : QUIRE_UNIT_COMMITTED;
  own.flags = tier.is_peers ? QUIRE_TIER_PEERS : 0;
  own.max_store_bytes = tier.is_peers ? options_.pool_bytes : 0;
  auto options = client::sized<quire_tiers_options>();
  options.weights = client::to_str("bench");
  options.memories = &memory_;
  options.streams = &stream_;
  options.tiers = &own;
  options.num_tiers = 1;
  options.ns_per_token = tier.ns_per_token;
  must(quire_tiers_create, cache_.get(), &options, &tiers_);
}

void HybridEngine::close_tier() {
  quire_tiers_release(tiers_);
  quire_connector_release(connector_);
  tiers_ = nullptr;
  connector_ = nullptr;
}

void HybridEngine::run_tiers(int64_t timeout_ns, std::vector<quire_fetch_result>* results) {
  if (tiers_ == nullptr) return;
  quire_fetch_result ends[4];
  uint64_t n = 0;
  const auto begin = std::chrono::steady_clock::now();
  must(quire_tiers_run, tiers_, timeout_ns, &ends[0], uint64_t{results != nullptr ? 4u : 0u}, &n);
  tiers_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (results != nullptr) results->assign(ends, ends + n);
}

quire_fetch_result HybridEngine::fetch(quire_sequence_id sequence, const Prompt& prompt) {
  quire_fetch_id fetch = 0;
  must(quire_fetch_begin, tiers_, sequence, prompt.data(), uint64_t{prompt.size()}, int64_t{0}, &fetch);
  std::vector<quire_fetch_result> results;
  while (results.empty()) run_tiers(1'000'000, &results);
  return results[0];
}

quire_fetch_result HybridEngine::fetch_from(const quire_peer& peer, quire_sequence_id sequence, const Prompt& prompt) {
  quire_fetch_id fetch = 0;
  must(quire_fetch_begin_peer, tiers_, sequence, prompt.data(), uint64_t{prompt.size()}, int64_t{0}, &peer, &fetch);
  std::vector<quire_fetch_result> results;
  while (results.empty()) run_tiers(1'000'000, &results);
  return results[0];
}

quire_offer HybridEngine::offer(quire_sequence_id sequence, const Prompt& prompt, uint64_t end_token) {
  quire_offer offer{};
  must(quire_offer_begin, tiers_, sequence, prompt.data(), uint64_t{prompt.size()}, end_token, uint32_t{0}, &offer);
  for (auto info = client::sized<quire_offer_info>(); info.is_ready == 0;) {
    run_tiers(0, nullptr);
    must(quire_offer_get_info, tiers_, &offer.handle[0], &info);
  }
  return offer;
}

void HybridEngine::complete(const quire_offer& offer) {
  auto info = client::sized<quire_offer_info>();
  while (info.num_tokens != offer.end_token && quire_offer_get_info(tiers_, offer.handle, &info, nullptr) == QUIRE_OK) {
    run_tiers(1'000'000, nullptr);
  }
}

void HybridEngine::settle() {
  std::vector<quire_fetch_result> results;
  for (uint64_t taken = UINT64_MAX; taken != tiers_stats().units_taken || tiers_stats().units_in_flight != 0;) {
    taken = tiers_stats().units_taken;
    run_tiers(1'000'000, &results);
  }
}

quire_tier_stats HybridEngine::tier_stats() const {
  auto stats = client::sized<quire_tier_stats>();
  must(quire_tiers_get_tier_stats, tiers_, uint32_t{0}, &stats);
  return stats;
}

quire_tiers_stats HybridEngine::tiers_stats() const {
  auto stats = client::sized<quire_tiers_stats>();
  must(quire_tiers_get_stats, tiers_, &stats);
  return stats;
}

quire_cache_stats HybridEngine::cache_stats() const {
  auto stats = client::sized<quire_cache_stats>();
  must(quire_cache_get_stats, cache_.get(), &stats);
  return stats;
}

HybridEngine::Prompt hybrid_prompt(uint64_t number, size_t tokens) {
  HybridEngine::Prompt prompt(tokens);
  uint64_t random = number * 1000003 + 17;
  for (quire_symbol& symbol : prompt) symbol = static_cast<quire_symbol>(next_random(&random) % 150000);
  return prompt;
}

}  // namespace quire::bench
