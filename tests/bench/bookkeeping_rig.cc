#include "bookkeeping_rig.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

namespace quire::bench {
namespace {

constexpr uint64_t kWindow = 1024;

quire_layer token_layer(uint32_t index, uint64_t window) {
  auto layer = client::sized<quire_layer>();
  layer.kind = window == 0 ? QUIRE_LAYER_FULL : QUIRE_LAYER_SLIDING_WINDOW;
  layer.layer = index;
  layer.num_kv_heads = 8;
  layer.num_q_heads = 32;
  layer.head_dim_k = layer.head_dim_v = 64;
  layer.dtype = {QUIRE_DTYPE_BFLOAT, 16, 1};
  layer.window = window;
  return layer;
}

quire_layer state_layer(uint32_t index) {
  auto layer = client::sized<quire_layer>();
  layer.kind = QUIRE_LAYER_STATE;
  layer.layer = index;
  layer.state_kind = QUIRE_STATE_GENERIC;
  layer.num_state_tensors = 1;
  layer.state[0] = {{QUIRE_DTYPE_FLOAT, 32, 1}, 3, {8, 64, 64, 0}};
  return layer;
}

client::Config make_plan(const std::vector<quire_layer>& layers, const char* policy, uint64_t pages) {
  quire_model* model = nullptr;
  client::Error error;
  client::check(quire_model_create(layers.data(), sizeof(quire_layer), layers.size(), kMaxModelLen, &model, &error), error);
  const client::Model owned(model);
  auto options = client::sized<quire_plan_options>();
  options.policy = client::to_str(policy);
  options.num_pages = pages;
  options.block_tokens = kBlockTokens;
  return client::plan(model, options);
}

}  // namespace

client::Config plan_windows(int64_t groups, uint64_t pages) {
  std::vector<quire_layer> layers;
  // One full layer among `groups`: the windows are cut into groups of as many layers.
  for (uint32_t i = 0; i < 24; ++i) layers.push_back(token_layer(i, i % static_cast<uint32_t>(groups) == 0 ? 0 : kWindow));
  return make_plan(layers, "vllm", pages);
}

client::Config plan_hybrid(uint64_t pages) {
  std::vector<quire_layer> layers;
  for (uint32_t i = 0; i < 24; ++i) {
    layers.push_back(i % 4 == 0 ? token_layer(i, 0) : i % 4 == 1 ? token_layer(i, kWindow) : state_layer(i));
  }
  return make_plan(layers, "auto", pages);
}

client::Config plan_mixed(int64_t groups, uint64_t pages) {
  std::vector<quire_layer> layers;
  for (uint32_t i = 0; i < 24; ++i) {
    const uint32_t kind = i % static_cast<uint32_t>(groups);
    layers.push_back(kind == 2 ? state_layer(i) : token_layer(i, kind == 1 ? kWindow : 0));
  }
  return make_plan(layers, "vllm", pages);
}

client::Cache make_cache(quire_config* config, uint32_t sequences, uint64_t tokens_per_step) {
  auto options = client::sized<quire_cache_options>();
  options.max_sequences = sequences;
  options.max_tokens_per_step = static_cast<uint32_t>(tokens_per_step);
  quire_cache* cache = nullptr;
  client::Error error;
  client::check(quire_cache_create(nullptr, config, &options, &cache, &error), error);
  return client::Cache(cache);
}

const char* trace_name() {
  const char* path = std::getenv("QUIRE_TRACE");
  return path != nullptr && *path != '\0' ? "QUIRE_TRACE" : "generator";
}

std::vector<replay::Request> read_requests(uint64_t limit) {
  if (std::strcmp(trace_name(), "generator") == 0) return replay::generate_trace(limit == 0 ? 4000 : limit, 7);
  return replay::read_trace(std::getenv("QUIRE_TRACE"), {.limit = limit});
}

uint64_t Laps::involuntary_switches() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<uint64_t>(usage.ru_nivcsw);
}

void Laps::add(Kind kind, double us, bool disturbed) {
  if (disturbed) {
    ++disturbed_;
    return;
  }
  total_[kind] += us;
  max_[kind] = std::max(max_[kind], us);
  all_.push_back(static_cast<float>(us));
}

double Laps::total_us() const { return std::accumulate(std::begin(total_), std::end(total_), 0.0); }
double Laps::max_us() const { return *std::max_element(std::begin(max_), std::end(max_)); }

double Laps::quantile_us(double q) const {
  if (all_.empty()) return 0;
  std::vector<float> sorted = all_;
  const auto rank = static_cast<std::ptrdiff_t>(q * static_cast<double>(sorted.size() - 1));
  std::nth_element(sorted.begin(), sorted.begin() + rank, sorted.end());
  return static_cast<double>(sorted[static_cast<size_t>(rank)]);
}

Fills::Fills(quire_config* config, uint64_t longest) {
  auto info = client::sized<quire_config_info>();
  client::check(quire_config_get_info(config, &info, &error_), error_);
  const uint64_t table = (longest + kBlockTokens - 1) / kBlockTokens, words = (table + 1) / 2 + longest;
  memory_.resize(words * info.num_groups);
  for (uint32_t g = 0; g < info.num_groups; ++g) {
    auto group = client::sized<quire_group_info>();
    client::check(quire_config_get_group(config, g, &group, &error_), error_);
    if (group.is_state != 0 || group.ids_per_block != 1 || group.block_tokens != kBlockTokens) continue;
    auto fill = client::sized<quire_fill>();
    fill.group = g;
    fill.kind = QUIRE_FILL_SLOTS;
    fill.capacity = longest;
    fill.destination = &memory_[words * g];
    fills_.push_back(fill);
    fill.kind = QUIRE_FILL_TABLE;
    fill.pitch = fill.capacity = table;
    fill.destination = &memory_[words * g + longest];
    fills_.push_back(fill);
  }
  written_.resize(fills_.size());
}

void Fills::write(quire_step step) {
  client::check(quire_step_fill(step, fills_.data(), sizeof(quire_fill), fills_.size(), written_.data(), &error_), error_);
}

Client::Client(quire_cache* cache, Laps* laps, Fills* fills) : cache_(cache), laps_(*laps), fills_(fills) {}

void Client::serve(const std::vector<quire_symbol>& prompt) {
  quire_sequence_id sequence = 0;
  auto probed = client::sized<quire_probe_result>();
  laps_.time(Laps::kCreate, [&] { client::check(quire_sequence_create(cache_, nullptr, &sequence, &error_), error_); });
  laps_.time(Laps::kProbe, [&] { client::check(quire_probe(cache_, nullptr, prompt.data(), prompt.size(), &probed, &error_), error_); });
  for (uint64_t done = 0; done < prompt.size();) done = chunk(sequence, prompt, done);
  laps_.time(Laps::kFinish, [&] { client::check(quire_sequence_finish(cache_, sequence, &error_), error_); });
  ++requests_;
  prompt_tokens_ += prompt.size();
  hit_tokens_ += probed.hit_tokens;
}

uint64_t Client::chunk(quire_sequence_id sequence, const std::vector<quire_symbol>& prompt, uint64_t done) {
  quire_reserve_entry entry{};
  entry.sequence = sequence;
  entry.symbols_position = entry.symbols_offset = done;
  entry.num_symbols = entry.num_tokens = static_cast<uint32_t>(prompt.size() - done);
  entry.flags = QUIRE_ENTRY_PROMPT_END | (done == 0 ? QUIRE_ENTRY_MATCH : 0);
  quire_reserve_result result{};
  quire_step step{};
  laps_.time(Laps::kReserve,
             [&] { client::check(quire_reserve(cache_, &entry, 1, prompt.data(), prompt.size(), &result, &step, &error_), error_); });
  if (result.code != QUIRE_OK) throw client::Failure(result.code, "a prompt of " + std::to_string(prompt.size()) + " tokens was refused");
  if (fills_ != nullptr) laps_.time(Laps::kFill, [&] { fills_->write(step); });
  const quire_commit_entry accepted = {sequence, 0, 0, 0, result.num_tokens};
  laps_.time(Laps::kCommit, [&] { client::check(quire_commit(step, &accepted, 1, nullptr, 0, &error_), error_); });
  return result.position + result.num_tokens;
}

Touch::Touch(uint64_t blocks) : lines_(blocks * 8, 1) {}

void Touch::serve(const std::vector<quire_symbol>& prompt) {
  same_ = prompt;
  const auto start = Clock::now();
  bool equal = std::memcmp(same_.data(), prompt.data(), prompt.size() * sizeof(quire_symbol)) == 0;
  uint64_t sum = 0;
  for (size_t b = 0; b < prompt.size() / kBlockTokens; ++b) {
    sum += ++lines_[next_];
    next_ = next_ + 8 < lines_.size() ? next_ + 8 : 0;
  }
  benchmark::DoNotOptimize(equal);
  benchmark::DoNotOptimize(sum);
  total_us_ += std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

}  // namespace quire::bench
